package delivery

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	// maxRuns bounds the runs whose deliveries are in memory or have to be taken.
	maxRuns = 20_000
	// maxKept is the number of versions of a run that are kept; beyond, the newest replaces them. maxVersions and maxHeld bound those of all
	// runs together; maxHeld is in bytes.
	maxKept     = 64
	maxVersions = 10_000
	maxHeld     = 32 << 20
	// entrySize is the estimated size of an entry without notes and outcome, and unknownSize that of an entry that was not read yet.
	entrySize   = 512
	unknownSize = 64 << 10
)

// line is a claimed delivery that waits for its turn, or whose request is in progress. While it is active, its row, claim, entry and part belong to its
// goroutine.
type line struct {
	webhook.Place

	row     *Delivery
	claimed time.Time     // when the claim was asked for
	entry   *ledger.Entry // the version that is being sent; nil: none yet
	part    int           // the events of this version that were sent
	active  bool
	cursor  int64     // that of the row when the line was last inactive
	next    *Delivery // as it was claimed again while the line was active, or replaced; nil: it was not
	nextAt  time.Time // when that claim was asked for
	until   time.Time // the end of a pause
}

// claim makes a claim that of an inactive line.
func (l *line) claim(row *Delivery, claimed time.Time) {
	if row.Host == l.Host && l.cursor != Over {
		row.Cursor = max(row.Cursor, l.cursor) // what was sent is stored with the next settlement
	}
	l.row, l.claimed, l.entry, l.part, l.cursor, l.next = row, claimed, nil, 0, row.Cursor, nil
}

// heard is a run whose deliveries are in memory or have to be taken.
type heard struct {
	versions []*ledger.Entry // kept, in order
	lines    map[string]*line
	wanted   bool // its deliveries have to be taken
}

// lines are the deliveries in memory. The lock of the [Deliverer] protects them.
type lines struct {
	runs     map[ledger.Identity]*heard
	wanted   []ledger.Identity // those of runs that are wanted
	places   places
	schedule webhook.Schedule[*line]
	versions int   // kept, in all runs
	held     int64 // memory of these, in bytes
}

// ownerOf returns the name of an owner in a schedule.
func ownerOf(o ledger.Owner) string { return o.Realm + "\n" + o.Principal }

func sizeOf(e *ledger.Entry) int64 { return entrySize + int64(len(e.Notes)+len(e.Outcome)) }

// of returns a run, which perhaps is not in memory yet.
func (ls *lines) of(id ledger.Identity) *heard {
	if r := ls.runs[id]; r != nil {
		return r
	}
	return &heard{lines: map[string]*line{}}
}

// want makes sure that the deliveries of a run are taken, and keeps a version for them; nil: none. If there is no room, they are found later.
func (ls *lines) want(id ledger.Identity, e *ledger.Entry) {
	r := ls.of(id)
	if len(ls.runs) >= maxRuns && ls.runs[id] == nil {
		return
	}
	ls.runs[id] = r
	if e != nil {
		ls.keep(r, e)
	}
	if !r.wanted {
		r.wanted = true
		ls.wanted = append(ls.wanted, id)
	}
}

// keep keeps a version of a run, unless it is known or there is no room.
func (ls *lines) keep(r *heard, e *ledger.Entry) {
	n := len(r.versions)
	if n > 0 && r.versions[n-1].Version >= e.Version {
		return
	}
	if n >= maxKept {
		ls.trim(r, e.Version)
	}
	if ls.versions < maxVersions && ls.held < maxHeld { // else the newest one is read
		r.versions = append(r.versions, e)
		ls.versions++
		ls.held += sizeOf(e)
	}
}

// trim forgets the versions of a run up to one.
func (ls *lines) trim(r *heard, to int64) {
	for len(r.versions) > 0 && r.versions[0].Version <= to {
		ls.versions--
		ls.held -= sizeOf(r.versions[0])
		r.versions = r.versions[1:]
	}
}

// retry makes the deliveries of a run wanted that could not be taken. Its versions are forgotten: another instance may have sent newer ones before the next attempt.
func (ls *lines) retry(id ledger.Identity) {
	if r := ls.runs[id]; r != nil {
		ls.trim(r, math.MaxInt64)
	}
	ls.want(id, nil)
}

// take returns wanted runs, at most as many, which are wanted no more.
func (ls *lines) take(most int) []ledger.Identity {
	n := min(most, len(ls.wanted))
	ids := ls.wanted[:n:n]
	ls.wanted = slices.Clone(ls.wanted[n:])
	for _, id := range ids {
		ls.runs[id].wanted = false
	}
	return ids
}

// add adds a claimed delivery. If there is no place for it, it returns after which time the delivery is due again.
func (ls *lines) add(row *Delivery, claimed time.Time) (wait time.Duration) {
	r := ls.of(row.Run)
	if l := r.lines[row.Receiver]; l != nil { // its claim has ended
		switch {
		case l.active, l.Host != row.Host:
			l.next, l.nextAt = row, claimed
		default:
			l.claim(row, claimed)
		}
		return 0
	}
	l := &line{Place: webhook.Place{Owner: ownerOf(row.Run.Owner), Host: row.Host, Size: unknownSize}, row: row, claimed: claimed, cursor: row.Cursor}
	if !row.EndOnly { // its events have to come in order, so that those of other runs must not delay them
		l.Pace = row.Run.ID + "\n" + row.Receiver
	}
	if wait := ls.places.enter(l.Owner, l.Host, l.Pace != ""); wait > 0 {
		return wait
	}
	if n := len(r.versions); n > 0 {
		l.Size = entrySize + r.versions[n-1].Size()
	}
	ls.runs[row.Run], r.lines[row.Receiver] = r, l
	ls.schedule.Add(l)
	return 0
}

// replace gives a line that is not in the schedule the delivery as it was claimed again.
func (ls *lines) replace(l *line) {
	l.claim(l.next, l.nextAt)
	ls.places.count(l.Owner, l.Host, -1)
	l.Host = l.row.Host
	ls.places.count(l.Owner, l.Host, 1)
}

// remove removes a line that is not in the schedule.
func (ls *lines) remove(l *line) {
	delete(ls.runs[l.row.Run].lines, l.row.Receiver)
	ls.places.count(l.Owner, l.Host, -1)
	ls.forget(l.row.Run)
}

// forget forgets what no line of a run needs any more.
func (ls *lines) forget(id ledger.Identity) {
	r := ls.runs[id]
	if r == nil || r.wanted {
		return
	}
	least := int64(math.MaxInt64)
	for _, l := range r.lines {
		least = min(least, l.cursor)
	}
	ls.trim(r, least)
	if len(r.lines) == 0 {
		delete(ls.runs, id)
	}
}

// after returns the first kept version of a run after one; nil: there is none.
func (ls *lines) after(id ledger.Identity, version int64) *ledger.Entry {
	if r := ls.runs[id]; r != nil {
		for _, e := range r.versions {
			if e.Version > version {
				return e
			}
		}
	}
	return nil
}

const (
	// maxLines bounds the deliveries in memory, of which an owner may have maxOfOwner, and those of an owner to one host maxOfHost. When all places are
	// taken, each owner still gets as many as for one host. Deliveries with rates of their own may have maxPaced of an owner to one host.
	maxLines   = 20_000
	maxOfOwner = 512
	maxOfHost  = 16
	maxPaced   = 256
	// What finds no place is due again behind what else waits for the same host, whose rate is known, or for its owner: one after the other by these paces,
	// but after maxWait at the latest.
	hostPace  = time.Second
	ownerPace = 50 * time.Millisecond
	leastWait = lookAgain
	maxWait   = 5 * time.Minute
)

// place is a host of an owner, or with an empty host all of an owner; the zero value stands for all.
type place struct{ owner, host string }

// places bounds the lines in memory.
type places struct {
	of     map[place]int // taken ones
	queues webhook.Rates // of what waits for a place
}

// enter takes a place. If there is none, it returns after which time the delivery is due again.
func (p *places) enter(owner, host string, paced bool) (wait time.Duration) {
	all, at := place{owner, ""}, place{owner, host}
	switch {
	case !paced && p.of[at] >= maxOfHost:
		return p.wait(at, hostPace)
	case p.of[at] >= maxPaced:
		return p.wait(at, ownerPace)
	case p.of[all] >= maxOfOwner, p.of[place{}] >= maxLines && p.of[all] >= maxOfHost:
		return p.wait(all, ownerPace)
	}
	p.count(owner, host, 1)
	return 0
}

// count adds a number to the taken places.
func (p *places) count(owner, host string, n int) {
	for _, at := range []place{{}, {owner, ""}, {owner, host}} {
		if p.of[at] += n; p.of[at] == 0 {
			delete(p.of, at)
		}
	}
}

// wait returns the time to the end of a queue.
func (p *places) wait(at place, pace time.Duration) time.Duration {
	now := time.Now()
	queue := p.queues.Get(at.owner, at.host, now, pace, maxWait-leastWait)
	if queue.SetInterval(pace); !queue.Take(now) {
		return maxWait + rand.N(maxWait/10) //nolint:gosec // it spreads them
	}
	return leastWait + queue.Rest(now)
}
