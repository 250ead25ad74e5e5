package skillsharing_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// An answer that came but can't be used is the provider's fault and has a status;
// it is not a provider that can't be reached.
func TestUnusableAnswers(t *testing.T) {
	for _, c := range []struct {
		about  string
		answer http.HandlerFunc
		status int
	}{
		{"a body that is not the gzip it says", answers(200, strings.Repeat("no gzip ", 10), "Content-Encoding", "gzip"), 200},
		{"a header beyond the limit", answers(200, completes, "X-Long", strings.Repeat("x", 64<<10)), 0},
	} {
		p := newProvider(t)
		p.on("POST /run", c.answer)
		transport := newTransport(t)
		transport.MaxResponseHeaderBytes = 16 << 10
		_, e, effort := submit(t.Context(), newClient(t, p.URL, transport), skillAt(t, p.URL, `/endpoint/retry={"max_attempts":3,"backoff_ms":1}`))
		wantError(t, e, run.ProviderFault, run.ExecutedMaybe)
		if e.HTTPStatus != c.status || effort.Attempts != 1 {
			t.Errorf("%s: status %d, %d attempts", c.about, e.HTTPStatus, effort.Attempts)
		}
	}
}

// fencing is a transport that tells beforehand where it will not go.
type fencing struct{ *http.Transport }

func (fencing) Judge(_ context.Context, _ string, u *url.URL) error {
	if u.Host == "forbidden.example" {
		return errNotPublic
	}
	return nil
}

// Nothing is submitted if the run could not be followed.
func TestURLsAreJudgedBeforeAnythingIsSent(t *testing.T) {
	for _, member := range []string{"url", "status_url", "result_url"} {
		p := newProvider(t)
		c := newClient(t, p.URL, fencing{newTransport(t)})
		_, e, effort := submit(t.Context(), c, skillAt(t, p.URL, "/endpoint/"+member+"="+quote("http://forbidden.example/run")))
		wantError(t, e, run.Unreachable, run.ExecutedNo)
		if member != "url" && !strings.Contains(string(front.Details(e)), "http://forbidden.example/run/%7Bexecution_id%7D") {
			t.Errorf("%s: details %s", member, front.Details(e))
		}
		if len(p.requests()) != 0 || effort.Attempts != 0 || e.Refused == "" {
			t.Errorf("%s: %d requests, %+v", member, len(p.requests()), e)
		}
	}
}

// A stale document is used when a provider is in trouble, or answers with something that is no valid document, and never after it said that
// there is none (401, 403, 404, 410), or led to where the bridge may not go.
func TestStaleDocuments(t *testing.T) {
	const page = "<!doctype html><title>Maintenance</title>We are back soon."
	html, login := answers(200, page, "Content-Type", "text/html; charset=utf-8"), answers(302, "", "Location", "/login")
	for _, c := range []struct {
		about  string
		answer http.HandlerFunc
		stale  bool
	}{
		{"503", answers(503, ""), true},
		{"dropped", drops, true},
		{"redirected for ever", answers(302, "", "Location", "/loop"), true},
		{"redirected to another scheme", answers(302, "", "Location", "ftp://a.example/"), true},
		{"redirected where the bridge does not go", answers(302, "", "Location", "http://forbidden.example/"), false},
		{"redirected to 401", answers(302, "", "Location", "/401"), true},
		{"redirected to 403", answers(307, "", "Location", "/403"), true},
		{"redirected to 404", answers(301, "", "Location", "/404"), true},
		{"redirected to 410", answers(303, "", "Location", "/hop"), true},
		{"401", answers(401, ""), false},
		{"403", answers(403, ""), false},
		{"410", answers(410, page, "Content-Type", "text/html"), false},
		{"201", answers(201, acmeIndex, "Content-Type", "application/json"), true},
		{"204", answers(204, ""), true},
		{"206", answers(206, "{", "Content-Type", "application/json"), true},
		{"300", answers(300, page, "Content-Type", "text/html"), true},
		{"302 to nowhere", answers(302, ""), true},
		{"304, unasked", answers(304, ""), true},
		{"400", answers(400, page, "Content-Type", "text/html"), true},
		{"400, SKILL_NOT_FOUND", answers(400, `{"error":{"code":"SKILL_NOT_FOUND","message":"No."}}`, "Content-Type", "application/json"), true},
		{"405", answers(405, ""), true},
		{"408", answers(408, ""), true},
		{"421", answers(421, ""), true},
		{"422, VERSION_INCOMPATIBLE", answers(422, `{"error":{"code":"VERSION_INCOMPATIBLE","message":"No."}}`, "Content-Type", "application/json"), true},
		{"451", answers(451, page, "Content-Type", "text/html"), true},
		{"404", answers(404, page, "Content-Type", "text/html"), false},
		{"too large", answers(200, strings.Repeat(" ", 2<<20)), true},
		{"a page", html, true},
		{"a page as JSON", answers(200, page), true},
		{"a login page", login, true},
		{"nothing", answers(200, ""), true},
		{"half", answers(200, `{"protocol":{"version":"1.0.0"},"provider":{"na`), true},
		{"another object", answers(200, `{"status":"maintenance"}`), true},
		{"no object", answers(200, `"maintenance"`), true},
		{"null", answers(200, "null"), true},
		{"too deep", answers(200, nested(600)), true},
		{"two members of one name", answers(200, `{"protocol":1,"protocol":1}`), true},
		{"another encoding", answers(200, "x", "Content-Encoding", "br"), true},
		{"not the encoding", answers(200, page, "Content-Encoding", "gzip"), true},
		{"not HTTP", malformed, true},
	} {
		for _, kind := range []string{"index", "descriptor", "registry"} {
			p := newProvider(t)
			path, good := wellKnown, acmeIndex
			read := func(c *skillsharing.Client) *run.Failure { _, e := indexOf(t.Context(), c); return e }
			switch kind {
			case "descriptor":
				path, good = "/d.json", string(edited(t, forecast))
				read = func(c *skillsharing.Client) *run.Failure {
					_, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+path))
					return e
				}
			case "registry":
				path = "/skills"
				read = func(c *skillsharing.Client) *run.Failure { _, e := registryOf(t.Context(), c, ""); return e }
			}
			p.on("GET "+path, answers(200, good, "Content-Type", "application/json"), c.answer)
			p.on("GET /login", html)
			for _, status := range []int{401, 403, 404, 410} {
				p.on(fmt.Sprint("GET /", status), answers(status, page))
			}
			p.on("GET /hop", answers(308, "", "Location", "/410"))
			p.on("GET /loop", answers(302, "", "Location", "/loop"))
			client := newClient(t, p.URL, fencing{newTransport(t)})
			documents, err := cache.New(cache.Config{MaxSize: 1 << 20, MaxTTL: time.Hour, StaleIfError: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(documents.Close)
			client.Cache = documents
			seen := new(watcher)
			client.Observer = seen
			if e := read(client); e != nil {
				t.Fatal(e)
			}
			for range 2 {
				if e := read(client); (e == nil) != c.stale {
					t.Errorf("%s, %s: %v", kind, c.about, e)
				}
			}
			warned := slices.ContainsFunc(seen.notices, func(n exchange.Notice) bool { return strings.Contains(n.Message, "stale documents") })
			if warned != c.stale {
				t.Errorf("%s, %s: %+v", kind, c.about, seen.notices)
			}
		}
	}
}

// A descriptor of another skill does not replace that of the skill that is asked for. It does replace that of another one: an index entry with
// the descriptor URL of another skill decides nothing about that skill.
func TestStaleDescriptorOfAnotherSkill(t *testing.T) {
	p := newProvider(t)
	own, other := string(edited(t, forecast, `/id="acme/own"`)), string(edited(t, forecast, `/id="acme/other"`))
	const descriptor = "GET /d.json"
	p.on(descriptor, answers(200, own), answers(200, other), answers(200, other), answers(200, own), answers(200, other))
	client := newClient(t, p.URL, newTransport(t))
	documents, err := cache.New(cache.Config{MaxSize: 1 << 20, MaxTTL: time.Hour, StaleIfError: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(documents.Close)
	client.Cache = documents
	for i, c := range []struct {
		asked, want string
		state       cache.State
	}{
		{"acme/own", "acme/own", cache.Fetched},
		{"acme/own", "acme/own", cache.Stale},
		{"acme/other", "acme/other", cache.Fetched}, // as after a change of the index
		{"acme/own", "acme/own", cache.Fetched},
		{"acme/third", "acme/other", cache.Fetched}, // an entry that is wrong: its calls fail, as catalog says
	} {
		s, state, e := client.SkillDocument(t.Context(), discovery.NewLocation(p.URL+"/d.json"), c.asked, discovery.Names{})
		if e != nil || s.ID != c.want || state != c.state {
			t.Errorf("%d: %v, %v, %v", i, s, state, e)
		}
		if i == 1 {
			_, failure := discovery.FreshUntil(&cache.Document{Value: s})
			if failure == nil || failure.Kind != run.InvalidDocument || !strings.Contains(failure.Message, "describes another skill") {
				t.Errorf("the reason is %v", failure)
			}
		}
	}
}

// malformed answers with something that is not HTTP.
func malformed(w http.ResponseWriter, _ *http.Request) {
	conn, out, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = out.WriteString("HTTP/1.1 2OO OK\r\n\r\n")
	_ = out.Flush()
}

// fetching are credentials that make a request of their own first.
type fetching struct{ keyed }

func (f *fetching) Authenticate(ctx context.Context, a *credential.Authentication) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://token.example/token?x=y", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.Transport.RoundTrip(req)
	if err != nil {
		return nil // that the request was made is all that counts
	}
	return errors.Join(errors.New("the request was answered"), resp.Body.Close())
}

// echoing fails with what it was sent, as net/http does with a status line that
// it can't read.
type echoing struct{ what, secret string }

func (t echoing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s %q", t.what, t.secret)
}

func TestRequestsOfCredentialsAreReportedWithoutSecrets(t *testing.T) {
	t.Run("quoted", func(t *testing.T) {
		reportedWithoutSecrets(t, "unexpected greeting", run.Unreachable, `unexpected greeting "[redacted]"`)
	})
	t.Run("not quoted", func(t *testing.T) {
		reportedWithoutSecrets(t, "malformed HTTP status code", run.ProviderFault, "the answer is malformed HTTP")
	})
}

func reportedWithoutSecrets(t *testing.T, what string, code run.Kind, want string) {
	t.Helper()
	const secret = `k-12"345`
	c := newClient(t, "http://acme.example", echoing{what, secret})
	c.Credentials = &fetching{keyed{key: secret}}
	_, e, _ := submit(t.Context(), c, skillAt(t, "http://acme.example", `/auth={"type":"api_key"}`))
	wantError(t, e, code, run.ExecutedMaybe)
	x := c.Observer.(*watcher).exchanges
	if len(x) != 2 || x[0].Phase != run.PhaseAuth || x[0].Address() != "http://token.example/token" || x[1].Phase != run.PhaseInvoke {
		t.Fatalf("exchanges %+v", x)
	}
	for _, exchange := range x {
		if text := exchange.Err.Error(); text != want {
			t.Errorf("%s: %s, want %s", exchange.Phase, text, want)
		}
	}
}

// Whoever reads about a refused credential learns who can mend it, and the log
// line says where it happened.
func TestRefusedCredential(t *testing.T) {
	for _, auth := range []string{`{"type":"api_key"}`, `{"type":"none"}`} {
		p := newProvider(t)
		p.on("POST /run", answers(401, `{"error":{"code":"AUTH_REQUIRED","message":"No."}}`))
		c := newClient(t, p.URL, newTransport(t))
		c.Credentials = &keyed{key: "k-12345"}
		_, e, _ := submit(t.Context(), c, skillAt(t, p.URL, "/auth="+auth))
		wantError(t, e, run.AuthRequired, run.ExecutedNo)
		if !strings.HasPrefix(e.Message, "No. (") || !strings.Contains(e.Advice, "Ask the operator of the bridge") || e.URL != p.URL+"/run" {
			t.Errorf("%s: %q at %q", auth, e.Message, e.URL)
		}
	}
}
