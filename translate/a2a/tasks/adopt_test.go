package tasks_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
)

// An instance keeps a bounded number of changes that are not stored yet. It makes these again on top of what another instance has stored meanwhile. If
// the end is not among them any more, it holds nevertheless, because clients have seen it.
func TestEndHoldsOverMessagesOfAnotherInstance(t *testing.T) {
	const later = 70 // changes after the end, more than are kept
	st := newStore()
	one, two := open(t, tasks.Config{Store: st, Flush: time.Hour}), open(t, tasks.Config{Store: st, Flush: time.Hour})
	made := add(t, one, "ada")
	if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
		t.Fatal(err)
	}
	change(t, one, made, to(task.Completed))
	for range later {
		change(t, one, made, func(*task.Task) error { return nil })
	}
	change(t, two, made, func(c *task.Task) error { c.AddMessage(task.Message{ID: "m", Role: task.User}); return nil })
	if got, err := two.Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != task.Submitted {
		t.Fatalf("%+v, %v", got, err)
	}
	unlock, err := one.Lock(t.Context(), "ada", made.ID)
	if err != nil {
		t.Fatal(err)
	}
	unlock() // stores the task
	for i, s := range []*tasks.Tasks{one, two, open(t, tasks.Config{Store: st})} {
		got, err := s.Get(t.Context(), "ada", made.ID)
		if err != nil || got.Status.State != task.Completed || got.Artifact == nil || len(got.History) != 1 || got.Told <= made.Told {
			t.Errorf("%d: %+v, %v", i, got, err)
		}
	}
}
