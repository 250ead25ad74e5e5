package fronts

import (
	"context"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// push returns the webhooks of a handler for its tasks, which begin with the configuration; nil: clients can't set any.
func (s *Setup) push(ctx caddy.Context, kept *KeptRuns) (*a2a.Webhooks, error) {
	if s.Webhooks == nil {
		return nil, nil //nolint:nilnil // see above
	}
	w := &a2a.Webhooks{
		Sender: delivery.Sender{
			Served: delivery.Served{Realm: s.Realm, Front: task.Front}, Client: s.Webhooks, Panicked: s.Observer.Panicked, Attempted: s.Observer.Pushed,
		},
		Deliverer: kept.deliverer, Ledger: ledger.Viewed{Ledger: kept.Ledger}, Sealer: s.Outbound.Sealer,
	}
	return w, lifetime.OnStart(ctx, func() {
		w.Begin()
		context.AfterFunc(ctx, w.End) // nothing is sent with a configuration that is used no longer
	})
}
