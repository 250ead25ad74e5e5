package webhook

import (
	"slices"
	"time"
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
	Size  int64  // the estimated size of the next request's body

	body int64 // the size and the host of the request in progress
	at   string
}

func (p *Place) place() *Place { return p }

// Schedule selects the queue of type Q for the next request. Owners take turns, and so do the hosts of an owner, so that slow hosts and
// owners with many queues do not delay others. It is not safe for concurrent use.
type Schedule[Q interface{ place() *Place }] struct {
	// Paced limits the requests of an owner to a host by a [Rate], over all queues. It does not change.
	Paced bool

	rates rates        // of a paced schedule
	later []pausing[Q] // hosts of owners with queues whose rate does not allow a request yet
	first time.Time    // the end of the first pause of these; zero: there is none

	active int
	bodies int64
	hosts  map[string]int // requests in progress
	owners map[string]*ownerTurns[Q]
	turns  []*ownerTurns[Q] // the owners with queues, in the order of their turns
}

// pair is an owner and a host.
type pair struct{ owner, host string }

// pausing is a host of an owner that has no turn before a time.
type pausing[Q any] struct {
	of    *ownerTurns[Q]
	host  *hostTurns[Q]
	until time.Time
}

// ownerTurns are the queues of one owner that wait.
type ownerTurns[Q any] struct {
	name   string
	active int
	bodies int64
	hosts  map[string]*hostTurns[Q] // those with queues
	turns  []*hostTurns[Q]          // those of them that do not pause, in the order of their turns
}

// hostTurns are the queues of one owner to one host, in order.
type hostTurns[Q any] struct {
	name   string
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
		o = &ownerTurns[Q]{name: p.Owner, hosts: map[string]*hostTurns[Q]{}}
		s.owners[p.Owner] = o
	}
	h := o.hosts[p.Host]
	if h == nil {
		h = &hostTurns[Q]{name: p.Host}
		o.hosts[p.Host] = h
		s.turn(o, h)
	}
	h.queues = append(h.queues, q)
}

// Recall removes and returns the newest queue of an owner to the host to which it has the most. ok is false if that has not at least two more than
// another host.
func (s *Schedule[Q]) Recall(owner, than string) (q Q, ok bool) {
	o := s.owners[owner]
	if o == nil {
		return q, false
	}
	var h *hostTurns[Q]
	for _, other := range o.hosts {
		if h == nil || len(other.queues) > len(h.queues) {
			h = other
		}
	}
	least := 0
	if other := o.hosts[than]; other != nil {
		least = len(other.queues) + 1
	}
	if h == nil || len(h.queues) <= least {
		return q, false
	}
	last := len(h.queues) - 1
	q = h.queues[last]
	h.queues = h.queues[:last]
	if last > 0 {
		return q, true
	}
	delete(o.hosts, h.name)
	s.later = slices.DeleteFunc(s.later, func(l pausing[Q]) bool { return l.host == h })
	if had := len(o.turns); had > 0 {
		if o.turns = slices.DeleteFunc(o.turns, func(other *hostTurns[Q]) bool { return other == h }); len(o.turns) == 0 {
			s.turns = slices.DeleteFunc(s.turns, func(other *ownerTurns[Q]) bool { return other == o })
		}
	}
	s.forget(o)
	return q, true
}

// turn gives a host of an owner turns.
func (s *Schedule[Q]) turn(o *ownerTurns[Q], h *hostTurns[Q]) {
	if o.turns = append(o.turns, h); len(o.turns) == 1 {
		s.turns = append(s.turns, o)
	}
}

// pause gives a host of an owner no more turns for a time.
func (s *Schedule[Q]) pause(o *ownerTurns[Q], h *hostTurns[Q], until time.Time) {
	s.later = append(s.later, pausing[Q]{o, h, until})
	if s.first.IsZero() || until.Before(s.first) {
		s.first = until
	}
}

// resume gives the hosts whose pauses are over turns again.
func (s *Schedule[Q]) resume(now time.Time) {
	if s.first.IsZero() || s.first.After(now) {
		return
	}
	all := s.later
	s.later, s.first = nil, time.Time{}
	for _, l := range all {
		switch {
		case l.until.After(now):
			s.pause(l.of, l.host, l.until)
		default:
			s.turn(l.of, l.host)
		}
	}
}

// Wait returns the time after which [Schedule.Next] has to be called because the pause of a host ends; 0: no host pauses.
func (s *Schedule[Q]) Wait(now time.Time) time.Duration {
	if s.first.IsZero() {
		return 0
	}
	return max(s.first.Sub(now), 1)
}

// rate returns the rate of a host of an owner; nil: the schedule is not paced.
func (s *Schedule[Q]) rate(owner, host string, now time.Time) *Rate {
	if !s.Paced {
		return nil
	}
	return s.rates.get(owner, host, now)
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
		if s.hosts[h.name] >= maxActivePerHost {
			o.turns = append(o.turns, h)
			continue
		}
		if r := s.rate(o.name, h.name, now); r != nil {
			if wait := r.Wait(now); wait > 0 {
				s.pause(o, h, now.Add(wait))
				continue
			}
			r.Spend(now)
		}
		q = h.queues[0]
		h.queues = h.queues[1:]
		if len(h.queues) > 0 {
			o.turns = append(o.turns, h)
		} else {
			delete(o.hosts, h.name)
		}
		return q, true
	}
	return q, false
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
