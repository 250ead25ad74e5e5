package delivery

import (
	"math/rand/v2"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
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
