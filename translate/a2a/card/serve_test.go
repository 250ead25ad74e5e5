package card_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
)

func TestServe(t *testing.T) {
	b := &bridge{fresh: time.Now().Add(90 * time.Second)}
	b.set(entry("acme.a", nil))
	c := cardOf(t, newBuilder(t, b, card.Config{}), request(nil))
	modified := c.LastModified.Format(http.TimeFormat)
	for _, test := range []struct {
		name, value string
		status      int
	}{
		{"", "", 200},
		{"If-None-Match", c.ETag, 304},
		{"If-None-Match", "W/" + c.ETag, 304},
		{"If-None-Match", `"a", ` + c.ETag, 304},
		{"If-None-Match", `"a,b" , W/"c",` + c.ETag, 304},
		{"If-None-Match", "*", 304},
		{"If-None-Match", `"a"`, 200},
		{"If-None-Match", c.ETag[:len(c.ETag)-1], 200},
		{"If-None-Match", `x ` + c.ETag, 200},
		{"If-None-Match", `"`, 200},
		{"If-None-Match", "W/", 200},
		{"If-None-Match", "", 200},
		{"If-Modified-Since", modified, 304},
		{"If-Modified-Since", c.LastModified.Add(-time.Second).Format(http.TimeFormat), 200},
		{"If-Modified-Since", "yesterday", 200},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r := httptest.NewRequest(method, "/a2a", nil)
			if test.name != "" {
				r.Header.Set(test.name, test.value)
			}
			w := httptest.NewRecorder()
			card.Serve(w, r, c)
			h := w.Header()
			if w.Code != test.status || h.Get("ETag") != c.ETag || h.Get("Last-Modified") != modified || !slices.Equal(h.Values("Vary"), []string{"A2A-Version", "Authorization"}) || h.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s %s %s: %d %v", method, test.name, test.value, w.Code, h)
			}
			if cc := h.Get("Cache-Control"); cc != "public, max-age=89" && cc != "public, max-age=90" {
				t.Error(cc)
			}
			body := ""
			if method == http.MethodGet && test.status == 200 {
				body = string(c.JSON())
			}
			if w.Body.String() != body {
				t.Errorf("%s %d: %d bytes", method, test.status, w.Body.Len())
			}
			if length := h.Get("Content-Length"); (test.status == 200) != (length != "" && h.Get("Content-Type") == "application/json") {
				t.Errorf("%d: Content-Length %q", test.status, length)
			}
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/a2a", nil)
	r.Header.Add("If-None-Match", `"a"`)
	r.Header.Add("If-None-Match", c.ETag)
	w := httptest.NewRecorder()
	card.Serve(w, r, c)
	if w.Code != 304 {
		t.Errorf("two fields: %d", w.Code)
	}
}

// TestPrivate: what names the principal need not be a header that Vary names, so each use of a principal's card asks again.
func TestPrivate(t *testing.T) {
	b := &bridge{fresh: time.Now().Add(time.Hour)}
	b.set(entry("acme.a", nil))
	builder := newBuilder(t, b, card.Config{})
	for _, principal := range []string{"", "alice"} {
		w := httptest.NewRecorder()
		card.Serve(w, httptest.NewRequest(http.MethodGet, "/a2a", nil), cardOf(t, builder, request(func(r *card.Request) { r.Caller.Principal = principal })))
		want, pages := "private, no-cache", "" // no page of another origin reads it
		if principal == "" {
			want, pages = "public, max-age=300", "*"
		}
		if cc, vary, to := w.Header().Get("Cache-Control"), w.Header().Values("Vary"), w.Header().Get("Access-Control-Allow-Origin"); cc != want || !slices.Contains(vary, "Authorization") || to != pages {
			t.Errorf("%q: %s %s %q, want %s %q", principal, cc, vary, to, want, pages)
		}
	}
}
