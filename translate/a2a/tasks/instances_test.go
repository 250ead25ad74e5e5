package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
)

// The tasks of a conversation that wait are found by the instance that has them, and, of named callers only, in the Store by another one.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		one, two := open(t, tasks.Config{Store: st}), open(t, tasks.Config{Store: st})
		made := map[string]string{}
		for _, state := range []task.State{task.InputRequired, task.Working, task.Completed} {
			mine := &task.Task{ID: one.NewID(), Owner: "ada", Context: "c"}
			mine.SetStatus(state, nil, time.Now())
			if err := one.Add(t.Context(), mine); err != nil {
				t.Fatal(err)
			}
			made[mine.ID] = state.String()
		}
		time.Sleep(time.Second) // until they are stored
		for _, v := range []struct {
			by             *tasks.Tasks
			owner, context string
			stored         bool
			want           int
		}{
			{one, "ada", "c", true, 1},
			{one, "ada", "c", false, 1},
			{two, "ada", "c", true, 1},
			{two, "ada", "c", false, 0},
			{one, "bob", "c", true, 0},
			{two, "bob", "c", true, 0},
			{one, "ada", "d", true, 0},
			{two, "ada", "d", true, 0},
		} {
			found, err := v.by.Waiting(t.Context(), v.owner, v.context, v.stored)
			if err != nil || len(found) != v.want || v.want == 1 && made[found[0].ID] != task.InputRequired.String() {
				t.Errorf("%s %s, stored %v: %v %v", v.owner, v.context, v.stored, found, err)
			}
		}
	})
}

// Two instances with one Store.
func TestTwoInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		one, two := open(t, tasks.Config{Store: st}), open(t, tasks.Config{Store: st})
		made := &task.Task{ID: one.NewID(), Owner: "ada", Context: "c", Name: "mine"}
		made.SetStatus(task.InputRequired, nil, time.Now())
		if err := one.Add(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		got, err := two.Named(t.Context(), "ada", "mine")
		if err != nil || got.ID != made.ID || got.Owner != "ada" {
			t.Fatal(got, err)
		}
		_, sub, err := one.Subscribe(t.Context(), "ada", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		change(t, two, made, to(task.Working))
		if _, err := two.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		if got, err := one.Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != task.Working {
			t.Errorf("%+v, %v", got, err)
		}
		change(t, one, made, to(task.Completed))
		time.Sleep(time.Second)
		page, err := two.List(t.Context(), "ada", tasks.Query{})
		if err != nil || len(page.Tasks) != 1 || page.Tasks[0].Status.State != task.Completed {
			t.Errorf("%+v, %v", page, err)
		}
		var numbers []uint64
		for u := range sub.Updates() {
			numbers = append(numbers, u.Number)
		}
		if !slices.Equal(numbers, []uint64{2, 3, 4}) {
			t.Errorf("%v", numbers)
		}
		for _, owner := range []string{"", "bob"} {
			if got, err := two.Get(t.Context(), owner, made.ID); !errors.Is(err, tasks.ErrNoTask) {
				t.Errorf("%+v, %v", got, err)
			}
		}
		three := open(t, tasks.Config{Store: st})
		page, err = three.List(t.Context(), "ada", tasks.Query{State: task.Completed, Artifacts: true})
		if err != nil || page.Total != 1 || len(page.Tasks) != 1 || page.Tasks[0].Artifact == nil {
			t.Errorf("%+v, %v", page, err)
		}
		time.Sleep(24 * time.Hour)
		for i, s := range []*tasks.Tasks{one, two} {
			if got, err := s.Get(t.Context(), "ada", made.ID); i == 0 && !errors.Is(err, tasks.ErrNoTask) {
				t.Errorf("%+v, %v", got, err)
			}
		}
		time.Sleep(6 * time.Minute) // the clock of another instance may be wrong
		for _, s := range []*tasks.Tasks{one, two, three} {
			if got, err := s.Get(t.Context(), "ada", made.ID); !errors.Is(err, tasks.ErrNoTask) {
				t.Errorf("%+v, %v", got, err)
			}
			if page, err := s.List(t.Context(), "ada", tasks.Query{}); err != nil || page.Total != 0 {
				t.Errorf("%+v, %v", page, err)
			}
		}
	})
}

// Two instances take turns, each under the lock of the task: none misses what the other has done.
func TestInstancesTakeTurns(t *testing.T) {
	st := newStore()
	s := []*tasks.Tasks{open(t, tasks.Config{Store: st, Flush: time.Hour}), open(t, tasks.Config{Store: st, Flush: time.Hour})}
	made := add(t, s[0], "ada")
	if _, err := s[0].Get(t.Context(), "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		unlock, err := s[i%2].Lock(t.Context(), "ada", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		state := task.InputRequired
		if i == 19 {
			state = task.Completed
		}
		got := change(t, s[i%2], made, func(c *task.Task) error {
			c.AddMessage(task.Message{ID: fmt.Sprint(i), Role: task.User})
			c.SetStatus(state, nil, time.Now())
			return nil
		})
		unlock()
		if len(got.History) != i+1 || got.Event != uint64(i+2) {
			t.Fatalf("%d: event %d with %d messages", i, got.Event, len(got.History))
		}
	}
	for i := range s {
		if got, err := s[i].Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != task.Completed || len(got.History) != 20 {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}

// unlessEnded is a change as a follower of a run makes it.
func unlessEnded(change func(*task.Task) error) func(*task.Task) error {
	return func(t *task.Task) error {
		if t.Status.State.Terminal() {
			return errRefused
		}
		return change(t)
	}
}

var errRefused = errors.New("refused")

// What a client does with a task through another instance than the one that follows the run is kept: whether the follower's next version
// comes after it or was made before, and is not stored yet.
func TestChangesThroughAnotherInstance(t *testing.T) {
	message := func(id string) func(*task.Task) error {
		return func(c *task.Task) error { c.AddMessage(task.Message{ID: id, Role: task.User}); return nil }
	}
	webhook := func(c *task.Task) error {
		c.Push = append(slices.Clip(c.Push), task.PushConfig{ID: "w"})
		return nil
	}
	for name, c := range map[string]struct {
		through  func(*task.Task) error // the other instance
		state    task.State             // at the end
		events   []uint64               // of the follower's subscription
		unstored []uint64               // the same, if a version of the follower was not stored
	}{
		"message": {message("b"), task.Completed, []uint64{3, 6, 7}, []uint64{5, 7, 8}},
		"webhook": {webhook, task.Completed, []uint64{3, 6, 7}, []uint64{5, 7, 8}},
		"cancel":  {to(task.Canceled), task.Canceled, []uint64{3, 5}, []uint64{4}},
	} {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stored %t", name, stored), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					st := newStore()
					follower, other := open(t, tasks.Config{Store: st, Flush: time.Hour}), open(t, tasks.Config{Store: st})
					made := add(t, follower, "ada")
					following, end := context.WithCancel(t.Context())
					release, _ := follower.Claim("ada", made.ID, end)
					defer release()
					change(t, follower, made, message("a"))
					_, sub, err := follower.Subscribe(t.Context(), "ada", made.ID)
					if err != nil {
						t.Fatal(err)
					}
					if !stored {
						st.fail(errors.New("for a moment"))
					}
					change(t, follower, made, unlessEnded(to(task.Working)))
					change(t, follower, made, unlessEnded(message("c")))
					if !stored {
						synctest.Wait()
						st.fail(nil)
					} else if _, err := follower.Get(t.Context(), "ada", made.ID); err != nil {
						t.Fatal(err)
					}
					change(t, other, made, c.through)
					time.Sleep(time.Second) // it is stored
					if !stored {
						change(t, other, made, func(*task.Task) error { return nil }) // so that both numbers of the follower are taken
						time.Sleep(time.Second)
					}
					_, err = follower.Change(t.Context(), "ada", made.ID, unlessEnded(to(task.Completed)))
					if want := map[task.State]error{task.Canceled: errRefused}[c.state]; !errors.Is(err, want) {
						t.Errorf("the follower's end of the task: %v, want %v", err, want)
					}
					follower.Close(t.Context())
					if ended := following.Err() != nil; ended != (c.state == task.Canceled) {
						t.Errorf("the following was ended: %t", ended)
					}
					for i, s := range []*tasks.Tasks{follower, other, open(t, tasks.Config{Store: st})} {
						got, err := s.Get(t.Context(), "ada", made.ID)
						if err != nil || got.Status.State != c.state {
							t.Fatalf("%d: %+v, %v", i, got, err)
						}
						var ids []string
						for _, m := range got.History {
							ids = append(ids, m.ID)
						}
						slices.Sort(ids)
						want := []string{"a", "c"}
						switch name {
						case "message":
							want = []string{"a", "b", "c"}
						case "webhook":
							if len(got.Push) != 1 {
								t.Errorf("%d: the webhook is lost", i)
							}
						case "cancel":
							if !stored { // the message to the ended task may be kept or not
								ids, want = nil, nil
							}
						}
						if !slices.Equal(ids, want) {
							t.Errorf("%d: messages %q, want %q", i, ids, want)
						}
					}
					var numbers []uint64
					for u := range sub.Updates() {
						numbers = append(numbers, u.Number)
					}
					want := c.events
					if !stored {
						want = c.unstored
					}
					if !slices.Equal(numbers, want) {
						t.Errorf("events %v, want %v", numbers, want)
					}
				})
			})
		}
	}
}

// An instance that follows a run soon notices that the task was ended through another one, and stops.
func TestFollowingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		follower, other := open(t, tasks.Config{Store: st}), open(t, tasks.Config{Store: st})
		made := add(t, follower, "ada")
		following, end := context.WithCancel(t.Context())
		release, _ := follower.Claim("ada", made.ID, end)
		defer release()
		if _, err := follower.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		unlock, err := other.Lock(t.Context(), "ada", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		change(t, other, made, to(task.Canceled))
		unlock() // stores it
		began := time.Now()
		got, err := follower.Wait(t.Context(), "ada", made.ID, ended)
		if err != nil || got.Status.State != task.Canceled || following.Err() == nil || time.Since(began) > 15*time.Second {
			t.Errorf("%+v, %v after %s; the following: %v", got, err, time.Since(began), following.Err())
		}
	})
}

// Two instances change a task at random, each from what it knows. No change is lost, and none is made twice.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			st := newStore()
			// They don't write at the same time: storages have no compare-and-swap.
			s := []*tasks.Tasks{open(t, tasks.Config{Store: st}), open(t, tasks.Config{Store: st, Flush: 983 * time.Millisecond})}
			made := add(t, s[0], "ada")
			if _, err := s[0].Get(t.Context(), "ada", made.ID); err != nil {
				t.Fatal(err)
			}
			release, _ := s[0].Claim("ada", made.ID, nil)
			defer release()
			var want []string
			for i := range 40 {
				id := fmt.Sprint(100 + i)
				want = append(want, id)
				by := s[random.IntN(2)]
				change(t, by, made, func(c *task.Task) error {
					c.AddMessage(task.Message{ID: id, Role: task.User})
					if i%3 == 0 {
						c.SetStatus(task.Working, nil, time.Now())
					}
					return nil
				})
				if random.IntN(3) == 0 {
					if _, err := by.Get(t.Context(), "ada", made.ID); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
			}
			time.Sleep(2 * time.Second)
			change(t, s[0], made, to(task.Completed))
			time.Sleep(2 * time.Second)
			for i := range s {
				got, err := s[i].Get(t.Context(), "ada", made.ID)
				if err != nil || got.Status.State != task.Completed {
					t.Fatalf("%d: %+v, %v", i, got, err)
				}
				var ids []string
				for _, m := range got.History {
					ids = append(ids, m.ID)
				}
				slices.Sort(ids)
				if !slices.Equal(ids, want) {
					t.Fatalf("seed %d, instance %d: %q, want %q", seed, i, ids, want)
				}
			}
		})
	}
}
