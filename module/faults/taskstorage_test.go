package faults_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

// R64: where tasks can't be stored, since the disk is full or the storage is read-only, nothing is invoked whose task the client
// would have to be told of before its end, calls that end in time are answered as ever, and /rpc is not affected. When the storage
// works again, all does.
func TestR64StorageFails(t *testing.T) {
	t.Parallel()
	p, gate := later(t)
	folder := t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p, "wait 1s"), storage(folder))
	ann := agentOf(c.Client, "ann")
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Fatal(a)
	}
	open := ann.Invoke("acme.later", true)
	asked := ann.Call("SendMessage", unclear()).Task()
	records := filepath.Join(folder, "skill_bridge", "records")
	testbed.Eventually(t, patience, func() bool { return stored(t, folder) == 3 }, "the tasks are stored")
	aside := records + ".aside"
	if err := os.Rename(records, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(records, nil, 0o600); err != nil { // where a folder has to be
		t.Fatal(err)
	}

	posts := p.Count("acme/later", hostile.Invoke)
	refused := []testbed.Answer{ann.Invoke("acme.later", true)}
	named := c.Agent(testbed.Header("A2A-Version", "0.1"), testbed.BasicAuth("ann", testbed.Password))
	refused = append(refused, named.Call("tasks/send", hostile.Object{
		"id": "a-name", "message": hostile.Object{"role": "user", "parts": []hostile.Object{{"type": "data", "data": hostile.Object{"skill": "acme.later", "input": hostile.Object{}}}}},
	}))
	params, _ := testbed.Message("acme.later", false)
	refused = append(refused, ann.Call("SendStreamingMessage", params))
	answer := unclear()
	answer["message"].(hostile.Object)["taskId"] = asked.ID
	answer["message"].(hostile.Object)["parts"] = []hostile.Object{{"data": hostile.Object{"skill": "acme.later", "input": hostile.Object{}}}}
	refused = append(refused, ann.Call("SendMessage", answer))
	for i, a := range refused {
		if a.Code != -32603 || strings.Contains(string(a.Body), folder) {
			t.Errorf("call %d while the storage fails: %s", i, a)
		}
	}
	if n := p.Count("acme/later", hostile.Invoke) - posts; n != 0 {
		t.Errorf("%d invocations although their tasks can't be stored", n)
	}
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("a short run while the storage fails: %s", a)
	}
	long := ann.Invoke("acme.later", false)
	if long.Code != -32603 || !strings.Contains(long.Message, "don't repeat") {
		t.Errorf("a run that outlives its call while the storage fails: %s", long)
	}
	if a := c.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("/rpc while the storage fails: %s", a)
	}
	if lines := c.Log.Lines("tasks can't be stored"); len(lines) != 1 {
		t.Errorf("%d lines about it in the log", len(lines))
	}

	if err := os.Remove(records); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, records); err != nil {
		t.Fatal(err)
	}
	if a := ann.Invoke("acme.later", true); a.Task().ID == "" {
		t.Errorf("when the storage works again: %s", a)
	}
	gate.Open()
	for _, id := range []string{open.Task().ID} {
		testbed.Eventually(t, patience, func() bool { return ann.GetTask(id).Task().State() == "COMPLETED" }, "the open task ends")
	}
	testbed.Eventually(t, patience, func() bool { return ann.Call("ListTasks", nil).Page().Total >= 5 }, "all tasks are listed")
	testbed.Eventually(t, 2*patience, func() bool { return stored(t, folder) >= 6 }, "what could not be stored is stored later")
	checkDuplicates(t, p)
	checkNoPanic(t, c.Log)
}

// R64: a storage that never works leaves short calls and /rpc as they are.
func TestR64NoStorage(t *testing.T) {
	t.Parallel()
	p, _ := later(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "skill_bridge"), []byte("no folder"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	ann := agentOf(c.Client, "ann")
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("a short run: %s", a)
	}
	if a := ann.Invoke("acme.later", true); a.Code != -32603 {
		t.Errorf("a run in the background: %s", a)
	}
	if n := p.Count("acme/later", hostile.Invoke); n != 0 {
		t.Errorf("%d invocations although their tasks can't be stored", n)
	}
	if a := c.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("/rpc: %s", a)
	}
	checkNoPanic(t, c.Log)
}

// R65: damaged records are as if they were missing, or the version before is read, and files that are no records change nothing.
func TestR65DamagedRecords(t *testing.T) {
	t.Parallel()
	p, _ := later(t)
	folder := t.TempDir()
	first := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	ann := agentOf(first.Client, "ann")
	var open []string
	for range 4 {
		open = append(open, ann.Call("SendMessage", unclear()).Task().ID)
	}
	for range 5 {
		ann.Invoke("acme.now", false)
	}
	testbed.Eventually(t, patience, func() bool { return stored(t, folder) == 9 }, "the tasks are stored")
	first.Signal(os.Kill)
	first.Wait(patience)
	for i, text := range []string{"", "{", `{"id":"x","event":1,"data":{}}`} {
		files := recordFiles(t, folder, open[i])
		if err := os.WriteFile(files[len(files)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	of := filepath.Dir(recordFiles(t, folder, open[3])[0])
	day := filepath.Dir(of)
	owner := filepath.Dir(day)
	for _, name := range []string{
		filepath.Join(day, "notes.txt"), filepath.Join(of, "7"), filepath.Join(of, "7.x"), filepath.Join(of, "999999999999999999999999.final"), filepath.Join(of, "-7.final"),
		filepath.Join(day, "_.1.batch"), filepath.Join(day, ".tmp-1"), filepath.Join(owner, "20990101"), filepath.Join(owner, "zzz"),
		filepath.Join(filepath.Dir(owner), "README"), filepath.Join(day, open[3]+"_"+open[3]+".1.batch"),
	} {
		if err := os.WriteFile(name, []byte("foreign\n{\"id\":\""+open[3]+"\",\"event\":99,\"data\":"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(day, "77.final"), 0o700); err != nil { // a folder with the name of a record
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(of, "77.final"), 0o700); err != nil {
		t.Fatal(err)
	}
	second := testbed.StartProcess(t, testbed.Limits{}, withAgents(p), storage(folder))
	ann = agentOf(second.Client, "ann")
	for i, id := range open {
		a := ann.GetTask(id)
		switch {
		case i == 3 && a.Task().State() != "INPUT_REQUIRED":
			t.Errorf("an undamaged task: %s", a)
		case i < 3 && a.Code != -32001 && a.Task().State() != "SUBMITTED":
			t.Errorf("a damaged task: %s", a)
		}
	}
	if a := ann.Call("ListTasks", nil); a.Page().Total < 6 {
		t.Errorf("the list: %s", a)
	}
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Error(a)
	}
	if len(second.Log.Lines("a stored task is damaged")) == 0 {
		t.Error("the log does not say that a task is damaged")
	}
	checkNoPanic(t, second.Log)
}

// R66: an owner has at most 1000 open tasks. Further ones are refused with 429 and Retry-After until some have ended, and other
// owners are not affected.
func TestR66OpenTasksOfAnOwner(t *testing.T) {
	t.Parallel()
	const most = 1000
	p, gate := later(t)
	c := testbed.StartProcess(t, testbed.Limits{}, withAgents(p))
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
	if n := flood(most + 50); n != 50 {
		t.Errorf("%d are refused, want 50", n)
	}
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/later", hostile.Invoke) == most }, "each task is invoked once")
	if a := bob.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("another owner: %s", a)
	}
	gate.Open()
	testbed.Eventually(t, 2*patience, func() bool { return c.InProgress() == 0 }, "the runs have ended")
	if a := ann.Invoke("acme.now", false); a.Task().State() != "COMPLETED" {
		t.Errorf("after they have ended: %s", a)
	}
	// The memory and the storage each have so many; of those that ended together, they may have forgotten different ones.
	if total := ann.Call("ListTasks", hostile.Object{"pageSize": 1}).Page().Total; total < most || total > most+1 {
		t.Errorf("%d tasks of the owner, want %d", total, most)
	}
	checkDuplicates(t, p)
}

// R66: with 10,000 tasks of ten owners, and more that are begun, the newest are kept, lists are answered within a second, and the
// memory of the process is bounded.
func TestR66ManyTasks(t *testing.T) {
	t.Parallel()
	const owners, each = 12, 1000
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
	t.Logf("%.0f tasks a second; %d MiB more in use", owners*each/time.Since(start).Seconds(), (c.InUse()-before)>>20)
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
	if kept > owners*each || kept < 9000 {
		t.Errorf("%d tasks are kept", kept)
	}
}

// R71: an instance that deletes what is too much leaves the open tasks of another one alone, and those from before a restart,
// however much others store.
func TestR71OpenTasksOfOthers(t *testing.T) {
	t.Parallel()
	const few = "tasks {\n\t\t\tkeep 40 10\n\t\t}"
	p, gate := later(t)
	folder := t.TempDir()
	begin := func() *testbed.Process {
		return testbed.StartProcess(t, testbed.Limits{}, withAgents(p, few), storage(folder))
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
	}
	for range 30 {
		agentOf(second.Client, "bob").Call("SendMessage", unclear())
	}
	// 10 of each owner that have ended or wait, those in the memory of the instance, and what was not trimmed yet
	testbed.Eventually(t, patience, func() bool {
		agentOf(second.Client, "bob").Invoke("acme.now", false)
		return stored(t, folder) <= 6+30+12
	}, "the rest is deleted")
	check("at the other instance", second.Client)
	check("at its own instance", first.Client)
	for _, c := range []*testbed.Process{first, second} {
		c.Signal(os.Kill)
		c.Wait(patience)
	}
	third := begin()
	for range 60 {
		agentOf(third.Client, "bob").Invoke("acme.now", false)
	}
	check("after a restart", third.Client)
	gate.Open()
	for id, state := range want {
		if state == "WORKING" {
			testbed.Eventually(t, patience, func() bool { return agentOf(third.Client, "ann").GetTask(id).Task().State() == "COMPLETED" }, "the run ends")
		}
	}
	checkDuplicates(t, p)
}
