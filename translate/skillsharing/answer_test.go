package skillsharing_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// run is the id of the run that polls ask about.
const runID = "exec-1"

func TestJudgeInvocationResponse(t *testing.T) {
	long := strings.Repeat("x", 513)
	for _, c := range []struct {
		name    string
		status  int
		body    string
		knownID string
		want    skillsharing.Response
	}{
		{"accepted", 202, `{"execution_id":"exec-1","status":"accepted","skill_id":"a/b"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Accepted, SkillID: "a/b"}},
		{"accepted with 200", 200, `{"execution_id":"exec-1","status":"accepted"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Accepted}},
		{"running", 200, `{"execution_id":"exec-1","status":"running"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Working}},
		{"completed", 200, `{"execution_id":"exec-1","status":"completed","output":{"a":1.0}}`, "", skillsharing.Response{ExecutionID: runID, State: run.Completed, Output: []byte(`{"a":1.0}`)}},
		{"raw output", 200, ` { "status" : "completed", "output" : [ 1e400, 0.10, "\u00e9" ] } `, "", skillsharing.Response{State: run.Completed, Output: []byte(`[ 1e400, 0.10, "\u00e9" ]`)}},
		{"output null", 200, `{"execution_id":"exec-1","status":"completed","output":null}`, "", skillsharing.Response{ExecutionID: runID, State: run.Completed, Output: []byte("null")}},
		{"output absent", 200, `{"execution_id":"exec-1","status":"completed"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Completed}},
		{"completed without id", 200, `{"status":"completed"}`, "", skillsharing.Response{State: run.Completed}},
		{"completed, id null", 200, `{"execution_id":null,"status":"completed"}`, "", skillsharing.Response{State: run.Completed}},
		{"completed, id empty", 200, `{"execution_id":"","status":"completed"}`, "", skillsharing.Response{State: run.Completed}},
		{"completed, id a number", 200, `{"execution_id":42,"status":"completed"}`, "", skillsharing.Response{State: run.Completed}},
		{"byte order mark", 200, "\ufeff" + `{"status":"completed"}`, "", skillsharing.Response{State: run.Completed}},
		{"unusable id of a finished run", 200, `{"execution_id":"..","status":"completed"}`, "", skillsharing.Response{ExecutionID: "..", State: run.Completed}},
		{"long id", 202, `{"execution_id":"` + long + `","status":"accepted"}`, "", skillsharing.Response{ExecutionID: long, State: run.Accepted}},
		{"failed", 200, `{"execution_id":"exec-1","status":"failed"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Failed, Error: &skillsharing.RunError{}}},
		{
			"failed with error", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":"NO_TABLE","message":"m","details":[1],"retry":{"max_attempts":1}}}`, "",
			skillsharing.Response{ExecutionID: runID, State: run.Failed, Error: &skillsharing.RunError{Code: "NO_TABLE", Message: "m", Details: []byte("[1]"), Retry: []byte(`{"max_attempts":1}`)}},
		},
		{"failed, error a string", 200, `{"execution_id":"exec-1","status":"failed","error":"no table"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Failed, Error: &skillsharing.RunError{Message: "no table"}}},
		{"failed, error of wrong types", 200, `{"execution_id":"exec-1","status":"failed","error":{"code":1,"message":[],"details":null,"retry":"soon"}}`, "", skillsharing.Response{ExecutionID: runID, State: run.Failed, Error: &skillsharing.RunError{}}},
		{"timeout", 504, `{"execution_id":"exec-1","status":"timeout"}`, "", skillsharing.Response{ExecutionID: runID, State: run.TimedOut, Error: &skillsharing.RunError{}}},
		{"error null", 200, `{"execution_id":"exec-1","status":"running","error":null}`, "", skillsharing.Response{ExecutionID: runID, State: run.Working}},

		// It counts whatever the HTTP status, and before an error in it.
		{"status 500", 500, `{"execution_id":"exec-1","status":"completed","output":1}`, "", skillsharing.Response{ExecutionID: runID, State: run.Completed, Output: []byte("1")}},
		{"status 401", 401, `{"execution_id":"exec-1","status":"running"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Working}},
		{"status 302", 302, `{"execution_id":"exec-1","status":"running"}`, "", skillsharing.Response{ExecutionID: runID, State: run.Working}},
		{"unified error in it", 403, `{"execution_id":"exec-1","status":"running","error":{"code":"PERMISSION_DENIED"}}`, "", skillsharing.Response{ExecutionID: runID, State: run.Working}},

		// What is known need not be said.
		{"poll", 200, `{"execution_id":"exec-1","status":"running"}`, runID, skillsharing.Response{ExecutionID: runID, State: run.Working}},
		{"poll without id", 200, `{"status":"running"}`, runID, skillsharing.Response{ExecutionID: runID, State: run.Working}},
		{"poll, id null", 200, `{"execution_id":null,"status":"failed"}`, runID, skillsharing.Response{ExecutionID: runID, State: run.Failed, Error: &skillsharing.RunError{}}},
		{"poll, id empty", 200, `{"execution_id":"","status":"completed"}`, runID, skillsharing.Response{ExecutionID: runID, State: run.Completed}},
		{"poll, id escaped", 200, `{"execution_id":"exec\u002d1","status":"running"}`, runID, skillsharing.Response{ExecutionID: runID, State: run.Working}},

		{"elapsed", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:00Z","updated_at":"x","completed_at":"2025-07-01T12:00:05.5+02:00"}}`, "", skillsharing.Response{State: run.Completed, Elapsed: 5500 * time.Millisecond}},
		{"elapsed backwards", 200, `{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:05Z","completed_at":"2025-07-01T10:00:00Z"}}`, "", skillsharing.Response{State: run.Completed}},
		{"elapsed of nonsense", 200, `{"status":"completed","timestamps":{"created_at":5,"completed_at":"yesterday"}}`, "", skillsharing.Response{State: run.Completed}},
		{"timestamps of a wrong type", 200, `{"status":"completed","timestamps":[]}`, "", skillsharing.Response{State: run.Completed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			phase := skillsharing.PhaseInvoke
			if c.knownID != "" {
				phase = skillsharing.PhasePoll
			}
			r, e := skillsharing.Judge(c.status, nil, c.body, phase, c.knownID)
			if e != nil {
				t.Fatalf("error %+v", e)
			}
			if got, want := describeResponse(r), describeResponse(&c.want); got != want {
				t.Errorf("\n got %.300s\nwant %.300s", got, want)
			}
		})
	}
}

func describeResponse(r *skillsharing.Response) string {
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
		phase     skillsharing.Phase
		code      skillsharing.ErrorCode
		source    skillsharing.Source
		executed  skillsharing.Executed
		arguments string
		told      string // message, details and retry; empty: whatever, but a message there must be
	}{
		// The HTTP status decides where the body says nothing.
		{"", 401, ``, skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 403, ``, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 404, ``, skillsharing.PhaseInvoke, skillsharing.SkillNotFound, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 410, ``, skillsharing.PhaseInvoke, skillsharing.SkillNotFound, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 408, ``, skillsharing.PhaseInvoke, skillsharing.InvocationTimeout, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 504, ``, skillsharing.PhaseInvoke, skillsharing.InvocationTimeout, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 502, ``, skillsharing.PhaseInvoke, skillsharing.EndpointUnreachable, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 503, `<html>`, skillsharing.PhaseInvoke, skillsharing.EndpointUnreachable, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 422, ``, skillsharing.PhaseInvoke, skillsharing.VersionIncompatible, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 422, `<html>`, skillsharing.PhaseInvoke, skillsharing.VersionIncompatible, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 429, ``, skillsharing.PhaseInvoke, skillsharing.RateLimited, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 400, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 400, `no`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 405, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},
		{"", 409, `{}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 418, `{}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 500, `{}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 501, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 599, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", ""},
		{"", 301, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"", 307, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"", 304, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"", 200, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"", 204, ``, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},

		// What is no InvocationResponse, although it looks like one.
		{"not JSON", 200, `{not json`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"array", 200, `[{"status":"completed"}]`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"scalar", 200, `"completed"`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"empty object", 200, `{}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"no status", 202, `{"execution_id":"exec-1"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"unknown status", 202, `{"execution_id":"exec-1","status":"queued"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"status in other case", 202, `{"execution_id":"exec-1","status":"Completed"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"member in other case", 200, `{"Status":"completed"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"status of a wrong type", 202, `{"execution_id":"exec-1","status":["completed"]}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"accepted without id", 202, `{"status":"accepted"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"accepted, id empty", 202, `{"execution_id":"","status":"accepted"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"accepted, id a number", 202, `{"execution_id":42,"status":"accepted"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"running, id null", 202, `{"execution_id":null,"status":"running"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"duplicate member", 200, `{"status":"failed","status":"completed"}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"duplicate member within", 200, `{"status":"completed","output":{"a":1,"a":2}}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"invalid UTF-8", 200, "{\"status\":\"completed\",\"output\":\"\xff\"}", skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"trailing data", 200, `{"status":"completed"}{}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"trailing comma", 200, `{"status":"completed",}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"truncated", 200, `{"status":"completed","output":{"a":`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"NUL", 200, "\x00", skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"deep", 200, `{"status":"completed","output":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + `}`, skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},
		{"deep and open", 200, strings.Repeat(`{"a":`, 10_001), skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedMaybe, "", ""},

		// A unified error decides before the HTTP status does.
		{"", 401, unified("AUTH_REQUIRED"), skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 403, unified("PERMISSION_DENIED"), skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 404, unified("SKILL_NOT_FOUND"), skillsharing.PhaseInvoke, skillsharing.SkillNotFound, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 504, unified("INVOCATION_TIMEOUT"), skillsharing.PhaseInvoke, skillsharing.InvocationTimeout, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 504, unified("EXECUTION_TIMEOUT"), skillsharing.PhaseInvoke, skillsharing.InvocationTimeout, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 503, unified("ENDPOINT_UNREACHABLE"), skillsharing.PhaseInvoke, skillsharing.EndpointUnreachable, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 422, unified("VERSION_INCOMPATIBLE"), skillsharing.PhaseInvoke, skillsharing.VersionIncompatible, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 429, unified("RATE_LIMITED"), skillsharing.PhaseInvoke, skillsharing.RateLimited, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 400, unified("VALIDATION_ERROR"), skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, args, because},
		{"", 422, unified("VALIDATION_ERROR"), skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedNo, args, because},
		{"", 200, unified("AUTH_REQUIRED"), skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 500, unified("PERMISSION_DENIED"), skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 403, unified("AUTH_REQUIRED"), skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},

		// An unknown code leaves it to the HTTP status.
		{"", 401, unified("TOKEN_EXPIRED"), skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", because},
		{"", 503, unified("OOPS"), skillsharing.PhaseInvoke, skillsharing.EndpointUnreachable, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 409, unified("OOPS"), skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 418, unified("auth_required"), skillsharing.PhaseInvoke, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, "", because},
		{"", 400, unified("OOPS"), skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, args, "Because. " + unified("OOPS") + ` {"suggested_delay_ms":5,"max_attempts":2} `},

		// Members of the error, as they come.
		{"error a string", 401, `{"error":"unauthorized"}`, skillsharing.PhaseInvoke, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "unauthorized   "},
		{"code alone", 403, `{"error":{"code":"PERMISSION_DENIED"}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message empty", 403, `{"error":{"code":"PERMISSION_DENIED","message":""}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"message of a wrong type", 403, `{"error":{"code":"PERMISSION_DENIED","message":{}}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"details a string", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":"no scope"}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", `m "no scope"  `},
		{"details a number", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":1.50}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", `m 1.50  `},
		{"details false", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":false}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", `m false  `},
		{"details null", 403, `{"error":{"code":"PERMISSION_DENIED","message":"m","details":null}}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "m   "},
		{"retry of a wrong type", 429, `{"error":{"code":"RATE_LIMITED","message":"m","retry":true}}`, skillsharing.PhaseInvoke, skillsharing.RateLimited, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "m   "},
		{"error null", 403, `{"error":null}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},
		{"error an array", 403, `{"error":["AUTH_REQUIRED"]}`, skillsharing.PhaseInvoke, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", "The provider answered HTTP 403 Forbidden.   "},

		// 400 and 422 with JSON of any other form are about the arguments.
		{"", 400, ` {"detail":"days must be positive"} `, skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, args, `The provider answered HTTP 400 Bad Request. {"detail":"days must be positive"}  `},
		{"", 422, `[{"loc":["days"]}]`, skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedNo, args, `The provider answered HTTP 422 Unprocessable Entity. [{"loc":["days"]}]  `},
		{"", 422, `"no"`, skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedNo, args, ""},
		{"", 400, `{"error":"bad days"}`, skillsharing.PhaseInvoke, skillsharing.ValidationError, skillsharing.SourceProvider, skillsharing.ExecutedMaybe, args, `bad days {"error":"bad days"}  `},
		{"", 422, `{"a":1}{`, skillsharing.PhaseInvoke, skillsharing.VersionIncompatible, skillsharing.SourceProvider, skillsharing.ExecutedNo, "", ""},

		// A run that was accepted stays accepted.
		{"", 401, ``, skillsharing.PhasePoll, skillsharing.AuthRequired, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 403, ``, skillsharing.PhasePoll, skillsharing.PermissionDenied, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 404, ``, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 410, ``, skillsharing.PhaseResult, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 404, unified("SKILL_NOT_FOUND"), skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", because},
		{"", 404, unified("EXECUTION_NOT_FOUND"), skillsharing.PhaseResult, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", because},
		{"", 422, ``, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 422, `{"a":1}`, skillsharing.PhaseResult, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 422, unified("VERSION_INCOMPATIBLE"), skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", because},
		{"", 400, `{"a":1}`, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 408, ``, skillsharing.PhasePoll, skillsharing.InvocationTimeout, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 429, ``, skillsharing.PhasePoll, skillsharing.RateLimited, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 500, ``, skillsharing.PhaseResult, skillsharing.InvalidProviderResponse, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 503, ``, skillsharing.PhasePoll, skillsharing.EndpointUnreachable, skillsharing.SourceProvider, skillsharing.ExecutedYes, "", ""},
		{"", 302, ``, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", ""},
		{"garbage", 200, `garbage`, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", ""},
		{"unknown status", 200, `{"status":"queued"}`, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", ""},
		{"another run", 200, `{"execution_id":"exec-2","status":"completed"}`, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", "The provider answered about another run than exec-1.   "},
		{"another run", 200, `{"execution_id":"exec-2","status":"running"}`, skillsharing.PhaseResult, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", ""},
		{"a numbered run", 200, `{"execution_id":1,"status":"completed"}`, skillsharing.PhasePoll, skillsharing.InvalidProviderResponse, skillsharing.SourceBridge, skillsharing.ExecutedYes, "", ""},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintf("%s %d %s %.20s", c.phase, c.status, c.name, c.body)), func(t *testing.T) {
			knownID := ""
			if c.phase != skillsharing.PhaseInvoke {
				knownID = runID
			}
			r, e := skillsharing.Judge(c.status, nil, c.body, c.phase, knownID)
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
			if want := map[bool]skillsharing.Source{true: skillsharing.SourceProvider}[e.Details != nil && !strings.Contains(string(e.Details), `{"limit":"depth"`)]; e.DetailsSource != want {
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
		want   skillsharing.Hint
	}{
		{404, ``, skillsharing.HintRunLost},
		{410, ``, skillsharing.HintRunLost},
		{404, `{"error":{"code":"NOT_FOUND"}}`, skillsharing.HintRunLost},
		{400, `{"error":{"code":"SKILL_NOT_FOUND"}}`, skillsharing.HintRunLost},
		{422, ``, skillsharing.HintNone},
		{401, ``, skillsharing.HintNone},
		{503, ``, skillsharing.HintNone},
		{200, `garbage`, skillsharing.HintNone},
	} {
		if _, e := skillsharing.Judge(c.status, nil, c.body, skillsharing.PhasePoll, runID); e == nil || e.Hint != c.want {
			t.Errorf("%d %s: %+v, want hint %d", c.status, c.body, e, c.want)
		}
	}
	if _, e := skillsharing.Judge(404, nil, "", skillsharing.PhaseInvoke, ""); e.Hint != skillsharing.HintNone {
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
		_, e := skillsharing.Judge(c.status, nil, fmt.Sprintf(c.frame, details), skillsharing.PhaseInvoke, "")
		if e == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		if passed := string(e.Details) == details; passed != c.passed || len(e.Details) > c.size || !e.Details.IsValid() {
			t.Errorf("%s: %d bytes, %.60s…", c.name, len(e.Details), e.Details)
		}
	}
}

// An answer within the depth that is accepted is passed on as it is.
func TestJudgeDeepOutput(t *testing.T) {
	output := strings.Repeat("[", 511) + strings.Repeat("]", 511)
	r, e := skillsharing.Judge(200, nil, `{"status":"completed","output":`+output+`}`, skillsharing.PhaseInvoke, "")
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
			r, e := skillsharing.Judge(202, header, `{"execution_id":"exec-1","status":"accepted"}`, skillsharing.PhaseInvoke, "")
			if e != nil {
				t.Fatal(e)
			}
			if r.RetryAfter != c.want {
				t.Errorf("%q: %v, want %v", c.value, r.RetryAfter, c.want)
			}
			_, e = skillsharing.Judge(429, header, ``, skillsharing.PhaseInvoke, "")
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
	_, e := skillsharing.Judge(429, http.Header{"Retry-After": {"60"}}, `{"error":{"code":"RATE_LIMITED","retry":{"suggested_delay_ms":7}}}`, skillsharing.PhaseInvoke, "")
	if string(e.Retry) != `{"suggested_delay_ms":7}` {
		t.Errorf("retry %s", e.Retry)
	}
}
