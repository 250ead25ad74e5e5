package cache_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

func TestThousandShareOneFetch(t *testing.T) {
	for name, says := range map[string]func(*origin){
		"document": func(o *origin) { o.says(200, header(), "one") },
		"no-store": func(o *origin) { o.says(200, header("Cache-Control", "no-store"), "one") },
		"failure":  func(o *origin) { o.says(404, header(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.delay = time.Second
				says(s.origin)
				docs := make([]*cache.Document, 1000)
				errs := make([]error, len(docs))
				var all sync.WaitGroup
				for n := range docs {
					all.Go(func() { docs[n], errs[n] = s.get() })
				}
				all.Wait()
				s.asked(1)
				for n := range docs {
					if (errs[n] != nil) != (name == "failure") {
						t.Fatalf("caller %d got the error %v", n, errs[n])
					}
					if errs[n] == nil && docs[n].Value != docs[0].Value {
						t.Fatalf("caller %d got another document", n)
					}
				}
			})
		})
	}
}

// TestLateCallersDoNotFetchAgain lets callers come while a flight lands, when
// they may have missed the cache before it and find no flight any more.
func TestLateCallersDoNotFetchAgain(t *testing.T) {
	c := newCache(t, config)
	o := &origin{}
	o.says(200, header(), "one")
	request := o.request()
	for n := range 200 {
		request.URL = docURL + strings.Repeat("?", n)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := c.Get(t.Context(), request); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if fetches, _ := o.counts(); fetches != n+1 {
			t.Fatalf("asked %d times for %d documents", fetches, n+1)
		}
	}
}

func TestCallerLeavesAlone(t *testing.T) {
	for name, first := range map[string]bool{"the first": true, "a later one": false} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.delay = 5 * time.Second
				hurried, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				leave := func() {
					began := time.Now()
					doc, err := s.cache.Get(hurried, s.request())
					if doc != nil || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
						t.Errorf("got %v and %v after %v", doc, err, time.Since(began))
					}
				}
				stay := func() {
					doc, err := s.get()
					if err != nil {
						t.Error(err)
						return
					}
					s.is(doc, cache.Fetched, "one")
				}
				var all sync.WaitGroup
				if first {
					all.Go(leave)
					synctest.Wait()
					all.Go(stay)
				} else {
					all.Go(stay)
					synctest.Wait()
					all.Go(leave)
				}
				all.Wait()
				s.asked(1)
			})
		})
	}
}

func TestFlightOutlivesAllCallers(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.delay = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.cache.Get(ctx, s.request()); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		s.asked(1)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		s.wants(cache.Hit, "one", 1)
	})
}

func TestEndedContextGetsNothing(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.wants(cache.Fetched, "one", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if doc, err := s.cache.Get(ctx, s.request()); doc != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v and %v", doc, err)
		}
	})
}

func TestTimeoutBoundsAFetch(t *testing.T) {
	for name, test := range map[string]struct{ timeout, want time.Duration }{
		"stated": {2 * time.Second, 2 * time.Second},
		"unset":  {0, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				t := s.T
				s.delay = time.Hour
				request := s.request()
				request.Timeout = test.timeout
				began := time.Now()
				_, err := s.cache.Get(t.Context(), request)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != test.want {
					t.Fatalf("got %v after %v, want a timeout after %v", err, time.Since(began), test.want)
				}
				if t.Context().Err() != nil {
					t.Fatal("the caller's own context has ended")
				}
			})
		})
	}
}

// TestFetchThatReturnsLate: what Fetch says soon after the end of its context
// is worth more than that it has ended.
func TestFetchThatReturnsLate(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		request := s.request()
		request.Fetch = func(ctx context.Context, _ http.Header) (*cache.Response, error) {
			<-ctx.Done()
			time.Sleep(time.Second / 2)
			return nil, errNetwork
		}
		if _, err := s.cache.Get(t.Context(), request); !errors.Is(err, errNetwork) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestTimeoutBoundsBothFetches: a 304 about another document costs a second
// fetch, but no second timeout.
func TestTimeoutBoundsBothFetches(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.says(200, header("ETag", `"1"`), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(config.TTL + config.StaleIfError)
		s.says(304, header("ETag", `"2"`), "")
		s.delay = 6 * time.Second
		began := time.Now()
		if err := s.wantsError(3); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 10*time.Second {
			t.Fatalf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestFetchSeesValuesOfTheContext(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		type span struct{}
		request := s.request()
		fetch := request.Fetch
		request.Fetch = func(ctx context.Context, header http.Header) (*cache.Response, error) {
			if ctx.Value(span{}) != "value" {
				t.Error("the value is gone")
			}
			return fetch(ctx, header)
		}
		if _, err := s.cache.Get(context.WithValue(t.Context(), span{}, "value"), request); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBreakdownsReachEveryone lets Fetch and Parse end in ways that must not
// leave anybody waiting.
func TestBreakdownsReachEveryone(t *testing.T) {
	for name, breakDown := range map[string]func(){
		"panic":  func() { panic("bug") },
		"nil":    func() { panic(nil) },
		"goexit": runtime.Goexit,
	} {
		for _, where := range []string{"Fetch", "Parse"} {
			t.Run(name+" in "+where, func(t *testing.T) {
				play(t, config, func(s scene) {
					t := s.T
					s.delay = time.Second
					request := s.request()
					sound := request
					if where == "Fetch" {
						request.Fetch = func(ctx context.Context, header http.Header) (*cache.Response, error) {
							if _, err := sound.Fetch(ctx, header); err != nil {
								return nil, err
							}
							breakDown()
							return nil, nil
						}
					} else {
						request.Parse = func(*cache.Response) (any, int64, error) {
							breakDown()
							return nil, 0, nil
						}
					}
					var all sync.WaitGroup
					for range 10 {
						all.Go(func() {
							_, err := s.cache.Get(t.Context(), request)
							if err == nil || strings.Contains(err.Error(), "panic: ") != (name != "goexit") ||
								strings.Contains(err.Error(), "bug") != (name == "panic") {
								t.Errorf("got %v", err)
							}
						})
					}
					all.Wait()
					s.asked(1)
					time.Sleep(config.NegativeTTL)
					s.wants(cache.Fetched, "one", 2)
				})
			})
		}
	}
}

func TestDeleteDuringAFlight(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.delay = 5 * time.Second
		var all sync.WaitGroup
		all.Go(func() {
			doc, err := s.get()
			if err != nil {
				t.Error(err)
				return
			}
			s.is(doc, cache.Fetched, "one")
		})
		time.Sleep(time.Second)
		s.cache.Delete(docURL, "")
		all.Wait()
		s.says(200, header(), "two")
		s.wants(cache.Fetched, "two", 2)
	})
}

// TestDeleteStartsAnew: who asks after a Delete is not given the answer to a
// request from before, and that answer does not replace the later one.
func TestDeleteStartsAnew(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		var all sync.WaitGroup
		s.delay = 5 * time.Second
		all.Go(func() {
			if doc, err := s.get(); err != nil || doc.Value.(*parsed).body != "one" {
				t.Errorf("got %v and %v", doc, err)
			}
		})
		synctest.Wait()
		s.cache.Delete(docURL, "")
		s.delay = time.Second
		s.says(200, header(), "two")
		s.wants(cache.Fetched, "two", 2)
		all.Wait()
		s.wants(cache.Hit, "two", 2)
	})
}

func TestDeleteDuringAFailingFlight(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.delay = 5 * time.Second
		s.says(404, header(), "")
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := s.get(); err == nil {
				t.Error("got a document")
			}
		})
		synctest.Wait()
		s.cache.Delete(docURL, "")
		all.Wait()
		s.says(200, header(), "one")
		s.wants(cache.Fetched, "one", 2)
	})
}

func TestCloseStopsKeeping(t *testing.T) {
	play(t, config, func(s scene) {
		s.wants(cache.Fetched, "one", 1)
		s.cache.Close()
		s.cache.Close()
		s.wants(cache.Fetched, "one", 2)
		s.wants(cache.Fetched, "one", 3)
		s.cache.Delete(docURL, "")
		s.says(404, header(), "")
		s.wantsStatus(404, false, 4)
		s.wantsStatus(404, false, 5)
	})
}

func TestCloseServesWhoWaits(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		s.delay = 5 * time.Second
		var all sync.WaitGroup
		all.Go(func() {
			doc, err := s.get()
			if err != nil {
				t.Error(err)
				return
			}
			s.is(doc, cache.Fetched, "one")
		})
		synctest.Wait()
		began := time.Now()
		s.cache.Close()
		if time.Since(began) != 0 {
			t.Errorf("Close took %v", time.Since(began))
		}
		all.Wait()
		s.asked(1)
	})
}

// TestCloseEndsWhatNobodyWaitsFor: fetches that go on in the background, and
// those whose last caller leaves later, end with the cache.
func TestCloseEndsWhatNobodyWaitsFor(t *testing.T) {
	play(t, config, func(s scene) {
		t := s.T
		var ended atomic.Int32
		request := s.request()
		request.Timeout = time.Hour
		request.Fetch = func(ctx context.Context, _ http.Header) (*cache.Response, error) {
			<-ctx.Done()
			ended.Add(1)
			return nil, ctx.Err()
		}
		leaveAfter := func(wait time.Duration, partition string) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			request := request
			request.Partition = partition
			if _, err := s.cache.Get(ctx, request); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		}
		leaveAfter(time.Second, "before")
		leaveAfter(time.Second, "deleted")
		s.cache.Delete(docURL, "deleted")
		var all sync.WaitGroup
		all.Go(func() { leaveAfter(time.Minute, "after") })
		synctest.Wait()
		s.cache.Close()
		if ended.Load() != 2 {
			t.Errorf("Close left %d fetches that nobody waits for", 2-ended.Load())
		}
		all.Wait()
		synctest.Wait()
		if ended.Load() != 3 {
			t.Error("a fetch goes on although its last caller left after Close")
		}
	})
}

func TestNoGoroutineOutlivesClose(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	c, err := cache.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = c.Get(ctx, cache.Request{
		URL: docURL,
		Fetch: func(ctx context.Context, _ http.Header) (*cache.Response, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	c.Close()
	goleak.VerifyNone(t, ignore)
}

// TestEverythingAtOnce is for the race detector.
func TestEverythingAtOnce(t *testing.T) {
	o := &origin{}
	o.does(func(sent http.Header) (*cache.Response, error) {
		if sent.Get("If-None-Match") != "" {
			return &cache.Response{StatusCode: 304}, nil
		}
		return &cache.Response{StatusCode: 200, Header: header("ETag", `"1"`, "Cache-Control", "max-age=0"), Body: []byte("one")}, nil
	})
	for range 20 {
		c := newCache(t, config)
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				request := o.request()
				for m := range 50 {
					request.Partition = string(rune('a' + (n+m)%3))
					doc, err := c.Get(t.Context(), request)
					if err != nil || doc.Value.(*parsed).body != "one" {
						t.Errorf("got %v and %v", doc, err)
					}
					if m%10 == n {
						c.Delete(request.URL, request.Partition)
					}
					if m == 40 && n < 2 {
						c.Close()
					}
				}
			})
		}
		all.Wait()
	}
}
