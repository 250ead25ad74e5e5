package ledger_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// R246: a change that panics while it is written late, in the background, is reported and given up, and the entry can be changed again.
func TestR246PanicOfLateChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := ledgertest.New().Instance(true)
		var reported atomic.Int64
		l := ledger.New(ledger.Config{Store: store, Trouble: func(error) {}, Panicked: func(context.Context, any, []byte) { reported.Add(1) }})
		l.Begin(&follower{ends: time.Hour})
		defer l.Close(t.Context())
		e := accepted(1)
		l.Add(t.Context(), e, 0)
		store.Fail(func(statement string) error {
			if statement == "change" {
				return errDisk
			}
			return nil
		}, nil)
		bug := false
		if _, err := (ledger.Viewed{Ledger: l}).Write(e, func(next *ledger.Entry) error {
			if bug {
				panic("a bug")
			}
			next.Notes = []byte("1")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		bug = true
		store.Fail(nil, nil)
		time.Sleep(10 * time.Second)
		if err := note(l, e, "2"); err != nil || reported.Load() != 1 {
			t.Errorf("reported %d times, %v", reported.Load(), err)
		}
	})
}

// After a panic of a subscriber, the entry has further versions, which are told.
func TestPanicOfSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, ledgertest.New().Instance(true), &follower{ends: time.Hour}, time.Hour)
		var told []string
		l.Subscribe(func(e *ledger.Entry) {
			if told = append(told, string(e.Notes)); string(e.Notes) == "1" {
				panic("a bug")
			}
		})
		e := accepted(1)
		l.Add(t.Context(), e, 0)
		if panics.Recovered(func() { _ = note(l, e, "1") }) == nil {
			t.Error("no panic")
		}
		if err := note(l, e, "2"); err != nil || len(told) != 3 || told[2] != "2" {
			t.Errorf("%q, %v", told, err)
		}
	})
}

// A panic of a call, and one of its end, are reported, and the process goes on.
func TestPanicOfEnd(t *testing.T) {
	reports := make(chan any, 2)
	new(ledger.Call).Go(t.Context(), func(_ context.Context, value any, _ []byte) { reports <- value }, func(context.Context) { panic("a bug") },
		func(_ context.Context, bug *run.Failure) {
			if bug == nil {
				t.Error("the end does not hear of it")
			}
			panic("another one")
		})
	for range 2 {
		<-reports
	}
}

// States of a newer build have names that differ, as metrics need them.
func TestStateOfNewerBuild(t *testing.T) {
	if a, b := ledger.State(9).String(), ledger.State(10).String(); a != "state 9" || b != "state 10" {
		t.Errorf("%q, %q", a, b)
	}
}

// An open entry that can be listed, but not read by its id, such as one that another build has written, ends when its time is over.
func TestOverdueEntryThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		start := func(failing string) *ledger.Ledger {
			store := db.Instance(true)
			store.Fail(func(statement string) error {
				if statement == failing {
					return errDisk
				}
				return nil
			}, nil)
			l := ledger.New(ledger.Config{Store: store, Settings: ledger.Settings{Keep: time.Hour}, Trouble: func(error) {}})
			l.Begin(&follower{ends: 100 * time.Hour})
			t.Cleanup(func() { l.Close(t.Context()) })
			return l
		}
		e := accepted(1)
		start("overdue").Add(t.Context(), e, 0)
		start("get")
		time.Sleep(time.Hour + 5*time.Minute)
		if e := db.Entries()[0]; e.State != ledger.Lost {
			t.Errorf("state %d", e.State)
		}
	})
}
