package polling_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// FuzzStore loads any content.
func FuzzStore(f *testing.F) {
	store := newStore(f, 0, newRandom(1))
	learn(store.Learner(skill("acme", 1)), time.Second, 2)
	good := store.Save()
	f.Add(good)
	f.Add([]byte(`[{"Times":[]}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		store := polling.NewStore(polling.Config{Skills: 3, Run: func(f func()) { f() }})
		if store.Load(content) != nil {
			return
		}
		if n := store.Skills(); n > 3 {
			t.Errorf("%d skills", n)
		}
		if err := polling.NewStore(polling.Config{}).Load(store.Save()); err != nil {
			t.Errorf("a snapshot is refused: %v", err)
		}
		l := store.Learner(skill("acme", 1))
		l.Done(polling.Completion{Execution: time.Second, Ended: 2 * time.Second, Polls: 1})
		for _, at := range l.Schedule().Times() {
			if at <= 0 {
				t.Errorf("a poll after %v", at)
			}
		}
	})
}
