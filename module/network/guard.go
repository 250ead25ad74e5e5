package network

import (
	"cmp"
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

// minDialShare is what one of several addresses of a host gets of the time for
// dialing at least, as in package net.
const minDialShare = 2 * time.Second

// RefusedError says which rule of the operator's forbids a connection. It names
// neither the address nor what is behind it: its text may reach an agent.
type RefusedError struct {
	rule string
	why  string   // for the operator only; empty: the rule says all
	kind run.Rule // for the operator only; empty: the spelling of the host
}

func (r *RefusedError) Error() string { return "refused: " + r.rule }

// Refused tells a refusal from a failure of the network. It returns the rule.
func (r *RefusedError) Refused() string { return r.rule }

// Passing reports whether the refusal is about what a name leads to at the moment.
func (r *RefusedError) Passing() bool { return r.rule == errNowhere.Error() }

// Rule returns which kind of rule it is, which only the operator may see.
func (r *RefusedError) Rule() run.Rule { return cmp.Or(r.kind, run.RuleHost) }

// Why returns what only the operator may see.
func (r *RefusedError) Why() string { return cmp.Or(r.why, r.rule) }

// What may be wrong with the addresses of a host. Which of the first two it is where a
// name was looked up is for the log only, and the third is what is said to others:
// else they could find out which names there are in the operator's network.
var (
	errNotPublic  = &ruleError{run.RuleAddress, "address is not public"}
	errNoSuchHost = &ruleError{run.RuleNoSuchHost, "host name does not exist"}
	errNowhere    = errors.New("host name has no address that may be called")
)

// ruleError says which rule forbids a host or a port.
type ruleError struct {
	kind run.Rule
	text string
}

func (e *ruleError) Error() string { return e.text }

// Rules say what may be reached over the network. All transports of a handler
// have the same.
type Rules struct {
	addresses *ssrf.Guardian
	networks  []netip.Prefix // that the operator allowed
	// named are the single addresses that the operator allowed.
	named map[netip.Addr]bool
	ports map[uint16]bool
	// Notice tells the operator of anything else; nil: it does not.
	Notice func(context.Context, *exchange.Notice)
	// report tells the operator of a refusal, with what would allow it.
	report func(source, host, address string, r *RefusedError)
}

// NewRules returns rules that allow public addresses and the given networks, on
// the given ports.
func NewRules(networks []netip.Prefix, ports map[uint16]bool, report func(source, host, address string, r *RefusedError)) *Rules {
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

// guard judges what a transport dials. It resolves names itself and dials the
// addresses it has judged, so that no name can mean one address when it is
// judged and another when it is dialed.
type guard struct {
	*Rules
	lookup  func(ctx context.Context, host string) ([]netip.Addr, error)
	next    func(ctx context.Context, network, address string) (net.Conn, error)
	timeout time.Duration // of resolving and dialing together
}

// dial connects to a host and port if an address of the host may be reached.
func (g *guard) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	// With this in the context, Caddy's transport would dial whatever it says.
	if _, diverted := reverseproxy.GetDialInfo(ctx); diverted {
		return nil, &RefusedError{rule: "the request carries an upstream of reverse_proxy"}
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

// target takes a host and port apart and judges what can be judged of them
// without knowing the host's addresses. An error is a *refusal.
func (r *Rules) target(source, hostport string) (host string, port uint16, err error) {
	host, text, err := net.SplitHostPort(hostport)
	if err != nil {
		return "", 0, &RefusedError{rule: "host and port can't be separated"}
	}
	port, err = r.check(host, text)
	if err != nil {
		return "", 0, r.refuse(source, hostport, "", err, err)
	}
	return host, port, nil
}

// judgeURL judges what can be judged of a URL without looking up names. An error is a
// *refusal.
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

// check judges a port and how a host is spelled. The error says which rule forbids
// them.
func (r *Rules) check(host, portText string) (port uint16, err error) {
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return 0, &ruleError{run.RulePort, "port is not a number up to 65535"}
	}
	if !r.ports[uint16(n)] {
		return 0, &ruleError{run.RulePort, fmt.Sprintf("port %d is not allowed", n)}
	}
	return uint16(n), CheckSpelling(host)
}

// reachable returns those of a host's addresses, of which there is at least one,
// that may be reached. If there are none, the error is a *refusal by that rule.
func (r *Rules) reachable(source, hostport string, port uint16, candidates []netip.Addr, rule error) ([]netip.AddrPort, error) {
	var allowed []netip.AddrPort
	for _, address := range candidates {
		// Resolvers may hand out IPv4 addresses as IPv6 ones.
		if address = address.Unmap(); r.Allows(address) {
			allowed = append(allowed, netip.AddrPortFrom(address, port))
		}
	}
	if len(allowed) == 0 {
		return nil, r.refuse(source, hostport, candidates[0].String(), rule, errNotPublic)
	}
	return allowed, nil
}

// Allows reports whether an address may be reached, and the IPv4 addresses that it
// may lead to. What the operator has named by itself may be.
func (r *Rules) Allows(address netip.Addr) bool {
	if address.Zone() != "" || r.addresses.SafeAddr(address) != nil {
		return false
	}
	if r.named[address] {
		return true
	}
	return !metadata[address] && !slices.ContainsFunc(embedded(address, r.allowedBits(address)), func(inner netip.Addr) bool { return !r.Allows(inner) })
}

// allowedBits is the length of the smallest network that the operator allowed and
// that has an address; 0 if there is none.
func (r *Rules) allowedBits(address netip.Addr) int {
	bits := 0
	for _, network := range r.networks {
		if network.Contains(address) {
			bits = max(bits, network.Bits())
		}
	}
	return bits
}

func (r *Rules) refuse(source, hostport, address string, rule, why error) *RefusedError {
	refused := &RefusedError{rule: rule.Error(), why: why.Error()}
	if own, ok := errors.AsType[*ruleError](why); ok {
		refused.kind = own.kind
	}
	r.report(source, hostport, address, refused)
	return refused
}

// CheckSpelling checks that a host is an address in its usual form, or a name.
// There are systems that take 127.1, 0x7f.0.0.1 and 2130706433 for 127.0.0.1, so
// a name whose last part is a number is neither (WHATWG URL Standard, section 3.5).
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

// labelCharacters are those of host names; in practice, the underscore is one.
const labelCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func isNumber(label string) bool {
	if digits, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}
