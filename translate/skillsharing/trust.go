package skillsharing

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// Audience decides which hosts may receive the secrets of one source. It is the
// only place where that is decided. The zero value lets nothing receive them.
type Audience struct {
	origin    authority
	trusted   map[authority]bool
	below     []authority // whose subdomains are trusted, on that port
	plaintext bool        // the operator wrote the origin with http://
}

// authority is a host in canonical form and a port.
type authority struct{ host, port string }

// NewAudience returns the audience of a source whose origin (or descriptor URL)
// the operator configured, with the further hosts that he trusts, each as
// host or host:port, or *.host or *.host:port for all subdomains of a host.
// Without a port, 443 is meant.
func NewAudience(origin *url.URL, trust []string) (*Audience, error) {
	own, err := authorityOf(origin)
	if err != nil {
		return nil, err
	}
	a := &Audience{origin: own, plaintext: origin.Scheme == "http", trusted: make(map[authority]bool, len(trust))}
	for _, t := range trust {
		if err := a.trust(t); err != nil {
			return nil, fmt.Errorf("trusted host %q: %w", t, err)
		}
	}
	return a, nil
}

func (a *Audience) trust(text string) error {
	text, subdomains := strings.CutPrefix(text, "*.")
	u, err := url.Parse("https://" + text)
	if err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want a host name or address, optionally with a port")
	}
	host, err := authorityOf(u)
	if err != nil {
		return err
	}
	if !subdomains {
		a.trusted[host] = true
		return nil
	}
	if err := checkSubdomains(host.host); err != nil {
		return err
	}
	a.below = append(a.below, host)
	return nil
}

// Includes reports whether a secret of the source may be sent to u: to the
// provider's own host and port, and the trusted hosts; over https, unless the
// operator wrote the provider's origin with http.
func (a *Audience) Includes(u *url.URL) bool {
	if u.Scheme != "https" && (u.Scheme != "http" || !a.plaintext) {
		return false
	}
	target, err := authorityOf(u)
	if err != nil {
		return false
	}
	return target == a.origin || a.trusted[target] || slices.ContainsFunc(a.below, target.isBelow)
}

func (a authority) isBelow(parent authority) bool {
	return a.port == parent.port && strings.HasSuffix(a.host, "."+parent.host)
}

// checkSubdomains says why the names below a host can't be trusted together: they
// have to belong to the owner of the host.
func checkSubdomains(host string) error {
	const instead = "; name each host that may receive the secret"
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := netip.ParseAddr(host); err == nil || strings.Trim(last, "0123456789") == "" { // as the end of an address
		return errors.New("an address has no subdomains" + instead)
	}
	if !strings.Contains(host, ".") {
		return fmt.Errorf("%s is a single label, whose subdomains may belong to anyone"+instead, host)
	}
	if isPublicSuffix(host) || isPublicSuffix("x."+host) { // the list has *.compute.amazonaws.com, but not compute.amazonaws.com
		return fmt.Errorf("%s is a public suffix, whose subdomains belong to different owners"+instead, host)
	}
	return nil
}

func isPublicSuffix(host string) bool {
	suffix, _ := publicsuffix.PublicSuffix(host)
	return suffix == host
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
