package callbacks

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

const (
	// maxLines bounds the call-backs that wait for their next request, and maxLinesOfOne those of one owner. Further ones are read from
	// the storage later.
	maxLines      = 20_000
	maxLinesOfOne = 5_000
	// soon is the longest time until its next request in which a call-back keeps its place when another one needs it, unless its owner has more
	// places. The storage has the time of the request, and the number of those before.
	soon = time.Minute
)

// lineKey identifies a call-back.
type lineKey struct{ owner, id string }

// line is a call-back that waits for its next request, or whose request is in progress. The lock of the [Deliverer] protects it, except for
// tries, which belong to the goroutine of the request.
type line struct {
	webhook.Place

	id    string
	since time.Time // the end of the run
	tries int       // the requests so far
	next  time.Time // the time of the next request, while the line rests
	timer *time.Timer
}

// lines are the call-backs in memory. The lock of the [Deliverer] protects them.
type lines struct {
	most, mostOfOne int

	all      map[lineKey]*line
	owners   map[string]*share
	schedule webhook.Schedule[*line]
	stored   int           // call-backs that are only in the storage, as far as known
	missed   bool          // a call-back was not queued, for want of a place or of a configuration, or has given way: watch looks for its run
	misses   chan struct{} // of capacity 1: tells watch
}

// share are the lines of one owner.
type share struct {
	lines   int
	resting map[*line]struct{} // those that wait for the time of their next request
}

func newLines() lines {
	return lines{
		most: maxLines, mostOfOne: maxLinesOfOne, all: map[lineKey]*line{}, owners: map[string]*share{}, schedule: webhook.Schedule[*line]{Paced: true},
		misses: make(chan struct{}, 1),
	}
}

// miss notes that a call-back is only in the storage.
func (ls *lines) miss() {
	ls.missed = true
	ls.stored++
	select {
	case ls.misses <- struct{}{}:
	default:
	}
}

// admit reports whether there is a place for another line of an owner to a host. If all places are taken, a line of the owner with the
// most lines gives way: one that is not sent soon, or any if that owner has more. If the owner itself has too many, one gives way that is not
// sent soon, or that waits for its turn at a host for which there are more than for this one. The storage has all of them.
func (ls *lines) admit(owner, host string, now time.Time) bool {
	own := ls.owners[owner]
	if own == nil {
		own = new(share)
	}
	switch {
	case own.lines >= ls.mostOfOne:
		return ls.giveWay(own, now, soon) || ls.recall(owner, host)
	case len(ls.all) < ls.most:
		return true
	}
	most, name := own, owner
	for other, s := range ls.owners {
		if s.lines > most.lines {
			most, name = s, other
		}
	}
	return ls.giveWay(most, now, soon) || most.lines > own.lines+1 && (ls.recall(name, "") || ls.giveWay(most, now, 0))
}

// giveWay removes a line whose next request is later than after a time. It reports whether there was one.
func (ls *lines) giveWay(of *share, now time.Time, than time.Duration) bool {
	for l := range of.resting {
		if after := l.next.Sub(now); after > than {
			if after < nextRead {
				ls.miss()
			} else { // a later reading of the index finds it in time
				ls.stored++
			}
			ls.remove(l)
			return true
		}
	}
	return false
}

// recall removes a line that waits for its turn at the host with the most, if that has more than another one. It reports whether there was one.
func (ls *lines) recall(owner, than string) bool {
	l, ok := ls.schedule.Recall(owner, than)
	if ok {
		ls.miss()
		ls.remove(l)
	}
	return ok
}

// add adds a line, which neither rests nor waits for its turn yet.
func (ls *lines) add(l *line) {
	ls.all[lineKey{l.Owner, l.id}] = l
	s := ls.owners[l.Owner]
	if s == nil {
		s = &share{resting: map[*line]struct{}{}}
		ls.owners[l.Owner] = s
	}
	s.lines++
}

// rest makes a line wait for a time. Then it is called.
func (ls *lines) rest(l *line, after time.Duration, then func()) {
	l.next = time.Now().Add(after)
	ls.owners[l.Owner].resting[l] = struct{}{}
	l.timer = time.AfterFunc(after, then)
}

// wake ends the rest of a line. It reports whether the line has rested until now.
func (ls *lines) wake(l *line) bool {
	s := ls.owners[l.Owner]
	if s == nil {
		return false
	}
	if _, ok := s.resting[l]; !ok {
		return false
	}
	delete(s.resting, l)
	l.next = time.Time{}
	return true
}

// remove removes a line that does not wait for its turn.
func (ls *lines) remove(l *line) {
	if l.timer != nil {
		l.timer.Stop()
	}
	delete(ls.all, lineKey{l.Owner, l.id})
	s := ls.owners[l.Owner]
	delete(s.resting, l)
	if s.lines--; s.lines == 0 {
		delete(ls.owners, l.Owner)
	}
}
