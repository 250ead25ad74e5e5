package bridge

import (
	"cmp"
	"errors"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// Timing is how long a call may take, and when the bridge asks for the status of its run.
type Timing struct {
	// How long a call may take, from its arrival to its answer, if neither the caller nor
	// the skill's descriptor says. In JSON, 0 means the default. Default: `25s`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How long any call may take, whatever the caller or the descriptor asks for. Runs that no
	// caller waits for may take longer. In JSON, 0 means the default. Default: `10m`.
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

// check checks durations against their maxima, and the mode of polling.
func (t *Timing) check(c *options.Checker) {
	checkAmounts(c, []amount{{"timeout", t.Timeout}, {"poll_interval", t.PollInterval}})
	checkSpan(c, "timeout", orDefault(t.Timeout, defaultTimeout), orDefault(t.MaxTimeout, defaultMaxTimeout))
	checkSpan(c, "poll_interval", orDefault(t.PollInterval, defaultPollInterval), orDefault(t.MaxPollInterval, defaultMaxPollInterval))
	c.Check("poll", t.Poll.check())
	if t.Poll != nil && (t.PollInterval != 0 || t.MaxPollInterval != 0) {
		c.Check("poll", errors.New("poll and poll_interval exclude each other: poll_interval is poll backoff"))
	}
}

// orDefault returns a duration, or the default if it is 0.
func orDefault(d caddy.Duration, standard time.Duration) time.Duration {
	return cmp.Or(time.Duration(d), standard)
}
