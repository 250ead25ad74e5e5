package push_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/push"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, newStore(), new(receiver))
		made := b.add("ada", "a@1.0")
		b.status(made, task.Working)
		synctest.Wait()
		b.complete(made)
		synctest.Wait()
		same(t, "1.0", b.kinds(), []string{"task SUBMITTED", "statusUpdate WORKING", "artifactUpdate", "statusUpdate COMPLETED"})
		h := b.to.all()[0].header
		if got := fmt.Sprint(h["Authorization"], h[tokenHeader], h["Content-Type"]); got != "[Bearer cred-a] [tok-a] [application/a2a+json]" {
			t.Error(got)
		}
		if p := b.get(made).Push[0]; p.Sent != 4 || p.Lost != 0 {
			t.Errorf("%+v", p)
		}
		b.stop()
	})
}

func TestOlderVersions(t *testing.T) {
	for _, version := range []string{"0.3", "0.1"} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, newStore(), new(receiver))
			made := b.add("ada", "a@"+version)
			b.complete(made)
			synctest.Wait()
			same(t, version, b.kinds(), []string{"id submitted", "id submitted", "id completed"})
			last := b.to.all()[2]
			if !strings.Contains(last.body, `"artifacts":[{`) || last.header.Get("Content-Type") != "application/json" {
				t.Error(last)
			}
			b.stop()
		})
	}
}

func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, _ *http.Request) (int, error) {
			switch {
			case n < 3:
				return 0, errDown
			case n < 5:
				return 302, nil
			}
			return 204, nil
		}}
		b := start(t, newStore(), to)
		began := time.Now()
		made := b.add("ada", "a@1.0")
		b.complete(made)
		time.Sleep(time.Minute)
		var got []string
		for _, r := range to.all() {
			got = append(got, fmt.Sprint(r.at.Sub(began), " ", kindOf(r.body)))
		}
		same(t, "requests", got, []string{
			"0s task SUBMITTED", "1s task SUBMITTED", "3s task SUBMITTED", "7s task SUBMITTED", "15s task SUBMITTED", "31s task SUBMITTED",
			"31s artifactUpdate", "31s statusUpdate COMPLETED",
		})
		var outcomes []string
		for _, a := range b.allAttempts() {
			outcomes = append(outcomes, fmt.Sprint(a.Outcome, " ", a.Status, " ", a.Retry))
		}
		same(t, "outcomes", outcomes, []string{
			"failed 0 1s", "failed 0 2s", "failed 0 4s", "refused 302 8s", "refused 302 16s", "delivered 204 0s", "delivered 204 0s", "delivered 204 0s",
		})
		b.stop()
	})
}

// An event that fails six times is lost; five lost ones in a row end the webhook.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(int, *http.Request) (int, error) { return 500, nil }}
		b := start(t, newStore(), to)
		made := b.add("ada", "a@1.0")
		for range 6 {
			b.status(made, task.Working)
		}
		time.Sleep(10 * time.Minute)
		if n := len(to.all()); n != 5*6 {
			t.Errorf("%d requests", n)
		}
		p := b.get(made).Push[0]
		if p.Lost != task.MaxLost || p.Sent != 5 {
			t.Errorf("%+v", p)
		}
		all := b.allAttempts()
		last := all[len(all)-1]
		if !last.Lost || !last.GivenUp || last.Event != 5 || last.Try != 6 {
			t.Errorf("%+v", last)
		}
		b.complete(made)
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 5*6 {
			t.Errorf("%d requests after it was given up", n)
		}
		if s := b.Deliverer.Stats(); s != (push.Stats{}) {
			t.Errorf("%+v", s)
		}
		b.stop()
	})
}

// Four lost events and a delivered one begin the count anew.
func TestLostInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, _ *http.Request) (int, error) {
			if n == 4*6 {
				return 200, nil
			}
			return 500, nil
		}}
		b := start(t, nil, to)
		made := b.add("ada", "a@1.0")
		for range 8 {
			b.status(made, task.Working)
		}
		time.Sleep(10 * time.Minute)
		if p := b.get(made).Push[0]; p.Lost != 4 || p.Sent != 9 {
			t.Errorf("%+v", p)
		}
		b.stop()
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: hang}
		b := start(t, newStore(), to)
		began := time.Now()
		b.add("ada", "a@1.0")
		time.Sleep(12 * time.Second)
		got := to.all()
		if len(got) != 2 || got[1].at.Sub(began) != 11*time.Second || b.allAttempts()[0].Problem != "no answer within 10s" {
			t.Errorf("%v %+v", got, b.allAttempts())
		}
		b.stop()
	})
}

// A webhook that is deleted or replaced gets nothing of what was queued before.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &receiver{answer: func(n int, _ *http.Request) (int, error) {
			if n == 0 {
				return 500, nil
			}
			return 200, nil
		}}
		b := start(t, newStore(), to)
		made := b.add("ada", "a@1.0", "b@1.0")
		synctest.Wait()
		failed := strings.TrimSuffix(strings.TrimPrefix(to.all()[0].url, "https://"), ".example/hook?q=1")
		b.change(made, func(t *task.Task) {
			t.Push = slices.DeleteFunc(slices.Clone(t.Push), func(p task.PushConfig) bool { return p.ID == failed })
		})
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 2 {
			t.Errorf("%d requests", n)
		}
		b.stop()
	})
}

// A task is stored before an open state of it is sent.
func TestStoredBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		to := new(receiver)
		to.answer = func(int, *http.Request) (int, error) {
			if len(s.newest("ada")) != 1 {
				t.Error("told before it was stored")
			}
			return 200, nil
		}
		b := start(t, s, to)
		s.mu.Lock()
		s.fails = errDown
		s.mu.Unlock()
		b.add("ada", "a@1.0")
		synctest.Wait()
		if n := len(to.all()); n != 0 {
			t.Errorf("%d requests", n)
		}
		s.mu.Lock()
		s.fails = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		if n := len(to.all()); n != 1 {
			t.Errorf("%d requests", n)
		}
		b.stop()
	})
}

// Whatever fails, events never overtake each other, and the last state arrives.
func TestOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			to := &receiver{answer: func(int, *http.Request) (int, error) {
				time.Sleep(time.Duration(roll(3000)) * time.Millisecond)
				return []int{200, 200, 200, 503}[roll(4)], nil
			}}
			b := start(t, newStore(), to)
			made := b.add("ada", "a@1.0")
			for i := range 300 {
				b.change(made, func(t *task.Task) {
					state := []task.State{task.Working, task.InputRequired}[roll(2)]
					t.SetStatus(state, &task.Message{ID: fmt.Sprint(1000 + i), Role: task.Agent}, time.Now())
				})
				time.Sleep(time.Duration(roll(500)) * time.Millisecond)
			}
			time.Sleep(time.Hour)
			var last string
			for _, r := range to.all() {
				_, id, _ := strings.Cut(r.body, `"messageId":"`) // the status comes before the history
				if id, _, _ = strings.Cut(id, `"`); id < last {
					t.Fatalf("%s after %s", id, last)
				}
				last = id
			}
			if last != "1299" {
				t.Errorf("the last event is %s", last)
			}
			b.stop()
		})
	}
}
