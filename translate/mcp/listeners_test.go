package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// Each source has its own time, so that a listener to one whose list is fresh for long does not delay others, and each is read for all
// listeners together. One who has no sources has none read.
func TestListenersOfDifferentSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listeners
		reads := map[string]int{}
		fresh := map[string]time.Duration{"slow": 10 * time.Minute, "quick": 2 * time.Second}
		until := map[string]time.Time{}
		next := func(sources ...string) time.Duration {
			return time.Until(l.refresh(t.Context(), sources, func(_ context.Context, due []string) map[string]time.Time {
				for _, source := range due {
					reads[source]++
					if !time.Now().Before(until[source]) { // else it comes from the cache
						until[source] = time.Now().Add(fresh[source])
					}
				}
				return until
			}))
		}
		check := func(about string, got, want time.Duration, slow, quick int) {
			t.Helper()
			if got != want || reads["slow"] != slow || reads["quick"] != quick {
				t.Errorf("%s: again in %v, want %v; read: %v", about, got, want, reads)
			}
		}
		check("no sources", next(), longest, 0, 0)
		check("bob", next("slow"), 10*time.Minute, 1, 0)
		check("alice", next("quick"), 10*time.Second, 1, 1)
		check("both", next("quick", "slow"), 10*time.Second, 1, 1)
		time.Sleep(10 * time.Second)
		check("alice, once stale", next("quick"), 10*time.Second, 1, 2)
		check("both, once read", next("slow", "quick"), 10*time.Second, 1, 2)
		check("bob, while fresh", next("slow"), 10*time.Minute-10*time.Second, 1, 2)
		time.Sleep(10 * time.Minute)
		check("both, once stale", next("slow", "quick"), 10*time.Second, 2, 3)
	})
}

// A panic of a reading is that of its listener, who recovers. The others go on.
func TestListenersAfterPanic(t *testing.T) {
	t.Parallel()
	var l listeners
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		l.refresh(t.Context(), []string{"a"}, func(context.Context, []string) map[string]time.Time { panic("a bug") })
	}()
	if next := l.refresh(t.Context(), []string{"a"}, nil); time.Until(next) > refreshing {
		t.Errorf("again in %v", time.Until(next))
	}
}

// An id whose key is not known waits until the keys of other instances may be read again. A subscription waits for that once, however many
// ids its client names, and opens a bounded number of them.
func TestOwnTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var named []string
		for i := range 20_000 {
			named = append(named, fmt.Sprintf("forged %d", i))
		}
		for i := range 20 {
			named[i*2], named[i*2+1] = fmt.Sprint(i), fmt.Sprint(i) // twice
		}
		var opened atomic.Int64
		began := time.Now()
		own := ownTasks(named, func(id string) (run.Ref, error) {
			opened.Add(1)
			time.Sleep(time.Second)
			if len(id) > 2 {
				return run.Ref{}, runtoken.ErrInvalid
			}
			return run.Ref{ExecutionID: id}, nil
		})
		if waited := time.Since(began); waited != time.Second || opened.Load() > 100 {
			t.Errorf("it waits %s for %d ids", waited, opened.Load())
		}
		if len(own) != mostTasks || slices.ContainsFunc(own, func(o subscribedTask) bool { return o.id != o.ref.ExecutionID }) || own[0].id != "0" || own[15].id != "15" {
			t.Errorf("%v", own)
		}
	})
}

// A panic is one of the goroutine that answers.
func TestOwnTasksPanic(t *testing.T) {
	bug := panics.Recovered(func() { ownTasks([]string{"a"}, func(string) (run.Ref, error) { panic("open") }) })
	if p, ok := errors.AsType[*panics.Panic](bug); !ok || p.Value != "open" {
		t.Errorf("%v", bug)
	}
}
