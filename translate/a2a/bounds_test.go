package a2a_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// One owner's open tasks are bounded, and those of others are not affected.
func TestTooManyTasks(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t, func(a *agent) { a.keep.Bounds.RunsOfOne = 2 })
		for i := range 3 {
			got := a.call(t, d.send, d.params(idOf(d, i), text(d.version, "x"), ""))
			if i < 2 {
				got.check(t, "200;"+d.task+".status.state="+d.state("input-required"))
				continue
			}
			got.check(t, "429;error.code=-32057")
			if got.header.Get("Retry-After") == "" {
				t.Errorf("%v", got.header)
			}
		}
		a.post(t, "/a2a", request(d.send, d.params("", text(d.version, "x"), "")), by("ada")).check(t, "200;result")
	})
}

// The ended tasks of an owner make place for new ones, also if there are several more than the bound: others may have begun theirs at the same time.
func TestEndedTasksMakePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		a.say.Set("User", "ada")
		send := func() *answer { return a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "") }
		for range 10 {
			send().check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		}
		a.keep.Bounds.RunsOfOne = 2
		a.front.Ledger.Set(a.keep)
		for range 2 {
			send().check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		}
		if n := len(a.db.Entries()); n != 2 {
			t.Errorf("%d tasks are kept", n)
		}
	})
}

// Messages that come at the same time all find place, as long as ended tasks can make it, and few counts are needed for that.
func TestEndedTasksMakePlaceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		a.say.Set("User", "ada")
		a.keep.Bounds.RunsOfOne = 60
		a.front.Ledger.Set(a.keep)
		send := func() *answer { return a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "") }
		for range 60 {
			send().check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		}
		time.Sleep(2 * time.Second)
		before := a.store.Sent("count")
		var messages sync.WaitGroup
		for range 20 {
			messages.Go(func() {
				for range 20 {
					send().check(t, "result.task.status.state=TASK_STATE_COMPLETED")
				}
			})
		}
		messages.Wait()
		if n := a.store.Sent("count") - before; n > 10 {
			t.Errorf("%d counts", n)
		}
	})
}

// If others have too much, the ended tasks of an owner can't make enough place. Then a message that is refused costs only one of them.
func TestTasksStayIfOthersHaveTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		send := func(user string, size int) *answer {
			return a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", strings.Repeat("x", size)), "")+`,"metadata":{"skill":"acme.free"}}`), by(user))
		}
		send("eve", 100_000).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		of := ledger.Owner{Realm: a.db.Entries()[0].Owner.Realm, Principal: "eve"}
		for i := range 50 {
			if i == 49 {
				time.Sleep(11 * time.Second) // with the last one, all is counted again
			}
			send("ada", 1).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		}
		eve, err := a.store.Count(t.Context(), &of)
		if err != nil || eve.Bytes < 1000 {
			t.Fatal(eve, err)
		}
		a.keep.Bounds.Output = eve.Bytes
		a.front.Ledger.Set(a.keep)
		time.Sleep(2 * time.Second)
		send("ada", 1).check(t, "429")
		if kept, evictions := len(a.db.Entries())-1, a.store.Sent("evict"); kept != 49 || evictions != 1 {
			t.Errorf("%d tasks after %d evictions", kept, evictions)
		}
	})
}

// An owner without ended tasks can't make place, which is asked once a second, until a task has ended. The messages of others don't wait for that.
func TestEvictionsOfOthersAreNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble, func(a *agent) { a.keep.Bounds.RunsOfOne = 2 })
		send := func(user, skill string) *answer {
			return a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", "x"), "")+`,"metadata":{"skill":"`+skill+`"}}`), by(user))
		}
		var id string
		for range 2 {
			got := send("eve", "acme.form")
			got.check(t, "result.task.status.state=TASK_STATE_INPUT_REQUIRED")
			id = got.at("result.task.id")
			send("ada", "acme.free").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		}
		time.Sleep(2 * time.Second)
		a.store.Fail(func(string) error { time.Sleep(7 * time.Millisecond); return nil }, nil)
		var messages sync.WaitGroup
		for range 1000 {
			messages.Go(func() { send("eve", "acme.form").check(t, "429") })
		}
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		send("ada", "acme.free").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("a message of another owner took %v", took)
		}
		messages.Wait()
		if n := a.store.Sent("evict"); n > 3 {
			t.Errorf("%d evictions", n)
		}
		a.post(t, "/a2a", request("CancelTask", `{"id":"`+id+`"}`), by("eve")).check(t, "result.status.state=TASK_STATE_CANCELED")
		send("eve", "acme.form").check(t, "result.task.status.state=TASK_STATE_INPUT_REQUIRED")
	})
}

// An eviction that fails says nothing of the next one.
func TestFailedEvictions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble, func(a *agent) { a.keep.Bounds.RunsOfOne = 1 })
		a.say.Set("User", "ada")
		failing := false
		a.store.Fail(func(statement string) error {
			if failing && statement == "evict" {
				return errors.New("disk full")
			}
			return nil
		}, nil)
		for i, want := range []string{"result.task.status.state=TASK_STATE_COMPLETED", "429", "result.task.status.state=TASK_STATE_COMPLETED"} {
			failing = i == 1
			a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "").check(t, want)
		}
	})
}

// rewrite stores a next version of the only task, with a long message so that its notes are about as long, or without any notes that can be read.
func (a *agent) rewrite(t *testing.T, size int) {
	t.Helper()
	next := *a.db.Entries()[0]
	if _, err := task.Change(&next, func(now *task.Task) error {
		now.AddMessage(task.Message{Role: task.Agent, Parts: []task.Part{{Part: front.Part{Kind: front.PartText, Text: strings.Repeat("x", max(size-len(next.Notes)-100, 0))}}}})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if size == 0 {
		next.Notes = []byte("{")
	}
	if ok, err := a.store.Change(t.Context(), &next, nil, a.keep.Keep); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// A task that can't be ended as a task, since what is stored of it can't be read or would be too long, ends nevertheless, and so do those of others: nobody can
// stop the expiry.
func TestExpiryGoesOn(t *testing.T) {
	for name, size := range map[string]int{"damaged": 0, "long": run.MaxRecord} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgent(t, inBubble, func(a *agent) { a.keep.Keep = 10 * time.Minute })
				a.send10(t, text("", "x"), "", "").check(t, "result.task.status.state=TASK_STATE_INPUT_REQUIRED")
				a.rewrite(t, size)
				a.say.Set("User", "bob")
				for range 3 {
					a.send10(t, text("", "x"), "", "").check(t, "result.task")
				}
				time.Sleep(15 * time.Minute)
				for _, e := range a.db.Entries() {
					if !e.State.Ended() || e.Outcome == nil {
						t.Errorf("after 15 minutes, the task of %q is %s", e.Owner.Principal, e.State)
					}
				}
				time.Sleep(15 * time.Minute)
				if n := len(a.db.Entries()); n != 0 {
					t.Errorf("%d tasks are kept after half an hour", n)
				}
			})
		})
	}
}

// The messages of a task are bounded, so that it can always end: one that would be too much is refused, with what to do.
func TestTooLongTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		a.say.Set("User", "ada")
		id := a.send10(t, text("", "x"), "", "").at("result.task.id")
		a.rewrite(t, 29<<20)
		for i := range 2 {
			got := a.send10(t, text("", strings.Repeat("x", 1_000_000)), `"taskId":"`+id+`"`, "")
			got.check(t, []string{"200;result.task", "error.code=-32602;error.message~31457280 bytes;error.message~new task;error.data.0.fieldViolations.0.field=message"}[i])
		}
		a.send10(t, text("", "acme.free"), `"taskId":"`+id+`"`, "").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
	})
}

// idOf returns the id that a client of 0.1 gives to its task.
func idOf(d *dialect, i int) string {
	if d.version == "0.1" {
		return fmt.Sprintf("%s-%d", named, i)
	}
	return ""
}

// While tasks can't be stored, clients get no open task, and no skill is invoked whose open task the client would get.
func TestBrokenStore(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		executed := func(how string) string {
			facts, next := "error.data.", map[string]string{"no": "retry", "maybe": "get_task"}[how]
			if d.version == "1.0" {
				facts = "error.data.0.metadata."
			}
			return "error.code=-32603;" + facts + "executed=" + how + ";" + facts + "next=" + next
		}
		a := newAgent(t)
		a.store.Fail(func(statement string) error {
			if statement == "claim" || statement == "change" {
				return &ledger.Unavailable{Full: true, Err: errors.New("/secret: disk full")}
			}
			return nil
		}, nil)
		for _, method := range []string{d.send, d.stream} {
			got := a.call(t, method, d.params("", text(d.version, "x"), ""))
			got.check(t, "error.code=-32603")
			if strings.Contains(got.text, "secret") {
				t.Errorf("%s", got.text)
			}
		}
		a.call(t, d.send, d.params("", text(d.version, "x"), "")).check(t, executed("no")+";error.message~try again later")
		if d.version != "0.1" { // whose tasks are stored first
			a.On("POST /run/free", providertest.Refused(401, "AUTH_REQUIRED"))
			a.call(t, d.send, d.params("", text(d.version, "acme.free"), "")).check(t, executed("no")+";error.message~try again later")
			a.Accept("slow")
			a.front.Options.Wait = time.Millisecond
			a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.slow"}`)).check(t, executed("maybe")+";error.message~Its run goes on")
			eventually(t, func() bool { return len(a.Requests("POST /run/slow")) == 1 }, "the provider is called")
			a.front.Options.Wait = 50 * time.Second
		}
		a.call(t, d.stream, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`)).check(t, "error.code=-32603")
		a.Received(t, "POST /run/echo", 0)
	})
}

// An answer that finds no room is refused for now.
func TestAnswerTooLarge(t *testing.T) {
	a := newAgent(t, func(a *agent) { a.maxAnswers = 1000 })
	a.On("POST /run/echo", providertest.Completed("e1", strings.Repeat("x", 200<<10)))
	for i := range dialects {
		d := &dialects[i]
		got := a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`))
		got.check(t, "429;error.code=-32057;error.message~answers;id=1")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%v", got.header)
		}
	}
}

// The memory of a stream's first event, of the events that 0.1 repeats, and of an output that is the answer itself is reserved
// before they are made. A task whose output finds no room stays.
func TestAnswersReserveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble, options(func(o *a2a.Options) { o.ReplyMessage = []string{"acme.free"} }), func(a *agent) { a.maxAnswers = 1000 })
		long := strings.Repeat("x", 200<<10)
		for i := range dialects[:2] {
			d := &dialects[i]
			got := a.post(t, "/a2a", request(d.stream, d.params("", text(d.version, long), `"metadata":{"skill":"acme.echo"}`)), http.Header{"Accept": {"text/event-stream"}})
			got.check(t, "429;error.code=-32057;error.message~Read the task")
		}
		a.On("POST /run/free", providertest.Completed("e1", long))
		a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", "acme.free"), "")+`}`), by("ada")).check(t, "429;error.message~Read the task")
		a.post(t, "/a2a", request("ListTasks", "{}"), by("ada")).check(t, "200;result.totalSize=1")
		d := &dialects[2]
		a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.free"}`)).check(t, "429")
		a.post(t, "/a2a", request(d.subscribe, `{"id":"`+named+`"}`), as("0.1")).check(t, "429;error.code=-32057;error.message~Read the task")
	})
}

// A run whose output finds no room while it is read waits for it. Nothing is lost, and nothing is counted once the task has the output.
func TestRunsWaitForRoom(t *testing.T) {
	for _, accepted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, inBubble, func(a *agent) { a.maxAnswers = 2 << 20 })
			a.front.Server = a.server
			others := a.server.Room("others")
			others.Reserve(2 << 20)
			begun := time.Now()
			output := strings.Repeat("x", 200<<10)
			if accepted {
				a.Accept("free")(output)
			} else {
				a.On("POST /run/free", providertest.Completed("e1", output))
			}
			// The request that waits is told so, and which task it is.
			refused := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, "")
			_, id, _ := strings.Cut(refused.at("error.message"), "Read the task ")
			id, _, _ = strings.Cut(id, " ")
			if refused.status != http.StatusTooManyRequests || refused.at("error.code") != "-32057" || time.Since(begun) > time.Minute {
				t.Errorf("%d after %v: %s", refused.status, time.Since(begun), refused.text)
			}
			time.Sleep(2 * time.Minute)
			get := request("GetTask", `{"id":"`+id+`","historyLength":0}`)
			if state := a.post(t, "/a2a", get, nil).at("result.status.state"); state != "TASK_STATE_WORKING" && state != "TASK_STATE_SUBMITTED" {
				t.Errorf("state %s", state)
			}
			others.Release()
			time.Sleep(2 * time.Minute)
			a.post(t, "/a2a", get, nil).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.#=1")
			a.Received(t, "POST /run/free", 1)
			if !others.Reserve(2<<20 + 64<<10) {
				t.Error("something is still counted")
			}
		})
	}
}

// An answer without history takes no memory for the history of its task.
func TestHistoryTakesMemory(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t, func(a *agent) { a.maxAnswers = 1000 })
		a.say.Set("User", "ada")
		none, all := `"configuration":{"historyLength":0}`, `"configuration":{"historyLength":9}`
		if d.version == "0.1" {
			none, all = `"historyLength":0`, `"historyLength":9`
		}
		long := text(d.version, strings.Repeat("x", 200<<10))
		first := d.params("", long, none+`,"metadata":{"skill":"acme.form"}`)
		got := a.call(t, d.send, first)
		got.check(t, "200;"+d.task+".status.state="+d.state("input-required"))
		id := got.at(d.task + ".id")
		a.call(t, d.send, d.params(id, text(d.version, "?"), none)).check(t, "200")
		a.call(t, d.send, d.params(id, text(d.version, "?"), all)).check(t, "429;error.message~Read the task")
		a.call(t, d.get, fmt.Sprintf(`{"id":%q,"historyLength":0}`, id)).check(t, "200")
		a.call(t, d.get, fmt.Sprintf(`{"id":%q,"historyLength":9}`, id)).check(t, "429")
		a.call(t, "ListTasks", `{"historyLength":0}`).check(t, "200;result.totalSize=1")
		a.call(t, "ListTasks", `{"historyLength":9}`).check(t, "429;error.message~Read the tasks")
	})
}

// The question which skill is meant has 50 skills as text and 1000 as data.
func TestManySkills(t *testing.T) {
	a := newAgent(t, func(a *agent) {
		for i := range 1010 {
			a.skills = append(a.skills, skill(fmt.Sprintf("s%04d", i)))
		}
	})
	got := a.send10(t, text("", "x"), "", "")
	got.check(t, "result.task.status.message.parts.1.data.skills.#=1000;result.task.status.message.parts.1.data.missing=[\"skill\"]")
	if n := strings.Count(got.at("result.task.status.message.parts.0.text"), "\n- "); n != 50 {
		t.Errorf("%d skills in the text", n)
	}
}

// Requests that are made to be slow are not: thousands of names, parts, members, and texts that look like objects.
func TestCostOfMessages(t *testing.T) {
	a := newAgent(t)
	list := func(n int, f func(i int) string) string {
		all := make([]string, n)
		for i := range all {
			all[i] = f(i)
		}
		return strings.Join(all, ",")
	}
	for about, params := range map[string]string{
		"names in metadata": `{"message":` + message("1.0", text("", "x"), `"metadata":{`+list(30_000, func(i int) string { return fmt.Sprintf(`"skill":"acme.s%d"`, i) })+`}`) + `}`,
		"names in parts":    `{"message":` + message("1.0", list(12_000, func(i int) string { return data("", fmt.Sprintf(`{"skill":"acme.s%d"}`, i)) }), "") + `}`,
		"data in parts":     `{"message":` + message("1.0", list(12_000, func(i int) string { return data("", fmt.Sprintf(`{"n%d":1}`, i)) }), `"metadata":{"skill":"acme.form"}`) + `}`,
		"inputs":            `{"message":` + message("1.0", data("", `{`+list(60_000, func(i int) string { return fmt.Sprintf(`"n%d":1`, i) })+`}`), `"metadata":{"skill":"acme.form"}`) + `}`,
		"files":             `{"message":` + message("1.0", list(12_000, func(int) string { return `{"raw":"AAAA"}` }), `"metadata":{"skill":"acme.files"}`) + `}`,
		"texts":             `{"message":` + message("1.0", list(12_000, func(int) string { return text("", "{") }), `"metadata":{"skill":"acme.echo"}`) + `}`,
		"names in texts":    `{"message":` + message("1.0", list(12_000, func(i int) string { return text("", fmt.Sprintf("acme.s%d", i)) }), "") + `}`,
		"a deep text":       `{"message":` + message("1.0", text("", strings.Repeat(`{"skill":`, 50_000)), `"metadata":{"skill":"acme.echo"}`) + `}`,
		"members":           `{` + list(80_000, func(i int) string { return fmt.Sprintf(`"n%d":1`, i) }) + `}`,
	} {
		start := time.Now()
		got := a.call(t, "SendMessage", params)
		if took := time.Since(start); got.status != http.StatusOK || took > 10*time.Second {
			t.Errorf("%s: %d after %v: %.300s", about, got.status, took, got.text)
		}
	}
}
