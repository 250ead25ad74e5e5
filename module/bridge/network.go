package bridge

import (
	"encoding/json" // for Caddy's raw modules
	"net/netip"

	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/network"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

// Network says what the bridge may connect to, and how.
type Network struct {
	// Allow connections to providers without TLS. Anyone on the network path can then read
	// and change what is exchanged; secrets are still sent over plain HTTP only if the
	// provider's own URL is written with `http://` here. Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that are not public and may be connected to: networks in CIDR notation, or
	// single addresses. Documents of providers choose among them, so allow the smallest
	// networks possible. Metadata addresses of clouds have to be listed individually. For an
	// address behind the prefix of a translator (NAT64) or tunnel, the IPv4 address in it has
	// to be allowed, too. (In the Caddyfile, `private_ranges` stands for all private IPv4 and
	// IPv6 ranges.) Default: none. Example: `["10.1.2.0/24", "fd00:1::7"]`.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// Ports that may be connected to besides 80, 443 and those in the URLs and hosts of this
	// configuration. Default: none. Example: `[8443]`.
	AllowPorts []int `json:"allow_ports,omitempty"`

	// Transport for all outgoing requests: Caddy's own, as in `reverse_proxy`. Only `http` is
	// possible, because the bridge can check the addresses of its connections. Differences to
	// `reverse_proxy`: proxies of the environment are ignored (with `network_proxy`, the
	// target's addresses are resolved and checked here); `dial_timeout` and
	// `handshake_timeout` are `5s`, `expect_continue_timeout` is `1s`,
	// `max_response_header_size` is 64 KiB, `write_buffer_size` is 8 KiB, and 512 idle
	// connections are kept per host for `90s`, unless configured otherwise. A client certificate is presented only to hosts
	// that may receive the secrets of a provider, skill or registry. HTTP/3, the PROXY
	// protocol and placeholders in the TLS server name are refused.
	// Example: `{"protocol": "http", "resolver": {"addresses": ["10.0.0.53"]}}`.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// check checks the networks, the ports and the transport.
func (n *Network) check(c *options.Checker) {
	network.CheckAllowed(c, "", n.AllowNetworks, n.AllowPorts)
	c.Check("transport", network.CheckTransport(n.TransportRaw))
}

// ports returns the ports that may be connected to: 80, 443, allow_ports, and those of all URLs in
// the configuration of the sources.
func (n *Network) ports(from *sources.Sources) (map[uint16]bool, error) {
	ports := map[uint16]bool{80: true, 443: true}
	for _, port := range n.AllowPorts {
		ports[uint16(port)] = true //nolint:gosec // in range: checked before
	}
	return ports, from.AddPorts(ports)
}

// warnRefused logs warnings about sources whose URLs have an address that the guard refuses. It is
// not an error, because a configuration may be validated on another machine.
func warnRefused(logger *zap.Logger, rules *network.Rules, loaded []catalog.Source) {
	for _, s := range loaded {
		address, err := netip.ParseAddr(s.URL.Hostname())
		if err != nil || rules.Allows(address) {
			continue
		}
		logger.Warn("the bridge will not connect to a source of skills, because its address is not public; to allow the connection, add the line below",
			zap.String("source", s.Namespace),
			zap.String("host", s.URL.Host),
			zap.String("line", "allow_networks "+address.String()))
	}
}
