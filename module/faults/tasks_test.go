package faults_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// withAgents is a Caddyfile with a bridge that also serves A2A, for the users ann and bob and for anonymous callers, and with
// further lines in the block of a2a.
func withAgents(p *hostile.Provider, lines ...string) string {
	return withAgentsOf([]string{"ann", "bob"}, p, lines...)
}

// withAgentsOf is withAgents for other users.
func withAgentsOf(users []string, p *hostile.Provider, lines ...string) string {
	return testbed.Site("@known header Authorization *", strings.Replace(testbed.Accounts(users...), "basic_auth", "basic_auth @known", 1),
		"skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\tprovider "+p.URL()+" {", "\t\tnamespace acme", "\t}",
		"\t"+polling, "\trpc", "\ta2a {\n\t\t"+strings.Join(lines, "\n\t\t")+"\n\t}", "}")
}

// withWebhooks returns a configuration of withAgents in which clients can set webhooks on this machine.
func withWebhooks(config string) string {
	return strings.Replace(config, "\trpc\n", "\trpc\n\twebhooks {\n\t\tallow_http\n\t\tallow_networks 127.0.0.1\n\t\tallow_ports any\n\t}\n", 1)
}

// agentOf returns a client of A2A 1.0 of a user.
func agentOf(c *testbed.Client, user string) *testbed.Client {
	return c.Agent(testbed.BasicAuth(user, testbed.Password))
}

// R59: a task of an instance that is killed is read, streamed and ended by another one with the same storage, and its skill is
// invoked once.
func TestR59KilledInstance(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	folder := t.TempDir()
	first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	begun := agentOf(first.Client, "ann").Invoke("acme.later", true)
	id := begun.Task().ID
	if begun.Task().State() != "SUBMITTED" && begun.Task().State() != "WORKING" {
		t.Fatalf("returnImmediately: %s", begun)
	}
	ann := agentOf(second.Client, "ann")
	testbed.Eventually(t, patience, func() bool { return ann.GetTask(id).Task().State() == "WORKING" }, "the other instance knows that the run was accepted")
	before := ann.Stream("SubscribeToTask", hostile.Object{"id": id})
	if e, _ := before.Next(patience); e.String() != "task WORKING" {
		t.Errorf("the first event is %s", e)
	}
	first.Signal(os.Kill)
	first.Wait(patience)
	after := ann.Stream("SubscribeToTask", hostile.Object{"id": id})
	if e, _ := after.Next(patience); e.String() != "task WORKING" {
		t.Errorf("the first event is %s", e)
	}
	gate.Open()
	for name, s := range map[string]*testbed.Stream{"before": before, "after": after} {
		if got := s.Rest(patience); !slices.Equal(got, []string{"artifact", "COMPLETED"}) {
			t.Errorf("events of a stream that began %s the kill: %q", name, got)
		}
	}
	done := ann.GetTask(id).Task()
	if done.State() != "COMPLETED" || len(done.Artifacts) != 1 || !strings.Contains(string(done.Artifacts[0].Parts[0].Data), begun.Call) {
		t.Errorf("the task has ended as %+v", done)
	}
	if other := agentOf(second.Client, "bob").GetTask(id); other.Code != -32001 {
		t.Errorf("another caller: %s", other)
	}
	checkOnce(t, p, begun)
}

// R59: an instance that is killed while the provider holds the invocation leaves a task that another instance tells as FAILED, also in streams. It is
// never invoked again.
func TestR59KilledWhileInvoking(t *testing.T) {
	t.Parallel()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/silent"})
	p.On("acme/silent", hostile.Invoke, hostile.Hang())
	folder := t.TempDir()
	first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	begun := agentOf(first.Client, "ann").Invoke("acme.silent", true)
	id := begun.Task().ID
	if begun.Task().State() != "SUBMITTED" {
		t.Fatalf("returnImmediately: %s", begun)
	}
	testbed.Eventually(t, patience, func() bool { return p.Hanging() == 1 }, "the provider has the invocation")
	ann := agentOf(second.Client, "ann")
	stream := ann.Stream("SubscribeToTask", hostile.Object{"id": id})
	if e, _ := stream.Next(patience); e.String() != "task SUBMITTED" {
		t.Errorf("the first event is %s", e)
	}
	first.Signal(os.Kill)
	first.Wait(patience)
	third := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	testbed.Eventually(t, 2*patience, func() bool { return agentOf(third.Client, "ann").GetTask(id).Task().State() == "FAILED" }, "the task is ended")
	if got := agentOf(third.Client, "ann").GetTask(id).Task(); got.Executed() != "maybe" {
		t.Errorf("%+v", got)
	}
	if events := stream.Rest(patience); !slices.Equal(events, []string{"FAILED"}) {
		t.Errorf("events of a stream at another instance: %q", events)
	}
	checkOnce(t, p, begun)
}

// R59: what another instance does with a task is seen in the streams of this one, also if this one does not follow its run.
func TestR59StreamOfAnothersTask(t *testing.T) {
	t.Parallel()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, gate.Then(hostile.Complete(nil)))
	folder := t.TempDir()
	first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	begun := agentOf(first.Client, "ann").Invoke("acme.slow", true)
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the provider has the invocation")
	stream := agentOf(second.Client, "ann").Stream("SubscribeToTask", hostile.Object{"id": begun.Task().ID})
	if e, _ := stream.Next(patience); e.String() != "task SUBMITTED" {
		t.Errorf("the first event is %s", e)
	}
	gate.Open()
	events := stream.Rest(patience)
	if n := len(events); n < 2 || !slices.Equal(events[n-2:], []string{"artifact", "COMPLETED"}) {
		t.Errorf("events at another instance: %q", events)
	}
	checkOnce(t, p, begun)
}

// R60: after a restart, open tasks are followed, ended ones are readable, and lists are complete.
func TestR60Restart(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "kill -9": os.Kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later"})
			gate := hostile.NewGate(t)
			p.On("acme/later", hostile.Invoke, hostile.Accept(0))
			p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
			folder := t.TempDir()
			options := []string{storage(folder), "grace_period 2s"}
			first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), options...)
			ann := agentOf(first.Client, "ann")
			want := map[string]string{}
			for range 20 {
				a := ann.Invoke("acme.now", false)
				if a.Task().State() != "COMPLETED" {
					t.Fatal(a)
				}
				want[a.Task().ID] = "COMPLETED"
			}
			open := ann.Invoke("acme.later", true)
			want[open.Task().ID] = "WORKING"
			asked := ann.Call("SendMessage", hostile.Object{"message": hostile.Object{"messageId": "m", "role": "ROLE_USER", "parts": []hostile.Object{{"text": "hello"}}}})
			if asked.Task().State() != "INPUT_REQUIRED" {
				t.Fatal(asked)
			}
			want[asked.Task().ID] = "INPUT_REQUIRED"
			testbed.Eventually(t, patience, func() bool { return ann.GetTask(open.Task().ID).Task().State() == "WORKING" }, "the run was accepted")
			first.Signal(stop)
			first.Wait(patience)
			second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), options...)
			ann = agentOf(second.Client, "ann")
			got, token := map[string]string{}, ""
			for {
				page := ann.Call("ListTasks", hostile.Object{"pageSize": 7, "pageToken": token}).Page()
				for _, task := range page.Tasks {
					got[task.ID] = task.State()
				}
				if token = page.Next; token == "" {
					break
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("listed are %v, want %v", got, want)
			}
			for id, state := range want {
				if a := ann.GetTask(id); a.Task().State() != state {
					t.Errorf("%s: %s, want %s", id, a, state)
				}
			}
			gate.Open()
			testbed.Eventually(t, patience, func() bool { return ann.GetTask(open.Task().ID).Task().State() == "COMPLETED" }, "the open task is followed")
			checkOnce(t, p, open)
			checkDuplicates(t, p)
		})
	}
}
