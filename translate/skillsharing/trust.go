package skillsharing

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Audience decides which hosts may receive the secrets of one source. It is the
// only place where that is decided.
type Audience struct {
	origin    authority
	subdomain string // what the hosts below the origin's end in; empty: they get nothing
	trusted   map[authority]bool
	plaintext bool // the operator wrote the origin with http://
}

// authority is a host in canonical form and a port.
type authority struct{ host, port string }

// NewAudience returns the audience of a source whose origin (or descriptor URL)
// the operator configured, with the further hosts that he trusts, each as
// host or host:port. Without a port, 443 is meant.
func NewAudience(origin *url.URL, trust []string) (*Audience, error) {
	own, err := authorityOf(origin)
	if err != nil {
		return nil, err
	}
	a := &Audience{origin: own, plaintext: origin.Scheme == "http", trusted: make(map[authority]bool, len(trust))}
	if hasSubdomains(own.host) {
		a.subdomain = "." + own.host
	}
	for _, t := range trust {
		u, err := url.Parse("https://" + t)
		if err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("trusted host %q: want a host name or address, optionally with a port", t)
		}
		host, err := authorityOf(u)
		if err != nil {
			return nil, fmt.Errorf("trusted host %q: %w", t, err)
		}
		a.trusted[host] = true
	}
	return a, nil
}

// Includes reports whether a secret of the source may be sent to u: to the
// provider's own host, its subdomains on 443, and the trusted hosts; over https,
// unless the operator himself wrote the provider's origin with http.
func (a *Audience) Includes(u *url.URL) bool {
	target, ok := a.acceptable(u)
	if !ok {
		return false
	}
	return a.names(target) || a.isSubdomain(target, u.Scheme)
}

// IncludesExactly is [Audience.Includes] without the subdomains: the rule for
// long-lived secrets such as client secrets and refresh tokens.
func (a *Audience) IncludesExactly(u *url.URL) bool {
	target, ok := a.acceptable(u)
	return ok && a.names(target)
}

func (a *Audience) acceptable(u *url.URL) (authority, bool) {
	if u.Scheme != "https" && (u.Scheme != "http" || !a.plaintext) {
		return authority{}, false
	}
	target, err := authorityOf(u)
	return target, err == nil
}

func (a *Audience) names(target authority) bool { return target == a.origin || a.trusted[target] }

func (a *Audience) isSubdomain(target authority, scheme string) bool {
	return a.subdomain != "" && scheme == "https" && target.port == "443" && strings.HasSuffix(target.host, a.subdomain)
}

// hasSubdomains reports whether whoever owns host owns the names below it, too.
func hasSubdomains(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil || !strings.Contains(host, ".") {
		return false
	}
	suffix, _ := publicsuffix.PublicSuffix(host)
	return suffix != host
}

// authorityOf returns the host and port of u in the form in which they are
// compared: lower case ASCII without the root's dot, addresses in their shortest
// form, the scheme's port where none is written.
func authorityOf(u *url.URL) (authority, error) {
	if u.User != nil {
		return authority{}, fmt.Errorf("%q has user information before its host", u.Redacted())
	}
	standard, ok := map[string]string{"https": "443", "http": "80"}[u.Scheme]
	if !ok {
		return authority{}, fmt.Errorf("scheme %q is neither https nor http", u.Scheme)
	}
	port := cmp.Or(u.Port(), standard)
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return authority{}, fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	port = strconv.FormatUint(number, 10)
	host := u.Hostname()
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return authority{}, fmt.Errorf("address %q has a zone", host)
		}
		return authority{addr.Unmap().String(), port}, nil
	}
	name, ok := hostName(strings.TrimSuffix(host, "."))
	if !ok {
		return authority{}, fmt.Errorf("%q is not a host name", host)
	}
	return authority{name, port}, nil
}

// hostName returns a name as it is looked up. The underscore is in no standard's
// host names, but in those of many container networks, so idna does not judge
// names that are ASCII already.
func hostName(name string) (string, bool) {
	if strings.IndexFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		ascii, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", false
		}
		name = ascii
	}
	name = strings.ToLower(name)
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", false
		}
	}
	return name, len(name) <= 253
}

func (a authority) String() string { return net.JoinHostPort(a.host, a.port) }
