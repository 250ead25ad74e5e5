package credential_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

func parseURL(tb testing.TB, text string) *url.URL {
	tb.Helper()
	u, err := url.Parse(text)
	if err != nil {
		tb.Fatal(err)
	}
	return u
}

// What a URL may receive: no secret, or any.
const (
	nothing  = "nothing"
	anything = "anything"
)

// Answers that are kept are those of their source, scheme and host, and there is a bound on them.
func TestKnownHosts(t *testing.T) {
	a, err := credential.NewAllowedHosts(parseURL(t, "https://example.com"), []string{"*.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for target, want := range map[string]bool{
			"https://example.com/a": true, "http://example.com/a": false, "https://user@example.com/": false, "https://example.com:444/": false,
			"https://a.example.org/": true, "https://example.org/": false, "https://EXAMPLE.com/": true,
		} {
			if got := a.Includes(parseURL(t, target)); got != want {
				t.Errorf("%s: %t", target, got)
			}
		}
		for i := range 1000 {
			n := strconv.Itoa(i)
			if !a.Includes(parseURL(t, "https://h"+n+".example.org/")) || a.Includes(parseURL(t, "https://h"+n+".example.net/")) {
				t.Fatal(n)
			}
		}
	}
}

func TestAllowedHosts(t *testing.T) {
	const https, plain = "https://example.com", "http://example.com"
	for _, c := range []struct {
		origin string
		trust  []string
		target string
		want   string
	}{
		// The origin itself, however it is spelled.
		{https, nil, "https://example.com/", anything},
		{https, nil, "https://example.com/a/b?c=d#e", anything},
		{https, nil, "https://EXAMPLE.com/", anything},
		{"https://Example.COM", nil, "https://example.com/", anything},
		{https, nil, "https://example.com./", anything},
		{"https://example.com.", nil, "https://example.com/", anything},
		{https, nil, "https://example.com../", nothing},
		{https, nil, "https://example.com:443/", anything},
		{https, nil, "https://example.com:0443/", anything},
		{https, nil, "https://example.com:/", anything},
		{"https://example.com/base/path", nil, "https://example.com/elsewhere", anything},

		// Ports.
		{https, nil, "https://example.com:8443/", nothing},
		{https, nil, "https://example.com:80/", nothing},
		{https, nil, "https://example.com:65979/", nothing}, // 443 + 65536
		{https, nil, "https://example.com:0/", nothing},
		{"https://example.com:8443", nil, "https://example.com:8443/", anything},
		{"https://example.com:8443", nil, "https://example.com/", nothing},
		{"https://example.com:8443", nil, "https://api.example.com/", nothing},
		{"https://example.com:8443", nil, "https://api.example.com:8443/", nothing},

		// Schemes.
		{https, nil, "http://example.com/", nothing},
		{https, nil, "http://example.com:443/", nothing},
		{https, nil, "ftp://example.com/", nothing},
		{https, nil, "wss://example.com:443/", nothing},
		{plain, nil, "http://example.com/", anything},
		{plain, nil, "http://example.com:80/", anything},
		{plain, nil, "https://example.com/", nothing}, // port 443 was not written
		{plain, nil, "http://api.example.com/", nothing},
		{plain, nil, "http://api.example.com:443/", nothing},
		{plain, nil, "https://api.example.com/", nothing},
		{"http://example.com:8080", nil, "http://example.com:8080/", anything},
		{"http://example.com:8080", nil, "https://example.com:8080/", anything},
		{"http://example.com:8080", nil, "http://example.com/", nothing},

		// User information.
		{https, nil, "https://example.com@evil.example/", nothing},
		{https, nil, "https://user@example.com/", nothing},
		{https, nil, "https://user:pass@example.com/", nothing},
		{https, nil, "https://@example.com/", nothing},

		// Subdomains, and what only looks like them.
		{https, nil, "https://api.example.com/", nothing},
		{https, nil, "https://a.b.c.example.com/", nothing},
		{https, nil, "https://API.Example.com./", nothing},
		{https, nil, "https://api.example.com:443/", nothing},
		{https, nil, "https://api.example.com:8443/", nothing},
		{https, nil, "http://api.example.com/", nothing},
		{https, nil, "https://evil-example.com/", nothing},
		{https, nil, "https://evilexample.com/", nothing},
		{https, nil, "https://example.com.evil.com/", nothing},
		{https, nil, "https://example.community/", nothing},
		{https, nil, "https://com/", nothing},
		{https, nil, "https://.example.com/", nothing},
		{"https://api.example.com", nil, "https://example.com/", nothing},
		{"https://api.example.com", nil, "https://web.example.com/", nothing},
		{"https://api.example.com", nil, "https://v2.api.example.com/", nothing},

		// International names.
		{"https://bücher.example", nil, "https://xn--bcher-kva.example/", anything},
		{"https://xn--bcher-kva.example", nil, "https://BÜCHER.example/", anything},
		{"https://xn--bcher-kva.example", nil, "https://shop.bücher.example/", nothing},
		{"https://bücher.example", nil, "https://bucher.example/", nothing},
		{https, nil, "https://ex\u0430mple.com/", nothing}, // a Cyrillic letter
		{https, nil, "https://example\u3002com/", anything},
		{https, nil, "https://evil\u2024example.com/", nothing}, // a one dot leader

		// Hosts below which there is nobody of their own.
		{"https://localhost", nil, "https://localhost/", anything},
		{"https://localhost", nil, "https://api.localhost/", nothing},
		{"https://intranet", nil, "https://x.intranet/", nothing},
		{"https://co.uk", nil, "https://co.uk/", anything},
		{"https://co.uk", nil, "https://bank.co.uk/", nothing},
		{"https://github.io", nil, "https://evil.github.io/", nothing},
		{"https://acme.github.io", nil, "https://acme.github.io/", anything},
		{"https://acme.github.io", nil, "https://x.acme.github.io/", nothing},
		{"https://acme.github.io", nil, "https://evil.github.io/", nothing},
		{"https://acme.co.uk", nil, "https://api.acme.co.uk/", nothing},
		{"https://192.0.2.1", nil, "https://192.0.2.1/", anything},
		{"https://192.0.2.1", nil, "https://x.192.0.2.1/", nothing},
		{"https://192.0.2.1", nil, "https://192.0.2.10/", nothing},

		// Addresses, however they are spelled.
		{"https://[2001:db8::1]", nil, "https://[2001:0DB8:0:0:0:0:0:1]/", anything},
		{"https://[2001:db8::1]", nil, "https://[2001:db8::1]:443/", anything},
		{"https://[2001:db8::1]", nil, "https://[2001:db8::2]/", nothing},
		{"https://[2001:db8::1]:8443", nil, "https://[2001:db8::1]/", nothing},
		{"https://192.0.2.1", nil, "https://[::ffff:192.0.2.1]/", anything},
		{"https://[2001:db8::1]", nil, "https://[2001:db8::1%25eth0]/", nothing},

		// Hosts that the operator trusts.
		{https, []string{"other.example"}, "https://other.example/", anything},
		{https, []string{"other.example"}, "https://OTHER.example.:443/", anything},
		{https, []string{"Other.Example."}, "https://other.example/", anything},
		{https, []string{"other.example"}, "https://other.example:8443/", nothing},
		{https, []string{"other.example"}, "https://api.other.example/", nothing},
		{https, []string{"other.example"}, "https://another.example/", nothing},
		{https, []string{"other.example"}, "http://other.example/", nothing},
		{https, []string{"other.example"}, "http://other.example:443/", nothing},
		{https, []string{"other.example:8443"}, "https://other.example:8443/", anything},
		{https, []string{"other.example:8443"}, "https://other.example/", nothing},
		{https, []string{"other.example", "third.example:99"}, "https://third.example:99/", anything},
		{https, []string{"[2001:db8::1]"}, "https://[2001:db8:0::1]/", anything},
		{https, []string{"[2001:db8::1]:8443"}, "https://[2001:db8::1]:8443/", anything},
		{https, []string{"192.0.2.1"}, "https://192.0.2.1/", anything},
		{https, []string{"api.example.com"}, "https://api.example.com/", anything}, // a subdomain by name
		{https, []string{"bücher.example"}, "https://xn--bcher-kva.example/", anything},
		{plain, []string{"other.example:8080"}, "http://other.example:8080/", anything},
		{plain, []string{"other.example"}, "http://other.example/", nothing}, // 443 is meant

		// Subdomains that the operator trusts.
		{https, []string{"*.example.com"}, "https://api.example.com/", anything},
		{https, []string{"*.Example.com."}, "https://a.b.c.EXAMPLE.com.:443/", anything},
		{https, []string{"*.example.com"}, "https://example.com/", anything}, // its own
		{https, []string{"*.example.com"}, "https://api.example.com:8443/", nothing},
		{https, []string{"*.example.com"}, "http://api.example.com/", nothing},
		{https, []string{"*.example.com"}, "https://evil-example.com/", nothing},
		{https, []string{"*.example.com"}, "https://example.com.evil.com/", nothing},
		{https, []string{"*.example.com"}, "https://.example.com/", nothing},
		{https, []string{"*.other.example"}, "https://other.example/", nothing}, // only its subdomains
		{https, []string{"*.other.example"}, "https://api.other.example/", anything},
		{https, []string{"*.other.example"}, "https://api.example.com/", nothing},
		{https, []string{"*.other.example:8443"}, "https://api.other.example:8443/", anything},
		{https, []string{"*.other.example:8443"}, "https://api.other.example/", nothing},
		{https, []string{"*.bücher.example"}, "https://shop.xn--bcher-kva.example/", anything},
		{https, []string{"*.acme.github.io"}, "https://x.acme.github.io/", anything},
		{https, []string{"*.acme.github.io"}, "https://evil.github.io/", nothing},
		{https, []string{"*.city.kawasaki.jp"}, "https://x.city.kawasaki.jp/", anything}, // *.kawasaki.jp are suffixes, but for this
		{"https://example.com:8443", []string{"*.example.com"}, "https://api.example.com/", anything},
		{"https://example.com:8443", []string{"*.example.com"}, "https://api.example.com:8443/", nothing},
		{plain, []string{"*.example.com:8080"}, "http://api.example.com:8080/", anything},
		{plain, []string{"*.example.com"}, "http://api.example.com/", nothing}, // 443 is meant
		{"https://192.0.2.1", []string{"*.example.com"}, "https://api.example.com/", anything},
	} {
		a, err := credential.NewAllowedHosts(parseURL(t, c.origin), c.trust)
		if err != nil {
			t.Errorf("%s trusting %q: %v", c.origin, c.trust, err)
			continue
		}
		u := parseURL(t, c.target)
		if included := a.Includes(u); included != (c.want == anything) {
			t.Errorf("%s trusting %q: %s may have %s; Includes: %t", c.origin, c.trust, c.target, c.want, included)
		}
	}
}

// TestNoAudience: what has no origin may send no secret anywhere.
func TestNoAudience(t *testing.T) {
	for _, target := range []string{"https://example.com/", "http://example.com/", "https://[::1]/", "https:///", "//example.com"} {
		if new(credential.AllowedHosts).Includes(parseURL(t, target)) {
			t.Errorf("%s may have secrets", target)
		}
	}
}

func TestNewAudienceRefuses(t *testing.T) {
	for _, origin := range []string{
		"ftp://example.com", "https://", "https://user@example.com", "https://[fe80::1%25eth0]", "https://example..com.",
		"https://example.com:0", "https://example.com:65536", "/relative",
	} {
		if _, err := credential.NewAllowedHosts(parseURL(t, origin), nil); err == nil {
			t.Errorf("origin %q was accepted", origin)
		}
	}
	origin := parseURL(t, "https://example.com")
	for _, trust := range []string{
		"", " ", "https://other.example", "other.example/", "other.example/path", "other.example?x=y", "other.example#f", "user@other.example",
		"*", "*.", "**.other.example", "*.*.other.example", "a.*.example", "*other.example", "*:443", "*.com", "*.co.uk", "*.github.io", "*.localhost",
		"*.compute.amazonaws.com", "*.digitaloceanspaces.com:8443", "*.Kawasaki.jp.", "*.sch.uk", // suffixes are below these
		"*.intranet", "*.192.0.2.1", "*.2.1", "*.1", "*.example.1", "*.[2001:db8::1]", "*.[::ffff:192.0.2.1]:443", "*.other.example/", "*.user@other.example", "*.other.example:0", "*.例え",
		"other.example:http", "other.example:0", "other.example:65536", "2001:db8::1", "[2001:db8::1", "a b", ".",
	} {
		if _, err := credential.NewAllowedHosts(origin, []string{"fine.example", trust}); err == nil {
			t.Errorf("trusted host %q was accepted", trust)
		}
	}
}

// Two sources overlap if a host may receive the secrets of both, and only then.
func TestOverlaps(t *testing.T) {
	for _, tc := range []struct {
		a, trustA, b, trustB string
		want                 bool
	}{
		{"https://a.example", "", "https://a.example", "", true},
		{"https://a.example", "", "https://A.example:443", "", true},
		{"https://a.example", "", "https://a.example:8443", "", false},
		{"https://a.example", "", "https://b.example", "", false},
		{"https://a.example", "b.example", "https://b.example", "", true},
		{"https://a.example", "c.example", "https://b.example", "c.example", true},
		{"https://a.example", "*.c.example", "https://b.example", "x.c.example", true},
		{"https://a.example", "*.c.example", "https://b.example", "*.c.example", true},
		{"https://a.example", "*.c.example", "https://b.example", "*.y.c.example", true},
		{"https://a.example", "*.c.example", "https://b.example", "c.example", false},
		{"https://a.example", "*.c.example", "https://b.example", "*.d.example", false},
		{"https://a.example", "*.c.example:8443", "https://b.example", "*.y.c.example", false},
	} {
		hosts := func(origin, trust string) *credential.AllowedHosts {
			u, err := url.Parse(origin)
			if err != nil {
				t.Fatal(err)
			}
			a, err := credential.NewAllowedHosts(u, strings.Fields(trust))
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a, b := hosts(tc.a, tc.trustA), hosts(tc.b, tc.trustB)
		if got, reverse := a.Overlaps(b), b.Overlaps(a); got != tc.want || reverse != tc.want {
			t.Errorf("%s %s, %s %s: %t, %t", tc.a, tc.trustA, tc.b, tc.trustB, got, reverse)
		}
	}
}
