package ledger_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// hanging is a store whose changes hang, until the context of who waits for one ends.
type hanging struct {
	*ledgertest.Store
	hangs atomic.Bool
}

func (h *hanging) Change(ctx context.Context, e *ledger.Entry, outcome []byte, keep time.Duration) (bool, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return h.Store.Change(ctx, e, outcome, keep)
}

// An answer waits two seconds at most for the writing of an end, which is written later.
func TestAnswerWhileTheDatabaseHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db, h := provider(), ledgertest.New(), new(hanging)
		h.hangs.Store(true)
		i := start(t, p, db, func(c *ledger.Config) {
			h.Store = c.Store.(*ledgertest.Store) //nolint:forcetypeassert // of the kit
			c.Store, c.Trouble = h, func(error) {}
		})
		began := time.Now()
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
		if took := time.Since(began); took > 2100*time.Millisecond {
			t.Errorf("the answer took %s", took)
		}
		h.hangs.Store(false)
		time.Sleep(10 * time.Second)
		if e := db.Entries()[0]; e.State != ledger.Completed {
			t.Errorf("not written later: %+v", e)
		}
	})
}

// silent is a store whose announcements are lost.
type silent struct{ *ledgertest.Store }

func (silent) Announce([]string) bool { return true }

// Who waits for a run looks each five seconds whether it has changed, also if the announcement of the change is lost.
func TestLostAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, f := ledgertest.New(), &follower{ends: time.Hour}
		a, b := open(t, silent{db.Instance(true)}, f, 0), open(t, db.Instance(true), f, 0)
		e := accepted(1)
		if _, failure := a.Add(t.Context(), e, 0); failure != nil {
			t.Fatal(failure)
		}
		time.AfterFunc(1500*time.Millisecond, func() {
			if err := note(a, e, "news"); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for next := range b.Watch(ctx, e) {
			if late := time.Since(next.Changed); string(next.Notes) != "news" || late > 5100*time.Millisecond {
				t.Errorf("%s after %s", next.Notes, late)
			}
			return
		}
		t.Error("it was not seen")
	})
}

// An instance adopts the runs of those that are gone as soon as it has its first lease.
func TestAdoptedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		p.Accept("sum")
		first := start(t, p, db, nil)
		first.Call("k", "acme.sum", "", waits(0))
		first.End(first)
		first.Close(t.Context())
		time.Sleep(20 * time.Second) // its lease has ended
		next := start(t, p, db, func(c *ledger.Config) {
			c.Store.(*ledgertest.Store).Fail(func(statement string) error { //nolint:forcetypeassert // of the kit
				if statement == "renew" {
					time.Sleep(time.Second)
				}
				return nil
			}, nil)
		})
		time.Sleep(1100 * time.Millisecond)
		if e := db.Entries()[0]; e.Follower != next.Store.Instance() {
			t.Errorf("%s follows it", e.Follower)
		}
	})
}
