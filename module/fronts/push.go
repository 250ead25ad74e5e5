package fronts

import (
	"encoding/json" // for Caddy's raw modules

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// Push lets clients set webhooks for their tasks: URLs to which the bridge sends each new state and the output. Clients choose the URLs,
// so the bridge connects only to public addresses, over TLS and on port 443, unless an option below allows more; the options of
// the same names outside of this block are for providers, and have no effect here. Redirects are not followed. It sends up to
// 64 requests at a time, of which 16 for one principal and 8 to one host, and for each webhook eight at once and then one each
// second. If the answer to an event is not 2xx, the event is sent again after 1, 2, 4, 8 and 16 seconds; after five lost events in a
// row, nothing more is sent to the webhook.
type Push struct {
	WebhookAddresses
}

// Outbound has the options of a handler for connections.
type Outbound struct {
	Transport json.RawMessage // the option transport; nil: its default
	Overhead  int64           // the limit connection_overhead
	Observer  *observe.Observer
	Sealer    *runtoken.Sealer // of secrets that are stored
}

// pushSource is the name of connections to webhooks in reports, where connections to providers have the source.
const pushSource = "a2a.push"

// read reads the option push.
func (p *Push) read(r *options.Reader) error {
	if err := r.NoArgs(); err != nil {
		return err
	}
	return r.Block("push", "a2a.push", p.targets(r, "a2a.push"))
}

// check checks the options.
func (p *Push) check(c *options.Checker) {
	if p != nil {
		p.WebhookAddresses.check(c, "a2a.push")
	}
}

// serve returns the webhooks of a handler, and a function that ends them.
func (p *Push) serve(ctx caddy.Context, out *Outbound, d *push.Deliverer) (*push.Webhooks, func(), error) {
	client, end, err := p.client(ctx, out, "push", pushSource)
	if err != nil {
		return nil, nil, err
	}
	w := &push.Webhooks{
		Client: client, Deliverer: d, Sealer: out.Sealer,
		Panicked: out.Observer.Panicked,
		Attempted: func(a *push.Attempt) {
			out.Observer.Pushed(&observe.Push{
				Task: a.Task, Skill: a.Skill, Webhook: a.Webhook, Host: a.Host, Event: a.Event, Try: a.Try, Outcome: string(a.Outcome),
				Status: a.Status, Problem: a.Problem, Duration: a.Duration, Retry: a.Retry, Lost: a.Lost, GivenUp: a.GivenUp,
			})
		},
	}
	return w, func() {
		w.End()
		end()
	}, nil
}
