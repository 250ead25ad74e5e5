package fronts

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/callbacks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Webhooks let callers choose URLs to which the bridge sends the news of their runs: the end of a run of the Skills Protocol (`notify` of
// `execute_skill`), signed as Standard Webhooks, and each new state and the output of a task of A2A (push notifications). Callers choose the URLs,
// so the bridge connects only to public addresses, over TLS and on port 443, unless an option below allows more; the options of the same names outside
// of this block are for providers, and have no effect here. Redirects are not followed. It sends up to 64 requests at a time, of which 16 for one
// principal and 8 to one host; a principal causes 8 requests at once to a host and then one each second, and further ones wait. If the answer is not 2xx,
// the request is sent again later, also by the next process.
type Webhooks struct {
	// Secrets that sign the requests about the ends of runs of the Skills Protocol, as `whsec_` and 24 to 64 random bytes in base64. A request has a
	// signature for each of them, so that receivers accept it while a secret is replaced. A caller's own token signs its requests, too. Placeholders
	// such as `{env.NAME}` and `{file./path}` are replaced when the configuration loads. Default: none, so that each caller has to send a token.
	// Example: `["{env.WEBHOOK_SECRET}"]`.
	Secrets []string `json:"secrets,omitempty"`

	// Allow URLs without TLS, also on port 80. Every host on the network path can then read the outputs of skills and the credentials for the
	// webhook. Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that webhooks may have although they are not public: networks in CIDR notation, or single addresses. Each caller
	// can make the bridge send requests to all of them, so allow the smallest networks possible. (In the Caddyfile,
	// `private_ranges` stands for all private IPv4 and IPv6 ranges.) Default: none. Example: `["10.1.2.7"]`.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// Ports that webhooks may have besides 443. Default: none. Example: `[8443]`.
	AllowPorts []int `json:"allow_ports,omitempty"`

	// Allow all ports. (In the Caddyfile: `allow_ports any`.) Default: false.
	AllowAnyPort bool `json:"allow_any_port,omitempty" option:"-"`
}

const (
	// webhooksBlock is the name of the block, and that of connections in reports, where connections to providers have the source.
	webhooksBlock = "webhooks"
	// maxSecrets bounds the signatures of a request.
	maxSecrets = 4

	// Bounds of idle connections. They are low, since callers choose the hosts.
	webhooksIdle        = 64
	webhooksIdlePerHost = 8
	webhooksIdleTime    = 30 * time.Second
)

// Read reads the option webhooks.
func (w *Webhooks) Read(r *options.Reader) error {
	if err := r.NoArgs(); err != nil {
		return err
	}
	return r.Block(webhooksBlock, webhooksBlock, r.Of(w, options.Targets{
		"allow_networks": network.ReadNetworks(r, "webhooks.allow_networks", &w.AllowNetworks),
		"allow_ports":    network.ReadPorts(r, "webhooks.allow_ports", &w.AllowPorts, &w.AllowAnyPort),
	}))
}

// check checks the options.
func (w *Webhooks) check(c *options.Checker, m *Mounts) {
	network.CheckAllowed(c, "webhooks.", w.AllowNetworks, w.AllowPorts)
	switch {
	case !m.servesRPC() && m.A2A == nil:
		c.Check(webhooksBlock, errors.New("webhooks are for the Skills Protocol and A2A, which are not served: add rpc or a2a, or remove webhooks"))
	case !m.servesRPC() && len(w.Secrets) > 0:
		c.Check("webhooks.secrets", errors.New("secrets sign only what is sent about runs of the Skills Protocol, which is not served: add rpc, or remove secrets"))
	}
	if len(w.Secrets) > maxSecrets {
		c.Check(options.Element("webhooks.secrets", maxSecrets), fmt.Errorf("there are more than %d secrets", maxSecrets))
	}
	for i, text := range w.Secrets {
		c.Check(options.Element("webhooks.secrets", i), credentials.CheckSecret(text))
	}
}

// ports returns the ports that webhooks may have; nil: all.
func (w *Webhooks) ports() map[uint16]bool {
	if w.AllowAnyPort {
		return nil
	}
	ports := map[uint16]bool{443: true, 80: w.AllowHTTP}
	for _, port := range w.AllowPorts {
		ports[uint16(port)] = true //nolint:gosec // check has checked the range
	}
	return ports
}

// Client returns the client for the webhooks of a handler, and a function that closes its idle connections; nil: callers can't choose URLs.
func (w *Webhooks) Client(ctx caddy.Context, s *Setup) (*webhook.Client, func(), error) {
	if w == nil {
		return nil, func() {}, nil
	}
	networks, err := network.ParseNetworks(w.AllowNetworks)
	if err != nil {
		return nil, nil, err
	}
	rules := network.NewRules(networks, w.ports(), func(_, host, address string, r *exchange.RefusedError) {
		s.Observer.RefusedWebhook(webhooksBlock, host, address, r)
	})
	transport, err := network.NewTransport(ctx, s.Transport, rules, s.Overhead)
	if err != nil {
		return nil, nil, err
	}
	transport.LimitIdle(webhooksIdle, webhooksIdlePerHost, webhooksIdleTime)
	return &webhook.Client{
		Transport: transport, AllowHTTP: w.AllowHTTP, Proxied: transport.Proxied(),
		Judge: func(ctx context.Context, u *url.URL) error { return transport.Judge(ctx, webhooksBlock, u) },
	}, transport.CloseIdleConnections, nil
}

// Callbacks returns the call-backs of a handler for its kept runs, which begin with the configuration; nil: there are none. body returns what a
// call-back says.
func (m *Mounts) Callbacks(ctx caddy.Context, s *Setup, kept *KeptRuns, body func(context.Context, *ledger.Entry, *run.Run) []byte) (*callbacks.Sender, error) {
	if s.Webhooks == nil || kept == nil || !m.servesRPC() {
		return nil, nil //nolint:nilnil // see above
	}
	c := &callbacks.Sender{
		Sender: s.sender(skillsprotocol.Name, s.Observer.Notified), Sealer: s.Sealer, Outcome: kept.Outcome, Body: body,
	}
	for i, text := range m.Webhooks.Secrets {
		value, err := credentials.Secret(ctx, options.Element("webhooks.secrets", i), text)
		secret := callbacks.Secret{}
		if err == nil {
			secret, err = callbacks.ParseSecret(value)
		}
		if err != nil {
			return nil, &options.ConfigError{Path: options.Element("webhooks.secrets", i), Err: err}
		}
		c.Secrets = append(c.Secrets, secret)
	}
	return c, whileUsed(ctx, kept.deliverer, c.Events())
}

// push returns the webhooks of a handler for its tasks, which begin with the configuration; nil: clients can't set any.
func (s *Setup) push(ctx caddy.Context, kept *KeptRuns) (*a2a.Webhooks, error) {
	if s.Webhooks == nil {
		return nil, nil //nolint:nilnil // see above
	}
	w := &a2a.Webhooks{
		Sender: s.sender(a2a.Name, s.Observer.Pushed), Deliverer: kept.deliverer, Ledger: ledger.Viewed{Ledger: kept.Ledger}, Sealer: s.Sealer,
	}
	return w, whileUsed(ctx, kept.deliverer, w.Events())
}

func (s *Setup) sender(front string, attempted func(*delivery.Attempt)) delivery.Sender {
	return delivery.Sender{Served: delivery.Served{Realm: s.Realm, Front: front}, Client: s.Webhooks, Panicked: s.Observer.Panicked, Attempted: attempted}
}

// whileUsed makes a deliverer send with a configuration, until it is used no longer.
func whileUsed(ctx caddy.Context, d *delivery.Deliverer, s *delivery.Sender) error {
	return lifetime.OnStart(ctx, func() {
		d.Begin(s)
		context.AfterFunc(ctx, func() { d.End(s) })
	})
}
