package task_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// TestLargePages: a page ends early if its tasks are large, and the pages have all tasks together, from memory and from the store.
func TestLargePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, count = 3 << 20, 10
		st := newStore()
		one := open(t, task.Config{Store: st})
		for range count {
			made := add(t, one, "ada")
			change(t, one, made, func(t *task.Task) error {
				t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartText, Text: strings.Repeat("x", large)}}})
				t.SetStatus(task.Completed, nil, time.Now())
				return nil
			})
		}
		time.Sleep(2 * time.Second)
		two := open(t, task.Config{Store: st})
		for name, tasks := range map[string]*task.Tasks{"memory": one, "store": two} {
			for _, artifacts := range []bool{true, false} {
				q, found, pages := task.Query{Artifacts: artifacts, Limit: 100}, map[string]bool{}, 0
				for {
					page, err := tasks.List(t.Context(), "ada", q)
					if err != nil || page.Total != count || len(page.Tasks) == 0 {
						t.Fatalf("%s: %+v, %v", name, page, err)
					}
					pages++
					for _, listed := range page.Tasks {
						found[listed.ID] = true
						if artifacts != (listed.Artifact != nil) {
							t.Errorf("%s: artifacts %t, and the task has %v", name, artifacts, listed.Artifact != nil)
						}
					}
					if q.Token = page.NextToken; q.Token == "" {
						break
					}
				}
				if want := map[bool]int{true: count / 2, false: 1}[artifacts]; len(found) != count || pages != want {
					t.Errorf("%s, artifacts %t: %d tasks on %d pages, want %d", name, artifacts, len(found), pages, want)
				}
			}
		}
	})
}

// TestRefresh: callers that wait for what another instance does read the store once in a time.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		one, two := open(t, task.Config{Store: st}), open(t, task.Config{Store: st})
		made := add(t, one, "ada")
		if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		refresh := func(want task.State, read int) {
			t.Helper()
			_, before := st.counts()
			for range 100 {
				if got, err := two.Refresh(t.Context(), "ada", made.ID, time.Second); err != nil || got.Status.State != want {
					t.Errorf("%+v, %v", got, err)
				}
			}
			if _, after := st.counts(); after-before != read {
				t.Errorf("the store was read %d times, want %d", after-before, read)
			}
		}
		refresh(task.Submitted, 2) // the first one takes the task into memory
		change(t, one, made, to(task.Working))
		if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		refresh(task.Submitted, 0)
		time.Sleep(time.Second)
		refresh(task.Working, 1)
	})
}
