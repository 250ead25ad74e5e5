package skillsprotocol_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// fakeTokens makes tokens that contain their run and principal in clear text.
type fakeTokens struct {
	broken   error
	lifetime time.Duration // 0: the default
}

func (f fakeTokens) Ready(context.Context) error { return f.broken }

func (f fakeTokens) Lifetime() time.Duration { return cmp.Or(f.lifetime, runtoken.Lifetime) }

func (f fakeTokens) Seal(_ context.Context, ref run.Ref, principal string) (string, error) {
	return strings.Join([]string{ref.Source, ref.SkillID, ref.Version, ref.ExecutionID, principal}, "|"), f.broken
}

func (f fakeTokens) Open(_ context.Context, token, principal string) (run.Ref, error) {
	part := strings.Split(token, "|")
	if f.broken == nil && (len(part) != 5 || part[4] != principal) {
		return run.Ref{}, runtoken.ErrInvalid
	}
	if f.broken != nil {
		return run.Ref{}, f.broken
	}
	return run.Ref{Source: part[0], SkillID: part[1], Version: part[2], ExecutionID: part[3]}, nil
}

var ref = run.Ref{Source: "acme", SkillID: "acme/slow", Version: "1.0.0", ExecutionID: "exec-1"}

// runningRun returns a run that has not ended.
func runningRun() run.Run {
	return run.Run{Ref: ref, State: run.Accepted, RetryAfter: 1500 * time.Microsecond}
}

// If wait_ms is over before the run ends, the answer has the status running and a run token.
func TestRunning(t *testing.T) {
	const want = `{"status":"running","run_id":"exec-1","run_token":"acme|acme/slow|1.0.0|exec-1|",` +
		`"summary":"Skill acme/slow is still running; get_run with the run_token tells how it ends.","retry_after_ms":2}`
	b := &fakeBridge{outcome: runningRun()}
	if got := result(t, b, "execute_skill", `{"name":"acme.slow","wait_ms":0}`); got != want {
		t.Errorf("execute_skill: %s, want %s", got, want)
	}
	if got := result(t, b, "get_run", `{"run_token":"acme|acme/slow|1.0.0|exec-1|","wait_ms":1.5}`); got != want {
		t.Errorf("get_run: %s, want %s", got, want)
	}
	if len(b.followed) != 1 || b.runs[0] != ref || *b.followed[0].Wait != 1500*time.Microsecond || *b.executed[0].Wait != 0 {
		t.Errorf("followed: %+v of %+v; executed: %+v", b.followed, b.runs, b.executed)
	}
	_ = result(t, b, "get_run", `{"run_token":"acme|acme/slow|1.0.0|exec-1|"}`)
	_ = result(t, b, "execute_skill", `{"name":"acme.slow"}`)
	if b.followed[1].Wait != nil || b.executed[1].Wait != nil {
		t.Error("a wait that nobody asked for")
	}
}

// The memory of a request is freed before the front waits for its run.
func TestArgumentsAreReleased(t *testing.T) {
	var req *jsonrpc.Request
	b := &fakeBridge{outcome: done}
	b.waiting = func() {
		if req.Params != nil || req.Members != nil || string(req.ID) != "1" {
			t.Errorf("held while the run is waited for: %+v", req)
		}
	}
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	server := &jsonrpc.Server{Handler: jsonrpc.Handler(func(ctx context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		req = r
		return front.ServeRPC(ctx, r)
	})}
	body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"a","args":{"x":1}}}`)
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", body))
	if len(b.executed) != 1 || !strings.Contains(w.Body.String(), `"status":"completed"`) {
		t.Errorf("%d executed: %s", len(b.executed), w.Body)
	}
}

func TestRunEnded(t *testing.T) {
	b := &fakeBridge{outcome: done}
	const want = `{"status":"completed","run_id":"exec-1","summary":"Skill example-corp/weather-forecast completed in 5.2 s.","output":{"ok":true}}`
	if got := result(t, b, "get_run", `{"run_token":"acme|acme/slow|1.0.0|exec-1|"}`); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWaitIsChecked(t *testing.T) {
	for _, c := range []struct{ method, params, data string }{
		{"execute_skill", `{"name":"a","wait_ms":-1}`, `{"param":"wait_ms","reason":"invalid",`},
		{"execute_skill", `{"name":"a","wait_ms":"1"}`, `{"param":"wait_ms","reason":"invalid",`},
		{"get_run", `{"run_token":null}`, `{"param":"run_token","reason":"required",`},
		{"get_run", `{"run_token":"a|b|c|d|","wait_ms":true}`, `{"param":"wait_ms","reason":"invalid",`},
		{"get_run", `{}`, `{"param":"run_token","reason":"required",`},
		{"get_run", `{"run_token":7}`, `{"param":"run_token","reason":"invalid",`},
		{"get_run", `{"run_token":""}`, `{"param":"run_token","reason":"invalid",`},
	} {
		b := &fakeBridge{outcome: runningRun()}
		_, fault := ask(t, b, c.method, c.params)
		if fault == nil || fault.Code != jsonrpc.CodeInvalidParams || !strings.HasPrefix(string(fault.Data), c.data) || b.calls() != 0 {
			t.Errorf("%s %s: %+v", c.method, c.params, fault)
		}
	}
	b := &fakeBridge{outcome: runningRun()}
	_ = result(t, b, "execute_skill", `{"name":"a","wait_ms":1e300}`)
	if *b.executed[0].Wait < 24*time.Hour {
		t.Errorf("a wait of %v", *b.executed[0].Wait)
	}
}

func TestRunTokenOfAnother(t *testing.T) {
	b := &fakeBridge{outcome: runningRun()}
	ctx := translate.WithCaller(t.Context(), run.Caller{Principal: "bob"})
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	for _, token := range []string{"acme|acme/slow|1.0.0|exec-1|alice", "acme|acme/slow|1.0.0|exec-1|", "x"} {
		_, fault := front.ServeRPC(ctx, request("get_run", `{"run_token":"`+token+`"}`))
		if fault == nil || fault.Code != jsonrpc.CodeInvalidParams || b.calls() != 0 ||
			string(fault.Data) != `{"param":"run_token","reason":"invalid","source":"bridge","executed":"no","next":"fix_params"}` {
			t.Errorf("%s: %+v", token, fault)
		}
	}
	if _, fault := front.ServeRPC(ctx, request("get_run", `{"run_token":"acme|acme/slow|1.0.0|exec-1|bob"}`)); fault != nil {
		t.Error(fault)
	}
}

// Every answer about a run that was accepted and may not have ended has a run token.
func TestRunTokenInFailures(t *testing.T) {
	const token = `"run_token":"acme|acme/slow|1.0.0|exec-1|"`
	for _, kind := range []run.Kind{run.DeadlineExceeded, run.Stopped, run.Unreachable, run.ProviderFault, run.RateLimited} {
		o := runningRun()
		o.Failure = &run.Failure{
			Kind: kind, Executed: run.ExecutedYes, By: run.Bridge, Ref: run.Ref{ExecutionID: "exec-1"},
		}
		got, fault := ask(t, &fakeBridge{outcome: o}, "execute_skill", `{"name":"a"}`)
		if fault != nil {
			got = fault.Data
		}
		if strings.Count(string(got), token) != 1 {
			t.Errorf("%v: no token in %s", kind, got)
		}
	}
	o := runningRun() // it has completed, but its output can't be read
	o.State, o.Failure = run.Completed, &run.Failure{Kind: run.Unreachable}
	if _, fault := ask(t, &fakeBridge{outcome: o}, "execute_skill", `{"name":"a"}`); fault == nil || strings.Count(string(fault.Data), token) != 1 {
		t.Errorf("no token in %+v", fault)
	}
	o.State, o.Failure = run.Failed, &run.Failure{Kind: run.RunFailed}
	if got := result(t, &fakeBridge{outcome: o}, "execute_skill", `{"name":"a"}`); strings.Contains(got, "run_token") {
		t.Errorf("a token of a run that has ended: %s", got)
	}
}

// Without keys, no run is started that an agent could follow only by a run token.
func TestRunTokensUnavailable(t *testing.T) {
	for method, params := range map[string]string{"execute_skill": `{"name":"a","wait_ms":0}`, "get_run": `{"run_token":"x"}`} {
		b := &fakeBridge{outcome: runningRun()}
		front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{broken: errors.New("storage: secret path")}, Canceled: new(ledger.Cancellations)}
		_, fault := front.ServeRPC(t.Context(), request(method, params))
		if fault == nil || fault.Code != jsonrpc.CodeInternalError || b.calls() != 0 || strings.Contains(string(fault.Data)+fault.Message, "secret") {
			t.Errorf("%s: %+v", method, fault)
		}
	}
	b := &fakeBridge{outcome: runningRun()}
	front := &skillsprotocol.Front{Bridge: b, Tokens: fakeTokens{broken: errors.New("storage")}, Canceled: new(ledger.Cancellations)}
	if got, fault := front.ServeRPC(t.Context(), request("execute_skill", `{"name":"a"}`)); fault != nil || strings.Contains(string(got), `"run_token"`) {
		t.Errorf("%s %v", got, fault)
	}
}
