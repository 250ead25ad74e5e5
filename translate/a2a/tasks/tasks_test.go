package tasks_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// open makes tasks that are closed at the end of the test.
func open(tb testing.TB, c tasks.Config) *tasks.Tasks {
	tb.Helper()
	s := tasks.New(c)
	tb.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// add makes a task in the state submitted.
func add(tb testing.TB, s *tasks.Tasks, owner string) *task.Task {
	tb.Helper()
	made, err := begin(tb, s, task.Task{Owner: owner, Context: "c"}, task.Submitted)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

// begin makes a task in a state, if there is a place.
func begin(tb testing.TB, s *tasks.Tasks, made task.Task, state task.State) (*task.Task, error) {
	tb.Helper()
	made.ID = s.NewID()
	made.SetStatus(state, nil, time.Now())
	return &made, s.Add(tb.Context(), &made)
}

// to changes the state of a task.
func to(state task.State) func(*task.Task) error {
	return func(t *task.Task) error {
		if state == task.Completed {
			t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartData, Data: []byte(`{"n":1}`)}}})
		}
		t.SetStatus(state, nil, time.Now())
		return nil
	}
}

func change(tb testing.TB, s *tasks.Tasks, made *task.Task, change func(*task.Task) error) *task.Task {
	tb.Helper()
	c, err := s.Change(tb.Context(), made.Owner, made.ID, change)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestTaskChanges(t *testing.T) {
	s := open(t, tasks.Config{})
	made := add(t, s, "ada")
	if made.Event != 1 {
		t.Errorf("the first event is %d", made.Event)
	}
	change(t, s, made, to(task.Working))
	before, err := s.Get(t.Context(), "ada", made.ID)
	if err != nil || before.Status.State != task.Working || before.Event != 2 {
		t.Errorf("%+v, %v", before, err)
	}
	refused := errors.New("refused")
	if _, err := s.Change(t.Context(), "ada", made.ID, func(c *task.Task) error { c.Context = "other"; return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	after := change(t, s, made, to(task.Completed))
	if after.Event != 4 || before.Status.State != task.Working || before.Artifact != nil || after.Context != "c" {
		t.Errorf("after %+v, before %+v", after, before)
	}
	if _, err := s.Change(t.Context(), "ada", made.ID, to(task.Failed)); !errors.Is(err, task.ErrEnded) {
		t.Errorf("an ended task has a new event: %v", err)
	}
	pushed := change(t, s, made, func(c *task.Task) error { c.Push = append(c.Push, task.PushConfig{ID: "p"}); return nil })
	if pushed.Event != 5 || len(pushed.Push) != 1 || len(after.Push) != 0 {
		t.Errorf("%+v", pushed)
	}
	for _, c := range []struct{ owner, id string }{{"bob", made.ID}, {"", made.ID}, {"ada", s.NewID()}, {"ada", "x"}, {"ada", ""}} {
		if got, err := s.Get(t.Context(), c.owner, c.id); !errors.Is(err, tasks.ErrNoTask) {
			t.Errorf("%v: %+v, %v", c, got, err)
		}
	}
}

func TestNamedTasks(t *testing.T) {
	s := open(t, tasks.Config{})
	var last string
	for range 3 {
		made, err := begin(t, s, task.Task{Name: "mine", Owner: "ada"}, task.Submitted)
		if err != nil {
			t.Fatal(err)
		}
		last = made.ID
	}
	if got, err := s.Named(t.Context(), "ada", "mine"); err != nil || got.ID != last {
		t.Errorf("%+v, %v, want %s", got, err, last)
	}
	for _, owner := range []string{"", "bob"} {
		if got, err := s.Named(t.Context(), owner, "mine"); !errors.Is(err, tasks.ErrNoTask) {
			t.Errorf("%q: %+v, %v", owner, got, err)
		}
	}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, tasks.Config{})
		made := add(t, s, "ada")
		go func() {
			time.Sleep(time.Minute)
			change(t, s, made, to(task.Working))
			change(t, s, made, to(task.Completed))
		}()
		working, err := s.Wait(t.Context(), "ada", made.ID, func(c *task.Task) bool { return c.Status.State == task.Working })
		if err != nil || working.Status.State != task.Working {
			t.Errorf("%+v, %v", working, err)
		}
		ended, err := s.Wait(t.Context(), "ada", made.ID, func(c *task.Task) bool { return c.Status.State.Terminal() })
		if err != nil || ended.Status.State != task.Completed {
			t.Errorf("%+v, %v", ended, err)
		}
		slow := add(t, s, "ada")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := s.Wait(ctx, "ada", slow.ID, func(c *task.Task) bool { return c.Status.State.Terminal() })
		if !errors.Is(err, context.DeadlineExceeded) || got == nil || got.Status.State != task.Submitted {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestExpiredTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, tasks.Config{TTL: time.Hour})
		ended, claimed, idle := add(t, s, "ada"), add(t, s, "ada"), add(t, s, "ada")
		change(t, s, ended, to(task.Completed))
		release, ok := s.Claim("ada", claimed.ID, nil)
		if _, again := s.Claim("ada", claimed.ID, nil); !ok || again {
			t.Error("one task has two followers")
		}
		_, sub, err := s.Subscribe(t.Context(), "ada", idle.ID)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		for _, c := range []*task.Task{ended, claimed, idle} {
			if _, err := s.Get(t.Context(), "ada", c.ID); err != nil {
				t.Errorf("expired too early: %v", err)
			}
		}
		time.Sleep(time.Second)
		for c, want := range map[*task.Task]error{ended: tasks.ErrNoTask, claimed: nil, idle: tasks.ErrNoTask} {
			if _, err := s.Get(t.Context(), "ada", c.ID); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if page, err := s.List(t.Context(), "ada", tasks.Query{}); err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != claimed.ID {
			t.Errorf("%+v, %v", page, err)
		}
		release()
		time.Sleep(time.Hour)
		if u, more := <-sub.Updates(); more || sub.Cut() {
			t.Errorf("%+v", u)
		}
		if states, subs, size := s.Stats(); len(states) != 0 || subs != 0 || size != 0 {
			t.Errorf("%v, %d, %d", states, subs, size)
		}
	})
}

func TestSlowSubscriberIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, tasks.Config{})
		made := add(t, s, "ada")
		_, slow, err := s.Subscribe(t.Context(), "ada", made.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, closed, _ := s.Subscribe(t.Context(), "ada", made.ID)
		_, quick, _ := s.Subscribe(t.Context(), "ada", made.ID)
		n := 0
		go func() {
			for range quick.Updates() {
				n++
			}
		}()
		for i := range 64 {
			change(t, s, made, to(task.Working))
			synctest.Wait()
			if i == 10 {
				closed.Close()
				closed.Close()
			}
		}
		if slow.Cut() {
			t.Error("cut too early")
		}
		change(t, s, made, to(task.Working))
		synctest.Wait()
		if !slow.Cut() || closed.Cut() || quick.Cut() {
			t.Errorf("cut: %v, %v, %v", slow.Cut(), closed.Cut(), quick.Cut())
		}
		for range slow.Updates() {
		}
		for range closed.Updates() {
		}
		change(t, s, made, to(task.Failed))
		synctest.Wait()
		if n != 66 {
			t.Errorf("the quick reader has %d events", n)
		}
	})
}

func TestPagesOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, tasks.Config{})
		var want []string
		start := time.Now()
		for i := range 25 {
			made := add(t, s, "ada")
			if i%2 == 0 {
				time.Sleep(time.Millisecond) // others have the same time
			}
			want = append(want, made.ID)
		}
		add(t, s, "bob")
		slices.Reverse(want)
		for limit := 1; limit < 30; limit++ {
			var got []string
			q := tasks.Query{Limit: limit}
			for {
				page, err := s.List(t.Context(), "ada", q)
				if err != nil || page.Total != 25 || len(page.Tasks) > limit {
					t.Fatal(page, err)
				}
				for _, c := range page.Tasks {
					got = append(got, c.ID)
				}
				if q.Token = page.NextToken; q.Token == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("by %d: %v, want %v", limit, got, want)
			}
		}
		for token, want := range map[string]error{"x": tasks.ErrBadToken, "AAAA": tasks.ErrBadToken, "=": tasks.ErrBadToken} {
			if _, err := s.List(t.Context(), "ada", tasks.Query{Token: token}); !errors.Is(err, want) {
				t.Errorf("%q: %v", token, err)
			}
		}
		for _, c := range []struct {
			q    tasks.Query
			want int
		}{
			{tasks.Query{Context: "c"}, 25},
			{tasks.Query{Context: "d"}, 0},
			{tasks.Query{State: task.Submitted}, 25},
			{tasks.Query{State: task.Failed}, 0},
			{tasks.Query{Since: start.Add(time.Millisecond)}, 24},
			{tasks.Query{Since: start.Add(time.Millisecond + 1)}, 22},
		} {
			if page, err := s.List(t.Context(), "ada", c.q); err != nil || page.Total != c.want {
				t.Errorf("%+v: %d, %v", c, page.Total, err)
			}
		}
		if all := s.All(3); len(all) != 3 {
			t.Errorf("%v", all)
		}
	})
}

func TestLockOfATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, tasks.Config{})
		unlock, err := s.Lock(t.Context(), "ada", "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Lock(ctx, "ada", "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if other, err := s.Lock(ctx, "bob", "x"); err == nil {
			t.Error("an expired context locks")
			other()
		}
		unlock()
		unlock()
		again, err := s.Lock(t.Context(), "ada", "x")
		if err != nil {
			t.Fatal(err)
		}
		again()
	})
}
