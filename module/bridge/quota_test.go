package bridge_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// quotaSite is a site with a provider of one skill, and with further lines.
func quotaSite(p *hostile.Provider, lines ...string) string {
	return site("PORT", append([]string{"name quotas", "provider " + p.URL() + " {\n\t\tnamespace acme\n\t}"}, lines...)...)
}

// execute is a call of the skill through each of the fronts.
func execute(front string) request {
	switch front {
	case "mcp":
		return request{"mcp", "tools/call", hostile.Object{"name": "acme_s_done", "arguments": hostile.Object{}}}
	case "a2a":
		data := hostile.Object{"data": hostile.Object{"skill": "acme.s.done", "input": hostile.Object{}}}
		return request{"a2a", "SendMessage", hostile.Object{"message": hostile.Object{"messageId": testbed.NewCall(), "role": "ROLE_USER", "parts": []any{data}}}}
	}
	return request{"rpc", "execute_skill", hostile.Object{"name": "acme.s.done"}}
}

// TestQuotasOfAllFronts: the calls of a caller through all fronts count together. A reload changes nothing, unless it changes the quota.
func TestQuotasOfAllFronts(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/done"})
	text := func(lines ...string) string { return quotaSite(p, lines...) }
	c := testbed.StartCaddy(t, text("quota * acme.* {\n\t\truns 1 1h\n\t}", "audit"))
	fronts := []string{"rpc", "mcp", "a2a"}
	send := func(front, user string) string {
		r := execute(front)
		return string(r.send(t, c.Client, user).Body)
	}
	refused := func(about, user string) {
		t.Helper()
		for _, front := range fronts {
			if body := send(front, user); !strings.Contains(body, `quota runs`) || !strings.Contains(body, `RATE_LIMITED`) || !strings.Contains(body, "suggested_delay_ms") && !strings.Contains(body, "retryDelay") {
				t.Errorf("%s: %q by %s: %s", about, user, front, body)
			}
		}
	}
	users := map[string]string{"rpc": "alice", "mcp": "bob", "a2a": ""} // anonymous callers are one caller
	for _, front := range fronts {
		if body := send(front, users[front]); strings.Contains(body, "quota") {
			t.Errorf("the first call by %s: %s", front, body)
		}
		refused("then", users[front])
	}
	for _, logger := range []string{`"http.handlers.skill_bridge"`, `"http.handlers.skill_bridge.audit"`} {
		testbed.Eventually(t, 10*time.Second, func() bool {
			return len(c.Log.Lines(`"level":"info"`, `"logger":`+logger, `"principal":"bob"`, `"outcome":"over_quota"`, `"limit":"quota runs"`)) == len(fronts)
		}, logger+" has a line about each call beyond the quota")
	}
	if err := c.Reload(text("quota * acme.* {\n\t\truns 1 1h\n\t}", "max_batch 7")); err != nil {
		t.Fatal(err)
	}
	refused("after a reload", "alice")
	if err := c.Reload(text("quota * acme.* {\n\t\truns 2 1h\n\t}")); err != nil {
		t.Fatal(err)
	}
	for _, front := range fronts[:2] {
		if body := send(front, "alice"); strings.Contains(body, "quota") {
			t.Errorf("after the quota has changed: %s", body)
		}
	}
	refused("then", "alice")
}

// TestWhichCallsCount: each call of a batch and each notification counts; a repeated call with an idempotency key, and what executes nothing, does not.
func TestWhichCallsCount(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/done"})
	c := testbed.StartCaddy(t, quotaSite(p, "quota * {\n\t\trate 3 1h\n\t}"))
	post := func(user, body string) string { return string(c.With(testbed.Header("User", user)).Post(body).Body) }
	call := func(id, more string) string {
		return `{"jsonrpc":"2.0",` + id + `"method":"execute_skill","params":{"name":"acme.s.done"` + more + `}}`
	}
	one := call(`"id":1,`, "")
	if body := post("batch", "["+strings.Repeat(one+",", 4)+one+"]"); strings.Count(body, `"limit":"quota rate","max":3`) != 2 || strings.Count(body, `"completed"`) != 3 {
		t.Errorf("a batch: %s", body)
	}
	for range 2 {
		post("notify", call("", ""))
	}
	for range 2 {
		post("notify", `{"jsonrpc":"2.0","id":1,"method":"describe_skill","params":{"name":"acme.s.done"}}`)
		post("notify", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.unknown"}}`)
	}
	if body := post("notify", one); !strings.Contains(body, `"completed"`) {
		t.Errorf("after two notifications: %s", body)
	}
	if body := post("notify", one); !strings.Contains(body, `quota rate`) {
		t.Errorf("after two notifications and a call: %s", body)
	}
	for range 5 {
		if body := post("key", call(`"id":1,`, `,"idempotency_key":"k"`)); !strings.Contains(body, `"completed"`) {
			t.Errorf("a repeated call: %s", body)
		}
	}
	for _, want := range []string{"completed", "completed", "quota rate", "quota rate"} {
		if body := post("key", one); !strings.Contains(body, want) {
			t.Errorf("after a call that was repeated: %s, want %s", body, want)
		}
	}
}

// TestQuotaOfAbandonedRuns: a run counts as long as the bridge follows it, also without a call, and a canceled one goes on at its provider.
func TestQuotaOfAbandonedRuns(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/endless"})
	gate, closed := hostile.NewGate(t), hostile.NewGate(t)
	p.On("s/slow", hostile.Invoke, hostile.Accept(0))
	p.On("s/slow", hostile.Status, gate.Then(hostile.Usual()))
	p.On("s/endless", hostile.Invoke, hostile.Accept(0))
	p.On("s/endless", hostile.Status, closed.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, quotaSite(p, "timeout 5m", "quota * acme.* {\n\t\tconcurrent 1\n\t}"))
	answer := func(user, method string, params hostile.Object) string {
		r := request{"rpc", method, params}
		return string(r.send(t, c.Client, user).Body)
	}
	slow := hostile.Object{"name": "acme.s.slow", "wait_ms": 0}
	token := regexp.MustCompile(`"run_token":"([^"]+)"`)
	for user, skill := range map[string]string{"keeps": "acme.s.slow", "cancels": "acme.s.endless"} {
		begun := answer(user, "execute_skill", hostile.Object{"name": skill, "wait_ms": 0, "idempotency_key": "k"})
		found := token.FindStringSubmatch(begun)
		if found == nil {
			t.Fatalf("no run: %s", begun)
		}
		if again := answer(user, "execute_skill", hostile.Object{"name": skill, "wait_ms": 0, "idempotency_key": "k"}); strings.Contains(again, "quota") {
			t.Errorf("the same call again: %s", again)
		}
		if user == "cancels" {
			if a := answer(user, "cancel_run", hostile.Object{"run_token": found[1]}); strings.Contains(a, `"error"`) {
				t.Errorf("cancel: %s", a)
			}
			answer(user, "get_run", hostile.Object{"run_token": found[1], "wait_ms": 0})
		}
		if a := answer(user, "execute_skill", slow); !strings.Contains(a, "quota concurrent") {
			t.Errorf("%s: while its run goes on: %s", user, a)
		}
	}
	gate.Open()
	testbed.Eventually(t, 20*time.Second, func() bool { return !strings.Contains(answer("keeps", "execute_skill", slow), "quota") }, "the end of the followed run is read")
	if a := answer("cancels", "execute_skill", slow); !strings.Contains(a, "quota concurrent") {
		t.Errorf("nothing has read the end of the canceled run: %s", a)
	}
}
