package observe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// What no span may have.
const (
	inputCanary  = "canary-of-an-input"
	outputCanary = "canary-of-an-output"
	keyCanary    = "canary-of-a-key"
	secretCanary = "canary-of-a-client-secret"
	tokenCanary  = "canary-of-a-token"
	queryCanary  = "canary-of-a-query"
	errorCanary  = "canary-of-an-error"
)

// collector receives spans as the OpenTelemetry protocol says, over HTTP.
type collector struct {
	t     *testing.T
	mu    sync.Mutex
	bytes []byte
	spans []*collected
}

// collected is a span, and who made it.
type collected struct {
	*tracepb.Span
	scope string
}

// collect starts a collector, and has Caddy send to it.
func collect(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("receiving spans: %v", err)
	}
	var request collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		c.t.Errorf("%s is sent what are no spans: %v", r.URL, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = append(c.bytes, body...)
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, &collected{s, scope.Scope.Name})
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty message
}

// of returns the spans of a trace. Caddy has sent them all when it has stopped.
func (c *collector) of(traceID string) []*collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.spans), func(s *collected) bool { return hex.EncodeToString(s.TraceId) != traceID })
}

// volatile is what differs each time.
var volatile = regexp.MustCompile(`(https?://)127\.0\.0\.1:\d+|((?:server\.port|credentials\.duration|execution_id)=)[\w.-]+`)

// tree shows spans by their parents, in the order of their beginnings.
func tree(t *testing.T, spans []*collected) string {
	t.Helper()
	byParent := map[string][]*collected{}
	known := map[string]*collected{}
	for _, s := range spans {
		known[string(s.SpanId)] = s
	}
	for _, s := range spans {
		parent := string(s.ParentSpanId)
		if known[parent] == nil {
			parent = ""
		}
		byParent[parent] = append(byParent[parent], s)
	}
	var b strings.Builder
	var show func(parent, indent string)
	show = func(parent, indent string) {
		slices.SortStableFunc(byParent[parent], func(a, b *collected) int {
			return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), strings.Compare(describeSpan(a), describeSpan(b)))
		})
		end := uint64(0)
		for _, s := range byParent[parent] {
			if of := known[parent]; of != nil && of.scope == tracerName && s.StartTimeUnixNano < end {
				t.Errorf("%s begins before what comes before it ends", s.Name)
			}
			end = s.EndTimeUnixNano
			b.WriteString(indent + describeSpan(s) + "\n")
			if s.StartTimeUnixNano > s.EndTimeUnixNano {
				t.Errorf("%s ends before it begins", s.Name)
			}
			for _, e := range s.Events {
				b.WriteString(indent + "\t* " + e.Name + " " + strings.Join(describeAttributes(e.Attributes), " ") + "\n")
				if e.TimeUnixNano < s.StartTimeUnixNano || e.TimeUnixNano > s.EndTimeUnixNano {
					t.Errorf("an event of %s is not within it", s.Name)
				}
			}
			show(string(s.SpanId), indent+"\t")
		}
	}
	show("", "")
	return b.String()
}

// describeSpan shows what may be wrong with a span. What all of a kind have is
// shown only if it is missing.
func describeSpan(s *collected) string {
	kind := strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_"))
	if s.scope != tracerName {
		return s.Name + " of Caddy"
	}
	var all []string
	switch s.Kind {
	case tracepb.Span_SPAN_KIND_SERVER:
		all = []string{"front=skills_protocol", "jsonrpc.protocol.version=2.0", "rpc.method=" + s.Name, "rpc.system.name=jsonrpc"}
	case tracepb.Span_SPAN_KIND_CLIENT:
		method, _, _ := strings.Cut(s.Name, " ")
		all = []string{"http.request.method=" + method, "server.address=127.0.0.1", "server.port=…"}
	}
	attributes := describeAttributes(s.Attributes)
	text := s.Name + " (" + kind + ")"
	for _, a := range all {
		at := slices.Index(attributes, a)
		if at < 0 {
			text += " WITHOUT " + a
			continue
		}
		attributes = slices.Delete(attributes, at, at+1)
	}
	for _, a := range attributes {
		text += " " + a
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		text += fmt.Sprintf(" ERROR %q", s.Status.GetMessage())
	}
	return text
}

func describeAttributes(attributes []*commonpb.KeyValue) []string {
	var list []string
	for _, a := range attributes {
		value := a.Value.GetStringValue()
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_IntValue:
			value = strconv.FormatInt(v.IntValue, 10)
		case *commonpb.AnyValue_DoubleValue:
			value = strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
		}
		list = append(list, volatile.ReplaceAllString(strings.TrimPrefix(a.Key, "skill_bridge.")+"="+value, "$1$2…"))
	}
	slices.Sort(list)
	return list
}

// traceSkills are those of the tests' provider, by what happens to them.
func traceSkills(t *testing.T) *hostile.Provider {
	t.Helper()
	consent := func(d hostile.Object) {
		d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 1}
	}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/resumed"},
		hostile.Skill{ID: "acme/gone"}, hostile.Skill{ID: "acme/failing"}, hostile.Skill{ID: "acme/broken"}, hostile.Skill{ID: "acme/down"},
		hostile.Skill{ID: "acme/busy", Edit: consent}, hostile.Skill{ID: "acme/custom", Auth: hostile.Object{
			"type": "custom", "custom": hostile.Object{"instructions": "Ask us.", "parameters": []hostile.Object{}},
		}}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")})
	p.On("acme/now", hostile.Invoke, hostile.Complete(outputCanary))
	p.On("acme/later", hostile.Invoke, hostile.AcceptForResult(2))
	p.On("acme/later", hostile.Status, hostile.Usual(), hostile.Problem(http.StatusServiceUnavailable, "BUSY", errorCanary), hostile.Usual())
	p.On("acme/later", hostile.Result, hostile.Problem(http.StatusServiceUnavailable, "BUSY", errorCanary), hostile.Usual())
	p.On("acme/resumed", hostile.Invoke, hostile.Accept(0))
	p.On("acme/gone", hostile.Descriptor, hostile.Respond(http.StatusInternalServerError, errorCanary))
	p.On("acme/failing", hostile.Invoke, hostile.Fail("MADE_UP", errorCanary+inputCanary))
	p.On("acme/broken", hostile.Invoke, hostile.AcceptFailing(0))
	p.On("acme/down", hostile.Invoke, hostile.Close())
	p.On("acme/busy", hostile.Invoke, hostile.Problem(http.StatusTooManyRequests, "RATE_LIMITED", errorCanary), hostile.Usual())
	return p
}

// traced is a call, what comes of it and the spans that it makes.
type traced struct {
	skill   string // to execute
	options []testbed.Option
	outcome string
	body    string // of the request, if no skill is to be executed; RUN_TOKEN is that of the newest run
	want    string
}

// traceCases are made one after the other: documents are read once.
var traceCases = []traced{
	{body: `{"jsonrpc":"2.0","id":1,"method":"list_skills","params":{"namespace":"acme"}}`, want: `
rpc of Caddy
	list_skills (server) provider=acme
		discovery (internal)
			GET index (client) http.response.status_code=200 url.full=http://…/.well-known/skill-sharing
`},
	{skill: "acme.now", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched execution_id=… name=acme.now provider=acme skill=acme/now status=completed
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fnow
		POST submit (client) http.response.status_code=200 url.full=http://…/run/acme%2Fnow
`},
	{skill: "acme.now", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) descriptor=hit execution_id=… name=acme.now provider=acme skill=acme/now status=completed
		POST submit (client) http.response.status_code=200 url.full=http://…/run/acme%2Fnow
`},
	{skill: "acme.later", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched execution_id=… name=acme.later provider=acme skill=acme/later status=completed
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Flater
		POST submit (client) http.response.status_code=202 url.full=http://…/run/acme%2Flater
		run (internal)
			* poll http.response.status_code=200 poll=1
			* poll error.type=503 http.response.status_code=503 poll=2
			* poll http.response.status_code=200 poll=3
			* poll http.response.status_code=200 poll=4
		GET result (client) error.type=503 http.response.status_code=503 url.full=http://…/result/acme%2Flater/run-1 ERROR ""
		GET result (client) http.response.status_code=200 url.full=http://…/result/acme%2Flater/run-1
`},
	{skill: "acme.gone", outcome: "ENDPOINT_UNREACHABLE", want: `
rpc of Caddy
	execute_skill (server) error.type=ENDPOINT_UNREACHABLE name=acme.gone provider=acme rpc.response.status_code=-32053 skill=acme/gone ERROR ""
		discovery (internal) error.type=ENDPOINT_UNREACHABLE ERROR ""
			GET descriptor (client) error.type=500 http.response.status_code=500 url.full=http://…/descriptors/acme%2Fgone ERROR ""
`},
	{skill: "acme.none", outcome: "SKILL_NOT_FOUND", want: `
rpc of Caddy
	execute_skill (server) error.type=SKILL_NOT_FOUND name=acme.none provider=acme rpc.response.status_code=-32602 ERROR "skill 'acme.none' not found. Did you mean 'acme.gone'?"
		discovery (internal) error.type=SKILL_NOT_FOUND ERROR "skill 'acme.none' not found. Did you mean 'acme.gone'?"
`},
	{skill: "acme.custom", outcome: "AUTH_REQUIRED", want: `
rpc of Caddy
	execute_skill (server) credentials.duration=… descriptor=fetched error.type=AUTH_REQUIRED name=acme.custom provider=acme rpc.response.status_code=-32050 skill=acme/custom ERROR "Skill acme/custom needs authentication (custom), and the configured credentials are of another type. Configure credentials for it."
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fcustom
`},
	{skill: "acme.key", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) credentials.duration=… descriptor=fetched execution_id=… name=acme.key provider=acme skill=acme/key status=completed
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fkey
		POST submit (client) http.response.status_code=200 url.full=http://…/run/acme%2Fkey
`},
	{skill: "beta.token", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) credentials.duration=… descriptor=fetched execution_id=… name=beta.token provider=beta skill=beta/token status=completed
		discovery (internal)
			GET index (client) http.response.status_code=200 url.full=http://…/.well-known/skill-sharing
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/beta%2Ftoken
		POST credentials (client) http.response.status_code=200 url.full=http://…/token
		POST submit (client) http.response.status_code=200 url.full=http://…/run/beta%2Ftoken
`},
	{skill: "acme.failing", outcome: "failed MADE_UP", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched error.type=EXECUTION_FAILED execution_id=… name=acme.failing provider=acme skill=acme/failing status=failed ERROR ""
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Ffailing
		POST submit (client) http.response.status_code=200 url.full=http://…/run/acme%2Ffailing
`},
	{skill: "acme.broken", outcome: "failed EXECUTION_FAILED", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched error.type=EXECUTION_FAILED execution_id=… name=acme.broken provider=acme skill=acme/broken status=failed ERROR ""
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fbroken
		POST submit (client) http.response.status_code=202 url.full=http://…/run/acme%2Fbroken
		run (internal) error.type=EXECUTION_FAILED ERROR ""
			* poll http.response.status_code=200 poll=1
`},
	{skill: "acme.down", outcome: "ENDPOINT_UNREACHABLE", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched error.type=ENDPOINT_UNREACHABLE name=acme.down provider=acme rpc.response.status_code=-32053 skill=acme/down ERROR "The provider can't be reached: the connection was dropped."
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fdown
		POST submit (client) error.type=_OTHER url.full=http://…/run/acme%2Fdown ERROR "EOF"
`},
	{skill: "acme.busy", outcome: "completed", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched execution_id=… name=acme.busy provider=acme skill=acme/busy status=completed
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fbusy
		POST submit (client) error.type=429 http.response.status_code=429 url.full=http://…/run/acme%2Fbusy ERROR ""
		POST submit (client) http.request.resend_count=1 http.response.status_code=200 url.full=http://…/run/acme%2Fbusy
`},
	{skill: "acme.resumed", options: []testbed.Option{testbed.Param("wait_ms", 0)}, outcome: "running", want: `
rpc of Caddy
	execute_skill (server) descriptor=fetched execution_id=… name=acme.resumed provider=acme skill=acme/resumed status=accepted
		discovery (internal)
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fresumed
		POST submit (client) http.response.status_code=202 url.full=http://…/run/acme%2Fresumed
		run (internal)
`},
	{body: `{"jsonrpc":"2.0","id":1,"method":"get_run","params":{"run_token":"RUN_TOKEN"}}`, want: `
rpc of Caddy
	get_run (server) descriptor=hit execution_id=… name=acme/resumed provider=acme skill=acme/resumed status=completed
		run (internal)
			* poll http.response.status_code=200 poll=1
`},
	{body: `{"jsonrpc":"2.0","id":1,"method":"describe_skill","params":{"name":"acme.now"}}`, want: `
rpc of Caddy
	describe_skill (server) descriptor=hit name=acme.now provider=acme skill=acme/now
`},
	{body: `[{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.now","args":{"call":"` + inputCanary + `"}}},
		{"jsonrpc":"2.0","id":2,"method":"execute_skill","params":{"name":"acme.none","args":{"call":"` + inputCanary + `"}}}]`, want: `
rpc of Caddy
	execute_skill (server) descriptor=hit execution_id=… name=acme.now provider=acme skill=acme/now status=completed
		POST submit (client) http.response.status_code=200 url.full=http://…/run/acme%2Fnow
	execute_skill (server) error.type=SKILL_NOT_FOUND name=acme.none provider=acme rpc.response.status_code=-32602 ERROR "skill 'acme.none' not found. Did you mean 'acme.gone'?"
		discovery (internal) error.type=SKILL_NOT_FOUND ERROR "skill 'acme.none' not found. Did you mean 'acme.gone'?"
`},
}

// nthTraceID is the trace id of the nth call.
func nthTraceID(n int) string { return fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04x", n) }

// from makes a client that belongs to a trace.
func from(c *testbed.Client, n int, sampled string) *testbed.Client {
	return c.With(testbed.Header("traceparent", "00-"+nthTraceID(n)+"-00f067aa0ba902b7-"+sampled))
}

// traceBridge is a Caddyfile with a bridge behind these lines.
func traceBridge(p, token *hostile.Provider, lines ...string) string {
	return strings.Replace(testbed.Bridge("allow_anonymous", "poll_interval 1ms 1ms", "circuit_breaker off",
		"provider "+p.URL()+" {", "namespace acme", "credentials api_key {env.TRACE_KEY}", "}",
		"provider "+token.URL()+" {", "namespace beta", "credentials oauth2 {", "client_id bridge", "client_secret {env.TRACE_SECRET}", "}", "}",
	), "\tskill_bridge", strings.Join(lines, "\n")+"\n\tskill_bridge", 1)
}

const tracingOn = "tracing {\nspan rpc\n}"

func tokenProvider(t *testing.T) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "beta/token", Auth: hostile.OAuth2(p.TokenURL() + "?" + queryCanary)})
	p.On("", hostile.Token, hostile.Issue(tokenCanary, time.Hour))
	t.Setenv("TRACE_KEY", keyCanary)
	t.Setenv("TRACE_SECRET", secretCanary)
	return p
}

// TestTraces has a real Caddy send spans to a real collector.
func TestTraces(t *testing.T) {
	spans := collect(t)
	p, token := traceSkills(t), tokenProvider(t)
	c := testbed.StartCaddy(t, traceBridge(p, token, tracingOn))
	runToken := "" // of the run that is resumed
	for n, tc := range traceCases {
		client := from(c.Client, n, "01")
		if tc.skill == "" {
			if a := client.Post(strings.ReplaceAll(tc.body, "RUN_TOKEN", runToken)); a.Status != http.StatusOK {
				t.Fatal(a)
			}
			continue
		}
		a := client.With(tc.options...).Execute(tc.skill, hostile.Object{"call": inputCanary})
		if a.Outcome() != tc.outcome {
			t.Fatalf("%s: %v", tc.skill, a)
		}
		var run struct {
			Token string `json:"run_token"`
		}
		_ = json.Unmarshal(a.Result, &run) // most have none
		runToken = cmp.Or(run.Token, runToken)
	}
	c.Stop() // sends what was not sent yet

	for n, tc := range traceCases {
		if got := tree(t, spans.of(nthTraceID(n))); got != strings.TrimPrefix(tc.want, "\n") {
			t.Errorf("%s%s: spans\n%s", tc.skill, tc.body, got)
		}
	}
	checkTraceParents(t, p, spans)
	for _, operation := range []string{"describe", "list"} {
		if lines := c.Log.Lines("call completed", `"operation":"`+operation+`"`); len(lines) != 1 {
			t.Errorf("%s is in the log %d times", operation, len(lines))
		}
	}
	for _, canary := range []string{inputCanary, outputCanary, keyCanary, secretCanary, tokenCanary, queryCanary, errorCanary} {
		if bytes.Contains(spans.bytes, []byte(canary)) {
			t.Errorf("a span has %s", canary)
		}
		if canary != outputCanary && canary != errorCanary && len(p.Received(canary))+len(token.Received(canary)) == 0 {
			t.Errorf("no provider received %s: this test sees nothing", canary)
		}
	}
}

// checkTraceParents compares what a provider was told of traces with the spans.
func checkTraceParents(t *testing.T, p *hostile.Provider, spans *collector) {
	t.Helper()
	calls := map[string]*collected{}
	for _, s := range spans.spans {
		if s.Kind == tracepb.Span_SPAN_KIND_SERVER && s.scope == tracerName {
			calls["00-"+hex.EncodeToString(s.TraceId)+"-"+hex.EncodeToString(s.SpanId)+"-01"] = s
		}
	}
	told := map[hostile.Part]int{}
	for _, r := range p.All() {
		parent := r.Header.Get("Traceparent")
		switch r.Part {
		case hostile.Index, hostile.Descriptor:
			if parent != "" {
				t.Errorf("%s, which is for all calls, has traceparent %s", r.Target, parent)
			}
			continue
		case hostile.Invoke:
			if call := calls[parent]; call != nil && traceIDIn(t, r) != hex.EncodeToString(call.TraceId) {
				t.Errorf("%s has traceparent %s and another trace id in its body: %s", r.Target, parent, r.Body)
			}
		}
		if calls[parent] == nil {
			t.Errorf("%s has traceparent %q, which is no call's", r.Target, parent)
		}
		told[r.Part]++
	}
	if told[hostile.Invoke] == 0 || told[hostile.Status] == 0 || told[hostile.Result] == 0 {
		t.Errorf("too little was asked for: %v", told)
	}
}

// traceIDIn is context.trace_id of an invocation.
func traceIDIn(t *testing.T, r *hostile.Request) string {
	t.Helper()
	var invocation struct {
		Context struct {
			TraceID string `json:"trace_id"`
		} `json:"context"`
	}
	if err := json.Unmarshal([]byte(r.Body), &invocation); err != nil {
		t.Fatal(err)
	}
	return invocation.Context.TraceID
}

// TestTracesAreNotSampled: a provider is told not to record what is not recorded
// here.
func TestTracesAreNotSampled(t *testing.T) {
	spans := collect(t)
	p, token := traceSkills(t), tokenProvider(t)
	c := testbed.StartCaddy(t, traceBridge(p, token, tracingOn))
	if a := from(c.Client, 0, "00").Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	c.Stop()
	r := p.Requests("acme/now", hostile.Invoke)[0]
	if parent := r.Header.Get("Traceparent"); !regexp.MustCompile("^00-"+nthTraceID(0)+"-[0-9a-f]{16}-00$").MatchString(parent) || strings.Contains(parent, "00f067aa0ba902b7") {
		t.Errorf("traceparent %s", parent)
	}
	mustOnlyPassOn(t, spans, r)
}

// mustOnlyPassOn checks that a provider was told the caller's trace, and a collector nothing.
func mustOnlyPassOn(t *testing.T, spans *collector, invocation *hostile.Request) {
	t.Helper()
	if id := traceIDIn(t, invocation); id != nthTraceID(0) {
		t.Errorf("trace id %s", id)
	}
	if len(spans.spans) > 0 {
		t.Errorf("spans were sent: %v", spans.spans)
	}
}

// TestNoTraces: without a tracing directive, providers hear of no span.
func TestNoTraces(t *testing.T) {
	spans := collect(t)
	p, token := traceSkills(t), tokenProvider(t)
	c := testbed.StartCaddy(t, traceBridge(p, token))
	if a := from(c.Client, 0, "01").Execute("acme.later", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	c.Stop()
	for _, r := range p.All() {
		if r.Header["Traceparent"] != nil {
			t.Errorf("%s has a traceparent", r.Target)
		}
	}
	mustOnlyPassOn(t, spans, p.Requests("acme/later", hostile.Invoke)[0])
}

// TestDocumentsOutliveTheirCall: a document that comes when the call that it was
// asked for has ended is in its trace all the same.
func TestDocumentsOutliveTheirCall(t *testing.T) {
	spans := collect(t)
	p, token := traceSkills(t), tokenProvider(t)
	gate := hostile.NewGate(t)
	p.On("acme/now", hostile.Descriptor, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, traceBridge(p, token, tracingOn))
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan testbed.Answer, 1)
	go func() { answered <- from(c.Client, 0, "01").With(testbed.Context(ctx)).Execute("acme.now", nil) }()
	testbed.Eventually(t, time.Minute, func() bool { return gate.Waiting() == 1 }, "the descriptor is asked for")
	leave()
	if a := <-answered; a.Outcome() != "gone" {
		t.Fatal(a)
	}
	testbed.Eventually(t, time.Minute, func() bool { return c.Log.Has("call failed") }, "the call has ended")
	gate.Open()
	if a := from(c.Client, 1, "01").Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	c.Stop()
	const want = `rpc of Caddy
	execute_skill (server) error.type=caller_gone name=acme.now provider=acme rpc.response.status_code=-32052 skill=acme/now
		discovery (internal) error.type=caller_gone
			GET index (client) http.response.status_code=200 url.full=http://…/.well-known/skill-sharing
			GET descriptor (client) http.response.status_code=200 url.full=http://…/descriptors/acme%2Fnow
`
	if got := tree(t, spans.of(nthTraceID(0))); got != want {
		t.Errorf("spans\n%s", got)
	}
}

// untraced does what an observer does of traces during a call.
func untraced(ctx context.Context, c *translate.Call, e *exchange.Exchange, o *run.Run, s *translate.Statistics) {
	ctx = beginTrace(ctx, c)
	traceExchange(ctx, e)
	traceExchange(ctx, e)
	new(Observer).endTrace(ctx, c, o, s)
}

func untracedCall() (*translate.Call, *exchange.Exchange, *run.Run, *translate.Statistics) {
	return &translate.Call{Caller: run.Caller{Method: "execute_skill"}}, &exchange.Exchange{Phase: run.PhaseInvoke, Method: http.MethodPost, URL: new(url.URL)},
		new(run.Run), new(translate.Statistics)
}

// TestUntracedCallsTakeNothing: without a trace there is nothing but to see that
// there is none.
func TestUntracedCallsTakeNothing(t *testing.T) {
	c, e, o, s := untracedCall()
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { untraced(ctx, c, e, o, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if c.TraceID != "" || c.TraceParent != "" {
		t.Errorf("the call is told of a trace: %+v", c)
	}
}

func BenchmarkUntraced(b *testing.B) {
	c, e, o, s := untracedCall()
	b.ReportAllocs()
	for b.Loop() {
		untraced(b.Context(), c, e, o, s)
	}
}
