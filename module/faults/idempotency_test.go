package faults_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// keyed calls a skill with an idempotency key, the same arguments each time, and further params.
func keyed(c *testbed.Client, user, skill, key string, options ...testbed.Option) testbed.Answer {
	options = append(options, testbed.Header("User", user), testbed.Param("idempotency_key", key))
	return c.With(options...).Execute(skill, hostile.Object{"call": user + " " + key})
}

// R90: calls with one idempotency key, at the same instant and at two instances of one storage, are one run, also after its end, a
// reload and kill -9. Another caller's key is another one.
func TestR90IdempotencyKeys(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	config, folder := withTools(p), storage(t.TempDir())
	instances := []*testbed.Process{
		testbed.StartProcess(t, testbed.Limits{}, config, folder), testbed.StartProcess(t, testbed.Limits{}, config, folder),
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	ids := map[string]int{}
	for n := range 10 {
		group.Go(func() {
			a := keyed(instances[n%2].Client, "ann", "acme.later", "order 17", testbed.Param("wait_ms", 0))
			if r := a.Run(); r.Status != "running" || !strings.Contains(string(a.Result), `"run_token"`) {
				t.Errorf("call %d: %s", n, a)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[a.Run().RunID]++
		})
	}
	group.Wait()
	if len(ids) != 1 || p.Count("acme/later", hostile.Invoke) != 1 {
		t.Errorf("runs: %v, %d invocations", ids, p.Count("acme/later", hostile.Invoke))
	}
	if a := keyed(instances[0].Client, "bob", "acme.later", "order 17", testbed.Param("wait_ms", 0)); ids[a.Run().RunID] != 0 {
		t.Errorf("another caller: %s", a)
	}
	if a := keyed(instances[0].Client, "ann", "acme.now", "order 17"); a.Code != -32602 || !strings.Contains(string(a.Body), `"reason":"key_reused"`) {
		t.Errorf("another skill: %s", a)
	}
	for _, c := range instances {
		if err := c.Reload(strings.Replace(config, "namespace acme", "namespace acme\n\t\ttrust b.example", 1), folder); err != nil {
			t.Fatal(err)
		}
	}
	instances[0].Signal(syscall.SIGKILL)
	<-instances[0].Exited()
	gate.Open()
	for range 2 {
		if a := keyed(instances[1].Client, "ann", "acme.later", "order 17"); a.Outcome() != "completed" || ids[a.Run().RunID] == 0 {
			t.Errorf("after the end: %s", a)
		}
	}
	again := testbed.StartProcess(t, testbed.Limits{}, config, folder)
	before := p.Count("acme/later", hostile.Status)
	if a := keyed(again.Client, "ann", "acme.later", "order 17"); a.Outcome() != "completed" || ids[a.Run().RunID] == 0 || p.Count("acme/later", hostile.Status) != before {
		t.Errorf("after a restart: %s", a)
	}
	if n := p.Count("acme/later", hostile.Invoke); n != 2 { // bob's, too
		t.Errorf("%d invocations", n)
	}
}

// R91: a process that is killed while it submits a call with an idempotency key: the next one does not submit it again, and says so. A caller that
// hangs up loses no run.
func TestR91KilledSubmission(t *testing.T) {
	t.Parallel()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"}, hostile.Skill{ID: "acme/now"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, gate.Then(hostile.Usual()))
	config, folder := withTools(p), storage(t.TempDir())
	c := testbed.StartProcess(t, testbed.Limits{}, config, folder)
	ctx, hangUp := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { keyed(c.Client, "ann", "acme.later", "a", testbed.Context(ctx)) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the skill is invoked")
	c.Signal(os.Kill)
	<-c.Exited()
	group.Wait()
	hangUp()
	c = testbed.StartProcess(t, testbed.Limits{}, config, folder)
	for range 2 {
		a := keyed(c.Client, "ann", "acme.later", "a", testbed.Timeout(patience))
		if a.Code != -32052 || a.Data.Executed != "maybe" || a.Data.Next != "none" {
			t.Errorf("after kill -9: %s", a)
		}
	}
	if n := p.Count("acme/later", hostile.Invoke); n != 1 {
		t.Errorf("%d invocations", n)
	}
	second := hostile.NewGate(t)
	p.On("acme/now", hostile.Invoke, hostile.Accept(0))
	p.On("acme/now", hostile.Status, second.Then(hostile.Usual()))
	ctx, hangUp = context.WithCancel(t.Context())
	defer hangUp()
	group.Go(func() { keyed(c.Client, "ann", "acme.now", "b", testbed.Context(ctx)) })
	testbed.Eventually(t, patience, func() bool { return second.Waiting() > 0 }, "the run is followed")
	hangUp()
	group.Wait()
	second.Open()
	testbed.Eventually(t, patience, func() bool { return c.InProgress() == 0 && second.Waiting() == 0 }, "the run has ended")
	before := p.Count("acme/now", hostile.Status)
	testbed.Eventually(t, patience, func() bool {
		before = p.Count("acme/now", hostile.Status)
		a := keyed(c.Client, "ann", "acme.now", "b")
		return a.Outcome() == "completed" && p.Count("acme/now", hostile.Status) == before
	}, "the outcome is stored")
	if n := p.Count("acme/now", hostile.Invoke); n != 1 {
		t.Errorf("%d invocations", n)
	}
}
