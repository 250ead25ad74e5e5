package push_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// kill ends a process without anything that is done at an orderly end, except that its locks expire.
func (b *bench) kill(s *store) {
	b.End()
	s.mu.Lock()
	s.fails = errDown
	s.locks = map[string]chan struct{}{}
	s.mu.Unlock()
	b.stop()
	s.mu.Lock()
	s.fails = nil
	s.mu.Unlock()
}

// After a restart, the newest state is sent, and nothing that was delivered is sent again.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		down := &receiver{answer: func(int, *http.Request) (int, error) { return 0, errDown }}
		one := start(t, s, down)
		missed := one.add("ada", "a@1.0")
		one.status(missed, task.Working)
		one.complete(missed)
		running := one.add("ada", "b@1.0")
		one.status(running, task.Working)
		time.Sleep(2 * time.Second)
		one.stop()

		two := start(t, s, new(receiver))
		time.Sleep(10 * time.Second)
		got := map[string]string{}
		for _, r := range two.to.all() {
			got[r.url] += kindOf(r.body) + "\n"
		}
		if len(got) != 2 || got["https://a.example/hook?q=1"] != "task COMPLETED\n" || got["https://b.example/hook?q=1"] != "task WORKING\n" {
			t.Error(got)
		}
		same(t, "followed", two.allFollowed(), []string{running.ID})
		two.complete(running)
		synctest.Wait()
		if n := len(two.to.all()); n != 4 {
			t.Errorf("%d requests", n)
		}
		two.stop()

		three := start(t, s, new(receiver))
		time.Sleep(time.Hour)
		if got := three.to.all(); len(got) != 0 || len(three.allFollowed()) != 0 {
			t.Error("sent again:", got, three.allFollowed())
		}
		three.stop()
	})
}

// What an instance that was killed has left is found by one that runs, but what a living one does is left alone.
func TestTwoInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		down := &receiver{answer: func(int, *http.Request) (int, error) { return 0, errDown }}
		one := start(t, s, down)
		two := start(t, s, new(receiver))
		made := one.add("ada", "a@1.0")
		one.status(made, task.Working)
		one.get(made) // stored
		time.Sleep(25 * time.Minute)
		if got := two.to.all(); len(got) != 0 || len(two.allFollowed()) != 0 {
			t.Error("the other instance lives:", got, two.allFollowed())
		}
		one.status(made, task.Working)
		one.get(made)
		one.kill(s)
		time.Sleep(25 * time.Minute)
		same(t, "events", two.kinds(), []string{"task WORKING"})
		if len(two.allFollowed()) == 0 {
			t.Error("not followed")
		}
		two.stop()
	})
}

// Webhooks of owners that no configuration has are kept until there is one.
func TestConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newStore(), new(receiver))
		b.End()
		made := b.add("ada", "a@1.0")
		b.complete(made)
		time.Sleep(time.Minute)
		if n := len(b.to.all()); n != 0 {
			t.Errorf("%d requests", n)
		}
		next := &push.Webhooks{
			Deliverer: b.Deliverer, Client: b.Client, Sealer: b.Sealer, Owns: b.Owns,
		}
		next.Begin()
		time.Sleep(time.Minute)
		same(t, "events", b.kinds(), []string{"task COMPLETED"})
		next.End()
		b.stop()
	})
}

// Without a storage, all still works.
func TestMemoryOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil, new(receiver))
		made := b.add("ada", "a@1.0", "b@0.3")
		b.complete(made)
		synctest.Wait()
		if n := len(b.to.all()); n != 6 {
			t.Errorf("%d requests", n)
		}
		b.stop()
	})
}

// An event that is being sent when the bridge ends is delivered, if the receiver answers in time.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(int, *http.Request) (int, error) {
			time.Sleep(500 * time.Millisecond)
			return 200, nil
		}}
		b := start(t, newStore(), to)
		made := b.add("ada", "a@1.0")
		b.change(made, func(t *task.Task) { t.SetStatus(task.Failed, nil, time.Now()) })
		time.Sleep(600 * time.Millisecond)
		b.stop()
		if p := b.get(made).Push[0]; p.Sent != 2 || len(to.all()) != 2 {
			t.Errorf("%+v, %d requests", p, len(to.all()))
		}
	})
}

// Two instances that follow the same run, since a client has asked both for its task: the end is sent by the first.
func TestTwoFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one, two := start(t, s, new(receiver)), start(t, s, new(receiver))
		made := one.add("ada", "a@1.0")
		one.status(made, task.Working)
		one.get(made) // stored
		synctest.Wait()
		two.get(made)
		release, ok := two.tasks.Claim(made.Owner, made.ID, nil)
		if !ok {
			t.Fatal("two can't follow the run")
		}
		defer release()
		one.complete(made)
		time.Sleep(100 * time.Millisecond) // the end is not stored yet
		two.complete(made)
		time.Sleep(time.Second)
		same(t, "one", one.kinds(), []string{"task SUBMITTED", "statusUpdate WORKING", "artifactUpdate", "statusUpdate COMPLETED"})
		same(t, "two", two.kinds(), nil)
		two.stop()
		one.stop()
	})
}

// A webhook is set and deleted under the lock of the task, so that two instances which do so at the same time don't lose a change.
func TestChangesAreLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		one, other := start(t, s, new(receiver)), start(t, s, new(receiver))
		open := one.add("ann")
		if _, err := one.tasks.Get(t.Context(), open.Owner, open.ID); err != nil { // it stores the task
			t.Fatal(err)
		}
		call := func(params string) *push.Call {
			return &push.Call{
				Version: wire.V10, Params: jsonrpc.Object{Text: jsontext.Value(fmt.Sprintf(params, open.ID))},
				Find:    func(_, id string) (*task.Task, error) { return other.tasks.Get(t.Context(), "ann", id) },
				Fail:    func(_ string, err error) *jsonrpc.Error { return &jsonrpc.Error{Message: err.Error()} },
				Refuse:  func(v ...wire.Violation) *jsonrpc.Error { return &jsonrpc.Error{Message: fmt.Sprint(v)} },
				Changed: func(*task.Task, *task.PushConfig, bool) {},
			}
		}
		for _, c := range []struct {
			params string
			serve  func(context.Context, *push.Call) (jsontext.Value, *jsonrpc.Error)
		}{{`{"taskId":%q,"id":"p","url":"https://p.example/"}`, other.Set}, {`{"taskId":%q,"id":"p"}`, other.Delete}} {
			unlock, err := one.tasks.Lock(t.Context(), open.Owner, open.ID)
			if err != nil {
				t.Fatal(err)
			}
			done := false
			go func() {
				if _, fault := c.serve(t.Context(), call(c.params)); fault != nil {
					t.Error(fault)
				}
				done = true
			}()
			synctest.Wait()
			if done {
				t.Error("it did not wait for the lock")
			}
			unlock()
			synctest.Wait()
			if !done {
				t.Error("it waits on")
			}
		}
		one.stop()
		other.stop()
	})
}
