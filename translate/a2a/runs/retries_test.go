package runs_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/runs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// store is a [run.Store] that has nothing, and fails as a test says.
type store struct {
	run.Store
	fails atomic.Bool
	reads atomic.Int64
}

func (*store) Put(context.Context, ...*run.Record) error                    { return nil }
func (*store) Trim(context.Context, run.Bounds, func(id string) bool) error { return nil }
func (s *store) Newer(context.Context, string, string, run.Version) (*run.Record, error) {
	s.reads.Add(1)
	if s.fails.Load() {
		return nil, errors.New("the disk is gone")
	}
	return nil, nil
}

// follower counts how often it is asked to follow a run.
type follower struct {
	owners string // the first letters of those whose tasks it owns
	asked  atomic.Int64
	skew   atomic.Int64
	from   *runs.Retries
}

func (f *follower) Owns(owner string) bool { return strings.Contains(f.owners, owner[:1]) }
func (f *follower) Continue(_ context.Context, t *task.Task) {
	f.asked.Add(1)
	if f.from != nil {
		skew, _ := f.from.Take(t)
		f.skew.Store(int64(skew))
	}
}

// working makes a task whose run goes on.
func working(t *testing.T, s *tasks.Tasks, owner string) *task.Task {
	t.Helper()
	made := &task.Task{ID: s.NewID(), Owner: owner, Deadline: time.Now().Add(time.Hour)}
	made.SetStatus(task.Working, nil, time.Now())
	if err := s.Add(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), owner, made.ID); err != nil {
		t.Fatal(err)
	}
	return made
}

// The newest configuration that owns a task follows its run after the pause, so that it can end an outage.
func TestNewestFollowerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tasks.New(tasks.Config{})
		defer s.Close(context.Background())
		var r runs.Retries
		defer r.Close()
		oldest, newest, other := &follower{owners: "ab"}, &follower{owners: "a", from: &r}, &follower{owners: "c"}
		for _, f := range []*follower{oldest, newest, other} {
			r.Begin(f)
		}
		ada, bob := working(t, s, "ada"), working(t, s, "bob")
		for range 2 { // a run has one timer
			r.Later(s, ada, time.Minute)
			r.Later(s, bob, 0)
		}
		time.Sleep(runs.Pause - time.Millisecond)
		synctest.Wait()
		if oldest.asked.Load()+newest.asked.Load()+other.asked.Load() != 0 {
			t.Errorf("asked before the pause has ended: %d, %d, %d", oldest.asked.Load(), newest.asked.Load(), other.asked.Load())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if oldest.asked.Load() != 1 || newest.asked.Load() != 1 || other.asked.Load() != 0 || newest.skew.Load() != int64(time.Minute) {
			t.Errorf("asked: %d, %d, %d, with %s", oldest.asked.Load(), newest.asked.Load(), other.asked.Load(), time.Duration(newest.skew.Load()))
		}
		r.Later(s, ada, 0)
		r.End(newest)
		time.Sleep(runs.Pause)
		synctest.Wait()
		if oldest.asked.Load() != 2 || newest.asked.Load() != 1 {
			t.Errorf("asked after the newest has ended: %d, %d", oldest.asked.Load(), newest.asked.Load())
		}
		if _, waits := r.Take(ada); waits {
			t.Error("a retry is left")
		}
	})
}

// While the storage fails, the retry is kept, and made after a pause again. When it is taken or the process ends, it is not.
func TestRetriesGoOnWhileStorageFails(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(*runs.Retries, *task.Task, *store)
		asked int64
	}{
		"storage works again": {func(_ *runs.Retries, _ *task.Task, st *store) { st.fails.Store(false) }, 1},
		"taken":               {func(r *runs.Retries, t *task.Task, _ *store) { r.Take(t) }, 0},
		"closed":              {func(r *runs.Retries, _ *task.Task, _ *store) { r.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := new(store)
				s := tasks.New(tasks.Config{Store: st})
				defer s.Close(context.Background())
				var r runs.Retries
				defer r.Close()
				f := &follower{owners: "a"}
				r.Begin(f)
				made := working(t, s, "ada")
				st.fails.Store(true)
				r.Later(s, made, 0)
				for tries := range int64(3) {
					time.Sleep(runs.Pause)
					synctest.Wait()
					if st.reads.Load() < tries+1 || f.asked.Load() != 0 {
						t.Fatalf("%d reads, asked %d times", st.reads.Load(), f.asked.Load())
					}
				}
				c.then(&r, made, st)
				before := st.reads.Load()
				time.Sleep(3 * runs.Pause)
				synctest.Wait()
				if f.asked.Load() != c.asked || st.reads.Load()-before != c.asked {
					t.Errorf("asked %d times after %d reads", f.asked.Load(), st.reads.Load()-before)
				}
			})
		})
	}
}
