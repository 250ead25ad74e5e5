package main_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// clusterRun is what execute_skill and get_run say about a run.
type clusterRun struct {
	RunID    string `json:"run_id"`
	RunToken string `json:"run_token"`
	Status   string `json:"status"`
}

// settleCluster lets the example run on this machine, with the skills of a provider. It returns the ports of its two instances.
func settleCluster(e *example, p *hostile.Provider) (ports []string) {
	e.t.Helper()
	before, after, _ := strings.Cut(e.text, "store postgres \"")
	_, after, _ = strings.Cut(after, "\"")
	e.text = before + "store postgres " + postgrestest.Start(e.t) + after
	e.replace("provider https://skills.example.com", "provider "+p.URL()+" {\n\t\t\tnamespace acme\n\t\t}")
	e.onLoopback()
	e.replace("\tshutdown_delay 5s\n", "\tshutdown_delay 1s\n")
	e.replace("\t\thealth_interval 2s\n", "\t\thealth_interval 200ms\n")
	e.replace("\tgrace_period 30s\n", "\tgrace_period 5s\n\tadmin off\n\tpersist_config off\n\tauto_https off\n")
	ports = []string{testbed.FreePort(e.t), testbed.FreePort(e.t)}
	e.replace("10.0.0.1:8080 10.0.0.2:8080", "127.0.0.1:"+ports[0]+" 127.0.0.1:"+ports[1])
	return ports
}

// TestRollingRestart: while the instances of the example are restarted one after the other, no call is lost, and no run that goes on.
func TestRollingRestart(t *testing.T) {
	longtest.Need(t, longtest.Long)
	e := open(t, "cluster")
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	ports := settleCluster(e, p)
	globals, sites, _ := strings.Cut(e.text, "# The balancer,")
	balancer, instance, _ := strings.Cut(sites, "# The bridge. ")
	start := func(site, old, address string) *exec.Cmd {
		e.text = globals + "# " + site
		e.replace(old, address+"\n\theader X-Site "+address[len("http://"):len(address)-len(" {")])
		return runCaddyfile(e, "Caddyfile")
	}
	var instances [2]*exec.Cmd
	for i, port := range ports {
		instances[i] = start(instance, "http://:8080 {", "http://127.0.0.1:"+port+" {")
	}
	port := testbed.FreePort(t)
	front := start(balancer, "bridge.example.com {", "http://127.0.0.1:"+port+" {")

	b, client := bridgeAt(t, "127.0.0.1:"+port), &http.Client{Transport: new(http.Transport)}
	// balanced waits until the balancer sends requests to an instance.
	balanced := func(instance string) {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			resp, err := client.Get("http://127.0.0.1:" + port + "/internal/readyz") //nolint:noctx // the test has a deadline
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode == http.StatusOK && slices.Contains(resp.Header["X-Site"], "127.0.0.1:"+instance) {
					return
				}
			}
			if time.Now().After(deadline) {
				t.Fatal("an instance does not become ready")
			}
		}
	}
	keyed := func(key, wait string) (r clusterRun) {
		o := b.call("execute_skill", `{"name":"acme.slow","args":{},"idempotency_key":"`+key+`"`+wait+`}`, authorization, "Bearer "+e.secret("alice"))
		if o.Result == nil {
			t.Errorf("%s: %+v", key, o.Error)
			return r
		}
		return decode[clusterRun](t, string(o.Result))
	}
	begun := map[string]string{}
	var calls sync.WaitGroup
	var answered atomic.Int64
	stop := make(chan struct{})
	for range 4 {
		calls.Go(func() {
			for ended := false; !ended; answered.Add(1) {
				if o := b.call("execute_skill", `{"name":"acme.echo","args":{}}`, authorization, "Bearer "+e.secret("alice")); !strings.Contains(string(o.Result), `"completed"`) {
					t.Errorf("a call is lost: %+v", o)
					return
				}
				select {
				case <-stop:
					ended = true
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
	}
	for i, port := range ports {
		for _, port := range ports {
			balanced(port)
		}
		for n := range 6 {
			key := fmt.Sprintf("order-%d-%d", i, n)
			begun[key] = keyed(key, `,"wait_ms":0`).RunID
		}
		before := answered.Load()
		stopCaddy(t, instances[i])
		instances[i] = start(instance, "http://:8080 {", "http://127.0.0.1:"+port+" {")
		balanced(port)
		if answered.Load() < before+20 {
			t.Errorf("only %d calls during a restart", answered.Load()-before)
		}
	}
	close(stop)
	calls.Wait()
	gate.Open()
	for key, id := range begun {
		if r := keyed(key, ""); r.Status != "completed" || r.RunID != id {
			t.Errorf("%s began as %q, is %+v", key, id, r)
		}
	}
	if n := p.Count("acme/slow", hostile.Invoke); n != len(begun) {
		t.Errorf("%d invocations of %d runs", n, len(begun))
	}
	for _, command := range append(instances[:], front) {
		stopCaddy(t, command)
	}
}

// exerciseCluster runs two instances in processes of their own: what one begins, the other knows, and a key is executed once.
func exerciseCluster(e *example) {
	t := e.t
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	ports := settleCluster(e, p)
	text, header := e.text, []string{authorization, "Bearer " + e.secret("alice")}
	var instances, balancers []*bridge
	var stop []func()
	for _, port := range ports {
		balancer := testbed.FreePort(t)
		e.text = text
		e.replace("\nbridge.example.com {", "\nhttp://127.0.0.1:"+balancer+" {")
		e.replace("\nhttp://:8080 {", "\nhttp://:"+port+" {")
		command := runCaddyfile(e, "Caddyfile")
		stop = append(stop, func() { stopCaddy(t, command) }) // if the test fails, it ends with its context
		instances, balancers = append(instances, bridgeAt(t, "127.0.0.1:"+port)), append(balancers, bridgeAt(t, "127.0.0.1:"+balancer))
	}
	run := func(b *bridge, method, params string) clusterRun {
		t.Helper()
		o := b.call(method, params, header...)
		if o.Result == nil {
			t.Fatalf("%s at %s: %+v", method, b.endpoint, o.Error)
		}
		return decode[clusterRun](t, string(o.Result))
	}
	const keyed = `{"name":"acme.slow","args":{},"wait_ms":0,"idempotency_key":"order-1"}`
	var begun [2]clusterRun
	var calls sync.WaitGroup
	for i, b := range instances {
		calls.Go(func() { begun[i] = run(b, "execute_skill", keyed) })
	}
	calls.Wait()
	if begun[0].RunID == "" || begun[0].RunID != begun[1].RunID || begun[0].Status != "running" && begun[0].Status != "accepted" {
		t.Fatalf("one key, two instances: %+v", begun)
	}
	token := `{"run_token":"` + begun[0].RunToken + `"`
	if got := run(instances[1], "get_run", token+`,"wait_ms":0}`); got.RunID != begun[0].RunID {
		t.Errorf("at the other instance: %+v", got)
	}
	gate.Open()
	for _, b := range append(instances, balancers...) {
		if got := run(b, "get_run", token+"}"); got.Status != "completed" {
			t.Errorf("%s: %+v", b.endpoint, got)
		}
		if got := run(b, "execute_skill", keyed); got.Status != "completed" || got.RunID != begun[0].RunID {
			t.Errorf("the key again at %s: %+v", b.endpoint, got)
		}
		listed(t, b, begun[0].RunID, header)
	}
	if n := p.Count("acme/slow", hostile.Invoke); n != 1 {
		t.Errorf("%d invocations", n)
	}
	stop[0]()
	listed(t, balancers[1], begun[0].RunID, header) // the balancer leaves the instance out that is gone
	if a := balancers[1].post(`{"jsonrpc":"2.0","id":1,"method":"list_runs"}`); a.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	stop[1]()
}

// listed fails the test unless an instance lists one run.
func listed(t *testing.T, b *bridge, id string, header []string) {
	t.Helper()
	o := b.call("list_runs", "{}", header...)
	page := decode[struct {
		Runs []clusterRun `json:"runs"`
	}](t, string(o.Result))
	if len(page.Runs) != 1 || page.Runs[0].RunID != id || page.Runs[0].Status != "completed" {
		t.Errorf("list_runs at %s: %s", b.endpoint, o.Result)
	}
}
