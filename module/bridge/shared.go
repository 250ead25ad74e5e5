package bridge

import (
	"fmt"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// sharedPool keeps the shared state of handlers across reloads. Its keys are results of poolKey.
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
		limits := h.limits()
		documents, err := cache.New(settings)
		if err != nil {
			return nil, err
		}
		return &shared{documents, exchange.NewBreakers(h.breakerConfig()), schema.NewSchemas(limits.schemas()), observe.CountCache(documents)}, nil
	})
}

// Destruct implements caddy.Destructor.
func (s *shared) Destruct() error {
	s.uncount()
	s.documents.Close()
	return nil
}

// poolKey returns a digest of the settings that the shared state depends on.
func (h *Handler) poolKey() string {
	limits := h.limits()
	return lifetime.NewDigest(
		fmt.Sprintf("%+v %+v %d %d", h.Cache.config(), h.breakerConfig(), h.maxResponseSize(), limits.schemas()),
		fmt.Sprintf("%+v", h.readingLimits()), // documents are valid within these limits
		fmt.Sprintf("%t %q %d", h.AllowHTTP, h.AllowNetworks, h.AllowPorts),
		string(h.TransportRaw),
	).String()
}
