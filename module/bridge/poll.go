package bridge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Poll is when the bridge asks for the status of a run. In every mode it waits as long
// as the provider's Retry-After says and at least 20 ms after the last answer, and it
// asks one last time just before the call's deadline.
type Poll struct {
	// `adaptive`: when the run is likely to have ended, judged by the execution times of
	// earlier runs of the same version of the skill, which survive reloads and restarts.
	// `fixed`: at equal intervals. `backoff`: at intervals that grow by half each time.
	// Default: `adaptive`.
	Mode string `json:"mode,omitempty"`

	// For `adaptive`: how much later the bridge may notice the end of a run to save one
	// request. A longer time means fewer requests. In JSON, 0 means the default.
	// Default: `20ms`.
	Price caddy.Duration `json:"price,omitempty"`

	// For `fixed`: the interval; for `backoff`: the first one. In JSON, 0 means the
	// default. Default: `500ms`.
	Interval caddy.Duration `json:"interval,omitempty"`

	// For `backoff`: the longest interval. In JSON, 0 means the default. Default: `5s`.
	MaxInterval caddy.Duration `json:"max_interval,omitempty"`
}

// The modes of polling.
const (
	pollAdaptive = "adaptive"
	pollFixed    = "fixed"
	pollBackoff  = "backoff"
)

// check returns the first fault of the option.
func (p *Poll) check() error {
	if p == nil {
		return nil
	}
	for _, d := range []struct {
		name  string
		value caddy.Duration
		modes []string // in which the option has an effect
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

// budgetPool keeps the poll budgets of hosts over reloads: handlers with the same limit of polls share each host's budget.
var budgetPool = lifetime.NewPool[*polling.Budgets]()

// pollRate is a limit of polls per second, and of those that find no end of a run while none does.
type pollRate struct{ most, inVain int }

// pollRate returns the limit of polls. That of an operator holds for all of them.
func (b *Bounds) pollRate() pollRate {
	r := pollRate{b.limits().Polls, defaultPolls}
	if b.Limits != nil && b.Limits.Polls > 0 {
		r.inVain = r.most
	}
	return r
}

// holdPolling takes the poll budgets and the learned execution times from their pools.
func (h *Handler) holdPolling(ctx caddy.Context, p *skillsharing.Polling) error {
	rate := h.pollRate()
	budgets, release, err := budgetPool.Hold(rate, func() (*polling.Budgets, error) { return polling.NewEarnedBudgets(rate.most, rate.inVain), nil })
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
	if h.timings, err = keeping.HoldTimings(ctx, price, h.DB(), h.usage); err != nil {
		return err
	}
	p.Store = h.timings.Store
	return nil
}
