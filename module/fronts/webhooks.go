package fronts

import (
	"context"
	"net/url"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// WebhookAddresses says which addresses webhooks may have besides public ones, over TLS and on port 443.
type WebhookAddresses struct {
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

// Bounds of idle connections. They are low, since clients choose the hosts.
const (
	webhooksIdle        = 64
	webhooksIdlePerHost = 8
	webhooksIdleTime    = 30 * time.Second
)

// targets returns the options of a block.
func (w *WebhookAddresses) targets(r *options.Reader, path string) options.Targets {
	return options.Targets{
		"allow_http":     &w.AllowHTTP,
		"allow_networks": network.ReadNetworks(r, path+".allow_networks", &w.AllowNetworks),
		"allow_ports":    network.ReadPorts(r, path+".allow_ports", &w.AllowPorts, &w.AllowAnyPort),
	}
}

// check checks the options.
func (w *WebhookAddresses) check(c *options.Checker, path string) {
	network.CheckAllowed(c, path+".", w.AllowNetworks, w.AllowPorts)
}

// ports returns the ports that webhooks may have; nil: all.
func (w *WebhookAddresses) ports() map[uint16]bool {
	if w.AllowAnyPort {
		return nil
	}
	ports := map[uint16]bool{443: true, 80: w.AllowHTTP}
	for _, port := range w.AllowPorts {
		ports[uint16(port)] = true //nolint:gosec // check has checked the range
	}
	return ports
}

// client returns a client for webhooks, and a function that closes its idle connections. block is the block of the options, and source the
// name of the connections in reports.
func (w *WebhookAddresses) client(ctx caddy.Context, out *Outbound, block, source string) (webhook.Client, func(), error) {
	networks, err := network.ParseNetworks(w.AllowNetworks)
	if err != nil {
		return webhook.Client{}, nil, err
	}
	rules := network.NewRules(networks, w.ports(), func(_, host, address string, r *network.RefusedError) {
		out.Observer.RefusedWebhook(block, source, host, address, r)
	})
	transport, err := network.NewTransport(ctx, out.Transport, rules, out.Overhead)
	if err != nil {
		return webhook.Client{}, nil, err
	}
	transport.LimitIdle(webhooksIdle, webhooksIdlePerHost, webhooksIdleTime)
	return webhook.Client{
		Transport: transport, AllowHTTP: w.AllowHTTP, Proxied: transport.Proxied(),
		Judge: func(ctx context.Context, u *url.URL) error { return transport.Judge(ctx, source, u) },
	}, transport.CloseIdleConnections, nil
}
