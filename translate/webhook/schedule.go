package webhook

import (
	"cmp"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// The largest numbers of requests at the same time.
const (
	maxActive         = 64
	maxActivePerOwner = 16
	maxActivePerHost  = 8
	// No request begins while the bodies of those in progress have this many bytes together, or those of its owner half as many.
	maxBodies = 64 << 20
)

// Place is the place of a queue of requests in a [Schedule], for types that embed it.
type Place struct {
	Owner string // does not change
	Host  string // may change while the queue is not in the schedule
	Pace  string // of a queue with a rate of its own: whose; empty: all others of its owner to its host share one. It does not change
	Size  int64  // the estimated size of the next request's body

	body int64 // the size and the host of the request in progress
	at   string
}

func (p *Place) place() *Place { return p }

// Schedule selects the queue of type Q for the next request. Owners take turns, and so do the hosts of an owner, so that slow hosts and
// owners with many queues do not delay others. It is not safe for concurrent use.
type Schedule[Q interface{ place() *Place }] struct {
	rates Rates
	later share.Heap[*pausing[Q]] // hosts and queues that have no turn yet

	active int
	bodies int64
	hosts  map[string]int // requests in progress
	owners map[string]*ownerTurns[Q]
	turns  []*ownerTurns[Q] // the owners with queues, in the order of their turns
}

// pair is an owner and a host.
type pair struct{ owner, host string }

// pausing is a host of an owner, or a queue, that has no turn before a time.
type pausing[Q any] struct {
	share.Spot

	until time.Time
	of    *ownerTurns[Q]
	host  *hostTurns[Q] // nil: it is a queue
	queue Q
}

// Before orders them by the ends of their pauses.
func (p *pausing[Q]) Before(other *pausing[Q]) bool { return p.until.Before(other.until) }

// ownerTurns are the queues of one owner that wait.
type ownerTurns[Q any] struct {
	name   string
	active int
	bodies int64
	hosts  map[kind]*hostTurns[Q] // those with queues
	turns  []*hostTurns[Q]        // those of them that do not pause, in the order of their turns
}

// kind is a host, and whether the queues to it have rates of their own.
type kind struct {
	host string
	own  bool
}

// hostTurns are the queues of one owner and kind, in order.
type hostTurns[Q any] struct {
	kind

	queues []Q
}

// Active returns the number of requests in progress.
func (s *Schedule[Q]) Active() int { return s.active }

// Add adds a queue.
func (s *Schedule[Q]) Add(q Q) {
	p := q.place()
	if s.owners == nil {
		s.owners, s.hosts = map[string]*ownerTurns[Q]{}, map[string]int{}
	}
	o := s.owners[p.Owner]
	if o == nil {
		o = &ownerTurns[Q]{name: p.Owner, hosts: map[kind]*hostTurns[Q]{}}
		s.owners[p.Owner] = o
	}
	k := kind{p.Host, p.Pace != ""}
	h := o.hosts[k]
	if h == nil {
		h = &hostTurns[Q]{kind: k}
		o.hosts[k] = h
		s.turn(o, h)
	}
	h.queues = append(h.queues, q)
}

// turn gives a host of an owner turns.
func (s *Schedule[Q]) turn(o *ownerTurns[Q], h *hostTurns[Q]) {
	if o.turns = append(o.turns, h); len(o.turns) == 1 {
		s.turns = append(s.turns, o)
	}
}

// AddLater adds a queue that has no turn before a time.
func (s *Schedule[Q]) AddLater(q Q, at time.Time) {
	s.later.Push(&pausing[Q]{until: at, queue: q})
}

// resume gives the hosts and queues whose pauses are over turns again.
func (s *Schedule[Q]) resume(now time.Time) {
	for s.later.Len() > 0 && !s.later.First().until.After(now) {
		if l := s.later.Pop(); l.host != nil {
			s.turn(l.of, l.host)
		} else {
			s.Add(l.queue)
		}
	}
}

// Wait returns the time after which [Schedule.Next] has to be called because a pause ends; 0: nothing pauses.
func (s *Schedule[Q]) Wait(now time.Time) time.Duration {
	if s.later.Len() == 0 {
		return 0
	}
	return max(s.later.First().until.Sub(now), 1)
}

// Next removes and returns the next queue that may send a request. [Schedule.Done] has to be called when the request has ended.
func (s *Schedule[Q]) Next(now time.Time) (q Q, ok bool) {
	s.resume(now)
	if s.active >= maxActive || s.bodies >= maxBodies {
		return q, false
	}
	for range s.turns { // at most maxActive/maxActivePerOwner owners are skipped
		o := s.turns[0]
		s.turns = s.turns[1:]
		q, ok = s.nextOf(o, now)
		if len(o.turns) > 0 {
			s.turns = append(s.turns, o)
		}
		if ok {
			p := q.place()
			p.body, p.at = min(p.Size, maxBodies/2), p.Host
			s.active++
			s.bodies += p.body
			s.hosts[p.at]++
			o.active++
			o.bodies += p.body
			return q, true
		}
		s.forget(o)
	}
	return q, false
}

func (s *Schedule[Q]) nextOf(o *ownerTurns[Q], now time.Time) (q Q, ok bool) {
	if o.active >= maxActivePerOwner || o.bodies >= maxBodies/2 {
		return q, false
	}
	for range o.turns { // at most maxActive/maxActivePerHost hosts are skipped, and those that begin to pause
		h := o.turns[0]
		o.turns = o.turns[1:]
		if s.hosts[h.host] >= maxActivePerHost {
			o.turns = append(o.turns, h)
			continue
		}
		q, ok, wait := s.nextTo(o, h, now)
		switch {
		case len(h.queues) == 0:
			delete(o.hosts, h.kind)
		case wait > 0:
			s.later.Push(&pausing[Q]{until: now.Add(wait), of: o, host: h})
		default:
			o.turns = append(o.turns, h)
		}
		if ok {
			return q, true
		}
	}
	return q, false
}

// nextTo removes and returns the next queue of an owner to a host. wait is how long the host pauses if there is none. Queues with rates of their own pause alone.
func (s *Schedule[Q]) nextTo(o *ownerTurns[Q], h *hostTurns[Q], now time.Time) (q Q, ok bool, wait time.Duration) {
	for len(h.queues) > 0 {
		q = h.queues[0]
		rate := s.rates.Get(o.name, cmp.Or(q.place().Pace, h.host), now, pause, burst*pause)
		ok = rate.Take(now)
		if wait = rate.Delay(now); !ok && !h.own {
			return q, false, wait
		}
		if h.queues = h.queues[1:]; ok {
			return q, true, 0
		}
		s.AddLater(q, now.Add(wait))
	}
	return q, false, 0
}

// Done ends the request of a queue that Next returned.
func (s *Schedule[Q]) Done(q Q) {
	p := q.place()
	s.active--
	s.bodies -= p.body
	if s.hosts[p.at]--; s.hosts[p.at] == 0 {
		delete(s.hosts, p.at)
	}
	o := s.owners[p.Owner]
	o.active--
	o.bodies -= p.body
	s.forget(o)
}

// forget forgets an owner that has no queues and no requests.
func (s *Schedule[Q]) forget(o *ownerTurns[Q]) {
	if o.active == 0 && len(o.hosts) == 0 {
		delete(s.owners, o.name)
	}
}
