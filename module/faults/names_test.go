package faults_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// namedBridge is a site with a bridge for callers whom a header names, and whose options these are, too.
func namedBridge(p *hostile.Provider, address string, lines ...string) string {
	return address + " {\n\tskill_bridge /rpc {\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tprincipal {http.request.header.X-User}\n\t\tprovider " + p.URL() + " {\n\t\t\tnamespace acme\n\t\t}\n\t\t" +
		strings.Join(lines, "\n\t\t") + "\n\t}\n}\n"
}

// listedRuns returns the ids that the provider has given to the runs that a caller sees.
func listedRuns(t *testing.T, c *testbed.Client) string {
	t.Helper()
	a := c.Call("list_runs", nil)
	var page struct {
		Runs []struct {
			RunID string `json:"run_id"`
		} `json:"runs"`
	}
	if err := json.Unmarshal(a.Result, &page); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	ids := make([]string, len(page.Runs))
	for i, r := range page.Runs {
		ids[i] = r.RunID
	}
	return strings.Join(ids, " ")
}

// R197: a site with several addresses has one bridge, whose runs and run tokens are the same at each of them, and stay what they are when hosts, ports
// and the order of sites change.
func TestR197OneBridgeAtSeveralAddresses(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	c := testbed.StartCaddy(t, namedBridge(p, "http://127.0.0.1:{$PORT}, http://localhost:{$PORT_B}"))
	at := func(host, port string) *testbed.Client {
		client := c.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Header("Idempotency-Key", `"one"`), wait(0))
		client.URL = "http://" + host + ":" + c.Port(port) + "/rpc"
		return client
	}
	first := at("127.0.0.1", "PORT").Execute("acme.slow", hostile.Object{"call": "one"})
	if first.Outcome() != "running" {
		t.Fatal(first)
	}
	check := func(what string, client *testbed.Client) {
		t.Helper()
		if a := client.Call("get_run", hostile.Object{"run_token": runToken(first), "wait_ms": 0}); a.Outcome() != "running" {
			t.Errorf("%s: the run token: %s", what, a)
		}
		if ids := listedRuns(t, client); ids != "run-1" {
			t.Errorf("%s: the runs %q", what, ids)
		}
		if a := client.Execute("acme.slow", hostile.Object{"call": "one"}); a.Outcome() != "running" || p.Count("acme/slow", hostile.Invoke) != 1 {
			t.Errorf("%s: the key: %s, %d times", what, a, p.Count("acme/slow", hostile.Invoke))
		}
	}
	check("at the other address", at("localhost", "PORT_B"))
	other := namedBridge(p, "http://127.0.0.1:{$PORT_C}", "name other")
	for _, next := range []string{
		namedBridge(p, "http://127.0.0.1:{$PORT_D}, http://localhost:{$PORT}"),
		other + namedBridge(p, "http://localhost:{$PORT}"),
		namedBridge(p, "http://localhost:{$PORT}", "audit") + other,
	} {
		if err := c.Reload(next); err != nil {
			t.Fatal(err)
		}
		check(next, at("localhost", "PORT"))
	}
}

// R198: a second bridge without a name is refused, and the configuration before goes on; with a name, each has its own runs, also for a caller of the same
// name who uses the same key.
func TestR198TwoBridges(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	one := namedBridge(p, "http://127.0.0.1:{$PORT}")
	c := testbed.StartCaddy(t, testbed.AdminAPI+one)
	for about, second := range map[string]string{"the same": namedBridge(p, "http://localhost:{$PORT}"), "another": namedBridge(p, "http://127.0.0.1:{$PORT_B}", "audit")} {
		err := c.Reload(testbed.AdminAPI + one + second)
		if err == nil || !strings.Contains(err.Error(), "another skill_bridge without a name (at Caddyfile:") || !strings.Contains(err.Error(), "write name <text>") {
			t.Errorf("%s: %v", about, err)
		}
	}
	users := []*testbed.Client{c.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Header("Idempotency-Key", `"one"`), wait(0))}
	answers := []testbed.Answer{users[0].Execute("acme.slow", hostile.Object{"call": "one"})}
	if err := c.Reload(testbed.AdminAPI + one + namedBridge(p, "http://127.0.0.1:{$PORT_B}", "name second")); err != nil {
		t.Fatal(err)
	}
	users = append(users, users[0].With())
	users[1].URL = "http://127.0.0.1:" + c.Port("PORT_B") + "/rpc"
	answers = append(answers, users[1].Execute("acme.slow", hostile.Object{"call": "one"}))
	if n := p.Count("acme/slow", hostile.Invoke); n != 2 {
		t.Errorf("executed %d times, want once at each", n)
	}
	for i, user := range users {
		if ids, want := listedRuns(t, user), fmt.Sprint("run-", i+1); ids != want {
			t.Errorf("bridge %d lists %q, want %q", i, ids, want)
		}
		for j, a := range answers {
			a = user.Call("get_run", hostile.Object{"run_token": runToken(a), "wait_ms": 0})
			if own := a.Outcome() == "running"; own != (i == j) || !own && (a.Code != -32602 || a.Data.Reason != "invalid") {
				t.Errorf("at bridge %d with the token of %d: %s", i, j, a)
			}
		}
	}
	runs := string(c.Send("GET", c.Admin()+"/skill_bridge/runs", "").Body)
	for _, name := range []string{"skill_bridge/rpc", "second"} {
		if strings.Count(runs, `"bridge_name":"`+name+`"`) != 1 {
			t.Errorf("the runs of %s: %s", name, runs)
		}
	}
}
