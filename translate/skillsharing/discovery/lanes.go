package discovery

import (
	"context"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Lane is what the descriptors of a publisher at one host have in common: they are likely to be readable, or slow, together. The zero Lane is that
// of a source's indexes.
type Lane struct {
	Publisher string // in the ids of the skills of a registry
	Host      string // with the port, as it is written
}

// LaneOf returns the lane of a descriptor and the id in its index entry. Only registries list skills of several publishers.
func LaneOf(at Location, id string, inRegistry bool) Lane {
	_, rest, _ := strings.Cut(string(at), "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if !inRegistry {
		return Lane{Host: rest}
	}
	return Lane{publisherOf(id), rest}
}

// Hostname returns the host without the port.
func (l Lane) Hostname() string { return (&url.URL{Host: l.Host}).Hostname() }

// IsFresh reports whether the cache has a fresh descriptor for a location, so that reading it does not wait for its host.
func IsFresh(r *Reader, at Location) bool {
	doc, _ := r.Cache.Peek(string(at), r.partition(descriptorDocument), r.constant().number)
	return doc != nil && time.Now().Before(doc.ExpiresAt)
}

const (
	laneAtOnce  = 8  // reads of one lane, and about as many of one host or publisher with several lanes
	readsAtOnce = 32 // of one source
)

// Read calls read once for each of the documents of a source that lanes have, with their numbers. read returns whether the context has ended before the
// document was read.
//
// The lanes take turns. The documents of a lane are read in the order of their numbers if inOrder is set and the lane has not stalled; else in a random one.
// Read waits for a lane only while documents of it arrive, and not longer than a list waits for a source as a whole. Then the
// context of the reads has ended, so that they have what is in memory. What was begun is read to its end, so that the next list has it.
func (s *Stalls) Read(ctx context.Context, lanes map[int]Lane, inOrder bool, read func(ctx context.Context, i int) (late bool)) {
	if len(lanes) == 0 {
		return
	}
	r := &reading{ctx: ctx, stalls: s, read: read, began: time.Now()}
	if ctx.Err() != nil {
		for i := range lanes {
			read(ctx, i)
		}
		return
	}
	r.sort(lanes, inOrder)
	r.ended = make(chan end)
	r.many = s.many()
	whole := time.NewTimer(s.patience(wholeLane, wholePatience, tiredPatience))
	defer whole.Stop()
	check := time.NewTimer(0)
	defer check.Stop()
	for r.begin(); r.running > 0; r.begin() {
		check.Reset(r.giveUp(time.Now()))
		select {
		case e := <-r.ended:
			r.running--
			e.lane.running--
			e.lane.last, e.lane.late, e.lane.answers = time.Now(), e.lane.late || e.late, e.lane.answers || !e.late
		case <-check.C:
		case <-whole.C:
			s.note(wholeLane)
			for _, l := range r.lanes {
				l.giveUp()
			}
		}
	}
	for _, l := range r.lanes {
		l.cancel(nil)
		if l.gone && l.late && r.ctx.Err() == nil {
			s.note(l.Lane)
		}
		for _, i := range l.waiting { // of a lane that was given up: what is in memory
			r.read(l.ctx, i)
		}
	}
}

// reading reads documents of one source for a list.
type reading struct {
	ctx    context.Context
	stalls *Stalls
	read   func(ctx context.Context, i int) (late bool)

	began   time.Time
	many    bool    // lanes of the source have stalled
	lanes   []*lane // the next one first
	running int
	ended   chan end
}

// end is the end of a read of a lane.
type end struct {
	lane *lane
	late bool
}

// lane are the documents of a reading that are of one publisher at one host.
type lane struct {
	Lane
	waiting  []int // documents, in the wanted order or, after a stall, in none that a provider can choose
	running  int
	most     int // reads at a time
	patience time.Duration
	last     time.Time // when a read ended, or the first one began; zero: none has begun
	answers  bool      // a read has ended in time
	gone     bool      // it is given up
	late     bool      // a read of it had not ended then

	ctx    context.Context
	cancel context.CancelCauseFunc
}

// sort makes the lanes. Those that have stalled have their turns last.
func (r *reading) sort(all map[int]Lane, inOrder bool) {
	lanes, publishers, hosts := map[Lane]*lane{}, map[string]int{}, map[string]int{}
	for i, key := range all {
		of := lanes[key]
		if of == nil {
			of = &lane{Lane: key, patience: r.stalls.patience(key, lanePatience, leastPatience)}
			of.ctx, of.cancel = context.WithCancelCause(r.ctx)
			lanes[key] = of
			r.lanes = append(r.lanes, of)
			publishers[key.Publisher]++
			hosts[key.Hostname()]++
		}
		of.waiting = append(of.waiting, i)
	}
	for _, l := range r.lanes {
		l.most = max(1, laneAtOnce/max(publishers[l.Publisher], hosts[l.Hostname()]))
		if slices.Sort(l.waiting); !inOrder || l.patience < lanePatience { // those that came first have stalled
			shuffle(l.waiting)
		}
	}
	shuffle(r.lanes)
	slices.SortStableFunc(r.lanes, func(a, b *lane) int { return int(b.patience - a.patience) })
}

func shuffle[T any](list []T) {
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] }) //nolint:gosec // no secret depends on it: an order that differs each time
}

// begin begins reads in turns of the lanes, as many as there is room for.
func (r *reading) begin() {
	for passed := 0; passed < len(r.lanes) && r.running < readsAtOnce; passed++ {
		l := r.lanes[0]
		r.lanes = append(r.lanes[1:], l)
		if l.gone || len(l.waiting) == 0 || l.running == l.most {
			continue
		}
		passed = -1
		i := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.running++
		r.running++
		if l.last.IsZero() {
			l.last = time.Now()
		}
		go func() {
			r.ended <- end{l, r.read(l.ctx, i)}
		}()
	}
}

// giveUp gives up the lanes that have stalled, and returns when it is to be called again.
func (r *reading) giveUp(now time.Time) time.Duration {
	next, most := lanePatience, lanePatience
	if r.many || slices.ContainsFunc(r.lanes, func(l *lane) bool { return l.last.IsZero() }) {
		next, most = briefPatience, briefPatience
	}
	for _, l := range r.lanes {
		left := most
		if l.running > 0 {
			left = min(l.patience, most) - now.Sub(l.last)
		}
		if r.many && !l.answers { // also one that has had no turn yet
			left = min(left, briefPatience-now.Sub(r.began))
		}
		switch {
		case l.gone || l.running+len(l.waiting) == 0:
		case left <= 0:
			l.giveUp()
		default:
			next = min(next, left)
		}
	}
	return next
}

// giveUp ends the reads of the lane, as far as this list is concerned.
func (l *lane) giveUp() {
	l.gone = true
	l.cancel(context.DeadlineExceeded)
}
