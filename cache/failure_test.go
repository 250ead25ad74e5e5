package cache_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// refusal is an error that says whether it is one.
type refusal struct{ permanent bool }

func (refusal) Error() string     { return "refused by ourselves" }
func (r refusal) Permanent() bool { return r.permanent }

func TestFailureIsRememberedForNegativeTTL(t *testing.T) {
	for name, test := range map[string]struct {
		fail  func(*origin)
		found func(error) bool
	}{
		"status": {
			func(o *origin) { o.says(404, header("X-A", "b"), "gone") },
			func(err error) bool {
				e, ok := errors.AsType[*cache.StatusError](err)
				return ok && e.StatusCode == http.StatusNotFound && e.Header.Get("X-A") == "b" && string(e.Body) == "gone" && e.URL == docURL
			},
		},
		"trouble": {
			func(o *origin) { o.says(503, header(), "") },
			func(err error) bool {
				e, ok := errors.AsType[*cache.StatusError](err)
				return ok && e.StatusCode == http.StatusServiceUnavailable
			},
		},
		"no-store": {
			func(o *origin) { o.says(404, header("Cache-Control", "no-store"), "") },
			func(err error) bool {
				e, ok := errors.AsType[*cache.StatusError](err)
				return ok && e.StatusCode == http.StatusNotFound
			},
		},
		"Fetch": {func(o *origin) { o.fails(errNetwork) }, func(err error) bool { return errors.Is(err, errNetwork) }},
		"Parse": {func(o *origin) { o.says(200, header(), "invalid") }, func(err error) bool { return errors.Is(err, errInvalid) }},
		"304 that nobody asked for": {
			func(o *origin) { o.says(304, header("X-A", "b"), "") },
			func(err error) bool {
				e, ok := errors.AsType[*cache.StatusError](err)
				return ok && e.StatusCode == http.StatusNotModified && e.Header.Get("X-A") == "b" && e.URL == docURL && strings.Contains(e.Error(), "no condition")
			},
		},
		"refusal": {
			func(o *origin) { o.fails(refusal{true}) },
			func(err error) bool { e, ok := errors.AsType[refusal](err); return ok && e.permanent },
		},
		"panic": {
			func(o *origin) { o.does(func(http.Header) (*cache.Response, error) { panic("bug") }) },
			func(err error) bool {
				return strings.Contains(err.Error(), "panic: bug")
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				test.fail(s.origin)
				var retryAt time.Time
				check := func(fetches int, remembered bool) {
					t.Helper()
					err := s.wantsError(fetches)
					if !test.found(err) {
						t.Fatalf("got %#v", err)
					}
					failed, ok := errors.AsType[*cache.FailureError](err)
					if !ok || failed.Repeated != remembered {
						t.Fatalf("got %#v, want one that is remembered: %v", err, remembered)
					}
					if !remembered {
						retryAt = time.Now().Add(config.NegativeTTL)
					}
					if !failed.RetryAt.Equal(retryAt) || strings.Contains(err.Error(), "remembered") != remembered {
						t.Fatalf("%v: asked again at %v, want %v", err, failed.RetryAt, retryAt)
					}
				}
				check(1, false)
				check(1, true)
				time.Sleep(config.NegativeTTL - 1)
				check(1, true)
				time.Sleep(time.Nanosecond)
				check(2, false)
				time.Sleep(config.NegativeTTL)
				s.says(200, header(), "one")
				s.wants(cache.Fetched, "one", 3)
				s.wants(cache.Hit, "one", 3)
			})
		})
	}
}

func TestFailureIsNotRememberedWithoutNegativeTTL(t *testing.T) {
	never := config
	never.NegativeTTL = 0
	play(t, never, func(s scene) {
		s.says(404, header(), "")
		s.wantsStatus(404, false, 1)
		s.wantsStatus(404, false, 2)
		s.says(200, header(), "one")
		s.wants(cache.Fetched, "one", 3)
	})
}

// TestCancellationIsNotRemembered: a Fetch that ends with a context of its own
// has learned nothing about the document.
func TestCancellationIsNotRemembered(t *testing.T) {
	play(t, config, func(s scene) {
		s.fails(context.Canceled)
		s.wantsError(1)
		s.wantsError(2)
		s.says(200, header(), "one")
		s.wants(cache.Fetched, "one", 3)
		time.Sleep(config.TTL)
		s.fails(context.Canceled)
		s.wants(cache.Stale, "one", 4)
		s.wants(cache.Stale, "one", 5)
	})
}

func TestErrorsHidePasswords(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		for _, fail := range []func(){
			func() { s.says(404, nil, "") },
			func() { s.says(304, nil, "") },
			func() { s.says(200, nil, "invalid") },
			func() { s.fails(errNetwork) },
		} {
			fail()
			request := s.request()
			request.URL = "https://user:secret@provider.example/index.json"
			_, err := s.cache.Get(t.Context(), request)
			if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "provider.example/index.json") {
				t.Fatalf("got %v", err)
			}
			s.cache.Delete(request.URL, "")
		}
		request := s.request()
		request.URL = "https://secret\x00"
		if _, err := s.cache.Get(t.Context(), request); err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatalf("got %v", err)
		}
	})
}

func TestDelete(t *testing.T) {
	play(t, config, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		s.cache.Delete(docURL, "another partition")
		s.cache.Delete(docURL+"?", "")
		s.wants(cache.Hit, "one", 1)
		s.cache.Delete(docURL, "")
		s.wants(cache.Fetched, "one", 2)
		s.parsedTimes(2)

		s.cache.Delete(docURL, "")
		s.says(404, header(), "")
		s.wantsStatus(404, false, 3)
		s.wantsStatus(404, true, 3)
		s.cache.Delete(docURL, "")
		s.wantsStatus(404, false, 4)
	})
}

func TestPartitionsNeverMeet(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		// The second pair would be the first if the two were just joined.
		for n, k := range [][2]string{{"https://a.example/", "b"}, {"https://a.example/b", ""}, {"https://a.example/", ""}} {
			request := s.request()
			request.URL, request.Partition = k[0], k[1]
			doc, err := s.cache.Get(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			s.is(doc, cache.Fetched, "one")
			s.asked(n + 1)
		}
	})
}
