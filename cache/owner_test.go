package cache_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// as is the scene's request of an owner, with an answer of its own.
func (s scene) as(owner uint64, answer func() (*cache.Response, error)) cache.Request {
	request := s.request()
	request.Owner = owner
	request.Fetch = func(context.Context, http.Header) (*cache.Response, error) {
		s.mu.Lock()
		s.fetches++
		s.mu.Unlock()
		time.Sleep(time.Second)
		return answer()
	}
	return request
}

func refuses(passing, permanent bool) func() (*cache.Response, error) {
	return func() (*cache.Response, error) {
		return nil, &cache.OwnError{Err: refusal{permanent}, Passing: passing}
	}
}

func serves(body string) func() (*cache.Response, error) {
	return func() (*cache.Response, error) {
		return &cache.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: []byte(body)}, nil
	}
}

// An OwnError is returned to its owner only, neither from the remembered failures nor
// from a flight that both owners share, whichever began it.
func TestOwnErrorsAreNotShared(t *testing.T) {
	for name, order := range map[string][2]uint64{"refused first": {1, 2}, "refused last": {2, 1}} {
		t.Run(name, func(t *testing.T) {
			play(t, config, func(s scene) {
				requests := map[uint64]cache.Request{1: s.as(1, refuses(false, true)), 2: s.as(2, serves("one"))}
				var wg sync.WaitGroup
				for _, owner := range order {
					for range 3 {
						wg.Go(func() {
							doc, err := s.cache.Get(s.Context(), requests[owner])
							if owner == 2 && (err != nil || doc.Value.(*parsed).body != "one") {
								s.Errorf("who may read it: %v", err)
							}
							if _, refused := errors.AsType[refusal](err); owner == 1 && !refused && doc == nil {
								s.Errorf("who may not read it: %v", err)
							}
						})
					}
					synctest.Wait()
				}
				wg.Wait()
				if fetches, _ := s.counts(); fetches > 2 {
					s.Errorf("the origin was asked %d times for two owners", fetches)
				}
			})
		})
	}
}

// A document stays known after an OwnError, for other owners and for later, but is not
// served in place of a refusal.
func TestOwnErrorsDropNothing(t *testing.T) {
	play(t, config, func(s scene) {
		s.says(200, header("Cache-Control", "max-age=1"), "one")
		s.wants(cache.Fetched, "one", 1)
		time.Sleep(2 * time.Second)
		_, err := s.cache.Get(s.Context(), s.as(1, refuses(false, true)))
		if _, refused := errors.AsType[refusal](err); !refused {
			s.Fatalf("a stale document was given in place of a refusal: %v", err)
		}
		if _, err := s.cache.Peek(docURL, "", 1); err == nil {
			s.Error("the refusal is not remembered for its owner")
		}
		if doc, err := s.cache.Peek(docURL, "", 2); doc == nil || err != nil {
			s.Errorf("for another owner: %v, %v", doc, err)
		}
		s.fails(errors.New("down"))
		s.wants(cache.Stale, "one", 3)
	})
}

// A passing refusal is not remembered, and a stale document may stand in for it.
func TestPassingErrorsAreNotRemembered(t *testing.T) {
	play(t, config, func(s scene) {
		refused := s.as(1, refuses(true, false))
		for n := range 2 {
			_, err := s.cache.Get(s.Context(), refused)
			if _, remembered := errors.AsType[*cache.FailureError](err); err == nil || remembered {
				s.Fatalf("got %v", err)
			}
			s.asked(n + 1)
		}
		s.says(200, header("Cache-Control", "max-age=1"), "one")
		s.wants(cache.Fetched, "one", 3)
		time.Sleep(2 * time.Second)
		if doc, err := s.cache.Get(s.Context(), refused); err != nil || doc.State != cache.Stale {
			s.Errorf("got %v, %v", doc, err)
		}
	})
}
