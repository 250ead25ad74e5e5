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
