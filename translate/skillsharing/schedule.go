package skillsharing

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// schedule says when the next request about a run is due.
type schedule struct {
	run      polling.Run // its deadline is that of the watcher that stays longest
	never    bool        // there is no request before the deadline
	due      time.Time   // otherwise: when the next request is due
	earliest time.Time   // no request may be made before this time; zero: any time
}

// in makes the next request due after d.
func (s *schedule) in(d time.Duration) {
	if s.never = d == polling.Never; !s.never {
		s.due = time.Now().Add(d)
	}
}

// left returns the time until the next request is due.
func (s *schedule) left() time.Duration {
	if s.never {
		return polling.Never
	}
	return time.Until(s.due)
}

// rest sets the least delay before the next request.
func (s *schedule) rest(after time.Duration) {
	s.earliest = time.Time{}
	if after > 0 {
		s.earliest = time.Now().Add(after)
	}
}

// planFor starts the polling plan for a run of a skill.
func (p *Polling) planFor(c *Client, s *discovery.Skill, options *FollowOptions, deadline time.Time) polling.Run {
	plan := p.Plan
	if plan == nil {
		plan = p.Store.Learner(c.pollingKey(s))
	}
	budget := p.Budgets.Of(s.Polled)
	if options.Resumed {
		return polling.Resume(plan, budget, options.Accepted, deadline)
	}
	return polling.Start(plan, budget, time.Now(), deadline)
}

func (c *Client) pollingKey(s *discovery.Skill) polling.Key {
	return polling.Key{Provider: c.Origin.String(), Skill: s.ID, Version: s.Version}
}

// Times returns the median and the 95th percentile of the execution times of a skill's runs that were polled; zero: none is known.
func (c *Client) Times(s *discovery.Skill) (median, p95 time.Duration) {
	if c.Polling.Store == nil {
		return 0, 0
	}
	return c.Polling.Store.Times(c.pollingKey(s))
}
