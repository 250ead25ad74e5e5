package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func quiet(c *ledger.Config) { c.Trouble = func(error) {} }

// An instance that is paused after its claim, while the provider answers, loses the run to no one: another instance executes nothing, and says so. The
// paused one writes the end when it goes on.
func TestPausedWhileSubmitting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		a, b := start(t, p, db, quiet), start(t, p, db, nil)
		p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
			a.Store.Pause()
			time.Sleep(time.Second)
			providertest.Completed("e1", 3)(w, r)
		})
		var group sync.WaitGroup
		group.Go(func() { expect(t, a.Call("k", "acme.sum", ""), "3", false) })
		time.Sleep(time.Second)
		if x := b.Call("k", "acme.sum", "", func(q *keptcalls.Request) { q.Call.Timeout = 5 * time.Second }); x.Failure == nil || x.Failure.Kind != run.DeadlineExceeded || x.Failure.Executed != run.ExecutedMaybe {
			t.Errorf("while it may go on: %+v", x)
		}
		for range 2 {
			if x := b.Call("k", "acme.sum", ""); x.Failure == nil || x.Failure.Kind != run.Stopped || x.Failure.Executed != run.ExecutedMaybe || x.Failure.Next() != run.NextNone {
				t.Errorf("after the lease: %+v", x)
			}
		}
		a.Store.Go()
		group.Wait()
		time.Sleep(5 * time.Second)
		expect(t, b.Call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
		if n := db.Ends(db.Entries()[0].ID); n != 1 {
			t.Errorf("%d ends", n)
		}
	})
}

// The run of a paused instance is followed by another one, and ends once.
func TestPausedWhileFollowing(t *testing.T) {
	for name, end := range map[string]time.Duration{"ends before": 5 * time.Second, "ends after": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, db := provider(), ledgertest.New()
				ends := p.Accept("sum")
				a, b, c := start(t, p, db, quiet), start(t, p, db, nil), start(t, p, db, nil)
				a.Call("k", "acme.sum", "", waits(0))
				a.Store.Pause()
				time.AfterFunc(end, func() { ends(3) })
				time.Sleep(25 * time.Second)
				if db.Entries()[0].Follower == a.Store.Instance() {
					t.Error("no other instance follows the run")
				}
				a.Store.Go()
				time.Sleep(2 * time.Minute)
				for _, each := range []*instance{a, b, c} {
					expect(t, each.Call("k", "acme.sum", ""), "3", true)
				}
				if n := db.Ends(db.Entries()[0].ID); n != 1 {
					t.Errorf("%d ends", n)
				}
				p.Received(t, "POST /run/sum", 1)
			})
		})
	}
}

// An instance that can't renew its lease stops polling before another one begins.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		ends := p.Accept("sum")
		a, b := start(t, p, db, quiet), start(t, p, db, nil)
		a.Call("k", "acme.sum", "", waits(0))
		before := a.Store.Instance()
		down(a)
		time.Sleep(26 * time.Second)
		if e := db.Entries()[0]; e.Follower != b.Store.Instance() {
			t.Errorf("%+v", e)
		}
		polls := a.Polls.Load()
		time.Sleep(time.Minute)
		a.Store.Fail(nil, nil)
		time.Sleep(time.Minute)
		if a.Polls.Load() != polls || b.Polls.Load() == 0 || a.Store.Instance() == before {
			t.Errorf("%d and %d polls, then %d; %s", polls, b.Polls.Load(), a.Polls.Load(), a.Store.Instance())
		}
		ends(3)
		time.Sleep(time.Minute)
		expect(t, a.Call("k", "acme.sum", ""), "3", true)
		p.Received(t, "POST /run/sum", 1)
	})
}

// A claim whose answer is an error is sent again: it is the claim of the call, also if it had its effect.
func TestClaimFails(t *testing.T) {
	for _, after := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p, db := provider(), ledgertest.New()
			a, b := start(t, p, db, quiet), start(t, p, db, nil)
			failing := func(until time.Time, err error) func(string) error {
				return func(statement string) error {
					if statement == "claim" && time.Now().Before(until) {
						return err
					}
					return nil
				}
			}
			fail := func(d time.Duration) {
				f := failing(time.Now().Add(d), errDisk)
				if a.Store.Fail(f, nil); after {
					a.Store.Fail(nil, f)
				}
			}
			fail(5 * time.Second)
			expect(t, a.Call("k", "acme.sum", ""), "{}", false)
			expect(t, b.Call("k", "acme.sum", ""), "{}", true)
			fail(time.Minute)
			x := a.Call("l", "acme.sum", "")
			if f := x.Failure; f == nil || f.Executed != run.ExecutedNo || f.Kind != run.Internal || !errors.Is(f, errDisk) {
				t.Errorf("%+v", x)
			}
			expect(t, b.Call("l", "acme.sum", ""), "{}", false) // it waits until the claim is deleted
			fail(time.Minute)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if x := a.CallIn(ctx, "m", "acme.sum", ""); x.Failure == nil || x.Failure.Executed != run.ExecutedNo {
				t.Errorf("%+v", x)
			}
			expect(t, b.Call("m", "acme.sum", ""), "{}", false)
			p.Received(t, "POST /run/sum", 3)
			time.Sleep(time.Minute)
			if n := len(db.Entries()); n != 3 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

// Without room for writing, what is stored can be read.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		i := start(t, p, db, quiet)
		expect(t, i.Call("k", "acme.sum", ""), "{}", false)
		i.Store.Fail(func(statement string) error {
			if statement == "claim" {
				return &ledger.Unavailable{Full: true, Err: errDisk}
			}
			return nil
		}, nil)
		expect(t, i.Call("k", "acme.sum", ""), "{}", true)
		if x := i.Call("l", "acme.sum", ""); x.Failure == nil || x.Failure.Executed != run.ExecutedNo {
			t.Errorf("%+v", x)
		}
		p.Received(t, "POST /run/sum", 1)
	})
}

// A database that is down when a run ends delays the answer by 2 seconds at most, and the end is written when it is up again.
func TestDownAtTheEnd(t *testing.T) {
	for name, slow := range map[string]time.Duration{"refuses": 0, "does not answer": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, db := provider(), ledgertest.New()
				a, b := start(t, p, db, quiet), start(t, p, db, quiet)
				p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
					time.Sleep(time.Second)
					for _, each := range []*instance{a, b} {
						each.Store.Fail(func(string) error {
							time.Sleep(slow)
							return errDisk
						}, nil)
					}
					time.Sleep(9 * time.Second)
					providertest.Completed("e1", 3)(w, r)
				})
				began := time.Now()
				expect(t, a.Call("k", "acme.sum", ""), "3", false)
				if took := time.Since(began); took > 13*time.Second {
					t.Errorf("after %s", took)
				}
				repeated := a.Call("k", "acme.sum", "")
				expect(t, repeated, "3", true)
				if e, err := a.Cancel(t.Context(), repeated.Entry.Identity()); err != nil || e.State != ledger.Completed {
					t.Errorf("%+v, error %v", e, err)
				}
				if e, err := a.Get(t.Context(), repeated.Entry.Identity()); err != nil || e.State != ledger.Completed {
					t.Errorf("%+v, error %v", e, err)
				}
				if x := b.Call("k", "acme.sum", ""); x.Failure == nil || x.Failure.Executed != run.ExecutedNo {
					t.Errorf("%+v", x)
				}
				for _, each := range []*instance{a, b} {
					each.Store.Fail(nil, nil)
				}
				expect(t, b.Call("k", "acme.sum", ""), "3", true)
				time.Sleep(time.Minute)
				expect(t, b.Call("k", "acme.sum", ""), "3", true)
				if len(db.Entries()) != 1 || db.Ends(db.Entries()[0].ID) != 1 {
					t.Errorf("%+v", db.Entries())
				}
				p.Received(t, "POST /run/sum", 1)
			})
		})
	}
}

// After a while without the database, in which all leases have ended, no instance takes another that lives for one that is gone.
func TestDownForLong(t *testing.T) {
	for later := range 11 {
		synctest.Test(t, func(t *testing.T) {
			p, db := provider(), ledgertest.New()
			a := start(t, p, db, quiet)
			time.Sleep(time.Duration(later) * time.Second)
			b := start(t, p, db, quiet)
			back := time.Now().Add(time.Minute)
			p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Second)
				down(a)
				b.Store.Fail(func(statement string) error {
					if statement == "adopt" { // it waits until the database is back
						time.Sleep(time.Until(back))
						return nil
					}
					return errDisk
				}, nil)
				providertest.Completed("e1", 3)(w, r)
			})
			expect(t, a.Call("k", "acme.sum", ""), "3", false)
			time.Sleep(time.Until(back))
			for _, each := range []*instance{b, a} {
				each.Store.Fail(nil, nil)
				time.Sleep(100 * time.Millisecond)
			}
			for range 30 {
				expect(t, b.Call("k", "acme.sum", ""), "3", true)
				time.Sleep(time.Second)
			}
			p.Received(t, "POST /run/sum", 1)
		})
	}
}

// With three instances whose statements are slow and fail, before and after their effect, each key is executed at most once, and all answers with an
// output have the same one.
func TestNeverTwice(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			p, db := provider(), ledgertest.New()
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			chance := func(of float64) bool {
				mu.Lock()
				defer mu.Unlock()
				return random.Float64() < of
			}
			executed := map[string]int{}
			p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
				if chance(0.5) {
					time.Sleep(2 * time.Second)
				}
				providertest.Completed("e", "x")(w, r)
			})
			instances := []*instance{start(t, p, db, quiet), start(t, p, db, quiet), start(t, p, db, quiet)}
			trouble := func(string) error {
				if chance(0.3) {
					time.Sleep(2 * time.Second)
				}
				if chance(0.3) {
					return errDisk
				}
				return nil
			}
			for _, each := range instances {
				each.Store.Fail(trouble, trouble)
			}
			var group sync.WaitGroup
			for n := range 60 {
				key := n % 10
				group.Go(func() {
					if chance(0.3) {
						time.Sleep(3 * time.Second)
					}
					instances[n%3].Call(fmt.Sprint(key), "acme.sum", fmt.Sprintf(`{"a":%d}`, key))
				})
				if n%20 == 7 {
					each := instances[n%3]
					each.Store.Pause()
					time.Sleep(20 * time.Second)
					each.Store.Go()
				}
			}
			group.Wait()
			for _, each := range instances {
				each.Store.Fail(nil, nil)
			}
			for _, inputs := range p.Inputs(t, "sum") {
				executed[inputs]++
			}
			for inputs, n := range executed {
				if n != 1 {
					t.Errorf("seed %d: %s was executed %d times", seed, inputs, n)
				}
			}
			time.Sleep(2 * time.Minute)
			for key := range 10 {
				var said []string
				for _, each := range instances {
					x := each.Call(fmt.Sprint(key), "acme.sum", fmt.Sprintf(`{"a":%d}`, key))
					said = append(said, fmt.Sprint(x.State, string(x.Output), x.Failure != nil))
				}
				if len(slices.Compact(said)) != 1 {
					t.Errorf("seed %d: %d: %q", seed, key, said)
				}
			}
			ends := map[string]int{}
			for _, e := range db.Entries() {
				if ends[e.ID] = db.Ends(e.ID); ends[e.ID] != 1 {
					t.Errorf("seed %d: %d ends of %+v", seed, ends[e.ID], e)
				}
			}
		})
	}
}

// A call costs few statements.
func TestStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		i := start(t, p, db, nil)
		end := p.Accept("add")
		for _, c := range []struct {
			name       string
			call       func()
			statements int
		}{
			{"a call that ends at once", func() { expect(t, i.Call("1", "acme.sum", ""), "{}", false) }, 2},
			{"a repeated call", func() { expect(t, i.Call("1", "acme.sum", ""), "{}", true) }, 1},
			{"a call that is refused", func() { i.Call("2", "acme.none", "") }, 2},
			{"an accepted run", func() {
				i.Call("3", "acme.add", "", waits(0))
				time.Sleep(5 * time.Minute)
				end(3)
				time.Sleep(2 * time.Minute)
			}, 3},
			{"an accepted run without a key", func() { i.Call("", "acme.add", "") }, 3},
		} {
			before := i.Store.Sent("")
			if c.call(); i.Store.Sent("")-before != c.statements {
				t.Errorf("%s: %d statements, want %d", c.name, i.Store.Sent("")-before, c.statements)
			}
		}
	})
}

// A call that waits at an instance for a run that another one follows makes no polls: it hears of the end, and the follower asks as if the call waited there.
func TestWaitElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		end := p.Accept("sum")
		i, other := start(t, p, db, nil), start(t, p, db, nil)
		begun := i.Call("k", "acme.sum", "", waits(0))
		time.Sleep(time.Hour)
		p.Forget()
		before := i.Polls.Load()
		ends := time.Now().Add(20 * time.Second)
		time.AfterFunc(20*time.Second, func() { end(3) })
		for range 2 { // that one goes on, and that it has ended
			began := time.Now()
			o := about(other, begun.Ref, 15*time.Second)
			if waited := time.Since(began); o.GoesOn() && (waited < 15*time.Second || waited > 15100*time.Millisecond || o.RetryAfter < time.Second) {
				t.Errorf("after %s: %+v", waited, o)
			}
			if late := time.Since(ends); o.Failure != nil || late > 0 && (o.State != run.Completed || late > 700*time.Millisecond) {
				t.Errorf("%s after the end: %+v", late, o)
			}
		}
		if n, polls := p.Count("GET /status/x-sum"), int(i.Polls.Load()-before); n == 0 || n != polls || other.Polls.Load() > 0 {
			t.Errorf("%d requests, %d polls of the follower", n, polls)
		}
	})
}

// If the database does not pass on that someone waits, the instance at which a call waits asks the provider itself: the follower may do so every ten minutes.
func TestWaitElsewhereWithoutAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		end := p.Accept("sum")
		i, other := start(t, p, db, nil), start(t, p, db, nil)
		db.Mute()
		begun := i.Call("k", "acme.sum", "", waits(0))
		time.Sleep(5 * time.Hour)
		ends := time.Now().Add(20 * time.Second)
		time.AfterFunc(20*time.Second, func() { end(3) })
		if o := about(other, begun.Ref, time.Minute); o.State != run.Completed || time.Since(ends) > 700*time.Millisecond {
			t.Errorf("%s after the end: %+v", time.Since(ends), o)
		}
	})
}

// When the follower is gone, the instance at which a call waits follows the run.
func TestWaitForOneThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		end := p.Accept("sum")
		i, other := start(t, p, db, func(c *ledger.Config) { c.Trouble = func(error) {} }), start(t, p, db, nil)
		begun := i.Call("k", "acme.sum", "", waits(0))
		i.Store.Pause()
		defer i.Store.Go()
		end(3)
		if o := about(other, begun.Ref, time.Minute); o.State != run.Completed {
			t.Errorf("%+v", o)
		}
	})
}

// R254: the clock of the database jumps by an hour, or its machine was suspended, so that all leases end: no instance takes another that lives for one that
// is gone, in whichever order they notice it.
func TestR254ClockJumps(t *testing.T) {
	for later := range 11 {
		synctest.Test(t, func(t *testing.T) {
			p, db := provider(), ledgertest.New()
			end := p.Accept("add")
			a := start(t, p, db, nil)
			time.Sleep(time.Duration(later) * time.Second)
			b := start(t, p, db, nil)
			p.On("POST /run/sum", func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(22 * time.Second)
				providertest.Completed("e1", 3)(w, r)
			})
			a.Call("l", "acme.add", "", waits(0))
			var group sync.WaitGroup
			group.Go(func() { expect(t, a.Call("k", "acme.sum", ""), "3", false) })
			time.Sleep(1500 * time.Millisecond) // the next renewal is not at the instant of an adoption
			db.Ahead(time.Hour)
			for range 7 {
				group.Go(func() {
					if x := b.Call("k", "acme.sum", ""); x.Failure != nil {
						t.Errorf("%d: %v", later, x.Failure)
					}
				})
				time.Sleep(2 * time.Second)
			}
			end(4)
			group.Wait()
			time.Sleep(time.Minute)
			expect(t, b.Call("l", "acme.add", ""), "4", true)
			p.Received(t, "POST /run/sum", 1)
		})
	}
}

// R255: a replica takes over that lacks the last changes of a run, or its entry: what comes then is known to all who watch the run, and it is asked about no
// longer than before.
func TestR255OlderState(t *testing.T) {
	for name, gone := range map[string]bool{"an older version": false, "no entry": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, db := provider(), ledgertest.New()
				end := p.Accept("sum")
				a, b := start(t, p, db, quiet), start(t, p, db, quiet)
				replica := db.Copy()
				begun := a.Call("k", "acme.sum", "", waits(0))
				if !gone {
					replica = db.Copy()
				}
				for n := range 3 {
					if err := note(a.Ledger, begun.Entry, fmt.Sprint(n)); err != nil {
						t.Fatal(err)
					}
				}
				watched := map[*instance]*ledger.Feed{}
				for _, each := range []*instance{a, b} {
					if gone { // who watches would hear of that otherwise
						break
					}
					e, err := each.Get(t.Context(), begun.Entry.Identity())
					if err != nil {
						t.Fatal(err)
					}
					watched[each] = each.Feed(e)
					defer watched[each].Close()
				}
				time.Sleep(time.Second)
				db.Restore(replica)
				end(3)
				time.Sleep(5 * time.Minute)
				for each, feed := range watched {
					var last *ledger.Entry
					for open := true; open; {
						select {
						case e, more := <-feed.Versions:
							if open = more; more {
								last = e
							}
						default:
							t.Error("who watches it does not hear of its end")
							open = false
						}
					}
					if last == nil || last.State != ledger.Completed {
						t.Errorf("the follower %t: %+v", each == a, last)
					}
				}
				polls := a.Polls.Load() + b.Polls.Load()
				time.Sleep(time.Hour)
				if n := a.Polls.Load() + b.Polls.Load() - polls; n > 0 {
					t.Errorf("%d polls of a run that has ended, or is not kept any more", n)
				}
			})
		})
	}
}
