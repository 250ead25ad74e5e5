package cache_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func TestCollisions(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.cache.Collide()
		s.does(func(http.Header) (*cache.Response, error) {
			return &cache.Response{StatusCode: 200, Body: fmt.Append(nil, s.fetches)}, nil
		})
		other := s.request()
		other.Partition = "other"
		s.wants(cache.Fetched, "1", 1)
		s.wants(cache.Hit, "1", 1)
		doc, err := s.cache.Get(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		s.is(doc, cache.Fetched, "2")
		s.wants(cache.Fetched, "3", 3)
	})
}

func TestCostIsBounded(t *testing.T) {
	small := config
	small.MaxSize = 10 * (cache.EntryOverhead + 1000)
	play(t, small, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`), strings.Repeat("x", 900))
		request := s.request()
		get := func(n int) {
			request.Partition = fmt.Sprint(n)
			if _, err := s.cache.Get(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if s.cache.Remaining() < 0 {
				t.Fatalf("%d bytes too many are kept", -s.cache.Remaining())
			}
		}
		for n := range 100 {
			get(n)
		}
		if s.cache.Remaining() == small.MaxSize {
			t.Fatal("nothing is kept")
		}
		fetched, _ := s.counts()
		for n := range 100 {
			get(n)
		}
		if again, _ := s.counts(); again-fetched < 90 {
			t.Fatalf("%d of 100 documents were kept, but there is room for 10", 100-(again-fetched))
		}
	})
}

func TestFailuresCost(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(404, header("X-Long", strings.Repeat("x", 1000)), strings.Repeat("x", 5000))
		s.wantsStatus(404, false, 1)
		if used := config.MaxSize - s.cache.Remaining(); used < 6000 || used > 8000 {
			t.Fatalf("a failure of 6000 bytes costs %d", used)
		}
	})
}

func TestTooLargeIsNotKept(t *testing.T) {
	for name, cost := range map[string]int64{
		"by far":   1 << 62,
		"at all":   1<<63 - 1,
		"by a bit": config.MaxSize - cache.EntryOverhead,
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				request := s.request()
				cheap := request.Parse
				get := func(state cache.State, body string, fetches int) {
					t.Helper()
					doc, err := s.cache.Get(t.Context(), request)
					if err != nil {
						t.Fatal(err)
					}
					s.is(doc, state, body)
					s.asked(fetches)
				}
				dear := func(r *cache.Response) (any, int64, error) {
					value, _, err := cheap(r)
					return value, cost, err
				}
				request.Parse = dear
				get(cache.Fetched, "one", 1)
				get(cache.Fetched, "one", 2)
				// Nor does it replace a smaller one, which must not survive it.
				request.Parse = cheap
				get(cache.Fetched, "one", 3)
				get(cache.Hit, "one", 3)
				time.Sleep(config.TTL)
				request.Parse = dear
				s.says(200, header(), "two")
				get(cache.Fetched, "two", 4)
				get(cache.Fetched, "two", 5)
			})
		})
	}
}

func TestNegativeCostCountsAsNone(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		request := s.request()
		request.Parse = func(*cache.Response) (any, int64, error) { return 1, -1 << 62, nil }
		if _, err := s.cache.Get(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if used := config.MaxSize - s.cache.Remaining(); used < cache.EntryOverhead {
			t.Fatalf("the document costs %d", used)
		}
	})
}
