package command_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// TestRunNamesTheFault: a check that fails says which member of the answer is wrong, its value, and what is allowed.
func TestRunNamesTheFault(t *testing.T) {
	const stamps, allowed = `"timestamps":{"created_at":"","updated_at":""}`, "accepted, running, completed, failed or timeout"
	about := func(members string) string { return `{"skill_id":"acme/a","execution_id":"run-0",` + members + `}` }
	for _, c := range []struct {
		name, body string
		want       string
	}{
		{"another word", about(`"status":"success","output":1,` + stamps), `its status is "success", but must be ` + allowed},
		{"capitals, and no times", about(`"status":"Completed","output":1`), `its status is "Completed", but must be ` + allowed + "; /timestamps is required"},
		{"a number", about(`"status":7,` + stamps), "its status is a number, but must be " + allowed},
		{"only the output", `{"text":"HI"}`, "it has no status, which must be " + allowed},
		{"an array", `[1]`, "its body is an array, not an object"},
		{"a page", `<html>hi</html>`, "its body is not JSON"},
		{"nothing", ``, "its body is empty"},
		{"no id", `{"skill_id":"acme/a","status":"accepted",` + stamps + `}`, "it has no execution_id, which must be a text that is not empty"},
		{"times that are numbers", about(`"status":"completed","output":1,"timestamps":{"created_at":"","updated_at":1767000000}`), `/timestamps/updated_at must be a string (expected "string", actual "number")`},
		{"another skill", `{"skill_id":"shout","execution_id":"run-0","status":"completed","output":1,` + stamps + `}`, `skill_id is "shout", but must be "acme/a"`},
		{"a failure without reasons", about(`"status":"failed",` + stamps), "its status is failed, without an error that has a code and a message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
			p.On("acme/a", hostile.Invoke, hostile.Respond(http.StatusOK, c.body, "Content-Type", "application/json"))
			status, failed, output := try(t, p, "acme/a")
			if found := strings.Join(failed, "\n"); status != 1 || !strings.Contains(found, c.want) {
				t.Errorf("%d: %s, want %s: %s", status, found, c.want, output)
			}
		})
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
	p.On("acme/a", hostile.Invoke, hostile.Accept(0))
	p.On("acme/a", hostile.Status, hostile.Respond(http.StatusOK, about(`"status":"Running",`+stamps), "Content-Type", "application/json"))
	if _, failed, output := try(t, p, "acme/a"); !strings.Contains(strings.Join(failed, "\n"), `its status is "Running", but must be `+allowed) {
		t.Error(output)
	}
}

// TestRunNeedsAWayToFollow: a run that has not ended fails its check if the descriptor says no URL at which it can be followed. One
// that says only a result URL is followed there, as a bridge does.
func TestRunNeedsAWayToFollow(t *testing.T) {
	without := func(members ...string) func(hostile.Object) {
		return func(descriptor hostile.Object) {
			for _, name := range members {
				delete(descriptor["endpoint"].(hostile.Object), name)
			}
		}
	}
	for _, action := range []hostile.Action{hostile.Accept(0), hostile.State("running")} {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Edit: without("status_url", "result_url")})
		p.On("acme/a", hostile.Invoke, action)
		status, failed, output := try(t, p, "acme/a")
		if status != 1 || len(failed) != 1 || !strings.Contains(failed[0], "neither a status_url nor a result_url") {
			t.Errorf("%d: %s", status, output)
		}
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Edit: without("status_url")})
	p.On("acme/a", hostile.Invoke, hostile.AcceptForResult(0))
	if status, _, output := try(t, p, "acme/a"); status != 0 || !strings.Contains(output, `"the run completes with an output","result":"ok"`) {
		t.Errorf("%d: %s", status, output)
	}
}

// TestRunNamesTheTime: a run that takes too long fails with the time and what sets it, and the requests after it have their own time.
func TestRunNamesTheTime(t *testing.T) {
	for _, c := range []struct {
		timeout int
		flags   []string
		want    string
	}{
		{50, nil, "no answer within 50ms (endpoint.timeout_ms of the descriptor; --timeout sets another time)"},
		{0, []string{"--timeout", "50ms"}, "no answer within 50ms (--timeout)"},
	} {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Edit: func(d hostile.Object) {
			if c.timeout != 0 {
				d["endpoint"].(hostile.Object)["timeout_ms"] = c.timeout
			}
		}})
		p.On("acme/a", hostile.Invoke, func(x *hostile.Exchange) { <-x.Gone() })
		status, failed, output := try(t, p, "acme/a", c.flags...)
		if status != 1 || len(failed) != 1 || !strings.Contains(failed[0], c.want) {
			t.Errorf("%d: %s", status, output)
		}
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a"})
	p.On("acme/a", hostile.Invoke, hostile.Accept(1_000_000))
	status, failed, output := try(t, p, "acme/a", "--timeout", "100ms")
	if status != 1 || len(failed) != 1 || !strings.Contains(failed[0], "100ms (--timeout)") {
		t.Errorf("%d: %s", status, output)
	}
}

// TestRunChecksTheOutput: an output that does not fit the schema of the descriptor fails its check.
func TestRunChecksTheOutput(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/a", Edit: func(d hostile.Object) {
		delete(d["endpoint"].(hostile.Object), "status_url")
		delete(d["endpoint"].(hostile.Object), "result_url")
		d["output"] = hostile.Object{"content_type": "application/json", "schema": hostile.Object{"type": "object", "properties": hostile.Object{"text": hostile.Object{"type": "integer"}}}}
	}})
	for _, c := range []struct {
		output any
		fits   bool
	}{{hostile.Object{"text": "HI"}, false}, {hostile.Object{"text": 1}, true}} {
		p.On("acme/a", hostile.Invoke, hostile.Complete(c.output))
		status, failed, output := try(t, p, "acme/a")
		if found := strings.Join(failed, "\n"); (status == 0) != c.fits || !c.fits && !strings.Contains(found, "the run completes with an output: the output does not fit output.schema of the descriptor: ") {
			t.Errorf("%d: %s", status, output)
		}
	}
}
