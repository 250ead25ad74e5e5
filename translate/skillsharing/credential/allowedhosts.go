package credential

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
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

// AllowedHosts decides which hosts may receive the secrets of one source. Nothing
// else decides that. With the zero value, no host may.
type AllowedHosts struct {
	origin    Authority
	written   url.URL // the origin, as the operator wrote it
	trusted   map[Authority]bool
	below     []Authority // whose subdomains are trusted, on that port
	Plaintext bool        // the operator wrote the origin with http://
}

// Authority is a host in canonical form and a port.
type Authority struct{ host, port string }

// NewAllowedHosts returns the allowed hosts of a source whose origin (or descriptor URL)
// the operator configured, with the further hosts that the operator trusts, each as host
// or host:port, or *.host or *.host:port for all subdomains of a host. The default port
// is 443.
func NewAllowedHosts(origin *url.URL, trust []string) (*AllowedHosts, error) {
	own, err := AuthorityOf(origin)
	if err != nil {
		return nil, err
	}
	a := &AllowedHosts{origin: own, written: *origin, Plaintext: origin.Scheme == "http", trusted: make(map[Authority]bool, len(trust))}
	for _, t := range trust {
		if err := a.trust(t); err != nil {
			return nil, fmt.Errorf("trusted host %q: %w", t, err)
		}
	}
	return a, nil
}

func (a *AllowedHosts) trust(text string) error {
	text, subdomains := strings.CutPrefix(text, "*.")
	u, err := url.Parse("https://" + text)
	if err != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("want a host name or address, optionally with a port")
	}
	host, err := AuthorityOf(u)
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

// Includes reports whether a secret of the source may be sent to u. It may be
// sent to the provider's own host and port and to the trusted hosts, over
// https, or over http if the operator wrote the provider's origin with http.
func (a *AllowedHosts) Includes(u *url.URL) bool {
	if u.Host == a.written.Host && u.Scheme == a.written.Scheme && u.User == nil && u.Host != "" { // as for nearly all requests
		return true
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !a.Plaintext) || u.User != nil {
		return false
	}
	target, err := AuthorityOf(u)
	return err == nil && a.names(target)
}

// names reports whether a host is one of them, whatever the scheme.
func (a *AllowedHosts) names(host Authority) bool {
	return host == a.origin || a.trusted[host] || slices.ContainsFunc(a.below, host.isBelow)
}

// Overlaps reports whether a host may receive the secrets of both sources.
func (a *AllowedHosts) Overlaps(b *AllowedHosts) bool { return a.namesOneOf(b) || b.namesOneOf(a) }

func (a *AllowedHosts) namesOneOf(b *AllowedHosts) bool {
	if a.names(b.origin) {
		return true
	}
	for host := range b.trusted {
		if a.names(host) {
			return true
		}
	}
	return slices.ContainsFunc(b.below, func(host Authority) bool {
		return slices.Contains(a.below, host) || slices.ContainsFunc(a.below, host.isBelow)
	})
}

func (a Authority) isBelow(parent Authority) bool {
	return a.port == parent.port && strings.HasSuffix(a.host, "."+parent.host)
}

// checkSubdomains returns an error if the subdomains of a host can't be trusted
// together. They can if they all belong to the owner of the host.
func checkSubdomains(host string) error {
	const instead = "; name each host that may receive the secret"
	last := host[strings.LastIndexByte(host, '.')+1:]
	if _, err := netip.ParseAddr(host); err == nil || strings.Trim(last, "0123456789") == "" { // as in an address
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

// AuthorityOf returns the host and port of u in canonical form: the name in
// lower case ASCII without a dot at its end, an address in its shortest form,
// and the default port of the scheme if u has no port.
func AuthorityOf(u *url.URL) (Authority, error) {
	if u.User != nil {
		return Authority{}, fmt.Errorf("%q has user information before its host", u.Redacted())
	}
	standard := "443"
	if u.Scheme == "http" {
		standard = "80"
	} else if u.Scheme != "https" {
		return Authority{}, fmt.Errorf("scheme %q is neither https nor http", u.Scheme)
	}
	port := cmp.Or(u.Port(), standard)
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return Authority{}, fmt.Errorf("port %q is not between 1 and 65535", port)
	}
	if port[0] == '0' {
		port = strconv.FormatUint(number, 10)
	}
	host := u.Hostname()
	var addr netip.Addr
	if strings.ContainsAny(host, ":0123456789") { // most names are no addresses, which an error would say
		addr, _ = netip.ParseAddr(host)
	}
	if addr.IsValid() {
		if addr.Zone() != "" {
			return Authority{}, fmt.Errorf("address %q has a zone", host)
		}
		return Authority{addr.Unmap().String(), port}, nil
	}
	name, ok := hostName(strings.TrimSuffix(host, "."))
	if !ok {
		return Authority{}, fmt.Errorf("%q is not a host name", host)
	}
	return Authority{name, port}, nil
}

// hostName returns a host name in the form in which it is looked up. No standard
// allows the underscore in host names, but many container networks use it, so
// package idna does not check names that are ASCII already.
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

func (a Authority) String() string { return net.JoinHostPort(a.host, a.port) }

// Lines returns, for the log, the lines of the configuration that would allow sending
// secrets to u.
func (a *AllowedHosts) Lines(u *url.URL) []slog.Attr {
	target, err := AuthorityOf(u)
	if err != nil {
		return []slog.Attr{slog.String("line", "trust "+u.Host)}
	}
	lines := []slog.Attr{slog.String("line", "trust "+target.trustLine())}
	if checkSubdomains(a.origin.host) == nil && strings.HasSuffix(target.host, "."+a.origin.host) {
		lines = append(lines, slog.String("line_for_subdomains", "trust *."+Authority{a.origin.host, target.port}.trustLine()))
	}
	return lines
}

// trustLine returns the argument of the trust option that names the host.
func (a Authority) trustLine() string {
	if a.port != "443" {
		return a.String()
	}
	if strings.Contains(a.host, ":") {
		return "[" + a.host + "]"
	}
	return a.host
}
