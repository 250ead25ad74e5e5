package ledger

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A count that began before entries made place says nothing of the place.
func TestCountDuringEviction(t *testing.T) {
	e := &Entry{Owner: Owner{Realm: "r", Principal: "ann"}, ID: "1"}
	entries, counting, counted := 5, make(chan struct{}), make(chan struct{})
	slow := false
	u := &usage{owners: map[Owner]*holding{}, begun: map[Identity]int64{}, count: func(_ context.Context, of *Owner) (Usage, error) {
		n := entries
		if slow && of != nil {
			slow = false
			counting <- struct{}{}
			<-counted
		}
		return Usage{Entries: n}, nil
	}}
	u.set(Bounds{RunsOfOne: 5})
	if err := u.load(t.Context(), e.Owner); err != nil {
		t.Fatal(err)
	}
	u.outdate(e.Owner) // the next count is due
	slow = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = u.recount(context.Background(), &e.Owner)
	}()
	<-counting
	entries = 4
	u.outdate(e.Owner)
	counted <- struct{}{}
	<-done
	if failure := u.begin(t.Context(), e, 0); failure != nil {
		t.Errorf("%+v", failure)
	}
}

// A count does not forget an entry that the store gets while it counts, or later, and forgets one that the store does not get.
func TestCountDuringClaims(t *testing.T) {
	e := &Entry{Owner: Owner{Realm: "r", Principal: "ann"}, ID: "1"}
	for name, of := range map[string]struct{ before, during, after func(u *usage) }{
		"got during the count": {during: func(u *usage) { u.settle(e.Identity(), true) }},
		"got later":            {after: func(u *usage) { u.settle(e.Identity(), true) }},
		"begun during the count": {
			before: func(u *usage) { u.settle(e.Identity(), false) },
			during: func(u *usage) { u.add(e, 0); u.settle(e.Identity(), true) },
		},
	} {
		u := &usage{owners: map[Owner]*holding{}, begun: map[Identity]int64{}}
		during := func(*usage) {}
		u.count = func(context.Context, *Owner) (Usage, error) {
			during(u)
			return Usage{Entries: 3}, nil // of before
		}
		u.set(Bounds{RunsOfOne: 4})
		if err := u.load(t.Context(), e.Owner); err != nil {
			t.Fatal(err)
		}
		call := func(f func(u *usage)) {
			if f != nil {
				f(u)
			}
		}
		if failure := u.begin(t.Context(), e, 0); failure != nil {
			t.Fatalf("%s: %+v", name, failure)
		}
		call(of.before)
		u.outdate(e.Owner)
		during = func(*usage) { call(of.during); during = func(*usage) {} }
		if err := u.recount(t.Context(), &e.Owner); err != nil {
			t.Fatal(err)
		}
		call(of.after)
		if n := u.of(&e.Owner).Entries; n != 4 {
			t.Errorf("%s: %d entries", name, n)
		}
		if u.add(e, 0) == nil {
			t.Errorf("%s: one more than the bound was begun", name)
		}
	}
}

// If all owners together have too much, the next one loses only as much as its new run needs; with too much of its own, also a part of the rest.
func TestEvictions(t *testing.T) {
	owner := Owner{Realm: "r", Principal: "ann"}
	for _, of := range []struct{ all, own, want int }{{1000, 400, 1}, {1003, 400, 4}, {2000, 400, 5}, {600, 500, 5}, {2000, 520, 25}, {9000, 9000, 1000}} {
		u := &usage{owners: map[Owner]*holding{}, begun: map[Identity]int64{}}
		u.set(Bounds{Runs: 1000, RunsOfOne: 500})
		u.all.Entries, u.of(&owner).Entries = of.all, of.own
		if got := u.evicts(owner); got != of.want {
			t.Errorf("%+v: %d", of, got)
		}
	}
}

// The counts of an owner that has as much as it may, each of whose calls begins with one, take 2 % of a processor at most.
func TestCountsAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := 0
		u := &usage{owners: map[Owner]*holding{}, begun: map[Identity]int64{}, count: func(context.Context, *Owner) (Usage, error) {
			counts++
			time.Sleep(40 * time.Millisecond)
			return Usage{Entries: 5}, nil
		}}
		u.set(Bounds{RunsOfOne: 5})
		e := &Entry{Owner: Owner{Realm: "r", Principal: "ann"}, ID: "1"}
		if err := u.load(t.Context(), e.Owner); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
			if u.begin(t.Context(), e, 0) == nil {
				t.Fatal("there is no place")
			}
		}
		if most := 2 * 16; counts > most {
			t.Errorf("%d counts, at most %d", counts, most)
		}
	})
}
