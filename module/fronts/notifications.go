package fronts

import (
	"context"
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Notifications let callers of the Skills Protocol choose a URL to which the bridge sends the end of a run (`notify` of
// `execute_skill`), signed as Standard Webhooks. Callers choose the URLs, so the bridge connects only to public addresses, over TLS and
// on port 443, unless an option below allows more; the options of the same names outside of this block are for providers, and have
// no effect here. Redirects are not followed. It sends up to 64 requests at a time, of which 16 for one principal and 8 to one host; a
// principal causes 8 requests at once to a host and then one each second, and further ones wait.
// If the answer is not 2xx, the request is sent again after 5 seconds, 1, 5 and 30 minutes, and 2, 5 and 10 hours, also by the next
// process, and not before the time of `Retry-After`, up to an hour. Requests wait in the database; those that are due are in memory, up to 20,000.
type Notifications struct {
	WebhookAddresses

	// Secrets that sign all requests, as `whsec_` and 24 to 64 random bytes in base64. A request has a signature for each of
	// them, so that receivers accept it while a secret is replaced. A caller's own token signs its requests, too. Placeholders such as
	// `{env.NAME}` and `{file./path}` are replaced when the configuration loads. Default: none, so that each caller has to send a
	// token. Example: `["{env.WEBHOOK_SECRET}"]`.
	Secrets []string `json:"secrets,omitempty"`
}

const (
	// notificationsSource is the name of connections in reports, where connections to providers have the source. It is the name of the
	// block, too.
	notificationsSource = "notifications"
	// maxSecrets bounds the signatures of a request.
	maxSecrets = 4
)

// read reads the option notifications.
func (n *Notifications) read(r *options.Reader) error {
	if err := r.NoArgs(); err != nil {
		return err
	}
	targets := n.targets(r, "notifications")
	targets["secrets"] = &n.Secrets
	return r.Block("notifications", "notifications", targets)
}

// check checks the options.
func (n *Notifications) check(c *options.Checker, m *Mounts) {
	n.WebhookAddresses.check(c, "notifications")
	if m.Any() && m.RPC == nil {
		c.Check("notifications", errors.New("notifications are for the Skills Protocol, which is not served: add rpc, or remove notifications"))
	}
	if len(n.Secrets) > maxSecrets {
		c.Check(options.Element("notifications.secrets", maxSecrets), fmt.Errorf("there are more than %d secrets", maxSecrets))
	}
	for i, text := range n.Secrets {
		c.Check(options.Element("notifications.secrets", i), credentials.CheckSecret(text))
	}
}

// Serve returns the call-backs of a handler for its kept runs, which begin with the configuration; nil: there are none. body returns what a call-back says.
func (n *Notifications) Serve(ctx caddy.Context, s *Setup, kept *KeptRuns, body func(context.Context, *ledger.Entry, *run.Run) []byte) (_ *callbacks.Sender, release func(), err error) {
	if n == nil || kept == nil {
		return nil, func() {}, nil
	}
	var secrets []callbacks.Secret
	for i, text := range n.Secrets {
		path := options.Element("notifications.secrets", i)
		value, err := credentials.Secret(ctx, path, text)
		if err != nil {
			return nil, nil, &options.ConfigError{Path: path, Err: err}
		}
		secret, err := callbacks.ParseSecret(value)
		if err != nil {
			return nil, nil, &options.ConfigError{Path: path, Err: err}
		}
		secrets = append(secrets, secret)
	}
	client, end, err := n.client(ctx, &s.Outbound, notificationsSource, notificationsSource)
	if err != nil {
		return nil, nil, err
	}
	c := &callbacks.Sender{
		Client: client, Deliverer: kept.deliverer, Secrets: secrets, Sealer: s.Outbound.Sealer, Outcome: kept.Outcome, Body: body, Panicked: s.Observer.Panicked,
		Attempted: func(a *delivery.Attempt) {
			report := observe.Notification{
				ID: a.Delivery.Run.ID, Caller: a.Delivery.Run.Owner.Principal, Host: a.Host, Try: a.Try, Outcome: string(a.Outcome), Status: a.Status, Problem: a.Problem,
				Duration: a.Duration, Retry: a.Retry, GivenUp: a.GivenUp,
			}
			if a.Entry != nil {
				report.Skill, report.RunID = a.Entry.Skill, a.Entry.Ref.ExecutionID
			}
			report.Report(s.Observer)
		},
	}
	err = lifetime.OnStart(ctx, func() {
		c.Served = delivery.Served{Realm: s.Realm(), Front: skillsprotocol.Name}
		c.Begin()
		context.AfterFunc(ctx, c.End) // nothing is sent with a configuration that is used no longer
	})
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}
