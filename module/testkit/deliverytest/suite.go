package deliverytest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// Put stores an entry in the database of a store. Owner, ID, Front, State and Version are set.
type Put func(t *testing.T, e *ledger.Entry)

// tests are those of a store, which is empty.
var tests = []struct {
	name string
	run  func(s suite)
}{
	{"Take", suite.testTake},
	{"Exclusive", suite.testExclusive},
	{"Versions", suite.testVersions},
	{"Settle", suite.testSettle},
	{"ClaimEnds", suite.testClaimEnds},
	{"Claim", suite.testClaim},
	{"Unheard", suite.testUnheard},
	{"Remove", suite.testRemove},
	{"Bounds", suite.testBounds},
	{"Over", suite.testOver},
	{"Waiting", suite.testWaiting},
}

// Test runs the tests. open returns a store that is empty.
func Test(t *testing.T, open func(t *testing.T) (delivery.Store, Put)) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store, put := open(t)
			test.run(suite{t, store, put})
		})
	}
}

type suite struct {
	*testing.T

	delivery.Store
	Put
}

const (
	realm = "a realm"
	front = "a2a"
	long  = time.Hour
)

var served = []delivery.Served{{Realm: realm, Front: front}, {Realm: realm, Front: "another"}}

func id(principal string, n int) ledger.Identity {
	return ledger.Identity{Owner: ledger.Owner{Realm: realm, Principal: principal}, ID: fmt.Sprintf("00000000-0000-7000-8000-%012d", n)}
}

// put stores a version of a run.
func (s suite) put(run ledger.Identity, version int64, state ledger.State) {
	s.Helper()
	s.Put(s.T, &ledger.Entry{Owner: run.Owner, ID: run.ID, Front: front, State: state, Version: version})
}

// add adds a delivery with a cursor.
func (s suite) add(run ledger.Identity, receiver string, cursor int64) {
	s.Helper()
	d := &delivery.Delivery{Run: run, Receiver: receiver, Front: front, Host: receiver + ".example", Target: []byte("\x00\xff" + receiver), Cursor: cursor}
	s.ok(s.Store.Add(s.Context(), d, delivery.Bounds{}))
}

func (s suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// take takes the deliveries of runs.
func (s suite) take(runs ...ledger.Identity) []*delivery.Delivery {
	s.Helper()
	all, err := s.Take(s.Context(), runs, long)
	s.ok(err)
	return all
}

// claim claims due deliveries.
func (s suite) claim() []*delivery.Delivery {
	s.Helper()
	all, err := s.Claim(s.Context(), served, 100, long)
	s.ok(err)
	return all
}

// due adds a delivery that has been due for some time, with news.
func (s suite) due(run ledger.Identity, front string, ago time.Duration) {
	s.Helper()
	s.put(run, 1, ledger.Completed)
	s.ok(s.Store.Add(s.Context(), &delivery.Delivery{Run: run, Receiver: "a", Front: front, Host: "a.example"}, delivery.Bounds{}))
	for _, d := range s.take(run) {
		s.ok(s.Defer(s.Context(), []*delivery.Delivery{d}, []time.Duration{-ago}))
	}
}

func (s suite) settle(d *delivery.Delivery, after time.Duration) bool {
	s.Helper()
	news, err := s.Settle(s.Context(), d, after)
	s.ok(err)
	return news
}

// same compares deliveries by their runs and receivers, in any order.
func (s suite) same(got []*delivery.Delivery, want ...string) {
	s.Helper()
	names := make([]string, 0, len(got))
	for _, d := range got {
		names = append(names, d.Run.Owner.Principal+d.Run.ID[len(d.Run.ID)-1:]+d.Receiver)
	}
	slices.Sort(names)
	slices.Sort(want)
	if strings.Join(names, " ") != strings.Join(want, " ") {
		s.Errorf("%q, want %q", names, want)
	}
}

// What is taken has news, is complete, and is taken once.
func (s suite) testTake() {
	one, two := id("ada\xff\x00", 1), id("", 2)
	s.put(one, 1, ledger.Submitting)
	s.put(two, 3, ledger.Working)
	s.add(one, "a", 0)
	s.ok(s.Store.Add(s.Context(), &delivery.Delivery{Run: one, Receiver: "end", Front: "another", Host: "end.example", EndOnly: true, Tries: 2}, delivery.Bounds{}))
	s.add(two, "x", 3)
	s.add(two, "y", 2)
	s.same(s.take(id("bob", 8)))
	got := s.take(one, two, one)
	s.same(got, "ada\xff\x001a", "2y")
	for _, d := range got {
		if d.Receiver == "a" && (string(d.Target) != "\x00\xffa" || d.Front != front || d.Host != "a.example" || d.Run != one || d.Cursor != 0 || d.Tries != 0 || d.EndOnly || d.Version == 0) {
			s.Errorf("%+v", d)
		}
	}
	s.put(two, 4, ledger.Working)
	s.same(s.take(one, two), "2x")
	s.put(one, 2, ledger.Unknown)
	got = s.take(one)
	s.same(got, "ada\xff\x001end")
	if d := got[0]; d.Front != "another" || !d.EndOnly || d.Tries != 2 || len(d.Target) != 0 {
		s.Errorf("%+v", d)
	}
	s.settle(got[0], 0)
	s.put(one, 3, ledger.Completed)
	s.same(s.take(one), "ada\xff\x001end")
}

// Of many who take or claim a delivery at a time, one gets it.
func (s suite) testExclusive() {
	runs := make([]ledger.Identity, 20)
	for n := range runs {
		runs[n] = id("ada", n)
		if n < 10 {
			s.due(runs[n], front, 0)
		} else {
			s.put(runs[n], 1, ledger.Completed)
			s.add(runs[n], "a", 0)
		}
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	got := map[ledger.Identity]int{}
	for n := range 8 {
		group.Go(func() {
			var all []*delivery.Delivery
			var err error
			if n%2 == 0 {
				all, err = s.Take(s.Context(), runs, long)
			} else {
				all, err = s.Claim(s.Context(), served, 5, long)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				s.Error(err)
			}
			for _, d := range all {
				got[d.Run]++
			}
		})
	}
	group.Wait()
	for _, d := range append(s.take(runs...), s.claim()...) {
		got[d.Run]++
	}
	for _, run := range runs {
		if got[run] != 1 {
			s.Errorf("%v: %d", run.ID, got[run])
		}
	}
}

// A claim that has ended has no effect any more.
func (s suite) testVersions() {
	run := id("ada", 1)
	s.put(run, 1, ledger.Working)
	s.add(run, "a", 0)
	d := s.take(run)[0]
	old := *d
	if ok, err := s.Extend(s.Context(), d, long); !ok || err != nil || d.Version == old.Version {
		s.Fatal(ok, err, d.Version)
	}
	if ok, err := s.Extend(s.Context(), &old, long); ok || err != nil {
		s.Error(ok, err)
	}
	old.Cursor = 1
	s.settle(&old, 0)
	s.ok(s.Done(s.Context(), &old))
	s.same(s.claim())
	again := *d
	s.add(run, "a", 0) // replaces it
	s.settle(d, 0)
	s.ok(s.Done(s.Context(), &again))
	if ok, err := s.Extend(s.Context(), d, long); ok || err != nil {
		s.Error(ok, err)
	}
	taken := s.take(run)
	s.same(taken, "ada1a")
	s.ok(s.Done(s.Context(), taken[0]))
	s.put(run, 2, ledger.Working)
	s.same(s.take(run))
}

// A delivery is idle, or due at a time, with the cursor and the tries that were stored.
func (s suite) testSettle() {
	run := id("ada", 1)
	s.put(run, 1, ledger.Working)
	s.add(run, "a", 0)
	d := s.take(run)[0]
	d.Cursor, d.Tries = 0, 1
	s.settle(d, long)
	s.same(s.take(run)) // not before the time
	s.same(s.claim())
	s.add(run, "a", 0)
	d = s.take(run)[0]
	d.Cursor = 1
	if s.settle(d, delivery.Idle) {
		s.Error("news")
	}
	s.same(s.claim())
	s.put(run, 2, ledger.Working)
	d = s.take(run)[0]
	s.put(run, 3, ledger.Completed)
	d.Cursor, d.Tries = 2, 3
	if !s.settle(d, delivery.Idle) {
		s.Error("no news")
	}
	got := s.claim()
	s.same(got, "ada1a")
	if got[0].Cursor != 2 || got[0].Tries != 3 {
		s.Errorf("%+v", got[0])
	}
	s.settle(got[0], 0)
	s.same(s.take(run), "ada1a")
}

// What is claimed is free again when the time of the claim is over.
func (s suite) testClaimEnds() {
	run := id("ada", 1)
	s.put(run, 1, ledger.Working)
	s.add(run, "a", 0)
	first, err := s.Take(s.Context(), []ledger.Identity{run}, time.Millisecond)
	s.ok(err)
	s.same(first, "ada1a")
	var second []*delivery.Delivery
	for len(second) == 0 {
		second = s.claim()
	}
	s.same(second, "ada1a")
	s.ok(s.Done(s.Context(), first[0]))
	s.settle(second[0], 0)
	s.same(s.claim(), "ada1a")
}

// What is served is claimed in the order in which it was due, unless its time has not come.
func (s suite) testClaim() {
	s.due(id("ada", 4), "another", time.Second)
	s.due(id("ada", 5), front, 0)
	s.due(id("eve", 1), front, time.Minute)
	s.due(id("eve", 2), "unknown", long)
	s.put(id("eve", 3), 1, ledger.Completed)
	s.add(id("eve", 3), "idle", 0)
	first, err := s.Claim(s.Context(), served, 1, long)
	s.ok(err)
	s.same(first, "eve1a")
	s.ok(s.Defer(s.Context(), first, []time.Duration{long}))
	unknown, err := s.Claim(s.Context(), []delivery.Served{{Realm: realm, Front: "unknown"}}, 100, long)
	s.ok(err)
	s.same(unknown, "eve2a")
	none, err := s.Claim(s.Context(), []delivery.Served{{Realm: "another", Front: front}}, 100, long)
	s.ok(err)
	s.same(none)
	rest := s.claim()
	s.same(rest, "ada4a", "ada5a")
	s.ok(s.Defer(s.Context(), append(rest, first...), []time.Duration{0, long, 0})) // the last one has another version now
	s.same(s.claim(), rest[0].Run.Owner.Principal+rest[0].Run.ID[len(rest[0].Run.ID)-1:]+"a")
}

// Runs with news for idle deliveries are found, a part at a time.
func (s suite) testUnheard() {
	s.put(id("ada", 1), 2, ledger.Working)
	s.put(id("ada", 2), 2, ledger.Working)
	s.put(id("ada", 3), 2, ledger.Completed)
	s.put(id("bob", 6), 2, ledger.Completed)
	s.add(id("ada", 1), "news", 1)
	s.add(id("ada", 1), "none", 2)
	s.add(id("bob", 6), "taken", 0)
	s.take(id("bob", 6))
	for n := 2; n <= 3; n++ {
		s.ok(s.Store.Add(s.Context(), &delivery.Delivery{Run: id("ada", n), Receiver: "end", Front: "another", EndOnly: true}, delivery.Bounds{}))
	}
	for _, looks := range []int{1, 2, 100} {
		var names []string
		var next delivery.Key
		for range 10 {
			found, after, err := s.Unheard(s.Context(), next, looks)
			s.ok(err)
			for _, run := range found {
				names = append(names, run.Owner.Principal+run.ID[len(run.ID)-1:])
			}
			if next = after; next == (delivery.Key{}) {
				break
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "ada1 ada3" || next != (delivery.Key{}) {
			s.Errorf("%d looks: %q, %+v", looks, got, next)
		}
	}
}

// A delivery is removed by its run and receiver.
func (s suite) testRemove() {
	run := id("ada", 1)
	for _, other := range []ledger.Identity{run, id("ada", 2), id("bob", 1)} {
		s.put(other, 1, ledger.Completed)
		s.add(other, "a", 0)
	}
	s.add(run, "b", 0)
	s.ok(s.Remove(s.Context(), delivery.Key{Run: run, Receiver: "a"}))
	s.ok(s.Remove(s.Context(), delivery.Key{Run: run, Receiver: "c"}))
	taken := s.take(run, id("ada", 2), id("bob", 1))
	s.same(taken, "ada1b", "ada2a", "bob1a")
	for _, d := range taken {
		s.ok(s.Remove(s.Context(), delivery.Key{Run: d.Run, Receiver: d.Receiver}))
		if ok, err := s.Extend(s.Context(), d, long); ok || err != nil {
			s.Error(ok, err)
		}
	}
}

func (s suite) testWaiting() {
	began := time.Now()
	waiting := func() *delivery.Waiting {
		s.Helper()
		all, err := s.Waiting(s.Context())
		s.ok(err)
		return all
	}
	if all := waiting(); all.Waiting != 0 || !all.Oldest.IsZero() || len(all.Receivers) != 0 {
		s.Errorf("%+v", all)
	}
	for n := range 5 {
		s.put(id("ada", n), 1, ledger.Working)
		s.add(id("ada", n), "a", int64(n/4)) // the last one has nothing to send
	}
	s.put(id("", 1), 1, ledger.Working)
	s.add(id("", 1), "z", 0)
	d := s.take(id("", 1))[0]
	s.settle(d, long)
	s.take(id("ada", 0))
	for n := 1; n < 5; n++ {
		for _, d := range s.take(id("ada", n)) {
			s.ok(s.Defer(s.Context(), []*delivery.Delivery{d}, []time.Duration{0}))
		}
	}
	all := waiting()
	near := func(at, to time.Time) bool { return at.Sub(to).Abs() < 10*time.Minute }
	if len(all.Receivers) != 2 || all.Waiting != 5 || !near(all.Oldest, began) {
		s.Fatalf("%+v", all)
	}
	first, second := all.Receivers[0], all.Receivers[1]
	if first.Host != "a.example" || first.Principal != "ada" || first.Waiting != 4 || !near(first.Oldest, began) || !first.Next.IsZero() {
		s.Errorf("%+v", first)
	}
	if second.Host != "z.example" || second.Principal != "" || second.Waiting != 1 || !near(second.Next, began.Add(long)) {
		s.Errorf("%+v", second)
	}
}
