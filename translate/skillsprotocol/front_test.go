package skillsprotocol_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// fakeBridge returns configured answers and records the calls.
type fakeBridge struct {
	outcome     run.Run
	listing     translate.Listing
	description *translate.Description
	failure     *run.Failure
	namespaces  []string
	unknown     []string // arguments

	executed, submitted, described, followed []translate.Call

	runs    []run.Ref // that were resumed
	waiting func()    // called when an execution is waited for; nil: nothing is
	queries []translate.Query

	reported []string // calls that were answered without any of these
}

func (b *fakeBridge) ReportRun(_ context.Context, call translate.Call, o translate.Operation, r *run.Run) {
	failure := r.Failure
	text := call.Method + " " + string(o)
	if failure != nil {
		text += fmt.Sprintf(" %d %s", failure.Kind, failure.Next())
		if a := failure.Argument; a != nil {
			text += " " + skillsprotocol.Param(a) + " " + string(a.Reason)
		}
	}
	b.reported = append(b.reported, text)
}

func (b *fakeBridge) Find(_ context.Context, name, _ string) (string, *run.Failure) { return name, nil }

func (*fakeBridge) Audience(string) int { return 0 }

func (*fakeBridge) Permits(*run.Ref, string) bool { return true }

func (b *fakeBridge) Start(_ context.Context, call translate.Call) translate.Execution {
	return &fakeExecution{bridge: b, call: call}
}

func (b *fakeBridge) Resume(_ context.Context, ref run.Ref, call translate.Call) translate.Execution {
	b.runs = append(b.runs, ref)
	return &fakeExecution{bridge: b, call: call, resumed: true}
}

// fakeExecution ends with the outcome that its bridge has.
type fakeExecution struct {
	bridge  *fakeBridge
	call    translate.Call
	resumed bool
}

func (x *fakeExecution) Wait() run.Run {
	if x.bridge.waiting != nil {
		x.bridge.waiting()
	}
	if b := x.bridge; x.resumed {
		b.followed = append(b.followed, x.call)
	} else {
		b.executed = append(b.executed, x.call)
	}
	return x.bridge.outcome
}

func (x *fakeExecution) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) { yield(x.Wait()) }
}

func (x *fakeExecution) Leave() run.Run {
	x.bridge.submitted = append(x.bridge.submitted, x.call)
	return x.bridge.outcome
}

func (*fakeExecution) Detach() {}

func (x *fakeExecution) Unknown() []string { return x.bridge.unknown }

func (x *fakeExecution) Skill() *translate.Skill {
	if x.bridge.description == nil {
		return nil
	}
	return &translate.Skill{Descriptor: x.bridge.description.Descriptor}
}

func (b *fakeBridge) List(_ context.Context, q translate.Query) translate.Listing {
	b.queries = append(b.queries, q)
	page := b.listing
	page.Skills = slices.DeleteFunc(slices.Clone(page.Skills), func(e catalog.Entry) bool { return e.Name <= q.AfterName })
	if len(page.Skills) > q.Limit {
		page.Skills = page.Skills[:q.Limit]
		page.NextAfter = page.Skills[q.Limit-1].Name
	}
	return page
}

func (b *fakeBridge) Search(_ context.Context, q translate.Query, words string, limit int) translate.Listing {
	q.AfterName, q.Limit = words, limit // for tests
	b.queries = append(b.queries, q)
	return b.listing
}

func (*fakeBridge) Tools(_ context.Context, skills []string, _ string) []string {
	tools := slices.Clone(skills)
	for i := range tools {
		tools[i] = strings.ReplaceAll(tools[i], ".", "_")
	}
	return tools
}

func (b *fakeBridge) Describe(_ context.Context, call translate.Call) (*translate.Description, *run.Failure) {
	b.described = append(b.described, call)
	return b.description, b.failure
}

func (b *fakeBridge) Namespaces(string) []string { return b.namespaces }

// calls counts all calls of the bridge except Namespaces.
func (b *fakeBridge) calls() int {
	return len(b.executed) + len(b.submitted) + len(b.described) + len(b.queries) + len(b.runs)
}

// TestEveryRequestIsReported: each request is reported once, by the front or by the bridge.
func TestEveryRequestIsReported(t *testing.T) {
	for _, c := range []struct{ method, params, want string }{
		{"execute_skill", `{"name":"a"}`, ""},
		{"list_skills", ``, ""},
		{"execute_skill", `{}`, "execute_skill execute 1 fix_params name required"},
		{"execute_skill", `[]`, "execute_skill execute 1 fix_params params invalid"},
		{"execute_skill", `{"name":"a","name":"b"}`, "execute_skill execute 1 fix_params name duplicate"},
		{"get_run", `{"run_token":"forged"}`, "get_run follow 1 fix_params run_token invalid"},
		{"list_skills", `{"limit":0}`, "list_skills list 1 fix_params limit invalid"},
		{"describe_skill", `{"name":1}`, "describe_skill describe 1 fix_params name invalid"},
		{"load_skills_protocol_guide", ``, "load_skills_protocol_guide describe"},
		{"run_code", ``, "unknown none 1 none  not_supported_by_bridge"},
		{"whatever", ``, "unknown none 1 fix_params  unknown"},
	} {
		b := &fakeBridge{outcome: done}
		ask(t, b, c.method, c.params)
		if got := strings.Join(b.reported, ", "); got != c.want || (b.calls() == 0) != (len(b.reported) == 1) {
			t.Errorf("%s %s: reported %q, %d calls, want %q", c.method, c.params, got, b.calls(), c.want)
		}
	}
}

var done = run.Run{Ref: run.Ref{SkillID: "example-corp/weather-forecast", ExecutionID: "exec-1"}, State: run.Completed, Output: jsontext.Value(`{"ok":true}`), Elapsed: 5200 * time.Millisecond}

func request(method, params string) *jsonrpc.Request {
	req := &jsonrpc.Request{Method: method, ID: jsontext.Value("1")}
	if params != "" {
		req.Params = jsontext.Value(params)
	}
	return req
}

// ask sends one request to a front over b.
func ask(t *testing.T, b *fakeBridge, method, params string) (jsontext.Value, *jsonrpc.Error) {
	t.Helper()
	result, fault := (&skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations), Version: "v1.2.3"}).ServeRPC(t.Context(), request(method, params))
	switch {
	case fault == nil && !result.IsValid(jsontext.AllowDuplicateNames(true)):
		t.Fatalf("the result is not JSON: %s", result)
	case fault != nil && !fault.Data.IsValid(jsontext.AllowDuplicateNames(true)):
		t.Fatalf("the data is not JSON: %s", fault.Data)
	case fault != nil && fault.Message == "":
		t.Fatalf("an error without a message: %+v", fault)
	}
	checkAnswer(t, method, result, fault)
	return result, fault
}

// result sends one request that must succeed.
func result(t *testing.T, b *fakeBridge, method, params string) string {
	t.Helper()
	r, fault := ask(t, b, method, params)
	if fault != nil {
		t.Fatalf("%s %s: %v %s", method, params, fault, fault.Data)
	}
	return string(r)
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestUnknownMethods(t *testing.T) {
	for _, c := range []struct{ method, data string }{
		{"initialize", `{"method":"initialize","reason":"unknown","source":"bridge","executed":"no","next":"fix_params"}`},
		{"", `{"method":"","reason":"unknown","source":"bridge","executed":"no","next":"fix_params"}`},
		{"Execute_Skill", `{"method":"Execute_Skill","reason":"unknown","candidates":["execute_skill"],"source":"bridge","executed":"no","next":"fix_params"}`},
		{"tools/call", `{"method":"tools/call","reason":"unknown","candidates":["execute_skill"],"source":"bridge","executed":"no","next":"fix_params"}`},
		{"tasks/get", `{"method":"tasks/get","reason":"unknown","candidates":["get_run"],"source":"bridge","executed":"no","next":"fix_params"}`},
		{"SendMessage", `{"method":"SendMessage","reason":"unknown","candidates":["execute_skill"],"source":"bridge","executed":"no","next":"fix_params"}`},
		{"a\nb", `{"method":"a b","reason":"unknown","source":"bridge","executed":"no","next":"fix_params"}`},
		{"run_code", `{"method":"run_code","reason":"not_supported_by_bridge","source":"bridge","executed":"no","next":"none"}`},
		{"create_blob", `{"method":"create_blob","reason":"not_supported_by_bridge","source":"bridge","executed":"no","next":"none"}`},
		{"read_blob", `{"method":"read_blob","reason":"not_supported_by_bridge","source":"bridge","executed":"no","next":"none"}`},
	} {
		_, fault := ask(t, &fakeBridge{}, c.method, `[]`)
		if fault == nil || fault.Code != -32601 || string(fault.Data) != c.data {
			t.Errorf("%q: %+v", c.method, fault)
		}
	}
	if _, fault := ask(t, &fakeBridge{}, strings.Repeat("x", 1<<16), ""); len(fault.Data) > 1000 {
		t.Errorf("a long method is repeated in %d bytes", len(fault.Data))
	}
}

func TestNotifications(t *testing.T) {
	for _, c := range []struct {
		method, params string
		submitted      int
	}{
		{"execute_skill", `{"name":"a.b","args":{"n":1}}`, 1},
		{"execute_skill", `{"args":{}}`, 0},
		{"execute_skill", `[1]`, 0},
		{"list_skills", `{}`, 0},
		{"describe_skill", `{"name":"a.b"}`, 0},
		{"read_skill_file", `{"name":"a.b","path":"SKILL.md"}`, 0},
		{"run_code", `{}`, 0},
	} {
		b := &fakeBridge{outcome: done}
		req := request(c.method, c.params)
		req.ID = nil
		_, _ = (&skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}).ServeRPC(t.Context(), req) // notifications are never answered
		if len(b.submitted) != c.submitted || b.calls() != c.submitted {
			t.Errorf("%s %s: submitted %d, asked %d times", c.method, c.params, len(b.submitted), b.calls())
		}
		if c.submitted == 1 && (b.submitted[0].Name != "a.b" || string(b.submitted[0].Inputs.Text) != `{"n":1}`) {
			t.Errorf("submitted %+v", b.submitted[0])
		}
	}
}

func TestRequirePrincipal(t *testing.T) {
	const data = `{"code":"AUTH_REQUIRED","phase":"auth","details":{"reason":"the request has no principal","required_by":"bridge"},` +
		`"source":"bridge","executed":"no","next":"authenticate"}`
	for _, method := range []string{"execute_skill", "list_skills", "describe_skill", "read_skill_file", "load_skills_protocol_guide"} {
		b := &fakeBridge{outcome: done, namespaces: []string{"secret"}}
		front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations), RequirePrincipal: true}
		// Callers are checked before params.
		for _, params := range []string{`{"name":"a.b","path":"SKILL.md"}`, `[]`} {
			_, fault := front.ServeRPC(t.Context(), request(method, params))
			if fault == nil || fault.Code != -32050 || string(fault.Data) != data {
				t.Errorf("%s %s: %+v", method, params, fault)
			}
		}
		note := request(method, `{"name":"a.b"}`)
		note.ID = nil
		_, _ = front.ServeRPC(t.Context(), note)
		if b.calls() != 0 {
			t.Errorf("%s: the bridge was asked for an anonymous caller", method)
		}
	}
	b := &fakeBridge{outcome: done}
	arrived := time.Unix(1_700_000_000, 0)
	ctx := translate.WithCaller(t.Context(), run.Caller{Principal: "ada", TraceID: "0af7651916cd43dd8448eb211c80319c", Arrived: arrived})
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations), RequirePrincipal: true}
	if _, fault := front.ServeRPC(ctx, request("execute_skill", `{"name":"a.b"}`)); fault != nil {
		t.Fatal(fault)
	}
	if c := b.executed[0]; c.Principal != "ada" || c.TraceID != "0af7651916cd43dd8448eb211c80319c" || !c.Arrived.Equal(arrived) {
		t.Errorf("the caller got lost: %+v", c)
	}
	if _, fault := front.ServeRPC(ctx, request("list_skills", `{}`)); fault != nil || b.queries[0].Principal != "ada" {
		t.Errorf("%v %+v", fault, b.queries)
	}
}

func TestProfile(t *testing.T) {
	p := skillsprotocol.Profile(7)
	if p.MaxBatch != 7 || !p.NullID {
		t.Errorf("%+v", p)
	}
	for code, want := range map[int]string{
		jsonrpc.CodeParseError:     `{"reason":"the \"body\"","source":"bridge","executed":"no","next":"fix_params"}`,
		jsonrpc.CodeInvalidRequest: `{"reason":"the \"body\"","source":"bridge","executed":"no","next":"fix_params"}`,
		jsonrpc.CodeInternalError:  `{"reason":"the \"body\"","source":"bridge","executed":"maybe","next":"none"}`,
	} {
		if got := string(p.ErrorData(code, `the "body"`, nil)); got != want {
			t.Errorf("%d: %s", code, got)
		}
	}
	const named = `{"reason":"deep","details":{"limit":"depth","max":7},"source":"bridge","executed":"no","next":"fix_params"}`
	if got := string(p.ErrorData(jsonrpc.CodeParseError, "deep", &jsonrpc.Limit{Name: "depth", Max: 7})); got != named {
		t.Errorf("%s", got)
	}
}

func TestParams(t *testing.T) {
	const advice = `,"source":"bridge","executed":"no","next":"fix_params"}`
	invalid := func(param string) string { return `{"param":"` + param + `","reason":"invalid"` + advice }
	for _, c := range []struct{ method, params, data string }{
		{"execute_skill", `[]`, invalid("params")},
		{"list_skills", `["a"]`, invalid("params")},
		{"load_skills_protocol_guide", `[]`, invalid("params")},

		{"execute_skill", ``, `{"param":"name","reason":"required"` + advice},
		{"execute_skill", `{}`, `{"param":"name","reason":"required"` + advice},
		{"execute_skill", `{"Name":"a"}`, `{"param":"name","reason":"required"` + advice[:len(advice)-1] +
			`,"ignored":["Name"],"hint":{"param":"Name","reason":"unknown","candidates":["name"],"message":"'Name' was ignored: execute_skill has no such member; use 'name'"}}`},
		{"describe_skill", `{}`, `{"param":"name","reason":"required"` + advice},
		{"read_skill_file", `{"path":"SKILL.md"}`, `{"param":"name","reason":"required"` + advice},
		{"read_skill_file", `{"name":"a"}`, `{"param":"path","reason":"required"` + advice},
		{"execute_skill", `{"name":""}`, invalid("name")},
		{"execute_skill", `{"name":5}`, invalid("name")},
		{"execute_skill", `{"name":null}`, `{"param":"name","reason":"required"` + advice},
		{"execute_skill", `{"name":["a"]}`, invalid("name")},

		{"execute_skill", `{"name":"a","args":[]}`, invalid("args")},
		{"execute_skill", `{"name":"a","args":"{}"}`, invalid("args")},
		{"execute_skill", `{"name":"a","version":1}`, invalid("version")},
		{"execute_skill", `{"name":"a","version":""}`, invalid("version")},
		{"execute_skill", `{"name":"a","timeout_ms":0}`, invalid("timeout_ms")},
		{"execute_skill", `{"name":"a","timeout_ms":-0}`, invalid("timeout_ms")},
		{"execute_skill", `{"name":"a","timeout_ms":-1}`, invalid("timeout_ms")},
		{"execute_skill", `{"name":"a","timeout_ms":-1e999}`, invalid("timeout_ms")},
		{"execute_skill", `{"name":"a","timeout_ms":"1000"}`, invalid("timeout_ms")},
		{"execute_skill", `{"name":"a","input_blobs":["blob:1"]}`, `{"param":"input_blobs","reason":"unsupported"` + advice},
		{"execute_skill", `{"name":"a","input_blobs":{}}`, invalid("input_blobs")},

		{"execute_skill", `{"name":"a","name":"b"}`, `{"param":"name","reason":"duplicate"` + advice},
		{"execute_skill", `{"name":null,"name":"a"}`, `{"param":"name","reason":"duplicate"` + advice},
		{"list_skills", `{"x":null,"x":null}`, `{"param":"x","reason":"duplicate"` + advice},
		{"execute_skill", `{"name":"a","n\u0061me":"a"}`, `{"param":"name","reason":"duplicate"` + advice},
		{"execute_skill", `{"name":"a","x":1,"y":2,"x":1}`, `{"param":"x","reason":"duplicate"` + advice},
		{"list_skills", `{"path":1,"path":2}`, `{"param":"path","reason":"duplicate"` + advice},

		{"list_skills", `{"limit":0}`, invalid("limit")},
		{"list_skills", `{"limit":-1}`, invalid("limit")},
		{"list_skills", `{"limit":1001}`, invalid("limit")},
		{"list_skills", `{"limit":1e400}`, invalid("limit")},
		{"list_skills", `{"limit":1.5}`, invalid("limit")},
		{"list_skills", `{"limit":"5"}`, invalid("limit")},
		{"list_skills", `{"namespace":7}`, invalid("namespace")},
		{"list_skills", `{"namespace":""}`, invalid("namespace")},
		{"list_skills", `{"detail":"full"}`, `{"param":"detail","reason":"invalid","candidates":["names","summary","tools"]` + advice},
		{"list_skills", `{"detail":1}`, invalid("detail")},
		{"list_skills", `{"cursor":"not-a-cursor"}`, invalid("cursor")},
		{"list_skills", `{"cursor":""}`, invalid("cursor")},
		{"list_skills", `{"cursor":"AQ"}`, invalid("cursor")},     // no name
		{"list_skills", `{"cursor":"AmEuYg"}`, invalid("cursor")}, // another version
		{"list_skills", `{"cursor":"AWH_"}`, invalid("cursor")},   // bad UTF-8
		{"list_skills", `{"cursor":"AWE="}`, invalid("cursor")},   // padded
		{"list_skills", `{"cursor":"AWF"}`, invalid("cursor")},    // bits left over
		{"describe_skill", `{"name":"a","detail":"names"}`, `{"param":"detail","reason":"invalid","candidates":["summary","manifest","full"]` + advice},
		{"read_skill_file", `{"name":"a","path":"../x"}`, `{"param":"path","reason":"not_found","candidates":["SKILL.md","descriptor.json"]` + advice},
		{"read_skill_file", `{"name":"a","path":"skill.md"}`, `{"param":"path","reason":"not_found","candidates":["SKILL.md","descriptor.json"]` + advice},
		{"read_skill_file", `{"name":"a","path":["SKILL.md"]}`, invalid("path")},
	} {
		b := &fakeBridge{outcome: done, description: describe(t, "{}")}
		_, fault := ask(t, b, c.method, c.params)
		if fault == nil || fault.Code != -32602 || string(fault.Data) != c.data {
			t.Errorf("%s %s: %+v", c.method, c.params, fault)
			continue
		}
		if !strings.HasPrefix(fault.Message, "Invalid params: ") {
			t.Errorf("%s %s: %s", c.method, c.params, fault.Message)
		}
		if b.calls() != 0 {
			t.Errorf("%s %s: the bridge was asked", c.method, c.params)
		}
	}
	if _, fault := ask(t, &fakeBridge{}, "list_skills", `{"limit":0}`); !strings.Contains(fault.Message, "1 to 1000") {
		t.Errorf("the range is not stated: %s", fault.Message)
	}
}

func TestExecuteCall(t *testing.T) {
	for _, c := range []struct {
		params string
		want   translate.Call
	}{
		{`{"name":"a.b"}`, translate.Call{Name: "a.b"}},
		{`{"n\u0061me":"\u00e4/b"}`, translate.Call{Name: "ä/b"}},
		{
			` { "name" : "a.b" , "args" : { "n" : 1.50, "n":12345678901234567890123 } } `,
			translate.Call{Name: "a.b", Inputs: jsonrpc.Object{Text: jsontext.Value(`{ "n" : 1.50, "n":12345678901234567890123 }`)}},
		},
		{`{"name":"a.b","version":"1.0.0","timeout_ms":1500}`, translate.Call{Name: "a.b", Version: "1.0.0", Timeout: 1500 * time.Millisecond}},
		{`{"name":"a.b","timeout_ms":0.5}`, translate.Call{Name: "a.b", Timeout: 500 * time.Microsecond}},
		{`{"name":"a.b","timeout_ms":1e-300}`, translate.Call{Name: "a.b", Timeout: 1}},
		{`{"name":"a.b","timeout_ms":1e999}`, translate.Call{Name: "a.b", Timeout: 1<<63 - 1}},
		{`{"name":"a.b","timeout_ms":9223372036854.775807}`, translate.Call{Name: "a.b", Timeout: 1<<63 - 1}},
		{`{"name":"a.b","wait_ms":0}`, translate.Call{Name: "a.b", Unattended: true}},
		{`{"name":"a.b","wait_ms":0.0,"timeout_ms":2}`, translate.Call{Name: "a.b", Timeout: 2 * time.Millisecond, Unattended: true}},
		{`{"name":"a.b","wait_ms":1}`, translate.Call{Name: "a.b"}},
		{`{"name":"a.b","wait_ms":null}`, translate.Call{Name: "a.b"}},
		{`{"name":"a.b","input_blobs":[ ]}`, translate.Call{Name: "a.b"}},
		{`{"name":"a.b","x_future":{"a":1},"limit":"?","path":7,"detail":null}`, translate.Call{Name: "a.b"}},
	} {
		b := &fakeBridge{outcome: done}
		result(t, b, "execute_skill", c.params)
		got := b.executed[0]
		if got.Name != c.want.Name || got.Version != c.want.Version || got.Timeout != c.want.Timeout || got.Unattended != c.want.Unattended || string(got.Inputs.Text) != string(c.want.Inputs.Text) {
			t.Errorf("%s: %+v", c.params, got)
		}
		if cap(got.Inputs.Text) != len(got.Inputs.Text) {
			t.Errorf("%s: appending to the arguments would overwrite the request", c.params)
		}
	}
}

// All calls of an HTTP request share one budget for checks; each HTTP request has its own.
func TestChecksAreOfARequest(t *testing.T) {
	b := &fakeBridge{outcome: done}
	for range 2 {
		ctx := translate.WithCaller(t.Context(), run.Caller{})
		for range 2 {
			if _, fault := (&skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}).ServeRPC(ctx, request("execute_skill", `{"name":"a.b"}`)); fault != nil {
				t.Fatal(fault)
			}
		}
	}
	c := b.executed
	if len(c) != 4 || c[0].Checks == nil || c[0].Checks != c[1].Checks || c[2].Checks == nil || c[2].Checks != c[3].Checks || c[0].Checks == c[2].Checks {
		t.Errorf("%+v", c)
	}
}

func TestParamsNeverPanic(t *testing.T) {
	for _, params := range []string{`{`, `{"name"`, `{"name":}`, `{"name":"a",}`, `nul`, `"x"`, `{"a":1]`, "{\"\xff\":1}", `{"name":"\ud800"}`} {
		if _, fault := ask(t, &fakeBridge{outcome: done}, "execute_skill", params); fault == nil || fault.Code != -32602 {
			t.Errorf("%s: %+v", params, fault)
		}
	}
}

func entries(n int) []catalog.Entry {
	list := make([]catalog.Entry, n)
	for i := range list {
		number := strconv.Itoa(1000 + i)
		list[i] = catalog.Entry{
			Name: "corp.skill-" + number, Namespace: "corp", Version: "1.0." + number, Description: "Does " + number + ".",
			CapabilityType: document.API, Access: document.Public,
		}
	}
	return list
}

// TestTooLarge: the error in place of an answer that exceeds a limit is short, names the limit
// and keeps the members that an agent needs most.
func TestTooLarge(t *testing.T) {
	const details = `"details":{"limit":"answer_size","max":100000}`
	s := &jsonrpc.Server{
		Profile: skillsprotocol.Profile(50), MaxAnswerSize: 100_000,
		Handler: jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			long := jsontext.Value(`"` + strings.Repeat("x", 200_000) + `"`)
			if string(req.ID) != "1" {
				return long, nil
			}
			return nil, &jsonrpc.Error{Code: -32050, Message: "no", Data: jsontext.Value(`{"code":"AUTH_REQUIRED","execution_id":"e","details":` + string(long) +
				`,"details_source":"provider","other":` + string(long) + `,"executed":"yes","next":"follow_run"}`)}
		}),
	}
	for _, c := range []struct{ method, id, code, data string }{
		{"x", "1", "-32050", `{"code":"AUTH_REQUIRED","execution_id":"e","executed":"yes","next":"follow_run",` + details + `}`},
		{"list_skills", "2", "-32057", `{"code":"RATE_LIMITED",` + details + `,"retry":{"suggested_delay_ms":1000,"max_attempts":3},"source":"bridge","executed":"no","next":"retry"}`},
		{"execute_skill", "2", "-32057", `{"code":"RATE_LIMITED",` + details + `,"source":"bridge","executed":"maybe","next":"none"}`},
		{"get_run", "2", "-32057", `{"code":"RATE_LIMITED",` + details + `,"retry":{"suggested_delay_ms":1000,"max_attempts":3},"source":"bridge","executed":"yes","next":"follow_run"}`},
	} {
		w := httptest.NewRecorder()
		body := `[{"jsonrpc":"2.0","id":` + c.id + `,"method":"` + c.method + `"}]`
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
		if got := w.Body.String(); !strings.HasPrefix(got, `[{"jsonrpc":"2.0","id":`+c.id+`,"error":{"code":`+c.code+`,"message":`) || !strings.HasSuffix(got, `,"data":`+c.data+`}}]`) {
			t.Errorf("%s: %s", c.method, got)
		}
	}
}
