package skillbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// minDialShare is what one of several addresses of a host gets of the time for
// dialing at least, as in package net.
const minDialShare = 2 * time.Second

// refusal says which rule of the operator's forbids a connection. It names
// neither the address nor what is behind it: its text may reach an agent.
type refusal struct{ rule string }

func (r *refusal) Error() string { return "refused: " + r.rule }

// Refused tells a refusal from a failure of the network. It returns the rule.
func (r *refusal) Refused() string { return r.rule }

// rules say what may be reached over the network. All transports of a handler
// have the same.
type rules struct {
	addresses *ssrf.Guardian
	// named are the single addresses that the operator allowed.
	named map[netip.Addr]bool
	ports map[uint16]bool
	// report tells the operator of a refusal, with what would allow it.
	report func(source, host, address string, r *refusal)
}

// newRules returns rules that allow public addresses and the given networks, on
// the given ports.
func newRules(networks []netip.Prefix, ports map[uint16]bool, report func(source, host, address string, r *refusal)) *rules {
	var v4, v6 []netip.Prefix
	named := make(map[netip.Addr]bool)
	for _, network := range networks {
		if network.IsSingleIP() {
			named[network.Addr()] = true
		}
		if network.Addr().Is4() {
			v4 = append(v4, network)
		} else {
			v6 = append(v6, network)
		}
	}
	return &rules{
		addresses: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
		named:     named,
		ports:     ports,
		report:    report,
	}
}

// guard judges what a transport dials. It resolves names itself and dials the
// addresses it has judged, so that no name can mean one address when it is
// judged and another when it is dialed.
type guard struct {
	*rules
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	next    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // of resolving and dialing together
}

// dial connects to a host and port if an address of the host may be reached.
func (g *guard) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	// With this in the context, Caddy's transport would dial whatever it says.
	if _, diverted := reverseproxy.GetDialInfo(ctx); diverted {
		return nil, &refusal{"the request carries an upstream of reverse_proxy"}
	}
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	addresses, err := g.judge(ctx, hostport)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	var first error
	for i, address := range addresses {
		share := max(time.Until(deadline)/time.Duration(len(addresses)-i), minDialShare)
		conn, err := g.dialAddress(ctx, network, address, share)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (g *guard) dialAddress(ctx context.Context, network string, address netip.AddrPort, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// Caddy's transport hides the cause of a failure from errors.As; the trace shows it.
	var cause error
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone: func(_, _ string, err error) { cause = err },
	})
	conn, err := g.next(ctx, network, address.String())
	if err != nil && cause != nil {
		err = cause
	}
	return conn, err
}

// judge returns the addresses of a host that may be reached on its port. There
// is at least one, or an error: a *refusal or a failure to resolve.
func (g *guard) judge(ctx context.Context, hostport string) ([]netip.AddrPort, error) {
	source := skillsharing.SourceOf(ctx)
	host, port, err := g.target(source, hostport)
	if err != nil {
		return nil, err
	}
	candidates, err := g.resolve(ctx, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return g.reachable(source, hostport, port, candidates)
}

// target takes a host and port apart and judges what can be judged of them
// without knowing the host's addresses. An error is a *refusal.
func (r *rules) target(source, hostport string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", 0, &refusal{"host and port can't be told apart"}
	}
	port, err = r.check(host, text)
	if err != nil {
		return "", 0, r.refuse(source, hostport, "", err)
	}
	return host, port, nil
}

// check judges a port and how a host is spelled. The error says which rule forbids
// them.
func (r *rules) check(host, portText string) (port uint16, err error) {
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || !r.ports[uint16(n)] {
		return 0, fmt.Errorf("port %.20s is not allowed", portText)
	}
	return uint16(n), checkSpelling(host)
}

// reachable returns those of a host's addresses, of which there is at least one,
// that may be reached. If there are none, the error is a *refusal.
func (r *rules) reachable(source, hostport string, port uint16, candidates []netip.Addr) ([]netip.AddrPort, error) {
	var allowed []netip.AddrPort
	for _, address := range candidates {
		// Resolvers may hand out IPv4 addresses as IPv6 ones.
		if address = address.Unmap(); r.allows(address) {
			allowed = append(allowed, netip.AddrPortFrom(address, port))
		}
	}
	if len(allowed) == 0 {
		return nil, r.refuse(source, hostport, candidates[0].String(), errNotPublic)
	}
	return allowed, nil
}

// allows reports whether an address may be reached.
func (r *rules) allows(address netip.Addr) bool {
	return address.Zone() == "" && r.addresses.SafeAddr(address) == nil && (!metadata[address] || r.named[address])
}

// metadata are the addresses under which clouds hand out the credentials of the
// machine. Some lie in networks that are allowed for other reasons, so only who
// names one of them gets it.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"): true, // AWS, Azure, Google Cloud, DigitalOcean, Oracle and others
	netip.MustParseAddr("169.254.170.2"):   true, // AWS ECS, credentials of tasks
	netip.MustParseAddr("169.254.170.23"):  true, // AWS EKS, credentials of pods
	netip.MustParseAddr("fd00:ec2::254"):   true, // AWS
	netip.MustParseAddr("fd00:ec2::23"):    true, // AWS EKS
	netip.MustParseAddr("fd20:ce::254"):    true, // Google Cloud
	netip.MustParseAddr("100.100.100.200"): true, // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"):     true, // Oracle Cloud
	netip.MustParseAddr("168.63.129.16"):   true, // Azure, public though it is reached from within only
}

func (g *guard) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	addresses, err := g.lookup(ctx, host)
	if err == nil && len(addresses) == 0 {
		err = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return addresses, err
}

var errNotPublic = errors.New("address is not public")

func (r *rules) refuse(source, hostport, address string, rule error) *refusal {
	refused := &refusal{rule.Error()}
	r.report(source, hostport, address, refused)
	return refused
}

// checkSpelling checks that a host is an address in its usual form, or a name.
// There are systems that take 127.1, 0x7f.0.0.1 and 2130706433 for 127.0.0.1, so
// a name whose last part is a number is neither (WHATWG URL Standard, section 3.5).
func checkSpelling(host string) error {
	if address, err := netip.ParseAddr(host); err == nil {
		switch {
		case address.Zone() != "":
			return errors.New("address has a zone")
		case address.Is4In6():
			return errors.New("address is IPv4 written as IPv6")
		}
		return nil
	}
	name := strings.TrimSuffix(host, ".")
	if len(name) > 253 {
		return errors.New("host name is too long")
	}
	var last string
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, labelCharacters) != "" {
			return errors.New("host is neither a name (xn--… if it is not ASCII) nor an address in its usual form")
		}
		last = label
	}
	if isNumber(last) {
		return errors.New("address is not written in its usual form")
	}
	return nil
}

// labelCharacters are those of host names; in practice, the underscore is one.
const labelCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
