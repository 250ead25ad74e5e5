package tasks_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// lists is a store that counts what lists read, and how many read at the same time.
type lists struct {
	*store
	read, now, most atomic.Int64
	each            func(read int64) // is called for each record
}

func (s *lists) List(ctx context.Context, owner string, most int, need func(string, run.Version) bool) iter.Seq2[*run.Record, error] {
	return func(yield func(*run.Record, error) bool) {
		s.most.Store(max(s.most.Load(), s.now.Add(1)))
		defer s.now.Add(-1)
		for r, err := range s.store.List(ctx, owner, most, need) {
			time.Sleep(10 * time.Millisecond)
			if err == nil && ctx.Err() != nil {
				r, err = nil, ctx.Err()
			}
			if err == nil {
				s.each(s.read.Add(1))
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// After a restart, a list reads each open task once, for one client at a time. When a client leaves, its reading ends, and the next client reads
// what is left.
func TestListsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count, clients = 40, 20
		st := &lists{store: newStore(), each: func(int64) {}}
		one := open(t, tasks.Config{Store: st})
		for range count {
			made, err := begin(t, one, task.Task{Owner: "ada"}, task.InputRequired)
			if err == nil {
				_, err = one.Get(t.Context(), "ada", made.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		two := open(t, tasks.Config{Store: st})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		st.each = func(read int64) {
			if read == count/2 {
				leave()
			}
		}
		if _, err := two.List(ctx, "ada", tasks.Query{Limit: 1}); !errors.Is(err, context.Canceled) || st.read.Load() != count/2 {
			t.Fatalf("%d were read for a client that has left: %v", st.read.Load(), err)
		}
		st.each = func(int64) {}
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				page, err := two.List(t.Context(), "ada", tasks.Query{Limit: 1})
				if err != nil || page.Total != count || len(page.Tasks) != 1 {
					t.Errorf("%+v, %v", page, err)
				}
			})
		}
		group.Wait()
		if read, most := st.read.Load(), st.most.Load(); read != count+clients || most != 1 {
			t.Errorf("%d records were read, by %d lists at the same time", read, most)
		}
		// What another instance changes is read again.
		all, err := one.List(t.Context(), "ada", tasks.Query{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		change(t, one, all.Tasks[0], to(task.Working))
		if _, err := one.Get(t.Context(), "ada", all.Tasks[0].ID); err != nil {
			t.Fatal(err)
		}
		page, err := two.List(t.Context(), "ada", tasks.Query{State: task.Working})
		if err != nil || page.Total != 1 {
			t.Errorf("%+v, %v", page, err)
		}
		time.Sleep(24*time.Hour + 10*time.Minute)
		if page, err := two.List(t.Context(), "ada", tasks.Query{}); err != nil || page.Total != 0 {
			t.Errorf("after their time: %+v, %v", page, err)
		}
	})
}

// A list ends the tasks whose invocation was lost with its instance, also those that are only in the Store, as soon as their time is over. The end is
// stored.
func TestListsGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		one := open(t, tasks.Config{Store: st})
		made := &task.Task{ID: one.NewID(), Owner: "ada", Deadline: time.Now().Add(time.Minute)}
		made.SetStatus(task.Submitted, nil, time.Now())
		if err := one.Add(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		two := open(t, tasks.Config{Store: st})
		ends := 0
		state := func(s *tasks.Tasks) task.State {
			page, err := s.List(t.Context(), "ada", tasks.Query{GiveUp: func(t *task.Task) error { ends++; return to(task.Failed)(t) }})
			if err != nil || len(page.Tasks) != 1 {
				t.Fatalf("%+v, %v", page, err)
			}
			return page.Tasks[0].Status.State
		}
		if got := state(two); got != task.Submitted || ends != 0 {
			t.Errorf("at once: %s", got)
		}
		time.Sleep(time.Minute + task.ClockSkew - time.Second)
		if got := state(two); got != task.Submitted || ends != 0 {
			t.Errorf("before the time is over: %s", got)
		}
		time.Sleep(time.Second)
		for range 3 {
			if got := state(two); got != task.Failed || ends != 1 {
				t.Errorf("%s, ended %d times", got, ends)
			}
		}
		two.Close(t.Context())
		if page, err := open(t, tasks.Config{Store: st}).List(t.Context(), "ada", tasks.Query{}); err != nil || len(page.Tasks) != 1 || page.Tasks[0].Status.State != task.Failed {
			t.Errorf("in another instance: %+v, %v", page, err)
		}
	})
}
