package ledger_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// failAfter lets the answers to a statement be lost, though it has its effect, until a time.
func failAfter(store *ledgertest.Store, statement string, d time.Duration) {
	until := time.Now().Add(d)
	store.Fail(nil, func(name string) error {
		if name == statement && time.Now().Before(until) {
			return errDisk
		}
		return nil
	})
}

// What was written, although the answer was lost, is told to subscribers, and its run is followed.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		end := p.Accept("add")
		i := start(t, p, db, quiet)
		failAfter(i.Store, "change", 3*time.Second)
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
		time.Sleep(5 * time.Second)
		if states := i.Ended(); len(states) != 1 || db.Ends(db.Entries()[0].ID) != 1 {
			t.Errorf("told: %q", states)
		}
		failAfter(i.Store, "change", 3*time.Second)
		i.Call("l", "acme.add", "", waits(0))
		time.Sleep(5 * time.Second)
		end(4)
		time.Sleep(time.Minute)
		if states := i.Ended(); len(states) != 2 {
			t.Errorf("told: %q", states)
		}
	})
}

// Runs that were adopted, although the answer was lost, are followed.
func TestLostAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		end := p.Accept("sum")
		a, b := start(t, p, db, quiet), start(t, p, db, quiet)
		a.Call("k", "acme.sum", "", waits(0))
		failAfter(b.Store, "adopt", 30*time.Second)
		a.End(a)
		a.Close(t.Context())
		time.Sleep(time.Minute)
		if e := db.Entries()[0]; e.Follower != b.Store.Instance() {
			t.Fatalf("%+v", e)
		}
		end(4)
		time.Sleep(time.Minute)
		if e := db.Entries()[0]; e.State != ledger.Completed {
			t.Errorf("not followed: %+v", e)
		}
	})
}

// When too many ends wait to be written, those go first whose providers can be asked again, and their runs are followed on.
func TestTooManyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		f := &follower{ends: time.Minute, output: 1 << 20}
		store := db.Instance(true)
		l := ledger.New(ledger.Config{Store: store, Trouble: func(error) {}})
		l.Begin(f)
		defer l.Close(t.Context())
		var entries []*ledger.Entry
		for n := range 70 { // some more than 64 MiB
			e := accepted(n)
			l.Add(t.Context(), e, 0)
			entries = append(entries, e)
		}
		store.Fail(func(statement string) error {
			if statement == "change" {
				return errDisk
			}
			return nil
		}, nil)
		time.Sleep(3 * time.Minute)
		polls := f.polls.Load()
		store.Fail(nil, nil)
		time.Sleep(3 * time.Minute)
		for _, e := range entries {
			if now, err := l.Get(t.Context(), e.Identity()); err != nil || now.State != ledger.Completed || db.Ends(e.ID) != 1 {
				t.Errorf("%+v, error %v", now, err)
			}
		}
		if f.polls.Load() == polls {
			t.Error("no end was learned again")
		}
	})
}

// A draft that is lost, because too much waits for the database, gives its place back, and only once.
func TestPlaceOfLostDrafts(t *testing.T) {
	large := make([]byte, 64<<20)
	write := func(l ledger.Viewed, e *ledger.Entry, outcome []byte) error {
		_, err := l.Write(e, func(next *ledger.Entry) error {
			next.State, next.Outcome = ledger.Completed, outcome
			return nil
		})
		return err
	}
	later := func(l ledger.Viewed, e *ledger.Entry) {
		l.WriteLater(e, func(*ledger.Entry) error { return ledger.ErrUnchanged })
	}
	for name, lose := range map[string]func(l ledger.Viewed, e *ledger.Entry) error{
		"no place for it": func(l ledger.Viewed, e *ledger.Entry) error {
			if err := write(l, e, make([]byte, len(large)+1)); !errors.Is(err, ledger.ErrLost) {
				return fmt.Errorf("%w, instead of one that says that it is lost", err)
			}
			return nil
		},
		"others take its place": func(l ledger.Viewed, e *ledger.Entry) error {
			err := write(l, e, []byte("1"))
			for range 50 { // each drops one of the two
				later(l, &ledger.Entry{Owner: bob, ID: "large", Outcome: large})
			}
			return err
		},
		"another change takes its place": func(l ledger.Viewed, e *ledger.Entry) error {
			err := write(l, e, []byte("1"))
			later(l, e)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := ledgertest.New().Instance(true)
				l := ledger.Viewed{Ledger: ledger.New(ledger.Config{
					Store: store, Settings: ledger.Settings{Bounds: ledger.Bounds{RunsOfOne: 1}}, Trouble: func(error) {},
				})}
				l.Begin(&follower{})
				defer l.Close(t.Context())
				draft := func() (*ledger.Entry, *run.Failure) {
					e := &ledger.Entry{Owner: owner}
					return e, l.Draft(t.Context(), e)
				}
				lost, failure := draft()
				if failure != nil {
					t.Fatal(failure)
				}
				store.Fail(func(string) error { return errDisk }, nil)
				if err := lose(l, lost); err != nil {
					t.Fatal(err)
				}
				store.Fail(nil, nil)
				time.Sleep(time.Minute)
				if _, failure = draft(); failure != nil {
					t.Errorf("the place was not given back: %v", failure)
				}
				l.Drop(lost, true)
				if _, failure = draft(); failure == nil {
					t.Error("the place was given back twice")
				}
			})
		})
	}
}

// The end of a run that comes while an earlier state of it is being written, for longer than an end may take, is not forgotten when that ends.
func TestEndBehindSlowWrite(t *testing.T) {
	for name, err := range map[string]error{"is written": nil, "is not written": errDisk} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, db := provider(), ledgertest.New()
				end := p.Accept("sum")
				i := start(t, p, db, quiet)
				var changes atomic.Int64
				ended := make(chan struct{})
				i.Store.Fail(func(statement string) error {
					switch {
					case statement != "change":
						return nil
					case changes.Add(1) == 1:
						return errDisk
					}
					<-ended
					return err
				}, nil)
				time.AfterFunc(2*time.Second, func() { end(3) })
				expect(t, i.Call("k", "acme.sum", ""), "3", false)
				close(ended)
				p.On("GET /status/x-sum", providertest.Answer(http.StatusNotFound, "{}"))
				time.Sleep(time.Second)
				i.Store.Fail(nil, nil)
				time.Sleep(10 * time.Minute)
				expect(t, i.Call("k", "acme.sum", ""), "3", true)
			})
		})
	}
}

// A run whose entry is too large to stay in memory is followed on after it could not be read.
func TestLargeEntryIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		store := db.Instance(true)
		l := open(t, store, &follower{ends: time.Hour}, 0)
		e := accepted(1)
		e.Notes = make([]byte, 2<<10)
		l.Add(t.Context(), e, 0)
		store.Fail(func(statement string) error {
			if statement == "get" {
				return errDisk
			}
			return nil
		}, nil)
		time.Sleep(5 * time.Minute)
		store.Fail(nil, nil)
		time.Sleep(2 * time.Hour)
		if stored := db.Entries()[0]; stored.State != ledger.Completed {
			t.Errorf("%+v", stored.State.Run())
		}
	})
}

// R253: what another build has written is not followed after an adoption whose answer was lost either: it can't be read.
func TestR253ForeignAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, f := ledgertest.New(), &follower{ends: time.Hour}
		gone := open(t, db.Instance(true), &follower{ends: time.Hour}, 0)
		foreign := accepted(1)
		foreign.Ref = run.Ref{}
		gone.Add(t.Context(), foreign, 0)
		store := db.Instance(true)
		l := ledger.New(ledger.Config{Store: store, Trouble: func(error) {}})
		l.Begin(f)
		defer l.Close(t.Context())
		failAfter(store, "adopt", 30*time.Second)
		gone.Close(t.Context())
		time.Sleep(5 * time.Minute)
		if e := db.Entries()[0]; e.Follower != store.Instance() || f.polls.Load() != 0 {
			t.Errorf("%d polls, %+v", f.polls.Load(), e)
		}
	})
}
