package ledger_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// What is decided about an entry that is watched here, so that it is in memory, is decided about the version that the store has.
func TestChangeOfOldVersion(t *testing.T) {
	begin := func(t *testing.T, state ledger.State) (a, b *instance, e *ledger.Entry, change func(state ledger.State)) {
		t.Helper()
		p, db := provider(), ledgertest.New()
		db.Mute()
		a, b = start(t, p, db, nil), start(t, p, db, nil)
		time.Sleep(time.Second)
		e = &ledger.Entry{Owner: owner, ID: "0190a6e3-0000-7000-8000-000000000001", Front: "test", State: state}
		if _, failure := a.Add(t.Context(), e, 0); failure != nil {
			t.Fatal(failure)
		}
		seen, err := b.Get(t.Context(), e.Identity())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.OnChange(seen, func(*ledger.Entry) {}))
		return a, b, seen, func(state ledger.State) {
			if _, err := a.Change(t.Context(), e.Identity(), func(next *ledger.Entry) error {
				next.State, next.Ref.ExecutionID = state, "e1"
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("canceled", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, b, seen, change := begin(t, ledger.Submitting)
			change(ledger.Accepted)
			if e, err := b.Cancel(t.Context(), seen.Identity()); err != nil || e.State != ledger.Canceled {
				t.Errorf("%+v, %v", e, err)
			}
		})
	})
	t.Run("read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, b, seen, change := begin(t, ledger.Waiting)
			change(ledger.Waiting)
			sent := b.Store.Sent("get")
			now, err := b.Get(t.Context(), seen.Identity())
			if err != nil {
				t.Fatal(err)
			}
			errTaken := errors.New("taken")
			if _, err := b.Change(t.Context(), seen.Identity(), func(next *ledger.Entry) error {
				if next.Version != now.Version {
					return errTaken
				}
				next.State = ledger.Canceled
				return nil
			}); err != nil {
				t.Error(err)
			}
			if n := b.Store.Sent("get") - sent; n != 1 {
				t.Errorf("the version was read %d times", n)
			}
		})
	})
	t.Run("listed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, b, seen, change := begin(t, ledger.Waiting)
			heard := make(chan int64, 1)
			t.Cleanup(b.OnChange(seen, func(e *ledger.Entry) { heard <- e.Version }))
			change(ledger.Waiting)
			page, _, err := b.List(t.Context(), &ledger.Query{Owner: &owner, Limit: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(b.OnChange(page[0], func(*ledger.Entry) {}))
			select {
			case version := <-heard:
				if version != page[0].Version {
					t.Errorf("version %d", version)
				}
			default:
				t.Error("who watches it does not hear of a version that is known here")
			}
		})
	})
}
