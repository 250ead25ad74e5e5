package cache_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// fetchWith is a Fetch as one would write it, over a real client.
func fetchWith(client *http.Client, url string) func(context.Context, http.Header) (*cache.Response, error) {
	return func(ctx context.Context, conditions http.Header) (*cache.Response, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		request.Header = conditions
		response, err := client.Do(request)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return nil, err
		}
		return &cache.Response{
			StatusCode: response.StatusCode,
			Header:     response.Header,
			Body:       body,
			URL:        response.Request.URL.String(),
		}, nil
	}
}

// TestRoundTrips runs against a real server.
func TestRoundTrips(t *testing.T) {
	var status [600]atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/etag", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Cache-Control", "no-cache")
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "one") // a client that is gone is not this test's matter
	})
	mux.Handle("/moved", http.RedirectHandler("/etag", http.StatusFound))
	mux.HandleFunc("/fresh", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = io.WriteString(w, "one")
	})
	mux.HandleFunc("/missing", http.NotFound)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(&counting{ResponseWriter: w, counts: &status}, r)
	}))
	t.Cleanup(server.Close)
	c := newCache(t, config)

	get := func(path string) (*cache.Document, error) {
		return c.Get(t.Context(), cache.Request{
			URL:   server.URL + path,
			Fetch: fetchWith(server.Client(), server.URL+path),
			Parse: func(r *cache.Response) (any, int64, error) { return &parsed{string(r.Body)}, int64(len(r.Body)), nil },
		})
	}
	for _, step := range []struct {
		path, url          string
		state              cache.State
		ok, found, renewed int32 // answers so far: 200, 302, 304
	}{
		{"/etag", "/etag", cache.Fetched, 1, 0, 0},
		{"/etag", "/etag", cache.Revalidated, 1, 0, 1},
		{"/etag", "/etag", cache.Revalidated, 1, 0, 2},
		{"/moved", "/etag", cache.Fetched, 2, 1, 2},
		{"/moved", "/etag", cache.Revalidated, 2, 2, 3},
		{"/fresh", "/fresh", cache.Fetched, 3, 2, 3},
		{"/fresh", "/fresh", cache.Hit, 3, 2, 3},
	} {
		doc, err := get(step.path)
		if err != nil {
			t.Fatalf("%s: %v", step.path, err)
		}
		if doc.State != step.state || doc.URL != server.URL+step.url || doc.Value.(*parsed).body != "one" {
			t.Fatalf("%s: got %+v", step.path, doc)
		}
		if status[200].Load() != step.ok || status[302].Load() != step.found || status[304].Load() != step.renewed {
			t.Fatalf("%s: the server answered 200, 302 and 304 %d, %d and %d times", step.path, status[200].Load(), status[302].Load(), status[304].Load())
		}
	}

	_, err := get("/missing")
	if missing, ok := errors.AsType[*cache.StatusError](err); !ok || missing.StatusCode != http.StatusNotFound || missing.URL != server.URL+"/missing" {
		t.Fatalf("got %v", err)
	}
	server.Close()
	if doc, err := get("/etag"); err == nil {
		t.Fatalf("a document that is no-cache was served as %v from a server that is gone", doc.State)
	}
}

// counting counts the answers of a handler by status.
type counting struct {
	http.ResponseWriter
	counts  *[600]atomic.Int32
	written bool
}

func (w *counting) WriteHeader(status int) {
	if !w.written {
		w.written = true
		w.counts[status].Add(1)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *counting) Write(p []byte) (int, error) {
	if !w.written {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// TestFileServer renews a file by its Last-Modified.
func TestFileServer(t *testing.T) {
	server := httptest.NewServer(http.FileServer(http.Dir(".")))
	t.Cleanup(server.Close)
	everyTime := config
	everyTime.TTL = 0
	c := newCache(t, everyTime)
	for _, want := range []cache.State{cache.Fetched, cache.Revalidated} {
		doc, err := c.Get(t.Context(), cache.Request{
			URL:   server.URL + "/doc.go",
			Fetch: fetchWith(server.Client(), server.URL+"/doc.go"),
			Parse: func(r *cache.Response) (any, int64, error) { return nil, int64(len(r.Body)), nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if doc.State != want {
			t.Fatalf("got %v, want %v", doc.State, want)
		}
	}
}
