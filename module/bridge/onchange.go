package bridge

import (
	"context"
	"log/slog"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/changes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

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
