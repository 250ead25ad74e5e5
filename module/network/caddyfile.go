package network

import (
	"encoding/json" // for Caddy's raw modules
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// ReadTransport returns a function that reads the option transport of a Caddyfile.
func ReadTransport(r *options.Reader, to *json.RawMessage) func() error {
	return func() error {
		if !r.NextArg() {
			return r.Err("transport takes a module: http")
		}
		if name := r.Val(); name != TransportName {
			return r.Errf("transport %s: %w", name, ErrTransport)
		}
		// Caddy's parser would ignore further arguments.
		if r.CountRemainingArgs() > 0 {
			return r.Err("transport http takes no more arguments: its options go into a block")
		}
		r.Prev()
		return r.Module(transportNamespace, "protocol", "", to)()
	}
}

// ReadNetworks returns a function that reads the option allow_networks, whose values have a JSON path: CIDR ranges, addresses, and
// Caddy's shortcut private_ranges.
func ReadNetworks(r *options.Reader, path string, to *[]string) options.Repeatable {
	return func() error {
		return r.Each("value", func(text string) error {
			networks := []string{text}
			if text == "private_ranges" {
				networks = caddyhttp.PrivateRangesCIDR()
			}
			for _, network := range networks {
				r.Mark(options.Element(path, len(*to)))
				*to = append(*to, network)
			}
			return nil
		})
	}
}

// ReadPorts is like ReadNetworks for the option allow_ports. The value any sets all; nil: it is no value.
func ReadPorts(r *options.Reader, path string, to *[]int, all *bool) options.Repeatable {
	return func() error {
		return r.Each("port", func(text string) error {
			if text == "any" && all != nil {
				*all = true
				return nil
			}
			port, err := strconv.Atoi(text)
			if err != nil {
				return fmt.Errorf("port %q is not a number from 1 to 65535", text)
			}
			r.Mark(options.Element(path, len(*to)))
			*to = append(*to, port)
			return nil
		})
	}
}

// CheckAllowed checks the options allow_networks and allow_ports of a block, whose JSON path ends with a dot or is empty.
func CheckAllowed(c *options.Checker, block string, networks []string, ports []int) {
	for i, text := range networks {
		_, err := parseNetwork(text)
		c.Check(options.Element(block+"allow_networks", i), err)
	}
	for i, port := range ports {
		if port < 1 || port > math.MaxUint16 {
			c.Check(options.Element(block+"allow_ports", i), fmt.Errorf("port %d is out of range: ports are 1 to 65535", port))
		}
	}
}

// ParseNetworks reads networks in CIDR notation, and single addresses.
func ParseNetworks(texts []string) ([]netip.Prefix, error) {
	networks := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		network, err := parseNetwork(text)
		if err != nil {
			return nil, err
		}
		networks[i] = network
	}
	return networks, nil
}

// parseNetwork reads a network in CIDR notation, or a single address.
func parseNetwork(text string) (netip.Prefix, error) {
	prefix, err := caddyhttp.CIDRExpressionToPrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("network %q is neither an address nor a CIDR range, such as 10.0.0.0/8", text)
	case strings.Contains(text, "%"): // which Caddy drops
		return netip.Prefix{}, fmt.Errorf("network %q has a zone", text)
	case prefix.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("network %q is an IPv4 network written as IPv6; write it as IPv4", text)
	}
	return prefix.Masked(), nil
}
