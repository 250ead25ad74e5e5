package fronts

import (
	"cmp"
	"context"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// push returns the webhooks of a handler for its tasks, which begin with the configuration; nil: clients can't set any.
func (s *Setup) push(ctx caddy.Context, kept *KeptRuns) (*push.Webhooks, error) {
	if s.Webhooks == nil {
		return nil, nil //nolint:nilnil // see above
	}
	w := &push.Webhooks{
		Sender: delivery.Sender{
			Served: delivery.Served{Realm: s.Realm, Front: task.Front}, Client: s.Webhooks, Panicked: s.Observer.Panicked,
			Attempted: func(a *delivery.Attempt) {
				report := observe.Push{
					Task: a.Delivery.Run.ID, Webhook: a.Delivery.Receiver, Host: a.Host, Try: a.Try, Outcome: string(cmp.Or(a.Outcome, webhook.Failed)), Status: a.Status, Problem: a.Problem,
					Duration: a.Duration, Retry: a.Retry, Lost: a.Lost || a.GivenUp, GivenUp: a.GivenUp,
				}
				if a.Entry != nil {
					report.Skill, report.Event = a.Entry.Skill, uint64(a.Entry.Version) //nolint:gosec // it is positive
				}
				s.Observer.Pushed(&report)
			},
		},
		Deliverer: kept.deliverer, Ledger: ledger.Viewed{Ledger: kept.Ledger}, Sealer: s.Outbound.Sealer,
	}
	return w, lifetime.OnStart(ctx, func() {
		w.Begin()
		context.AfterFunc(ctx, w.End) // nothing is sent with a configuration that is used no longer
	})
}
