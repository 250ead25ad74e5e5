package credential_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// FuzzAllowedHosts compares which hosts may receive a secret with the rules as they
// are told to operators, applied to the address that package net/http would dial.
func FuzzAllowedHosts(f *testing.F) {
	origins := []string{
		"https://example.com", "http://example.com", "https://Example.COM.", "https://example.com:8443", "http://example.com:8080", "https://api.example.com", "https://bücher.example", "https://xn--bcher-kva.example",
		"https://localhost", "https://co.uk", "https://acme.co.uk", "https://github.io", "https://192.0.2.1", "https://[2001:db8::1]", "https://[::ffff:192.0.2.1]:443", "https://my_host.internal", "https://example.com:0443/a/b",
	}
	targets := []string{
		"https://example.com/", "HTTPS://EXAMPLE.com./a?b#c", "http://example.com:443/", "https://example.com:65979/", "https://example.com:/", "https://example.com@evil.example/", "https://@example.com/", "https://api.example.com/",
		"https://a.b.example.com:443", "https://api.example.com:8443/", "https://evil-example.com/", "https://example.com.evil.com/", "https://.example.com/", "https://example.com../", "https://ex\u0430mple.com/", "https://example\u3002com/",
		"https://shop.BÜCHER.example/", "https://x.localhost/", "https://bank.co.uk/", "https://evil.github.io/", "https://192.0.2.1/", "https://192.0.2.1./", "https://[2001:0DB8:0:0::1]:443/", "https://[2001:db8::1%25eth0]/",
		"https://[::ffff:c000:201]/", "https://x.192.0.2.1/", "http://other.example:8080/", "https://other.example/", "https://1.2.3.4.example.com/", "//example.com/", "https:example.com", "ftp://example.com/", "https://example.com%2eevil.example/", "https://\uff11\uff19\uff12.0.2.1/",
	}
	for i, origin := range origins {
		for j, target := range targets {
			f.Add(origin, []string{"", "other.example", "other.example:8080", "[2001:db8::1]", "api.example.com", "Bücher.example.", "*.example.com", "*.bücher.example:8443", "*.github.io", "*.192.0.2.1", "*.kawasaki.jp"}[(i+j)%11], target)
		}
	}
	f.Add("https://example.com", "*.0.0", "https://0.0.0.0/")
	where := dialledBy(f)
	f.Fuzz(func(t *testing.T, origin, trust, target string) {
		from, err := url.Parse(origin)
		if err != nil || from.Scheme != "https" && from.Scheme != "http" {
			return
		}
		var trusted []string
		if trust != "" {
			trusted = []string{trust}
		}
		audience, err := credential.NewAllowedHosts(from, trusted)
		if err != nil {
			return
		}
		to, err := url.Parse(target)
		if err != nil {
			return
		}
		included := audience.Includes(to)

		own, ok := where(from)
		if !ok {
			t.Fatalf("origin %q was accepted, and leads nowhere", origin)
		}
		if own.mayBeAddress {
			return // no configuration has such an origin
		}
		want := false
		at, ok := where(to)
		plain := strings.HasPrefix(strings.ToLower(origin), "http:")
		secure := strings.HasPrefix(strings.ToLower(target), "https:")
		if ok && !hasUserInfo(target) && (secure || plain && strings.HasPrefix(strings.ToLower(target), "http:")) {
			want = at.place == own.place
			if trust != "" {
				host, subdomains := strings.CutPrefix(trust, "*.")
				friend, err := url.Parse("https://" + host)
				if err != nil {
					t.Fatalf("trusted host %q was accepted: %v", trust, err)
				}
				named, ok := where(friend)
				if !ok || hasUserInfo("https://"+host) || subdomains && !named.ownsSubdomains() {
					t.Fatalf("trusted host %q was accepted, and leads nowhere, or to anyone", trust)
				}
				want = want || !subdomains && at.place == named.place || subdomains && at.port == named.port && at.isBelow(named)
			}
		}
		if included != want {
			t.Errorf("%q trusting %q: %q leads to %v; Includes: %t, want %t", origin, trust, target, at, included, want)
		}
	})
}

// place is what a request is sent to.
type place struct {
	host string // as it is looked up, or an address as package net writes it
	port int
}

type dialled struct {
	place
	address      bool
	mayBeAddress bool // to some systems, such as 127.1
}

var nameSyntax = regexp.MustCompile(`^[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*$`)

// dialledBy returns a function that tells where net/http would connect to for a
// URL, if that is a host name or an address in its usual form.
func dialledBy(f *testing.F) func(u *url.URL) (dialled, bool) {
	f.Helper()
	type key struct{}
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		*ctx.Value(key{}).(*string) = address
		return nil, errors.New("only asking")
	}
	transport := &http.Transport{DialContext: dial, DialTLSContext: dial, MaxConnsPerHost: 0, DisableKeepAlives: true}
	f.Cleanup(transport.CloseIdleConnections)
	return func(u *url.URL) (dialled, bool) {
		var address string
		request := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}).WithContext(context.WithValue(context.Background(), key{}, &address))
		if response, err := transport.RoundTrip(request); err == nil {
			_ = response.Body.Close()
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return dialled{}, false
		}
		number, err := strconv.Atoi(port)
		if err != nil || number < 1 || number > 65535 {
			return dialled{}, false
		}
		if ip := net.ParseIP(host); ip != nil {
			return dialled{place{ip.String(), number}, true, false}, true
		}
		host = strings.TrimSuffix(strings.ToLower(host), ".")
		if ip := net.ParseIP(host); ip != nil && !strings.Contains(host, ":") {
			return dialled{place{ip.String(), number}, true, false}, true
		}
		labels := strings.Split(host, ".")
		_, err = strconv.ParseUint(labels[len(labels)-1], 0, 64)
		return dialled{place{host, number}, false, err == nil || errors.Is(err, strconv.ErrRange)}, nameSyntax.MatchString(host) && len(host) < 254
	}
}

// ownsSubdomains reports whether who owns a name owns those below it, too.
func (d dialled) ownsSubdomains() bool {
	if d.address {
		return false
	}
	for _, name := range []string{d.host, "x." + d.host} { // of a rule *.host, the names below are the suffixes
		if _, err := publicsuffix.EffectiveTLDPlusOne(name); err != nil { // as for a public suffix, and for a name without a dot
			return false
		}
	}
	return true
}

func (d dialled) isBelow(parent dialled) bool {
	if d.address {
		return false
	}
	theirs, ours := strings.Split(d.host, "."), strings.Split(parent.host, ".")
	return len(theirs) > len(ours) && slices.Equal(theirs[len(theirs)-len(ours):], ours)
}

// hasUserInfo looks at the text of a URL as RFC 3986, section 3.2, divides it.
func hasUserInfo(text string) bool {
	_, rest, _ := strings.Cut(text, "//")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return strings.Contains(rest, "@")
}
