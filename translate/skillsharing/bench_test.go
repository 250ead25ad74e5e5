package skillsharing

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// The hops of an invocation are measured from inside, each by itself and without
// a network; what is left of the time of a whole call is net/http's.

// benchSizes are those of requests and answers, in bytes.
var benchSizes = []struct {
	name string
	size int
}{{"0.3KiB", 300}, {"4KiB", 4 << 10}, {"64KiB", 64 << 10}}

// benchObject is a JSON object of about size bytes with many small members.
func benchObject(size int) string {
	var b strings.Builder
	b.WriteString(`{"location":"Tokyo","units":"celsius"`)
	for i := 0; b.Len() < size-60; i++ {
		b.WriteString(`,"item_` + strconv.Itoa(i) + `":{"city":"Kyoto","days":[1,2,3],"exact":true}`)
	}
	return b.String() + "}"
}

// benchAnswer is the answer of a provider that completes at once, of about size bytes.
func benchAnswer(size int) []byte {
	const head = `{"execution_id":"exec-a1b2c3d4","status":"completed","skill_id":"acme/forecast",` +
		`"timestamps":{"created_at":"2026-01-02T03:04:05Z","completed_at":"2026-01-02T03:04:08Z"},"output":`
	return []byte(head + benchObject(size-len(head)) + "}")
}

// benchSkill is a skill at a provider's own host.
func benchSkill(b *testing.B, method string, auth document.AuthType) *discovery.Skill {
	b.Helper()
	source, err := url.Parse("https://skills.example.com/forecast.json")
	if err != nil {
		b.Fatal(err)
	}
	s, err := discovery.NewSkill([]byte(`{"protocol":{"version":"1.0.0"},"id":"acme/forecast","name":"Forecast","version":"1.0.0",
		"capability_type":"api","description":"Tells the weather.","provider":{"name":"Acme"},
		"endpoint":{"url":"https://skills.example.com/forecast","method":"`+method+`",
			"status_url":"https://skills.example.com/status/{execution_id}","result_url":"https://skills.example.com/result/{execution_id}"},
		"inputs":[{"name":"location","type":"string","description":"A city.","required":true}],
		"output":{"content_type":"application/json"},"auth":{"type":"`+string(auth)+`"},"access":"public"}`), source)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchClient(b *testing.B, s *discovery.Skill, transport http.RoundTripper) *Client {
	b.Helper()
	origin := &url.URL{Scheme: s.URL.Scheme, Host: s.URL.Host}
	audience, err := credential.NewAllowedHosts(origin, nil)
	if err != nil {
		b.Fatal(err)
	}
	return &Client{
		Reader: discovery.Reader{Sender: exchange.Sender{
			Source: "acme", Origin: origin, AllowedHosts: audience, Credentials: benchKey{}, Transport: transport,
			MaxResponseSize: 10 << 20, Observer: benchNobody{},
		}},
		Caller:  Caller{ID: "skill-bridge", Type: "service"},
		Polling: Polling{Plan: polling.Backoff{Initial: time.Second, Longest: time.Second}},
	}
}

// benchKey is an API key.
type benchKey struct{}

func (benchKey) Supports(*document.Auth) bool { return true }

func (benchKey) Authenticate(_ context.Context, a *credential.Authentication) error {
	a.Request.Header["X-Api-Key"] = []string{"secret"}
	return nil
}

func (benchKey) Secrets() []string { return []string{"secret"} }

// benchNobody observes nothing.
type benchNobody struct{}

func (benchNobody) Exchange(context.Context, *exchange.Exchange) {}
func (benchNobody) Notice(context.Context, *exchange.Notice)     {}

// benchTransport answers every request alike, after it has read it.
type benchTransport struct {
	header http.Header
	body   []byte
}

func (t *benchTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body) // can't fail: it is in memory
		_ = r.Body.Close()
	}
	return &http.Response{StatusCode: http.StatusOK, Header: t.header, ContentLength: int64(len(t.body)), Body: io.NopCloser(bytes.NewReader(t.body))}, nil
}

func BenchmarkInvocation(b *testing.B) {
	run := func(name, method, inputs string) {
		b.Run(name, func(b *testing.B) {
			s := benchSkill(b, method, document.AuthNone)
			c := benchClient(b, s, nil)
			inv := &Invocation{Inputs: jsontext.Value(inputs), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Timeout: 25 * time.Second}
			b.SetBytes(int64(len(inputs)))
			b.ReportAllocs()
			for b.Loop() {
				if u, _, _, err := c.invocation(s, inv); err != nil || u == nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, c := range benchSizes {
		run(c.name, http.MethodPost, benchObject(c.size))
	}
	run("query", http.MethodGet, `{"location":"Tokyo","days":5,"units":["c","mm"]}`)
}

func BenchmarkJudge(b *testing.B) {
	header := http.Header{"Content-Type": {"application/json"}}
	for _, c := range benchSizes {
		b.Run(c.name, func(b *testing.B) {
			a := &exchange.Answer{Status: http.StatusOK, Header: header, Body: benchAnswer(c.size)}
			client := &exchange.Sender{Credentials: benchKey{}, Limits: document.DefaultLimits()}
			b.SetBytes(int64(len(a.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if r, e := client.Judge(a, document.Asked{Phase: run.PhaseInvoke}); e != nil || r.State != run.Completed {
					b.Fatal(r, e)
				}
			}
		})
	}
	b.Run("error", func(b *testing.B) {
		a := &exchange.Answer{Status: http.StatusForbidden, Header: header, Body: []byte(`{"error":{"code":"PERMISSION_DENIED","message":"Insufficient permissions","details":{"required_scopes":["read:forecast"]}}}`)}
		b.SetBytes(int64(len(a.Body)))
		b.ReportAllocs()
		client := &exchange.Sender{Limits: document.DefaultLimits()}
		for b.Loop() {
			if _, e := client.Judge(a, document.Asked{Phase: run.PhaseInvoke}); e == nil || e.Kind != run.PermissionDenied {
				b.Fatal(e)
			}
		}
	})
}

// BenchmarkSubmitImmediate is the whole way from arguments to a judged answer,
// without a credential and with one, for which every URL of the skill is judged.
func BenchmarkSubmitImmediate(b *testing.B) {
	transport := &benchTransport{http.Header{"Content-Type": {"application/json"}}, benchAnswer(330)}
	for _, auth := range []document.AuthType{document.AuthNone, document.AuthAPIKey} {
		for _, size := range benchSizes {
			b.Run(string(auth)+"/"+size.name, func(b *testing.B) {
				s := benchSkill(b, http.MethodPost, auth)
				c := benchClient(b, s, transport)
				inv := &Invocation{Inputs: jsontext.Value(benchObject(size.size)), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Timeout: 25 * time.Second}
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				b.ReportAllocs()
				for b.Loop() {
					if r, e := c.Submit(ctx, s, inv, new(Stats)); e != nil || r.State != run.Completed {
						b.Fatal(r, e)
					}
				}
			})
		}
	}
}

// BenchmarkFollow asks once about a run that has ended, for its status or for its
// output, without a credential and with one.
func BenchmarkFollow(b *testing.B) {
	transport := &benchTransport{http.Header{"Content-Type": {"application/json"}}, benchAnswer(330)}
	for _, auth := range []document.AuthType{document.AuthNone, document.AuthAPIKey} {
		s := benchSkill(b, http.MethodPost, auth)
		c := benchClient(b, s, transport)
		ended := &document.Response{ExecutionID: "exec-a1b2c3d4", State: run.Completed}
		awaited := &FollowOptions{ExecutionID: ended.ExecutionID, Resumed: true}
		for name, ask := range map[string]func(context.Context) (*document.Response, *run.Failure){
			"status": func(ctx context.Context) (*document.Response, *run.Failure) {
				return c.Follow(ctx, s, awaited, new(Stats))
			},
			"result": func(ctx context.Context) (*document.Response, *run.Failure) {
				return c.Result(ctx, s, ended, awaited, new(Stats))
			},
		} {
			b.Run(string(auth)+"/"+name, func(b *testing.B) {
				ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
				defer cancel()
				b.ReportAllocs()
				for b.Loop() {
					if r, e := ask(ctx); e != nil || r.State != run.Completed {
						b.Fatal(r, e)
					}
				}
			})
		}
	}
}
