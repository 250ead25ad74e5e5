package bridge

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
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

// changed logs that a provider has changed what a skill asks for, and emits an event. Its texts have none of the secrets.
func changed(o *observe.Observer, emit func(string, map[string]any), secrets []credential.Credentials, source string, c changes.Change) {
	message := "a provider has changed what a skill asks for; the bridge uses the new descriptor"
	if c.Held {
		message = "a provider has changed what a skill asks for; the bridge uses the earlier descriptor until the change is approved: caddy skill-bridge approve"
	}
	o.Notice(context.Background(), &exchange.Notice{
		Level: slog.LevelWarn, Source: source, Message: message,
		Attrs: []slog.Attr{slog.String("skill_id", c.SkillID), slog.Any("changed", c.Parts), slog.String("digest", c.Digest)},
	})
	emit("skill_bridge.descriptor_changed", map[string]any{
		"source": source, "skill_id": safetext.Field(credential.Scrub(c.SkillID, secrets...), observe.MaxLogged), "changed": c.Parts, "held": c.Held,
	})
}
