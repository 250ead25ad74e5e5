package a2a_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// together returns two instances of a bridge, which share their provider and database.
func together(t *testing.T, setups ...setup) (first, second *agent) {
	t.Helper()
	first = newAgent(t, setups...)
	second = newAgent(t, append(setups, func(a *agent) { a.Provider, a.db = first.Provider, first.db })...)
	return first, second
}

// Of two answers to one question, at two instances at the same instant, one is the claim, and the other a message to a task that works.
func TestAnswersAtTwoInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := together(t, inBubble)
		forms := 0
		first.On("POST /run/form", func(w http.ResponseWriter, r *http.Request) {
			forms++
			time.Sleep(time.Second)
			providertest.Completed(fmt.Sprint("e", forms), "done")(w, r)
		})
		const rounds = 20
		for range rounds {
			id := first.send10(t, text("", "Rome"), `"metadata":{"skill":"acme.form"}`, "").at("result.task.id")
			var group sync.WaitGroup
			for _, a := range []*agent{first, second} {
				group.Go(func() {
					a.send10(t, text("", "3"), fmt.Sprintf(`"taskId":%q`, id), "").check(t, "result.task.id="+id+";result.task.status.state=TASK_STATE_COMPLETED")
				})
			}
			group.Wait()
		}
		first.Received(t, "POST /run/form", rounds)
	})
}

// The deadline of a task is by the clock of the database, whatever that of an instance says: one that is ten minutes ahead ends no task before its time, and
// one that is late ends it in time.
func TestDeadlineByTheClockOfTheDatabase(t *testing.T) {
	for _, ahead := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAgent(t, inBubble)
				a.db.Ahead(-10 * time.Minute) // of the instance that begins the task
				synctest.Wait()
				a.Accept("slow")
				id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow",`+extension+`:{"timeoutMs":1200000}}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
				time.Sleep(time.Minute)
				a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.timestamp~1999-12-31T23:50:00") // it began in 2000
				a.db.Ahead(-10*time.Minute + ahead)                                                                        // of the one that follows it then
				left := 19*time.Minute - ahead
				for _, c := range []struct {
					after time.Duration
					state string
				}{{left - 2*time.Minute, "WORKING"}, {4 * time.Minute, "FAILED"}} {
					time.Sleep(c.after)
					a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_"+c.state)
				}
			})
		})
	}
}

// What another instance does is known to streams and to requests that wait here.
func TestStreamOfAnotherInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := together(t, inBubble)
		end := first.Accept("slow")
		id := first.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		time.Sleep(time.Second)
		time.AfterFunc(3*time.Second, func() { end("ok") })
		second.call(t, "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "0.result.task.status.state=TASK_STATE_WORKING;-2.result.artifactUpdate;-1.result.statusUpdate.status.state=TASK_STATE_COMPLETED")
		second.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.artifacts.0.parts.0.data=ok")
	})
}

// submitting returns two instances, and the id of a task whose skill the first one invokes for two minutes.
func submitting(t *testing.T) (first, second *agent, id string) {
	t.Helper()
	first, second = together(t, inBubble)
	first.On("POST /run/free", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(2 * time.Minute)
		providertest.Completed("e1", "late")(w, r)
	})
	id = first.send10(t, text("", "x"), `"metadata":{"skill":"acme.free"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
	time.Sleep(time.Second)
	return first, second, id
}

// A task whose instance is gone while it invokes the skill is FAILED, and never invoked again. If the instance was only paused, this stays so.
func TestInstanceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, id := submitting(t)
		first.store.Pause()
		time.Sleep(40 * time.Second)
		get := func() *answer { return second.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)) }
		get().check(t, "result.status.state=TASK_STATE_FAILED;result.status.message.parts.1.data.executed=maybe")
		first.store.Go()
		time.Sleep(5 * time.Minute)
		get().check(t, "result.status.state=TASK_STATE_FAILED;!result.artifacts")
		first.Received(t, "POST /run/free", 1)
	})
}

// A message costs few statements, and the task that its client gets is stored.
func TestStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		a.say.Set("User", "ada")
		synctest.Wait() // the instance has a lease now
		sent := func(most int, what string, do func() *answer) *answer {
			t.Helper()
			before := a.store.Sent("")
			got := do()
			if n := a.store.Sent("") - before; n != most {
				t.Errorf("%s: %d statements, want %d", what, n, most)
			}
			return got
		}
		message := func(skill, more string) func() *answer {
			return func() *answer { return a.send10(t, text("", "x"), `"metadata":{"skill":"acme.`+skill+`"}`, more) }
		}
		id := sent(1, "a run that ends at once", message("free", "")).at("result.task.id")
		end := a.Accept("slow")
		time.AfterFunc(time.Second, func() { end("ok") })
		sent(2, "an accepted run", message("slow", "")).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		sent(1, "a question", message("form", "")).check(t, "result.task.status.state=TASK_STATE_INPUT_REQUIRED")
		sent(1, "GetTask", func() *answer { return a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)) }).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts")
		sent(1, "ListTasks", func() *answer { return a.call(t, "ListTasks", `{"includeArtifacts":true}`) }).check(t, "result.totalSize=3;result.tasks.2.artifacts")
	})
}

// The answer of the database to the claim of a message is lost: the message is the claim nevertheless, and is executed once. If that can't be learned in
// time, the message is refused, and the task waits as before.
func TestLostAnswerToAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := together(t, inBubble)
		ask := func() string {
			return first.send10(t, text("", "Rome"), `"metadata":{"skill":"acme.form"}`, "").at("result.task.id")
		}
		broken := errors.New("the connection broke")
		claimed := false
		lose := func(most int) { // answers to claims, and then all that is asked
			first.store.Fail(func(string) error {
				if claimed && most > 1 {
					return broken
				}
				return nil
			}, func(statement string) error {
				if statement != "change" || claimed {
					return nil
				}
				claimed = true
				return broken
			})
		}
		answer := func(a *agent, id string) *answer {
			return a.send10(t, text("", "3"), fmt.Sprintf(`"taskId":%q`, id), "")
		}
		id := ask()
		lose(1)
		answer(first, id).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		first.Received(t, "POST /run/form", 1)

		id, claimed = ask(), false
		lose(100)
		answer(first, id).check(t, "error.data.0.metadata.executed=no")
		if e := first.db.Entries()[1]; e.State != ledger.Submitting {
			t.Errorf("the claim was not stored: %v", e.State)
		}
		first.store.Fail(nil, nil)
		time.Sleep(10 * time.Second)
		second.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_INPUT_REQUIRED;result.status.message")
		answer(second, id).check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		first.Received(t, "POST /run/form", 2)
	})
}

// A message to a task that another instance submits does not make this one its follower: when the other is gone, the task ends.
func TestMessageToATaskOfAnInstanceThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, id := submitting(t)
		second.send10(t, text("", "more"), fmt.Sprintf(`"taskId":%q`, id), `"configuration":{"returnImmediately":true}`).check(t, "result.task.status.state=TASK_STATE_SUBMITTED")
		first.store.Pause()
		time.Sleep(40 * time.Second)
		second.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_FAILED;result.status.message.parts.1.data.executed=maybe")
		first.store.Go()
		time.Sleep(5 * time.Minute)
	})
}

// A task whose question nobody answers fails when its time is over, and then it is kept for another while. However many there are, they end.
func TestUnansweredQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		var id string
		for range 150 { // more than are ended at once
			id = a.send10(t, text("", "Rome"), `"metadata":{"skill":"acme.form"}`, "").at("result.task.id")
		}
		get := func() *answer { return a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)) }
		time.Sleep(23 * time.Hour)
		get().check(t, "result.status.state=TASK_STATE_INPUT_REQUIRED")
		time.Sleep(2 * time.Hour)
		get().check(t, "result.status.state=TASK_STATE_FAILED")
		for _, e := range a.db.Entries() {
			if !e.State.Ended() {
				t.Fatalf("%s: %s", e.ID, e.State)
			}
		}
	})
}
