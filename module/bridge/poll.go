package bridge

import (
	"cmp"
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

// plan is the same for all runs, or nil if it is learned.
func (h *Handler) plan() polling.Plan {
	poll := cmp.Or(h.Poll, new(Poll))
	switch {
	case h.PollInterval != 0 || h.MaxPollInterval != 0:
		return polling.Backoff{Initial: orDefault(h.PollInterval, defaultPollInterval), Longest: orDefault(h.MaxPollInterval, defaultMaxPollInterval)}
	case poll.Mode == pollFixed:
		return polling.Fixed{Interval: orDefault(poll.Interval, defaultPollInterval)}
	case poll.Mode == pollBackoff:
		return polling.Backoff{Initial: orDefault(poll.Interval, defaultPollInterval), Longest: orDefault(poll.MaxInterval, defaultMaxPollInterval)}
	}
	return nil
}

// budgetPool keeps over reloads how often hosts were asked about runs. Its keys are how
// often they may be, per second: those who have it in common share each host's budget.
var budgetPool = lifetime.NewPool[*polling.Budgets]()

// holdPolling takes from the pools what decides when runs are asked about.
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
			return fmt.Errorf("%s %s of poll is too short: the least is 1ms", d.name, time.Duration(d.value))
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
