package cache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

var errNetwork = errors.New("connection refused")

func TestStaleIfError(t *testing.T) {
	status := func(code int) func(*origin) { return func(o *origin) { o.says(code, header(), "") } }
	elsewhere := func(code int, url string, via ...string) func(*origin) {
		return func(o *origin) {
			o.does(func(http.Header) (*cache.Response, error) {
				return &cache.Response{StatusCode: code, URL: url, Via: via}, nil
			})
		}
	}
	network := func(o *origin) { o.fails(errNetwork) }
	const fresh = 60 * time.Second
	for name, test := range map[string]struct {
		control string
		trouble func(*origin)
		wait    time.Duration // after the end of freshness
		stale   bool
	}{
		"network":                  {"max-age=60", network, 0, true},
		"network, at the end":      {"max-age=60", network, time.Hour - 1, true},
		"network, after the end":   {"max-age=60", network, time.Hour, false},
		"timeout":                  {"max-age=60", func(o *origin) { o.delay = time.Minute }, 0, true},
		"panic in Fetch":           {"max-age=60", func(o *origin) { o.does(func(http.Header) (*cache.Response, error) { panic("bug") }) }, 0, true},
		"not permanent":            {"max-age=60", func(o *origin) { o.fails(fmt.Errorf("dial: %w", refusal{false})) }, 0, true},
		"permanent":                {"max-age=60", func(o *origin) { o.fails(fmt.Errorf("dial: %w", refusal{true})) }, 0, false},
		"no answer":                {"max-age=60", func(o *origin) { o.fails(nil) }, 0, true},
		"500":                      {"max-age=60", status(500), 0, true},
		"503":                      {"max-age=60", status(503), 0, true},
		"599":                      {"max-age=60", status(599), 0, true},
		"429":                      {"max-age=60", status(429), 0, true},
		"206":                      {"max-age=60", status(206), 0, true},
		"300":                      {"max-age=60", status(300), 0, true},
		"304, unasked":             {"max-age=60", status(304), 0, true},
		"405":                      {"max-age=60", status(405), 0, true},
		"421":                      {"max-age=60", status(421), 0, true},
		"451":                      {"max-age=60", status(451), 0, true},
		"999":                      {"max-age=60", status(999), 0, true},
		"400, after the end":       {"max-age=60", status(400), time.Hour, false},
		"204":                      {"max-age=60", status(204), 0, true},
		"302":                      {"max-age=60", status(302), 0, true},
		"400":                      {"max-age=60", status(400), 0, true},
		"401":                      {"max-age=60", status(401), 0, false},
		"403":                      {"max-age=60", status(403), 0, false},
		"404":                      {"max-age=60", status(404), 0, false},
		"408":                      {"max-age=60", status(408), 0, true},
		"410":                      {"max-age=60", status(410), 0, false},
		"404 elsewhere":            {"max-age=60", elsewhere(404, docURL+"/moved"), 0, true},
		"401 elsewhere":            {"max-age=60", elsewhere(401, docURL+"?login"), 0, true},
		"410, redirected back":     {"max-age=60", elsewhere(410, docURL, docURL+"?moved"), 0, true},
		"404 elsewhere, after":     {"max-age=60", elsewhere(404, docURL+"/moved"), time.Hour, false},
		"403, another fragment":    {"max-age=60", elsewhere(403, docURL+"#file"), 0, false},
		"invalid":                  {"max-age=60", func(o *origin) { o.says(200, header(), "invalid") }, 0, true},
		"panic in Parse":           {"max-age=60", func(o *origin) { o.says(200, header(), "panic") }, 0, true},
		"invalid, after the end":   {"max-age=60", func(o *origin) { o.says(200, header(), "invalid") }, time.Hour, false},
		"invalid, and final":       {"max-age=60", func(o *origin) { o.says(200, header(), "refused") }, 0, false},
		"must-revalidate":          {"max-age=60, must-revalidate", network, 0, false},
		"proxy-revalidate":         {"max-age=60, Proxy-Revalidate", network, 0, false},
		"s-maxage":                 {"s-maxage=60", network, 0, false},
		"lowered":                  {"max-age=60, stale-if-error=10", network, 10*time.Second - 1, true},
		"lowered, after the end":   {"max-age=60, stale-if-error=10", network, 10 * time.Second, false},
		"forbidden":                {"max-age=60, stale-if-error=0", network, 0, false},
		"raised in vain":           {"max-age=60, stale-if-error=7200", network, time.Hour, false},
		"stated badly":             {"max-age=60, stale-if-error=x", network, 0, false},
		"both, the stricter first": {"max-age=60, must-revalidate, stale-if-error=10", network, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.says(200, header("Cache-Control", test.control), "one")
				s.wants(cache.Fetched, "one", 1)
				time.Sleep(fresh + test.wait)
				test.trouble(s.origin)
				if !test.stale {
					s.wantsError(2)
					return
				}
				doc := s.wants(cache.Stale, "one", 2)
				if doc.ExpiresAt.After(time.Now()) {
					t.Fatal("a stale document claims to be fresh")
				}
			})
		})
	}
}

// TestStaleAgesFromTheEndOfFreshness: the window does not begin with the
// arrival of a document that was stale before it came.
func TestStaleAgesFromTheEndOfFreshness(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("Cache-Control", "max-age=60", "Age", "3660"), "one")
		s.wants(cache.Fetched, "one", 1)
		s.fails(errNetwork)
		s.wantsError(2)
	})
}

// TestStaleAfterPastExpires: an Expires in the past states no time at which the
// document was still fresh, so the window begins with its arrival.
func TestStaleAfterPastExpires(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("Expires", at(-100*time.Hour)), "one")
		s.wants(cache.Fetched, "one", 1)
		s.fails(errNetwork)
		s.wants(cache.Stale, "one", 2)
	})
}

func TestStaleSaysWhy(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL)
		s.fails(errNetwork)
		if doc := s.wants(cache.Stale, "one", 2); !errors.Is(doc.Err, errNetwork) {
			t.Fatalf("Err is %v", doc.Err)
		}
		time.Sleep(config.NegativeTTL)
		s.says(503, header("Retry-After", "1"), "busy")
		doc := s.wants(cache.Stale, "one", 3)
		status, ok := errors.AsType[*cache.StatusError](doc.Err)
		if !ok || status.StatusCode != http.StatusServiceUnavailable || string(status.Body) != "busy" || status.Header.Get("Retry-After") != "1" || status.URL != docURL {
			t.Fatalf("Err is %#v", doc.Err)
		}
		time.Sleep(config.NegativeTTL)
		s.fails(nil)
		s.wants(cache.Stale, "one", 4)
		time.Sleep(config.NegativeTTL)
		s.delay = time.Minute
		if doc := s.wants(cache.Stale, "one", 5); !errors.Is(doc.Err, context.DeadlineExceeded) {
			t.Fatalf("Err is %v, want the timeout", doc.Err)
		}
	})
}

// TestStaleSparesTheOrigin checks that the origin is asked once per NegativeTTL
// while it is in trouble, and that it is asked again afterwards.
func TestStaleSparesTheOrigin(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL)
		s.fails(errNetwork)
		for n := range 3 {
			s.wants(cache.Stale, "one", n+2)
			time.Sleep(config.NegativeTTL - 1)
			if doc := s.wants(cache.Stale, "one", n+2); !errors.Is(doc.Err, errNetwork) {
				t.Fatalf("Err is %v", doc.Err)
			}
			time.Sleep(time.Nanosecond)
		}
		s.says(304, header(), "")
		s.wants(cache.Revalidated, "one", 5)
		s.wants(cache.Hit, "one", 5)
		s.parsedTimes(1)
	})
}

// TestStaleWhileInvalid checks that a document is neither replaced by invalid ones nor asked for, or parsed, more often because of them, and
// that it is still the one that is renewed.
func TestStaleWhileInvalid(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL)
		for n := range 3 {
			s.says(200, header("ETag", `"broken"`), "invalid")
			for range 10 {
				if doc := s.wants(cache.Stale, "one", n+2); !errors.Is(doc.Err, errInvalid) {
					t.Fatalf("Err is %v", doc.Err)
				}
			}
			s.parsedTimes(n + 2)
			time.Sleep(config.NegativeTTL)
		}
		s.says(304, header(), "")
		s.wants(cache.Revalidated, "one", 5)
		if s.sent.Get("If-None-Match") != `"1"` {
			t.Fatalf("the condition was %v", s.sent)
		}
		time.Sleep(config.TTL)
		s.says(200, header(), "invalid")
		s.wants(cache.Stale, "one", 6)
		time.Sleep(config.NegativeTTL)
		s.says(200, header(), "two")
		s.wants(cache.Fetched, "two", 7)
	})
}

// TestStaleAtAnyStatus checks that a document is neither replaced by an answer that says nothing about it, nor asked for more often because of it,
// and that it is still the one that is renewed.
func TestStaleAtAnyStatus(t *testing.T) {
	for code := 201; code < 600; code++ {
		if code == 304 || code == 401 || code == 403 || code == 404 || code == 410 {
			continue
		}
		play(t, config, func(s scene) {
			t := s.T
			s.says(200, header("ETag", `"1"`), "one")
			s.wants(cache.Fetched, "one", 1)
			time.Sleep(config.TTL)
			s.says(code, header(), "")
			for range 3 {
				status, ok := errors.AsType[*cache.StatusError](s.wants(cache.Stale, "one", 2).Err)
				if !ok || status.StatusCode != code {
					t.Fatalf("%d: Err is %v", code, status)
				}
			}
			time.Sleep(config.NegativeTTL)
			s.says(304, header(), "")
			s.wants(cache.Revalidated, "one", 3)
			s.parsedTimes(1)
		})
	}
}

// TestStaleEndsDuringTheFailure: that the origin is not asked for a while does
// not prolong the window.
func TestStaleEndsDuringTheFailure(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL + config.StaleIfError - time.Second)
		s.fails(errNetwork)
		s.wants(cache.Stale, "one", 2)
		time.Sleep(time.Second)
		if err := s.wantsError(2); !errors.Is(err, errNetwork) {
			t.Fatalf("got %v", err)
		}
	})
}

func TestStaleWithoutNegativeTTL(t *testing.T) {
	never := config
	never.NegativeTTL = 0
	play(t, never, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL)
		s.fails(errNetwork)
		s.wants(cache.Stale, "one", 2)
		s.wants(cache.Stale, "one", 3)
	})
}

func TestStaleNever(t *testing.T) {
	never := config
	never.StaleIfError = 0
	play(t, never, func(s scene) {
		s.says(200, header("Cache-Control", "stale-if-error=600, max-age=60"), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(time.Minute)
		s.fails(errNetwork)
		s.wantsError(2)
	})
}

// TestRefusalDropsTheDocument checks that what a refusal dropped stays away
// when the origin gets into trouble afterwards.
func TestRefusalDropsTheDocument(t *testing.T) {
	never := config
	never.NegativeTTL = 0
	for _, config := range []cache.Config{config, never} {
		for name, refuse := range map[string]func(*origin){
			"401":     func(o *origin) { o.says(401, header(), "") },
			"404":     func(o *origin) { o.says(404, header(), "") },
			"invalid": func(o *origin) { o.says(200, header(), "refused") },
			"refusal": func(o *origin) { o.fails(fmt.Errorf("dial: %w", refusal{true})) },
		} {
			t.Run(fmt.Sprint(name, " ", config.NegativeTTL), func(t *testing.T) {
				play(t, config, func(s scene) {
					t := s.T
					s.says(200, header("ETag", `"1"`), "one")
					s.wants(cache.Fetched, "one", 1)
					time.Sleep(config.TTL)
					refuse(s.origin)
					s.wantsError(2)
					time.Sleep(config.NegativeTTL)
					s.fails(errNetwork)
					s.wantsError(3)
					if s.sent.Get("If-None-Match") != "" {
						t.Fatal("the document was still there")
					}
				})
			})
		}
	}
}
