package push_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// A receiver that hangs delays no other host, and no other owner.
func TestHangingReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, r *http.Request) (int, error) {
			if strings.HasPrefix(r.URL.Host, "hang") {
				return hang(n, r)
			}
			return 200, nil
		}}
		b := start(t, newStore(), to)
		for i := range 500 {
			b.add("eve", fmt.Sprintf("hang%d@1.0", i%100))
		}
		synctest.Wait()
		if to.inProgress() != 16 {
			t.Errorf("%d requests of one owner at a time", to.inProgress())
		}
		for _, owner := range []string{"ada", "bob"} {
			made := b.add(owner, owner+"@1.0")
			b.complete(made)
			synctest.Wait()
			if p := b.get(made).Push[0]; p.Sent != 3 {
				t.Errorf("%s: %+v", owner, p)
			}
		}
		for i := range 10 {
			for j := range 20 {
				b.add(fmt.Sprint("mallory", i), fmt.Sprintf("hang%d@1.0", j))
			}
		}
		synctest.Wait()
		if to.inProgress() != 64 {
			t.Errorf("%d requests at a time", to.inProgress())
		}
		b.stop()
	})
}

func TestRequestsPerHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: hang}
		b := start(t, newStore(), to)
		for i := range 10 {
			b.add(fmt.Sprint("owner", i), "one@1.0")
			b.add(fmt.Sprint("owner", i), "one@1.0")
		}
		synctest.Wait()
		if to.inProgress() != 8 {
			t.Errorf("%d requests to one host", to.inProgress())
		}
		b.add("ada", "two@1.0")
		synctest.Wait()
		if to.inProgress() != 9 {
			t.Errorf("another host: %d requests", to.inProgress())
		}
		b.stop()
	})
}

// 10,000 events of one task: what a receiver gets is bounded, in order, and ends with the last state.
func TestManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newStore(), new(receiver))
		made := b.add("ada", "a@1.0", "b@1.0")
		for i := range 10_000 {
			b.status(made, []task.State{task.Working, task.InputRequired}[i%2])
			if n := b.Deliverer.Stats().Events; n > 2*64 {
				t.Fatalf("%d events are kept", n)
			}
		}
		b.complete(made)
		time.Sleep(10 * time.Second)
		if n := len(b.to.all()); n < 2 || n > 2*20 {
			t.Errorf("%d requests within 10 s", n)
		}
		time.Sleep(5 * time.Minute)
		got := b.kinds()
		if len(got) > 2*80 || got[len(got)-1] != "task COMPLETED" && got[len(got)-1] != "statusUpdate COMPLETED" {
			t.Errorf("%d events, the last is %s", len(got), got[len(got)-1])
		}
		if s := b.Deliverer.Stats(); s != (push.Stats{}) {
			t.Errorf("left: %+v", s)
		}
		b.stop()
	})
}

// Events of many tasks that can't be delivered take a bounded amount of memory.
func TestManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil, &receiver{answer: hang})
		large := strings.Repeat("x", 100<<10)
		for i := range 3000 {
			made := b.add("eve", fmt.Sprintf("h%d@1.0", i))
			b.change(made, func(t *task.Task) {
				m := &task.Message{Role: task.Agent}
				m.ID = large
				t.SetStatus(task.Failed, m, time.Now())
			})
		}
		s := b.Deliverer.Stats()
		if s.Events > 13_000 || s.Held > 33<<20 || s.Requests != 16 {
			t.Errorf("%+v", s)
		}
		b.stop()
	})
}

// Secrets are bound to the owner and the task, and are never printed.
func TestSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, nil, new(receiver))
		secrets := push.Secrets{Token: "tok", Credentials: "cred"}
		if text := fmt.Sprintf("%v %+v %#v %s", secrets, secrets, secrets, secrets); strings.Contains(text, "tok") || strings.Contains(text, "cred") {
			t.Error(text)
		}
		one, two := b.add("ada", "a@1.0"), b.add("ada", "b@1.0")
		synctest.Wait()
		stolen := one.Push[0].Secrets
		if strings.Contains(stolen, "tok") {
			t.Error(stolen)
		}
		b.change(two, func(t *task.Task) {
			p := b.hook("ada", t.ID, "c", "1.0")
			p.Secrets = stolen
			p.Sent = t.Event
			t.Push = []task.PushConfig{p}
		})
		b.status(two, task.Working)
		synctest.Wait()
		if n := len(b.to.all()); n != 2 {
			t.Errorf("%d requests", n)
		}
		if p := b.get(two).Push[0]; p.Lost != task.MaxLost {
			t.Errorf("%+v", p)
		}
		b.stop()
	})
}

// A webhook that is replaced while its line waits counts for the new host.
func TestReplacedHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, r *http.Request) (int, error) {
			if r.URL.Host == "victim.example" {
				return hang(n, r)
			}
			return 500, nil
		}}
		b := start(t, newStore(), to)
		for i := range 40 {
			made := b.add(fmt.Sprint("owner", i), fmt.Sprintf("h%d@1.0", i))
			synctest.Wait() // the first request has failed
			b.change(made, func(t *task.Task) {
				p := b.hook(t.Owner, t.ID, fmt.Sprintf("h%d", i), "1.0")
				p.URL, p.Set, p.Sent = "https://victim.example/", t.Event, 0
				t.Push = []task.PushConfig{p}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if to.inProgress() != 8 {
			t.Errorf("%d requests to one host", to.inProgress())
		}
		b.stop()
	})
}
