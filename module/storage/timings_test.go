package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
	zaptest "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
)

// storedTimes returns execution times that are stored in a folder, and what they log.
func storedTimes(folder string) (*executionTimes, *zaptest.ObservedLogs) {
	core, logs := zaptest.New(zap.WarnLevel)
	var storage certmagic.Storage = &certmagic.FileStorage{Path: folder}
	b := &executionTimes{Store: polling.NewStore(polling.Config{}), key: "skill_bridge/execution_times_20ms", logger: zap.New(core)}
	b.storage.Store(&storage)
	return b, logs
}

var learned = polling.Key{Provider: "https://acme.example", Skill: "acme/forecast", Version: "1.0.0"}

func TestWhatIsLearnedSurvives(t *testing.T) {
	folder := t.TempDir()
	b, logs := storedTimes(folder)
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
	again, logs := storedTimes(folder)
	again.load()
	if !bytes.Equal(again.Save(), b.Save()) || logs.Len() != 0 {
		t.Errorf("%q was saved, and %q was loaded (%v)", b.Save(), again.Save(), logs.All())
	}

	file := filepath.Join(folder, "skill_bridge", "execution_times_20ms")
	if err := os.WriteFile(file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	damaged, logs := storedTimes(folder)
	damaged.load()
	if nothing := polling.NewStore(polling.Config{}).Save(); !bytes.Equal(damaged.Save(), nothing) || logs.Len() != 1 {
		t.Errorf("%q was loaded of a damaged file, %v", damaged.Save(), logs.All())
	}
}

// Instances that share a storage do not forget what others have learned.
func TestWhatOthersHaveLearnedStays(t *testing.T) {
	folder := t.TempDir()
	one, _ := storedTimes(folder)
	other, _ := storedTimes(folder)
	theirs := learned
	theirs.Skill = "acme/other"
	one.Learner(learned).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	other.Learner(theirs).Done(polling.Completion{Execution: 2 * time.Second, Ended: 3 * time.Second, Polls: 2})
	for _, b := range []*executionTimes{one, other} {
		if err := b.Destruct(); err != nil {
			t.Fatal(err)
		}
	}
	again, logs := storedTimes(folder)
	again.load()
	for _, skill := range []string{learned.Skill, theirs.Skill} {
		if !bytes.Contains(again.Save(), []byte(skill)) || logs.Len() != 0 {
			t.Errorf("%s is not known, %v", skill, logs.All())
		}
	}
}

// TestTimingsAreShared by those who hold them with the same price of a poll.
func TestTimingsAreShared(t *testing.T) {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	const price = 3 * time.Millisecond // of no other test
	var held []*Timings
	var uses []*lifetime.Usage
	for _, p := range []time.Duration{price, price, price + 1} {
		use := lifetime.NewUsage()
		timings, err := HoldTimings(ctx, p, use)
		if err != nil {
			t.Fatal(err)
		}
		held, uses = append(held, timings), append(uses, use)
	}
	if held[0].Store != held[1].Store || held[0].Store == held[2].Store {
		t.Errorf("%p %p %p", held[0].Store, held[1].Store, held[2].Store)
	}
	for _, use := range uses {
		use.Leave()
	}
	if n := executionTimesPool.References(price); n != 0 {
		t.Errorf("%d references are left", n)
	}
}
