package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// renew renews a lease that has not ended.
func renew(t *testing.T, s ledger.Store) {
	t.Helper()
	if lost, err := s.Renew(t.Context()); err != nil || lost {
		t.Fatalf("renewed: lost %v, %v", lost, err)
	}
}

func adopt(t *testing.T, s ledger.Store, most int) []*ledger.Entry {
	t.Helper()
	adopted, err := s.Adopt(t.Context(), s.Instance(), realms, most)
	if err != nil {
		t.Fatal(err)
	}
	return adopted
}

func testAdopt(t *testing.T, d *Database) {
	a, b := d.Open(t), d.Open(t)
	if a.Instance() == b.Instance() || a.Instance() == "" {
		t.Fatalf("instances %q and %q", a.Instance(), b.Instance())
	}
	submitting := claim(t, a, entry(alice, "k"))
	working := change(t, a, claim(t, a, entry(alice, "")), ledger.Working)
	waiting := copyOf(claim(t, a, entry(alice, "")))
	waiting.Follower = ""
	waiting = change(t, a, waiting, ledger.Waiting)
	ended := change(t, a, claim(t, a, entry(alice, "")), ledger.Completed)
	claim(t, b, entry(alice, ""))
	// A lease is renewed, however long the entries are open.
	for range 4 {
		d.Later(t, 12*time.Second)
		renew(t, a)
		renew(t, b)
		if got := adopt(t, b, 50); len(got) != 0 {
			t.Fatalf("adopted of the living: %+v", got[0])
		}
	}
	d.Later(t, 10*time.Second)
	renew(t, b)
	d.Later(t, 10*time.Second)
	renew(t, b)
	for _, none := range [][]string{nil, {"other"}, {"mai", "main\x00"}} {
		if got, err := b.Adopt(t.Context(), b.Instance(), none, 50); len(got) != 0 || err != nil {
			t.Fatalf("adopted in realms %q: %d, %v", none, len(got), err)
		}
	}
	got := adopt(t, b, 50)
	if len(got) != 2 {
		t.Fatalf("adopted %d", len(got))
	}
	for _, e := range got {
		same(t, get(t, a, e), e)
		switch e.ID {
		case submitting.ID:
			if e.State != ledger.Unknown || e.Follower != "" || e.Version != submitting.Version+1 {
				t.Fatalf("a submission: %+v", e)
			}
		case working.ID:
			if e.State != ledger.Working || e.Follower != b.Instance() || e.Version != working.Version+1 {
				t.Fatalf("a run: %+v", e)
			}
		default:
			t.Fatalf("adopted %+v", e)
		}
	}
	for _, e := range []*ledger.Entry{waiting, ended} {
		if get(t, a, e).Version != e.Version {
			t.Fatalf("%+v was adopted", e)
		}
	}
	// The one who was thought gone has lost its run, but may write the end of its submission.
	if ok, err := a.Change(t.Context(), copyOf(working), nil, keep); ok || err != nil {
		t.Fatalf("a change by the former follower: %v, %v", ok, err)
	}
	again := copyOf(submitting)
	claim(t, a, again)
	change(t, a, again, ledger.Completed)
	if got := adopt(t, b, 50); len(got) != 0 {
		t.Fatalf("adopted again: %+v", got[0])
	}
	// At most as many at once.
	for range 5 {
		claim(t, b, entry(alice, ""))
	}
	d.Later(t, time.Minute)
	if n := len(adopt(t, a, 4)); n != 0 { // perhaps the others could not renew their leases, either
		t.Fatalf("adopted %d without a lease of its own", n)
	}
	if _, err := a.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{4, 3, 0} { // five, the first submission and the run that b has adopted
		if n := len(adopt(t, a, 4)); n != want {
			t.Fatalf("adopted %d instead of %d", n, want)
		}
	}
}

func testLost(t *testing.T, d *Database) {
	a, b := d.Open(t), d.Open(t)
	before := a.Instance()
	e := change(t, a, claim(t, a, entry(alice, "")), ledger.Working)
	d.Later(t, 20*time.Second)
	lost, err := a.Renew(t.Context())
	if err != nil || !lost || a.Instance() == before {
		t.Fatalf("lost %v, instance %q, before %q, %v", lost, a.Instance(), before, err)
	}
	renew(t, a)
	if got, err := a.Adopt(t.Context(), before, realms, 50); len(got) != 0 || err != nil {
		t.Fatalf("as the instance that it was, it adopted %+v, %v", got, err)
	}
	if got := adopt(t, a, 50); len(got) != 1 || got[0].ID != e.ID || got[0].Follower != a.Instance() {
		t.Fatalf("adopted %+v", got)
	}
	// However long an instance was away, what it claims before it looks at its lease can be adopted.
	for range 3 {
		d.Later(t, time.Hour)
		_, err = b.Renew(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		adopt(t, b, 50)
		if _, err := b.Expire(t.Context(), 50); err != nil { // and forgets instances that are gone
			t.Fatal(err)
		}
	}
	late := change(t, a, claim(t, a, entry(alice, "")), ledger.Accepted)
	if _, err := a.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := adopt(t, b, 50); len(got) != 1 || got[0].ID != late.ID {
		t.Fatalf("adopted %+v", got)
	}
}

// stores opens the stores of three instances.
func stores(t *testing.T, d *Database) []ledger.Store {
	t.Helper()
	return []ledger.Store{d.Open(t), d.Open(t), d.Open(t)}
}

// together runs a function in 32 goroutines, which use three instances.
func together(t *testing.T, all []ledger.Store, do func(i int, s ledger.Store) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			if err := do(i, all[i%len(all)]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func testManyClaim(t *testing.T, d *Database) {
	const keys = 40
	all := stores(t, d)
	for _, expired := range []bool{false, true} { // then each key has an entry that has expired
		var won [keys]atomic.Int32
		var winner [keys]sync.Map // ids that were won or present
		together(t, all, func(_ int, s ledger.Store) error {
			for _, k := range rand.Perm(keys) {
				e := entry(alice, fmt.Sprint("k", k))
				e.State = ledger.Working
				present, err := s.Claim(t.Context(), e, keep)
				switch {
				case err != nil:
					return err
				case present == nil:
					won[k].Add(1)
					winner[k].Store(e.ID, true)
				default:
					winner[k].Store(present.ID, true)
				}
			}
			return nil
		})
		for k := range keys {
			n := 0
			winner[k].Range(func(any, any) bool { n++; return true })
			if won[k].Load() != 1 || n != 1 {
				t.Fatalf("expired %v: key %d was claimed %d times, and has %d ids", expired, k, won[k].Load(), n)
			}
			e, err := all[0].Named(t.Context(), alice, fmt.Append(nil, "k", k))
			if err != nil {
				t.Fatal(err)
			}
			change(t, all[0], e, ledger.Completed)
		}
		d.Later(t, 2*keep)
		for _, s := range all {
			if _, err := s.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func testManyChange(t *testing.T, d *Database) {
	const times = 5
	all := stores(t, d)
	e := change(t, all[0], claim(t, all[0], entry(alice, "")), ledger.Working)
	e.Notes = []byte{0}
	if ok, err := all[0].Change(t.Context(), e, nil, keep); !ok || err != nil {
		t.Fatal(ok, err)
	}
	together(t, all, func(_ int, s ledger.Store) error {
		for done := 0; done < times; {
			now, err := s.Get(t.Context(), e.Identity())
			if err != nil {
				return err
			}
			c := copyOf(now)
			c.Notes = []byte{now.Notes[0] + 1}
			ok, err := s.Change(t.Context(), c, nil, keep)
			if err != nil {
				return err
			}
			if ok {
				done++
			}
		}
		return nil
	})
	if got := get(t, all[0], e); got.Notes[0] != 32*times || got.Version != e.Version+32*times {
		t.Fatalf("%d changes, version %d", got.Notes[0], got.Version)
	}
}

func testManyAdopt(t *testing.T, d *Database) {
	all := stores(t, d)
	dead := d.Open(t)
	const runs = 200
	for i := range runs {
		e := entry([]ledger.Owner{alice, bob}[i%2], "")
		e.State = ledger.Working
		claim(t, dead, e)
	}
	d.Later(t, time.Minute)
	for _, s := range all {
		if _, err := s.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var adopted sync.Map
	var n atomic.Int32
	together(t, all, func(_ int, s ledger.Store) error {
		for { // until nothing is left that no other one is adopting
			got, err := s.Adopt(t.Context(), s.Instance(), realms, 7)
			if err != nil || len(got) == 0 {
				return err
			}
			for _, e := range got {
				if _, twice := adopted.LoadOrStore(e.ID, true); twice || e.Follower != s.Instance() || e.Version != 2 {
					return fmt.Errorf("adopted twice (%v): %+v", twice, e)
				}
				n.Add(1)
			}
		}
	})
	if n.Load() != runs {
		t.Fatalf("adopted %d of %d", n.Load(), runs)
	}
}

// testManyExpire lets all happen at once: nothing that is open or young is deleted, and what is counted is what there is.
func testManyExpire(t *testing.T, d *Database) {
	all := stores(t, d)
	for i := range 300 {
		e := entry(alice, fmt.Sprint("old", i))
		e.Notes = make([]byte, 10)
		claim(t, all[0], e)
		if i%3 > 0 {
			change(t, all[0], e, ledger.Completed)
		}
	}
	d.Later(t, 2*keep)
	for _, s := range all {
		if _, err := s.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	var want []string
	var expired atomic.Int32
	together(t, all, func(i int, s ledger.Store) error {
		switch i % 4 {
		case 0:
			for range 10 {
				n, err := s.Expire(t.Context(), 9)
				if err != nil {
					return err
				}
				expired.Add(int32(n))
			}
		case 1: // ends what is overdue
			due, err := s.Overdue(t.Context(), 300)
			if err != nil {
				return err
			}
			for _, e := range due {
				c := copyOf(e)
				c.State = ledger.Lost
				ok, err := s.Change(t.Context(), c, nil, keep)
				if err != nil {
					return err
				}
				if ok {
					mu.Lock()
					want = append(want, e.ID)
					mu.Unlock()
				}
			}
		default: // uses keys, some of which have expired
			for k := range 20 {
				e := entry(alice, fmt.Sprint("old", i*10+k))
				present, err := s.Claim(t.Context(), e, keep)
				if err != nil {
					return err
				}
				if present == nil {
					mu.Lock()
					want = append(want, e.ID)
					mu.Unlock()
				}
			}
		}
		return nil
	})
	for n := 1; n > 0; {
		var err error
		if n, err = all[1].Expire(t.Context(), 1000); err != nil {
			t.Fatal(err)
		}
	}
	got := ids(t, all[2], ledger.Query{Owner: &alice, Limit: 1000})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || expired.Load() == 0 {
		t.Fatalf("expired %d; %d entries instead of %d", expired.Load(), len(got), len(want))
	}
	size := 0
	for _, id := range got {
		size += len(get(t, all[0], &ledger.Entry{Owner: alice, ID: id}).Notes)
	}
	if u, err := all[0].Count(t.Context(), &alice); err != nil || u != (ledger.Usage{Entries: len(got), Bytes: int64(size)}) {
		t.Fatalf("usage %+v of %d entries, %v", u, len(got), err)
	}
}
