package bridge

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// CircuitBreaker decides when the bridge stops sending requests to a provider's host.
// Failures are: no connection, no TLS, no answer in time, and HTTP 502, 503 and 504; any
// other answer is a success, even a failed run or HTTP 429. While the breaker is open,
// calls are answered ENDPOINT_UNREACHABLE at once and documents are served stale; accepted
// runs are still polled. After the cooldown, one request at a time tests the host.
type CircuitBreaker struct {
	// How many failures in a row open the breaker. In JSON, 0 means the default. Default: 20.
	Failures int `json:"failures,omitempty"`

	// How long the breaker stays open before the host is tried again. In JSON, 0 means the
	// default. Default: `5s`.
	Cooldown caddy.Duration `json:"cooldown,omitempty"`

	// Never open the breaker; excludes the two others. (In the Caddyfile,
	// `circuit_breaker off`.) Default: false.
	Off bool `json:"off,omitempty"`
}

const (
	defaultFailures = 20
	defaultCooldown = 5 * time.Second
)

// maxPatience is the maximum time after which an unanswered request counts as a failure of its
// host. Requests that end earlier, at the deadline of their call, do not count.
const maxPatience = 5 * time.Second

// breakerConfig returns the settings of the circuit breakers, with defaults.
func (h *Handler) breakerConfig() exchange.BreakerConfig {
	b := cmp.Or(h.CircuitBreaker, new(CircuitBreaker))
	return exchange.BreakerConfig{
		Failures: cmp.Or(b.Failures, defaultFailures),
		Cooldown: orDefault(b.Cooldown, defaultCooldown),
		Patience: min(orDefault(h.Timeout, defaultTimeout), maxPatience),
	}
}

func (b *CircuitBreaker) check(c *options.Checker) {
	if b == nil {
		return
	}
	checkAmounts(c, []amount{{"circuit_breaker.failures", b.Failures}, {"circuit_breaker.cooldown", b.Cooldown}})
	if b.Failures > math.MaxInt32 {
		c.Check("circuit_breaker.failures", fmt.Errorf("failures %d is too large", b.Failures))
	}
	if b.Off && (b.Failures != 0 || b.Cooldown != 0) {
		c.Check("circuit_breaker", errors.New("circuit_breaker is off, so it can have neither failures nor cooldown"))
	}
}
