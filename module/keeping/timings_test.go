package keeping

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// newDB returns a database, which is open.
func newDB(t *testing.T) *store.DB {
	t.Helper()
	db := store.New(store.Settings{Kind: store.SQLite, File: filepath.Join(t.TempDir(), "skill_bridge.db")})
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// storedTimes returns execution times that are stored in a database, and what they log.
func storedTimes(db *store.DB) (*Timings, *zaptest.ObservedLogs) {
	core, logs := zaptest.New(zap.WarnLevel)
	db.Start(zap.New(core)) // as of a new configuration
	return &Timings{Store: polling.NewStore(polling.Config{}), db: db}, logs
}

var learned = polling.Key{Provider: "https://acme.example", Skill: "acme/forecast", Version: "1.0.0"}

func TestWhatIsLearnedSurvives(t *testing.T) {
	db := newDB(t)
	things := db.Things()
	b, logs := storedTimes(db)
	b.load() // nothing is there, which is no fault
	_ = b.Destruct()
	if thing, err := things.Get(t.Context(), timingsKind, timingsName); thing.Version != 0 || err != nil || logs.Len() != 0 {
		t.Fatalf("nothing was learned, and it was stored: %v, %v", thing, logs.All())
	}
	for range 5 {
		b.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	}
	if _ = b.Destruct(); logs.Len() != 0 {
		t.Fatal(logs.All())
	}
	again, logs := storedTimes(db)
	again.load()
	if !bytes.Equal(again.Save(), b.Save()) || logs.Len() != 0 {
		t.Errorf("%q was saved, and %q was loaded (%v)", b.Save(), again.Save(), logs.All())
	}

	thing, err := things.Get(t.Context(), timingsKind, timingsName)
	if err != nil {
		t.Fatal(err)
	}
	thing.Value = []byte("damaged")
	if ok, err := things.Put(t.Context(), thing, 0); !ok || err != nil {
		t.Fatal(ok, err)
	}
	damaged, logs := storedTimes(db)
	damaged.load()
	if nothing := polling.NewStore(polling.Config{}).Save(); !bytes.Equal(damaged.Save(), nothing) || logs.Len() != 1 {
		t.Errorf("%q was loaded of a damaged value, %v", damaged.Save(), logs.All())
	}
}

// Instances that share a database do not forget what others have learned.
func TestWhatOthersHaveLearnedStays(t *testing.T) {
	db := newDB(t)
	one, _ := storedTimes(db)
	other, _ := storedTimes(db)
	theirs := learned
	theirs.Skill = "acme/other"
	one.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	other.Learner(theirs).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	_ = one.Destruct()
	_ = other.Destruct()
	again, logs := storedTimes(db)
	again.load()
	for _, skill := range []string{learned.Skill, theirs.Skill} {
		if !bytes.Contains(again.Save(), []byte(skill)) || logs.Len() != 0 {
			t.Errorf("%s is not known, %v", skill, logs.All())
		}
	}
}

// TestTimingsAreShared by those who hold them. The last one stores them.
func TestTimingsAreShared(t *testing.T) {
	db := newDB(t)
	var held []*Timings
	var uses []*lifetime.Usage
	for range 2 {
		use := lifetime.NewUsage()
		timings, err := HoldTimings(db, use)
		if err != nil {
			t.Fatal(err)
		}
		held, uses = append(held, timings), append(uses, use)
	}
	if held[0].Store != held[1].Store {
		t.Errorf("%p %p", held[0].Store, held[1].Store)
	}
	held[0].Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	for i, use := range uses {
		use.Leave()
		thing, err := db.Things().Get(t.Context(), timingsKind, timingsName)
		if stored := thing.Version != 0; stored != (i > 0) || err != nil {
			t.Errorf("after the end of %d, it is stored: %t, %v", i+1, stored, err)
		}
	}
	if n := timingsPool.References(db); n != 0 {
		t.Errorf("%d references are left", n)
	}
}

// A panic in the background does not end the process.
func TestTimingsPanic(t *testing.T) {
	db := newDB(t)
	b, logs := storedTimes(db)
	b.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	if _ = b.Destruct(); logs.Len() != 0 {
		t.Fatal(logs.All())
	}
	b.Store = nil // a bug
	for b.Use(); logs.Len() == 0; {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if text := logs.All()[0].Message; !strings.Contains(text, "panic in the use of the database") {
		t.Error(text)
	}
}
