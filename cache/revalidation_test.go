package cache_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

const modified = "Fri, 31 Dec 1999 12:00:00 GMT"

func TestConditions(t *testing.T) {
	for name, test := range map[string]struct {
		validators       http.Header
		noneMatch, since string
	}{
		"none":            {header(), "", ""},
		"etag":            {header("ETag", `W/"1"`), `W/"1"`, ""},
		"date":            {header("Last-Modified", modified), "", modified},
		"both":            {header("ETag", `"1"`, "Last-Modified", modified), `"1"`, modified},
		"date that is no": {header("Last-Modified", "recently"), "", ""},
		"private etag":    {header("ETag", `"1"`, "Cache-Control", `private="etag", max-age=300`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.says(200, test.validators, "one")
				for n := range 2 {
					if _, err := s.get(); err != nil {
						t.Fatal(err)
					}
					noneMatch, since := s.sent.Get("If-None-Match"), s.sent.Get("If-Modified-Since")
					if n == 0 && (noneMatch != "" || since != "") {
						t.Fatalf("the first request was conditional: %v", s.sent)
					}
					if n == 1 && (noneMatch != test.noneMatch || since != test.since) {
						t.Fatalf("sent %v, want %q and %q", s.sent, test.noneMatch, test.since)
					}
					time.Sleep(5 * time.Minute)
				}
				s.asked(2)
			})
		})
	}
}

func TestNotModifiedKeepsTheValue(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`, "Cache-Control", "max-age=60"), "one")
		fetched := s.wants(cache.Fetched, "one", 1)
		s.says(304, header("ETag", `"1"`), "")
		for n := range 3 {
			time.Sleep(time.Minute)
			doc := s.wants(cache.Revalidated, "one", n+2)
			if doc.Value != fetched.Value || !doc.FetchedAt.Equal(fetched.FetchedAt) {
				t.Fatalf("got %+v, want value and FetchedAt of %+v", doc, fetched)
			}
			if want := time.Now().Add(time.Minute); !doc.ExpiresAt.Equal(want) {
				t.Fatalf("expires at %v, want %v", doc.ExpiresAt, want)
			}
			time.Sleep(time.Minute - 1)
			s.wants(cache.Hit, "one", n+2)
			time.Sleep(time.Nanosecond)
		}
		s.parsedTimes(1)
	})
}

func TestNotModifiedUpdatesTheHeader(t *testing.T) {
	for name, test := range map[string]struct {
		before, with func() http.Header
		want         time.Duration
	}{
		"nothing":           {fixed("Cache-Control", "max-age=60"), fixed(), time.Minute},
		"no header at all":  {fixed("Cache-Control", "max-age=60"), func() http.Header { return nil }, time.Minute},
		"other max-age":     {fixed("Cache-Control", "max-age=60"), fixed("Cache-Control", "max-age=120"), 2 * time.Minute},
		"first max-age":     {func() http.Header { return header("Expires", at(time.Minute)) }, fixed("Cache-Control", "max-age=120"), 2 * time.Minute},
		"other expires":     {func() http.Header { return header("Expires", at(time.Minute)) }, func() http.Header { return header("Expires", at(3*time.Minute)) }, 3 * time.Minute},
		"old age forgotten": {fixed("Cache-Control", "max-age=60", "Age", "30"), fixed(), time.Minute},
		"own age":           {fixed("Cache-Control", "max-age=60"), fixed("Age", "20"), 40 * time.Second},
		"old date forgotten": {func() http.Header {
			return header("Cache-Control", "max-age=60", "Date", at(0))
		}, fixed(), time.Minute},
		"now no-cache": {fixed("Cache-Control", "max-age=60"), fixed("Cache-Control", "max-age=60, no-cache"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				first := test.before()
				first.Set("ETag", `"1"`)
				s.says(200, first, "one")
				s.wants(cache.Fetched, "one", 1)
				time.Sleep(10 * time.Minute)
				s.says(304, test.with(), "")
				doc := s.wants(cache.Revalidated, "one", 2)
				if got := time.Until(doc.ExpiresAt); got != test.want {
					t.Fatalf("fresh for %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestNotModifiedMayForbidKeeping(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(10 * time.Minute)
		s.says(304, header("Cache-Control", "no-store"), "")
		s.wants(cache.Revalidated, "one", 2)
		s.says(200, header(), "two")
		s.wants(cache.Fetched, "two", 3)
		if s.sent.Get("If-None-Match") != "" {
			t.Fatal("the document was still there")
		}
	})
}

// TestNotModifiedOfAnother checks that a 304 about a version we do not have is
// followed by an unconditional request.
func TestNotModifiedOfAnother(t *testing.T) {
	for name, test := range map[string]struct {
		ours  http.Header
		says  cache.Response
		other bool
	}{
		"same":             {header("ETag", `"1"`), cache.Response{Header: header("ETag", `"1"`)}, false},
		"weakly the same":  {header("ETag", `"1"`), cache.Response{Header: header("ETag", `W/"1"`)}, false},
		"silent":           {header("ETag", `"1"`), cache.Response{}, false},
		"same place":       {header("ETag", `"1"`), cache.Response{URL: docURL}, false},
		"same date":        {header("Last-Modified", modified), cache.Response{Header: header("Last-Modified", modified)}, false},
		"first date":       {header("ETag", `"1"`), cache.Response{Header: header("Last-Modified", modified)}, false},
		"other etag":       {header("ETag", `"1"`), cache.Response{Header: header("ETag", `"2"`)}, true},
		"first etag":       {header("Last-Modified", modified), cache.Response{Header: header("ETag", `"2"`)}, true},
		"other date":       {header("Last-Modified", modified), cache.Response{Header: header("Last-Modified", "Fri, 31 Dec 1999 13:00:00 GMT")}, true},
		"redirected there": {header("ETag", `"1"`), cache.Response{URL: docURL + "?moved"}, true},
		"redirected back":  {header("ETag", `"1"`), cache.Response{Via: []string{docURL + "?moved"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				s.says(200, test.ours, "one")
				s.wants(cache.Fetched, "one", 1)
				time.Sleep(10 * time.Minute)
				s.does(func(sent http.Header) (*cache.Response, error) {
					if sent.Get("If-None-Match") == "" && sent.Get("If-Modified-Since") == "" {
						return &cache.Response{StatusCode: 200, Body: []byte("two")}, nil
					}
					answer := test.says
					answer.StatusCode = 304
					return &answer, nil
				})
				if test.other {
					s.wants(cache.Fetched, "two", 3)
					return
				}
				s.wants(cache.Revalidated, "one", 2)
			})
		})
	}
}

func TestNotModifiedUnasked(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(304, header("ETag", `"1"`), "")
		err := s.wantsError(1)
		if !strings.Contains(err.Error(), "304") {
			t.Fatalf("got %q", err)
		}
		// Nor does it confirm a document if no condition was sent.
		time.Sleep(config.NegativeTTL)
		s.says(200, header(), "one")
		s.wants(cache.Fetched, "one", 2)
		time.Sleep(5 * time.Minute)
		s.says(304, header(), "")
		s.wants(cache.Stale, "one", 3)
	})
}

func TestSameBytesAreParsedOnce(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		first := s.wants(cache.Fetched, "one", 1)
		time.Sleep(10 * time.Minute)
		second := s.wants(cache.Fetched, "one", 2)
		s.parsedTimes(1)
		if second.Value != first.Value {
			t.Fatal("the value was not kept")
		}
		if !second.FetchedAt.Equal(time.Now()) {
			t.Fatal("FetchedAt is not that of the last answer")
		}
		time.Sleep(10 * time.Minute)
		s.says(200, header(), "two")
		s.wants(cache.Fetched, "two", 3)
		s.parsedTimes(2)
	})
}

func TestSameBytesFromElsewhereAreParsedAgain(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(10 * time.Minute)
		s.does(func(http.Header) (*cache.Response, error) {
			return &cache.Response{StatusCode: 200, Body: []byte("one"), URL: docURL + "?moved"}, nil
		})
		doc := s.wants(cache.Fetched, "one", 2)
		s.parsedTimes(2)
		if doc.URL != docURL+"?moved" {
			t.Fatalf("URL is %q, want the final one", doc.URL)
		}
	})
}

// TestKeptForRenewal checks for how long a document is good for a condition.
func TestKeptForRenewal(t *testing.T) {
	for name, test := range map[string]struct {
		wait        time.Duration
		conditional bool
	}{
		"within": {5*time.Minute + time.Hour + 24*time.Hour, true},
		"after":  {5*time.Minute + time.Hour + 24*time.Hour + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.says(200, header("ETag", `"1"`), "one")
				s.wants(cache.Fetched, "one", 1)
				time.Sleep(test.wait)
				s.wants(cache.Fetched, "one", 2)
				if got := s.sent.Get("If-None-Match") != ""; got != test.conditional {
					t.Fatalf("conditional: %v, want %v", got, test.conditional)
				}
			})
		})
	}
}

// TestOldOnArrivalIsRenewed: a document that was long stale when it came is as
// good for a condition as any other.
func TestOldOnArrivalIsRenewed(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("ETag", `"1"`, "Age", "8640000"), "one")
		s.wants(cache.Fetched, "one", 1)
		s.says(304, header("ETag", `"1"`), "")
		s.wants(cache.Revalidated, "one", 2)
	})
}

func TestNoCacheIsRevalidatedEachTime(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("Cache-Control", "no-cache, max-age=600", "ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		s.says(304, header(), "")
		s.wants(cache.Revalidated, "one", 2)
		s.wants(cache.Revalidated, "one", 3)
		s.parsedTimes(1)
		s.says(503, header(), "")
		s.wantsStatus(503, false, 4)
		s.wantsStatus(503, true, 4)
		time.Sleep(config.NegativeTTL)
		s.says(304, header(), "")
		s.wants(cache.Revalidated, "one", 5)
	})
}

func TestVaryOnEverythingIsRevalidated(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("Vary", "*", "Cache-Control", "max-age=60", "ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		s.says(304, header(), "")
		s.wants(cache.Revalidated, "one", 2)
		s.fails(errNetwork)
		s.wantsError(3)
	})
}

// AskedSince has a fresh document confirmed. A failure changes nothing for others, and is remembered.
func TestEarlyConfirmation(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		since := func(asked time.Time) *cache.Document {
			t.Helper()
			r := s.request()
			r.AskedSince = asked
			doc, err := s.cache.Get(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return doc
		}
		s.says(200, header("ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		s.is(since(time.Now()), cache.Hit, "one") // it was asked for at this moment
		s.asked(1)
		time.Sleep(time.Second)
		s.says(304, header("ETag", `"1"`), "")
		s.is(since(time.Now()), cache.Revalidated, "one")
		s.asked(2)
		s.is(since(time.Now()), cache.Hit, "one")
		s.wants(cache.Hit, "one", 2)

		for about, fail := range map[string]func(){
			"trouble": func() { s.says(503, header(), "") },
			"refusal": func() { s.says(404, header(), "") },
			"invalid": func() { s.says(200, header(), "invalid") },
			"network": func() { s.fails(errInvalid) },
		} {
			time.Sleep(6 * time.Second)
			before, _ := s.counts()
			fail()
			for range 3 {
				if doc := since(time.Now()); doc.State != cache.Hit || doc.Value.(*parsed).body != "one" || doc.Err != nil {
					t.Errorf("%s: %+v", about, doc)
				}
				s.wants(cache.Hit, "one", before+1)
				time.Sleep(time.Second)
			}
		}
		time.Sleep(6 * time.Second)
		before, _ := s.counts()
		s.says(200, header(), "two")
		s.is(since(time.Now()), cache.Fetched, "two")
		s.wants(cache.Hit, "two", before+1)
	})
}

// A flight that began before is not enough.
func TestEarlyConfirmationDuringAnother(t *testing.T) {
	play(t, config, func(s scene) {
		s.delay = time.Second
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(10 * time.Minute)
		joined := make(chan struct{})
		go func() {
			defer close(joined)
			_, _ = s.get()
		}()
		time.Sleep(time.Millisecond)
		r := s.request()
		r.AskedSince = time.Now()
		doc, err := s.cache.Get(s.Context(), r)
		<-joined
		if err != nil || doc.State != cache.Fetched {
			s.Errorf("%+v, %v", doc, err)
		}
		s.asked(3)
	})
}
