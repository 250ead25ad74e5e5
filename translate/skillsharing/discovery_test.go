package skillsharing_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

const wellKnown = "/.well-known/skill-sharing"

// newCache makes a cache. Documents are fresh for the ttl.
func newCache(tb testing.TB, ttl, negative time.Duration) *cache.Cache {
	tb.Helper()
	c, err := cache.New(cache.Config{MaxSize: 1 << 20, TTL: ttl, MaxTTL: time.Hour, NegativeTTL: negative})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// newReader makes a client that reads documents, which are always asked for anew.
func newReader(tb testing.TB, p *provider, trust ...string) *skillsharing.Client {
	tb.Helper()
	transport := newTransport(tb)
	transport.TLSClientConfig = p.tlsConfig()
	c := newClient(tb, p.URL, transport, trust...)
	c.Cache = newCache(tb, 0, 0)
	return c
}

func TestIndex(t *testing.T) {
	p := newProvider(t)
	p.on("GET "+wellKnown, answers(200, acmeIndex, "Content-Type", "application/json"))
	c := newReader(t, p)
	c.Cache = newCache(t, time.Minute, 0)
	for range 3 {
		index, e := indexOf(t.Context(), c)
		if e != nil {
			t.Fatal(e)
		}
		if len(index.Skills) != 2 || index.Skills[1].ID != "acme/translate" {
			t.Errorf("%+v", index)
		}
	}
	seen := p.requests()
	if len(seen) != 1 || seen[0].route != "GET "+wellKnown || seen[0].body != "" {
		t.Fatalf("requests %v", seen)
	}
	wantSameHeader(t, seen[0].Header, http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"caddy-skill-bridge"}})
	if x := c.Observer.(*watcher).exchanges; len(x) != 1 || x[0].Phase != run.PhaseDiscovery || x[0].Status != 200 {
		t.Errorf("exchanges %+v", x)
	}
}

func TestRegistry(t *testing.T) {
	p := newProvider(t)
	for _, c := range []struct {
		base string
		t    document.CapabilityType
		want string
	}{
		{"", "", "/skills"},
		{"", document.API, "/skills?type=api"},
		{"/", document.Task, "/skills?type=task"},
		{"/v1", document.API, "/v1/skills?type=api"},
		{"/v1/", document.API, "/v1/skills?type=api"},
		{"/v1?tenant=a%26b", document.Plugin, "/v1/skills?tenant=a%26b&type=plugin"},
	} {
		p.on("GET "+parseURL(t, c.want).Path, answers(200, acmeIndex, "Content-Type", "application/json"))
		client := newReader(t, p)
		client.Origin = parseURL(t, p.URL+c.base)
		index, e := registryOf(t.Context(), client, c.t)
		if e != nil {
			t.Errorf("%s: %+v", c.base, e)
			continue
		}
		seen := p.requests()
		if got := seen[len(seen)-1].route; got != "GET "+c.want || len(index.Skills) != 2 {
			t.Errorf("%s: asked %s, want %s", c.base, got, c.want)
		}
	}
}

func TestSkillComesFromWhereItWasFound(t *testing.T) {
	p, other := newProvider(t), newProvider(t)
	p.on("GET /skill.json", answers(302, "", "Location", other.URL+"/real.json#fragment"))
	p.on("GET /own.json", answers(200, string(edited(t, forecast, "/endpoint/url="+quote(p.URL+"/run")))))
	other.on("GET /real.json", answers(200, string(edited(t, forecast, "/endpoint/url="+quote(p.URL+"/run")))))
	c := newReader(t, p)
	for _, d := range []struct {
		url  string
		own  bool
		seen int
	}{
		{p.URL + "/own.json#fragment", true, 0},
		{p.URL + "/skill.json", false, 1},
	} {
		s, e := c.Skill(t.Context(), discovery.NewLocation(d.url))
		if e != nil {
			t.Fatal(e)
		}
		if s.ID != "acme/forecast" || s.Hosts(c.AllowedHosts) != d.own || len(other.requests()) != d.seen {
			t.Errorf("%s: secrets may go there: %t", d.url, s.Hosts(c.AllowedHosts))
		}
	}
}

func TestSkillOfBadURL(t *testing.T) {
	p := newProvider(t)
	c := newReader(t, p)
	for _, u := range []string{"", "/skill.json", "skill.json", "ftp://acme.example/", "https://user:pass@acme.example/", "https://", "://", "https:acme.example", "https://acme.example/%zz"} {
		_, e := c.Skill(t.Context(), discovery.NewLocation(u))
		wantError(t, e, run.InvalidDocument, run.ExecutedNo)
		if e.Kind != run.InvalidDocument || !strings.Contains(string(front.Details(e)), "/descriptor_url") {
			t.Errorf("%q: %+v", u, e)
		}
		c.Forget(discovery.NewLocation(u)) // does nothing
	}
}

func TestRedirects(t *testing.T) {
	const page = "GET /skill.json"
	for _, c := range []struct {
		name   string
		set    func(p, other, secure *provider)
		reason string // empty: it is read
		seen   int    // by the first provider
	}{
		{"three", func(p, _, _ *provider) { p.chain(3) }, "", 4},
		{"four", func(p, _, _ *provider) { p.chain(4) }, "more than 3 times", 4},
		{"in a circle", func(p, _, _ *provider) { p.on(page, answers(301, "", "Location", "/skill.json")) }, "more than 3 times", 4},
		{"303", func(p, other, _ *provider) { p.on(page, answers(303, "", "Location", other.URL+"/real.json")) }, "", 1},
		{"307", func(p, other, _ *provider) { p.on(page, answers(307, "", "Location", other.URL+"/real.json")) }, "", 1},
		{"308 to https", func(p, _, secure *provider) { p.on(page, answers(308, "", "Location", secure.URL+"/real.json")) }, "", 1},
		{"https to http", func(p, other, secure *provider) {
			p.on(page, answers(302, "", "Location", secure.URL+"/down"))
			secure.on("GET /down", answers(302, "", "Location", other.URL+"/real.json"))
		}, "from https to http", 1},
		{"to another scheme", func(p, _, _ *provider) { p.on(page, answers(302, "", "Location", "file:///etc/passwd")) }, "not an http(s) URL", 1},
		{"to a password", func(p, other, _ *provider) {
			p.on(page, answers(302, "", "Location", strings.Replace(other.URL, "//", "//user:pass@", 1)+"/real.json"))
		}, "not an http(s) URL", 1},
		{"to no URL", func(p, _, _ *provider) { p.on(page, answers(302, "", "Location", "http://[::1/%zz")) }, "not an http(s) URL", 1},
		{"to nowhere", func(p, _, _ *provider) { p.on(page, answers(302, "")) }, "HTTP 302", 1},
		{"300", func(p, other, _ *provider) { p.on(page, answers(300, "", "Location", other.URL+"/real.json")) }, "HTTP 300", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, other, secure := newProvider(t), newProvider(t), newTLSProvider(t)
			other.on("GET /real.json", answers(200, forecast))
			secure.on("GET /real.json", answers(200, forecast))
			c.set(p, other, secure)
			client := newReader(t, secure)
			s, e := client.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
			if len(p.requests()) != c.seen {
				t.Errorf("%d requests, want %d", len(p.requests()), c.seen)
			}
			if c.reason == "" {
				if e != nil || s.ID != "acme/forecast" {
					t.Errorf("error %+v", e)
				}
				return
			}
			wantError(t, e, run.ProviderFault, run.ExecutedNo)
			if !strings.Contains(e.Message, c.reason) || e.Phase != run.PhaseDescriptor || e.HTTPStatus < 300 || e.HTTPStatus > 399 {
				t.Errorf("%+v", e)
			}
			if strings.Contains(c.name, "https to http") && len(other.requests()) != 0 {
				t.Error("it was followed")
			}
		})
	}
}

// chain answers with n redirects before a descriptor.
func (p *provider) chain(n int) {
	hops := slices.Repeat([]http.HandlerFunc{answers(302, "", "Location", "skill.json")}, n)
	p.on("GET /skill.json", append(hops, answers(200, forecast))...)
}

func TestRedirectToPlainHTTP(t *testing.T) {
	p, secure := newProvider(t), newTLSProvider(t)
	secure.on("GET "+wellKnown, answers(302, "", "Location", p.URL))
	c := newReader(t, secure)
	c.AllowHTTP = false
	_, e := indexOf(t.Context(), c)
	wantError(t, e, run.ProviderFault, run.ExecutedNo)
	_, e = c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json?token=hush"))
	wantError(t, e, run.Unreachable, run.ExecutedNo)
	if e.Refused == "" || strings.Contains(string(front.Details(e)), "hush") || len(p.requests()) != 0 {
		t.Errorf("%+v, details %s, after %d requests", e, front.Details(e), len(p.requests()))
	}
}

func TestDiscoveryCredentials(t *testing.T) {
	host := func(p *provider) string { return strings.TrimPrefix(p.URL, "http://") }
	keys := func(p *provider) string {
		var all []string
		for _, r := range p.requests() {
			all = append(all, r.Header.Get("X-Key"))
		}
		return strings.Join(all, ",")
	}
	for _, c := range []struct {
		name         string
		trust        bool                            // the other provider
		read         func(p, other *provider) string // the URL to read
		first, other string                          // the keys that the two saw
	}{
		{"own host", false, func(p, _ *provider) string { p.on("GET /a", answers(200, forecast)); return p.URL + "/a" }, "k-123", ""},
		{"another host", false, func(_, other *provider) string { other.on("GET /a", answers(200, forecast)); return other.URL + "/a" }, "", ""},
		{"a trusted host", true, func(_, other *provider) string { other.on("GET /a", answers(200, forecast)); return other.URL + "/a" }, "", "k-123"},
		{"redirect within the host", false, func(p, _ *provider) string {
			p.on("GET /a", answers(302, "", "Location", "/b"))
			p.on("GET /b", answers(200, forecast))
			return p.URL + "/a"
		}, "k-123,k-123", ""},
		{"redirect to another host", false, func(p, other *provider) string {
			p.on("GET /a", answers(302, "", "Location", other.URL+"/b"))
			other.on("GET /b", answers(200, forecast))
			return p.URL + "/a"
		}, "k-123", ""},
		{"redirect to a trusted host", true, func(p, other *provider) string {
			p.on("GET /a", answers(307, "", "Location", other.URL+"/b"))
			other.on("GET /b", answers(200, forecast))
			return p.URL + "/a"
		}, "k-123", ""},
		{"redirect from elsewhere", false, func(p, other *provider) string {
			other.on("GET /a", answers(302, "", "Location", p.URL+"/b"))
			p.on("GET /b", answers(200, forecast))
			return other.URL + "/a"
		}, "", ""},
		{"redirect there and back", false, func(p, other *provider) string {
			p.on("GET /a", answers(302, "", "Location", other.URL+"/b"))
			other.on("GET /b", answers(302, "", "Location", p.URL+"/c"))
			p.on("GET /c", answers(200, forecast))
			return p.URL + "/a"
		}, "k-123,", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, other := newProvider(t), newProvider(t)
			var trust []string
			if c.trust {
				trust = append(trust, host(other))
			}
			client := newReader(t, p, trust...)
			client.DiscoveryCredentials = &keyed{key: "k-123"}
			client.Credentials = &keyed{key: "never"}
			if _, e := client.Skill(t.Context(), discovery.NewLocation(c.read(p, other))); e != nil {
				t.Fatal(e)
			}
			if got := keys(p); got != c.first {
				t.Errorf("the provider saw %q, want %q", got, c.first)
			}
			if got := keys(other); strings.Trim(got, ",") != c.other {
				t.Errorf("the other saw %q, want %q", got, c.other)
			}
		})
	}
}

func TestDiscoveryRenewsOnce(t *testing.T) {
	index := answers(200, acmeIndex, "Content-Type", "application/json")
	for _, c := range []struct {
		name    string
		creds   *renewing
		answers []http.HandlerFunc
		keys    string
		code    run.Kind
		message string
	}{
		{"renewed", &renewing{}, list(answers(401, ""), index), "k- k-'", 0, ""},
		{"refused again", &renewing{}, list(answers(401, "")), "k- k-'", run.AuthRequired, "HTTP 401"},
		{"nothing to renew", &renewing{exhausted: true}, list(answers(401, "")), "k-", run.AuthRequired, "HTTP 401"},
		{"renewal impossible", &renewing{failures: []error{errNoToken}}, list(answers(401, "")), "k-", run.AuthRequired, errNoToken.Error()},
		{"renewal refused", &renewing{failures: []error{&run.Failure{Kind: run.PermissionDenied, Message: "No.", Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo}}}, list(answers(401, "")), "k-", run.PermissionDenied, "No."},
		{"no credential", &renewing{keyed: keyed{err: errNoToken}}, list(index), "", run.AuthRequired, errNoToken.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t)
			p.on("GET "+wellKnown, c.answers...)
			client := newReader(t, p)
			c.creds.key = "k-"
			client.DiscoveryCredentials = c.creds
			_, e := indexOf(t.Context(), client)
			var keys []string
			for _, r := range p.requests() {
				keys = append(keys, r.Header.Get("X-Key"))
			}
			if got := strings.Join(keys, " "); got != c.keys {
				t.Errorf("requests with %q, want %q", got, c.keys)
			}
			if c.code == 0 {
				if e != nil {
					t.Error(e)
				}
				return
			}
			wantError(t, e, c.code, run.ExecutedNo)
			if !strings.Contains(e.Message, c.message) {
				t.Errorf("%+v", e)
			}
		})
	}
}

func TestDocumentStatus(t *testing.T) {
	for _, c := range []struct {
		status  int
		body    string
		code    run.Kind
		gone    bool
		details string // empty: none
		retry   bool
	}{
		{401, "", run.AuthRequired, false, `{"reason":"the provider's %s needs authentication","required_by":"provider"}`, false},
		{401, `{"error":{"code":"AUTH_REQUIRED","message":"m","details":{"required_by":"bridge"}}}`, run.AuthRequired, false, `{"required_by":"provider"}`, false},
		{403, "", run.PermissionDenied, false, "", false},
		{404, "", run.SkillNotFound, true, "", false},
		{404, `{"error":{"code":"SKILL_NOT_FOUND","message":"m"}}`, run.SkillNotFound, true, "", false},
		{410, "", run.SkillNotFound, true, "", false},
		{408, "", run.Unreachable, false, "", true},
		{429, "", run.RateLimited, false, "", true},
		{500, "", run.Unreachable, false, "", true},
		{502, "", run.Unreachable, false, "", true},
		{503, "", run.Unreachable, false, "", true},
		{504, "", run.Unreachable, false, "", true},
		{400, "", run.ProviderFault, false, "", false},
		{400, `{"a":1}`, run.ProviderFault, false, `{"a":1}`, false},
		{422, "", run.ProviderFault, false, "", false},
		{204, "", run.ProviderFault, false, "", false},
		{418, "", run.ProviderFault, false, "", false},
	} {
		for _, phase := range []run.Phase{run.PhaseDiscovery, run.PhaseDescriptor} {
			t.Run(fmt.Sprintf("%d %.10s %s", c.status, c.body, phase), func(t *testing.T) {
				p := newProvider(t)
				var header []string
				if c.status == 429 {
					header = []string{"Retry-After", "7"}
				}
				p.on("GET "+wellKnown, answers(c.status, c.body, header...))
				p.on("GET /skill.json", answers(c.status, c.body, header...))
				client := newReader(t, p)
				var e *run.Failure
				what := "index"
				if phase == run.PhaseDiscovery {
					_, e = indexOf(t.Context(), client)
				} else {
					_, e = client.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
					what = "descriptor"
				}
				c := c
				if c.gone && phase == run.PhaseDiscovery { // nothing is known about the skill: the URL of the source may be wrong
					c.code, c.gone = run.ProviderFault, false
					if e.Next() != run.NextAskOperator {
						t.Errorf("next %s", e.Next())
					}
				}
				wantError(t, e, c.code, run.ExecutedNo)
				details := c.details
				if strings.Contains(details, "%s") {
					details = fmt.Sprintf(details, what)
				}
				if string(front.Details(e)) != details || (retryOf(e) != nil) != c.retry || e.Gone() != c.gone {
					t.Errorf("details %s, retry %s, gone %t; want %s, %t, %t", front.Details(e), retryOf(e), e.Gone(), details, c.retry, c.gone)
				}
				if e.Phase != phase || e.HTTPStatus != c.status || e.Argument != nil || !strings.Contains(e.Message, what) {
					t.Errorf("%+v", e)
				}
				if c.status == 429 && !strings.Contains(string(retryOf(e)), "7000") {
					t.Errorf("retry %s", retryOf(e))
				}
			})
		}
	}
}

func TestIndexMediaType(t *testing.T) {
	for _, c := range []struct {
		value string
		fine  bool // for a descriptor, too, but where it is empty
	}{
		{"application/json", true},
		{"Application/JSON; charset=utf-8", true},
		{"application/ld+json", true},
		{"", true},
		{"text/html; charset=utf-8", false},
		{"text/plain", false},
		{"application/jsonp", false},
		{"application/octet-stream", false},
		{"json", false},
		{"application/json;;;=", false},
		{strings.Repeat("x", 5000) + "/json", false},
	} {
		p := newProvider(t)
		p.on("GET "+wellKnown, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil // else it is guessed
			if c.value != "" {
				w.Header().Set("Content-Type", c.value)
			}
			_, _ = w.Write([]byte(acmeIndex)) // the test sees whether it arrived
		})
		p.on("GET /forecast.json", func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			if c.value != "" {
				w.Header().Set("Content-Type", c.value)
			}
			_, _ = w.Write([]byte(forecast)) // the test sees whether it arrived
		})
		_, e := newReader(t, p).Skill(t.Context(), discovery.NewLocation(p.URL+"/forecast.json"))
		if c.fine && c.value != "" {
			if e != nil {
				t.Errorf("descriptor, %.50q: %v", c.value, e)
			}
		} else if wantError(t, e, run.InvalidDocument, run.ExecutedNo); e.Kind != run.InvalidDocument || e.Phase != run.PhaseDescriptor {
			t.Errorf("descriptor, %.50q: %+v", c.value, e)
		}
		_, e = indexOf(t.Context(), newReader(t, p))
		if c.fine {
			if e != nil {
				t.Errorf("%.50q: %v", c.value, e)
			}
			continue
		}
		wantError(t, e, run.InvalidDocument, run.ExecutedNo)
		if e.Kind != run.InvalidDocument || e.Phase != run.PhaseDiscovery || !front.Details(e).IsValid() || len(e.Message)+len(front.Details(e)) > 1000 {
			t.Errorf("%.50q: %+v, details %s", c.value, e, front.Details(e))
		}
	}
}

func TestInvalidDocuments(t *testing.T) {
	for _, body := range []string{"", "garbage", "[]", "{}", strings.Repeat("[", 20_000), "\xff"} {
		p := newProvider(t)
		p.on("GET "+wellKnown, answers(200, body, "Content-Type", "application/json"))
		p.on("GET /skill.json", answers(200, body))
		c := newReader(t, p)
		_, e := indexOf(t.Context(), c)
		wantError(t, e, run.InvalidDocument, run.ExecutedNo)
		_, e2 := c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
		wantError(t, e2, run.InvalidDocument, run.ExecutedNo)
		if e.Phase != run.PhaseDiscovery || e2.Phase != run.PhaseDescriptor || e.Kind != run.InvalidDocument || e2.Kind != run.InvalidDocument {
			t.Errorf("%.20q: %+v, %+v", body, e, e2)
		}
	}
}

func TestDocumentsAreBounded(t *testing.T) {
	p := newProvider(t)
	p.on("GET "+wellKnown, answers(200, acmeIndex+strings.Repeat(" ", 5000), "Content-Type", "application/json"))
	c := newReader(t, p)
	c.MaxResponseSize = 2000
	_, e := indexOf(t.Context(), c)
	wantError(t, e, run.ProviderFault, run.ExecutedNo)
	if e.HTTPStatus != 200 || e.Phase != run.PhaseDiscovery {
		t.Errorf("%+v", e)
	}
}

func TestConditionalRequests(t *testing.T) {
	p := newProvider(t)
	p.on("GET /skill.json",
		answers(200, forecast, "ETag", `"v1"`, "Cache-Control", "no-cache"),
		answers(304, "", "ETag", `"v1"`, "Cache-Control", "no-cache"),
		answers(200, string(edited(t, forecast, `/version="3.0.0"`)), "ETag", `"v2"`, "Cache-Control", "no-cache"))
	c := newReader(t, p)
	var skills []*discovery.Skill
	for range 3 {
		s, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
		if e != nil {
			t.Fatal(e)
		}
		skills = append(skills, s)
	}
	if skills[0] != skills[1] || skills[0].Version != "2.1.0" || skills[2].Version != "3.0.0" {
		t.Errorf("versions %s, %s, %s", skills[0].Version, skills[1].Version, skills[2].Version)
	}
	var conditions []string
	for _, r := range p.requests() {
		conditions = append(conditions, r.Header.Get("If-None-Match"))
	}
	if want := []string{"", `"v1"`, `"v1"`}; !slices.Equal(conditions, want) {
		t.Errorf("conditions %q, want %q", conditions, want)
	}
}

func TestPartitions(t *testing.T) {
	p := newProvider(t)
	p.on("GET "+wellKnown, answers(200, acmeIndex, "Content-Type", "application/json", "Cache-Control", "max-age=60"))
	shared := newCache(t, time.Minute, time.Minute)
	read := func(partition string) {
		t.Helper()
		c := newReader(t, p)
		c.Cache, c.Partition = shared, partition
		if _, e := indexOf(t.Context(), c); e != nil {
			t.Fatal(e)
		}
	}
	for i, partition := range []string{"", "a", "b", "ab"} {
		read(partition)
		read(partition)
		if n := len(p.requests()); n != i+1 {
			t.Errorf("%d requests for %d partitions", n, i+1)
		}
	}
}

func TestForget(t *testing.T) {
	p := newProvider(t)
	p.on("GET /skill.json", answers(200, forecast, "Cache-Control", "max-age=60"))
	p.on("GET "+wellKnown, answers(200, acmeIndex, "Content-Type", "application/json", "Cache-Control", "max-age=60"))
	c := newReader(t, p)
	c.Partition = "p"
	read := func() int {
		t.Helper()
		if _, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json")); e != nil {
			t.Fatal(e)
		}
		if _, e := indexOf(t.Context(), c); e != nil {
			t.Fatal(e)
		}
		return len(p.requests())
	}
	if first, again := read(), read(); first != 2 || again != 2 {
		t.Errorf("%d requests, then %d", first, again)
	}
	c.Forget(discovery.NewLocation(p.URL + "/other.json"))
	if n := read(); n != 2 {
		t.Errorf("%d requests after another skill was forgotten", n)
	}
	c.Forget(discovery.NewLocation(p.URL + "/skill.json#fragment"))
	if n := read(); n != 3 {
		t.Errorf("%d requests after the skill was forgotten", n)
	}
}

// An index may name itself as the descriptor of a skill, and a descriptor may
// stand where an index should.
func TestOneURLForTwoKindsOfDocuments(t *testing.T) {
	p := newProvider(t)
	p.on("GET "+wellKnown, answers(200, acmeIndex, "Content-Type", "application/json", "Cache-Control", "max-age=60"))
	c := newReader(t, p)
	if _, e := indexOf(t.Context(), c); e != nil {
		t.Fatal(e)
	}
	_, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+wellKnown))
	wantError(t, e, run.InvalidDocument, run.ExecutedNo)

	p.on("GET "+wellKnown, answers(200, forecast, "Content-Type", "application/json", "Cache-Control", "max-age=60"))
	c = newReader(t, p)
	if _, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+wellKnown)); e != nil {
		t.Fatal(e)
	}
	_, e = indexOf(t.Context(), c)
	wantError(t, e, run.InvalidDocument, run.ExecutedNo)
}

// A failure that is remembered is told to several, each of whom may complete it.
func TestRememberedFailuresAreNotShared(t *testing.T) {
	p := newProvider(t)
	p.on("GET /skill.json", answers(200, "{}"))
	p.on("GET /missing.json", answers(404, ""))
	c := newReader(t, p)
	c.Cache = newCache(t, time.Minute, time.Minute)
	for _, path := range []string{"/skill.json", "/missing.json"} {
		_, first := c.Skill(t.Context(), discovery.NewLocation(p.URL+path))
		_, second := c.Skill(t.Context(), discovery.NewLocation(p.URL+path))
		if first == nil || second == nil || first == second {
			t.Fatalf("%v, %v", first, second)
		}
		first.SkillID, first.Message = "x", "x"
		if _, third := c.Skill(t.Context(), discovery.NewLocation(p.URL+path)); third.SkillID != "" || third.Message != second.Message {
			t.Errorf("%+v", third)
		}
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestUnreachableDocuments(t *testing.T) {
	base := closedPort(t)
	c := newClient(t, base, newTransport(t))
	c.Cache = newCache(t, 0, 0)
	_, e := c.Skill(t.Context(), discovery.NewLocation(base+"/skill.json?token=hush"))
	wantError(t, e, run.Unreachable, run.ExecutedNo)
	if want := `{"reason":"connection refused","url":"` + base + `/skill.json"}`; string(front.Details(e)) != want || retryOf(e) == nil || e.Phase != run.PhaseDescriptor {
		t.Errorf("details %s, want %s", front.Details(e), want)
	}

	c = newClient(t, acme, roundTripper(func(*http.Request) (*http.Response, error) { return nil, errNotPublic }))
	c.Cache = newCache(t, 0, 0)
	_, e = indexOf(t.Context(), c)
	wantError(t, e, run.Unreachable, run.ExecutedNo)
	if e.Refused == "" || retryOf(e) != nil || !strings.Contains(e.Message, "address is not public") {
		t.Errorf("%+v", e)
	}
}

func TestDocumentsHaveTheirOwnDeadline(t *testing.T) {
	for _, c := range []struct {
		name     string
		deadline time.Duration // of the caller; 0: none
		want     time.Duration
		code     run.Kind
	}{
		{"none", 0, 10100 * time.Millisecond, run.Unreachable},
		{"later", time.Minute, 10100 * time.Millisecond, run.Unreachable},
		{"earlier", 3 * time.Second, 3 * time.Second, run.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				client := newClient(t, acme, script(t, silent))
				client.Cache = newCache(t, 0, 0)
				start := time.Now()
				_, e := indexOf(ctx, client)
				if d := time.Since(start); d != c.want {
					t.Errorf("it ended after %v, want %v", d, c.want)
				}
				wantError(t, e, c.code, run.ExecutedNo)
				if e.Phase != run.PhaseDiscovery || e.ExecutionID != "" {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}

// A descriptor that has arrived, and waits for others to be judged, says nothing about
// its provider.
func TestDescriptorThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, acme, roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(forecast))}, nil
		}))
		client.Cache = newCache(t, time.Minute, time.Minute)
		release := takeDescriptorTurns(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 2 { // the second one joins
			_, e := client.Skill(ctx, discovery.NewLocation(acme+"/skill.json"))
			wantError(t, e, run.RateLimited, run.ExecutedNo)
			if e.By != run.Bridge || e.Phase != run.PhaseDescriptor || !strings.Contains(e.Message, "was read, but the bridge was too busy") || e.Retry == nil {
				t.Errorf("%+v", e)
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
		}
		release()
		if _, e := client.Skill(t.Context(), discovery.NewLocation(acme+"/skill.json")); e != nil {
			t.Error(e)
		}
	})
}

func TestDiscoverySecretsAreScrubbed(t *testing.T) {
	p := newProvider(t)
	p.on("GET "+wellKnown, answers(403, `{"error":{"code":"PERMISSION_DENIED","message":"bad k-123","details":{"k-123":"\u006b-123"}}}`))
	c := newReader(t, p)
	c.DiscoveryCredentials = &keyed{key: "k-123"}
	_, e := indexOf(t.Context(), c)
	wantError(t, e, run.PermissionDenied, run.ExecutedNo)
	if told := e.Message + string(front.Details(e)); strings.Contains(told, "k-123") || string(front.Details(e)) != `{"[redacted]":"[redacted]"}` {
		t.Errorf("told %s", told)
	}

	c.DiscoveryCredentials = &keyed{key: "k-123", err: errors.New("bad k-123")}
	_, e = indexOf(t.Context(), c)
	wantError(t, e, run.AuthRequired, run.ExecutedNo)
	if told := fmt.Sprint(e.Message, string(front.Details(e)), e.Cause); strings.Contains(told, "k-123") {
		t.Errorf("told %s", told)
	}
}

// takeDescriptorTurns has no descriptor judged, until release is called.
func takeDescriptorTurns(t *testing.T) (release func()) {
	t.Helper()
	held := make(chan struct{})
	for range max(1, runtime.GOMAXPROCS(0)/4) {
		go func() {
			limits := document.DefaultLimits()
			_, _ = limits.ReadDescriptor([]byte(forecast), func([]document.Parameter, []any) jsonvalue.Violations {
				<-held
				return nil
			})
		}()
		synctest.Wait()
	}
	return func() { close(held) }
}
