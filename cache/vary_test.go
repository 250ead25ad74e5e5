package cache_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func TestVary(t *testing.T) {
	sent := http.Header{"Accept": {"application/json"}, "Accept-Language": {"en", "de"}}
	for name, test := range map[string]struct {
		vary []string
		then http.Header
		hit  bool
	}{
		"not at all":                {nil, header("Accept", "text/html"), true},
		"on nothing":                {[]string{"", " , "}, header("Accept", "text/html"), true},
		"on what is the same":       {[]string{"accept"}, header("Accept", "application/json"), true},
		"on what is another":        {[]string{"ACCEPT"}, header("Accept", "text/html"), false},
		"on what is missing":        {[]string{"Accept"}, header(), false},
		"on what was never sent":    {[]string{"Authorization, Cookie", "Accept-Encoding"}, header(), true},
		"on what is new":            {[]string{"X-New"}, header("X-New", "1"), false},
		"on a later member":         {[]string{"Cookie, Accept-Language"}, header("Accept-Language", "en"), false},
		"on a later line":           {[]string{"Cookie", "Accept-Language"}, header("Accept-Language", "en"), false},
		"on several lines":          {[]string{"Accept-Language"}, http.Header{"Accept-Language": {"en", "de"}}, true},
		"on lines in another order": {[]string{"Accept-Language"}, http.Header{"Accept-Language": {"de", "en"}}, false},
		"on everything":             {[]string{"*"}, sent.Clone(), false},
		"on everything and more":    {[]string{"Cookie", "Accept, *"}, sent.Clone(), false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.says(200, http.Header{"Vary": test.vary, "Cache-Control": {"max-age=60"}}, "one")
				request := s.request()
				want := cache.Fetched
				for _, header := range []http.Header{sent.Clone(), test.then} {
					request.Header = header
					doc, err := s.cache.Get(t.Context(), request)
					if err != nil {
						t.Fatal(err)
					}
					s.is(doc, want, "one")
					for _, lines := range header {
						lines[0] = "changed by the caller afterwards"
					}
					if test.hit {
						want = cache.Hit
					}
				}
				s.parsedTimes(1)
			})
		})
	}
}

// TestVariantIsNotAnothers checks that neither validators nor staleness nor a
// remembered failure of one variant serve another.
func TestVariantIsNotAnothers(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		html, json := s.request(), s.request()
		html.Header = header("Accept", "text/html")
		get := func(request cache.Request) (*cache.Document, error) { return s.cache.Get(t.Context(), request) }

		s.says(200, header("Vary", "Accept", "ETag", `"1"`), "one")
		if _, err := get(json); err != nil {
			t.Fatal(err)
		}
		s.says(500, header("Vary", "Accept"), "")
		if doc, err := get(html); err == nil {
			t.Fatalf("got %v, another variant's", doc.State)
		}
		if s.sent.Get("If-None-Match") != "" {
			t.Fatal("another variant's ETag was sent")
		}
		doc, err := get(json)
		if err != nil {
			t.Fatal(err)
		}
		s.is(doc, cache.Hit, "one")
		s.asked(2)

		time.Sleep(config.TTL)
		s.says(406, header("Vary", "Accept"), "")
		if doc, err := get(html); err == nil {
			t.Fatalf("got %v", doc.State)
		}
		s.says(200, header("Vary", "Accept"), "two")
		doc, err = get(json) // not the failure that is remembered for the other
		if err != nil {
			t.Fatal(err)
		}
		s.is(doc, cache.Fetched, "two")
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

func TestFlightServesOnlyItsVariant(t *testing.T) {
	for _, vary := range []string{"Accept, X-More", "*"} {
		t.Run(vary, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.delay = time.Second
				s.does(func(sent http.Header) (*cache.Response, error) {
					body := sent.Get("Accept") + " " + sent.Get("X-More")
					return &cache.Response{StatusCode: 200, Header: header("Vary", vary), Body: []byte(body)}, nil
				})
				var all sync.WaitGroup
				for n := range 30 {
					all.Go(func() {
						request := s.request()
						request.Header = header("Accept", string(rune('a'+n%3/2)))
						if n%3 == 1 {
							request.Header.Set("X-More", "1")
						}
						doc, err := s.cache.Get(t.Context(), request)
						if err != nil {
							t.Error(err)
							return
						}
						want := request.Header.Get("Accept") + " " + request.Header.Get("X-More")
						if got := doc.Value.(*parsed).body; got != want {
							t.Errorf("got the document of %q, want that of %q", got, want)
						}
					})
					synctest.Wait()
				}
				all.Wait()
			})
		})
	}
}

// TestStaleVariantIsNotAnothers: the failure concerns every variant, but the
// document that stands in for one does not.
func TestStaleVariantIsNotAnothers(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("Vary", "Accept"), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL)
		s.delay = time.Second
		s.fails(errNetwork)
		html := s.request()
		html.Header = header("Accept", "text/html")
		var all sync.WaitGroup
		all.Go(func() { s.wants(cache.Stale, "one", 2) })
		synctest.Wait()
		for range 2 { // once during the flight and once after it
			doc, err := s.cache.Get(t.Context(), html)
			if !errors.Is(err, errNetwork) {
				t.Errorf("got %v and %v", doc, err)
			}
			all.Wait()
		}
		s.wants(cache.Stale, "one", 2)
	})
}
