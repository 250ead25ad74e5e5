package delivery_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/deliverytest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// A call-back is sent once, when the run has ended, with one claim and one deletion.
func TestCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		e := i.begin(callback, "ada", "one.example")
		e = i.state(e, ledger.Working)
		time.Sleep(10 * time.Minute)
		if n := len(to.all()); n != 0 || i.Calls("Take") != 0 {
			t.Errorf("%d requests before the end, %d statements", n, i.Calls("Take"))
		}
		i.state(e, ledger.Completed)
		synctest.Wait()
		same(t, "at once", to.bodies("one.example"), "003 end")
		if n := fmt.Sprint(i.Calls("Take"), i.Calls("Extend"), i.Calls("Settle"), i.Calls("Done"), i.Calls("Get")); n != "1 0 0 1 0" {
			t.Errorf("statements: %s", n)
		}
		time.Sleep(24 * time.Hour)
		if len(to.all()) != 1 || d.Rows() != 0 {
			t.Errorf("%d requests, %d deliveries", len(to.all()), d.Rows())
		}
		given := i.given()
		if len(given) != 1 || given[0].Try != 1 || given[0].GivenUp || given[0].Status != 200 || given[0].Entry.Version != 3 || given[0].Delivery.Host != "one.example" {
			t.Errorf("%+v", given)
		}
		i.stop()
	})
}

// Each version is sent, in order, to each receiver, and also to one that is added later.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		e := i.begin(push, "ada", "one.example", "two.example")
		for range 3 {
			e = i.state(e, ledger.Working)
		}
		synctest.Wait()
		i.receive(e, "three.example", e.Version)
		synctest.Wait() // else a turn may read the next version before it is heard, and send it whole
		i.state(e, ledger.Completed)
		synctest.Wait()
		all := []string{"001 state", "002 state", "003 state", "004 state", "005 output", "005 end"}
		same(t, "one", to.bodies("one.example"), all...)
		same(t, "two", to.bodies("two.example"), all...)
		same(t, "three", to.bodies("three.example"), all[4:]...)
		if n := d.Rows(); n != 0 {
			t.Errorf("%d deliveries", n)
		}
		i.stop()
	})
}

// An event that is not taken is sent again with growing pauses, and given up in the end.
func TestRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: status(500)}
		i := start(t, d, to)
		i.end("ada", "one.example")
		time.Sleep(23 * time.Hour)
		pauses := []time.Duration{
			5 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour,
		}
		all, given := to.all(), i.given()
		if len(all) != 8 || len(given) != 8 || d.Rows() != 0 {
			t.Fatalf("%d requests, %d reports, %d deliveries", len(all), len(given), d.Rows())
		}
		for n, pause := range pauses {
			if gap := all[n+1].at.Sub(all[n].at); gap < pause || gap > pause+pause/10+11*time.Second {
				t.Errorf("pause %d is %s, want %s", n, gap, pause)
			}
			if a := given[n]; a.Try != n+1 || a.GivenUp || a.Retry < pause {
				t.Errorf("%+v", a)
			}
		}
		if last := given[7]; last.Try != 8 || !last.GivenUp || last.Retry != 0 || last.Status != 500 {
			t.Errorf("%+v", last)
		}
		i.stop()
	})
}

// A receiver that asks for a later request gets it then, but after an hour at the latest, and not sooner than without.
func TestRetryAfter(t *testing.T) {
	for after, want := range map[string][]time.Duration{"120": {2 * time.Minute, 2 * time.Minute, 5 * time.Minute}, "999999": {time.Hour, time.Hour, time.Hour}, "soon": {5 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			to := &receiver{answer: status(429), header: http.Header{"Retry-After": {after}}}
			i := start(t, deliverytest.NewDatabase(), to)
			i.end("ada", "one.example")
			time.Sleep(5 * time.Hour)
			all := to.all()
			for n, pause := range want {
				if gap := all[n+1].at.Sub(all[n].at); gap < pause || gap > pause+pause/10+11*time.Second {
					t.Errorf("%s: pause %d is %s, want %s", after, n, gap, pause)
				}
			}
			i.stop()
		})
	}
}

// A receiver that answers 410, or may not get the event, gets nothing more.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: status(http.StatusGone)}
		i := start(t, d, to)
		i.end("ada", "gone.example")
		denied := i.begin(callback, "ada", "denied.example")
		denied.State, denied.Notes = ledger.Completed, []byte("denied")
		i.Put(*denied)
		time.Sleep(23 * time.Hour)
		given := i.given()
		if len(to.all()) != 1 || len(given) != 2 || d.Rows() != 0 || !given[0].GivenUp || !given[1].GivenUp {
			t.Fatalf("%d requests, %+v", len(to.all()), given)
		}
		slices.SortFunc(given, func(a, b delivery.Attempt) int { return a.Status - b.Status })
		if a := given[0]; a.Problem != "the access rules deny it" || a.Outcome != "" || a.Host != "denied.example" {
			t.Errorf("%+v", a)
		}
		i.stop()
	})
}

// Of several events, each is sent again after pauses, and the next ones are kept meanwhile; what is not taken is lost. After five in a row, nothing more is sent,
// but the receiver is still there.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		d, to := deliverytest.NewDatabase(), new(receiver)
		to.answer = func(n int, r *http.Request) (int, error) {
			body := to.bodies(r.URL.Host)[len(to.bodies(r.URL.Host))-1]
			if r.URL.Host == "dead.example" || r.URL.Host == "shaky.example" && (n%3 != 2 || body == "002 state") {
				refused++
				return 503, nil
			}
			return 200, nil
		}
		i := start(t, d, to)
		e := i.begin(push, "ada", "shaky.example")
		for range 3 {
			e = i.state(e, ledger.Working)
		}
		i.state(e, ledger.Completed)
		time.Sleep(5 * time.Minute)
		same(t, "shaky", slices.Compact(to.bodies("shaky.example")), "001 state", "002 state", "003 state", "004 state", "005 output", "005 end")
		var got []string
		for _, a := range i.given() {
			if a.Entry.Version == 2 {
				got = append(got, fmt.Sprint(a.Try, a.Retry, a.Lost, a.GivenUp))
			}
		}
		same(t, "the lost event", got, "1 1s false false", "2 2s false false", "3 4s false false", "4 8s false false", "5 16s false false", "6 0s true false")
		e = i.begin(push, "ada", "dead.example")
		for range 9 {
			e = i.state(e, ledger.Working)
		}
		time.Sleep(10 * time.Minute)
		i.state(e, ledger.Completed)
		time.Sleep(time.Hour)
		if n := len(to.bodies("dead.example")); n != 5*6 {
			t.Errorf("%d requests", n)
		}
		given := i.given()
		if last := given[len(given)-1]; !last.GivenUp || !last.Lost || last.Try != 6 || last.Retry != 0 || last.Entry.Version != 5 {
			t.Errorf("%+v", last)
		}
		if all, err := i.Deliverer.Of(t.Context(), e.Identity()); err != nil || len(all) != 1 || all[0].Cursor != delivery.Over {
			t.Errorf("%v %+v", err, all)
		}
		i.receive(e, "dead.example", 0) // as its client sets it again
		time.Sleep(time.Hour)
		if n := len(to.bodies("dead.example")); n != 7*6 { // as it was, and the end
			t.Errorf("%d requests after it was set again", n)
		}
		if s := delivery.StatsOf(i.Deliverer); s != (delivery.Stats{}) {
			t.Errorf("%+v", s)
		}
		i.stop()
	})
}

// A receiver that is replaced during a pause gets what follows at its new address, at once when the pause is over.
func TestReplacedInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: dead(status(503))}
		i := start(t, d, to)
		e := i.begin(push, "ada", "dead.example")
		i.state(e, ledger.Working)
		time.Sleep(20 * time.Second) // it pauses for 16 s
		row := &delivery.Delivery{Run: e.Identity(), Receiver: "dead.example", Front: push, Host: "new.example", Target: []byte("https://new.example/"), Cursor: 1}
		if err := i.Deliverer.Add(t.Context(), e, row, delivery.Bounds{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(15 * time.Second)
		if n := len(to.bodies("dead.example")); n != 5 {
			t.Errorf("%d requests to the old address", n)
		}
		same(t, "the new address", to.bodies("new.example"), "002 state")
		i.state(e, ledger.Completed)
		time.Sleep(time.Minute)
		if got := to.bodies("new.example"); len(got) == 0 || got[len(got)-1] != "002 end" && got[len(got)-1] != "003 end" {
			t.Errorf("%q", got)
		}
		i.stop()
	})
}

// An event that can't be sent again before its run expires is given up, and one whose run has expired as well.
// The clock of the database decides.
func TestExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: dead(status(500))}
		d.Ahead = -50 * time.Minute
		i := start(t, d, to)
		e := i.begin(callback, "ada", "dead.example")
		e.State, e.Expires = ledger.Completed, time.Now().Add(d.Ahead+time.Hour)
		i.Put(*e)
		i.end("ada", "dead.example")
		var gone []*ledger.Entry
		for range 20 {
			gone = append(gone, i.end("bob", "dead.example"))
		}
		time.Sleep(25 * time.Second) // some wait for their turns
		for _, e := range gone {
			d.Forget(e.Identity())
		}
		time.Sleep(24 * time.Hour)
		problems := map[string]int{}
		for _, a := range i.given() {
			if a.GivenUp {
				problems[a.Problem]++
			}
			if a.GivenUp && a.Delivery.Run == e.Identity() && a.Try != 5 { // the next one would be two hours later
				t.Errorf("given up after %d requests", a.Try)
			}
		}
		if problems["the run has expired"] == 0 {
			t.Errorf("%v", problems)
		}
		delete(problems, "the run has expired")
		want := map[string]int{"Internal Server Error": 1, "Internal Server Error; the run expires before the next request": 1}
		if !maps.Equal(problems, want) || d.Rows() != 0 {
			t.Errorf("%v, %d left", problems, d.Rows())
		}
		i.stop()
	})
}

// What an instance that crashes has not delivered is delivered by another one, and what a process that ends has left by the next one, at once.
func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, hanging, to := deliverytest.NewDatabase(), &receiver{answer: hang}, new(receiver)
		first, second := start(t, d, hanging), start(t, d, to)
		synctest.Wait() // they look at the database when they begin
		e := first.begin(push, "ada", "one.example")
		first.end("ada", "two.example")
		synctest.Wait()
		first.crash()
		if n := len(hanging.all()); n != 2 || len(to.all()) != 0 {
			t.Fatalf("%d requests of the first instance, %d of the second", n, len(to.all()))
		}
		d.Store(&ledger.Entry{Owner: e.Owner, ID: e.ID, Front: push, State: ledger.Completed, Version: 7}) // no instance says so
		time.Sleep(45 * time.Second)
		same(t, "one", to.bodies("one.example"), "007 whole")
		same(t, "two", to.bodies("two.example"), "002 end")
		for n := range 20 {
			second.end("eve", fmt.Sprintf("host%d.example", n%2))
		}
		synctest.Wait()
		second.stop()
		sent := len(to.all())
		third := start(t, d, to)
		time.Sleep(12 * time.Second)
		if n := len(to.all()); n != 22 || sent != 18 || d.Rows() != 0 {
			t.Errorf("%d requests, then %d; %d deliveries", sent, n, d.Rows())
		}
		third.stop()
	})
}

// A change that nobody was told of is found.
func TestLostWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		e := i.begin(callback, "ada", "one.example")
		time.Sleep(time.Hour)
		d.Store(&ledger.Entry{Owner: e.Owner, ID: e.ID, Front: callback, State: ledger.Completed, Version: 4})
		time.Sleep(75 * time.Second)
		same(t, "after a minute", to.bodies("one.example"), "004 end")
		i.stop()
	})
}

// While the database can't be reached, nothing is lost.
func TestDatabaseDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		to.answer = func(int, *http.Request) (int, error) { time.Sleep(5 * time.Second); return 200, nil }
		i := start(t, d, to)
		i.end("ada", "sending.example")
		e := i.begin(push, "ada", "push.example")
		time.Sleep(time.Second)
		i.Fail(func(string) (error, error) { return deliverytest.ErrDown, nil })
		i.state(e, ledger.Completed)
		time.Sleep(time.Minute)
		i.Fail(nil)
		time.Sleep(90 * time.Second)
		if d.Rows() != 0 || len(to.bodies("sending.example")) > 2 {
			t.Errorf("%d deliveries, %q", d.Rows(), to.bodies("sending.example"))
		}
		if got := to.bodies("push.example"); got[0] != "001 state" || got[len(got)-1][:3] != "002" {
			t.Errorf("%q", got)
		}
		i.stop()
	})
}

// A statement that hangs until it fails is no load: what is due is claimed soon after it.
func TestDatabaseHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: func(n int, _ *http.Request) (int, error) { return []int{500, 200}[min(n, 1)], nil }}
		i := start(t, d, to)
		time.Sleep(time.Minute)
		begun, until := time.Now(), time.Now().Add(10*time.Second)
		i.Fail(func(statement string) (error, error) {
			if statement != "Claim" || time.Now().After(until) {
				return nil, nil
			}
			time.Sleep(10 * time.Second)
			return deliverytest.ErrDown, nil
		})
		i.end("ada", "one.example")
		time.Sleep(10 * time.Minute)
		if all := to.all(); len(all) != 2 || all[1].at.Sub(begun) > 30*time.Second {
			t.Errorf("%d requests, the last after %s", len(all), all[len(all)-1].at.Sub(begun))
		}
		i.stop()
	})
}

// Without a configuration, nothing is sent, and nothing is claimed. A later configuration sends it.
func TestReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		for _, s := range i.fronts {
			i.End(s)
		}
		i.end("ada", "one.example")
		time.Sleep(time.Hour)
		if n := len(to.all()); n != 0 {
			t.Fatalf("%d requests without a configuration", n)
		}
		next := i.sender(callback)
		i.Begin(next)
		synctest.Wait()
		if n := len(to.all()); n != 1 || d.Rows() != 0 {
			t.Errorf("%d requests", n)
		}
		i.End(next)
		i.stop()
	})
}

// A receiver that is removed or replaced gets nothing of what was queued before, also if another instance does so.
func TestReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), &receiver{answer: func(_ int, r *http.Request) (int, error) {
			if r.URL.Host == "slow.example" {
				time.Sleep(9 * time.Second)
			}
			return 200, nil
		}}
		one, two := start(t, d, to), start(t, d, to)
		synctest.Wait()
		for range 8 {
			one.end("ada", "slow.example")
		}
		synctest.Wait() // eight requests are in progress: the others wait
		removed, replaced, other := one.end("ada", "slow.example"), one.end("bob", "slow.example"), one.end("eve", "slow.example")
		time.Sleep(time.Second)
		if err := two.Deliverer.Remove(t.Context(), delivery.Key{Run: removed.Identity(), Receiver: "slow.example"}); err != nil {
			t.Fatal(err)
		}
		for n, e := range []*ledger.Entry{replaced, other} {
			row := &delivery.Delivery{Run: e.Identity(), Receiver: "slow.example", Front: callback, Host: "new.example", Target: []byte("https://new.example/"), EndOnly: true}
			if err := []*instance{one, two}[n].Deliverer.Add(t.Context(), e, row, delivery.Bounds{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if a, b := len(to.bodies("slow.example")), len(to.bodies("new.example")); a != 8 || b != 2 {
			t.Errorf("%d requests to the old receiver, %d to the new one", a, b)
		}
		one.stop()
		two.stop()
	})
}

// What is taken again while the answer of its settlement is under way is sent at once.
func TestTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, to := deliverytest.NewDatabase(), new(receiver)
		i := start(t, d, to)
		i.Fail(func(method string) (error, error) {
			if method == "Settle" {
				return nil, deliverytest.SlowError(100 * time.Millisecond)
			}
			return nil, nil
		})
		e := i.begin(push, "ada", "one.example")
		for range 3 {
			time.Sleep(50 * time.Millisecond)
			e = i.state(e, ledger.Working)
		}
		time.Sleep(time.Second)
		same(t, "within a second", to.bodies("one.example"), "001 state", "002 state", "003 state", "004 state")
		i.stop()
	})
}

// A panic ends neither the Deliverer nor the delivery.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := new(receiver)
		i := start(t, deliverytest.NewDatabase(), to)
		e := i.begin(callback, "ada", "one.example")
		e.State, e.Notes = ledger.Completed, []byte("panic")
		e = i.Put(*e)
		synctest.Wait()
		i.end("ada", "two.example")
		synctest.Wait()
		same(t, "others", to.bodies("two.example"), "002 end")
		e.Notes = nil
		i.Database.Store(e)
		time.Sleep(11 * time.Minute)
		same(t, "later", to.bodies("one.example"), "002 end")
		i.stop()
	})
}

// Whatever fails, events never overtake each other at a receiver, and the last one arrives.
func TestOrder(t *testing.T) {
	seeds := uint64(5)
	if longtest.Runs(longtest.Long) {
		seeds = 30
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			roll := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			to := &receiver{answer: func(int, *http.Request) (int, error) {
				time.Sleep(time.Duration(roll(3000)) * time.Millisecond)
				return []int{200, 200, 200, 503}[roll(4)], nil
			}}
			d := deliverytest.NewDatabase()
			all := []*instance{start(t, d, to), start(t, d, to), start(t, d, to)}
			for _, i := range all {
				i.Fail(func(string) (error, error) {
					switch roll(20) {
					case 0:
						return deliverytest.ErrDown, nil
					case 1:
						return nil, context.DeadlineExceeded
					}
					return nil, nil
				})
			}
			e := all[0].Put(ledger.Entry{Owner: ledger.Owner{Realm: realm, Principal: "ada"}, ID: ids.Next(time.Now()), Front: push, State: ledger.Submitting})
			for _, host := range []string{"one.example", "two.example"} {
				row := &delivery.Delivery{Run: e.Identity(), Receiver: host, Front: push, Host: host, Target: []byte("https://" + host + "/")}
				for all[0].Deliverer.Add(t.Context(), e, row, delivery.Bounds{}) != nil {
				}
			}
			for range 300 {
				e = all[roll(3)].state(e, ledger.Working)
				time.Sleep(time.Duration(roll(2000)) * time.Millisecond)
			}
			all[roll(3)].state(e, ledger.Completed)
			time.Sleep(24 * time.Hour)
			for _, host := range []string{"one.example", "two.example"} {
				var last string
				for _, body := range to.bodies(host) {
					if body[:3] < last {
						t.Fatalf("seed %d: %s: %s after %s", seed, host, body, last)
					}
					last = body[:3]
				}
				if last != "302" {
					t.Errorf("seed %d: %s: the last event is %s", seed, host, last)
				}
			}
			if n := d.Rows(); n != 0 {
				t.Errorf("seed %d: %d deliveries", seed, n)
			}
			for _, i := range all {
				i.stop()
			}
		})
	}
}
