package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// BreakerConfig says when a circuit breaker opens and for how long.
type BreakerConfig struct {
	// Failures in a row open it. At least 1.
	Failures int
	// Cooldown is how long it then stays open, before one request at a time may try whether the host is back. More than 0.
	Cooldown time.Duration
	// Patience is how long a host must have been waited for until the end of a call's own time counts as its failure:
	// that a caller was in a hurry proves nothing.
	Patience time.Duration
}

// Breakers are the circuit breakers of hosts, each for one source of skills and
// one scheme, host and port: a source can name many hosts in its documents, and
// one that is down says nothing about another. Any HTTP answer proves a host
// alive, but for the statuses by which proxies say that it is not. Breakers are
// safe for concurrent use.
type Breakers struct {
	config BreakerConfig

	mu       sync.RWMutex
	breakers map[hostKey]*breaker // of the hosts that have failed since they last answered
}

// NewBreakers returns breakers for hosts none of which is in trouble yet.
func NewBreakers(config BreakerConfig) *Breakers {
	return &Breakers{config: config, breakers: make(map[hostKey]*breaker)}
}

// BreakerState is how the circuit breaker of one host is. Hosts that have not failed
// since they last answered have none.
type BreakerState struct {
	Source, Partition, Host string

	Open        bool
	Failures    int // in a row
	LastFailure string
	Opened      time.Time // zero: it is closed
}

// States returns the breakers there are, in the order of their sources and hosts.
func (b *Breakers) States() []BreakerState {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	states := make([]BreakerState, 0, len(b.breakers))
	for key, known := range b.breakers {
		known.mu.Lock()
		if time.Since(known.asked) > max(forgottenAfter, 10*b.config.Cooldown) {
			delete(b.breakers, key) // nobody asks it any more: its documents may name another
			known.mu.Unlock()
			continue
		}
		states = append(states, BreakerState{key.source, key.partition, key.host, !known.opened.IsZero(), known.failures, known.reason, known.opened})
		known.mu.Unlock()
	}
	slices.SortFunc(states, func(x, y BreakerState) int {
		return cmp.Or(strings.Compare(x.Source, y.Source), strings.Compare(x.Host, y.Host))
	})
	return states
}

// forgottenAfter is after how long a host that nobody asks is not reported any more.
const forgottenAfter = 5 * time.Minute

// maxBreakers bounds how many hosts are kept in mind: documents choose them.
const maxBreakers = 4096

// hostKey is a host as one source sees it. Sources of the same name may share what is
// kept, and are told apart by the partitions of their documents.
type hostKey struct{ source, partition, scheme, host string }

// breaker is the circuit breaker of one host.
type breaker struct {
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu       sync.Mutex
	failures int       // in a row
	reason   string    // of the last failure
	opened   time.Time // zero: it is closed
	probed   time.Time // when a request was last let through to see whether the host is back
	asked    time.Time // when somebody last wanted to send a request
}

// passage is a request's way through a breaker.
type passage struct {
	breakers *Breakers
	key      hostKey
	breaker  *breaker    // nil: the host was not in trouble
	done     func(error) // nil: the breaker does not count the request
	start    time.Time
}

// enter asks whether a request may be sent. If not, the error is a
// *circuitOpenError. A request about a run that exists may always be: what
// became of it has to be known.
func (b *Breakers) enter(source, partition string, u *url.URL, phase run.Phase) (passage, error) {
	p := passage{breakers: b, key: hostKey{source, partition, u.Scheme, u.Host}, start: time.Now()}
	if b == nil {
		return p, nil
	}
	b.mu.RLock()
	p.breaker = b.breakers[p.key]
	b.mu.RUnlock()
	if p.breaker == nil {
		return p, nil
	}
	p.breaker.mu.Lock()
	p.breaker.asked = p.start
	p.breaker.mu.Unlock()
	done, err := p.breaker.circuit.Allow()
	if err != nil && phase != run.PhasePoll && phase != run.PhaseResult && !p.breaker.mayProbe(err, b.config.Cooldown) {
		return p, p.breaker.refusal(b.config.Cooldown)
	}
	p.done = done
	return p, nil
}

// Pause is for how long a host is left alone from now on; 0: it is not.
func (b *Breakers) Pause(source, partition string, u *url.URL) time.Duration {
	if b == nil {
		return 0
	}
	b.mu.RLock()
	known := b.breakers[hostKey{source, partition, u.Scheme, u.Host}]
	b.mu.RUnlock()
	if known == nil || !known.wasOpen() {
		return 0
	}
	return known.refusal(b.config.Cooldown).after
}

// mayProbe reports whether a request may find out if the host is back though
// another one is at it: that one may take as long as a call may.
func (b *breaker) mayProbe(err error, cooldown time.Duration) bool {
	if !errors.Is(err, gobreaker.ErrTooManyRequests) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.probed) < cooldown {
		return false
	}
	b.probed = time.Now()
	return true
}

// leave tells the breaker what came of the request. It returns what an operator
// should know of that, if anything.
func (p *passage) leave(ctx context.Context, status int, err error) *Notice {
	if p.breakers == nil {
		return nil
	}
	switch failure, alive := p.verdict(ctx, status, err); {
	case alive:
		if p.breaker != nil && p.breakers.forget(p.key, p.breaker) && p.breaker.wasOpen() {
			return p.notice(slog.LevelInfo, "a host is back: its circuit breaker is closed")
		}
	case failure != "":
		if p.fail(failure) {
			return p.notice(slog.LevelWarn, "a host keeps failing and is left alone for a while: its circuit breaker is open", slog.String("last_failure", failure))
		}
	case p.done != nil:
		p.done(errNeither)
	}
	return nil
}

func (p *passage) notice(level slog.Level, message string, attrs ...slog.Attr) *Notice {
	return &Notice{Level: level, Source: p.key.source, Message: message, Attrs: append(attrs, slog.String("host", p.key.host))}
}

func (b *breaker) wasOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.opened.IsZero()
}

// verdict says what a request tells about its host: that it is alive, in what way
// it failed, or neither.
func (p *passage) verdict(ctx context.Context, status int, err error) (failure string, alive bool) {
	if err == nil {
		switch status {
		case 0: // the transport has panicked
			return "", false
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return fmt.Sprintf("HTTP %d", status), false
		}
		return "", true
	}
	if errors.Is(err, errTooLarge) || isMalformed(err) {
		return "", true
	}
	if _, refused := Refusal(err); refused || ctx.Err() != nil && !p.waitedFor(ctx) {
		return "", false
	}
	reason, _ := reasonOf(err)
	return reason, false
}

// waitedFor reports whether a call whose time is up has given its host enough of it.
func (p *passage) waitedFor(ctx context.Context) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) && time.Since(p.start) >= p.breakers.config.Patience
}

func isMalformed(err error) bool {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed.malformed != ""
	}
	_, malformed := malformedAnswer(err)
	return malformed != ""
}

// errNeither stands for an outcome that says nothing about the host.
var errNeither = errors.New("the request says nothing about the host")

// fail counts a failure, and reports whether that opened the breaker. A host that
// fails for the first time gets its breaker.
func (p *passage) fail(reason string) (opened bool) {
	b := p.breaker
	if b == nil {
		if b = p.breakers.of(p.key); b == nil {
			return false
		}
		p.done, _ = b.circuit.Allow() // it counts, unless others have opened the breaker already
	}
	b.mu.Lock()
	b.failures++
	b.reason = reason
	before := b.opened
	b.mu.Unlock()
	if p.done != nil {
		p.done(errors.New(reason))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened.After(before)
}

// of returns the breaker of a host, which it makes if need be; nil if there are
// too many.
func (b *Breakers) of(key hostKey) *breaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.breakers[key]; known != nil {
		return known
	}
	if len(b.breakers) >= maxBreakers {
		b.makeRoom()
	}
	if len(b.breakers) >= maxBreakers {
		return nil
	}
	made := &breaker{asked: time.Now()}
	made.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     b.config.Cooldown,
		ReadyToTrip: func(counts gobreaker.Counts) bool { return counts.ConsecutiveFailures >= uint32(b.config.Failures) }, //nolint:gosec // a small number
		IsExcluded:  func(err error) bool { return errors.Is(err, errNeither) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			made.mu.Lock()
			defer made.mu.Unlock()
			switch to {
			case gobreaker.StateOpen:
				made.opened = time.Now()
			case gobreaker.StateHalfOpen:
				made.probed = time.Now()
			}
		},
	})
	b.breakers[key] = made
	return made
}

// makeRoom forgets hosts that are not left alone, and those that nobody has asked
// for a while. With b.mu held.
func (b *Breakers) makeRoom() {
	for key, known := range b.breakers {
		known.mu.Lock()
		if known.opened.IsZero() || time.Since(known.opened) > 2*b.config.Cooldown {
			delete(b.breakers, key)
		}
		known.mu.Unlock()
	}
}

// forget closes the breaker of a host that has answered, unless that has been done.
func (b *Breakers) forget(key hostKey, known *breaker) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.breakers[key] != known {
		return false
	}
	delete(b.breakers, key)
	return true
}

// CircuitOpenError says that a host is left alone for now.
type CircuitOpenError struct {
	failures int
	reason   string        // of the last failure
	after    time.Duration // until it is tried again
}

func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("the circuit breaker is open: %d failures in a row, last: %s", e.failures, e.reason)
}

func (b *breaker) refusal(cooldown time.Duration) *CircuitOpenError {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := time.Until(b.opened.Add(cooldown))
	if after <= 0 { // it is being tried
		after = min(cooldown, time.Second)
	}
	return &CircuitOpenError{b.failures, b.reason, after}
}

// complete makes an open breaker visible in the details of an error.
func (e *CircuitOpenError) complete(target *run.Failure, url string) {
	target.Message = fmt.Sprintf("The provider is left alone for now, since it failed %d times in a row (last: %s).", e.failures, e.reason)
	target.Reach = &run.Reach{URL: url, Reason: "its circuit breaker is open", Failures: e.failures, LastFailure: e.reason}
	target.Retry = run.Again(max(e.after, time.Millisecond), document.RetryAttempts)
}
