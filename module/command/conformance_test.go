package command_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// try runs validate --run for a skill, and returns its exit status, what it found by the results of the checks, and the output.
func try(t *testing.T, p *hostile.Provider, skill string, flags ...string) (status int, failed []string, output string) {
	t.Helper()
	args := append([]string{"skill-bridge", "validate", "--json", "--allow-http", "--allow-networks=127.0.0.1", "--run", skill, p.URL()}, flags...)
	command := exec.CommandContext(t.Context(), "caddy", args...)
	command.Env = append(os.Environ(), "KEY=open sesame")
	text, err := command.CombinedOutput()
	if failure, ok := errors.AsType[*exec.ExitError](err); ok {
		status = failure.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Checks []struct {
			Check  string `json:"check"`
			Result string `json:"result"`
			What   string `json:"what"`
		} `json:"checks"`
	}
	_ = json.Unmarshal(text, &all) // without checks, the output is an error
	for _, c := range all.Checks {
		if c.Result == "failed" {
			failed = append(failed, c.Check+": "+c.What)
		}
	}
	return status, failed, string(text)
}

// TestRunPasses: a provider that follows the protocol passes all checks, and its skill is executed once.
func TestRunPasses(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/locked", Auth: hostile.APIKey("X-Key")})
	locked := func(action hostile.Action) hostile.Action {
		return func(x *hostile.Exchange) {
			if x.Request.Header.Get("X-Key") != "open sesame" {
				hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "A key is needed.")(x)
				return
			}
			action(x)
		}
	}
	p.On("acme/locked", hostile.Invoke, locked(hostile.AcceptForResult(1)))
	p.On("acme/locked", hostile.Status, locked(hostile.Usual()))
	status, failed, output := try(t, p, "acme/locked", "--api-key-env", "KEY")
	if status != 0 || failed != nil || strings.Contains(output, "skipped") || strings.Contains(output, "sesame") {
		t.Errorf("%d: %s", status, output)
	}
	if status, _, output := try(t, p, "acme/locked"); status != 5 || !strings.Contains(output, "api-key-env") {
		t.Errorf("%d: %s", status, output)
	}
}

// TestRunFails: each breach of the protocol is found, at the rule that it breaks.
func TestRunFails(t *testing.T) {
	for _, c := range []struct {
		name string
		part hostile.Part
		do   hostile.Action
		want string
	}{
		{"a status of its own", hostile.Invoke, hostile.State("queued"), "the invocation is answered with an InvocationResponse: "},
		{"no timestamps", hostile.Invoke, hostile.Respond(http.StatusOK, `{"execution_id":"a","skill_id":"acme/a","status":"completed","output":1}`, "Content-Type", "application/json"), "/timestamps is required"},
		{"an error", hostile.Invoke, hostile.Problem(http.StatusInternalServerError, "EXECUTION_FAILED", "No."), "HTTP 500"},
		{"a failed run", hostile.Invoke, hostile.AcceptFailing(0), "the run completes with an output: its status is failed: EXECUTION_FAILED: It failed."},
		{"runs that are unknown", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"run-0","skill_id":"acme/a","status":"completed","output":1,"timestamps":{"created_at":"","updated_at":""}}`, "Content-Type", "application/json"), "an unknown execution id is answered with 404: it was answered with HTTP 200"},
		{"a long wait", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"run-0","skill_id":"acme/a","status":"completed","output":1,"timestamps":{"created_at":"","updated_at":""}}`, "Content-Type", "application/json", "Retry-After", "999999"), "Retry-After is a number of seconds or a date, at most an hour away: it asks to wait for 277h46m39s"},
		{"a long wait by a clock that is slow", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"run-0","skill_id":"acme/a","status":"completed","output":1,"timestamps":{"created_at":"","updated_at":""}}`, "Content-Type", "application/json", "Date", "Wed, 01 Jan 2020 00:00:00 GMT", "Retry-After", "Wed, 01 Jan 2020 03:00:00 GMT"), "it asks to wait for 3h0m0s"},
		{"another run", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"other","skill_id":"acme/a","status":"running","timestamps":{"created_at":"","updated_at":""}}`, "Content-Type", "application/json"), "about a run other than"},
		{"results that differ", hostile.Result, func(x *hostile.Exchange) { hostile.Complete(rand.Text())(x) }, "twice the same: the second one has another output"},
		{"no result", hostile.Result, hostile.Respond(http.StatusGone, ""), "the result is available after completion, twice the same: HTTP 410"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
			p.On("acme/a", hostile.Invoke, hostile.Accept(0))
			p.On("acme/a", c.part, c.do)
			status, failed, output := try(t, p, "acme/a")
			if status != 1 || !strings.Contains(strings.Join(failed, "\n"), c.want) {
				t.Errorf("%d: %q, want %s: %s", status, failed, c.want, output)
			}
		})
	}
	for want, states := range map[string][]hostile.Action{
		"follows the one before: it is accepted after it was running":         {hostile.State("running"), hostile.State("accepted"), hostile.Usual()},
		"the status stays after completion: it was completed, and is running": {hostile.Usual(), hostile.State("running")},
	} {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
		p.On("acme/a", hostile.Invoke, hostile.Accept(0))
		p.Script("acme/a", hostile.Status, func(n int) hostile.Action { return states[min(n, len(states))-1] })
		if status, failed, output := try(t, p, "acme/a", "--timeout", "1m"); status != 1 || !strings.Contains(strings.Join(failed, "\n"), want) {
			t.Errorf("%d: %q, want %s: %s", status, failed, want, output)
		}
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
	p.On("acme/a", hostile.Invoke, hostile.Accept(0))
	p.On("acme/a", hostile.Status, hostile.Respond(http.StatusOK, `{"execution_id":"run-0","skill_id":"acme/a","status":"completed","output":1,"timestamps":{"created_at":"","updated_at":""}}`,
		"Content-Type", "application/json", "Date", "Sun, 01 Jan 2090 00:00:00 GMT", "Retry-After", "Sun, 01 Jan 2090 00:00:30 GMT"))
	if _, failed, output := try(t, p, "acme/a"); strings.Contains(strings.Join(failed, "\n"), "Retry-After") {
		t.Errorf("30 seconds by a clock that is fast: %s", output)
	}
	p = hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Auth: hostile.APIKey("X-Key")})
	p.On("acme/a", hostile.Invoke, hostile.Accept(0))
	status, failed, output := try(t, p, "acme/a", "--api-key-env", "KEY")
	if status != 1 || len(failed) != 2 || !strings.HasPrefix(failed[0], "a wrong credential is refused with 401 or 403: it was answered with HTTP 202") ||
		failed[1] != "the status of a run is refused to a wrong credential: it was answered with HTTP 200" {
		t.Errorf("%d: %q, %s", status, failed, output)
	}
}

// TestRunShowsNoSecret: what a provider says about a run is shown without the key that the provider repeats, wherever it is in the answer.
func TestRunShowsNoSecret(t *testing.T) {
	const key, stamps = "open sesame", `"timestamps":{"created_at":"","updated_at":""}`
	about := func(members string) string { return `{"skill_id":"acme/a",` + members + `}` }
	ended := about(`"execution_id":"run-0","status":"completed","output":1,` + stamps)
	for _, c := range []struct {
		name string
		part hostile.Part
		do   hostile.Action
		want string
	}{
		{"401", hostile.Invoke, hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "X-Key was "+key), "X-Key was [redacted]"},
		{"500", hostile.Invoke, hostile.Problem(http.StatusInternalServerError, key, "X-Key was "+key), "X-Key was [redacted]"},
		{"a long text", hostile.Invoke, hostile.Problem(http.StatusInternalServerError, "E", strings.Repeat("x", 4<<10-4)+key), "HTTP 500: xxx"},
		{"escaped", hostile.Invoke, hostile.Respond(http.StatusInternalServerError, `{"error":{"code":"E","message":"\u006fpen s\u0065same"}}`), "HTTP 500: [redacted]"},
		{"a failed run", hostile.Invoke, hostile.Respond(http.StatusOK, about(`"execution_id":"run-0","status":"failed","error":{"code":"C `+key+`","message":"M `+key+`"},`+stamps)), "C [redacted]: M [redacted]"},
		{"another skill", hostile.Invoke, hostile.Respond(http.StatusOK, `{"execution_id":"run-0","skill_id":"`+key+`","status":"completed","output":1,`+stamps+`}`), `skill_id is \"[redacted]\"`},
		{"another status", hostile.Invoke, hostile.Respond(http.StatusOK, about(`"execution_id":"run-0","status":"`+strings.Repeat("x", 34)+key+`",`+stamps)), "[reda"},
		{"another run", hostile.Status, hostile.Respond(http.StatusOK, about(`"execution_id":"`+key+`","status":"running",`+stamps)), "about a run other than"},
		{"a member's name", hostile.Invoke, hostile.Respond(http.StatusOK, about(`"execution_id":"run-0","status":"completed","output":1,`+stamps+`,"links":{"`+key+`":1}`)), ""},
		{"Retry-After", hostile.Status, hostile.Respond(http.StatusOK, ended, "Retry-After", strings.Repeat("x", 34)+key), "[redac"},
		{"the status of a stranger", hostile.Status, func(x *hostile.Exchange) {
			if x.Request.Header.Get("X-Key") == key {
				hostile.Respond(http.StatusOK, ended)(x)
				return
			}
			hostile.Respond(http.StatusFound, "", "Location", "https://"+key)(x)
		}, "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Auth: hostile.APIKey("X-Key")})
			p.On("acme/a", hostile.Invoke, hostile.Accept(0))
			p.On("acme/a", c.part, c.do)
			_, failed, output := try(t, p, "acme/a", "--api-key-env", "KEY")
			if !strings.Contains(output, c.want) || strings.Contains(output, "open s") || strings.Contains(output, "sesame") || len(failed) == 0 {
				t.Errorf("want %s: %s", c.want, output)
			}
		})
	}
}
