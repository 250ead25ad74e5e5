package fronts

import (
	"context"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Callbacks returns the call-backs of a handler for its kept runs, which begin with the configuration; nil: there are none. body returns what a
// call-back says.
func (m *Mounts) Callbacks(ctx caddy.Context, s *Setup, kept *KeptRuns, body func(context.Context, *ledger.Entry, *run.Run) []byte) (*callbacks.Sender, error) {
	if s.Webhooks == nil || kept == nil || !m.servesRPC() {
		return nil, nil //nolint:nilnil // see above
	}
	secrets, err := m.Webhooks.signing(ctx)
	if err != nil {
		return nil, err
	}
	c := &callbacks.Sender{
		Sender: delivery.Sender{
			Served: delivery.Served{Realm: s.Realm, Front: skillsprotocol.Name}, Client: s.Webhooks, Panicked: s.Observer.Panicked, Attempted: s.Observer.Notified,
		},
		Deliverer: kept.deliverer, Secrets: secrets, Sealer: s.Outbound.Sealer, Outcome: kept.Outcome, Body: body,
	}
	return c, lifetime.OnStart(ctx, func() {
		c.Begin()
		context.AfterFunc(ctx, c.End) // nothing is sent with a configuration that is used no longer
	})
}
