package skillbridge

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// storedBook is a book that is stored in a folder, and what it logs.
func storedBook(folder string) (*book, *zaptest.ObservedLogs) {
	core, logs := zaptest.New(zap.WarnLevel)
	var storage certmagic.Storage = &certmagic.FileStorage{Path: folder}
	b := &book{Book: polling.NewBook(polling.Config{}), key: "skill_bridge/execution_times_20ms", logger: zap.New(core)}
	b.storage.Store(&storage)
	return b, logs
}

var learned = polling.Key{Provider: "https://acme.example", Skill: "acme/forecast", Version: "1.0.0"}

func TestWhatIsLearnedSurvives(t *testing.T) {
	folder := t.TempDir()
	b, logs := storedBook(folder)
	b.load() // nothing is there, which is no fault
	if err := b.Destruct(); err != nil || logs.Len() != 0 {
		t.Fatal(err, logs.All())
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Fatalf("%v, %v: nothing was learned, and it was stored", left, err)
	}
	for range 5 {
		b.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	}
	if err := b.Destruct(); err != nil || logs.Len() != 0 {
		t.Fatal(err, logs.All())
	}
	again, logs := storedBook(folder)
	again.load()
	if n := again.Learner(learned).History().Len(); n != 5 || logs.Len() != 0 {
		t.Errorf("%d execution times, want 5 (%v)", n, logs.All())
	}

	file := filepath.Join(folder, "skill_bridge", "execution_times_20ms")
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, logs := storedBook(folder)
	damaged.load()
	if n := damaged.Learner(learned).History().Len(); n != 0 || logs.Len() != 1 {
		t.Errorf("%d execution times of a damaged file, %v", n, logs.All())
	}
}

// TestHandlersLearnTogether: those that poll in the same way share what they learn,
// and give it up with the last of them.
func TestHandlersLearnTogether(t *testing.T) {
	one, two := mustLoad(t, `{}`), mustLoad(t, `{"poll":{"mode":"adaptive"}}`)
	dear, fixed := mustLoad(t, `{"poll":{"price":"1s"}}`), mustLoad(t, `{"poll":{"mode":"fixed"}}`)
	if one.book == nil || one.book != two.book || dear.book == one.book || fixed.book != nil {
		t.Errorf("%p %p %p %p", one.book, two.book, dear.book, fixed.book)
	}
	for _, h := range []*Handler{one, two, dear, fixed} {
		if err := h.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	for _, price := range []string{"20ms", "1s"} {
		if n, _ := bookPool.References(price); n != 0 {
			t.Errorf("%d references to what was learned for %s", n, price)
		}
	}
}

// Instances that share a storage do not forget what others have learned.
func TestWhatOthersHaveLearnedStays(t *testing.T) {
	folder := t.TempDir()
	one, _ := storedBook(folder)
	other, _ := storedBook(folder)
	theirs := learned
	theirs.Skill = "acme/other"
	one.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	other.Learner(theirs).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	for _, b := range []*book{one, other} {
		if err := b.Destruct(); err != nil {
			t.Fatal(err)
		}
	}
	again, logs := storedBook(folder)
	again.load()
	if n, m := again.Learner(learned).History().Len(), again.Learner(theirs).History().Len(); n != 1 || m != 1 || logs.Len() != 0 {
		t.Errorf("%d and %d executions are known, %v", n, m, logs.All())
	}
}
