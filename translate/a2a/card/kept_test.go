package card_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// TestChanges: a card, its ETag, version and time of change stay as they are until the skills change; the list is read at
// most each recheck, and concurrent requests share one reading.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{fresh: time.Now().Add(time.Hour)}
		b.set(entry("acme.a", nil))
		builder := newBuilder(t, b, card.Config{})
		get := func() *card.Card { return cardOf(t, builder, request(nil)) }
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { get() })
		}
		group.Wait()
		if b.lists != 1 {
			t.Errorf("ten requests took %d lists", b.lists)
		}
		first := get()
		if first.MaxAge != 5*time.Minute || first.Private {
			t.Errorf("max-age %s, private %t", first.MaxAge, first.Private)
		}
		time.Sleep(59 * time.Minute)
		b.set(entry("acme.a", nil)) // other documents with the same content
		second := get()
		if second.ETag != first.ETag || !second.LastModified.Equal(first.LastModified) || second.MaxAge != time.Minute || b.lists != 2 {
			t.Errorf("without a change: %+v, then %+v, with %d lists", first, second, b.lists)
		}
		if again := get(); again.ETag != first.ETag || b.lists != 2 {
			t.Errorf("at once: %d lists", b.lists)
		}
		b.set(entry("acme.a", func(d *document.Descriptor) { d.Version = "3.0.0" }))
		time.Sleep(time.Second)
		third := get()
		if third.ETag == first.ETag || !third.LastModified.After(first.LastModified) || string(third.JSON()) == string(first.JSON()) {
			t.Errorf("after a change: %+v", third)
		}
		if decode(t, third.JSON())["version"] == decode(t, first.JSON())["version"] {
			t.Error("the version is the same")
		}
		known := cardOf(t, builder, request(func(r *card.Request) { r.Caller.Principal = "alice" }))
		if known.ETag != third.ETag || !known.Private {
			t.Errorf("of a known caller: %+v", known)
		}
	})
}

// TestTrouble: while the skills can't be read, requests get the card as it was; a request does not wait long for a new one.
func TestTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bridge{fresh: time.Now().Add(time.Hour)}
		b.set(entry("acme.a", nil))
		full := []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.RateLimited, By: run.Bridge, Limit: &run.Limit{Name: "runs", OfBridge: true}}}}
		builder := newBuilder(t, b, card.Config{})
		b.unavailable = full
		if _, err := builder.Card(t.Context(), request(nil)); !errors.Is(err, card.ErrUnavailable) {
			t.Errorf("without a card: %v", err)
		}
		b.unavailable = nil
		first := cardOf(t, builder, request(nil))
		time.Sleep(time.Second)
		b.unavailable = full
		if c := cardOf(t, builder, request(nil)); c.ETag != first.ETag || c.MaxAge != 0 {
			t.Errorf("at a limit of the bridge: %+v", c)
		}
		b.unavailable = []catalog.Unavailable{{Namespace: "other", Failure: &run.Failure{Kind: run.RateLimited, By: run.Bridge, Limit: &run.Limit{Name: "failed_reads"}}}}
		b.set(entry("acme.a", nil), entry("acme.b", nil))
		before := first.ETag
		time.Sleep(time.Second)
		if first = cardOf(t, builder, request(nil)); first.ETag == before {
			t.Errorf("at a limit of one source: %+v", first)
		}
		time.Sleep(time.Second)
		b.unavailable = nil
		wait := make(chan struct{})
		b.wait = wait
		start := time.Now()
		if c := cardOf(t, builder, request(nil)); c.ETag != first.ETag || time.Since(start) != time.Second {
			t.Errorf("of a slow provider: %+v after %s", c, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := builder.Card(ctx, request(func(r *card.Request) { r.Caller.Principal, r.Extended = "alice", true })); !errors.Is(err, card.ErrUnavailable) {
			t.Errorf("the first card of a slow provider: %v", err)
		}
		close(wait)
	})
}

// TestMemory: neither hosts nor names of skills that clients make up take memory for long.
func TestMemory(t *testing.T) {
	b := &bridge{}
	b.set(entry("acme.a", nil))
	builder := newBuilder(t, b, card.Config{})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range 20_000 {
		cardOf(t, builder, card.Request{Base: fmt.Sprintf("https://h%d.example/a2a", i)})
		if _, err := builder.Card(t.Context(), card.Request{Base: "https://h.example/a2a", Skill: fmt.Sprintf("acme.x%d", i)}); !errors.Is(err, card.ErrNotFound) {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+1<<20 {
		t.Errorf("20,000 hosts and names take %d KiB", (after-before)>>10)
	}
	runtime.KeepAlive(builder)
	var many []catalog.Entry
	for i := range 1000 {
		many = append(many, entry(fmt.Sprintf("acme.s%d", i), nil))
	}
	b.set(many...)
	before = heap()
	for _, e := range many {
		cardOf(t, builder, card.Request{Base: "https://h.example/a2a", Skill: e.Name})
	}
	if after := heap(); after > before+3<<20 {
		t.Errorf("cards of 1000 skills take %d KiB", (after-before)>>10)
	}
	runtime.KeepAlive(builder)
}
