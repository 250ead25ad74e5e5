package exchange_test

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// runID is the id of the run that polls ask about.
const runID = "exec-1"

func TestJudgeInvocationResponse(t *testing.T) {
	long := strings.Repeat("x", 513)
	for _, c := range []struct {
		name    string
		status  int
		body    string
		knownID string
		want    document.Response
	}{
		{"accepted", 202, `{"execution_id":"exec-1","status":"accepted","skill_id":"a/b"}`, "", document.Response{ExecutionID: runID, State: run.Accepted, SkillID: "a/b"}},
		{"accepted with 200", 200, `{"execution_id":"exec-1","status":"accepted"}`, "", document.Response{ExecutionID: runID, State: run.Accepted}},
		{"running", 200, `{"execution_id":"exec-1","status":"running"}`, "", document.Response{ExecutionID: runID, State: run.Working}},
		{"completed", 200, `{"execution_id":"exec-1","status":"completed","output":{"a":1.0}}`, "", document.Response{ExecutionID: runID, State: run.Completed, Output: []byte(`{"a":1.0}`)}},
		{"raw output", 200, ` { "status" : "completed", "output" : [ 1e400, 0.10, "\u00e9" ] } `, "", document.Response{State: run.Completed, Output: []byte(`[ 1e400, 0.10, "\u00e9" ]`)}},
		{"output null", 200, `{"execution_id":"exec-1","status":"completed","output":null}`, "", document.Response{ExecutionID: runID, State: run.Completed, Output: []byte("null")}},
		{"output absent", 200, `{"execution_id":"exec-1","status":"completed"}`, "", document.Response{ExecutionID: runID, State: run.Completed}},
		{"completed without id", 200, `{"status":"completed"}`, "", document.Response{State: run.Completed}},
		{"completed, id null", 200, `{"execution_id":null,"status":"completed"}`, "", document.Response{State: run.Completed}},
		{"completed, id empty", 200, `{"execution_id":"","status":"completed"}`, "", document.Response{State: run.Completed}},
		{"completed, id a number", 200, `{"execution_id":42,"status":"completed"}`, "", document.Response{State: run.Completed}},
		{"byte order mark", 200, "\ufeff" + `{"status":"completed"}`, "", document.Response{State: run.Completed}},
		{"unusable id of a finished run", 200, `{"execution_id":"..","status":"completed"}`, "", document.Response{ExecutionID: "..", State: run.Completed}},
		{"long id", 202, `{"execution_id":"` + long + `","status":"accepted"}`, "", document.Response{ExecutionID: long, State: run.Accepted}},
		{"failed", 200, `{"execution_id":"exec-1","status":"failed"}`, "", document.Response{ExecutionID: runID, State: run.Failed, Error: &document.RunError{}}},
		{
			"failed with error", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":"NO_TABLE","message":"m","details":[1],"retry":{"max_attempts":1}}}`, "",
			document.Response{ExecutionID: runID, State: run.Failed, Error: &document.RunError{Code: "NO_TABLE", Message: "m", Details: []byte("[1]"), Retry: []byte(`{"max_attempts":1}`)}},
		},
		{"failed, error a string", 200, `{"execution_id":"exec-1","status":"failed","error":"no table"}`, "", document.Response{ExecutionID: runID, State: run.Failed, Error: &document.RunError{Message: "no table"}}},
		{"failed, error of wrong types", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":1,"message":[],"details":null,"retry":"soon"}}`, "", document.Response{ExecutionID: runID, State: run.Failed, Error: &document.RunError{}}},
		{"timeout", 504, `{"execution_id":"exec-1","status":"timeout"}`, "", document.Response{ExecutionID: runID, State: run.TimedOut, Error: &document.RunError{}}},
		{"error null", 200, `{"execution_id":"exec-1","status":"running","error":null}`, "", document.Response{ExecutionID: runID, State: run.Working}},

		// It counts whatever the HTTP status, and before an error in it.
		{"status 500", 500, `{"execution_id":"exec-1","status":"completed","output":1}`, "", document.Response{ExecutionID: runID, State: run.Completed, Output: []byte("1")}},
		{"status 401", 401, `{"execution_id":"exec-1","status":"running"}`, "", document.Response{ExecutionID: runID, State: run.Working}},
		{"status 302", 302, `{"execution_id":"exec-1","status":"running"}`, "", document.Response{ExecutionID: runID, State: run.Working}},
		{"unified error in it", 403, `{"execution_id":"exec-1","status":"running","error":{"code":"PERMISSION_DENIED"}}`, "", document.Response{ExecutionID: runID, State: run.Working}},

		// What is known need not be said.
		{"poll", 200, `{"execution_id":"exec-1","status":"running"}`, runID, document.Response{ExecutionID: runID, State: run.Working}},
		{"poll without id", 200, `{"status":"running"}`, runID, document.Response{ExecutionID: runID, State: run.Working}},
		{"poll, id null", 200, `{"execution_id":null,"status":"failed"}`, runID, document.Response{ExecutionID: runID, State: run.Failed, Error: &document.RunError{}}},
		{"poll, id empty", 200, `{"execution_id":"","status":"completed"}`, runID, document.Response{ExecutionID: runID, State: run.Completed}},
		{"poll, id escaped", 200, `{"execution_id":"exec\u002d1","status":"running"}`, runID, document.Response{ExecutionID: runID, State: run.Working}},

		{"elapsed", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:00Z","updated_at":"x","completed_at":"2025-07-01T12:00:05.5+02:00"}}`, "", document.Response{State: run.Completed, Elapsed: 5500 * time.Millisecond}},
		{"elapsed backwards", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:05Z","completed_at":"2025-07-01T10:00:00Z"}}`, "", document.Response{State: run.Completed}},
		{"elapsed of nonsense", 200, `{"status":"completed","timestamps":{"created_at":5,"completed_at":"yesterday"}}`, "", document.Response{State: run.Completed}},
		{"timestamps of a wrong type", 200, `{"status":"completed","timestamps":[]}`, "", document.Response{State: run.Completed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			phase := run.PhaseInvoke
			if c.knownID != "" {
				phase = run.PhasePoll
			}
			r, e := exchange.Judge(c.status, nil, c.body, phase, c.knownID)
			if e != nil {
				t.Fatalf("error %+v", e)
			}
			if got, want := describeResponse(r), describeResponse(&c.want); got != want {
				t.Errorf("\n got %.300s\nwant %.300s", got, want)
			}
		})
	}
}

func describeResponse(r *document.Response) string {
	s := fmt.Sprintf("%q %s %q output=%s(nil %t) elapsed=%v after=%v", r.ExecutionID, r.State, r.SkillID, r.Output, r.Output == nil, r.Elapsed, r.RetryAfter)
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
		phase     run.Phase
		code      run.Kind
		source    run.Party
		executed  run.Executed
		arguments string
		told      string // message, details and retry; empty: whatever, but a message there must be
	}{
		// The HTTP status decides where the body says nothing.
		{"", 401, ``, run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedNo, "", ""},
		{"", 403, ``, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", ""},
		{"", 404, ``, run.PhaseInvoke, run.SkillNotFound, run.Provider, run.ExecutedNo, "", ""},
		{"", 410, ``, run.PhaseInvoke, run.SkillNotFound, run.Provider, run.ExecutedNo, "", ""},
		{"", 408, ``, run.PhaseInvoke, run.DeadlineExceeded, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 504, ``, run.PhaseInvoke, run.DeadlineExceeded, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 502, ``, run.PhaseInvoke, run.Unreachable, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 503, `<html>`, run.PhaseInvoke, run.Unreachable, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 422, ``, run.PhaseInvoke, run.VersionIncompatible, run.Provider, run.ExecutedNo, "", ""},
		{"", 422, `<html>`, run.PhaseInvoke, run.VersionIncompatible, run.Provider, run.ExecutedNo, "", ""},
		{"", 429, ``, run.PhaseInvoke, run.RateLimited, run.Provider, run.ExecutedNo, "", ""},
		{"", 400, ``, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 400, `no`, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 405, ``, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedNo, "", ""},
		{"", 409, `{}`, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 418, `{}`, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 500, `{}`, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 501, ``, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 599, ``, run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", ""},
		{"", 301, ``, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"", 307, ``, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"", 304, ``, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"", 200, ``, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"", 204, ``, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},

		// What is no InvocationResponse, although it looks like one.
		{"not JSON", 200, `{not json`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"array", 200, `[{"status":"completed"}]`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"scalar", 200, `"completed"`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"empty object", 200, `{}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"no status", 202, `{"execution_id":"exec-1"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"unknown status", 202, `{"execution_id":"exec-1","status":"queued"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"status in other case", 202, `{"execution_id":"exec-1","status":"Completed"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"member in other case", 200, `{"Status":"completed"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"status of a wrong type", 202, `{"execution_id":"exec-1","status":["completed"]}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"accepted without id", 202, `{"status":"accepted"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"accepted, id empty", 202, `{"execution_id":"","status":"accepted"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"accepted, id a number", 202, `{"execution_id":42,"status":"accepted"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"running, id null", 202, `{"execution_id":null,"status":"running"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"duplicate member", 200, `{"status":"failed","status":"completed"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"two ids", 200, `{"execution_id":"a","execution_id":"b","status":"completed"}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"invalid UTF-8", 200, "{\"status\":\"completed\xff\"}", run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"trailing data", 200, `{"status":"completed"}{}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"trailing comma", 200, `{"status":"completed",}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"truncated", 200, `{"status":"completed","output":{"a":`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"NUL", 200, "\x00", run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"deep", 200, `{"status":"completed","output":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},
		{"deep and open", 200, strings.Repeat(`{"a":`, 10_001), run.PhaseInvoke, run.ProviderFault, run.Bridge, run.ExecutedMaybe, "", ""},

		// A unified error decides before the HTTP status does.
		{"", 401, unified("AUTH_REQUIRED"), run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedNo, "", because},
		{"", 403, unified("PERMISSION_DENIED"), run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", because},
		{"", 404, unified("SKILL_NOT_FOUND"), run.PhaseInvoke, run.SkillNotFound, run.Provider, run.ExecutedNo, "", because},
		{"", 504, unified("INVOCATION_TIMEOUT"), run.PhaseInvoke, run.DeadlineExceeded, run.Provider, run.ExecutedMaybe, "", because},
		{"", 504, unified("EXECUTION_TIMEOUT"), run.PhaseInvoke, run.DeadlineExceeded, run.Provider, run.ExecutedMaybe, "", because},
		{"", 503, unified("ENDPOINT_UNREACHABLE"), run.PhaseInvoke, run.Unreachable, run.Provider, run.ExecutedMaybe, "", because},
		{"", 422, unified("VERSION_INCOMPATIBLE"), run.PhaseInvoke, run.VersionIncompatible, run.Provider, run.ExecutedNo, "", because},
		{"", 429, unified("RATE_LIMITED"), run.PhaseInvoke, run.RateLimited, run.Provider, run.ExecutedNo, "", because},
		{"", 400, unified("VALIDATION_ERROR"), run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedMaybe, args, because},
		{"", 422, unified("VALIDATION_ERROR"), run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedNo, args, because},
		{"", 200, unified("AUTH_REQUIRED"), run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedMaybe, "", because},
		{"", 500, unified("PERMISSION_DENIED"), run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedMaybe, "", because},
		{"", 403, unified("AUTH_REQUIRED"), run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedNo, "", because},

		// An unknown code leaves it to the HTTP status.
		{"", 401, unified("TOKEN_EXPIRED"), run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedNo, "", because},
		{"", 503, unified("OOPS"), run.PhaseInvoke, run.Unreachable, run.Provider, run.ExecutedMaybe, "", because},
		{"", 409, unified("OOPS"), run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", because},
		{"", 418, unified("auth_required"), run.PhaseInvoke, run.ProviderFault, run.Provider, run.ExecutedMaybe, "", because},
		{"", 400, unified("OOPS"), run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedMaybe, args, "Because. " + unified("OOPS") + ` {"suggested_delay_ms":5,"max_attempts":2} `},

		// Members of the error, as they come.
		{"error a string", 401, `{"error":"unauthorized"}`, run.PhaseInvoke, run.AuthRequired, run.Provider, run.ExecutedNo, "", "unauthorized   "},
		{"code alone", 403, `{"error":{"code":"PERMISSION_DENIED"}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message empty", 403, `{"error":{"code":"PERMISSION_DENIED","message":""}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message of a wrong type", 403, `{"error":{"code":"PERMISSION_DENIED","message":{}}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"details a string", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":"no scope"}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", `m "no scope"  `},
		{"details a number", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":1.50}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", `m 1.50  `},
		{"details false", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":false}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", `m false  `},
		{"details null", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":null}}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "m   "},
		{"retry of a wrong type", 429, `{"error":{"code":"RATE_LIMITED","message":"m","retry":true}}`, run.PhaseInvoke, run.RateLimited, run.Provider, run.ExecutedNo, "", "m   "},
		{"error null", 403, `{"error":null}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"error an array", 403, `{"error":["AUTH_REQUIRED"]}`, run.PhaseInvoke, run.PermissionDenied, run.Provider, run.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},

		// 400 and 422 with JSON of any other form are about the arguments.
		{"", 400, ` {"detail":"days must be positive"} `, run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedMaybe, args, `The provider answered HTTP 400 Bad Request. {"detail":"days must be positive"}  `},
		{"", 422, `[{"loc":["days"]}]`, run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedNo, args, `The provider answered HTTP 422 Unprocessable Entity. [{"loc":["days"]}]  `},
		{"", 422, `"no"`, run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedNo, args, ""},
		{"", 400, `{"error":"bad days"}`, run.PhaseInvoke, run.InvalidArguments, run.Provider, run.ExecutedMaybe, args, `bad days {"error":"bad days"}  `},
		{"", 422, `{"a":1}{`, run.PhaseInvoke, run.VersionIncompatible, run.Provider, run.ExecutedNo, "", ""},

		// A run that was accepted stays accepted.
		{"", 401, ``, run.PhasePoll, run.AuthRequired, run.Provider, run.ExecutedYes, "", ""},
		{"", 403, ``, run.PhasePoll, run.PermissionDenied, run.Provider, run.ExecutedYes, "", ""},
		{"", 404, ``, run.PhasePoll, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 410, ``, run.PhaseResult, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 404, unified("SKILL_NOT_FOUND"), run.PhasePoll, run.ProviderFault, run.Provider, run.ExecutedYes, "", because},
		{"", 404, unified("EXECUTION_NOT_FOUND"), run.PhaseResult, run.ProviderFault, run.Provider, run.ExecutedYes, "", because},
		{"", 422, ``, run.PhasePoll, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 422, `{"a":1}`, run.PhaseResult, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 422, unified("VERSION_INCOMPATIBLE"), run.PhasePoll, run.ProviderFault, run.Provider, run.ExecutedYes, "", because},
		{"", 400, `{"a":1}`, run.PhasePoll, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 408, ``, run.PhasePoll, run.DeadlineExceeded, run.Provider, run.ExecutedYes, "", ""},
		{"", 429, ``, run.PhasePoll, run.RateLimited, run.Provider, run.ExecutedYes, "", ""},
		{"", 500, ``, run.PhaseResult, run.ProviderFault, run.Provider, run.ExecutedYes, "", ""},
		{"", 503, ``, run.PhasePoll, run.Unreachable, run.Provider, run.ExecutedYes, "", ""},
		{"", 302, ``, run.PhasePoll, run.ProviderFault, run.Bridge, run.ExecutedYes, "", ""},
		{"garbage", 200, `garbage`, run.PhasePoll, run.ProviderFault, run.Bridge, run.ExecutedYes, "", ""},
		{"unknown status", 200, `{"status":"queued"}`, run.PhasePoll, run.ProviderFault, run.Bridge, run.ExecutedYes, "", ""},
		{"another run", 200, `{"execution_id":"exec-2","status":"completed"}`, run.PhasePoll, run.ProviderFault, run.Bridge, run.ExecutedYes, "", "The provider's answer is about a run other than exec-1.   "},
		{"another run", 200, `{"execution_id":"exec-2","status":"running"}`, run.PhaseResult, run.ProviderFault, run.Bridge, run.ExecutedYes, "", ""},
		{"a numbered run", 200, `{"execution_id":1,"status":"completed"}`, run.PhasePoll, run.ProviderFault, run.Bridge, run.ExecutedYes, "", ""},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintf("%s %d %s %.20s", c.phase, c.status, c.name, c.body)), func(t *testing.T) {
			knownID := ""
			if c.phase != run.PhaseInvoke {
				knownID = runID
			}
			r, e := exchange.Judge(c.status, nil, c.body, c.phase, knownID)
			if e == nil {
				t.Fatalf("it is an InvocationResponse: %s", describeResponse(r))
			}
			if e.Kind != c.code || e.By != c.source || e.Executed != c.executed {
				t.Errorf("%s by the %s, executed: %s; want %s, %s, %s", e.Kind, e.By, e.Executed, c.code, c.source, c.executed)
			}
			arguments := ""
			if e.Argument != nil {
				arguments = strings.TrimSpace(skillsprotocol.Param(e.Argument) + " " + string(e.Argument.Reason))
			}
			if arguments != c.arguments {
				t.Errorf("arguments %q, want %q", arguments, c.arguments)
			}
			if e.HTTPStatus != c.status || e.Phase != c.phase || e.ExecutionID != knownID {
				t.Errorf("HTTP %d in phase %s about run %q", e.HTTPStatus, e.Phase, e.ExecutionID)
			}
			details := e.ProviderSaid().Details
			if details == nil {
				details = front.Details(e)
			}
			told := fmt.Sprintf("%s %s %s ", e.Message, string(details), string(retryOf(e)))
			if c.told != "" && told != c.told || e.Message == "" {
				t.Errorf("told:\n got %s\nwant %s", told, c.told)
			}
			if want := front.Details(e) != nil && !strings.Contains(string(front.Details(e)), `{"limit":"depth"`); e.HasProviderText() != want {
				t.Errorf("the details are the provider's: %t, want %t", e.HasProviderText(), want)
			}
		})
	}
}

// A run of which the provider knows nothing can't be followed by asking again.
func TestJudgeLostRun(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   bool
	}{
		{404, ``, true},
		{410, ``, true},
		{404, `{"error":{"code":"NOT_FOUND"}}`, true},
		{400, `{"error":{"code":"SKILL_NOT_FOUND"}}`, true},
		{422, ``, false},
		{401, ``, false},
		{503, ``, false},
		{200, `garbage`, false},
	} {
		if _, e := exchange.Judge(c.status, nil, c.body, run.PhasePoll, runID); e == nil || e.Lost != c.want {
			t.Errorf("%d %s: %+v, want lost %t", c.status, c.body, e, c.want)
		}
	}
	if _, e := exchange.Judge(404, nil, "", run.PhaseInvoke, ""); e.Lost {
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
		_, e := exchange.Judge(c.status, nil, fmt.Sprintf(c.frame, details), run.PhaseInvoke, "")
		if e == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if passed := string(front.Details(e)) == details; passed != c.passed || len(front.Details(e)) > c.size || !front.Details(e).IsValid() {
			t.Errorf("%s: %d bytes, %.60s…", c.name, len(front.Details(e)), front.Details(e))
		}
	}
}

// An answer within the depth that is accepted is passed on as it is.
func TestJudgeDeepOutput(t *testing.T) {
	output := strings.Repeat("[", 511) + strings.Repeat("]", 511)
	r, e := exchange.Judge(200, nil, `{"status":"completed","output":`+output+`}`, run.PhaseInvoke, "")
	if e != nil || string(r.Output) != output {
		t.Fatalf("%v, %v", r, e)
	}
}

// TestRetryAfterByTheDateOfTheAnswer: the clock of the provider may be another one.
func TestRetryAfterByTheDateOfTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, c := range []struct {
			after, date string
			want        time.Duration
		}{
			{date(time.Hour + 5*time.Second), date(time.Hour), 5 * time.Second},
			{date(5*time.Second - time.Hour), date(-time.Hour), 5 * time.Second},
			{date(-time.Hour), date(time.Hour), 0},
			{date(5 * time.Second), "soon", 5 * time.Second},
			{"7", date(time.Hour), 7 * time.Second},
			{date(1000 * time.Hour), date(-1000 * time.Hour), 24 * time.Hour},
		} {
			header := http.Header{"Retry-After": {c.after}, "Date": {c.date}}
			if got := exchange.RetryAfter(header); got != c.want {
				t.Errorf("%q at %q: %v, want %v", c.after, c.date, got, c.want)
			}
		}
	})
}

// TestRepairedAnswers: a run is not lost because of JSON whose meaning can be told. What was wrong is said.
func TestRepairedAnswers(t *testing.T) {
	body := func(output string) string {
		return `{"execution_id":"exec-1","status":"completed","output":` + output + `}`
	}
	for _, c := range []struct {
		body, output string // empty: it is no run
		warnings     []string
	}{
		{body(`"a\ud83d"`), "\"a\ufffd\"", []string{`half of a surrogate pair (\ud800 to \udfff), at "/output" (byte`}},
		{body(`["\uDE00","\ud83d\ude00\ud83d\ud83d\ude00","\\ud83d",1e400,0.10]`), `["�","😀�😀","\\ud83d",1e400,0.10]`, []string{`at "/output/0"`}},
		{body(`{"\ud83d":1}`), `{"�":1}`, []string{"U+FFFD is in place"}},
		{body(`{"a":1,"b":2,"a":{"c":3}}`), `{"b":2,"a":{"c":3}}`, []string{`the same name, at "/output/a" (byte`}},
		{body(`{"a":{"b":1,"b":2},"c":[{"d":1, "d" : 2,"d":3}],"a":[0]}`), `{"c":[{"d":3}],"a":[0]}`, []string{"the last of several"}},
		{body(`{"a":1,"\u0061":2}`), `{"a":2}`, []string{"the same name"}},
		{body(`{"a":"\ud83d","a":"\ud83d"}`), `{"a":"�"}`, []string{"surrogate"}},
		{"\ufeff" + body(`"\udc00"`), `"�"`, []string{"surrogate"}},
		{body(`{"a":1,"a":2}`) + " ", `{"a":2}`, []string{"the same name"}},
		{`{"status":"running","output":1,"execution_id":"exec-1","output":2,"status":"completed"}`, "", nil},
		{`{"execution_id":"exec-1","status":"running","status":"completed","status":"running","output":1}`, "", nil},
		{`{"execution_id":"exec-1","execution_id":"exec-2","status":"completed","output":1}`, "", nil},
		{`{"execution_id":"exec-2","execution_id":"exec-1","status":"completed","output":1}`, "", nil},
		{`{"execution_id":"exec-1","status":"failed","st\u0061tus":"completed","output":1}`, "", nil},
		{`{"execution_id":"exec-1","status":"completed","status":["completed"],"output":1}`, "", nil},
		{`{"execution_id":"exec-1","status":5,"status":"completed","output":1}`, "", nil},
		{body(`1,"output":{"a":[2]}`), `{"a":[2]}`, []string{`the same name, at "/output" (byte`}},
		{body(`{"a":1,"a":2},"output":{"b":3,"b":4}`), `{"b":4}`, []string{"the same name"}},
		{body(`1,"foo":1,"foo":{"status":"failed","status":2}`), `1`, []string{`at "/foo"`}},
		{body(`1,"execution_id":"exec\u002d1","status":"completed"`), `1`, []string{`at "/execution_id"`}},
		{body(`1,"skill_id":"a","error":null,"error":{},"skill_id":"b"`), `1`, []string{"the same name"}},
		{`{"execution_id":"exec-1\ud800","status":"completed","output":1}`, "", nil},
		{body("\"caf\xe9 \xe2\x82\""), "\"caf\ufffd \ufffd\ufffd\"", []string{`a text is not UTF-8, at "/output" (byte`}},
		{body("{\"\xff\":1,\"b\":\"\\ud83d\",\"\xfe\":2}"), "{\"b\":\"\ufffd\",\"\ufffd\":2}", []string{"not UTF-8"}},
		{body("1,\"x\":\"\xff\",\"output\":2"), "2", []string{"not UTF-8"}},
		{"{\"execution_id\":\"exec-1\",\"status\":\"completed\xff\",\"output\":1}", "", nil},
		{"{\"execution_id\":\"exec-1\xff\",\"status\":\"completed\",\"output\":1}", "", nil},
		{body("\"\xff\"\xff"), "", nil},
		{body("\"\xff" + strings.Repeat("x", 1<<20) + "\""), "", nil}, // too large
		{body(`"\ud83d",`), "", nil},
		{body(`"\ud83`), "", nil},
		{body(`{"a":1,"a":2]`), "", nil},
		{body(`{"a":1,"a":"` + strings.Repeat("x", 1<<20) + `"}`), "", nil}, // too large
		{body(`1`), `1`, nil},
	} {
		r, e := exchange.Judge(200, nil, c.body, run.PhasePoll, "exec-1")
		if c.output == "" {
			if e == nil {
				t.Errorf("%.100s: %s", c.body, r.Output)
			}
			continue
		}
		if e != nil {
			t.Errorf("%s: %v", c.body, e)
			continue
		}
		if r.State != run.Completed || string(r.Output) != c.output || len(r.Warnings) < len(c.warnings) || c.warnings == nil && r.Warnings != nil {
			t.Errorf("%s: %+v", c.body, r)
		}
		for _, want := range c.warnings {
			if !strings.Contains(strings.Join(r.Warnings, "; "), want) {
				t.Errorf("%s: %q", c.body, r.Warnings)
			}
		}
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
			r, e := exchange.Judge(202, header, `{"execution_id":"exec-1","status":"accepted"}`, run.PhaseInvoke, "")
			if e != nil {
				t.Fatal(e)
			}
			if r.RetryAfter != c.want {
				t.Errorf("%q: %v, want %v", c.value, r.RetryAfter, c.want)
			}
			_, e = exchange.Judge(429, header, ``, run.PhaseInvoke, "")
			suggested := ""
			if c.want > 0 {
				suggested = fmt.Sprintf(`{"suggested_delay_ms":%d,"max_attempts":1}`, c.want.Milliseconds())
			}
			if string(retryOf(e)) != suggested {
				t.Errorf("%q: retry %s, want %s", c.value, retryOf(e), suggested)
			}
		}
	})
}

// What the provider says in the body is passed on as it is, whatever its header says.
func TestRetryMemberBeforeRetryAfter(t *testing.T) {
	_, e := exchange.Judge(429, http.Header{"Retry-After": {"60"}}, `{"error":{"code":"RATE_LIMITED","retry":{"suggested_delay_ms":7}}}`, run.PhaseInvoke, "")
	if string(retryOf(e)) != `{"suggested_delay_ms":7}` {
		t.Errorf("retry %s", retryOf(e))
	}
}

// retryOf is when the provider or this package says to try again; nil: neither does.
func retryOf(e *run.Failure) jsontext.Value {
	if e.Retry == nil && e.ProviderSaid().Retry == nil {
		return nil
	}
	return front.Retry(e)
}

func TestRetryMemberIsBounded(t *testing.T) {
	for n, kept := range map[int]bool{100: true, 5 << 10: false} {
		_, e := exchange.Judge(503, nil, `{"error":{"code":"ENDPOINT_UNREACHABLE","message":"m","retry":{"x":"`+strings.Repeat("x", n)+`"}}}`, run.PhaseInvoke, "")
		if (retryOf(e) != nil) != kept {
			t.Errorf("%d bytes: %d kept", n, len(retryOf(e)))
		}
	}
}

// A page of HTML is no JSON, whatever its style sheet is like.
func TestBracketsThatAreNoJSON(t *testing.T) {
	_, e := exchange.Judge(503, nil, "<style>"+strings.Repeat("a{", 1000), run.PhaseInvoke, "")
	if e == nil || e.Kind != run.Unreachable || e.Executed != run.ExecutedMaybe {
		t.Errorf("got %+v", e)
	}
}

// The message about an answer that is almost JSON says what is wrong and where. Names of its
// members do not change it.
func TestFaultsOfAnswers(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1,"a":2}`:          `two members of an object have the same name, at "/a" (byte 7)`,
		"{\"a\":\"x\xff\"}":      `a text is not UTF-8, at "/a" (byte 7)`,
		`{"a":"x\ud800"}`:        `a text has half of a surrogate pair (\ud800 to \udfff), at "/a" (byte 7)`,
		`{"a":[`:                 `it ends too early, at "/a" (byte 6)`,
		`{"surrogate":[1,}`:      `its syntax is wrong, at "/surrogate/1" (byte 16)`,
		"{\"UTF-8\":[\xff]}":     `its syntax is wrong, at "/UTF-8/0" (byte 10)`,
		`["\u12"]`:               `its syntax is wrong, at "/0" (byte 2)`,
		"[\"\xff\",1,{\"a\" 1}]": `a text is not UTF-8, at "/0" (byte 2)`,
	} {
		_, e := exchange.Judge(http.StatusOK, nil, body, run.PhaseInvoke, "")
		if want = "The provider answered HTTP 200 with JSON that can't be used: " + want + "."; e == nil || e.Message != want {
			t.Errorf("%q: %v, want %s", body, e, want)
		}
	}
}

// No part of a secret is in the place of a fault, wherever it is cut, and whatever characters the secret has.
func TestFaultsWithSecrets(t *testing.T) {
	for _, secret := range []string{"QWERTYUIOPASDFGHJKLZ", "QWERT/UIO~PASDFGHJKL"} {
		for before := range 120 {
			_, e := exchange.JudgeWithSecret(secret, `{"`+strings.Repeat("x", before)+secret+`":[1,}`)
			if e == nil || !strings.Contains(e.Message, "its syntax is wrong") {
				t.Fatalf("%v", e)
			}
			if strings.Contains(e.Message, secret[:2]) || before < 80 && !strings.Contains(e.Message, "[redacted]/1") {
				t.Fatalf("%d before: %s", before, e.Message)
			}
		}
	}
}

// TestAnswersInManual: the answers in the manual for providers mean what it says.
func TestAnswersInManual(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```json\n(.*?)^```$").FindAllSubmatch(text, -1)
	if len(blocks) != 4 {
		t.Fatalf("there are %d answers", len(blocks))
	}
	for i, want := range []run.State{run.Completed, run.Failed, 0, run.Accepted} {
		status := 200
		if want == 0 {
			status = 429
		}
		r, failure := exchange.Judge(status, nil, string(blocks[i][1]), run.PhaseInvoke, "")
		switch {
		case want != 0 && (failure != nil || r.State != want):
			t.Errorf("%s: %+v %v", blocks[i][1], r, failure)
		case want == 0 && (failure == nil || failure.Kind != run.RateLimited || failure.Executed != run.ExecutedNo || exchange.SuggestedDelay(failure) != 7*time.Second):
			t.Errorf("%s: %v", blocks[i][1], failure)
		}
	}
}
