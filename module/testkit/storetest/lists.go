package storetest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// ids returns the ids of all pages of a list.
func ids(t *testing.T, s ledger.Store, q ledger.Query) []string {
	t.Helper()
	var all []string
	for range 1000 {
		page, next, err := s.List(t.Context(), &q)
		if err != nil || len(page) > q.Limit {
			t.Fatalf("%d entries of %d, %v", len(page), q.Limit, err)
		}
		for _, e := range page {
			if e.Ref.Kept != e.ID || e.Version == 0 || e.Created.IsZero() {
				t.Fatalf("%+v", e)
			}
			all = append(all, e.ID)
		}
		if next == "" {
			return all
		}
		q.Before = next
	}
	t.Fatal("pages without end")
	return nil
}

func testList(t *testing.T, d *Database) {
	s := d.Open(t)
	states := []ledger.State{ledger.Submitting, ledger.Waiting, ledger.Working, ledger.Completed, ledger.Failed}
	fronts := []string{"a2a", "mcp", "skills"}
	var all []*ledger.Entry
	for i := range 60 {
		e := entry([]ledger.Owner{alice, bob}[i%2], "")
		e.Front, e.State = fronts[i%3], states[i/2%5]
		if i%4 == 1 {
			e.Skill = "acme.other"
		}
		all = append(all, claim(t, s, e))
	}
	want := func(q ledger.Query) []string {
		var want []string
		for _, e := range slices.Backward(all) {
			if (q.Owner == nil && ledgertest.Selects(&q.Operator, e) || q.Owner != nil && e.Owner == *q.Owner) && (len(q.States) == 0 || slices.Contains(q.States, e.State)) &&
				(len(q.Fronts) == 0 || slices.Contains(q.Fronts, e.Front)) && (q.Before == "" || e.ID < q.Before) {
				want = append(want, e.ID)
			}
		}
		return want
	}
	check := func(q ledger.Query) {
		t.Helper()
		if got, want := ids(t, s, q), want(q); !slices.Equal(got, want) {
			t.Fatalf("%+v: got %d\n%v\nwant %d\n%v", q, len(got), got, len(want), want)
		}
	}
	for _, owner := range []*ledger.Owner{nil, &alice, &bob} {
		for _, wanted := range [][]ledger.State{nil, {ledger.Working}, {ledger.Completed, ledger.Submitting}, {ledger.Lost, ledger.Failed}, states} {
			for _, of := range [][]string{nil, {"mcp"}, {"a2a", "skills"}, {"none"}} {
				for _, limit := range []int{1, 7, 10, 100} {
					for _, before := range []string{"", all[31].ID} {
						q := ledger.Query{Owner: owner, States: wanted, Fronts: of, Limit: limit, Before: before}
						check(q)
						if owner == nil {
							q.Operator = ledger.Selection{ID: all[20].ID}
							check(q)
							q.Operator = ledger.Selection{Skill: all[5].Skill}
							check(q)
						}
					}
				}
			}
		}
	}
}

func testListLooks(t *testing.T, d *Database) {
	s := d.Open(t)
	first := entry(alice, "")
	first.Front, first.Skill = "mcp", "acme.rare"
	claim(t, s, first)
	for range 1100 {
		claim(t, s, entry(alice, ""))
	}
	for _, q := range []ledger.Query{
		{Owner: &alice, Fronts: []string{"mcp"}, Limit: 50},
		{Fronts: []string{"mcp"}, Limit: 50},
		{Operator: ledger.Selection{Skill: "acme.rare"}, Limit: 50},
		{Operator: ledger.Selection{Skill: "acme.rare"}, States: []ledger.State{ledger.Submitting, ledger.Working}, Limit: 50},
	} {
		page, next, err := s.List(t.Context(), &q)
		if err != nil || len(page) != 0 || next == "" {
			t.Fatalf("%+v: the first page: %d, next %q, %v", q, len(page), next, err)
		}
		if got := ids(t, s, q); !slices.Equal(got, []string{first.ID}) {
			t.Fatalf("%+v: got %v", q, got)
		}
	}
	one := ledger.Query{Operator: ledger.Selection{ID: first.ID, Skill: "acme.rare"}, States: []ledger.State{ledger.Submitting, ledger.Working}, Limit: 50}
	if got := ids(t, s, one); !slices.Equal(got, []string{first.ID}) {
		t.Errorf("one run: got %v", got)
	}
}

func testLabelled(t *testing.T, d *Database) {
	s := d.Open(t)
	var all []*ledger.Entry
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for i := range 40 {
		e := entry([]ledger.Owner{alice, bob}[i%4/3], "")
		e.Skill, e.State = []string{"a", "b"}[i%2], []ledger.State{ledger.Working, ledger.Waiting}[i%2]
		e.Label = ledger.Label{Group: []string{"x", "y", "x"}[i%3], State: uint8(1 + i%5), At: at.Add(time.Duration(i*7%10) * time.Second)}
		e.Notes = make([]byte, 100)
		all = append(all, claim(t, s, e))
	}
	claim(t, s, entry(alice, "")) // has no label
	ended := change(t, s, all[0], ledger.Completed)
	large := *all[1]
	large.State = ledger.Completed
	if ok, err := s.Change(t.Context(), &large, make([]byte, 500), keep); err != nil || !ok {
		t.Fatal(ok, err)
	}
	order := func(a, b *ledger.Entry) int {
		return cmp.Or(b.Label.At.Compare(a.Label.At), strings.Compare(b.ID, a.ID))
	}
	for _, q := range []ledger.LabelQuery{
		{}, {Group: "x"}, {Skill: "b"}, {State: 3}, {Since: at.Add(4 * time.Second)}, {Since: at.Add(4*time.Second + time.Microsecond)}, {Group: "y", Skill: "a", State: 1}, {Group: "none"}, {Whole: true}, {Bytes: 350}, {Bytes: 350, Whole: true},
	} {
		for _, limit := range []int{1, 7, 100} {
			q.Owner, q.Limit, q.Bytes = alice, limit, cmp.Or(q.Bytes, 1<<20)
			var want, got []string
			for _, e := range slices.SortedFunc(slices.Values(all), order) {
				of := e.Label
				if e.Owner == alice && (q.Group == "" || q.Group == of.Group) && (q.Skill == "" || q.Skill == e.Skill) && (q.State == 0 || q.State == of.State) && !of.At.Before(q.Since) {
					want = append(want, e.ID)
				}
			}
			for p := q; ; {
				page, err := s.Labelled(t.Context(), &p)
				if err != nil || page.Total != len(want) || len(page.Entries) > limit || page.More && len(page.Entries) == 0 || q.Bytes < 1000 && len(page.Entries) > 3 {
					t.Fatalf("%+v: %d of %d, %+v, %v", p, page.Total, len(want), page, err)
				}
				for _, e := range page.Entries {
					got = append(got, e.ID)
					if e.ID == large.ID && (len(page.Apart[e.ID]) == 500) != q.Whole {
						t.Errorf("the outcome: %d bytes", len(page.Apart[e.ID]))
					}
				}
				if !page.More {
					break
				}
				p.After, p.AfterID = page.NextAt, page.NextID
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v: got %v\nwant %v", q, got, want)
			}
		}
	}
	if n, err := s.Evict(t.Context(), alice, 1); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if _, err := s.Get(t.Context(), ended.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
		t.Errorf("the oldest ended one: %v", err)
	}
	if n, err := s.Evict(t.Context(), alice, 9); n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func testLabelledLooks(t *testing.T, d *Database) {
	s := d.Open(t)
	at := time.UnixMilli(1_700_000_000_000).UTC()
	var first *ledger.Entry
	for i := range 1100 {
		e := entry(alice, "")
		if e.Label = (ledger.Label{Group: "g", State: 1, At: at.Add(time.Duration(i) * time.Millisecond)}); i == 0 {
			e.Label.State, first = 2, e
		}
		claim(t, s, e)
	}
	q := &ledger.LabelQuery{Owner: alice, State: 2, Limit: 50, Bytes: 1 << 20}
	page, err := s.Labelled(t.Context(), q)
	if err != nil || len(page.Entries) != 0 || !page.More || page.Total != 0 {
		t.Fatalf("the first page: %+v, %v", page, err)
	}
	q.After, q.AfterID = page.NextAt, page.NextID
	if page, err = s.Labelled(t.Context(), q); err != nil || len(page.Entries) != 1 || page.Entries[0].ID != first.ID || page.More {
		t.Fatalf("the second page: %+v, %v", page, err)
	}
	if page, err = s.Labelled(t.Context(), &ledger.LabelQuery{Owner: alice, Limit: 50, Bytes: 1 << 20}); err != nil || len(page.Entries) != 50 || !page.More || page.Total != 1000 {
		t.Fatalf("the first page of all: %+v, %v", page, err)
	}
}

func testUnname(t *testing.T, d *Database) {
	s := d.Open(t)
	first := claim(t, s, entry(alice, "key"))
	if err := s.Unname(t.Context(), first.Identity()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Named(t.Context(), alice, first.Key); err != nil {
		t.Fatalf("an open entry has lost its key: %v", err)
	}
	change(t, s, first, ledger.Completed)
	if err := s.Unname(t.Context(), first.Identity()); err != nil {
		t.Fatal(err)
	}
	second := claim(t, s, entry(alice, "key"))
	if got, err := s.Named(t.Context(), alice, second.Key); err != nil || got.ID != second.ID {
		t.Fatal(got, err)
	}
	if _, err := s.Get(t.Context(), first.Identity()); err != nil {
		t.Error(err)
	}
}

func testNewer(t *testing.T, d *Database) {
	s := d.Open(t)
	known := make(map[ledger.Identity]int64)
	unchanged := claim(t, s, entry(alice, ""))
	changed := claim(t, s, entry(bob, ""))
	gone := claim(t, s, entry(alice, ""))
	expired := change(t, s, claim(t, s, entry(alice, "")), ledger.Completed)
	odd := claim(t, s, entry(ledger.Owner{Realm: "\x00\xff", Principal: "'\"[]{},"}, ""))
	for _, e := range []*ledger.Entry{unchanged, changed, gone, expired, odd} {
		known[e.Identity()] = e.Version
	}
	never := ledger.Identity{Owner: alice, ID: uuid.NewString()}
	known[never] = 1
	changed = change(t, s, changed, ledger.Working)
	odd = change(t, s, odd, ledger.Waiting)
	d.Later(t, 2*keep)
	if err := s.Delete(t.Context(), gone.Identity()); err != nil {
		t.Fatal(err)
	}
	newer, err := s.Newer(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[ledger.Identity]int64)
	for _, e := range newer {
		got[e.Identity()] = e.Version
		if e.Version != 0 && e.State == ledger.Submitting {
			t.Fatalf("%+v", e)
		}
	}
	want := map[ledger.Identity]int64{changed.Identity(): 2, odd.Identity(): 2, gone.Identity(): 0, expired.Identity(): 0, never: 0}
	if len(got) != len(want) || len(newer) != len(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for id, version := range want {
		if v, ok := got[id]; !ok || v != version {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func testCount(t *testing.T, d *Database) {
	s := d.Open(t)
	check := func(owner *ledger.Owner, want ledger.Usage) {
		t.Helper()
		if got, err := s.Count(t.Context(), owner); err != nil || got != want {
			t.Fatalf("got %+v, want %+v, %v", got, want, err)
		}
	}
	check(nil, ledger.Usage{})
	e := entry(alice, "")
	e.Notes, e.Outcome = make([]byte, 10), make([]byte, 5)
	claim(t, s, e)
	gone := claim(t, s, entry(alice, ""))
	claim(t, s, copyOf(claim(t, s, entry(bob, "k")))) // sent again
	check(&alice, ledger.Usage{Entries: 2, Bytes: 15})
	check(nil, ledger.Usage{Entries: 3, Bytes: 15})
	c := copyOf(e)
	c.Notes, c.Outcome, c.State = make([]byte, 3), nil, ledger.Completed
	if ok, err := s.Change(t.Context(), c, make([]byte, 20_000), keep); err != nil || !ok {
		t.Fatal(ok, err)
	}
	check(&alice, ledger.Usage{Entries: 2, Bytes: 20_003})
	if err := s.Delete(t.Context(), gone.Identity()); err != nil {
		t.Fatal(err)
	}
	check(&alice, ledger.Usage{Entries: 1, Bytes: 20_003})
	check(&bob, ledger.Usage{Entries: 1})
	check(nil, ledger.Usage{Entries: 2, Bytes: 20_003})
}
