package cache_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// TestStatistics: each result is counted once.
func TestStatistics(t *testing.T) {
	play(t, config, func(s scene) {
		want := cache.Statistics{}
		step := func(what string, change func(), pause time.Duration) {
			t.Helper()
			time.Sleep(pause)
			_, _ = s.get()
			synctest.Wait()
			change()
			got := s.cache.Statistics()
			if got.Bytes <= 0 && want.Fetched > 0 {
				t.Errorf("%s: %d bytes", what, got.Bytes)
			}
			got.Bytes, got.Evicted = 0, 0 // ristretto's
			if got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		s.fails(errors.New("down"))
		step("down", func() { want.Failed++ }, 0)
		step("still", func() { want.Remembered++ }, time.Second)
		s.says(http.StatusOK, http.Header{"Etag": {`"1"`}}, "one")
		step("up", func() { want.Fetched++ }, time.Minute)
		step("fresh", func() { want.Hits++ }, time.Second)
		if s.cache.Fresh(docURL, "", time.Now()) == nil {
			t.Error("not fresh")
		}
		want.Hits++
		s.says(http.StatusNotModified, nil, "")
		step("confirmed", func() { want.Revalidated++ }, time.Hour)
		s.fails(errors.New("down"))
		step("stale", func() { want.Stale++ }, time.Hour)
		step("stale, not asked again", func() { want.Stale++ }, time.Second)
	})
}

// TestDeletionsAreNoEvictions: a document that Delete removes does not count as evicted.
func TestDeletionsAreNoEvictions(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(http.StatusOK, nil, "one")
		if _, err := s.get(); err != nil {
			t.Fatal(err)
		}
		s.cache.Delete(docURL, "")
		if got := s.cache.Statistics(); got.Evicted != 0 || got.Bytes != 0 {
			t.Errorf("after its only document was deleted: %+v", got)
		}
	})
}
