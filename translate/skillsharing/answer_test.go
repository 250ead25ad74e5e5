package skillsharing_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// run is the id of the run that polls ask about.
const run = "exec-1"

func TestJudgeInvocationResponse(t *testing.T) {
	long := strings.Repeat("x", 513)
	for _, c := range []struct {
		name    string
		status  int
		body    string
		knownID string
		want    Response
	}{
		{"accepted", 202, `{"execution_id":"exec-1","status":"accepted","skill_id":"a/b"}`, "", Response{ExecutionID: run, Status: StatusAccepted, SkillID: "a/b"}},
		{"accepted with 200", 200, `{"execution_id":"exec-1","status":"accepted"}`, "", Response{ExecutionID: run, Status: StatusAccepted}},
		{"running", 200, `{"execution_id":"exec-1","status":"running"}`, "", Response{ExecutionID: run, Status: StatusRunning}},
		{"completed", 200, `{"execution_id":"exec-1","status":"completed","output":{"a":1.0}}`, "", Response{ExecutionID: run, Status: StatusCompleted, Output: []byte(`{"a":1.0}`)}},
		{"raw output", 200, ` { "status" : "completed", "output" : [ 1e400, 0.10, "\u00e9" ] } `, "", Response{Status: StatusCompleted, Output: []byte(`[ 1e400, 0.10, "\u00e9" ]`)}},
		{"output null", 200, `{"execution_id":"exec-1","status":"completed","output":null}`, "", Response{ExecutionID: run, Status: StatusCompleted, Output: []byte("null")}},
		{"output absent", 200, `{"execution_id":"exec-1","status":"completed"}`, "", Response{ExecutionID: run, Status: StatusCompleted}},
		{"completed without id", 200, `{"status":"completed"}`, "", Response{Status: StatusCompleted}},
		{"completed, id null", 200, `{"execution_id":null,"status":"completed"}`, "", Response{Status: StatusCompleted}},
		{"completed, id empty", 200, `{"execution_id":"","status":"completed"}`, "", Response{Status: StatusCompleted}},
		{"completed, id a number", 200, `{"execution_id":42,"status":"completed"}`, "", Response{Status: StatusCompleted}},
		{"byte order mark", 200, "\ufeff" + `{"status":"completed"}`, "", Response{Status: StatusCompleted}},
		{"unusable id of a finished run", 200, `{"execution_id":"..","status":"completed"}`, "", Response{ExecutionID: "..", Status: StatusCompleted}},
		{"long id", 202, `{"execution_id":"` + long + `","status":"accepted"}`, "", Response{ExecutionID: long, Status: StatusAccepted}},
		{"failed", 200, `{"execution_id":"exec-1","status":"failed"}`, "", Response{ExecutionID: run, Status: StatusFailed, Error: &RunError{}}},
		{"failed with error", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":"NO_TABLE","message":"m","details":[1],"retry":{"max_attempts":1}}}`, "",
			Response{ExecutionID: run, Status: StatusFailed, Error: &RunError{Code: "NO_TABLE", Message: "m", Details: []byte("[1]"), Retry: []byte(`{"max_attempts":1}`)}}},
		{"failed, error a string", 200, `{"execution_id":"exec-1","status":"failed","error":"no table"}`, "", Response{ExecutionID: run, Status: StatusFailed, Error: &RunError{Message: "no table"}}},
		{"failed, error of wrong types", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":1,"message":[],"details":null,"retry":"soon"}}`, "", Response{ExecutionID: run, Status: StatusFailed, Error: &RunError{}}},
		{"timeout", 504, `{"execution_id":"exec-1","status":"timeout"}`, "", Response{ExecutionID: run, Status: StatusTimeout, Error: &RunError{}}},
		{"error null", 200, `{"execution_id":"exec-1","status":"running","error":null}`, "", Response{ExecutionID: run, Status: StatusRunning}},

		// It counts whatever the HTTP status, and before an error in it.
		{"status 500", 500, `{"execution_id":"exec-1","status":"completed","output":1}`, "", Response{ExecutionID: run, Status: StatusCompleted, Output: []byte("1")}},
		{"status 401", 401, `{"execution_id":"exec-1","status":"running"}`, "", Response{ExecutionID: run, Status: StatusRunning}},
		{"status 302", 302, `{"execution_id":"exec-1","status":"running"}`, "", Response{ExecutionID: run, Status: StatusRunning}},
		{"unified error in it", 403, `{"execution_id":"exec-1","status":"running","error":{"code":"PERMISSION_DENIED"}}`, "", Response{ExecutionID: run, Status: StatusRunning}},

		// What is known need not be said.
		{"poll", 200, `{"execution_id":"exec-1","status":"running"}`, run, Response{ExecutionID: run, Status: StatusRunning}},
		{"poll without id", 200, `{"status":"running"}`, run, Response{ExecutionID: run, Status: StatusRunning}},
		{"poll, id null", 200, `{"execution_id":null,"status":"failed"}`, run, Response{ExecutionID: run, Status: StatusFailed, Error: &RunError{}}},
		{"poll, id empty", 200, `{"execution_id":"","status":"completed"}`, run, Response{ExecutionID: run, Status: StatusCompleted}},
		{"poll, id escaped", 200, `{"execution_id":"exec\u002d1","status":"running"}`, run, Response{ExecutionID: run, Status: StatusRunning}},

		{"elapsed", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:00Z","updated_at":"x","completed_at":"2025-07-01T12:00:05.5+02:00"}}`, "", Response{Status: StatusCompleted, Elapsed: 5500 * time.Millisecond}},
		{"elapsed backwards", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:05Z","completed_at":"2025-07-01T10:00:00Z"}}`, "", Response{Status: StatusCompleted}},
		{"elapsed of nonsense", 200, `{"status":"completed","timestamps":{"created_at":5,"completed_at":"yesterday"}}`, "", Response{Status: StatusCompleted}},
		{"timestamps of a wrong type", 200, `{"status":"completed","timestamps":[]}`, "", Response{Status: StatusCompleted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			phase := PhaseInvoke
			if c.knownID != "" {
				phase = PhasePoll
			}
			r, e := Judge(c.status, nil, c.body, phase, c.knownID)
			if e != nil {
				t.Fatalf("error %+v", e)
			}
			if got, want := describeResponse(r), describeResponse(&c.want); got != want {
				t.Errorf("\n got %.300s\nwant %.300s", got, want)
			}
		})
	}
}

func describeResponse(r *Response) string {
	s := fmt.Sprintf("%q %s %q output=%s(nil %t) elapsed=%v after=%v", r.ExecutionID, r.Status, r.SkillID, r.Output, r.Output == nil, r.Elapsed, r.RetryAfter)
	if r.Error != nil {
		s += fmt.Sprintf(" error=%q %q %s %s", r.Error.Code, r.Error.Message, r.Error.Details, r.Error.Retry)
	}
	return s
}

func TestJudgeError(t *testing.T) {
	const args = "args rejected_by_provider"
	unified := func(code string) string {
		return `{"error":{"code":"` + code + `","message":"Because.","details":{"a":1},"retry":{"suggested_delay_ms":5,"max_attempts":2}}}`
	}
	const because = `Because. {"a":1} {"suggested_delay_ms":5,"max_attempts":2} `
	for _, c := range []struct {
		name      string
		status    int
		body      string
		phase     Phase
		code      ErrorCode
		source    Source
		executed  Executed
		arguments string
		told      string // message, details and retry; empty: whatever, but a message there must be
	}{
		// The HTTP status decides where the body says nothing.
		{"", 401, ``, PhaseInvoke, AuthRequired, SourceProvider, ExecutedNo, "", ""},
		{"", 403, ``, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", ""},
		{"", 404, ``, PhaseInvoke, SkillNotFound, SourceProvider, ExecutedNo, "", ""},
		{"", 410, ``, PhaseInvoke, SkillNotFound, SourceProvider, ExecutedNo, "", ""},
		{"", 408, ``, PhaseInvoke, InvocationTimeout, SourceProvider, ExecutedMaybe, "", ""},
		{"", 504, ``, PhaseInvoke, InvocationTimeout, SourceProvider, ExecutedMaybe, "", ""},
		{"", 502, ``, PhaseInvoke, EndpointUnreachable, SourceProvider, ExecutedMaybe, "", ""},
		{"", 503, `<html>`, PhaseInvoke, EndpointUnreachable, SourceProvider, ExecutedMaybe, "", ""},
		{"", 422, ``, PhaseInvoke, VersionIncompatible, SourceProvider, ExecutedNo, "", ""},
		{"", 422, `<html>`, PhaseInvoke, VersionIncompatible, SourceProvider, ExecutedNo, "", ""},
		{"", 429, ``, PhaseInvoke, RateLimited, SourceProvider, ExecutedNo, "", ""},
		{"", 400, ``, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 400, `no`, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 405, ``, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedNo, "", ""},
		{"", 409, `{}`, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 418, `{}`, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 500, `{}`, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 501, ``, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 599, ``, PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", ""},
		{"", 301, ``, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"", 307, ``, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"", 304, ``, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"", 200, ``, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"", 204, ``, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},

		// What is no InvocationResponse, although it looks like one.
		{"not JSON", 200, `{not json`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"array", 200, `[{"status":"completed"}]`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"scalar", 200, `"completed"`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"empty object", 200, `{}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"no status", 202, `{"execution_id":"exec-1"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"unknown status", 202, `{"execution_id":"exec-1","status":"queued"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"status in other case", 202, `{"execution_id":"exec-1","status":"Completed"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"member in other case", 200, `{"Status":"completed"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"status of a wrong type", 202, `{"execution_id":"exec-1","status":["completed"]}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"accepted without id", 202, `{"status":"accepted"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"accepted, id empty", 202, `{"execution_id":"","status":"accepted"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"accepted, id a number", 202, `{"execution_id":42,"status":"accepted"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"running, id null", 202, `{"execution_id":null,"status":"running"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"duplicate member", 200, `{"status":"failed","status":"completed"}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"duplicate member within", 200, `{"status":"completed","output":{"a":1,"a":2}}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"invalid UTF-8", 200, "{\"status\":\"completed\",\"output\":\"\xff\"}", PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"trailing data", 200, `{"status":"completed"}{}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"trailing comma", 200, `{"status":"completed",}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"truncated", 200, `{"status":"completed","output":{"a":`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"NUL", 200, "\x00", PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"deep", 200, `{"status":"completed","output":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},
		{"deep and open", 200, strings.Repeat(`{"a":`, 10_001), PhaseInvoke, InvalidProviderResponse, SourceBridge, ExecutedMaybe, "", ""},

		// A unified error decides before the HTTP status does.
		{"", 401, unified("AUTH_REQUIRED"), PhaseInvoke, AuthRequired, SourceProvider, ExecutedNo, "", because},
		{"", 403, unified("PERMISSION_DENIED"), PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", because},
		{"", 404, unified("SKILL_NOT_FOUND"), PhaseInvoke, SkillNotFound, SourceProvider, ExecutedNo, "", because},
		{"", 504, unified("INVOCATION_TIMEOUT"), PhaseInvoke, InvocationTimeout, SourceProvider, ExecutedMaybe, "", because},
		{"", 504, unified("EXECUTION_TIMEOUT"), PhaseInvoke, InvocationTimeout, SourceProvider, ExecutedMaybe, "", because},
		{"", 503, unified("ENDPOINT_UNREACHABLE"), PhaseInvoke, EndpointUnreachable, SourceProvider, ExecutedMaybe, "", because},
		{"", 422, unified("VERSION_INCOMPATIBLE"), PhaseInvoke, VersionIncompatible, SourceProvider, ExecutedNo, "", because},
		{"", 429, unified("RATE_LIMITED"), PhaseInvoke, RateLimited, SourceProvider, ExecutedNo, "", because},
		{"", 400, unified("VALIDATION_ERROR"), PhaseInvoke, ValidationError, SourceProvider, ExecutedMaybe, args, because},
		{"", 422, unified("VALIDATION_ERROR"), PhaseInvoke, ValidationError, SourceProvider, ExecutedNo, args, because},
		{"", 200, unified("AUTH_REQUIRED"), PhaseInvoke, AuthRequired, SourceProvider, ExecutedMaybe, "", because},
		{"", 500, unified("PERMISSION_DENIED"), PhaseInvoke, PermissionDenied, SourceProvider, ExecutedMaybe, "", because},
		{"", 403, unified("AUTH_REQUIRED"), PhaseInvoke, AuthRequired, SourceProvider, ExecutedNo, "", because},

		// An unknown code leaves it to the HTTP status.
		{"", 401, unified("TOKEN_EXPIRED"), PhaseInvoke, AuthRequired, SourceProvider, ExecutedNo, "", because},
		{"", 503, unified("OOPS"), PhaseInvoke, EndpointUnreachable, SourceProvider, ExecutedMaybe, "", because},
		{"", 409, unified("OOPS"), PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", because},
		{"", 418, unified("auth_required"), PhaseInvoke, InvalidProviderResponse, SourceProvider, ExecutedMaybe, "", because},
		{"", 400, unified("OOPS"), PhaseInvoke, ValidationError, SourceProvider, ExecutedMaybe, args, "Because. " + unified("OOPS") + ` {"suggested_delay_ms":5,"max_attempts":2} `},

		// Members of the error, as they come.
		{"error a string", 401, `{"error":"unauthorized"}`, PhaseInvoke, AuthRequired, SourceProvider, ExecutedNo, "", "unauthorized   "},
		{"code alone", 403, `{"error":{"code":"PERMISSION_DENIED"}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message empty", 403, `{"error":{"code":"PERMISSION_DENIED","message":""}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message of a wrong type", 403, `{"error":{"code":"PERMISSION_DENIED","message":{}}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"details a string", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":"no scope"}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", `m "no scope"  `},
		{"details a number", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":1.50}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", `m 1.50  `},
		{"details false", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":false}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", `m false  `},
		{"details null", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":null}}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "m   "},
		{"retry of a wrong type", 429, `{"error":{"code":"RATE_LIMITED","message":"m","retry":true}}`, PhaseInvoke, RateLimited, SourceProvider, ExecutedNo, "", "m   "},
		{"error null", 403, `{"error":null}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"error an array", 403, `{"error":["AUTH_REQUIRED"]}`, PhaseInvoke, PermissionDenied, SourceProvider, ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},

		// 400 and 422 with JSON of any other form are about the arguments.
		{"", 400, ` {"detail":"days must be positive"} `, PhaseInvoke, ValidationError, SourceProvider, ExecutedMaybe, args, `The provider answered HTTP 400 Bad Request. {"detail":"days must be positive"}  `},
		{"", 422, `[{"loc":["days"]}]`, PhaseInvoke, ValidationError, SourceProvider, ExecutedNo, args, `The provider answered HTTP 422 Unprocessable Entity. [{"loc":["days"]}]  `},
		{"", 422, `"no"`, PhaseInvoke, ValidationError, SourceProvider, ExecutedNo, args, ""},
		{"", 400, `{"error":"bad days"}`, PhaseInvoke, ValidationError, SourceProvider, ExecutedMaybe, args, `bad days {"error":"bad days"}  `},
		{"", 422, `{"a":1}{`, PhaseInvoke, VersionIncompatible, SourceProvider, ExecutedNo, "", ""},

		// A run that was accepted stays accepted.
		{"", 401, ``, PhasePoll, AuthRequired, SourceProvider, ExecutedYes, "", ""},
		{"", 403, ``, PhasePoll, PermissionDenied, SourceProvider, ExecutedYes, "", ""},
		{"", 404, ``, PhasePoll, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 410, ``, PhaseResult, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 404, unified("SKILL_NOT_FOUND"), PhasePoll, InvalidProviderResponse, SourceProvider, ExecutedYes, "", because},
		{"", 404, unified("EXECUTION_NOT_FOUND"), PhaseResult, InvalidProviderResponse, SourceProvider, ExecutedYes, "", because},
		{"", 422, ``, PhasePoll, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 422, `{"a":1}`, PhaseResult, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 422, unified("VERSION_INCOMPATIBLE"), PhasePoll, InvalidProviderResponse, SourceProvider, ExecutedYes, "", because},
		{"", 400, `{"a":1}`, PhasePoll, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 408, ``, PhasePoll, InvocationTimeout, SourceProvider, ExecutedYes, "", ""},
		{"", 429, ``, PhasePoll, RateLimited, SourceProvider, ExecutedYes, "", ""},
		{"", 500, ``, PhaseResult, InvalidProviderResponse, SourceProvider, ExecutedYes, "", ""},
		{"", 503, ``, PhasePoll, EndpointUnreachable, SourceProvider, ExecutedYes, "", ""},
		{"", 302, ``, PhasePoll, InvalidProviderResponse, SourceBridge, ExecutedYes, "", ""},
		{"garbage", 200, `garbage`, PhasePoll, InvalidProviderResponse, SourceBridge, ExecutedYes, "", ""},
		{"unknown status", 200, `{"status":"queued"}`, PhasePoll, InvalidProviderResponse, SourceBridge, ExecutedYes, "", ""},
		{"another run", 200, `{"execution_id":"exec-2","status":"completed"}`, PhasePoll, InvalidProviderResponse, SourceBridge, ExecutedYes, "", "The provider answered about another run than exec-1.   "},
		{"another run", 200, `{"execution_id":"exec-2","status":"running"}`, PhaseResult, InvalidProviderResponse, SourceBridge, ExecutedYes, "", ""},
		{"a numbered run", 200, `{"execution_id":1,"status":"completed"}`, PhasePoll, InvalidProviderResponse, SourceBridge, ExecutedYes, "", ""},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintf("%s %d %s %.20s", c.phase, c.status, c.name, c.body)), func(t *testing.T) {
			knownID := ""
			if c.phase != PhaseInvoke {
				knownID = run
			}
			r, e := Judge(c.status, nil, c.body, c.phase, knownID)
			if e == nil {
				t.Fatalf("it is an InvocationResponse: %s", describeResponse(r))
			}
			if e.Code != c.code || e.Source != c.source || e.Executed != c.executed {
				t.Errorf("%s by the %s, executed: %s; want %s, %s, %s", e.Code, e.Source, e.Executed, c.code, c.source, c.executed)
			}
			arguments := ""
			if e.Arguments != nil {
				arguments = strings.TrimSpace(e.Arguments.Param + " " + e.Arguments.Reason)
			}
			if arguments != c.arguments {
				t.Errorf("arguments %q, want %q", arguments, c.arguments)
			}
			if e.HTTPStatus != c.status || e.Phase != c.phase || e.ExecutionID != knownID {
				t.Errorf("HTTP %d in phase %s about run %q", e.HTTPStatus, e.Phase, e.ExecutionID)
			}
			told := fmt.Sprintf("%s %s %s ", e.Message, string(e.Details), string(e.Retry))
			if c.told != "" && told != c.told || e.Message == "" {
				t.Errorf("told:\n got %s\nwant %s", told, c.told)
			}
			if want := map[bool]Source{true: SourceProvider}[e.Details != nil]; e.DetailsSource != want {
				t.Errorf("the details are %q's, want %q", e.DetailsSource, want)
			}
		})
	}
}

// A run of which the provider knows nothing can't be followed by asking again.
func TestJudgeLostRun(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   Hint
	}{
		{404, ``, HintRunLost},
		{410, ``, HintRunLost},
		{404, `{"error":{"code":"NOT_FOUND"}}`, HintRunLost},
		{400, `{"error":{"code":"SKILL_NOT_FOUND"}}`, HintRunLost},
		{422, ``, HintNone},
		{401, ``, HintNone},
		{503, ``, HintNone},
		{200, `garbage`, HintNone},
	} {
		if _, e := Judge(c.status, nil, c.body, PhasePoll, run); e == nil || e.Hint != c.want {
			t.Errorf("%d %s: %+v, want hint %d", c.status, c.body, e, c.want)
		}
	}
	if _, e := Judge(404, nil, "", PhaseInvoke, ""); e.Hint != HintNone {
		t.Errorf("an invocation has lost a run: %+v", e)
	}
}

func TestJudgeBoundsDetails(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		frame  string
		size   int // of the details, with their quotation marks
		passed bool
	}{
		{"rejection of 2 KiB", 400, `%s`, 2 << 10, true},
		{"longer rejection", 422, `%s`, 2<<10 + 1, false},
		{"details of 64 KiB", 403, `{"error":{"code":"PERMISSION_DENIED","details":%s}}`, 64 << 10, true},
		{"longer details", 403, `{"error":{"code":"PERMISSION_DENIED","details":%s}}`, 64<<10 + 1, false},
		{"longer details of rejected arguments", 400, `{"error":{"code":"VALIDATION_ERROR","details":%s}}`, 64<<10 + 1, false},
	} {
		details := `"` + strings.Repeat("x", c.size-2) + `"`
		_, e := Judge(c.status, nil, fmt.Sprintf(c.frame, details), PhaseInvoke, "")
		if e == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if passed := string(e.Details) == details; passed != c.passed || len(e.Details) > c.size || !e.Details.IsValid() {
			t.Errorf("%s: %d bytes, %.60s…", c.name, len(e.Details), e.Details)
		}
	}
}

// An answer within the depth that the parser accepts is passed on as it is.
func TestJudgeDeepOutput(t *testing.T) {
	output := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	r, e := Judge(200, nil, `{"status":"completed","output":`+output+`}`, PhaseInvoke, "")
	if e != nil || string(r.Output) != output {
		t.Fatalf("%v, %v", r, e)
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose clock stands still
		const day = 24 * time.Hour
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, c := range []struct {
			value string
			want  time.Duration
		}{
			{"", 0},
			{"0", 0},
			{"2", 2 * time.Second},
			{" 120 ", 2 * time.Minute},
			{"007", 7 * time.Second},
			{"86400", day},
			{"86401", day},
			{"4294967296", day},
			{"9999999999999999999999999999", day},
			{"-1", 0},
			{"+5", 0},
			{"1.5", 0},
			{"1e3", 0},
			{"soon", 0},
			{"5 seconds", 0},
			{"-99999999999999999999999999", 0},
			{date(90 * time.Second), 90 * time.Second},
			{date(-time.Hour), 0},
			{date(100 * day), day},
			{time.Now().Add(time.Minute).UTC().Format(time.RFC850), time.Minute},
			{time.Now().Add(time.Minute).UTC().Format(time.ANSIC), time.Minute},
			{"Fri, 31 Dec 9999 23:59:59 GMT", day},
			{"Fri, 31 Foo 2026 23:59:59 GMT", 0},
			{"2026-01-01T00:00:00Z", 0},
		} {
			header := http.Header{"Retry-After": {c.value}}
			r, e := Judge(202, header, `{"execution_id":"exec-1","status":"accepted"}`, PhaseInvoke, "")
			if e != nil {
				t.Fatal(e)
			}
			if r.RetryAfter != c.want {
				t.Errorf("%q: %v, want %v", c.value, r.RetryAfter, c.want)
			}
			_, e = Judge(429, header, ``, PhaseInvoke, "")
			suggested := ""
			if c.want > 0 {
				suggested = fmt.Sprintf(`{"suggested_delay_ms":%d,"max_attempts":1}`, c.want.Milliseconds())
			}
			if string(e.Retry) != suggested {
				t.Errorf("%q: retry %s, want %s", c.value, e.Retry, suggested)
			}
		}
	})
}

// What the provider says in the body is passed on as it is, whatever its header says.
func TestRetryMemberBeforeRetryAfter(t *testing.T) {
	_, e := Judge(429, http.Header{"Retry-After": {"60"}}, `{"error":{"code":"RATE_LIMITED","retry":{"suggested_delay_ms":7}}}`, PhaseInvoke, "")
	if string(e.Retry) != `{"suggested_delay_ms":7}` {
		t.Errorf("retry %s", e.Retry)
	}
}
