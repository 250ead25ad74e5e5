package cache_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

const docURL = "https://provider.example/index.json"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config is what the tests use unless they are about another one.
var config = cache.Config{
	MaxSize:      1 << 20,
	TTL:          5 * time.Minute,
	MaxTTL:       24 * time.Hour,
	StaleIfError: time.Hour,
	NegativeTTL:  5 * time.Second,
}

func newCache(tb testing.TB, config cache.Config) *cache.Cache {
	tb.Helper()
	c, err := cache.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// parsed is what the tests' Parse returns: each call makes another one.
type parsed struct{ body string }

var errInvalid = errors.New("the body says that it is invalid")

// origin is a provider whose answers a test sets.
type origin struct {
	mu      sync.Mutex
	answer  func(sent http.Header) (*cache.Response, error)
	delay   time.Duration
	fetches int
	parses  int
	sent    http.Header // of the last fetch
}

// says makes the origin answer with a status, a header and a body.
func (o *origin) says(status int, header http.Header, body string) {
	o.does(func(http.Header) (*cache.Response, error) {
		return &cache.Response{StatusCode: status, Header: header, Body: []byte(body)}, nil
	})
}

// fails makes Fetch fail.
func (o *origin) fails(err error) {
	o.does(func(http.Header) (*cache.Response, error) { return nil, err })
}

func (o *origin) does(answer func(sent http.Header) (*cache.Response, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer = answer
}

func (o *origin) counts() (fetches, parses int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fetches, o.parses
}

func (o *origin) request() cache.Request {
	return cache.Request{
		URL:     docURL,
		Timeout: 10 * time.Second,
		Fetch: func(ctx context.Context, header http.Header) (*cache.Response, error) {
			o.mu.Lock()
			o.fetches++
			o.sent = header
			answer, delay := o.answer, o.delay
			o.mu.Unlock()
			if delay > 0 { // the race detector can't stand a channel of time.After(0) in a bubble
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(delay):
				}
			}
			return answer(header)
		},
		Parse: func(r *cache.Response) (any, int64, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.parses++
			switch string(r.Body) {
			case "invalid":
				return nil, 0, errInvalid
			case "refused":
				return nil, 0, refusal{true}
			case "panic":
				panic("bug")
			}
			return &parsed{string(r.Body)}, int64(len(r.Body)), nil
		},
	}
}

// scene is a test's cache, its origin and its steps, under synctest's clock.
type scene struct {
	*testing.T
	*origin
	cache *cache.Cache
}

func play(t *testing.T, config cache.Config, steps func(s scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &origin{}
		o.says(http.StatusOK, http.Header{}, "one")
		steps(scene{t, o, newCache(t, config)})
	})
}

func (s scene) get() (*cache.Document, error) {
	return s.cache.Get(s.Context(), s.request())
}

// wants gets the document and checks how it came, what it says and how often
// the origin was asked since the scene began.
func (s scene) wants(state cache.State, body string, fetches int) *cache.Document {
	s.Helper()
	doc, err := s.get()
	if err != nil {
		s.Fatalf("Get: %v, want a document", err)
	}
	s.is(doc, state, body)
	s.asked(fetches)
	return doc
}

func (s scene) is(doc *cache.Document, state cache.State, body string) {
	s.Helper()
	if doc.State != state || doc.Value.(*parsed).body != body {
		s.Fatalf("got %v %q, want %v %q", doc.State, doc.Value.(*parsed).body, state, body)
	}
	if (doc.Err != nil) != (state == cache.Stale) {
		s.Fatalf("a document that is %v has Err %v", state, doc.Err)
	}
}

// wantsError gets no document, and returns why.
func (s scene) wantsError(fetches int) error {
	s.Helper()
	doc, err := s.get()
	if err == nil {
		s.Fatalf("got %v %v, want an error", doc.State, doc.Value)
	}
	if doc != nil {
		s.Fatalf("got both a document and the error %v", err)
	}
	s.asked(fetches)
	return err
}

// wantsStatus gets no document because of a status, remembered or not.
func (s scene) wantsStatus(status int, remembered bool, fetches int) {
	s.Helper()
	err := s.wantsError(fetches)
	if got, ok := errors.AsType[*cache.StatusError](err); !ok || got.StatusCode != status {
		s.Fatalf("got %v, want a StatusError of %d", err, status)
	}
	if e, ok := errors.AsType[*cache.FailureError](err); ok && e.Repeated != remembered || remembered && !ok {
		s.Fatalf("is %q remembered? want %v", err, remembered)
	}
}

func (s scene) asked(fetches int) {
	s.Helper()
	if got, _ := s.counts(); got != fetches {
		s.Fatalf("the origin was asked %d times, want %d", got, fetches)
	}
}

func (s scene) parsedTimes(want int) {
	s.Helper()
	if _, got := s.counts(); got != want {
		s.Fatalf("Parse was called %d times, want %d", got, want)
	}
}

// header makes a header of names and values.
func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// at is a point in time as a header has it, seen from the clock of the scene.
func at(offset time.Duration) string {
	return time.Now().Add(offset).UTC().Format(http.TimeFormat)
}
