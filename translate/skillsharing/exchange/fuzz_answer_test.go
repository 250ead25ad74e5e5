package exchange_test

import (
	"bytes"
	stdjson "encoding/json" // a second opinion on what an answer says
	"math/big"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// FuzzJudge: whatever an endpoint, a status or a result URL answers, judging it
// comes to one verdict, which claims neither a run nor an output that is not in
// the answer.
func FuzzJudge(f *testing.F) {
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `<html>`, `{"status":`, "\ufeff" + `{"status":"completed"}`, `{"status":"completed"}x`, "{\"status\":\"\xff\"}",
		`{"execution_id":"exec-1","status":"accepted","skill_id":"a/b"}`, `{"execution_id":"exec-2","status":"running"}`, `{"execution_id":null,"status":"running"}`,
		`{"execution_id":"","status":"completed","output":null}`, `{"execution_id":42,"status":"completed","output":{"a":[1e400,0.10,"\u00e9"]}}`, `{"execution_id":"exec\u002d1","status":"failed"}`,
		`{"status":"failed","error":"no table"}`, `{"status":"failed","error":{"code":"NO_TABLE","message":"m","details":[1],"retry":{"max_attempts":1}}}`,
		`{"status":"timeout","error":{"code":1,"message":[],"details":null,"retry":"soon"}}`, `{"status":"cancelled"}`, `{"status":"completed","status":"failed"}`, `{"output":1}`,
		`{"status":"completed","timestamps":{"created_at":"2025-07-01T10:00:00Z","completed_at":"9999-12-31T23:59:59.999999999Z"}}`, `{"Status":"completed"}`,
		`{"error":{"code":"PERMISSION_DENIED","message":"m","details":{"a":1},"retry":{"suggested_delay_ms":1e999}}}`, `{"error":{"code":"EXECUTION_TIMEOUT"}}`, `{"error":{"code":"VALIDATION_ERROR","details":[{"path":"/a"}]}}`,
		`{"error":{"code":"SKILL_NOT_FOUND"},"execution_id":"exec-1"}`, `{"error":{"code":"NO_SUCH_CODE","message":"` + strings.Repeat("m", 5000) + `"}}`,
		`{"status":"completed","output":{"a":"\ud83d","b":{"c":1,"c":2},"b":3,"a":"\udc00\ud800"}}`, `{"status":"failed","error":{"code":"X","code":"Y\ud800"},"execution_id":"a","execution_id":"exec-1"}`,
		`{"status":"completed","output":1,"output":{"a":2,"a":3},"execution_id":"exec-1","execution_id":"exec-1"}`, "{\"status\":\"completed\",\"output\":{\"\xff\":1,\"\xe2\x82\":\"\\ud800\xed\xa0\x80\"}}",
		`{"error":{"message":"m","details":"` + strings.Repeat("d", 70<<10) + `","retry":{"x":"` + strings.Repeat("r", 2000) + `"}}}`,
	} {
		for _, status := range []int{200, 202, 302, 400, 401, 404, 410, 422, 429, 503, 504} {
			f.Add(status, "", []byte(body), uint8(status), runID)
		}
		f.Add(200, "60", []byte(body), uint8(3), "")
		f.Add(503, "Fri, 31 Dec 9999 23:59:59 GMT", []byte(body), uint8(4), "exec-2")
	}
	phases := []run.Phase{
		run.PhaseDiscovery, run.PhaseDescriptor, run.PhaseAuth, run.PhaseInvoke, run.PhasePoll, run.PhaseResult,
	}
	f.Fuzz(func(t *testing.T, status int, after string, body []byte, nth uint8, knownID string) {
		phase := phases[int(nth)%len(phases)]
		if phase != run.PhasePoll && phase != run.PhaseResult {
			knownID = "" // there is no run yet
		}
		header := http.Header{"Retry-After": {after}}
		var r *document.Response
		var e *run.Failure
		cost.Cheap(t, "judging", func() { r, e = exchange.Judge(status, header, string(body), phase, knownID) })
		if (r == nil) == (e == nil) {
			t.Fatalf("response %+v and error %+v", r, e)
		}
		if again, eAgain := exchange.Judge(status, nil, string(body), phase, knownID); (again == nil) != (r == nil) || (eAgain == nil) != (e == nil) {
			t.Fatalf("first %+v, %v, then %+v, %v", r, e, again, eAgain)
		}
		if said, strict := readAnswer(body); strict && said.isResponse(knownID) != (r != nil) {
			t.Fatalf("response %+v, error %+v", r, e)
		}
		if e != nil {
			checkJudgedError(t, e, status, phase, knownID)
			return
		}
		checkJudgedResponse(t, r, body, knownID)
	})
}

// answerMembers is what encoding/json reads in an answer.
type answerMembers map[string]stdjson.RawMessage

// readAnswer also reports whether the text is JSON by the strictest rules, which
// is what counts as an answer, and nested no deeper than any limit.
func readAnswer(body []byte) (members answerMembers, strict bool) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if err := stdjson.Unmarshal(body, &members); err != nil {
		return nil, jsontext.Value(body).IsValid()
	}
	return members, jsontext.Value(body).IsValid() && bytes.Count(body, []byte("["))+bytes.Count(body, []byte("{")) <= 100
}

// text returns a member that is a string.
func (m answerMembers) text(name string) string {
	var s string
	if err := stdjson.Unmarshal(m[name], &s); err != nil {
		return ""
	}
	return s
}

// isResponse reports whether an answer is an InvocationResponse about the known
// run, or about any if none is known.
func (m answerMembers) isResponse(knownID string) bool {
	status, id := m.text("status"), m.text("execution_id")
	ended := slices.Contains([]string{"completed", "failed", "timeout"}, status)
	if !ended && status != "accepted" && status != "running" {
		return false
	}
	if knownID == "" {
		return ended || id != ""
	}
	unnamed := slices.Contains([]string{"", "null", `""`}, string(m["execution_id"]))
	return unnamed || id == knownID
}

func checkJudgedResponse(t *testing.T, r *document.Response, body []byte, knownID string) {
	t.Helper()
	said, strict := readAnswer(body)
	if r.Warnings != nil {
		checkRepaired(t, r, said)
		return
	}
	if !strict && len(body) < 100 {
		t.Errorf("%+v from what is not JSON", r)
	}
	if r.State.String() != said.text("status") {
		t.Errorf("status %q", r.State)
	}
	if knownID != "" && r.ExecutionID != knownID {
		t.Errorf("it is about run %q, want %q", r.ExecutionID, knownID)
	}
	if named := said.text("execution_id"); named != "" && r.ExecutionID != named {
		t.Errorf("it is about run %q, and names %q", r.ExecutionID, named)
	}
	if r.ExecutionID == "" && !r.State.Ended() {
		t.Error("a run that has not ended has no id")
	}
	if !bytes.Equal(r.Output, said["output"]) || r.Output != nil && !stdjson.Valid(r.Output) {
		t.Errorf("output %s, want %s", r.Output, said["output"])
	}
	if (r.Error != nil) != (r.State == run.Failed || r.State == run.TimedOut) {
		t.Errorf("status %s, error %+v", r.State, r.Error)
	}
	if r.Error != nil && (!validOrNil(r.Error.Details) || !validOrNil(r.Error.Retry)) {
		t.Errorf("error %+v", r.Error)
	}
	if r.Elapsed < 0 || r.RetryAfter < 0 || r.RetryAfter > 24*time.Hour {
		t.Errorf("elapsed %v, retry after %v", r.Elapsed, r.RetryAfter)
	}
}

// checkRepaired checks a response that was read from what is not quite JSON: encoding/json, too, takes the last member of a name, and U+FFFD for
// half of a surrogate pair.
func checkRepaired(t *testing.T, r *document.Response, said answerMembers) {
	t.Helper()
	var got, want any
	if r.Output != nil && (!r.Output.IsValid() || stdjson.Unmarshal(r.Output, &got) != nil || stdjson.Unmarshal(said["output"], &want) != nil || !reflect.DeepEqual(got, want)) {
		t.Errorf("output %s, want %s", r.Output, said["output"])
	}
	if r.State.String() != said.text("status") {
		t.Errorf("status %q", r.State)
	}
}

func checkJudgedError(t *testing.T, e *run.Failure, status int, phase run.Phase, knownID string) {
	t.Helper()
	if e.Kind == 0 || e.Message == "" || e.Phase != phase || e.HTTPStatus != status || e.ExecutionID != knownID {
		t.Errorf("error %+v", e)
	}
	if e.By != run.Bridge && e.By != run.Provider {
		t.Errorf("source %q", e.By)
	}
	switch phase {
	case run.PhasePoll, run.PhaseResult:
		if e.Executed != run.ExecutedYes {
			t.Errorf("executed %q", e.Executed)
		}
	case run.PhaseInvoke:
		if e.Executed != run.ExecutedNo && e.Executed != run.ExecutedMaybe {
			t.Errorf("executed %q", e.Executed)
		}
	default:
		if e.Executed != run.ExecutedNo {
			t.Errorf("executed %q", e.Executed)
		}
	}
	if knownID != "" && (e.Argument != nil || slices.Contains([]run.Kind{run.SkillNotFound, run.InvalidArguments, run.VersionIncompatible}, e.Kind)) {
		t.Errorf("the error of a run blames the skill or the arguments: %+v", e)
	}
	if !validOrNil(front.Details(e)) || len(front.Details(e)) > 65<<10 || front.Details(e) != nil && !e.HasProviderText() && e.Limit == nil || !validOrNil(retryOf(e)) || len(retryOf(e)) > 2<<10 {
		t.Errorf("details %.200s, retry %.200s", front.Details(e), retryOf(e))
	}
}

func validOrNil(v jsontext.Value) bool { return v == nil || v.IsValid() }

// FuzzRetryAfter compares the field with RFC 9110, section 10.2.3: decimal digits
// or a date, and nothing else.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{
		"", "0", "2", " 120\t", "007", "86400", "86401", "4294967295", "4294967296", "18446744073709551616", strings.Repeat("9", 100), "-1", "+5", "1.5", "1e3", "1_000", "0x10", "5 seconds", "soon", "\x00", "5\n5", "٥",
		"Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Friday, 31-Dec-99 23:59:59 GMT", "Fri Dec 31 23:59:59 1999", "Fri, 31 Foo 2026 23:59:59 GMT", "2026-01-01T00:00:00Z",
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(time.RFC850), time.Now().Add(time.Hour).UTC().Format(time.ANSIC),
	} {
		f.Add(value)
	}
	const most = 24 * time.Hour
	digits := regexp.MustCompile(`^[0-9]+$`)
	f.Fuzz(func(t *testing.T, value string) {
		before := time.Now()
		r, e := exchange.Judge(202, http.Header{"Retry-After": {value}}, `{"execution_id":"exec-1","status":"accepted"}`, run.PhaseInvoke, "")
		after := time.Now()
		if e != nil {
			t.Fatal(e)
		}
		least, longest := time.Duration(0), time.Duration(0)
		value = strings.TrimSpace(value)
		if seconds, ok := new(big.Int).SetString(value, 10); ok && digits.MatchString(value) {
			least = most
			if seconds.IsInt64() && seconds.Int64() < int64(most/time.Second) {
				least = time.Duration(seconds.Int64()) * time.Second
			}
			longest = least
		} else if date, err := http.ParseTime(value); err == nil {
			least, longest = min(max(0, date.Sub(after)), most), min(max(0, date.Sub(before)), most)
		}
		if r.RetryAfter < least || r.RetryAfter > longest {
			t.Errorf("%q: %v, want %v to %v", value, r.RetryAfter, least, longest)
		}
		_, e = exchange.Judge(429, http.Header{"Retry-After": {value}}, ``, run.PhaseInvoke, "")
		if (retryOf(e) != nil) != (r.RetryAfter > 0) && least == longest {
			t.Errorf("%q: %v, suggested %s", value, r.RetryAfter, retryOf(e))
		}
	})
}
