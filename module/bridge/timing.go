package bridge

import (
	"cmp"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Timing is how long a call may take, and when the bridge asks for the status of its run.
type Timing struct {
	// How long a call may take, from its arrival to its answer, if neither the caller nor
	// the skill's descriptor says. In JSON, 0 means the default. Default: `25s`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How long any call may take, whatever the caller or the descriptor asks for. Runs that no
	// caller waits for may take longer. In JSON, 0 means the default. Default: `10m`.
	MaxTimeout caddy.Duration `json:"max_timeout,omitempty" option:"-"`

	// Ask for the status of a run at intervals that grow by half, from this one. In any case, the
	// bridge waits as long as the provider's Retry-After says and at least 20 ms after the last
	// answer, and asks one last time just before the call's deadline. Default: it asks when the run
	// is likely to have ended, judged by the execution times of earlier runs of the same version of
	// the skill, which survive reloads and restarts.
	PollInterval caddy.Duration `json:"poll_interval,omitempty"`

	// The longest of these intervals, unless the provider asks for more. In JSON, 0
	// means the default. Default: `5s`.
	MaxPollInterval caddy.Duration `json:"max_poll_interval,omitempty" option:"-"`

	timings *keeping.Timings // nil: nothing is learned
}

const (
	defaultTimeout         = 25 * time.Second
	defaultMaxTimeout      = 10 * time.Minute
	defaultPollInterval    = 500 * time.Millisecond
	defaultMaxPollInterval = 5 * time.Second
)

// plan returns when to poll all runs, or nil if the bridge learns that from earlier runs.
func (t *Timing) plan() polling.Plan {
	if t.PollInterval == 0 && t.MaxPollInterval == 0 {
		return nil
	}
	return polling.Backoff{Initial: orDefault(t.PollInterval, defaultPollInterval), Longest: orDefault(t.MaxPollInterval, defaultMaxPollInterval)}
}

// check checks durations against their maxima.
func (t *Timing) check(c *options.Checker) {
	checkAmounts(c, []amount{{"timeout", t.Timeout}, {"poll_interval", t.PollInterval}})
	checkSpan(c, "timeout", orDefault(t.Timeout, defaultTimeout), orDefault(t.MaxTimeout, defaultMaxTimeout))
	checkSpan(c, "poll_interval", orDefault(t.PollInterval, defaultPollInterval), orDefault(t.MaxPollInterval, defaultMaxPollInterval))
}

// orDefault returns a duration, or the default if it is 0.
func orDefault(d caddy.Duration, standard time.Duration) time.Duration {
	return cmp.Or(time.Duration(d), standard)
}

// budgetPool keeps the poll budgets of hosts over reloads: handlers with the same limit of polls share each host's budget.
var budgetPool = lifetime.NewPool[*polling.Budgets]()

// pollRate is a limit of polls per second, and of those that find no end of a run while none does.
type pollRate struct{ most, inVain int }

// pollRate returns the limit of polls.
func (b *Bounds) pollRate() pollRate {
	g, l := guards.Current, b.limits()
	return pollRate{cmp.Or(g.AllPolls, max(g.Polls, l.Runs)), g.Polls}
}

// holdPolling takes the poll budgets and the learned execution times from their pools.
func (h *Handler) holdPolling(p *skillsharing.Polling) error {
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
	if h.timings, err = keeping.HoldTimings(h.DB(), h.usage); err != nil {
		return err
	}
	p.Store = h.timings.Store
	return nil
}
