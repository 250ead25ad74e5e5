package skillsprotocol_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// execute sends execute_skill to a bridge that returns o.
func execute(t *testing.T, o run.Run) (jsontext.Value, *jsonrpc.Error) {
	t.Helper()
	return ask(t, &fakeBridge{outcome: o}, "execute_skill", `{"name":"asked.for"}`)
}

func TestCompleted(t *testing.T) {
	for _, c := range []struct {
		name string
		o    run.Run
		want string
	}{
		{"output", done, `{"status":"completed","run_id":"exec-1","summary":"Skill example-corp/weather-forecast completed in 5.2 s.","output":{"ok":true}}`},
		{
			"no output, no id, no duration",
			run.Run{State: run.Completed, Ref: run.Ref{ExecutionID: "e\"1"}},
			`{"status":"completed","run_id":"e\"1","summary":"Skill asked.for completed.","output":null}`,
		},
		{
			"raw output",
			run.Run{State: run.Completed, Ref: run.Ref{ExecutionID: "e"}, Output: jsontext.Value(`[1.50, 1e400,{"a":1,"a":2} ]`), Elapsed: 250 * time.Millisecond},
			`{"status":"completed","run_id":"e","summary":"Skill asked.for completed in 250 ms.","output":[1.50, 1e400,{"a":1,"a":2} ]}`,
		},
		{
			"output null",
			run.Run{State: run.Completed, Ref: run.Ref{ExecutionID: "e"}, Output: jsontext.Value(`null`), Elapsed: -time.Second},
			`{"status":"completed","run_id":"e","summary":"Skill asked.for completed.","output":null}`,
		},
	} {
		got, fault := execute(t, c.o)
		if fault != nil || string(got) != c.want {
			t.Errorf("%s: %s %+v", c.name, got, fault)
		}
	}
}

// rows is the error table: the answer for each kind, before and after a run was accepted.
var rows = []struct {
	kind  run.Kind
	code  int
	name  string // data.code
	param string // what the data of -32602 starts with
	next  string // if nothing was executed, and the provider says when to try again
}{
	{run.Internal, -32603, "", "", "none"},
	{run.InvalidArguments, -32602, "VALIDATION_ERROR", `"param":"args","reason":"rejected_by_provider",`, "fix_params"},
	{run.SkillNotFound, -32602, "SKILL_NOT_FOUND", `"param":"name","reason":"not_found",`, "other_skill"},
	{run.AuthRequired, -32050, "AUTH_REQUIRED", "", "ask_operator"},
	{run.PermissionDenied, -32051, "PERMISSION_DENIED", "", "ask_operator"},
	{run.DeadlineExceeded, -32052, "INVOCATION_TIMEOUT", "", "retry"},
	{run.Unreachable, -32053, "ENDPOINT_UNREACHABLE", "", "retry"},
	{run.VersionIncompatible, -32054, "VERSION_INCOMPATIBLE", "", "other_skill"},
	{run.InvalidDocument, -32055, "VALIDATION_ERROR", "", "other_skill"},
	{run.ProviderFault, -32056, "INVALID_PROVIDER_RESPONSE", "", "other_skill"},
	{run.RateLimited, -32057, "RATE_LIMITED", "", "retry"},
}

func TestErrorTable(t *testing.T) {
	for _, row := range rows {
		for _, accepted := range []bool{false, true} {
			if accepted && row.kind == run.DeadlineExceeded {
				continue // level 2: TestTimeoutAfterAcceptance
			}
			o := run.Run{Ref: run.Ref{SkillID: "corp/skill"}, Failure: &run.Failure{
				Kind: row.kind, Message: "What happened.", Phase: run.PhaseInvoke, By: run.Provider,
				HTTPStatus: 418, Executed: run.ExecutedNo,
				Provider: &run.ProviderError{Details: jsontext.Value(`{"a":1.0,"a":2}`), Retry: jsontext.Value(`{"suggested_delay_ms":1e3}`)},
			}}
			id, executed, next := "", "no", row.next
			if accepted {
				o.ExecutionID, o.State = "exec-1", run.Working
				o.Failure.Executed, executed, next = run.ExecutedYes, "yes", "follow_run"
				id = `"execution_id":"exec-1",`
			}
			want := "{"
			if row.name != "" {
				want += `"code":"` + row.name + `",`
			}
			want += row.param + `"skill_id":"corp/skill","http_status":418,"phase":"invoke",` + id +
				`"details":{"a":1.0,"a":2},"details_source":"provider","retry":{"suggested_delay_ms":1e3},` +
				`"source":"provider","executed":"` + executed + `","next":"` + next + `"}`
			result, fault := execute(t, o)
			if result != nil || fault == nil || fault.Code != row.code || fault.Message != "What happened." || string(fault.Data) != want {
				t.Errorf("kind %d, accepted %v: %s\n got %+v\nwant %s", row.kind, accepted, result, fault, want)
			}
		}
	}
}

// The answer to an empty failure has all members that errors must have.
func TestBareErrors(t *testing.T) {
	for _, row := range rows {
		failure := &run.Failure{Kind: row.kind, Message: " \n"}
		_, fault := execute(t, run.Run{Failure: failure})
		if fault == nil || fault.Code != row.code || strings.TrimSpace(fault.Message) == "" ||
			!strings.HasSuffix(string(fault.Data), `"source":"bridge","executed":"maybe","next":"`+string(failure.Next())+`"}`) {
			t.Errorf("kind %d: %+v", row.kind, fault)
		}
	}
	for name, o := range map[string]run.Run{
		"nothing":     {},
		"no error":    {Failure: &run.Failure{}},
		"later kinds": {Failure: &run.Failure{Kind: 200}},
	} {
		if _, fault := execute(t, o); fault == nil || fault.Code != -32603 || fault.Message == "" {
			t.Errorf("%s: %+v", name, fault)
		}
	}
}

func TestArgumentErrors(t *testing.T) {
	const advice = `"source":"bridge","executed":"no","next":"fix_params"}`
	for _, c := range []struct {
		name string
		kind run.Kind
		err  run.Failure
		want string
	}{
		{
			"found by the bridge", run.InvalidArguments,
			run.Failure{Argument: &run.Argument{Field: run.FieldInput, Name: "location", Pointer: "/location", Reason: run.WrongType}},
			`{"param":"location","reason":"type","path":"/location",` + advice,
		},
		{
			"ambiguous", run.InvalidArguments,
			run.Failure{Argument: &run.Argument{Field: run.FieldSkill, Reason: run.Ambiguous, Candidates: []string{"a.x", "b.x"}}},
			`{"param":"name","reason":"ambiguous","candidates":["a.x","b.x"],"tool_names":["a_x","b_x"],` + advice,
		},
		{"nobody knows", run.InvalidArguments, run.Failure{}, `{"param":"args","reason":"invalid",` + advice},
		{
			"version", run.SkillNotFound,
			run.Failure{Ref: run.Ref{SkillID: "corp/x"}, Argument: &run.Argument{Field: run.FieldVersion, Reason: run.NotFound}},
			`{"code":"SKILL_NOT_FOUND","param":"version","reason":"not_found","skill_id":"corp/x","details":{"skill_id":"corp/x"},` + advice,
		},
		{
			"unknown name", run.SkillNotFound,
			run.Failure{},
			`{"code":"SKILL_NOT_FOUND","param":"name","reason":"not_found","details":{"name":"asked.for"},` + advice,
		},
		{
			"unknown name with details", run.SkillNotFound,
			run.Failure{Argument: &run.Argument{Field: run.FieldSkill, Reason: run.NotFound, Value: "asked.for", Candidates: []string{"asked.four"}}},
			`{"code":"SKILL_NOT_FOUND","param":"name","reason":"not_found","candidates":["asked.four"],"tool_names":["asked_four"],"details":{"skill_id":"asked.for","candidates":["asked.four"]},` + advice,
		},
	} {
		c.err.Kind, c.err.By, c.err.Executed, c.err.Message = c.kind, run.Bridge, run.ExecutedNo, "m"
		_, fault := execute(t, run.Run{Failure: &c.err})
		if fault == nil || fault.Code != -32602 || string(fault.Data) != c.want {
			t.Errorf("%s: %+v", c.name, fault)
		}
	}
}

// TestLimitsOfBatches: messages advise against batches if a limit applies to all calls of a batch together.
func TestLimitsOfBatches(t *testing.T) {
	for want, failure := range map[string]*run.Failure{
		"There is no room for this answer (at most 9 bytes); send the call again outside of a batch.": exchange.NoRoom(room{}, run.PhaseInvoke, "", run.ExecutedNo, true),
		"There is no room for this answer (at most 9 bytes); get the run again outside of a batch.":   exchange.NoRoom(room{}, run.PhaseInvoke, "e", run.ExecutedYes, true),
		"There is no room for this answer (at most 9 bytes), and it can't be read again.":             exchange.NoRoom(room{}, run.PhaseInvoke, "e", run.ExecutedYes, false),
		"m: send smaller arguments, or send the calls of a batch one by one (limits argument_complexity: 7)": {
			Kind: run.InvalidArguments, Argument: &run.Argument{Reason: run.OverLimit},
			Message: "m: send smaller arguments", Advice: "(limits argument_complexity: 7)",
		},
	} {
		if _, fault := execute(t, run.Run{Failure: failure}); fault == nil || fault.Message != want {
			t.Errorf("%+v, want %s", fault, want)
		}
	}
}

// room is an [exchange.AnswerBudget] that is spent.
type room struct{}

func (room) Reserve(int64) bool           { return false }
func (room) AnswerLimit() (string, int64) { return "answer_size", 9 }

func TestDetailsSource(t *testing.T) {
	for _, quotes := range []bool{false, true} {
		_, fault := execute(t, run.Run{Failure: &run.Failure{
			Kind: run.AuthRequired, By: run.Bridge, Demand: &run.Demand{By: run.Bridge, FromProvider: quotes},
		}})
		if strings.Contains(string(fault.Data), `"details_source":"provider"`) != quotes {
			t.Errorf("%t: %s", quotes, fault.Data)
		}
	}
}

func TestTimeoutAfterAcceptance(t *testing.T) {
	failure := &run.Failure{
		Kind: run.DeadlineExceeded, Message: "Time was up after 5000 ms.", By: run.Bridge,
		Phase: run.PhasePoll, Ref: run.Ref{ExecutionID: "exec-1"}, Executed: run.ExecutedYes, Timeout: 5 * time.Second,
	}
	const want = `{"status":"failed","run_id":"exec-1","summary":"Skill corp/skill did not finish in time: Time was up after 5000 ms.",` +
		`"error":{"type":"INVOCATION_TIMEOUT","message":"Time was up after 5000 ms.","details":{"timeout_ms":5000,"execution_id":"exec-1"},` +
		`"source":"bridge","executed":"yes","next":"follow_run"}}`
	for name, r := range map[string]run.Run{
		"with the run":             {Ref: run.Ref{SkillID: "corp/skill", ExecutionID: "exec-1"}, State: run.Working, Failure: failure},
		"with the error's id only": {Ref: run.Ref{SkillID: "corp/skill"}, Failure: failure},
	} {
		got, fault := execute(t, r)
		if fault != nil || string(got) != want {
			t.Errorf("%s: %s %+v", name, got, fault)
		}
	}
}

func TestRunFailed(t *testing.T) {
	for _, c := range []struct {
		name   string
		status run.State
		err    run.Failure
		want   string
	}{
		{
			"everything said", run.Failed,
			run.Failure{Message: "No tables", Provider: &run.ProviderError{Code: "BOOKING_FAILED", Details: jsontext.Value(`"scalar"`), Retry: jsontext.Value(`{"suggested_delay_ms":5}`)}},
			`"summary":"Skill corp/skill failed: No tables","error":{"type":"BOOKING_FAILED","message":"No tables","details":"scalar","details_source":"provider",` +
				`"retry":{"suggested_delay_ms":5},`,
		},
		{
			"nothing said", run.Failed,
			run.Failure{},
			`"summary":"Skill corp/skill failed: The run failed and the provider gave no reason","error":{"type":"EXECUTION_FAILED","message":"The run failed and the provider gave no reason",`,
		},
		{
			"timeout without a code", run.TimedOut,
			run.Failure{},
			`"summary":"Skill corp/skill did not finish in time: The run took longer than it may","error":{"type":"INVOCATION_TIMEOUT","message":"The run took longer than it may",`,
		},
		{
			"a timeout with its own code", run.TimedOut,
			run.Failure{Message: "late", Provider: &run.ProviderError{Code: "TOO_SLOW"}},
			`"summary":"Skill corp/skill did not finish in time: late","error":{"type":"TOO_SLOW","message":"late",`,
		},
		{
			"a code of calls stays one of the run", run.Failed,
			run.Failure{Message: "no", Provider: &run.ProviderError{Code: "AUTH_REQUIRED"}},
			`"summary":"Skill corp/skill failed: no","error":{"type":"AUTH_REQUIRED","message":"no",`,
		},
	} {
		c.err.Kind, c.err.By, c.err.Executed = run.RunFailed, run.Provider, run.ExecutedYes
		got, fault := execute(t, run.Run{Ref: run.Ref{SkillID: "corp/skill", ExecutionID: "exec-1"}, State: c.status, Failure: &c.err})
		want := `{"status":"failed","run_id":"exec-1",` + c.want + `"source":"provider","executed":"yes","next":"none"}}`
		if fault != nil || string(got) != want {
			t.Errorf("%s:\n got %s %+v\nwant %s", c.name, got, fault, want)
		}
	}
}

func TestMessagesAreClean(t *testing.T) {
	for in, want := range map[string]string{
		"No  tables":                      "No  tables",
		"a\r\nb\x1b[31mc\x00":             "a  b [31mc ",
		"a\u2028b":                        "a b",
		"safe\u202etxt.exe":               "safetxt.exe",
		"tag\U000e0041\U000e0042s":        "tags",
		"\xff":                            "\ufffd",
		"Möbel 👩\u200d🔬":                  "Möbel 👩\u200d🔬",
		strings.Repeat("ä", 1000):         strings.Repeat("ä", 1000),
		strings.Repeat("ä", 1001):         strings.Repeat("ä", 999) + "…",
		strings.Repeat("\u202e", 5000):    "A credential is missing or was refused",
		strings.Repeat("\n", 100):         "A credential is missing or was refused",
		"":                                "A credential is missing or was refused",
		strings.Repeat("\n", 1) + "after": " after",
	} {
		_, fault := execute(t, run.Run{Failure: &run.Failure{Kind: run.AuthRequired, Message: in}})
		if fault.Message != want {
			t.Errorf("%.40q: %q", in, fault.Message)
		}
	}
	long := strings.Repeat("x", 1<<20)
	got, _ := execute(t, run.Run{Ref: run.Ref{ExecutionID: "e"}, Failure: &run.Failure{
		Kind: run.RunFailed, Message: long, Provider: &run.ProviderError{Code: long},
	}})
	if n := utf8.RuneCountInString(string(got)); n > 2600 {
		t.Errorf("%d characters are repeated", n)
	}
}

// The errors of the other methods are made by the same table.
func TestDescribeFailures(t *testing.T) {
	for _, row := range rows {
		for method, params := range map[string]string{
			"describe_skill":  `{"name":"asked.for"}`,
			"read_skill_file": `{"name":"asked.for","path":"descriptor.json"}`,
		} {
			b := &fakeBridge{failure: &run.Failure{Kind: row.kind, By: run.Provider, Executed: run.ExecutedNo}}
			_, fault := ask(t, b, method, params)
			if fault == nil || fault.Code != row.code || !strings.Contains(string(fault.Data), `"next":"`+string(b.failure.Next())+`"`) ||
				row.name != "" && !strings.HasPrefix(string(fault.Data), `{"code":"`+row.name+`"`) {
				t.Errorf("%s, kind %d: %+v", method, row.kind, fault)
			}
		}
	}
}

// TestNoneNear: without candidates, the message says which method lists the names.
func TestNoneNear(t *testing.T) {
	for near, want := range map[string]string{"a.b": "Invalid params: No.", "": "Invalid params: No. list_skills tells which names there are."} {
		_, fault := execute(t, run.Run{Failure: &run.Failure{
			Kind: run.SkillNotFound, Message: "No.", By: run.Bridge, Argument: &run.Argument{Field: run.FieldSkill, Candidates: strings.Fields(near)},
		}})
		if fault == nil || fault.Message != want {
			t.Errorf("%+v, want %q", fault, want)
		}
	}
}
