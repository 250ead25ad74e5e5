package ledger_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/keptcalls"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is kept has bounds. An outcome without place is read from the provider again, and its call is not executed again.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		bounded := func(b ledger.Bounds) *instance {
			return start(t, p, ledgertest.New(), func(c *ledger.Config) { c.Bounds = b })
		}
		refused := func(a keptcalls.Answer) {
			t.Helper()
			if f := a.Failure; f == nil || f.Kind != run.RateLimited || f.Executed != run.ExecutedNo || f.Limit == nil {
				t.Errorf("%+v", a)
			}
		}
		bob := func(q *keptcalls.Request) { q.Owner = bob }
		for _, b := range []ledger.Bounds{{RunsOfOne: 2}, {Runs: 2}} {
			i := bounded(b)
			expect(t, i.Call("1", "acme.sum", ""), "{}", false)
			expect(t, i.Call("2", "acme.sum", ""), "{}", false)
			refused(i.Call("3", "acme.sum", ""))
			expect(t, i.Call("2", "acme.sum", ""), "{}", true)
			if b.Runs == 0 {
				expect(t, i.Call("3", "acme.sum", "", bob), "{}", false)
			}
			time.Sleep(lifetime)
			expect(t, i.Call("3", "acme.sum", ""), "{}", false)
		}
		p.Forget()
		for _, route := range []string{"POST /run/add", "GET /status/x-add", "GET /result/x-add"} {
			p.On(route, providertest.Completed("x-add", large))
		}
		i := bounded(ledger.Bounds{OutputOfOne: 1000})
		expect(t, i.Call("1", "acme.add", ""), `"`+large+`"`, false)
		expect(t, i.Call("1", "acme.add", ""), `"`+large+`"`, true)
		p.Received(t, "POST /run/add", 1)
		if p.Count("GET /status/x-add") == 0 {
			t.Error("the output was not read from the provider")
		}
	})
}

// What another instance begins counts after ten seconds at the latest.
func TestBoundsOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := provider(), ledgertest.New()
		var instances [2]*instance
		for n := range instances {
			instances[n] = start(t, p, db, func(c *ledger.Config) { c.Bounds.RunsOfOne = 6 })
			expect(t, instances[n].Call(fmt.Sprint(n), "acme.sum", ""), "{}", false)
		}
		for n, i := range instances {
			expect(t, i.Call(fmt.Sprint(n, "more"), "acme.sum", ""), "{}", false)
		}
		time.Sleep(11 * time.Second)
		for n, i := range instances {
			expect(t, i.Call(fmt.Sprint(n), "acme.sum", ""), "{}", true) // it counts
			synctest.Wait()
			expect(t, i.Call(fmt.Sprint(n, "last"), "acme.sum", ""), "{}", false)
			time.Sleep(11 * time.Second)
		}
		for n, i := range instances {
			i.Call(fmt.Sprint(n), "acme.sum", "")
			synctest.Wait()
			if a := i.Call(fmt.Sprint(n, "too many"), "acme.sum", ""); a.Failure == nil || a.Failure.Kind != run.RateLimited {
				t.Errorf("%+v", a)
			}
		}
	})
}

// While the bound of all is reached, what all have is counted once a second, however many owners call.
func TestCountsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := start(t, provider(), ledgertest.New(), func(c *ledger.Config) { c.Bounds.Runs = 1 })
		expect(t, i.Call("1", "acme.sum", ""), "{}", false)
		calls := func() {
			for n := range 20 {
				i.Call("2", "acme.sum", "", func(q *keptcalls.Request) { q.Owner.Principal = strings.Repeat("x", n+1) })
			}
		}
		calls()
		time.Sleep(2 * time.Second)
		before := i.Store.Sent("count")
		calls()
		if n := i.Store.Sent("count") - before; n != 21 {
			t.Errorf("%d counts", n)
		}
	})
}

// large is an output that does not fit into the record of its run.
var large = strings.Repeat("x", 5000)

// provideOnce makes the provider answer each call of the skill once, with a large output.
func provideOnce(p *providertest.Provider) {
	p.Publish(
		providertest.Skill("acme/once", providertest.Object{"endpoint": providertest.Object{"status_url": nil, "result_url": nil}}),
		providertest.Skill("acme/add", nil),
	)
	p.On("POST /run/once", providertest.Completed("x-once", large))
}

// A call whose output only the first answer has is refused, and not sent, while there is no place for the largest output. So the outcome of a call that
// was sent is stored. What is in the store counts, too, after a restart.
func TestPlaceForOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		provideOnce(p)
		bounds := func(c *ledger.Config) { c.Bounds.OutputOfOne = 22_000 }
		most := func(q *keptcalls.Request) { q.MaxOutput = 10_000 }
		i := start(t, p, s, bounds)
		refused := func(i *instance, key, skill string) {
			t.Helper()
			a := i.Call(key, skill, "", most)
			if f := a.Failure; f == nil || f.Kind != run.RateLimited || f.Executed != run.ExecutedNo || f.Limit == nil || f.Limit.Max != 22_000 {
				t.Errorf("%+v", a)
			}
		}
		for _, key := range []string{"1", "2"} {
			expect(t, i.Call(key, "acme.once", "", most), `"`+large+`"`, false)
		}
		after := start(t, p, s.Copy(), bounds)
		for _, i := range []*instance{i, after} {
			expect(t, i.Call("3", "acme.once", "", most), `"`+large+`"`, false)
			refused(i, "4", "acme.once")
			refused(i, "4", "acme.add")
			for _, key := range []string{"1", "2", "3"} {
				expect(t, i.Call(key, "acme.once", "", most), `"`+large+`"`, true)
			}
			expect(t, i.Call("4", "acme.once", "", most, func(q *keptcalls.Request) { q.Owner = bob }), `"`+large+`"`, false)
		}
		p.Received(t, "POST /run/once", 6)
		time.Sleep(lifetime)
		expect(t, i.Call("4", "acme.once", "", most), `"`+large+`"`, false)
	})
}

// A run in progress has a reservation for its output, which ends with it.
func TestReservedPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider()
		provideOnce(p)
		p.On("POST /run/once", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Second)
			providertest.Completed("x-once", 3)(w, r)
		})
		i := start(t, p, ledgertest.New(), func(c *ledger.Config) { c.Bounds.OutputOfOne = 15_000 })
		most := func(q *keptcalls.Request) { q.MaxOutput = 10_000 }
		go i.Call("1", "acme.once", "", most)
		synctest.Wait()
		if a := i.Call("2", "acme.once", "", most); a.Failure == nil || a.Failure.Kind != run.RateLimited {
			t.Errorf("%+v", a)
		}
		time.Sleep(2 * time.Second)
		expect(t, i.Call("2", "acme.once", "", most), "3", false)
		p.Received(t, "POST /run/once", 2)
	})
}

// If an outcome could not be stored nevertheless, and its provider can't be asked, all that ask say what happened, and nothing is executed again.
func TestOutcomeIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := provider(), ledgertest.New()
		provideOnce(p)
		i := start(t, p, s, func(c *ledger.Config) { c.Bounds.OutputOfOne = 1000 }) // and outputs can be larger than the front says
		first := i.Call("1", "acme.once", "")
		expect(t, first, `"`+large+`"`, false)
		for _, each := range []*instance{i, start(t, p, s, nil)} {
			for _, f := range []*run.Failure{each.Call("1", "acme.once", "").Failure, about(each, first.Ref, 0).Failure} {
				if f == nil || f.Kind != run.Internal || f.Executed != run.ExecutedYes || !f.Lost || f.Next() == run.NextRetry ||
					!strings.Contains(f.Message, "has completed") || !strings.Contains(f.Message, "1000 bytes of outcomes of a principal") {
					t.Errorf("%+v", f)
				}
			}
			page, _, err := each.List(t.Context(), &ledger.Query{Owner: &owner, Limit: 1}, func(*ledger.Entry) bool { return true })
			if err != nil || len(page) != 1 || page[0].State != ledger.Completed || !page[0].Unkept() {
				t.Errorf("%+v, error %v", page, err)
			}
		}
		p.Received(t, "POST /run/once", 1)
	})
}

// R252: notes count at once, also those of a change, so that what callers send in a few seconds does not pass the bound.
func TestR252NotesCountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := ledgertest.New().Instance(true)
		l := ledger.Viewed{Ledger: ledger.New(ledger.Config{
			Store: store, Settings: ledger.Settings{Bounds: ledger.Bounds{OutputOfOne: 100_000}}, Trouble: func(err error) { t.Error(err) },
		})}
		l.Begin(&follower{ends: time.Hour})
		defer l.Close(t.Context())
		fits := func(size int, want bool) {
			t.Helper()
			if failure := l.Fits(owner, size); (failure == nil) != want {
				t.Errorf("%d bytes: %v", size, failure)
			}
		}
		claim := accepted(1)
		claim.State, claim.Notes = ledger.Submitting, make([]byte, 40_000)
		draft := &ledger.Entry{Owner: owner, Notes: make([]byte, 20_000)}
		if _, failure := l.Add(t.Context(), claim, 0); failure != nil {
			t.Fatal(failure)
		}
		if failure := l.Draft(t.Context(), draft); failure != nil {
			t.Fatal(failure)
		}
		defer l.OnChange(draft, func(*ledger.Entry) {})() // as its caller attends it
		fits(40_000, true)
		fits(41_000, false)
		now, err := l.Change(t.Context(), claim.Identity(), func(next *ledger.Entry) error {
			next.Notes = make([]byte, 50_000)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Write(draft, func(next *ledger.Entry) error {
			next.State, next.Outcome = ledger.Completed, make([]byte, 20_000) // apart
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		fits(10_000, true)
		fits(11_000, false)
		counted, err := store.Count(t.Context(), &owner)
		if err != nil || counted.Bytes != 90_000 {
			t.Errorf("%+v, %v", counted, err)
		}
		refused := &run.Failure{Executed: run.ExecutedNo}
		if _, gone := l.Agree(t.Context(), now, run.Run{Failure: refused}, ledger.Settling{First: true}, nil); gone != nil {
			t.Errorf("%+v", gone)
		}
		fits(60_000, true)
		fits(61_000, false)
	})
}

// R253: a panic of a count in the background is reported, and the process goes on.
func TestR253PanicOfCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, reported := ledgertest.New().Instance(true), make(chan any, 2)
		l := ledger.New(ledger.Config{Store: store, Trouble: func(error) {}, Panicked: func(_ context.Context, value any, _ []byte) { reported <- value }})
		l.Begin(&follower{ends: time.Hour})
		defer l.Close(t.Context())
		l.Add(t.Context(), accepted(1), 0)
		time.Sleep(11 * time.Second)
		store.Fail(func(statement string) error {
			if statement == "count" {
				panic("a bug")
			}
			return nil
		}, nil)
		if _, failure := l.Add(t.Context(), accepted(2), 0); failure != nil {
			t.Error(failure)
		}
		<-reported
	})
}

// What makes an entry of another instance smaller takes no place while what is kept is counted.
func TestSmallerNotesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := ledgertest.New()
		begin := func(store *ledgertest.Store) ledger.Viewed {
			l := ledger.Viewed{Ledger: ledger.New(ledger.Config{
				Store: store, Settings: ledger.Settings{Bounds: ledger.Bounds{OutputOfOne: 100_000}}, Trouble: func(err error) { t.Error(err) },
			})}
			l.Begin(&follower{ends: time.Hour})
			t.Cleanup(func() { l.Close(context.Background()) })
			return l
		}
		store := db.Instance(true)
		other, l := begin(db.Instance(true)), begin(store)
		large := accepted(1)
		large.Key, large.Notes = []byte("k"), make([]byte, 60_000)
		add := func(l ledger.Viewed, e *ledger.Entry) {
			t.Helper()
			if _, failure := l.Add(t.Context(), e, 0); failure != nil {
				t.Error(failure)
			}
		}
		add(other, large)
		add(l, accepted(2))
		if _, err := l.Change(t.Context(), large.Identity(), func(next *ledger.Entry) error {
			next.Notes = nil
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		counted := make(chan struct{})
		store.Fail(nil, func(statement string) error {
			if statement == "count" {
				<-counted
			}
			return nil
		})
		again := accepted(3)
		again.Key = large.Key
		add(l, again) // what is kept is counted in the background
		synctest.Wait()
		add(l, accepted(4))
		close(counted)
		synctest.Wait()
		if failure := l.Fits(owner, 60_000); failure != nil {
			t.Error(failure)
		}
	})
}
