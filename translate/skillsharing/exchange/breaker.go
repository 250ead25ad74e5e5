package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// BreakerConfig says when a circuit breaker opens and for how long.
type BreakerConfig struct {
	// Failures in a row open it. At least 1.
	Failures int
	// Cooldown is how long it then stays open, before single requests probe whether the host answers again. More than 0.
	Cooldown time.Duration
	// Patience is how long a request must have waited before its deadline counts as a failure of the host. Shorter deadlines
	// do not count.
	Patience time.Duration
}

// Breakers holds the circuit breakers of hosts. There is one for each source of skills, scheme, host
// and port, since the documents of a source can name many hosts, which fail independently. Every
// HTTP answer counts as a success, except the statuses with which proxies report that the host does
// not answer. Breakers are safe for concurrent use.
type Breakers struct {
	config BreakerConfig

	mu       sync.RWMutex
	breakers map[hostKey]*breaker // of the hosts that have failed since they last answered
}

// NewBreakers returns breakers without failures.
func NewBreakers(config BreakerConfig) *Breakers {
	return &Breakers{config: config, breakers: make(map[hostKey]*breaker)}
}

// BreakerState is the state of the circuit breaker of one host. A host that has not failed
// since it last answered has no breaker.
type BreakerState struct {
	Source, Partition, Host string

	Open        bool
	Failures    int // in a row
	LastFailure string
	Opened      time.Time // zero: it is closed
}

// States returns the states of all breakers, sorted by source and host.
func (b *Breakers) States() []BreakerState {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.breakers, func(_ hostKey, known *breaker) bool { // perhaps no document names the host any more
		return time.Since(known.asked) > max(forgottenAfter, 10*b.config.Cooldown)
	})
	states := make([]BreakerState, 0, len(b.breakers))
	for key, known := range b.breakers {
		states = append(states, BreakerState{key.source, key.partition, key.host, !known.opened.IsZero(), known.failures, known.reason, known.opened})
	}
	slices.SortFunc(states, func(x, y BreakerState) int {
		return cmp.Or(strings.Compare(x.Source, y.Source), strings.Compare(x.Host, y.Host))
	})
	return states
}

// forgottenAfter is how long a host is reported after the last request to it.
const forgottenAfter = 5 * time.Minute

// maxBreakers limits the number of hosts with breakers, since documents choose the hosts.
const maxBreakers = 4096

// hostKey is the key of a breaker. Sources of the same name may share Breakers; their partitions
// differ.
type hostKey struct{ source, partition, scheme, host string }

// breaker is the circuit breaker of one host.
type breaker struct {
	failures int       // in a row
	reason   string    // of the last failure
	rule     run.Rule  // that the last failure is about; empty: it may be temporary
	opened   time.Time // zero: it is closed
	probed   time.Time // start of the last probe; zero: none is in progress
	asked    time.Time // when admission was last requested
}

// admission is the admission of one request. It reports the outcome of the request to the breaker.
type admission struct {
	breakers *Breakers
	key      hostKey
	breaker  *breaker  // nil: the host had not failed
	probe    time.Time // breaker.opened when the probe began; zero: the request is not a probe
	start    time.Time
}

// enter admits a request, or returns a [*CircuitOpenError]. Requests about existing runs are always
// admitted: the caller needs to know the state of the run.
func (b *Breakers) enter(source, partition string, u *url.URL, phase run.Phase) (admission, error) {
	a := admission{breakers: b, key: hostKey{source, partition, u.Scheme, u.Host}, start: time.Now()}
	if b == nil {
		return a, nil
	}
	b.mu.RLock()
	a.breaker = b.breakers[a.key]
	b.mu.RUnlock()
	if a.breaker == nil {
		return a, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := a.breaker
	known.asked = a.start
	switch {
	case known.opened.IsZero():
		return a, nil
	case a.start.Sub(known.opened) > b.config.Cooldown && a.start.Sub(known.probed) >= b.config.Cooldown:
		// The request probes the host. Another probe is admitted when this one has ended, or after a cooldown, since a request may take as long as a call.
		known.probed, a.probe = a.start, known.opened
		return a, nil
	case phase == run.PhasePoll || phase == run.PhaseResult:
		return a, nil
	}
	return a, known.refusal(b.config.Cooldown)
}

// leave reports the outcome of the request to the breaker. It returns a notice if this opens or closes the
// breaker.
func (a *admission) leave(ctx context.Context, status int, err error) *Notice {
	if a.breakers == nil {
		return nil
	}
	failure, rule, alive := a.verdict(ctx, status, err)
	if alive && a.breaker == nil { // as for nearly all requests
		return nil
	}
	all := a.breakers
	all.mu.Lock()
	defer all.mu.Unlock()
	switch {
	case alive && all.breakers[a.key] == a.breaker:
		delete(all.breakers, a.key)
		if !a.breaker.opened.IsZero() {
			return a.notice(slog.LevelInfo, "a host answers again: its circuit breaker is closed")
		}
	case failure != "" && a.fail(failure, rule):
		return a.notice(slog.LevelWarn, "a host keeps failing: its circuit breaker is open", slog.String("last_failure", failure))
	case failure == "" && !alive && !a.probe.IsZero():
		a.breaker.probed = time.Time{} // the probe was inconclusive
	}
	return nil
}

func (a *admission) notice(level slog.Level, message string, attrs ...slog.Attr) *Notice {
	return &Notice{Level: level, Source: a.key.source, Message: message, Attrs: append(attrs, slog.String("host", a.key.host))}
}

// verdict returns whether the outcome of a request counts as a success of its host, as a failure, or as
// neither.
func (a *admission) verdict(ctx context.Context, status int, err error) (failure string, rule run.Rule, alive bool) {
	if err == nil {
		switch status {
		case 0: // the transport panicked
			return "", "", false
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Sprintf("HTTP %d", status), "", false
		}
		return "", "", true
	}
	_, malformed := malformedAnswer(err)
	if failed, ok := errors.AsType[*Error](err); ok {
		malformed = failed.malformed
	}
	if errors.Is(err, errTooLarge) || malformed != "" {
		return "", "", true
	}
	waited := errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(a.start) >= a.breakers.config.Patience
	if Refusal(err) != nil || ctx.Err() != nil && !waited {
		return "", "", false
	}
	failure, rule = ReasonOf(err)
	return failure, rule, false
}

// fail counts a failure, and reports whether it opened the breaker, or opened it again after a
// cooldown. The first failure of a host creates its breaker, unless there are too many. The caller holds the lock of the breakers.
func (a *admission) fail(reason string, rule run.Rule) (opened bool) {
	all, b := a.breakers, cmp.Or(a.breaker, a.breakers.breakers[a.key])
	if b == nil {
		if len(all.breakers) >= maxBreakers { // remove closed breakers, and those that have been open for long
			maps.DeleteFunc(all.breakers, func(_ hostKey, known *breaker) bool {
				return known.opened.IsZero() || time.Since(known.opened) > 2*all.config.Cooldown
			})
		}
		if len(all.breakers) >= maxBreakers {
			return false
		}
		b = &breaker{asked: time.Now()}
		all.breakers[a.key] = b
	}
	b.failures++
	b.reason, b.rule = reason, rule
	if opened = b.failures >= all.config.Failures; !b.opened.IsZero() {
		opened = a.probe.Equal(b.opened)
	}
	if opened {
		b.opened, b.probed = time.Now(), time.Time{}
	}
	return opened
}

// CircuitOpenError says that the circuit breaker of a host is open.
type CircuitOpenError struct {
	failures int
	reason   string        // of the last failure
	rule     run.Rule      // that the last failure is about; empty: it may be temporary
	after    time.Duration // until a request may probe the host
}

func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("the circuit breaker is open: %d failures in a row, last: %s", e.failures, e.reason)
}

func (b *breaker) refusal(cooldown time.Duration) *CircuitOpenError {
	after := time.Until(b.opened.Add(cooldown))
	if after <= 0 { // a probe may be in progress
		after = min(cooldown, time.Second)
	}
	return &CircuitOpenError{b.failures, b.reason, b.rule, after}
}

// complete adds the message, details and retry delay of an open breaker to a failure.
func (e *CircuitOpenError) complete(target *run.Failure, url string) {
	target.Message = fmt.Sprintf("The provider is not called at the moment, because it failed %d times in a row (last: %s).", e.failures, e.reason)
	target.Reach = &run.Reach{URL: url, Reason: "its circuit breaker is open", Failures: e.failures, LastFailure: e.reason}
	if target.Refused = e.rule; e.rule != "" { // the next probe would fail, too
		return
	}
	target.Retry = run.RetryIn(max(e.after, time.Millisecond), RetryAttempts)
}
