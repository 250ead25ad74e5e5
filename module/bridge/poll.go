package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// The modes of polling.
const (
	pollAdaptive = "adaptive"
	pollFixed    = "fixed"
	pollBackoff  = "backoff"
)

// Timing is how long a call may take, and when the bridge asks for the status of its run.
type Timing struct {
	// How long a call may take, from its arrival to its answer, if neither the caller nor
	// the skill's descriptor says. In JSON, 0 means the default. Default: `25s`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How long any call may take, whatever the caller or the descriptor asks for. In JSON, 0
	// means the default. Default: `10m`.
	MaxTimeout caddy.Duration `json:"max_timeout,omitempty"`

	// When the bridge asks for the status of a run. Default: when the run is likely to have
	// ended, judged by earlier runs of the skill.
	Poll *Poll `json:"poll,omitempty"`

	// Poll at intervals that grow from this one; the same as `{"mode": "backoff"}` of `poll`.
	// In JSON, 0 means that `poll` decides.
	PollInterval caddy.Duration `json:"poll_interval,omitempty"`

	// The longest of these intervals, unless the provider asks for more. In JSON, 0
	// means the default. Default: `5s`.
	MaxPollInterval caddy.Duration `json:"max_poll_interval,omitempty"`
}

// plan returns the plan of all runs, or nil if it is learned from earlier runs.
func (t *Timing) plan() polling.Plan {
	poll := cmp.Or(t.Poll, new(Poll))
	switch {
	case t.PollInterval != 0 || t.MaxPollInterval != 0:
		return polling.Backoff{Initial: orDefault(t.PollInterval, defaultPollInterval), Longest: orDefault(t.MaxPollInterval, defaultMaxPollInterval)}
	case poll.Mode == pollFixed:
		return polling.Fixed{Interval: orDefault(poll.Interval, defaultPollInterval)}
	case poll.Mode == pollBackoff:
		return polling.Backoff{Initial: orDefault(poll.Interval, defaultPollInterval), Longest: orDefault(poll.MaxInterval, defaultMaxPollInterval)}
	}
	return nil
}

// check checks durations beside their maxima, and the mode of polling.
func (t *Timing) check(c *checker) {
	checkSpan(c, "timeout", orDefault(t.Timeout, defaultTimeout), orDefault(t.MaxTimeout, defaultMaxTimeout))
	checkSpan(c, "poll_interval", orDefault(t.PollInterval, defaultPollInterval), orDefault(t.MaxPollInterval, defaultMaxPollInterval))
	c.check("poll", t.Poll.check())
	if t.Poll != nil && (t.PollInterval != 0 || t.MaxPollInterval != 0) {
		c.check("poll", errors.New("poll and poll_interval exclude each other: poll_interval is poll backoff"))
	}
}

// budgetPool keeps the poll budgets of hosts over reloads. Its keys are the limit of polls
// per second: handlers with the same limit share each host's budget.
var budgetPool = lifetime.NewPool[*polling.Budgets]()

// holdPolling takes the poll budgets and the learned execution times from their pools.
func (h *Handler) holdPolling(ctx caddy.Context, p *skillsharing.Polling) error {
	polls := h.limits().Polls
	budgets, release, err := budgetPool.Hold(polls, func() (*polling.Budgets, error) { return polling.NewBudgets(float64(polls), polls), nil })
	if err != nil {
		return err
	}
	h.usage.OnRelease(release)
	p.Budgets = budgets
	if p.Plan != nil {
		return nil
	}
	price := polling.DefaultPrice
	if h.Poll != nil {
		price = orDefault(h.Poll.Price, price)
	}
	if h.timings, err = storage.HoldTimings(ctx, price, h.usage); err != nil {
		return err
	}
	p.Store = h.timings.Store
	return nil
}

// check finds the first fault of the option.
func (p *Poll) check() error {
	if p == nil {
		return nil
	}
	for _, d := range []struct {
		name  string
		value caddy.Duration
		modes []string // that it is for
	}{{"price", p.Price, []string{pollAdaptive}}, {"interval", p.Interval, []string{pollFixed, pollBackoff}}, {"max_interval", p.MaxInterval, []string{pollBackoff}}} {
		mode := cmp.Or(p.Mode, pollAdaptive)
		switch {
		case d.value == 0:
		case time.Duration(d.value) < time.Millisecond:
			return fmt.Errorf("%s %s of poll is too short: the minimum is 1ms", d.name, time.Duration(d.value))
		case !slices.Contains(d.modes, mode):
			return fmt.Errorf("poll %s has no %s", mode, d.name)
		}
	}
	switch p.Mode {
	case "", pollAdaptive, pollFixed:
		return nil
	case pollBackoff:
		if from, to := orDefault(p.Interval, defaultPollInterval), orDefault(p.MaxInterval, defaultMaxPollInterval); from > to {
			return fmt.Errorf("interval %s of poll is longer than its maximum of %s", from, to)
		}
		return nil
	}
	return fmt.Errorf("poll %q is none of %s, %s and %s", p.Mode, pollAdaptive, pollFixed, pollBackoff)
}
