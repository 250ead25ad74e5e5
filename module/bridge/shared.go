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

// sharedPool keeps documents, breakers and schemas over reloads. Its keys are digests of
// the settings that shape them.
var sharedPool = lifetime.NewPool[*shared]()

// shared is what handlers with the same settings share.
type shared struct {
	documents *cache.Cache
	breakers  *exchange.Breakers
	schemas   *schema.Schemas
	uncount   func() // ends that the documents are counted
}

// holdShared takes what is shared from the pool.
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

// config is the cache that the operator configured.
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

// breakerConfig is when circuit breakers open. A call that ended at its own, shorter
// deadline is no failure of the host.
func (h *Handler) breakerConfig() exchange.BreakerConfig {
	b := cmp.Or(h.CircuitBreaker, new(CircuitBreaker))
	return exchange.BreakerConfig{
		Failures: cmp.Or(b.Failures, defaultFailures),
		Cooldown: orDefault(b.Cooldown, defaultCooldown),
		Patience: min(orDefault(h.Timeout, defaultTimeout), maxPatience),
	}
}

// maxPatience is the longest time that a call waits for a host before the wait counts as a
// failure of the host.
const maxPatience = 5 * time.Second

// poolKey identifies the settings that shape what is shared.
func (h *Handler) poolKey() string {
	return lifetime.NewDigest(
		fmt.Sprintf("%+v %+v %d", h.Cache.config(), h.breakerConfig(), h.maxResponseSize()),
		fmt.Sprintf("%+v", h.readingLimits()), // decide which documents are valid
		fmt.Sprintf("%t %q %d", h.AllowHTTP, h.AllowNetworks, h.AllowPorts),
		string(h.TransportRaw),
	).String()
}

// retryBudget is a share of calls, from 0 to 1.
func (h *Handler) retryBudget() float64 {
	percent := defaultRetryBudget
	if h.RetryBudget != nil {
		percent = *h.RetryBudget
	}
	return float64(percent) / 100
}
