package task_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
)

// Many tasks are changed, read, listed and subscribed to at the same time. All readers of a task see the same events, and all that
// was told is in the Store afterwards.
func TestReadersSeeEqualEvents(t *testing.T) {
	for name, st := range map[string]*store{"memory": nil, "store": newStore()} {
		t.Run(name, func(t *testing.T) {
			c := task.Config{Flush: 20 * time.Millisecond}
			if st != nil {
				c.Store = st
			}
			s := task.New(c)
			var all sync.WaitGroup
			ids := make([]string, 40)
			for i := range ids {
				made := add(t, s, "ada")
				ids[i] = made.ID
				all.Go(func() {
					release, ok := s.Claim("ada", made.ID, nil)
					if !ok {
						t.Error("the task has another follower")
						return
					}
					defer release()
					follow(t, s, made, i%3)
				})
			}
			all.Wait()
			s.Close(t.Context())
			if st == nil {
				return
			}
			other := open(t, c)
			for _, id := range ids {
				got, err := other.Get(t.Context(), "ada", id)
				if err != nil || got.Status.State != task.Completed {
					t.Errorf("%+v, %v", got, err)
				}
			}
		})
	}
}

// follow changes a task to its end, and compares what readers see.
func follow(t *testing.T, s *task.Tasks, made *task.Task, readers int) {
	t.Helper()
	var wg sync.WaitGroup
	seen := make([][]uint64, readers+1)
	from := make([]uint64, readers+1)
	for i := range readers {
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
			now, sub, err := s.Subscribe(t.Context(), "ada", made.ID)
			if err != nil {
				t.Error(err)
				return
			}
			defer sub.Close()
			from[i] = now.Event
			for u := range sub.Updates() {
				seen[i] = append(seen[i], u.Number)
				if u.Task.Event != u.Number {
					t.Errorf("the task of event %d has event %d", u.Number, u.Task.Event)
				}
			}
			if sub.Cut() {
				t.Error("cut")
			}
		})
	}
	wg.Go(func() {
		if got, err := s.Wait(t.Context(), "ada", made.ID, ended); err != nil || got.Status.State != task.Completed {
			t.Errorf("%+v, %v", got, err)
		}
	})
	wg.Go(func() {
		for range 5 {
			if page, err := s.List(t.Context(), "ada", task.Query{Limit: 5}); err != nil || page.Total != 40 && page.Total > 40 {
				t.Errorf("%d, %v", page.Total, err)
			}
		}
	})
	for range 10 {
		change(t, s, made, to(task.Working))
		if rand.IntN(4) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	last := change(t, s, made, to(task.Completed)).Event
	wg.Wait()
	var want []uint64
	for n := uint64(1); n <= last; n++ {
		want = append(want, n)
	}
	for i := range readers {
		if !slices.Equal(seen[i], want[from[i]:]) {
			t.Errorf("from %d: %v", from[i], seen[i])
		}
	}
}

// While the Store can't be written, ended tasks are kept until their size exceeds the bound; the oldest go first.
func TestUnwrittenTasksAreBounded(t *testing.T) {
	st := newStore()
	st.fail(errors.New("read-only"))
	s := task.New(task.Config{Store: st, MostPerOwner: 10, MaxSize: 1 << 20, Flush: time.Millisecond})
	defer s.Close(context.Background())
	var first, last string
	for i := range 3000 {
		made := add(t, s, "ada")
		change(t, s, made, to(task.Completed))
		if i == 0 {
			first = made.ID
		}
		last = made.ID
	}
	states, _, size := s.Stats()
	if n := states[task.Completed]; size > 1<<20 || n < 500 || n > 1000 {
		t.Errorf("%d tasks of %d bytes", n, size)
	}
	if _, err := s.Get(t.Context(), "ada", last); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "ada", first); err == nil {
		t.Error("the first is still there")
	}
}

// One owner can't take all memory with open tasks, nor can one task.
func TestSizeOfOpenTasks(t *testing.T) {
	s := open(t, task.Config{MaxSize: 1 << 20})
	text := func(n int) func(*task.Task) error {
		return func(c *task.Task) error {
			c.AddMessage(task.Message{ID: string(make([]byte, n)), Role: task.User})
			return nil
		}
	}
	made := add(t, s, "ada")
	if _, err := s.Change(t.Context(), "ada", made.ID, text(300<<10)); !errors.Is(err, task.ErrFull) {
		t.Errorf("a large task: %v", err)
	}
	n := 0
	for ; n < 100; n++ {
		c := &task.Task{ID: s.NewID(), Owner: "ada"}
		c.SetStatus(task.InputRequired, nil, time.Now())
		if err := text(50 << 10)(c); err != nil {
			t.Fatal(err)
		}
		if err := s.Add(t.Context(), c); err != nil {
			break
		}
	}
	if n < 8 || n > 10 {
		t.Errorf("one owner has %d tasks of 50 KiB", n)
	}
	other := add(t, s, "bob")
	if _, err := s.Change(t.Context(), "bob", other.ID, text(50<<10)); err != nil {
		t.Error(err)
	}
	if _, err := s.Change(t.Context(), "ada", made.ID, to(task.Completed)); err != nil {
		t.Errorf("the end of a task finds no room: %v", err)
	}
}

// Tasks that wait for a message make room for new ones, but stay in the Store.
func TestInterruptedTasksMakeRoom(t *testing.T) {
	st := newStore()
	s := open(t, task.Config{Store: st, MostPerOwner: 5, Flush: time.Hour})
	var all []*task.Task
	for i := range 9 {
		made := &task.Task{ID: s.NewID(), Owner: ""}
		made.SetStatus(task.InputRequired, nil, time.Now())
		if err := s.Add(t.Context(), made); err != nil {
			t.Fatal(i, err)
		}
		if _, err := s.Get(t.Context(), "", made.ID); err != nil {
			t.Fatal(err)
		}
		all = append(all, made)
	}
	for i, made := range all {
		got, err := s.Change(t.Context(), "", made.ID, func(c *task.Task) error { c.SetStatus(task.AuthRequired, nil, time.Now()); return nil })
		if err != nil || got.Event != 2 {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
		if _, err := s.Get(t.Context(), "", made.ID); err != nil {
			t.Fatal(err)
		}
	}
	if states, _, _ := s.Stats(); states[task.AuthRequired]+states[task.InputRequired] != 5 {
		t.Errorf("%v", states)
	}
	for range 5 {
		release, _ := s.Claim("", add(t, s, "").ID, nil)
		defer release()
	}
	made := &task.Task{ID: s.NewID()}
	made.SetStatus(task.Submitted, nil, time.Now())
	if err := s.Add(t.Context(), made); !errors.Is(err, task.ErrFull) {
		t.Errorf("%v", err)
	}
}
