package skillsharing_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

func TestSubmitSendsAnInvocationRequest(t *testing.T) {
	// Numbers, escapes, spaces, the order of members and those given twice are the provider's to judge.
	const inputs = `{"n":1.0, "big":12345678901234567890123,"e":1E+400,"twice":1,"twice":2,"s":"\u00e9\/","z":{"b":1,"a":[ ]} }`
	for _, c := range []struct{ method, declared, contentType string }{
		{"POST", "", "application/json"},
		{"POST", "application/json; charset=utf-8", "application/json; charset=utf-8"},
		{"PUT", "application/vnd.acme+json;v=2", "application/vnd.acme+json;v=2"},
	} {
		p := newProvider(t)
		p.on(c.method+" /run", answers(202, accepts))
		edits := []string{"/endpoint/method=" + quote(c.method), "-/endpoint/content_type"}
		if c.declared != "" {
			edits = append(edits, "/endpoint/content_type="+quote(c.declared))
		}
		client := newClient(t, p.URL, newTransport(t))
		client.Caller = skillsharing.Caller{ID: `"edge"\`, Type: "über\xff"}
		effort := skillsharing.Stats{Attempts: 5}
		r, e := client.Submit(t.Context(), skillAt(t, p.URL, edits...), &skillsharing.Invocation{
			Inputs: []byte(inputs), Priority: skillsharing.PriorityHigh, TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Timeout: 12345678 * time.Microsecond,
		}, &effort)
		if e != nil {
			t.Fatal(e)
		}
		if r.State != run.Accepted || r.ExecutionID != runID || effort != (skillsharing.Stats{Attempts: 6}) {
			t.Errorf("%+v with %+v", r, effort)
		}
		seen := p.requests()
		if len(seen) != 1 || seen[0].route != c.method+" /run" {
			t.Fatalf("requests %v", seen)
		}
		want := `{"caller":{"id":"\"edge\"\\","type":"über` + "\ufffd" + `"},"skill_id":"acme/forecast","inputs":` + inputs +
			`,"context":{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","priority":"high","timeout_ms":12345}}`
		if seen[0].body != want {
			t.Errorf("body\n got %s\nwant %s", seen[0].body, want)
		}
		wantHeader := http.Header{
			"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "Content-Type": {c.contentType},
			"User-Agent": {"caddy-skill-bridge"}, "Content-Length": {fmt.Sprint(len(want))},
		}
		wantSameHeader(t, seen[0].Header, wantHeader)
	}
}

func wantSameHeader(tb testing.TB, got, want http.Header) {
	tb.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		tb.Errorf("header\n got %s\nwant %s", g, w)
	}
}

func TestSubmitWithoutArguments(t *testing.T) {
	p := newProvider(t)
	p.on("POST /run", answers(202, accepts))
	if _, e := newClient(t, p.URL, newTransport(t)).Submit(t.Context(), skillAt(t, p.URL), &skillsharing.Invocation{}, new(skillsharing.Stats)); e != nil {
		t.Fatal(e)
	}
	if body := p.requests()[0].body; !strings.Contains(body, `"inputs":{},`) || !jsontext.Value(body).IsValid() {
		t.Errorf("body %s", body)
	}
}

func TestSubmitSendsAQuery(t *testing.T) {
	for _, method := range []string{"GET", "DELETE"} {
		for _, c := range []struct{ url, inputs, want string }{
			{"/run", `{}`, "/run"},
			{"/run?v=2", `{}`, "/run?v=2"},
			{"/run", `{"q":"a b&c=d#e+f/ä"}`, "/run?q=a+b%26c%3Dd%23e%2Bf%2F%C3%A4"},
			{"/run?v=2&w", `{"b":1.0, "a":12345678901234567890123, "a":-0}`, "/run?v=2&w&b=1.0&a=12345678901234567890123&a=-0"},
			{
				"/run", `{"o":{ "x" : [ 1 , "\u00e9" ] , "y" : null }, "t": true, "n": null, "e": ""}`,
				"/run?o=%7B%22x%22%3A%5B1%2C%22%5Cu00e9%22%5D%2C%22y%22%3Anull%7D&t=true&n=null&e=",
			},
			{"/run", `{"a b&c":"x","\u00e4":"y","o":{"a":1,"a":2}}`, "/run?a+b%26c=x&%C3%A4=y&o=%7B%22a%22%3A1%2C%22a%22%3A2%7D"},
		} {
			p := newProvider(t)
			p.on(method+" /run", answers(200, completes))
			s := skillAt(t, p.URL, "/endpoint/method="+quote(method), "/endpoint/url="+quote(p.URL+c.url))
			client := newClient(t, p.URL, newTransport(t))
			for range 2 { // the skill itself is not changed
				if _, e := client.Submit(t.Context(), s, &skillsharing.Invocation{Inputs: []byte(c.inputs), TraceID: "t1"}, new(skillsharing.Stats)); e != nil {
					t.Fatal(e)
				}
			}
			for _, r := range p.requests() {
				if want := method + " " + c.want; r.route != want || r.body != "" {
					t.Errorf("%s\n got %s %q\nwant %s", c.inputs, r.route, r.body, want)
				}
				wantSameHeader(t, r.Header, http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"caddy-skill-bridge"}})
				if r.ContentLength != 0 || r.TransferEncoding != nil {
					t.Errorf("a body of %d bytes is announced (%v)", r.ContentLength, r.TransferEncoding)
				}
			}
		}
	}
}

const consent = `/endpoint/retry={"max_attempts":3,"backoff_ms":0}`

func TestSubmitRetries(t *testing.T) {
	const unreachable, timedOut, invalid = run.Unreachable, run.DeadlineExceeded, run.ProviderFault
	for _, c := range []struct {
		name     string
		method   string
		retry    string // an edit; empty: no consent
		answers  []http.HandlerFunc
		requests int
		code     run.Kind // empty: it succeeds
		executed run.Executed
	}{
		{"503", "POST", "", list(answers(503, "")), 1, unreachable, run.ExecutedMaybe},
		{"503", "GET", "", list(answers(503, "")), 1, unreachable, run.ExecutedMaybe},
		{"503", "POST", consent, list(answers(503, "")), 3, unreachable, run.ExecutedMaybe},
		{"502", "POST", consent, list(answers(502, "")), 3, unreachable, run.ExecutedMaybe},
		{"429", "POST", "", list(answers(429, "")), 1, run.RateLimited, run.ExecutedNo},
		{"429", "POST", consent, list(answers(429, "")), 3, run.RateLimited, run.ExecutedNo},
		{"429", "DELETE", consent, list(answers(429, "")), 3, run.RateLimited, run.ExecutedNo},
		{"503, then fine", "POST", consent, list(answers(503, ""), answers(200, completes)), 2, 0, ""},
		{"503, then 502, then fine", "PUT", consent, list(answers(503, ""), answers(502, ""), answers(202, accepts)), 3, 0, ""},
		{"503, then 429", "POST", consent, list(answers(503, ""), answers(429, "")), 3, run.RateLimited, run.ExecutedMaybe},
		{"503, then 403", "POST", consent, list(answers(503, ""), answers(403, "")), 2, run.PermissionDenied, run.ExecutedMaybe},
		{"503 once only", "POST", `/endpoint/retry={"max_attempts":1,"backoff_ms":0}`, list(answers(503, "")), 1, unreachable, run.ExecutedMaybe},
		{"503 with a unified error", "POST", consent, list(answers(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m"}}`)), 3, unreachable, run.ExecutedMaybe},
		{"503 that means something else", "POST", consent, list(answers(503, `{"error":{"code":"PERMISSION_DENIED","message":"m"}}`)), 1, run.PermissionDenied, run.ExecutedMaybe},

		{"504", "POST", consent, list(answers(504, "")), 1, timedOut, run.ExecutedMaybe},
		{"408", "POST", consent, list(answers(408, "")), 1, timedOut, run.ExecutedMaybe},
		{"504", "GET", consent, list(answers(504, "")), 3, timedOut, run.ExecutedMaybe},
		{"504", "PUT", consent, list(answers(504, "")), 3, timedOut, run.ExecutedMaybe},
		{"504", "DELETE", consent, list(answers(504, "")), 3, timedOut, run.ExecutedMaybe},
		{"408", "GET", consent, list(answers(408, "")), 3, timedOut, run.ExecutedMaybe},
		{"504", "GET", "", list(answers(504, "")), 1, timedOut, run.ExecutedMaybe},

		{"500", "GET", consent, list(answers(500, "")), 1, invalid, run.ExecutedMaybe},
		{"501", "GET", consent, list(answers(501, "")), 1, invalid, run.ExecutedMaybe},
		{"400", "GET", consent, list(answers(400, "")), 1, invalid, run.ExecutedMaybe},
		{"400 with JSON", "PUT", consent, list(answers(400, "{}")), 1, run.InvalidArguments, run.ExecutedMaybe},
		{"401", "GET", consent, list(answers(401, "")), 1, run.AuthRequired, run.ExecutedNo},
		{"403", "GET", consent, list(answers(403, "")), 1, run.PermissionDenied, run.ExecutedNo},
		{"404", "GET", consent, list(answers(404, "")), 1, run.SkillNotFound, run.ExecutedNo},
		{"405", "PUT", consent, list(answers(405, "")), 1, invalid, run.ExecutedNo},
		{"409", "PUT", consent, list(answers(409, "")), 1, invalid, run.ExecutedMaybe},
		{"410", "GET", consent, list(answers(410, "")), 1, run.SkillNotFound, run.ExecutedNo},
		{"422", "GET", consent, list(answers(422, "")), 1, run.VersionIncompatible, run.ExecutedNo},
		{"nonsense", "GET", consent, list(answers(200, "{}")), 1, invalid, run.ExecutedMaybe},
		{"redirect", "GET", consent, list(answers(302, "", "Location", "/elsewhere")), 1, invalid, run.ExecutedMaybe},

		{"dropped", "POST", "", list(drops), 1, unreachable, run.ExecutedMaybe},
		{"dropped", "POST", consent, list(drops), 1, unreachable, run.ExecutedMaybe},
		{"dropped", "GET", "", list(drops), 1, unreachable, run.ExecutedMaybe},
		{"dropped", "PUT", "", list(drops), 1, unreachable, run.ExecutedMaybe},
		{"dropped", "DELETE", "", list(drops), 1, unreachable, run.ExecutedMaybe},
		{"dropped", "GET", consent, list(drops), 3, unreachable, run.ExecutedMaybe},
		{"dropped", "PUT", consent, list(drops), 3, unreachable, run.ExecutedMaybe},
		{"dropped", "DELETE", consent, list(drops), 3, unreachable, run.ExecutedMaybe},
		{"dropped, then fine", "GET", consent, list(drops, answers(200, completes)), 2, 0, ""},
		{"broken off", "POST", consent, list(breaksOff), 1, unreachable, run.ExecutedMaybe},
		{"broken off", "GET", "", list(breaksOff), 1, unreachable, run.ExecutedMaybe},
		{"broken off", "GET", consent, list(breaksOff), 3, unreachable, run.ExecutedMaybe},
		{"400 that is broken off", "GET", consent, list(breaksOffWith(400)), 1, unreachable, run.ExecutedMaybe},
		{"404 that is broken off", "DELETE", consent, list(breaksOffWith(404)), 1, unreachable, run.ExecutedNo},
		{"408 that is broken off", "PUT", consent, list(breaksOffWith(408)), 3, unreachable, run.ExecutedMaybe},
		{"429 that is broken off", "POST", consent, list(breaksOffWith(429)), 3, unreachable, run.ExecutedNo},
		{"500 that is broken off", "GET", consent, list(breaksOffWith(500)), 3, unreachable, run.ExecutedMaybe},

		// A run may be under way: whatever the status, that is the answer.
		{"503, accepted", "POST", consent, list(answers(503, accepts)), 1, 0, ""},
		{"503, failed", "GET", consent, list(answers(503, `{"execution_id":"exec-1","status":"failed"}`)), 1, 0, ""},
		{"504, timed out", "PUT", consent, list(answers(504, `{"execution_id":"exec-1","status":"timeout"}`)), 1, 0, ""},
	} {
		t.Run(fmt.Sprintf("%s %s consent %t", c.method, c.name, c.retry != ""), func(t *testing.T) {
			p := newProvider(t)
			p.on(c.method+" /run", c.answers...)
			edits := []string{"/endpoint/method=" + quote(c.method)}
			if c.retry != "" {
				edits = append(edits, c.retry)
			}
			r, e, effort := submit(t.Context(), newClient(t, p.URL, newTransport(t)), skillAt(t, p.URL, edits...))
			if seen := len(p.requests()); seen != c.requests || effort.Attempts != c.requests {
				t.Errorf("%d requests, %d attempts; want %d", seen, effort.Attempts, c.requests)
			}
			if c.code != 0 {
				wantError(t, e, c.code, c.executed)
			} else if e != nil || r == nil {
				t.Errorf("error %+v", e)
			}
		})
	}
}

func list(answers ...http.HandlerFunc) []http.HandlerFunc { return answers }

// On a connection that was used before, net/http repeats a GET by itself.
func TestSubmitIsNotRepeatedOnAUsedConnection(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		for _, edits := range [][]string{
			nil,
			{`/endpoint/retry={"max_attempts":1,"backoff_ms":0}`},
			{`/auth={"type":"api_key","header":"Idempotency-Key"}`},
			{`/auth={"type":"api_key","header":"x-idempotency-key"}`},
		} {
			p := newProvider(t)
			p.on(method+" /run", answers(200, completes), drops)
			c, s := newClient(t, p.URL, newTransport(t)), skillAt(t, p.URL, append(edits, "/endpoint/method="+quote(method))...)
			c.Credentials = inDeclaredHeader{}
			if _, e, _ := submit(t.Context(), c, s); e != nil {
				t.Fatal(e)
			}
			_, e, effort := submit(t.Context(), c, s)
			wantError(t, e, run.Unreachable, run.ExecutedMaybe)
			if n := len(p.requests()); n != 2 || effort.Attempts != 1 {
				t.Errorf("%s: %d requests with %d attempts, want 2 with 1", method, n, effort.Attempts)
			}
		}
	}
}

// inDeclaredHeader are credentials that go where the descriptor says.
type inDeclaredHeader struct{}

func (inDeclaredHeader) Supports(*document.Auth) bool { return true }
func (inDeclaredHeader) Secrets() []string            { return nil }
func (inDeclaredHeader) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header.Set(a.Auth.Header, "k-123")
	return nil
}

func closedPort(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
	}()
	return "http://" + l.Addr().String()
}

func TestSubmitRepeatsWhatWasNeverWritten(t *testing.T) {
	for _, c := range []struct {
		retry string
		want  int
	}{
		{"", 3},
		{`/endpoint/retry={"max_attempts":1,"backoff_ms":0}`, 3},
		{`/endpoint/retry={"max_attempts":2,"backoff_ms":0}`, 3},
		{`/endpoint/retry={"max_attempts":5,"backoff_ms":0}`, 5},
	} {
		base := closedPort(t)
		edits := []string{"/endpoint/url=" + quote(base+"/run?token=hush")}
		if c.retry != "" {
			edits = append(edits, c.retry)
		}
		_, e, effort := submit(t.Context(), newClient(t, base, newTransport(t)), skillAt(t, base, edits...))
		wantError(t, e, run.Unreachable, run.ExecutedNo)
		if effort.Attempts != c.want {
			t.Errorf("%s: %d attempts, want %d", c.retry, effort.Attempts, c.want)
		}
		want := `{"reason":"connection refused","url":"` + base + `/run"}`
		if string(front.Details(e)) != want || retryOf(e) == nil || e.Phase != run.PhaseInvoke || e.By != run.Bridge || e.SkillID != "acme/forecast" {
			t.Errorf("%+v, details %s, want %s", e, front.Details(e), want)
		}
	}
}

// errNotPublic is the error of a transport that may not connect.
var errNotPublic = &exchange.RefusedError{Reason: "address is not public", Exact: "10.0.0.7 is private", Rule: run.RuleAddress}

func TestSubmitWithoutConnection(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		attempts int
		reason   string
		refused  bool
	}{
		{"no such host", &net.DNSError{Err: "no such host", Name: "acme.example", IsNotFound: true}, 1, "its host name does not exist", true},
		{"no name server", &net.DNSError{Err: "server misbehaving", Name: "acme.example", IsTemporary: true}, 3, "its host name can't be resolved", false},
		{"refused", errNotPublic, 1, "address is not public", true},
		{"refused, wrapped", &net.OpError{Op: "dial", Err: fmt.Errorf("guard: %w", errNotPublic)}, 1, "address is not public", true},
		{"unknown", errors.New("dial 10.0.0.7: flux capacitor"), 3, "the connection failed", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := newTransport(t)
			dials := 0
			transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
				dials++
				return nil, c.err
			}
			_, e, effort := submit(t.Context(), newClient(t, acme, transport), skillAt(t, acme))
			wantError(t, e, run.Unreachable, run.ExecutedNo)
			if effort.Attempts != c.attempts || dials != c.attempts || (e.Refused != "") != c.refused {
				t.Errorf("%d attempts, %d dials, refused %q; want %d, %t", effort.Attempts, dials, e.Refused, c.attempts, c.refused)
			}
			if want := `{"reason":"` + c.reason + `","url":"https://acme.example/run"}`; string(front.Details(e)) != want {
				t.Errorf("details %s, want %s", front.Details(e), want)
			}
			if told := e.Message + string(front.Details(e)); strings.Contains(told, "10.0.0.7") {
				t.Errorf("an address is told: %s", told)
			}
		})
	}
}

func TestSubmitWithABadCertificate(t *testing.T) {
	for _, c := range []struct {
		name  string
		host  string
		trust bool
	}{
		{"unknown authority", "", false},
		{"another host's", "https://wrong.example", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newTLSProvider(t)
			transport := newTransport(t)
			dials := 0
			transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
				dials++
				return new(net.Dialer).DialContext(ctx, network, p.Listener.Addr().String())
			}
			if c.trust {
				transport.TLSClientConfig = p.tlsConfig()
			}
			base := p.URL
			if c.host != "" {
				base = c.host
			}
			client := newClient(t, base, transport)
			client.Credentials = &keyed{key: "k-123"}
			_, e, effort := submit(t.Context(), client, skillAt(t, base, `/auth={"type":"api_key"}`, consent))
			wantError(t, e, run.Unreachable, run.ExecutedNo)
			if effort.Attempts != 1 || dials != 1 || len(p.requests()) != 0 || !strings.Contains(e.Message, "certificate") {
				t.Errorf("%d attempts, %d dials, %d requests: %s", effort.Attempts, dials, len(p.requests()), e.Message)
			}
		})
	}
}

// A transport that reports nothing may have written anything.
func TestSubmitOverATransportWithoutTrace(t *testing.T) {
	for _, c := range []struct {
		err      error
		attempts int
		executed run.Executed
	}{
		{errors.New("stream reset"), 1, run.ExecutedMaybe},
		{io.ErrUnexpectedEOF, 1, run.ExecutedMaybe},
		{&net.OpError{Op: "read", Err: io.EOF}, 1, run.ExecutedMaybe},
		{&net.OpError{Op: "dial", Err: errors.New("no route")}, 3, run.ExecutedNo},
		{&net.DNSError{IsTemporary: true}, 3, run.ExecutedNo},
		{&net.DNSError{IsNotFound: true}, 1, run.ExecutedNo},
		{errNotPublic, 1, run.ExecutedNo},
	} {
		transport := roundTripper(func(*http.Request) (*http.Response, error) { return nil, c.err })
		_, e, effort := submit(t.Context(), newClient(t, acme, transport), skillAt(t, acme, consent))
		wantError(t, e, run.Unreachable, c.executed)
		if effort.Attempts != c.attempts {
			t.Errorf("%v: %d attempts, want %d", c.err, effort.Attempts, c.attempts)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Transports report from goroutines of their own, which go on when a call is over.
func TestSubmitOverATransportThatReportsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := script(t, func(r *http.Request) (*http.Response, error) {
			go wrote(r)
			return nil, io.EOF
		})
		_, e, _ := submit(t.Context(), newClient(t, acme, transport), skillAt(t, acme))
		if e == nil || e.Kind != run.Unreachable {
			t.Errorf("error %+v", e)
		}
		synctest.Wait()
	})
}

// What an earlier attempt may have done counts, however the last one ends.
func TestSubmitRemembersWhatMayHaveBeenExecuted(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []scriptedAnswer
		want    run.Kind
	}{
		{"dropped, then no connection", []scriptedAnswer{cutOff, notConnected}, run.Unreachable},
		{"503, then no connection", []scriptedAnswer{says(503, ""), notConnected}, run.Unreachable},
		{"dropped, then 429", []scriptedAnswer{cutOff, says(429, "")}, run.RateLimited},
		{"dropped, then 404", []scriptedAnswer{cutOff, says(404, "")}, run.SkillNotFound},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, e, _ := submit(t.Context(), newClient(t, acme, script(t, c.answers...)), skillAt(t, acme, consent, `/endpoint/method="PUT"`))
			if e == nil || e.Kind != c.want || e.Executed != run.ExecutedMaybe {
				t.Errorf("%s: %+v", c.name, e)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, acme, script(t, cutOff, says(401, "")))
		c.Credentials = &renewing{failures: []error{errNoToken}}
		_, e, _ := submit(t.Context(), c, skillAt(t, acme, consent, `/endpoint/method="PUT"`, `/auth={"type":"api_key"}`))
		wantError(t, e, run.AuthRequired, run.ExecutedMaybe)
	})
}

func TestSubmitDelays(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name     string
		retry    string
		answer   scriptedAnswer
		deadline time.Duration // 0: none
		want     []time.Duration
	}{
		{"backoff", `{"max_attempts":4,"backoff_ms":1000}`, says(503, ""), 0, []time.Duration{second, 2 * second, 4 * second}},
		{"no backoff", `{"max_attempts":3,"backoff_ms":0}`, says(503, ""), 0, []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}},
		{"endless attempts", `{"max_attempts":1e9,"backoff_ms":1}`, says(503, ""), 0, doublingDelays(10*time.Millisecond, 9)},
		{"endless attempts to connect", `{"max_attempts":1e9,"backoff_ms":1}`, notConnected, 0, doublingDelays(10*time.Millisecond, 9)},
		{"endless backoff", `{"max_attempts":3,"backoff_ms":1e300}`, says(503, ""), 0, []time.Duration{30 * second, 30 * second}},
		{"capped backoff", `{"max_attempts":4,"backoff_ms":20000}`, says(503, ""), 0, []time.Duration{20 * second, 30 * second, 30 * second}},
		{"Retry-After", `{"max_attempts":3,"backoff_ms":100}`, says(429, "", "Retry-After", "7"), 0, []time.Duration{7 * second, 7 * second}},
		{"Retry-After sooner", `{"max_attempts":2,"backoff_ms":9000}`, says(429, "", "Retry-After", "1"), 0, []time.Duration{9 * second}},
		{"suggested delay", `{"max_attempts":2,"backoff_ms":100}`, says(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m","retry":{"suggested_delay_ms":8000,"max_attempts":0}}}`), 0, []time.Duration{8 * second}},
		{"suggested delay that no double can be", `{"max_attempts":2,"backoff_ms":100}`, says(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m","retry":{"suggested_delay_ms":1e999}}}`), 0, []time.Duration{24 * time.Hour}},
		{"absurd suggestion", `{"max_attempts":2,"backoff_ms":100}`, says(503, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m","retry":{"suggested_delay_ms":-1e999}}}`), 0, []time.Duration{100 * time.Millisecond}},
		{"no connection, no consent", ``, notConnected, 0, []time.Duration{25 * time.Millisecond, 50 * time.Millisecond}},
		{"deadline", `{"max_attempts":9,"backoff_ms":1000}`, says(503, ""), 5 * second, []time.Duration{second, 2 * second}},
		{"deadline before Retry-After", `{"max_attempts":9,"backoff_ms":0}`, says(503, "", "Retry-After", "60"), 30 * second, nil},
		{"deadline before an endless Retry-After", `{"max_attempts":9,"backoff_ms":0}`, says(503, "", "Retry-After", "99999999999999999999"), 30 * second, nil},
		{"deadline before a reconnection", ``, notConnected, 10 * time.Millisecond, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var edits []string
				if c.retry != "" {
					edits = append(edits, "/endpoint/retry="+c.retry)
				}
				ctx, cancel := context.WithCancel(t.Context())
				if c.deadline > 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), c.deadline)
				}
				defer cancel()
				transport := script(t, c.answer)
				start := time.Now()
				_, e, effort := submit(ctx, newClient(t, acme, transport), skillAt(t, acme, edits...))
				if e == nil || e.Kind == run.DeadlineExceeded || effort.Attempts != len(transport.asked) {
					t.Fatalf("%+v with %+v", e, effort)
				}
				wantDelays(t, transport.times(), 0, c.want)
				if last := transport.asked[len(transport.asked)-1].at; time.Since(start) != last {
					t.Errorf("it ended %v after the start, %v after the last attempt", time.Since(start), time.Since(start)-last)
				}
			})
		})
	}
}

func doublingDelays(first time.Duration, n int) []time.Duration {
	var delays []time.Duration
	for i := range n {
		delays = append(delays, first<<i)
	}
	return delays
}

// wantDelays checks the times of requests against the delays between them, the
// first of which is before the first request. A tenth is left to chance.
func wantDelays(tb testing.TB, times []time.Duration, first time.Duration, want []time.Duration) {
	tb.Helper()
	want = append([]time.Duration{first}, want...)
	if len(times) != len(want) {
		tb.Fatalf("%d requests, at %v; want %d", len(times), times, len(want))
	}
	var last time.Duration
	for i, at := range times {
		if delay := at - last; delay < want[i]*9/10 || delay > want[i]*11/10+1 {
			tb.Errorf("delay %v before request %d, want about %v", delay, i+1, want[i])
		}
		last = at
	}
}

func TestSubmitRenewsOnce(t *testing.T) {
	const apiKey = `/auth={"type":"api_key"}`
	unreachable := &run.Failure{Kind: run.Unreachable, Message: "The token endpoint is down.", Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo}
	for _, c := range []struct {
		name     string
		creds    credential.Credentials
		auth     string
		answers  []http.HandlerFunc
		requests []string // the keys sent
		renewals int
		code     run.Kind
		message  string
	}{
		{"renewed", &renewing{}, apiKey, list(answers(401, ""), answers(200, completes)), []string{"k-123", "k-123'"}, 1, 0, ""},
		{"refused again", &renewing{}, apiKey, list(answers(401, "")), []string{"k-123", "k-123'"}, 1, run.AuthRequired, "HTTP 401"},
		{"busy after renewal", &renewing{}, apiKey, list(answers(401, ""), answers(503, "")), []string{"k-123", "k-123'", "k-123'", "k-123'"}, 1, run.Unreachable, "HTTP 503"},
		{"nothing to renew", &renewing{exhausted: true}, apiKey, list(answers(401, "")), []string{"k-123"}, 1, run.AuthRequired, "HTTP 401"},
		{"renewal impossible", &renewing{failures: []error{errNoToken}}, apiKey, list(answers(401, "")), []string{"k-123"}, 1, run.AuthRequired, errNoToken.Error()},
		{"renewal unreachable", &renewing{failures: []error{unreachable}}, apiKey, list(answers(401, "")), []string{"k-123"}, 1, run.Unreachable, "The token endpoint is down."},
		{"not renewable", &keyed{}, apiKey, list(answers(401, "")), []string{"k-123"}, 0, run.AuthRequired, "HTTP 401"},
		{"no credential asked for", &renewing{}, `/auth={"type":"none"}`, list(answers(401, "")), []string{""}, 0, run.AuthRequired, "HTTP 401"},
		{"a run after all", &renewing{}, apiKey, list(answers(401, accepts)), []string{"k-123"}, 1, 0, ""}, // for later calls
		{"403", &renewing{}, apiKey, list(answers(403, "")), []string{"k-123"}, 0, run.PermissionDenied, "HTTP 403"},
		{"401 in the body only", &renewing{}, apiKey, list(answers(403, `{"error":{"code":"AUTH_REQUIRED","message":"m"}}`)), []string{"k-123"}, 0, run.AuthRequired, "m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t)
			p.on("POST /run", c.answers...)
			client := newClient(t, p.URL, newTransport(t))
			client.Credentials = c.creds
			renewals := func() int { return 0 }
			switch k := c.creds.(type) {
			case *renewing:
				k.key = "k-123"
				renewals = func() int { return k.renewals }
			case *keyed:
				k.key = "k-123"
			}
			_, e, effort := submit(t.Context(), client, skillAt(t, p.URL, c.auth, consent))
			var keys []string
			for _, r := range p.requests() {
				keys = append(keys, r.Header.Get("X-Key"))
			}
			if !slices.Equal(keys, c.requests) || renewals() != c.renewals || effort.Attempts != len(keys) {
				t.Errorf("requests with %q, %d renewals, %+v; want %q, %d", keys, renewals(), effort, c.requests, c.renewals)
			}
			if c.code == 0 {
				if e != nil {
					t.Errorf("error %+v", e)
				}
			} else if e == nil || e.Kind != c.code || !strings.Contains(e.Message, c.message) {
				t.Errorf("error %+v, want %s: %s", e, c.code, c.message)
			}
		})
	}
	if unreachable.SkillID != "" || unreachable.Executed != run.ExecutedNo {
		t.Errorf("an error that belongs to the credentials was changed: %+v", unreachable)
	}
}

// An answer about a run does not wait for a token endpoint that hangs.
func TestSubmitHasItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient(t, acme, script(t, says(401, completes)))
		client.Credentials = &silentOnce{silentFor: "renewal"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if r, e, _ := submit(ctx, client, skillAt(t, acme, `/auth={"type":"api_key"}`)); e != nil || r.State != run.Completed || ctx.Err() != nil {
			t.Errorf("%+v, %v: %v", r, e, ctx.Err())
		}
	})
}

func TestSubmitAuthenticatesTheFinishedRequest(t *testing.T) {
	p := newProvider(t)
	p.on("POST /run", answers(200, completes))
	creds := &keyed{key: "k"}
	c := newClient(t, p.URL, newTransport(t))
	c.Credentials = creds
	s := skillAt(t, p.URL, `/auth={"type":"api_key","header":"X-Key"}`)
	if _, e, _ := submit(t.Context(), c, s); e != nil {
		t.Fatal(e)
	}
	a := creds.applied[0]
	if string(a.Body) != p.requests()[0].body || a.Request.URL.String() != p.URL+"/run" || a.Request.Method != http.MethodPost || a.Auth != &s.Auth || a.Origin != p.URL {
		t.Errorf("%+v", a)
	}
	if err := a.MaySend(parseURL(t, "https://token.evil.example/")); err == nil {
		t.Error("a client secret may go anywhere")
	}
	if err := a.MaySend(parseURL(t, p.URL+"/token")); err != nil {
		t.Error(err)
	}
}

// Skills are shared: what is done to one request must not show in another.
func TestSubmitDoesNotShareURLs(t *testing.T) {
	p := newProvider(t)
	p.on("POST /run", answers(200, completes))
	c := newClient(t, p.URL, newTransport(t))
	c.Credentials = vandal{}
	s := skillAt(t, p.URL, `/auth={"type":"api_key"}`)
	for range 2 {
		if _, e, _ := submit(t.Context(), c, s); e != nil {
			t.Fatal(e)
		}
	}
	for _, r := range p.requests() {
		if r.route != "POST /run?x" {
			t.Errorf("request %s", r.route)
		}
	}
}

// vandal are credentials that do what they must not.
type vandal struct{}

func (vandal) Supports(*document.Auth) bool { return true }
func (vandal) Secrets() []string            { return nil }
func (vandal) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.URL.RawQuery += "x"
	return nil
}

func TestSubmitSendsNothingToUntrustedHosts(t *testing.T) {
	const key, oauth2 = `/auth={"type":"api_key"}`, `/auth={"type":"oauth2","oauth2":{"authorization_url":"https://evil.example/authorize","token_url":"https://evil.example/token","scopes":{"r":"Read"}}}`
	for _, c := range []struct {
		name  string
		edits []string
		line  string
	}{
		{"endpoint", []string{key, `/endpoint/url="https://evil.example/run"`}, "trust evil.example"},
		{"status", []string{key, `/endpoint/status_url="https://evil.example/{execution_id}"`}, "trust evil.example"},
		{"result", []string{key, `/endpoint/result_url="https://evil.example"`}, "trust evil.example"},
		{"descriptor", []string{key, "source=https://evil.example/skill.json"}, "trust evil.example"},
		{"port", []string{key, `/endpoint/status_url="https://evil.example:8443"`}, "trust evil.example:8443"},
		{"own host's port", []string{key, `/endpoint/status_url="https://acme.example:8443"`}, "trust acme.example:8443"},
		{"spelling", []string{key, `/endpoint/status_url="https://EVIL.example.:443"`}, "trust evil.example"},
		{"international", []string{key, `/endpoint/status_url="https://bücher.example"`}, "trust xn--bcher-kva.example"},
		{"address", []string{key, `/endpoint/status_url="https://[2001:DB8::1]"`}, "trust [2001:db8::1]"},
		{"address and port", []string{key, `/endpoint/status_url="https://[2001:db8::1]:444"`}, "trust [2001:db8::1]:444"},
		{"without TLS", []string{key, `/endpoint/status_url="http://acme.example"`}, ""},
		{"token", []string{oauth2, `/endpoint/status_url="https://evil.example"`}, "trust evil.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := script(t, says(202, accepts))
			client := newClient(t, acme, transport)
			creds := &keyed{key: "k-123"}
			client.Credentials = creds
			_, e, effort := submit(t.Context(), client, skillAt(t, acme, c.edits...))
			wantError(t, e, run.AuthRequired, run.ExecutedNo)
			if len(transport.asked) != 0 || effort.Attempts != 0 || len(creds.applied) != 0 {
				t.Errorf("%d requests, %d attempts, %d credentials", len(transport.asked), effort.Attempts, len(creds.applied))
			}
			if e.By != run.Bridge || member(t, front.Details(e), "required_by") != `"bridge"` {
				t.Errorf("%+v, details %s", e, front.Details(e))
			}
			notices := client.Observer.(*watcher).notices
			if len(notices) != 1 || attribute(notices[0], "line") != c.line || attribute(notices[0], "host") == "" || notices[0].Level != slog.LevelWarn {
				t.Fatalf("notices %+v", notices)
			}
			told := strings.ToLower(e.Message + string(front.Details(e)))
			for _, host := range []string{"evil", "8443", "cher", "2001", "trust "} {
				if strings.Contains(told, host) {
					t.Errorf("the answer tells %q: %s %s", host, e.Message, front.Details(e))
				}
			}
			if c.line == "" {
				return
			}
			// The line does what the log says.
			client = newClient(t, acme, transport, strings.TrimPrefix(c.line, "trust "))
			client.Credentials = creds
			if _, e, _ := submit(t.Context(), client, skillAt(t, acme, c.edits...)); e != nil {
				t.Errorf("%s: %+v", c.line, e)
			}
		})
	}
}

// member is the raw value of an object's member.
func member(tb testing.TB, object jsontext.Value, name string) string {
	tb.Helper()
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		tb.Fatalf("%s is no object", object)
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			tb.Fatal(err)
		}
		found := token.String() == name
		value, err := dec.ReadValue()
		if err != nil {
			tb.Fatal(err)
		}
		if found {
			return string(value)
		}
	}
	return ""
}

// Without a secret there is nothing to guard.
func TestSubmitToOtherHostsWithoutCredentials(t *testing.T) {
	transport := script(t, says(202, accepts))
	c := newClient(t, acme, transport)
	creds := &keyed{key: "k-123"}
	c.Credentials = creds
	s := skillAt(t, acme, "source=https://one.example/skill.json", `/endpoint/url="https://two.example/run"`, `/endpoint/status_url="https://three.example"`)
	if _, e, _ := submit(t.Context(), c, s); e != nil {
		t.Fatal(e)
	}
	if header := transport.asked[0].header; header.Get("X-Key") != "" || len(creds.applied) != 0 {
		t.Errorf("a credential was sent: %v", header)
	}
}

func TestSubmitWithoutSuitableCredentials(t *testing.T) {
	const none, other = "no credentials are configured for its provider", "the configured credentials are of another type"
	for _, c := range []struct{ auth, details string }{
		{`{"type":"api_key"}`, `{"header":"X-API-Key","reason":%q,"required_auth_type":"api_key","required_by":"provider"}`},
		{`{"type":"api_key","header":"X-Acme"}`, `{"header":"X-Acme","reason":%q,"required_auth_type":"api_key","required_by":"provider"}`},
		{
			`{"type":"oauth2","oauth2":` + sample.OAuth2 + `}`,
			`{"authorization_url":"https://login.acme.example/authorize","reason":%q,"required_auth_type":"oauth2","required_by":"provider","scopes":{"read":"Read"},"token_url":"https://login.acme.example/token"}`,
		},
		{
			`{"type":"custom","custom":` + sample.CustomAuth + `}`,
			`{"instructions":"Sign the body.","parameters":[{"description":"Key.","name":"key","required":true,"type":"string"}],"reason":%q,"required_auth_type":"custom","required_by":"provider"}`,
		},
	} {
		for _, configured := range []struct {
			creds  credential.Credentials
			reason string
		}{
			{nil, none},
			{&keyed{types: []document.AuthType{}, key: "k-123"}, other},
		} {
			transport := script(t, says(202, accepts))
			client := newClient(t, acme, transport)
			client.Credentials = configured.creds
			_, e, effort := submit(t.Context(), client, skillAt(t, acme, "/auth="+c.auth))
			wantError(t, e, run.AuthRequired, run.ExecutedNo)
			if effort.Attempts != 0 || len(transport.asked) != 0 {
				t.Errorf("%d requests", len(transport.asked))
			}
			details := front.Details(e).Clone()
			if err := details.Canonicalize(); err != nil {
				t.Fatal(err)
			}
			linked := strings.Contains(c.auth, "oauth2") || strings.Contains(c.auth, "custom")
			if e.HasProviderText() != linked {
				t.Errorf("the details are the provider's: %t, want %t", e.HasProviderText(), linked)
			}
			if want := fmt.Sprintf(c.details, configured.reason); string(details) != want {
				t.Errorf("details\n got %s\nwant %s", details, want)
			}
			if e.Phase != run.PhaseAuth || e.By != run.Bridge || e.SkillID != "acme/forecast" || e.HTTPStatus != 0 {
				t.Errorf("%+v", e)
			}
		}
	}
}

func TestSubmitCompletesTheDetailsOfA401(t *testing.T) {
	const ofDescriptor = `{"header":"X-API-Key","required_auth_type":"api_key","required_by":"provider"}`
	for _, c := range []struct{ body, want string }{
		{``, ofDescriptor},
		{`{"error":"unauthorized"}`, ofDescriptor},
		{`{"error":{"code":"AUTH_REQUIRED","message":"m","details":null}}`, ofDescriptor},
		{`{"error":{"code":"AUTH_REQUIRED","message":"m","details":{"required_auth_type":"oauth2","x":1.0}}}`, `{"required_auth_type":"oauth2","required_by":"provider","x":1.0}`},
		{`{"error":{"code":"AUTH_REQUIRED","message":"m","details":{"required_by":"bridge"}}}`, `{"required_by":"provider"}`},
		{`{"error":{"code":"AUTH_REQUIRED","message":"m","details":"log in"}}`, `"log in"`},
		{`{"error":{"code":"AUTH_REQUIRED","message":"m","details":[1]}}`, `[1]`},
	} {
		client := newClient(t, acme, script(t, says(401, c.body)))
		client.Credentials = &keyed{key: "k-123"}
		_, e, _ := submit(t.Context(), client, skillAt(t, acme, `/auth={"type":"api_key"}`))
		wantError(t, e, run.AuthRequired, run.ExecutedNo)
		if string(front.Details(e)) != c.want || !e.HasProviderText() || e.HTTPStatus != 401 {
			t.Errorf("%s: details %s, want %s (%+v)", c.body, front.Details(e), c.want, e)
		}
	}
}

func TestSubmitWithFailingCredentials(t *testing.T) {
	own := &run.Failure{Kind: run.Unreachable, Message: "The token endpoint is down.", Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo}
	for _, c := range []struct {
		err     error
		code    run.Kind
		message string
	}{
		{errNoToken, run.AuthRequired, "The credential can't be applied: " + errNoToken.Error()},
		{own, run.Unreachable, own.Message},
		{fmt.Errorf("token: %w", own), run.Unreachable, own.Message},
	} {
		transport := script(t, says(202, accepts))
		client := newClient(t, acme, transport)
		client.Credentials = &keyed{key: "k-123", err: c.err}
		_, e, effort := submit(t.Context(), client, skillAt(t, acme, `/auth={"type":"api_key"}`, consent))
		wantError(t, e, c.code, run.ExecutedNo)
		if e.Message != c.message || effort.Attempts != 0 || len(transport.asked) != 0 || e == own {
			t.Errorf("%+v after %d requests", e, len(transport.asked))
		}
	}
}

func TestSubmitWithoutTLS(t *testing.T) {
	for _, edit := range []string{
		`/endpoint/url="http://acme.example/run?token=hush"`, `/endpoint/status_url="http://acme.example"`, `/endpoint/result_url="http://acme.example"`,
	} {
		transport := script(t, says(202, accepts))
		client := newClient(t, acme, transport)
		client.AllowHTTP = false
		_, e, effort := submit(t.Context(), client, skillAt(t, acme, edit))
		wantError(t, e, run.Unreachable, run.ExecutedNo)
		if len(transport.asked) != 0 || effort.Attempts != 0 || e.Refused == "" || e.By != run.Bridge || strings.Contains(string(front.Details(e)), "hush") {
			t.Errorf("%s: %+v after %d requests, details %s", edit, e, len(transport.asked), front.Details(e))
		}
	}
}

func TestSubmitBoundsAnswers(t *testing.T) {
	const limit = 1000
	padded := func(size int) string {
		frame := `{"status":"completed","output":""}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	for _, c := range []struct {
		name     string
		answer   http.HandlerFunc
		executed run.Executed // empty: it is accepted
	}{
		{"as large as may be", answers(200, padded(limit)), ""},
		{"larger", answers(200, padded(limit+1)), run.ExecutedMaybe},
		{"larger error", answers(404, padded(limit+1)), run.ExecutedNo},
		{"larger 503", answers(503, padded(limit+1)), run.ExecutedMaybe},
		{"endless", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, padded(limit)); err != nil {
					return
				}
			}
		}, run.ExecutedMaybe},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProvider(t)
			p.on("POST /run", c.answer)
			client := newClient(t, p.URL, newTransport(t))
			client.MaxResponseSize = limit
			r, e, effort := submit(t.Context(), client, skillAt(t, p.URL, consent))
			if c.executed == "" {
				if e != nil || r.State != run.Completed {
					t.Errorf("error %+v", e)
				}
				return
			}
			wantError(t, e, run.ProviderFault, c.executed)
			if effort.Attempts != 1 || e.HTTPStatus == 0 || !strings.Contains(e.Message, "1000 bytes") {
				t.Errorf("%+v after %d attempts", e, effort.Attempts)
			}
		})
	}
}

func TestSubmitCutsAGzipBomb(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p := newProvider(t)
	p.on("POST /run", answers(200, bomb.String(), "Content-Encoding", "gzip"))
	client := newClient(t, p.URL, newTransport(t))
	client.MaxResponseSize = 64 << 10
	s := skillAt(t, p.URL)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, e, _ := submit(t.Context(), client, s)
	runtime.ReadMemStats(&after)
	wantError(t, e, run.ProviderFault, run.ExecutedMaybe)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes were allocated for an answer of at most %d", used, client.MaxResponseSize)
	}
}

func TestSubmitFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		p, other := newProvider(t), newProvider(t)
		p.on("POST /run", answers(status, "", "Location", other.URL+"/run"))
		_, e, _ := submit(t.Context(), newClient(t, p.URL, newTransport(t)), skillAt(t, p.URL, consent))
		wantError(t, e, run.ProviderFault, run.ExecutedMaybe)
		if len(p.requests()) != 1 || len(other.requests()) != 0 || e.HTTPStatus != status {
			t.Errorf("%d: %d and %d requests, %+v", status, len(p.requests()), len(other.requests()), e)
		}
	}
}

func TestSubmitEndsWithItsContext(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	transport := new(http.Transport)
	p := newProvider(t)
	p.on("POST /run", hangs)
	c, s := newClient(t, p.URL, transport), skillAt(t, p.URL, consent)

	ctx, cancel := context.WithCancel(t.Context())
	p.on("POST /run", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hangs(w, r)
	})
	_, e, effort := submit(ctx, c, s)
	wantError(t, e, run.DeadlineExceeded, run.ExecutedMaybe)
	if effort.Attempts != 1 || !errors.Is(e, context.Canceled) {
		t.Errorf("%+v after %d attempts", e, effort.Attempts)
	}

	_, e, effort = submit(ctx, c, s) // which is over already
	wantError(t, e, run.DeadlineExceeded, run.ExecutedNo)
	if n := len(p.requests()); n != 1 {
		t.Errorf("%d requests after %d attempts", n, effort.Attempts)
	}

	ctx, cancel = context.WithCancel(t.Context())
	p.on("POST /run", func(w http.ResponseWriter, r *http.Request) { // half an answer
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the test sees whether it arrived
		cancel()
		hangs(w, r)
	})
	_, e, _ = submit(ctx, c, s)
	wantError(t, e, run.DeadlineExceeded, run.ExecutedMaybe)

	p.Close()
	transport.CloseIdleConnections()
	goleak.VerifyNone(t, ignore)
}

func TestSubmitWhileWaiting(t *testing.T) {
	t.Run("deadline before an answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			start := time.Now()
			_, e, _ := submit(ctx, newClient(t, acme, script(t, silent)), skillAt(t, acme, consent, `/endpoint/method="PUT"`))
			wantError(t, e, run.DeadlineExceeded, run.ExecutedMaybe)
			if time.Since(start) != 3*time.Second || retryOf(e) == nil || e.By != run.Bridge || e.HTTPStatus != 0 || e.ExecutionID != "" {
				t.Errorf("after %v: %+v", time.Since(start), e)
			}
		})
	})
	t.Run("cancelled between attempts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			transport := script(t, says(503, "", "Retry-After", "3600"))
			_, e, _ := submit(ctx, newClient(t, acme, transport), skillAt(t, acme, consent))
			if e == nil || time.Since(start) != time.Second || len(transport.asked) != 1 {
				t.Errorf("after %v and %d requests: %+v", time.Since(start), len(transport.asked), e)
			}
		})
	})
}

func TestSubmitObserved(t *testing.T) {
	client := newClient(t, acme, script(t, says(503, ""), says(202, `{"execution_id":"e1","status":"accepted","skill_id":"k-123/other"}`)))
	client.Credentials = &keyed{key: "k-123"}
	s := skillAt(t, acme, `/auth={"type":"api_key"}`, consent, `/endpoint/url="https://acme.example/run?token=hush"`)
	if _, e, _ := submit(t.Context(), client, s); e != nil {
		t.Fatal(e)
	}
	w := client.Observer.(*watcher)
	if len(w.exchanges) != 2 || w.exchanges[0].Status != 503 || w.exchanges[1].Status != 202 {
		t.Fatalf("exchanges %+v", w.exchanges)
	}
	for _, x := range w.exchanges {
		if x.Address() != "https://acme.example/run" || x.Method != http.MethodPost || x.Phase != run.PhaseInvoke || x.Source != "acme" || x.Err != nil {
			t.Errorf("%+v", x)
		}
	}
	if len(w.notices) != 1 || attribute(w.notices[0], "answered") != "[redacted]/other" {
		t.Errorf("notices %+v", w.notices)
	}
}

// Those who repeat an invocation do not come back together.
func TestRetriesChangeDelaysByChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		different := map[time.Duration]bool{}
		for range 20 {
			transport := script(t, then(says(429, ""), says(200, completes))...)
			if _, e, _ := submit(t.Context(), newClient(t, acme, transport), skillAt(t, acme, `/endpoint/retry={"max_attempts":2,"backoff_ms":1000}`)); e != nil {
				t.Fatal(e)
			}
			delay := delayBefore(transport, 1)
			if delay < 900*time.Millisecond || delay > 1100*time.Millisecond {
				t.Errorf("repeated after %v", delay)
			}
			different[delay] = true
		}
		if len(different) < 10 {
			t.Errorf("20 invocations were repeated after %d different delays", len(different))
		}
	})
}
