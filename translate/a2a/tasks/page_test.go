package tasks_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/task"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/tasks"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// TestLargePages: a page ends early if its tasks are large, and the pages have all tasks together, from memory and from the store.
func TestLargePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, count = 3 << 20, 10
		st := newStore()
		one := open(t, tasks.Config{Store: st})
		for range count {
			made := add(t, one, "ada")
			change(t, one, made, func(t *task.Task) error {
				t.SetArtifact([]task.Part{{Part: front.Part{Kind: front.PartText, Text: strings.Repeat("x", large)}}})
				t.SetStatus(task.Completed, nil, time.Now())
				return nil
			})
		}
		time.Sleep(2 * time.Second)
		two := open(t, tasks.Config{Store: st})
		for name, kept := range map[string]*tasks.Tasks{"memory": one, "store": two} {
			for _, artifacts := range []bool{true, false} {
				q, found, pages := tasks.Query{Artifacts: artifacts, Limit: 100}, map[string]bool{}, 0
				for {
					page, err := kept.List(t.Context(), "ada", q)
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

// TestReadersShareReadings: those who read a task at the same time share what the store is asked, and each of them sees what another
// instance had stored before.
func TestReadersShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStore()
		st.slow = 10 * time.Millisecond
		one, two := open(t, tasks.Config{Store: st}), open(t, tasks.Config{Store: st})
		made := add(t, one, "ada")
		if _, err := one.Get(t.Context(), "ada", made.ID); err != nil {
			t.Fatal(err)
		}
		for _, state := range []task.State{task.Submitted, task.Working, task.InputRequired, task.Canceled} {
			if state != task.Submitted {
				change(t, one, made, to(state))
				time.Sleep(2 * time.Second)
			}
			_, before := st.counts()
			var readers sync.WaitGroup
			for i := range 100 {
				readers.Go(func() {
					time.Sleep(time.Duration(i) * 50 * time.Microsecond)
					if got, err := two.Get(t.Context(), "ada", made.ID); err != nil || got.Status.State != state {
						t.Errorf("%+v, %v, want %s", got, err, state)
					}
				})
			}
			readers.Wait()
			if _, after := st.counts(); state != task.Submitted && after-before > 2 {
				t.Errorf("%s: the store was read %d times", state, after-before)
			}
		}
	})
}
