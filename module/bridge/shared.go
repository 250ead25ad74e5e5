package bridge

import (
	"cmp"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// sharedPool keeps the shared state of handlers across reloads. Its keys are those of poolKey.
var sharedPool = lifetime.NewPool[*shared]()

// shared is the state that handlers with the same settings share.
type shared struct {
	documents *cache.Cache
	breakers  *exchange.Breakers
	schemas   *schema.Schemas
	uncount   func() // removes documents from the metrics
}

// holdShared takes the shared state from the pool, and returns a function that releases it.
func (h *Handler) holdShared() (*shared, func(), error) {
	return sharedPool.Hold(h.poolKey(), func() (*shared, error) {
		settings := h.Cache.config()
		documents, err := cache.New(settings)
		if err != nil {
			return nil, err
		}
		return &shared{documents, exchange.NewBreakers(h.breakerConfig()), schema.NewSchemas(settings.MaxSize), observe.CountCache(documents)}, nil
	})
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error {
	s.uncount()
	s.documents.Close()
	return nil
}

// config returns the cache settings, with defaults.
func (c *Cache) config() cache.Config {
	c = cmp.Or(c, new(Cache))
	return cache.Config{
		MaxSize:      cmp.Or(c.MaxSize, defaultCacheSize),
		TTL:          orDefaultPointer(c.TTL, defaultTTL),
		MaxTTL:       orDefault(c.MaxTTL, defaultMaxTTL),
		StaleIfError: orDefaultPointer(c.StaleIfError, defaultStaleIfError),
		NegativeTTL:  orDefaultPointer(c.NegativeTTL, defaultNegativeTTL),
	}
}

// breakerConfig returns the settings of the circuit breakers, with defaults.
func (h *Handler) breakerConfig() exchange.BreakerConfig {
	b := cmp.Or(h.CircuitBreaker, new(CircuitBreaker))
	return exchange.BreakerConfig{
		Failures: cmp.Or(b.Failures, defaultFailures),
		Cooldown: orDefault(b.Cooldown, defaultCooldown),
		Patience: min(orDefault(h.Timeout, defaultTimeout), maxPatience),
	}
}

// maxPatience is the maximum time after which an unanswered request counts as a failure of its
// host. Requests that end earlier, at the deadline of their call, do not count.
const maxPatience = 5 * time.Second

// poolKey returns a digest of the settings that the shared state depends on.
func (h *Handler) poolKey() string {
	return lifetime.NewDigest(
		fmt.Sprintf("%+v %+v %d", h.Cache.config(), h.breakerConfig(), h.maxResponseSize()),
		fmt.Sprintf("%+v", h.readingLimits()), // documents are valid within these limits
		fmt.Sprintf("%t %q %d", h.AllowHTTP, h.AllowNetworks, h.AllowPorts),
		string(h.TransportRaw),
	).String()
}

// retryBudget returns the share of calls that may be retried, from 0 to 1.
func (h *Handler) retryBudget() float64 {
	percent := defaultRetryBudget
	if h.RetryBudget != nil {
		percent = *h.RetryBudget
	}
	return float64(percent) / 100
}
