package faults_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R64: while another program has locked the database, nothing is invoked whose task the client would have to be told of before its end, and /rpc is not
// affected. When the database can be written again, all is as before.
func TestR64StorageFails(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	p, gate := later(t)
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, strings.Replace(withAgents(p), "\trpc\n", "\trpc\n\twait 1s\n", 1), storage(folder))
	ann := agentOf(c.Client, "ann")
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Fatal(a)
	}
	open := ann.Invoke("acme.later", true)
	asked := ann.Call("SendMessage", unclear()).Task()
	testbed.Eventually(t, patience, func() bool { return ann.GetTask(open.Task().ID).Task().State() == "WORKING" }, "the run was accepted")
	db, err := sql.Open("sqlite", filepath.Join(folder, "caddy", "skill_bridge.db")+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	posts := p.Count("acme/later", hostile.Invoke)
	answer := unclear()
	answer["message"].(hostile.Object)["taskId"] = asked.ID
	answer["message"].(hostile.Object)["parts"] = []hostile.Object{{"data": hostile.Object{"skill": "acme.later", "input": hostile.Object{}}}}
	params, _ := testbed.Message("acme.later", false)
	named := c.Agent(testbed.Header("A2A-Version", "0.1"), testbed.BasicAuth("ann", testbed.Password))
	refused := make([]testbed.Answer, 4)
	var group sync.WaitGroup
	for i, call := range []func() testbed.Answer{
		func() testbed.Answer { return ann.Invoke("acme.later", true) },
		func() testbed.Answer {
			return named.Call("tasks/send", hostile.Object{
				"id": "a-name", "message": hostile.Object{"role": "user", "parts": []hostile.Object{{"type": "data", "data": hostile.Object{"skill": "acme.later", "input": hostile.Object{}}}}},
			})
		},
		func() testbed.Answer { return ann.Call("SendStreamingMessage", params) },
		func() testbed.Answer { return ann.Call("SendMessage", answer) },
	} {
		group.Go(func() { refused[i] = call() })
	}
	if a := c.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("/rpc while the database is locked: %s", a)
	}
	group.Wait()
	for i, a := range refused {
		if a.Code != -32603 || strings.Contains(string(a.Body), folder) {
			t.Errorf("call %d while the database is locked: %s", i, a)
		}
	}
	if n := p.Count("acme/later", hostile.Invoke) - posts; n != 0 {
		t.Errorf("%d invocations although their tasks can't be stored", n)
	}
	if err := lock.Rollback(); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, func() bool { return ann.Invoke("acme.later", true).Task().ID != "" }, "the database works again")
	gate.Open()
	testbed.Eventually(t, 2*patience, func() bool { return ann.GetTask(open.Task().ID).Task().State() == "COMPLETED" }, "the open task ends")
	checkDuplicates(t, p)
	checkNoPanic(t, c.Log)
}

// R64: without a database, no message is executed, and /rpc goes on.
func TestR64NoStorage(t *testing.T) {
	t.Parallel()
	p, _ := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, strings.Replace(withAgents(p), "\trpc\n", "\trpc\n\tstore sqlite /dev/null/bridge.db\n", 1))
	ann := agentOf(c.Client, "ann")
	for _, skill := range []string{"acme.now", "acme.later"} {
		if a := ann.Invoke(skill, skill == "acme.later"); a.Code != -32603 {
			t.Errorf("%s: %s", skill, a)
		}
	}
	if n := p.Count("acme/later", hostile.Invoke) + p.Count("acme/now", hostile.Invoke); n != 0 {
		t.Errorf("%d invocations although their tasks can't be stored", n)
	}
	if a := c.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("/rpc: %s", a)
	}
	checkNoPanic(t, c.Log)
}

// R66: an owner has at most as many open tasks as `keep` says. Further ones are refused with 429 and Retry-After until some have ended, and other
// owners are not affected.
func TestR66OpenTasksOfAnOwner(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	const most = 500
	p, gate := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, strings.Replace(withAgents(p), "\trpc\n", fmt.Sprintf("\trpc\n\tkeep 24h 100000 %d\n", most), 1))
	ann, bob := agentOf(c.Client, "ann"), agentOf(c.Client, "bob")
	flood := func(calls int) (full int64) {
		var count atomic.Int64
		testbed.Load{Workers: 16, Calls: calls, Do: func(int, int) testbed.Answer {
			a := ann.Invoke("acme.later", true)
			for a.Status == http.StatusTooManyRequests && a.Code == -32057 && !strings.Contains(a.Message, "open") { // too many at once
				a = ann.Invoke("acme.later", true)
			}
			if a.Status == http.StatusTooManyRequests && a.Code == -32057 && a.Header.Get("Retry-After") != "" {
				count.Add(1)
			} else if a.Task().ID == "" {
				t.Errorf("a task: %s", a)
			}
			return a
		}}.Run(t)
		return count.Load()
	}
	refused := int(flood(most + 50)) // those that begin while others are counted may be more
	if refused < 50-16 || refused > 50 {
		t.Errorf("%d are refused, want 50", refused)
	}
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/later", hostile.Invoke) == most+50-refused }, "each task is invoked once")
	if a := bob.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("another owner: %s", a)
	}
	gate.Open()
	testbed.Eventually(t, 2*patience, func() bool {
		return ann.Call("ListTasks", hostile.Object{"pageSize": 1, "status": "TASK_STATE_COMPLETED"}).Page().Total == most+50-refused
	}, "the runs have ended")
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("after they have ended: %s", a)
	}
	if total := ann.Call("ListTasks", hostile.Object{"pageSize": 1}).Page().Total; total > most+50-refused || total < most-50 {
		t.Errorf("%d tasks of the owner, want about %d", total, most)
	}
	checkDuplicates(t, p)
}

// R66: with 12,000 tasks of twelve owners (1,200 unless long tests are asked for), all are kept, lists are answered within a second, and the memory of the process is bounded.
func TestR66ManyTasks(t *testing.T) {
	t.Parallel()
	owners, each := 12, 100
	if longtest.Runs(longtest.Long) {
		each = 1000
	}
	p, _ := later(t)
	var users []string
	for i := range owners {
		users = append(users, fmt.Sprint("user", i))
	}
	c := testbed.StartProcess(t, testbed.Limits{}, withAgentsOf(users, p))
	p.Lean()
	c.Log.Lean()
	before := c.InUse()
	start := time.Now()
	testbed.Load{Workers: 16, Calls: owners * each, Do: func(_, call int) testbed.Answer {
		a := agentOf(c.Client, users[call%owners]).Invoke("acme.now", false)
		if a.Task().State() != "COMPLETED" {
			t.Errorf("call %d: %s", call, a)
		}
		return a
	}}.Run(t)
	t.Logf("%.0f tasks a second; %d MiB more in use", float64(owners*each)/time.Since(start).Seconds(), (c.InUse()-before)>>20)
	if grown := c.InUse() - before; grown > 48<<20 {
		t.Errorf("%d MiB for 10,000 tasks", grown>>20)
	}
	kept := 0
	for _, user := range users {
		a := agentOf(c.Client, user).Call("ListTasks", hostile.Object{"pageSize": 100})
		if a.Took > 5*time.Second {
			t.Errorf("a list took %s", a.Took)
		}
		kept += a.Page().Total
	}
	if kept != owners*each {
		t.Errorf("%d tasks are kept", kept)
	}
}

// R71: what makes place for the tasks of an owner who has too many are its own ended ones: its open tasks stay, and those of others.
func TestR71OpenTasksOfOthers(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	folder := t.TempDir()
	begin := func() *testbed.Process {
		return testbed.StartProcess(t, testbed.Limits{}, strings.Replace(withAgents(p), "\trpc\n", "\trpc\n\tkeep 24h 400 10\n", 1), storage(folder))
	}
	first := begin()
	ann := agentOf(first.Client, "ann")
	want := map[string]string{}
	for range 3 {
		want[ann.Call("SendMessage", unclear()).Task().ID] = "INPUT_REQUIRED"
	}
	want[ann.Invoke("acme.later", true).Task().ID] = "WORKING"
	check := func(about string, c *testbed.Client) {
		t.Helper()
		for id, state := range want {
			var a testbed.Answer
			testbed.Eventually(t, patience, func() bool { a = agentOf(c, "ann").GetTask(id); return a.Task().State() != "SUBMITTED" }, "the run was accepted")
			if a.Task().State() != state {
				t.Errorf("%s: %s, want %s", about, a, state)
			}
		}
	}
	check("at first", first.Client)
	second := begin()
	for _, user := range []string{"ann", "bob"} {
		c := agentOf(second.Client, user)
		for range 60 {
			if a := c.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
				t.Fatal(a)
			}
		}
		if total := c.Call("ListTasks", nil).Page().Total; total > 10 {
			t.Errorf("%d tasks of %s", total, user)
		}
	}
	for range 30 {
		agentOf(second.Client, "bob").Call("SendMessage", unclear())
	}
	check("at the other instance", second.Client)
	check("at its own instance", first.Client)
	gate.Open()
	for id, state := range want {
		if state == "WORKING" {
			testbed.Eventually(t, patience, func() bool { return agentOf(second.Client, "ann").GetTask(id).Task().State() == "COMPLETED" }, "the run ends")
		}
	}
	checkDuplicates(t, p)
}
