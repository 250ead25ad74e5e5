package storage

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// slowEnd is a file storage in which the record of an end takes as long as a test says.
type slowEnd struct {
	*certmagic.FileStorage
	begun, release, written chan struct{}
	once                    sync.Once
}

// Store implements [certmagic.Storage].
func (s *slowEnd) Store(ctx context.Context, key string, text []byte) error {
	if !strings.HasSuffix(key, standings[run.Final]) {
		return s.FileStorage.Store(ctx, key, text)
	}
	s.once.Do(func() { close(s.begun); <-s.release })
	defer func() {
		select {
		case s.written <- struct{}{}:
		default:
		}
	}()
	return s.FileStorage.Store(ctx, key, text)
}

func happens(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("waited in vain: " + what)
	}
}

// One instance stores the end of a task while another one stores messages to it, under the same event number or a later one. Both instances and
// a new one have the end then, however the other one learns of it.
func TestEndStoredTogetherWithMessages(t *testing.T) {
	t.Parallel()
	list := func(t *testing.T, s *tasks.Tasks, id string) *task.Task {
		t.Helper()
		page, err := s.List(t.Context(), "ada", tasks.Query{Artifacts: true})
		if err != nil || len(page.Tasks) != 1 || page.Tasks[0].ID != id {
			t.Fatalf("%+v, %v", page, err)
		}
		return page.Tasks[0]
	}
	get := func(t *testing.T, s *tasks.Tasks, id string) *task.Task {
		t.Helper()
		got, err := s.Get(t.Context(), "ada", id)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for name, c := range map[string]struct {
		messages int
		learn    func(*testing.T, *tasks.Tasks, string) *task.Task
	}{
		"same event, get":   {1, get},
		"same event, list":  {1, list},
		"later event, get":  {3, get},
		"later event, list": {3, list},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			slow := &slowEnd{FileStorage: &certmagic.FileStorage{Path: dir}, begun: make(chan struct{}), release: make(chan struct{}), written: make(chan struct{}, 1)}
			instance := func(s certmagic.Storage, flush time.Duration) *tasks.Tasks {
				made := tasks.New(tasks.Config{Store: NewRecords(s), Flush: flush})
				t.Cleanup(func() { made.Close(context.Background()) })
				return made
			}
			one, two := instance(slow, time.Millisecond), instance(&certmagic.FileStorage{Path: dir}, time.Hour)
			made := &task.Task{ID: one.NewID(), Owner: "ada"}
			made.SetStatus(task.Working, nil, time.Now())
			if err := one.Add(t.Context(), made); err != nil {
				t.Fatal(err)
			}
			get(t, one, made.ID)
			unfollowed := make(chan struct{})
			release, _ := two.Claim("ada", made.ID, sync.OnceFunc(func() { close(unfollowed) }))
			defer release()
			_, events, err := two.Subscribe(t.Context(), "ada", made.ID)
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			if _, err := one.Change(t.Context(), "ada", made.ID, func(t *task.Task) error {
				t.SetStatus(task.Completed, nil, time.Now())
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			happens(t, "the record of the end is being written", slow.begun)
			for range c.messages {
				if _, err := two.Change(t.Context(), "ada", made.ID, func(t *task.Task) error {
					t.AddMessage(task.Message{ID: "m", Role: task.User})
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if got := get(t, two, made.ID); got.Status.State != task.Working {
					t.Fatalf("%+v", got)
				}
			}
			close(slow.release)
			happens(t, "the record of the end is written", slow.written)
			three := instance(&certmagic.FileStorage{Path: dir}, time.Hour)
			for i, got := range []*task.Task{c.learn(t, two, made.ID), get(t, two, made.ID), get(t, one, made.ID), c.learn(t, three, made.ID)} {
				if got.Status.State != task.Completed {
					t.Errorf("%d: %+v", i, got)
				}
			}
			happens(t, "the following of the run ends", unfollowed)
			var last uint64
			for u := range events.Updates() {
				if u.Number <= max(last, uint64(c.messages)+1) || !u.Task.Status.State.Terminal() {
					t.Errorf("%+v", u)
				}
				last = u.Number
			}
			if last == 0 {
				t.Error("the subscription has got no end")
			}
			two.Close(t.Context()) // it stores what it has adopted under a number of its own
			four := instance(&certmagic.FileStorage{Path: dir}, time.Hour)
			if got := get(t, four, made.ID); got.Status.State != task.Completed || got.Event != last {
				t.Errorf("%+v, want event %d", got, last)
			}
		})
	}
}
