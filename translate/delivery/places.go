package delivery

import (
	"maps"
	"math/rand/v2"
	"time"
)

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
	// maxQueues bounds the queues of what waits for a place.
	maxQueues = 20_000
)

// place is a host of an owner, or with an empty host all of an owner.
type place struct{ owner, host string }

// places bounds the lines in memory.
type places struct {
	taken  int
	of     map[place]int
	queues map[place]time.Time // when the last one of them is due
	swept  time.Time           // when those that are over were forgotten
}

// enter takes a place. If there is none, it returns after which time the delivery is due again.
func (p *places) enter(owner, host string, paced bool) (wait time.Duration) {
	all, at := place{owner, ""}, place{owner, host}
	switch {
	case !paced && p.of[at] >= maxOfHost:
		return p.wait(at, hostPace)
	case p.of[at] >= maxPaced:
		return p.wait(at, ownerPace)
	case p.of[all] >= maxOfOwner, p.taken >= maxLines && p.of[all] >= maxOfHost:
		return p.wait(all, ownerPace)
	}
	p.taken++
	p.of[all]++
	p.of[at]++
	return 0
}

// move exchanges a place for one of another host.
func (p *places) move(owner, from, to string) {
	p.leave(owner, from)
	p.taken++
	p.of[place{owner, ""}]++
	p.of[place{owner, to}]++
}

// leave gives a place back.
func (p *places) leave(owner, host string) {
	p.taken--
	for _, at := range []place{{owner, ""}, {owner, host}} {
		if p.of[at]--; p.of[at] == 0 {
			delete(p.of, at)
		}
	}
}

// wait returns the time to the end of a queue.
func (p *places) wait(at place, pace time.Duration) time.Duration {
	now := time.Now()
	due := now.Add(leastWait)
	if last := p.queues[at]; last.After(due) {
		due = last
	}
	if due = due.Add(pace); due.Sub(now) > maxWait {
		return maxWait + rand.N(maxWait/10) //nolint:gosec // it spreads them
	}
	if now.Sub(p.swept) > leastWait {
		p.swept = now
		maps.DeleteFunc(p.queues, func(_ place, last time.Time) bool { return last.Before(now) })
	}
	if len(p.queues) < maxQueues {
		p.queues[at] = due
	}
	return due.Sub(now)
}
