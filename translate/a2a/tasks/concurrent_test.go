package tasks_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
)

// Many tasks are changed, read, listed and subscribed to at the same time. All readers of a task see the same events, and all that
// was told is in the Store afterwards.
func TestReadersSeeEqualEvents(t *testing.T) {
	for name, st := range map[string]*store{"memory": nil, "store": newStore()} {
		t.Run(name, func(t *testing.T) {
			c := tasks.Config{Flush: 20 * time.Millisecond}
			if st != nil {
				c.Store = st
			}
			s := tasks.New(c)
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
					readers := i % 3
					if i == 0 {
						readers = 40
					}
					follow(t, s, made, readers)
				})
			}
			all.Wait()
			if _, subs, _ := s.Stats(); subs != 0 {
				t.Errorf("%d subscriptions are open", subs)
			}
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
func follow(t *testing.T, s *tasks.Tasks, made *task.Task, readers int) {
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
			if page, err := s.List(t.Context(), "ada", tasks.Query{Limit: 5}); err != nil || page.Total != 40 && page.Total > 40 {
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
