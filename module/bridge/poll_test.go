package bridge

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestHandlersLearnTogether: those without intervals of their own share what they learn.
func TestHandlersLearnTogether(t *testing.T) {
	one, two, fixed := mustLoad(t, `{}`), mustLoad(t, `{"timeout":"1s"}`), mustLoad(t, `{"poll_interval":"1s"}`)
	if one.timings.Store != two.timings.Store || fixed.timings != nil {
		t.Errorf("%p %p %p", one.timings, two.timings, fixed.timings)
	}
}

// TestHandlersShareBudgets: those that may ask equally often have the budgets of all
// hosts in common, and give them up with the last of them.
func TestHandlersShareBudgets(t *testing.T) {
	const polls = 1234 // of no other test
	config := fmt.Sprintf(`{"limits":{"runs":%d}}`, polls)
	one, two := mustLoad(t, config), mustLoad(t, fmt.Sprintf(`{"poll_interval":"1s","limits":{"runs":%d}}`, polls))
	mustLoad(t, fmt.Sprintf(`{"limits":{"runs":%d}}`, polls+1))
	for i, h := range []*Handler{one, two} {
		if n := budgetPool.References(pollRate{polls, 1000}); n != 2-i {
			t.Errorf("%d references to the budgets of %d polls, want %d", n, polls, 2-i)
		}
		if err := h.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	if n := budgetPool.References(pollRate{polls, 1000}); n != 0 {
		t.Errorf("%d references to the budgets of %d polls are left", n, polls)
	}
}

// A host is asked no more often than it may be by all handlers together, and a reload
// does not begin anew.
func TestPollsOfAHost(t *testing.T) {
	testbed.CheckLeaks(t)
	p, q := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}), hostile.NewProvider(t, hostile.Skill{ID: "beta/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	q.On("beta/slow", hostile.Invoke, hostile.Accept(1<<30))
	bridge := func(path string, sources ...string) string {
		text := "skill_bridge " + path + " {\n\tname " + path[1:] + "\n\tallow_http\n\tallow_networks 127.0.0.0/8\n"
		for _, line := range sources {
			text += "\t" + line + "\n"
		}
		return text + "}"
	}
	config := func(caller string) string {
		return testbed.Site(
			bridge("/rpc", "caller "+caller, "provider "+p.URL()+" {", "\tnamespace acme", "}"),
			bridge("/two", "caller "+caller, "skill slow "+p.URLOf("acme/slow", hostile.Descriptor), "provider "+q.URL()+" {", "\tnamespace beta", "}"),
		)
	}
	testbed.Guard(t, func(g *guards.Guards) { g.Polls, g.AllPolls = 1, 1 })
	c := testbed.StartCaddy(t, config("first"))
	one := c.With(testbed.Fresh(), testbed.Param("wait_ms", 0)) // a reload may drop idle connections
	two := one.With()
	two.URL = "http://127.0.0.1:" + c.Port("PORT") + "/two"
	submit := func(client *testbed.Client, skill string) (token string) {
		t.Helper()
		a := client.Execute(skill, nil)
		var result struct {
			RunToken string `json:"run_token"`
		}
		if err := json.Unmarshal(a.Result, &result); err != nil || a.Outcome() != "running" || result.RunToken == "" {
			t.Fatal(a)
		}
		return result.RunToken
	}
	start := time.Now()
	runs := []struct {
		client *testbed.Client
		token  string
	}{{one, submit(one, "acme.slow")}, {two, submit(two, "slow")}, {two, submit(two, "beta.slow")}}
	ask := func() {
		t.Helper()
		for range 3 {
			for _, run := range runs {
				if a := run.client.Call("get_run", hostile.Object{"run_token": run.token, "wait_ms": 0}); a.Outcome() != "running" {
					t.Fatal(a)
				}
			}
		}
	}
	ask()
	for _, caller := range []string{"second", "third"} {
		if err := c.Reload(config(caller)); err != nil {
			t.Fatal(err)
		}
		ask()
	}
	for _, host := range []struct {
		provider *hostile.Provider
		skill    string
	}{{p, "acme/slow"}, {q, "beta/slow"}} {
		n, most := host.provider.Count(host.skill, hostile.Status), 1+time.Since(start).Seconds()
		if n == 0 || float64(n) > most {
			t.Errorf("%s: %d polls, want at least one and at most %.1f", host.skill, n, most)
		}
	}
}
