package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// minDialShare is the minimum time for dialing one address of a host that has several, as in
// package net.
const minDialShare = 2 * time.Second

// Reasons to refuse the addresses of a host. After a lookup, the text of the error is always
// errNowhere, and only the log has errNotPublic or errNoSuchHost: otherwise a caller could
// find out which names exist in the operator's network.
var (
	errNotPublic  = &ruleError{run.RuleAddress, "address is not public"}
	errNoSuchHost = &ruleError{run.RuleNoSuchHost, "host name does not exist"}
	errNowhere    = errors.New("host name has no address that may be called")
)

// refusal returns the error of a connection that is refused for a reason that callers may know.
func refusal(reason string) *exchange.RefusedError {
	return &exchange.RefusedError{Reason: reason, Exact: reason, Rule: run.RuleHost}
}

// ruleError says which rule forbids a host or a port.
type ruleError struct {
	kind run.Rule
	text string
}

func (e *ruleError) Error() string { return e.text }

// Rules say which addresses and ports the bridge may connect to. All transports of a handler
// share them.
type Rules struct {
	addresses *ssrf.Guardian
	networks  []netip.Prefix // that the operator allowed
	// named are the single addresses that the operator allowed.
	named map[netip.Addr]bool
	ports map[uint16]bool // nil: any
	// Notice reports events other than refusals to the operator; nil: they are not reported.
	Notice func(context.Context, *exchange.Notice)
	// report reports a refusal to the operator.
	report func(source, host, address string, r *exchange.RefusedError)
}

// NewRules returns rules that allow public addresses and the given networks, on
// the given ports; nil: on any port.
func NewRules(networks []netip.Prefix, ports map[uint16]bool, report func(source, host, address string, r *exchange.RefusedError)) *Rules {
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
	return &Rules{
		addresses: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...)),
		networks:  networks,
		named:     named,
		ports:     ports,
		report:    report,
	}
}

// guard checks the addresses that a transport dials. It resolves names itself and dials the
// addresses that it has checked, so that a second lookup can't replace them (DNS rebinding).
type guard struct {
	*Rules
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	next    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // of resolving and dialing together
}

// dial connects to a host and port. It tries the addresses of the host that may be reached, one
// after the other.
func (g *guard) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	// Caddy's transport dials the address in this context value, if there is one.
	if _, diverted := reverseproxy.GetDialInfo(ctx); diverted {
		return nil, refusal("the request carries an upstream of reverse_proxy")
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

// judge returns the addresses of a host that may be reached, with the port. If there are none,
// the error is a *exchange.RefusedError, or the resolver's.
func (g *guard) judge(ctx context.Context, hostport string) ([]netip.AddrPort, error) {
	source := exchange.SourceOf(ctx)
	host, port, err := g.target(source, hostport)
	if err != nil {
		return nil, err
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return g.reachable(source, hostport, port, []netip.Addr{address}, errNotPublic)
	}
	candidates, err := g.lookup(ctx, host)
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound || err == nil && len(candidates) == 0 {
		return nil, g.refuse(source, hostport, "", errNowhere, errNoSuchHost)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return g.reachable(source, hostport, port, candidates, errNowhere)
}

// target splits a host and port and checks them without looking up the host. An error is
// a *exchange.RefusedError.
func (r *Rules) target(source, hostport string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", 0, refusal("host and port can't be separated")
	}
	port, err = r.check(host, text)
	if err != nil {
		return "", 0, r.refuse(source, hostport, "", err, err)
	}
	return host, port, nil
}

// judgeURL checks a URL without looking up its host. An error is a *exchange.RefusedError.
func (r *Rules) judgeURL(source string, u *url.URL) error {
	host, port := u.Hostname(), portOf(u)
	if _, fault := r.check(host, port); fault != nil {
		return r.refuse(source, hostport(u), "", fault, fault)
	}
	if address, notAddress := netip.ParseAddr(host); notAddress == nil && !r.Allows(address) {
		return r.refuse(source, hostport(u), address.String(), errNotPublic, errNotPublic)
	}
	return nil
}

// check checks a port and the spelling of a host. The error says which rule forbids them.
func (r *Rules) check(host, portText string) (port uint16, err error) {
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return 0, &ruleError{run.RulePort, "port is not a number up to 65535"}
	}
	if r.ports != nil && !r.ports[uint16(n)] {
		return 0, &ruleError{run.RulePort, fmt.Sprintf("port %d is not allowed", n)}
	}
	return uint16(n), CheckSpelling(host)
}

// reachable returns those addresses of a host that may be reached. If there are none, the
// error is a *exchange.RefusedError.
func (r *Rules) reachable(source, hostport string, port uint16, candidates []netip.Addr, rule error) ([]netip.AddrPort, error) {
	var allowed []netip.AddrPort
	for _, address := range candidates {
		// Resolvers may return IPv4 addresses as IPv6 addresses.
		if address = address.Unmap(); r.Allows(address) {
			allowed = append(allowed, netip.AddrPortFrom(address, port))
		}
	}
	if len(allowed) == 0 {
		return nil, r.refuse(source, hostport, candidates[0].Unmap().String(), rule, errNotPublic)
	}
	return allowed, nil
}

// Allows reports whether an address and the IPv4 addresses embedded in it may be reached.
// An address that the operator allows individually always may.
func (r *Rules) Allows(address netip.Addr) bool {
	if address.Zone() != "" || r.addresses.SafeAddr(address) != nil {
		return false
	}
	if r.named[address] {
		return true
	}
	return !metadata[address] && !slices.ContainsFunc(embedded(address, r.allowedBits(address)), func(inner netip.Addr) bool { return !r.Allows(inner) })
}

// allowedBits returns the prefix length of the smallest allowed network that contains an
// address; 0 if there is none.
func (r *Rules) allowedBits(address netip.Addr) int {
	bits := 0
	for _, network := range r.networks {
		if network.Contains(address) {
			bits = max(bits, network.Bits())
		}
	}
	return bits
}

func (r *Rules) refuse(source, hostport, address string, rule, why error) *exchange.RefusedError {
	refused := refusal(rule.Error())
	refused.Exact, refused.Passing = why.Error(), errors.Is(rule, errNowhere)
	if own, ok := errors.AsType[*ruleError](why); ok {
		refused.Rule = own.kind
	}
	r.report(source, hostport, address, refused)
	return refused
}

// CheckSpelling checks that a host is an address in its usual form, or a name. Some systems
// read 127.1, 0x7f.0.0.1 and 2130706433 as 127.0.0.1, so a name whose last part is a number
// is refused (WHATWG URL Standard, section 3.5).
func CheckSpelling(host string) error {
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
			return errors.New("host is neither a host name (xn--… if it is not ASCII) nor an address in canonical form")
		}
		last = label
	}
	if isNumber(last) {
		return errors.New("address is not in canonical form")
	}
	return nil
}

// labelCharacters are the characters of host names. Some names in use have underscores.
const labelCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// metadata has the addresses of clouds' metadata services, which give credentials to the
// machine. Some are in networks that are allowed for other reasons, so each may be reached
// only if the operator allows it individually.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"):    true, // AWS, Azure, Google Cloud, DigitalOcean, Oracle and others
	netip.MustParseAddr("169.254.169.252"):    true, // Google Kubernetes Engine, credentials of workloads
	netip.MustParseAddr("169.254.169.253"):    true, // AWS, the resolver of a VPC
	netip.MustParseAddr("169.254.170.2"):      true, // AWS ECS, credentials of tasks
	netip.MustParseAddr("169.254.170.23"):     true, // AWS EKS, credentials of pods
	netip.MustParseAddr("169.254.42.42"):      true, // Scaleway
	netip.MustParseAddr("169.254.0.23"):       true, // Tencent Cloud
	netip.MustParseAddr("100.100.100.200"):    true, // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"):        true, // Oracle Cloud
	netip.MustParseAddr("168.63.129.16"):      true, // Azure: a public address, but reachable only from its virtual machines
	netip.MustParseAddr("fd00:ec2::254"):      true, // AWS
	netip.MustParseAddr("fd00:ec2::253"):      true, // AWS, the resolver of a VPC
	netip.MustParseAddr("fd00:ec2::23"):       true, // AWS EKS
	netip.MustParseAddr("fd20:ce::254"):       true, // Google Cloud
	netip.MustParseAddr("fd00:42::42"):        true, // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"): true, // Oracle Cloud
	netip.MustParseAddr("fd00:a9fe:a9fe::1"):  true, // Akamai (Linode)
	netip.MustParseAddr("fe80::a9fe:a9fe"):    true, // OpenStack
}

// Networks and interface identifiers of IPv6 addresses that contain an IPv4 address.
var (
	compatible      = netip.MustParsePrefix("::/96")           // RFC 4291, section 2.5.5.1
	translated      = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, section 2.1
	nat64           = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052, section 2.1
	localNAT64      = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour       = netip.MustParsePrefix("2002::/16")       // RFC 3056, section 2
	teredo          = netip.MustParsePrefix("2001::/32")       // RFC 4380, section 4
	isatapLocal     = [4]byte{0, 0, 0x5e, 0xfe}                // RFC 5214, section 6.1
	isatapUniversal = [4]byte{2, 0, 0x5e, 0xfe}
)

// embedded returns the IPv4 addresses that a translator or a tunnel may connect to for an
// IPv6 address. Bits is the prefix length of the network in which the operator has allowed
// the address: shorter prefixes of translators are not considered.
func embedded(address netip.Addr, bits int) []netip.Addr {
	if address.Is4In6() {
		return []netip.Addr{address.Unmap()}
	}
	if address.Is4() {
		return nil
	}
	b := address.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	last := at(12, 13, 14, 15)
	switch {
	case compatible.Contains(address) && !address.IsLoopback() && !address.IsUnspecified(),
		translated.Contains(address), nat64.Contains(address):
		return []netip.Addr{last}
	case localNAT64.Contains(address):
		found := []netip.Addr{last}
		for _, place := range []struct { // RFC 6052, section 2.2
			prefix  int
			address netip.Addr
		}{{48, at(6, 7, 9, 10)}, {56, at(7, 9, 10, 11)}, {64, at(9, 10, 11, 12)}} {
			if place.prefix >= bits && leadsSomewhere(place.address) {
				found = append(found, place.address)
			}
		}
		if len(found) > 1 && !leadsSomewhere(last) { // with a prefix shorter than 96 bits, the end of the address is unused
			found = found[1:]
		}
		return found
	case sixToFour.Contains(address):
		return []netip.Addr{at(2, 3, 4, 5)}
	case teredo.Contains(address): // the server, and the client, whose bits are inverted
		return []netip.Addr{at(4, 5, 6, 7), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	}
	if id := [4]byte(b[8:12]); id == isatapLocal || id == isatapUniversal {
		return []netip.Addr{last}
	}
	return nil
}

// leadsSomewhere reports whether a host can have an IPv4 address: no host has one in 0.0.0.0/8
// or 240.0.0.0/4.
func leadsSomewhere(address netip.Addr) bool {
	first := address.As4()[0]
	return 0 < first && first < 240
}
