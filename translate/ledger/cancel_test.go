package ledger_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// cancel cancels the run of the skill sum, as a front does.
func cancel(i *instance, ref run.Ref) {
	i.T.Helper()
	if _, err := i.Cancel(context.Background(), ledger.Identity{Owner: owner, ID: ref.Kept}); err != nil {
		i.T.Error(err)
	}
}

// A canceled run is followed no longer, here and at other instances, and stays canceled.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		end := p.Accept("sum")
		i, other := start(t, p, s, nil), start(t, p, s, nil)
		var group sync.WaitGroup
		group.Go(func() {
			if a := i.Call("k", "acme.sum", ""); a.State != run.Canceled || a.Failure != nil {
				t.Errorf("a call that waits: %+v", a)
			}
		})
		time.Sleep(time.Second)
		begun := other.Call("k", "acme.sum", "", waits(0))
		cancel(i, begun.Ref)
		group.Wait()
		for _, each := range []*instance{i, other, start(t, p, s, nil)} {
			if a := each.Call("k", "acme.sum", ""); a.State != run.Canceled || a.Failure != nil || a.ExecutionID != "x-sum" || !a.Joined {
				t.Errorf("%+v", a)
			}
		}
		synctest.Wait()
		p.Forget()
		time.Sleep(time.Hour)
		if n := p.Count(""); n != 0 {
			t.Errorf("%d requests about a canceled run", n)
		}
		end(3)
		if a := i.Call("k", "acme.sum", ""); a.State != run.Canceled {
			t.Errorf("after its end: %+v", a)
		}
	})
}

// A run that is canceled at another instance ends as canceled at once for a call that waits, and is polled no longer.
func TestCanceledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.Accept("sum")
		i, other := start(t, p, s, nil), start(t, p, s, nil)
		var group sync.WaitGroup
		canceled := time.Now().Add(20 * time.Second)
		for _, each := range []*instance{i, other} {
			group.Go(func() {
				if a := each.Call("k", "acme.sum", "", waits(time.Minute)); a.State != run.Canceled || time.Since(canceled) > 200*time.Millisecond {
					t.Errorf("after %s: %+v", time.Since(canceled), a)
				}
			})
			time.Sleep(time.Second)
		}
		time.Sleep(time.Until(canceled))
		cancel(other, run.Ref{Kept: s.Entries()[0].ID})
		group.Wait()
		p.Forget()
		time.Sleep(time.Hour)
		if n := p.Count(""); n != 0 {
			t.Errorf("%d requests about a canceled run", n)
		}
	})
}

// All calls that wait for a run with one key get the same answer when it is canceled, however they ask about it.
func TestCancelForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		p.Accept("sum")
		i := start(t, p, s, nil)
		begun := i.Call("k", "acme.sum", "", waits(0))
		var group sync.WaitGroup
		expectCanceled := func(what string, o run.Run) {
			if o.State != run.Canceled || o.Failure != nil {
				t.Errorf("%s: %s, failure %v", what, o.State, o.Failure)
			}
		}
		for range 2 {
			group.Go(func() { expectCanceled("a call with the key", i.Call("k", "acme.sum", "").Run) })
			group.Go(func() { expectCanceled("a call about the run", about(i, begun.Ref, time.Minute)) })
		}
		time.Sleep(time.Second)
		cancel(i, begun.Ref)
		group.Wait()
		expectCanceled("later", about(i, begun.Ref, 0))
		expectCanceled("with the key, later", i.Call("k", "acme.sum", "").Run)
	})
}
