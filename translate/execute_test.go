package translate_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

const skillName = "acme.weather"

// weather is a provider of one skill, with changes to its descriptor.
func weather(t *testing.T, changes func(p *providertest.Provider) object) (*providertest.Provider, catalog.Source) {
	t.Helper()
	p := providertest.Start(t)
	var c object
	if changes != nil {
		c = changes(p)
	}
	p.Publish(descriptor("acme/weather", c))
	return p, p.Source(t, "acme")
}

func call(args string) translate.Call {
	return translate.Call{Name: skillName, Inputs: jsonrpc.Object{Text: jsontext.Value(args)}}
}

func TestExecute(t *testing.T) {
	accepted := providertest.Answer(202, providertest.Response("e1", "accepted", nil))
	running := providertest.Answer(200, providertest.Response("e1", "running", nil))
	completed := providertest.Answer(200, providertest.Response("e1", "completed", object{
		"output":     object{"ok": true},
		"timestamps": object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:08Z", "completed_at": "2026-01-02T03:04:08Z"},
	}))
	bare := providertest.Answer(200, providertest.Response("e1", "completed", nil))
	noURLs := object{"status_url": nil, "result_url": nil}

	tests := []struct {
		about    string
		endpoint object
		submit   []http.HandlerFunc
		status   []http.HandlerFunc
		result   []http.HandlerFunc

		run    run.State // 0: none
		output string
		kind   run.Kind // 0: no failure
		next   run.Next
		code   document.ErrorCode
	}{
		{about: "accepted, running, completed", submit: list(accepted), status: list(running, running, completed), run: run.Completed, output: `{"ok":true}`},
		{about: "completed at once", submit: list(completed), run: run.Completed, output: `{"ok":true}`},
		{about: "completed at once, without an id", submit: list(providertest.Answer(200, `{"status":"completed","output":[1]}`)), run: run.Completed, output: `[1]`},
		{about: "output from the result URL", submit: list(accepted), status: list(bare), result: list(completed), run: run.Completed, output: `{"ok":true}`},
		{about: "completed at once, output from the result URL", submit: list(bare), result: list(completed), run: run.Completed, output: `{"ok":true}`},
		{about: "bare output", submit: list(accepted), status: list(bare), result: list(providertest.Answer(200, `{"output":7}`)), run: run.Completed, output: `7`},
		{about: "no output anywhere", endpoint: object{"result_url": nil}, submit: list(accepted), status: list(bare), run: run.Completed, output: `null`},
		{about: "output null", submit: list(accepted), status: list(providertest.Answer(200, providertest.Response("e1", "completed", object{"output": jsontext.Value("null")}))), run: run.Completed, output: `null`},
		{about: "no status URL", endpoint: object{"status_url": nil}, submit: list(accepted), result: list(running, providertest.Answer(200, `{"output":7}`)), run: run.Completed, output: `7`},
		{about: "no URL to follow", endpoint: noURLs, submit: list(accepted), run: run.Accepted, kind: run.ProviderFault, next: run.NextNone, code: "INVALID_PROVIDER_RESPONSE"},
		{
			about: "failed", submit: list(accepted), status: list(providertest.Answer(200, providertest.Response("e1", "failed", object{"error": object{"code": "NO_TABLES", "message": "m"}}))),
			run: run.Failed, kind: run.RunFailed, next: run.NextNone, code: "NO_TABLES",
		},
		{
			about: "failed at once, without an id", submit: list(providertest.Answer(500, `{"status":"failed"}`)),
			run: run.Failed, kind: run.RunFailed, next: run.NextNone, code: "EXECUTION_FAILED",
		},
		{
			about: "timed out at the provider", submit: list(accepted), status: list(providertest.Answer(504, providertest.Response("e1", "timeout", object{"error": object{"code": "EXECUTION_TIMEOUT"}}))),
			run: run.TimedOut, kind: run.RunFailed, next: run.NextNone, code: "INVOCATION_TIMEOUT",
		},
		{about: "lost", submit: list(accepted), status: list(running, providertest.Answer(404, "")), run: run.Accepted, kind: run.ProviderFault, next: run.NextNone, code: "INVALID_PROVIDER_RESPONSE"},
		{about: "status forbidden", submit: list(accepted), status: list(providertest.Answer(403, "")), run: run.Accepted, kind: run.PermissionDenied, next: run.NextFollowRun, code: "PERMISSION_DENIED"},
		{about: "result broken", submit: list(accepted), status: list(bare), result: list(providertest.Answer(409, "")), run: run.Accepted, kind: run.ProviderFault, next: run.NextFollowRun, code: "INVALID_PROVIDER_RESPONSE"},
		{about: "another run", submit: list(accepted), status: list(providertest.Answer(200, providertest.Response("e2", "completed", nil))), run: run.Accepted, kind: run.ProviderFault, next: run.NextFollowRun, code: "INVALID_PROVIDER_RESPONSE"},

		{about: "401", submit: list(providertest.Answer(401, "")), kind: run.AuthRequired, next: run.NextAskOperator, code: "AUTH_REQUIRED"},
		{about: "403", submit: list(providertest.Answer(403, "")), kind: run.PermissionDenied, next: run.NextAskOperator, code: "PERMISSION_DENIED"},
		{about: "404", submit: list(providertest.Answer(404, "")), kind: run.SkillNotFound, next: run.NextOtherSkill, code: "SKILL_NOT_FOUND"},
		{about: "410", submit: list(providertest.Answer(410, "")), kind: run.SkillNotFound, next: run.NextOtherSkill, code: "SKILL_NOT_FOUND"},
		{about: "408", submit: list(providertest.Answer(408, "")), kind: run.DeadlineExceeded, next: run.NextNone, code: "INVOCATION_TIMEOUT"},
		{about: "504", submit: list(providertest.Answer(504, "")), kind: run.DeadlineExceeded, next: run.NextNone, code: "INVOCATION_TIMEOUT"},
		{about: "503", submit: list(providertest.Answer(503, "")), kind: run.Unreachable, next: run.NextNone, code: "ENDPOINT_UNREACHABLE"},
		{about: "429", submit: list(providertest.Answer(429, "")), kind: run.RateLimited, next: run.NextRetry, code: "RATE_LIMITED"},
		{about: "422", submit: list(providertest.Answer(422, "")), kind: run.VersionIncompatible, next: run.NextOtherSkill, code: "VERSION_INCOMPATIBLE"},
		{about: "422 with JSON", submit: list(providertest.Answer(422, `{"city":"unknown"}`)), kind: run.InvalidArguments, next: run.NextFixParams, code: "VALIDATION_ERROR"},
		{about: "VALIDATION_ERROR", submit: list(providertest.Answer(400, `{"error":{"code":"VALIDATION_ERROR","message":"m"}}`)), kind: run.InvalidArguments, next: run.NextFixParams, code: "VALIDATION_ERROR"},
		{about: "500", submit: list(providertest.Answer(500, "")), kind: run.ProviderFault, next: run.NextNone, code: "INVALID_PROVIDER_RESPONSE"},
		{about: "405", submit: list(providertest.Answer(405, "")), kind: run.ProviderFault, next: run.NextOtherSkill, code: "INVALID_PROVIDER_RESPONSE"},
		{about: "nonsense", submit: list(providertest.Answer(200, "{}")), kind: run.ProviderFault, next: run.NextNone, code: "INVALID_PROVIDER_RESPONSE"},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			p, s := weather(t, func(*providertest.Provider) object { return object{"endpoint": test.endpoint} })
			p.On("POST /run/weather", test.submit...)
			p.On("GET /status/e1", test.status...)
			p.On("GET /result/e1", test.result...)
			o := newBridge(t, s).Start(t.Context(), call(`{"city":"Tokyo"}`)).Wait()
			if o.SkillID != "acme/weather" {
				t.Errorf("skill id %q", o.SkillID)
			}
			switch {
			case test.run == 0 && o.State != 0:
				t.Errorf("got run %+v, want none", o)
			case test.run != 0 && (o.State == 0 || o.State != test.run || string(o.Output) != test.output || o.ExecutionID == ""):
				t.Errorf("got run %+v, failure %v; want %s with output %s", o, o.Failure, test.run, test.output)
			}
			switch {
			case test.code == "" && o.Failure != nil:
				t.Errorf("got failure %+v: %v", o.Failure, o.Failure)
			case test.code != "" && o.Failure == nil:
				t.Errorf("got no failure, want %s", test.code)
			case test.code != "" && (o.Failure.Kind != test.kind || o.Failure.Next() != test.next || document.CodeOf(o.Failure) != test.code || o.Failure.Message == ""):
				t.Errorf("got failure %+v: %v; want kind %d, next %s, code %s", o.Failure, o.Failure, test.kind, test.next, test.code)
			}
			if o.Failure != nil && o.State != 0 && (o.Failure.Executed != run.ExecutedYes || o.Failure.ExecutionID != o.ExecutionID) {
				t.Errorf("the failure of run %s says executed %q, execution id %q", o.ExecutionID, o.Failure.Executed, o.Failure.ExecutionID)
			}
			p.Received(t, "POST /run/weather", 1)
		})
	}
}

func list(handlers ...http.HandlerFunc) []http.HandlerFunc { return handlers }

func TestElapsedComesFromTheProvider(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(200, providertest.Response("e", "completed", object{
		"output": 1, "timestamps": object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:08Z", "completed_at": "2026-01-02T03:04:08.5Z"},
	})))
	if o := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Wait(); o.State == 0 || o.Elapsed != 3500*time.Millisecond {
		t.Errorf("got %+v", o)
	}
}

func TestNothingIsSentFor(t *testing.T) {
	tests := []struct {
		about   string
		changes object
		call    translate.Call
		kind    run.Kind
		next    run.Next
		param   string
	}{
		{"a missing argument", nil, call(`{}`), run.InvalidArguments, run.NextFixParams, "city"},
		{"no arguments at all", nil, call(``), run.InvalidArguments, run.NextFixParams, "city"},
		{"a wrong type", nil, call(`{"city":7}`), run.InvalidArguments, run.NextFixParams, "city"},
		{"another version", nil, translate.Call{Name: skillName, Inputs: jsonrpc.Object{Text: jsontext.Value(`{"city":"x"}`)}, Version: "9.9.9"}, run.SkillNotFound, run.NextFixParams, "version"},
		{"a newer protocol", object{"protocol": object{"version": "2.0.0"}}, call(`{"city":"x"}`), run.VersionIncompatible, run.NextOtherSkill, ""},
		{"an invalid descriptor", object{"capability_type": "x"}, call(`{"city":"x"}`), run.InvalidDocument, run.NextOtherSkill, ""},
		{"a missing credential", object{"auth": object{"type": "api_key"}}, call(`{"city":"x"}`), run.AuthRequired, run.NextAskOperator, ""},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			p, s := weather(t, nil)
			p.On("GET /skills/0.json", p.Descriptor(descriptor("acme/weather", test.changes)))
			o := newBridge(t, s).Start(t.Context(), test.call).Wait()
			if o.State != 0 || o.Failure == nil || o.Failure.Kind != test.kind || o.Failure.Next() != test.next || o.Failure.Executed != run.ExecutedNo {
				t.Fatalf("got %+v, %+v", o, o.Failure)
			}
			if a := o.Failure.Argument; test.param != "" && (a == nil || skillsprotocol.Param(a) != test.param) {
				t.Errorf("arguments: %+v", a)
			}
			p.Received(t, "POST /run/weather", 0)
		})
	}
}

func TestDescriptorOfAnotherSkill(t *testing.T) {
	p, s := weather(t, nil)
	p.On("GET /skills/0.json", p.Descriptor(descriptor("acme/other", nil)))
	o := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Wait()
	if o.Failure == nil || o.Failure.Kind != run.InvalidDocument || !strings.Contains(string(front.Details(o.Failure)), `"path":"/id"`) {
		t.Errorf("got %+v", o.Failure)
	}
}

func TestTheEffectiveTimeoutIsSent(t *testing.T) {
	tests := []struct {
		client     time.Duration
		descriptor any
		want       int
	}{
		{0, nil, 20_000},
		{0, 4000, 4000},
		{7 * time.Second, 4000, 7000},
		{time.Hour, 4000, 40_000},
		{0, 1e12, 40_000},
		{1500 * time.Microsecond, nil, 1},
	}
	for _, test := range tests {
		p, s := weather(t, func(*providertest.Provider) object { return object{"endpoint": object{"timeout_ms": test.descriptor}} })
		p.On("POST /run/weather", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
		c := call(`{"city":"x"}`)
		c.Timeout = test.client
		newBridge(t, s).Start(t.Context(), c).Wait()
		requests := p.Requests("POST /run/weather")
		if test.client == 1500*time.Microsecond && len(requests) == 0 {
			continue // so short that it may pass before anything is sent
		}
		if len(requests) != 1 || !strings.Contains(requests[0].Body, `"timeout_ms":`+strconv.Itoa(test.want)+"}") {
			t.Errorf("client %s, descriptor %v: want %d in %+v", test.client, test.descriptor, test.want, requests)
		}
	}
}

// The provider of a run that nobody waits for is told the timeout of the agent or of the descriptor, whatever the bridge's maximum, or none; unless its
// answer to the submission is all that the bridge can learn.
func TestTimeoutOfAnUnattendedCall(t *testing.T) {
	for _, c := range []struct {
		client     time.Duration
		descriptor any
		blind      bool // the descriptor has no URL for asking
		want       string
	}{
		{0, nil, false, ""},
		{0, 4000, false, `"timeout_ms":4000}`},
		{0, 86_400_000, false, `"timeout_ms":86400000}`},
		{7 * time.Second, 4000, false, `"timeout_ms":7000}`},
		{3 * time.Hour, nil, false, `"timeout_ms":10800000}`},
		{0, nil, true, `"timeout_ms":20000}`},
		{3 * time.Hour, nil, true, `"timeout_ms":40000}`},
	} {
		endpoint := object{"timeout_ms": c.descriptor}
		if c.blind {
			endpoint["status_url"], endpoint["result_url"] = nil, nil
		}
		p, s := weather(t, func(*providertest.Provider) object { return object{"endpoint": endpoint} })
		p.On("POST /run/weather", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
		q := call(`{"city":"x"}`)
		q.Timeout, q.Unattended = c.client, true
		if o := newBridge(t, s).Start(t.Context(), q).Wait(); o.Failure != nil {
			t.Errorf("%+v: %+v", c, o.Failure)
		}
		if r := p.Requests("POST /run/weather"); len(r) != 1 || !strings.Contains(r[0].Body, c.want) || strings.Contains(r[0].Body, "timeout_ms") != (c.want != "") {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// hang answers nothing until the client is gone. (The provider has read the body,
// without which the server would not notice.)
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestDeadline(t *testing.T) {
	t.Parallel()
	tests := []struct {
		about            string
		submit, status   http.HandlerFunc
		index            http.HandlerFunc
		run              bool
		executed         run.Executed
		next             run.Next
		phase            run.Phase
		detailsExecution bool
	}{
		{about: "index", index: hang, executed: "no", next: run.NextRetry, phase: "discovery"},
		{about: "invocation", submit: hang, executed: "maybe", next: run.NextNone, phase: "invoke"},
		{about: "poll", submit: providertest.Answer(202, providertest.Response("e1", "accepted", nil)), status: hang, run: true, executed: "yes", next: run.NextFollowRun, phase: "poll"},
		{
			about: "running for ever", submit: providertest.Answer(202, providertest.Response("e1", "accepted", nil)), status: providertest.Answer(200, providertest.Response("e1", "running", nil)),
			run: true, executed: "yes", next: run.NextFollowRun, phase: "poll",
		},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			t.Parallel()
			p, s := weather(t, nil)
			if test.index != nil {
				p.On("GET /.well-known/skill-sharing", test.index)
			}
			p.On("POST /run/weather", test.submit)
			p.On("GET /status/e1", test.status)
			c := call(`{"city":"x"}`)
			c.Timeout = time.Second // enough to get there, on any machine
			o := newBridge(t, s).Start(t.Context(), c).Wait()
			f := o.Failure
			if f == nil || f.Kind != run.DeadlineExceeded || f.Next() != test.next || f.Executed != test.executed || f.Phase != test.phase {
				t.Fatalf("got %+v: %+v", f, f)
			}
			want := `{"timeout_ms":1000}`
			if test.run {
				want = `{"timeout_ms":1000,"execution_id":"e1"}`
			}
			if string(front.Details(f)) != want || test.run != (o.State != 0) || front.Retry(f) == nil {
				t.Errorf("details %s, retry %s, run %+v; want details %s", front.Details(f), front.Retry(f), o, want)
			}
		})
	}
}

func TestInvocationAnswered404ForgetsTheDescriptor(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(404, ""), providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
	bridge := newBridge(t, s)
	bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait()
	p.Received(t, "GET /skills/0.json", 1)
	if o := bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait(); o.Failure != nil {
		t.Errorf("second call: %v", o.Failure)
	}
	p.Received(t, "GET /skills/0.json", 2)
	p.Received(t, "GET /.well-known/skill-sharing", 1)
}

func TestStartThenResume(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)), providertest.Answer(200, providertest.Response("e1", "completed", object{"output": "done"})))
	o := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Leave()
	ref := o.Ref
	if want := (run.Ref{Source: "acme", SkillID: "acme/weather", Version: ref.Version, ExecutionID: "e1", Accepted: ref.Accepted}); ref != want || ref.Version == "" || ref.Accepted.IsZero() || o.Failure != nil || o.State != run.Accepted {
		t.Fatalf("got %+v, %+v", ref, o)
	}
	p.Received(t, "GET /status/e1", 0)
	// Another bridge, as on another node, knows nothing but the reference.
	if o := newBridge(t, s).Resume(t.Context(), o.Ref, translate.Call{}).Wait(); o.Failure != nil || string(o.Output) != `"done"` {
		t.Errorf("followed: %+v, %+v", o, o.Failure)
	}
	p.Received(t, "POST /run/weather", 1)
}

func TestCallerGone(t *testing.T) {
	p, s := weather(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", func(w http.ResponseWriter, r *http.Request) {
		providertest.Answer(200, providertest.Response("e1", "running", nil))(w, r)
		cancel()
	})
	o := newBridge(t, s).Start(ctx, call(`{"city":"x"}`)).Wait()
	if o.Failure == nil || o.Failure.Kind != run.CallerGone || o.Failure.ExecutionID != "e1" || !strings.Contains(o.Failure.Message, "went away") {
		t.Errorf("got %+v", o.Failure)
	}
	if n := len(p.Requests("GET /status/e1")); n > 2 {
		t.Errorf("%d polls after the caller had gone", n)
	}
}

// recorder counts what an observer is told.
type recorder struct {
	mu        sync.Mutex
	exchanges []exchange.Exchange
	traces    map[string]bool // of the calls that exchanges belong to
	notices   []exchange.Notice
	calls     []translate.Statistics
}

func (*recorder) Begin(ctx context.Context, _ *translate.Call) context.Context { return ctx }

func (r *recorder) Exchange(ctx context.Context, e *exchange.Exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exchanges = append(r.exchanges, *e)
	if r.traces == nil {
		r.traces = map[string]bool{}
	}
	trace := "none"
	if c := translate.CallOf(ctx); c != nil {
		trace = c.TraceID
	}
	r.traces[trace] = true
}

func (r *recorder) Notice(_ context.Context, n *exchange.Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices = append(r.notices, *n)
}

func (r *recorder) Called(_ context.Context, _ *translate.Call, _ *run.Run, s *translate.Statistics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, *s)
}

func TestObserver(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", providertest.Answer(200, providertest.Response("e1", "running", nil)), providertest.Answer(200, providertest.Response("e1", "completed", object{"output": 1})))
	r := new(recorder)
	c := call(`{"city":"x"}`)
	c.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	newBridgeWith(t, r, s).Start(t.Context(), c).Wait()
	var phases []string
	for _, e := range r.exchanges {
		phases = append(phases, fmt.Sprint(e.Phase, " ", e.Status))
	}
	if got, want := strings.Join(phases, ", "), "discovery 200, descriptor 200, invoke 202, poll 200, poll 200"; got != want {
		t.Errorf("exchanges: %s, want %s", got, want)
	}
	if len(r.traces) != 1 || !r.traces["4bf92f3577b34da6a3ce929d0e0e4736"] {
		t.Errorf("traces: %v", r.traces)
	}
	if len(r.calls) != 1 || r.calls[0].Operation != translate.OperationExecute || r.calls[0].Source != "acme" || r.calls[0].Stats.Attempts != 1 || r.calls[0].Stats.Polls != 2 {
		t.Errorf("calls: %+v", r.calls)
	}
}

// A thousand concurrent calls of one skill are all answered with their own
// output, and every document is fetched once.
func TestThousandConcurrentCalls(t *testing.T) {
	p, s := weather(t, nil)
	var runs atomic.Int64
	p.On("POST /run/weather", func(w http.ResponseWriter, _ *http.Request) {
		providertest.Answer(202, providertest.Response(fmt.Sprintf("e%d", runs.Add(1)), "accepted", nil))(w, nil)
	})
	bridge := newBridge(t, s)
	statuses := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		providertest.Answer(200, providertest.Response(id, "completed", object{"output": id}))(w, r)
	})
	for i := range 1000 {
		p.On(fmt.Sprintf("GET /status/e%d", i+1), statuses)
	}
	var wg sync.WaitGroup
	seen := make([]string, 1000)
	for i := range seen {
		wg.Go(func() {
			o := bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait()
			if o.Failure != nil {
				t.Errorf("call %d: %v", i, o.Failure)
				return
			}
			if want := strconv.Quote(o.ExecutionID); string(o.Output) != want {
				t.Errorf("call %d: run %s has output %s", i, want, o.Output)
			}
			seen[i] = o.ExecutionID
		})
	}
	wg.Wait()
	unique := map[string]bool{}
	for _, id := range seen {
		unique[id] = true
	}
	if len(unique) != 1000 {
		t.Errorf("%d different runs, want 1000", len(unique))
	}
	p.Received(t, "GET /.well-known/skill-sharing", 1)
	p.Received(t, "GET /skills/0.json", 1)
	p.Received(t, "POST /run/weather", 1000)
}

// A provider that answers with the bridge's own key as the execution id gets it
// neither into the answer nor, with that, into a log.
func TestExecutionIDWithASecret(t *testing.T) {
	for _, status := range []string{"accepted", "completed", "failed"} {
		p, s := weather(t, func(*providertest.Provider) object { return object{"auth": object{"type": "api_key"}} })
		s.Credentials = key("k-12345")
		p.On("POST /run/weather", providertest.Answer(200, providertest.Response("run-k-12345", status, object{"output": 1})))
		o := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Wait()
		if o.Failure == nil || o.Failure.Kind != run.ProviderFault || strings.Contains(fmt.Sprintf("%+v %+v", o, o.Failure), "k-12345") {
			t.Errorf("%s: %+v, %+v", status, o, o.Failure)
		}
	}
}

func TestShortTimeoutsAreOneMillisecond(t *testing.T) {
	p, s := weather(t, func(*providertest.Provider) object { return object{"endpoint": object{"timeout_ms": 0.0001}} })
	p.On("POST /run/weather", hang)
	o := newBridge(t, s).Start(t.Context(), call(`{"city":"x"}`)).Wait()
	if o.Failure == nil || string(front.Details(o.Failure)) != `{"timeout_ms":1}` {
		t.Errorf("got %+v: %s", o.Failure, front.Details(o.Failure))
	}
}
