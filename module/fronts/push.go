package fronts

import (
	"context"
	"encoding/json" // for Caddy's raw modules
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
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
	// Allow webhooks without TLS, also on port 80. Every host on the network path can then read the outputs of skills and the
	// credentials for the webhook. Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that webhooks may have although they are not public: networks in CIDR notation, or single addresses. Each client
	// can make the bridge send requests to all of them, so allow the smallest networks possible. (In the Caddyfile,
	// `private_ranges` stands for all private IPv4 and IPv6 ranges.) Default: none. Example: `["10.1.2.7"]`.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// Ports that webhooks may have besides 443. Default: none. Example: `[8443]`.
	AllowPorts []int `json:"allow_ports,omitempty"`

	// Allow all ports. (In the Caddyfile: `allow_ports any`.) Default: false.
	AllowAnyPort bool `json:"allow_any_port,omitempty"`
}

// Outbound has the options of a handler for connections.
type Outbound struct {
	Transport json.RawMessage // the option transport; nil: its default
	Overhead  int64           // the limit connection_overhead
	Observer  *observe.Observer
}

const (
	// pushSource is the name of connections to webhooks in reports, where connections to providers have the source.
	pushSource = "a2a.push"

	// Bounds of idle connections. They are low, since clients choose the hosts.
	pushIdle        = 64
	pushIdlePerHost = 8
	pushIdleTime    = 30 * time.Second
)

// read reads the option push.
func (p *Push) read(r *options.Reader) error {
	if err := r.NoArgs(); err != nil {
		return err
	}
	return r.Block("push", "a2a.push", options.Targets{
		"allow_http":     &p.AllowHTTP,
		"allow_networks": network.ReadNetworks(r, "a2a.push.allow_networks", &p.AllowNetworks),
		"allow_ports":    network.ReadPorts(r, "a2a.push.allow_ports", &p.AllowPorts, &p.AllowAnyPort),
	})
}

// check checks the options.
func (p *Push) check(c *options.Checker) {
	if p != nil {
		network.CheckAllowed(c, "a2a.push.", p.AllowNetworks, p.AllowPorts)
	}
}

// ports returns the ports that webhooks may have; nil: all.
func (p *Push) ports() map[uint16]bool {
	if p.AllowAnyPort {
		return nil
	}
	ports := map[uint16]bool{443: true, 80: p.AllowHTTP}
	for _, port := range p.AllowPorts {
		ports[uint16(port)] = true //nolint:gosec // check has checked the range
	}
	return ports
}

// serve returns the webhooks of a handler, and a function that ends them.
func (p *Push) serve(ctx caddy.Context, out *Outbound, d *push.Deliverer) (*push.Webhooks, func(), error) {
	networks, err := network.ParseNetworks(p.AllowNetworks)
	if err != nil {
		return nil, nil, err
	}
	rules := network.NewRules(networks, p.ports(), func(_, host, address string, r *network.RefusedError) {
		out.Observer.RefusedWebhook(pushSource, host, address, r)
	})
	transport, err := network.NewTransport(ctx, out.Transport, rules, out.Overhead)
	if err != nil {
		return nil, nil, err
	}
	transport.LimitIdle(pushIdle, pushIdlePerHost, pushIdleTime)
	keys, release, err := storage.HoldRunTokenKeys(ctx)
	if err != nil {
		return nil, nil, err
	}
	w := &push.Webhooks{
		Deliverer: d, Transport: transport, AllowHTTP: p.AllowHTTP, Sealer: runtoken.New(keys, nil),
		Judge:    func(ctx context.Context, u *url.URL) error { return transport.Judge(ctx, pushSource, u) },
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
		transport.CloseIdleConnections()
		release()
	}, nil
}
