package ledger_test

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A storage that fails prevents the submission.
func TestStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		for _, what := range []string{"count", "claim"} {
			i.Store.Fail(func(statement string) error {
				if statement == what {
					return &ledger.Unavailable{Err: errDisk}
				}
				return nil
			}, nil)
			a := i.Call("k", "acme.sum", "")
			if f := a.Failure; f == nil || f.Kind != run.Internal || f.Executed != run.ExecutedNo || f.Next() != run.NextRetry || !errors.Is(f, errDisk) {
				t.Errorf("%s: %+v", what, a)
			}
		}
		p.Received(t, "POST /run/sum", 0)
		i.Store.Fail(nil, nil)
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
	})
}

var errDisk = errors.New("the disk is gone")

// down lets all statements of an instance fail.
func down(i *instance) {
	i.Store.Fail(func(string) error { return errDisk }, nil)
}

// What can't be stored after the submission is known to this process, and stored later.
func TestStorageFailsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		var i *instance
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			down(i)
			providertest.Answer(http.StatusAccepted, providertest.Response("x-sum", "accepted", nil))(w, r)
		})
		var troubles atomic.Int64
		i = start(t, p, s, func(c *ledger.Config) { c.Trouble = func(error) { troubles.Add(1) } })
		if a := i.Call("k", "acme.sum", "", waits(0)); a.State != run.Accepted && a.State != run.Working {
			t.Fatalf("%+v", a)
		}
		if troubles.Load() == 0 {
			t.Error("the failure was not reported")
		}
		i.Store.Fail(nil, nil)
		if a := i.Call("k", "acme.sum", "", waits(0)); a.Failure != nil || a.ExecutionID != "x-sum" || !a.Joined {
			t.Errorf("%+v", a)
		}
		time.Sleep(5 * time.Second)
		if e := s.Entries()[0]; e.State != ledger.Working || e.Ref.ExecutionID != "x-sum" || e.Follower != i.Store.Instance() {
			t.Errorf("not stored: %+v", e)
		}
		end(3)
		time.Sleep(time.Minute) // it is followed
		if e := s.Entries()[0]; e.State != ledger.Completed {
			t.Errorf("not followed: %+v", e)
		}
		expect(t, i.Call("k", "acme.sum", ""), "3", true)
		time.Sleep(time.Minute)
		expect(t, start(t, p, s, nil).Call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// The end of a run that could not be stored is stored later, and is its outcome until then, too.
func TestEndIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		var i *instance
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			down(i)
			providertest.Completed("x-sum", 3)(w, r)
		})
		i = start(t, p, s, func(c *ledger.Config) { c.Trouble = func(error) {} })
		expect(t, i.Call("k", "acme.sum", ""), "3", false)
		time.Sleep(5 * time.Minute)
		i.Store.Fail(nil, nil)
		expect(t, i.Call("k", "acme.sum", ""), "3", true) // from memory
		time.Sleep(2 * time.Minute)
		next := start(t, p, s.Copy(), nil)
		expect(t, next.Call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
		if len(i.Ended()) != 1 {
			t.Errorf("ended: %q", i.Ended())
		}
	})
}

// After the storage has failed for seconds, it takes seconds until a run is followed again.
func TestFollowedAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		i := start(t, p, s, func(c *ledger.Config) { c.Trouble = func(error) {} })
		i.Call("k", "acme.sum", "", waits(0))
		time.Sleep(5 * time.Second)
		down(i)
		start(t, p, s, nil).Store.Announce(nil) // as if the connection for notices had been lost, too
		time.Sleep(5 * time.Second)
		i.Store.Fail(nil, nil)
		end(3)
		time.Sleep(15 * time.Second)
		if !slices.Equal(i.Ended(), []string{"completed"}) {
			t.Errorf("ended: %q", i.Ended())
		}
	})
}

// A key is free again after 24 hours, and not before.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		i := start(t, p, s, nil)
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
		time.Sleep(lifetime - 2*time.Millisecond)
		expect(t, i.Call("k", "acme.sum", ""), "{}", true)
		expect(t, i.Call("new", "acme.sum", ""), "{}", false) // deletes what has expired
		time.Sleep(2 * time.Millisecond)
		expect(t, i.Call("k", "acme.sum", `{"a":1}`), `{"a":1}`, false)
		p.Received(t, "POST /run/sum", 3)
	})
}
