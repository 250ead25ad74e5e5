// Package storetest tests implementations of [ledger.Store]: what is promised there, also if several instances do it at once.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Database is an empty database of a test.
type Database struct {
	// Open returns the store of one more instance, which has renewed its lease.
	Open func(t *testing.T) ledger.Store
	// Later lets an amount of time go by: whatever stands in the database is as much older.
	Later func(t *testing.T, d time.Duration)
	// Forgetful says that nobody else can use the database, so that there are no announcements.
	Forgetful bool
}

// Test tests something that a store promises, with an empty database.
type Test struct {
	Name string
	Run  func(*testing.T, *Database)
}

// Tests are all tests of a store.
var Tests = []Test{
	{"entries keep what they hold", testRoundTrip},
	{"a key has one entry", testClaim},
	{"an expired key is free", testExpiredKey},
	{"a claim is deleted", testDelete},
	{"changes by version", testChange},
	{"how long entries are kept", testKeep},
	{"outcomes apart", testApart},
	{"owners", testOwners},
	{"lists", testList},
	{"lists of one front look at 1,000", testListLooks},
	{"lists by labels", testLabelled},
	{"lists by labels look at 1,000", testLabelledLooks},
	{"a key that is given up", testUnname},
	{"newer versions", testNewer},
	{"usage", testCount},
	{"leases and adoption", testAdopt},
	{"a lost lease", testLost},
	{"expiry", testExpire},
	{"announcements", testAnnounce},
	{"many claim the same keys", testManyClaim},
	{"many change the same entry", testManyChange},
	{"many adopt", testManyAdopt},
	{"many expire, change and claim", testManyExpire},
}

const keep = time.Hour

var (
	alice = ledger.Owner{Realm: "main", Principal: "alice"}
	bob   = ledger.Owner{Realm: "main", Principal: "bob"}
)

// realms are those of alice and bob.
var realms = []string{"other", "main"}

// entry returns a claim of an owner; without a key if that is empty.
func entry(owner ledger.Owner, key string) *ledger.Entry {
	e := &ledger.Entry{Owner: owner, ID: uuid.Must(uuid.NewV7()).String(), Front: "a2a", Skill: "acme.count", Asked: "count"}
	if key != "" {
		e.Key = []byte(key)
	}
	return e
}

// copyOf returns a copy of an entry, for a change.
func copyOf(e *ledger.Entry) *ledger.Entry {
	c := *e
	return &c
}

func claim(t *testing.T, s ledger.Store, e *ledger.Entry) *ledger.Entry {
	t.Helper()
	if present, err := s.Claim(t.Context(), e, keep); err != nil || present != nil {
		t.Fatalf("claim: present %+v, error %v", present, err)
	}
	return e
}

// change changes the state of an entry.
func change(t *testing.T, s ledger.Store, e *ledger.Entry, state ledger.State) *ledger.Entry {
	t.Helper()
	c := copyOf(e)
	c.State = state
	if ok, err := s.Change(t.Context(), c, nil, keep); err != nil || !ok {
		t.Fatalf("change to %d: ok %v, error %v", state, ok, err)
	}
	return c
}

func get(t *testing.T, s ledger.Store, e *ledger.Entry) *ledger.Entry {
	t.Helper()
	got, err := s.Get(t.Context(), e.Identity())
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return got
}

// absent checks that there is no such entry.
func absent(t *testing.T, s ledger.Store, e *ledger.Entry) {
	t.Helper()
	if got, err := s.Get(t.Context(), e.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
		t.Fatalf("get: %+v, error %v", got, err)
	}
}

// same compares all that an entry holds.
func same(t *testing.T, got, want *ledger.Entry) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", *got), fmt.Sprintf("%+v", *want); g != w {
		t.Fatalf("got\n%s\nwant\n%s", g, w)
	}
}

func testRoundTrip(t *testing.T, d *Database) {
	s := d.Open(t)
	odd := "\x00\xff\xfe'\"\\?$1 ü"
	e := &ledger.Entry{
		Owner: ledger.Owner{Realm: odd, Principal: odd}, ID: uuid.Must(uuid.NewV7()).String(), Key: []byte(odd), Front: "skills", Skill: odd, Asked: odd,
		Ref: run.Ref{
			Source: "acme", SkillID: "a/b", Version: "1.2.3", ExecutionID: "ex-1", Accepted: time.UnixMilli(1_700_000_000_123).UTC(),
			NotBefore: time.UnixMilli(1_700_000_009_000).UTC(),
		},
		State: ledger.Working, Args: []byte(odd), Single: true, Notes: []byte(odd), Outcome: []byte(odd),
		Label: ledger.Label{Group: odd, State: 7, At: time.UnixMilli(1_700_000_000_123).UTC()},
	}
	claim(t, s, e)
	if e.Version != 1 || e.Created.IsZero() || !e.Changed.Equal(e.Created) || !e.Expires.Equal(e.Created.Add(keep)) || e.Follower != s.Instance() {
		t.Fatalf("claimed: %+v", e)
	}
	e.Ref.Kept = e.ID
	same(t, get(t, s, e), e)
	named, err := s.Named(t.Context(), e.Owner, e.Key)
	if err != nil {
		t.Fatal(err)
	}
	same(t, named, e)
	c := copyOf(e)
	c.Skill, c.Asked, c.Args, c.Notes, c.Outcome, c.Single, c.State = "other", "o", []byte("a"), []byte("n"), nil, false, ledger.Waiting
	c.Ref, c.Follower = run.Ref{Source: "other", Kept: e.ID}, ""
	if ok, err := s.Change(t.Context(), c, nil, keep); err != nil || !ok || c.Version != 2 {
		t.Fatalf("changed: %v, %v, %+v", ok, err, c)
	}
	same(t, get(t, d.Open(t), e), c)
	empty := claim(t, s, entry(ledger.Owner{}, ""))
	empty.Ref.Kept = empty.ID
	same(t, get(t, s, empty), empty)
}

func testClaim(t *testing.T, d *Database) {
	a, b := d.Open(t), d.Open(t)
	first := claim(t, a, entry(alice, "k"))
	again := copyOf(first)
	again.Version, again.Created = 0, time.Time{}
	claim(t, a, again) // its answer was lost
	if again.Version != 1 || !again.Created.Equal(first.Created) {
		t.Fatalf("sent again: %+v", again)
	}
	second := entry(alice, "k")
	present, err := b.Claim(t.Context(), second, keep)
	if err != nil || present == nil || present.ID != first.ID || present.Follower != a.Instance() {
		t.Fatalf("present %+v, error %v", present, err)
	}
	absent(t, b, second)
	claim(t, b, entry(bob, "k")) // a key of another owner
	claim(t, b, entry(ledger.Owner{Realm: "other", Principal: "alice"}, "k"))
	// Entries without a key don't hinder each other, and one that is sent again is the same.
	claim(t, a, entry(alice, ""))
	none := claim(t, b, entry(alice, ""))
	claim(t, b, copyOf(none))
	// An instance that others think gone sends its claim again: it is still its own.
	d.Later(t, time.Minute)
	if _, err := b.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Adopt(t.Context(), b.Instance(), realms, 50); err != nil {
		t.Fatal(err)
	}
	if got := get(t, b, first); got.State != ledger.Unknown || got.Version != 2 {
		t.Fatalf("adopted: %+v", got)
	}
	again = copyOf(first)
	claim(t, a, again)
	if again.Version != 2 {
		t.Fatalf("sent again after the adoption: %+v", again)
	}
	change(t, a, again, ledger.Completed)
}

func testExpiredKey(t *testing.T, d *Database) {
	s := d.Open(t)
	open := claim(t, s, entry(alice, "open"))
	ended := claim(t, s, entry(alice, "ended"))
	large := copyOf(ended)
	large.State = ledger.Completed
	if ok, err := s.Change(t.Context(), large, make([]byte, 20_000), keep); !ok || err != nil {
		t.Fatal(ok, err)
	}
	d.Later(t, keep-time.Minute)
	if present, err := s.Claim(t.Context(), entry(alice, "ended"), keep); err != nil || present == nil || present.ID != ended.ID {
		t.Fatalf("before it expires: %+v, %v", present, err)
	}
	d.Later(t, 2*time.Minute)
	absent(t, s, ended)
	if _, err := s.Named(t.Context(), alice, ended.Key); !errors.Is(err, ledger.ErrNoEntry) {
		t.Fatalf("named: %v", err)
	}
	if _, err := s.Outcome(t.Context(), ended.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
		t.Fatalf("outcome: %v", err)
	}
	fresh := claim(t, s, entry(alice, "ended"))
	if fresh.Version != 1 || fresh.Expires.Sub(fresh.Created) != keep {
		t.Fatalf("replaced: %+v", fresh)
	}
	if present, err := s.Claim(t.Context(), entry(alice, "open"), keep); err != nil || present == nil || present.ID != open.ID {
		t.Fatalf("an open one is in use: %+v, %v", present, err)
	}
	if u, err := s.Count(t.Context(), &alice); err != nil || u != (ledger.Usage{Entries: 2}) {
		t.Fatalf("usage: %+v, %v", u, err)
	}
}

func testDelete(t *testing.T, d *Database) {
	s := d.Open(t)
	e := claim(t, s, entry(alice, "k"))
	other := e.Identity()
	other.Owner = bob
	for _, id := range []ledger.Identity{other, {Owner: alice, ID: uuid.NewString()}} {
		if err := s.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	get(t, s, e)
	if err := s.Delete(t.Context(), e.Identity()); err != nil {
		t.Fatal(err)
	}
	absent(t, s, e)
	asks := entry(alice, "asks")
	asks.State = ledger.Waiting
	asks = claim(t, s, asks)
	if err := s.Delete(t.Context(), asks.Identity()); err != nil {
		t.Fatal(err)
	}
	absent(t, s, asks)
	for _, state := range []ledger.State{ledger.Waiting, ledger.Accepted, ledger.Working, ledger.Completed, ledger.Lost} {
		e := change(t, s, claim(t, s, entry(alice, "k"+string(rune('0'+state)))), state)
		if err := s.Delete(t.Context(), e.Identity()); err != nil {
			t.Fatal(err)
		}
		get(t, s, e)
	}
}

func testChange(t *testing.T, d *Database) {
	s := d.Open(t)
	first := claim(t, s, entry(alice, "k"))
	second := change(t, s, first, ledger.Working)
	for _, stale := range []*ledger.Entry{copyOf(first), {Owner: bob, ID: first.ID, Version: 2}, {Owner: alice, ID: uuid.NewString(), Version: 1}} {
		if ok, err := s.Change(t.Context(), stale, nil, keep); ok || err != nil {
			t.Fatalf("stale %+v: %v, %v", stale, ok, err)
		}
	}
	ended := change(t, s, second, ledger.Failed)
	if ended.Version != 3 || ended.Follower != "" {
		t.Fatalf("ended: %+v", ended)
	}
	late := copyOf(ended)
	late.State = ledger.Completed
	if ok, err := s.Change(t.Context(), late, []byte("late"), keep); ok || err != nil {
		t.Fatalf("a change of an ended entry: %v, %v", ok, err)
	}
	same(t, get(t, s, ended), withKept(ended))
}

func withKept(e *ledger.Entry) *ledger.Entry {
	e.Ref.Kept = e.ID
	return e
}

func testKeep(t *testing.T, d *Database) {
	s := d.Open(t)
	e := claim(t, s, entry(alice, ""))
	left := func(e *ledger.Entry) time.Duration { return get(t, s, e).Expires.Sub(get(t, s, e).Changed) }
	for _, step := range []struct {
		state ledger.State
		want  time.Duration
	}{
		{ledger.Accepted, keep - time.Minute},
		{ledger.Working, keep - 2*time.Minute},
		{ledger.Waiting, keep},
		{ledger.Submitting, keep},
		{ledger.Working, keep - time.Minute},
		{ledger.Completed, keep},
	} {
		d.Later(t, time.Minute)
		e = get(t, s, e)
		e = change(t, s, e, step.state)
		if got := left(e); (got-step.want).Abs() > 20*time.Second || get(t, s, e).Expires.Sub(e.Expires).Abs() > 5*time.Millisecond { // the clock of PostgreSQL goes on within a statement
			t.Fatalf("in state %d it is kept for %v instead of %v; %v, %v", step.state, got, step.want, get(t, s, e).Expires, e.Expires)
		}
	}
}

func testApart(t *testing.T, d *Database) {
	s := d.Open(t)
	e := claim(t, s, entry(alice, ""))
	if _, err := s.Outcome(t.Context(), e.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
		t.Fatalf("no outcome: %v", err)
	}
	large := bytes.Repeat([]byte{0, 0xff, 'a'}, 10_000)
	c := copyOf(e)
	c.State = ledger.Completed
	if ok, err := s.Change(t.Context(), c, large, keep); err != nil || !ok {
		t.Fatal(ok, err)
	}
	got := get(t, s, e)
	if got.Apart != int64(len(large)) || got.Outcome != nil || c.Apart != got.Apart {
		t.Fatalf("%+v", got)
	}
	if out, err := s.Outcome(t.Context(), e.Identity()); err != nil || !bytes.Equal(out, large) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	stale := claim(t, s, entry(alice, ""))
	stale.Version = 7
	if ok, err := s.Change(t.Context(), stale, large, keep); ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := s.Outcome(t.Context(), stale.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
		t.Fatalf("the outcome of a refused change: %v", err)
	}
}

func testOwners(t *testing.T, d *Database) {
	s := d.Open(t)
	e := claim(t, s, entry(alice, "k"))
	for _, owner := range []ledger.Owner{bob, {Realm: "other", Principal: "alice"}, {Principal: "alice"}, {Realm: "main"}, {Realm: "mainalice"}} {
		theirs := copyOf(e)
		theirs.Owner = owner
		absent(t, s, theirs)
		if _, err := s.Named(t.Context(), owner, e.Key); !errors.Is(err, ledger.ErrNoEntry) {
			t.Fatalf("%+v: named: %v", owner, err)
		}
		if page, next, err := s.List(t.Context(), &ledger.Query{Owner: &owner, Limit: 9}); err != nil || len(page) != 0 || next != "" {
			t.Fatalf("%+v: listed %d, next %q, %v", owner, len(page), next, err)
		}
		newer, err := s.Newer(t.Context(), map[ledger.Identity]int64{theirs.Identity(): 0})
		if err != nil || len(newer) != 1 || newer[0].Version != 0 {
			t.Fatalf("%+v: newer %+v, %v", owner, newer, err)
		}
		if u, err := s.Count(t.Context(), &owner); err != nil || u != (ledger.Usage{}) {
			t.Fatalf("%+v: usage %+v, %v", owner, u, err)
		}
	}
}

func testExpire(t *testing.T, d *Database) {
	s := d.Open(t)
	open := claim(t, s, entry(alice, ""))
	var ended []*ledger.Entry
	for range 25 {
		c := claim(t, s, entry(alice, ""))
		c.State = ledger.Completed
		if ok, err := s.Change(t.Context(), c, []byte("apart"), keep); err != nil || !ok {
			t.Fatal(ok, err)
		}
		ended = append(ended, c)
	}
	if n, err := s.Expire(t.Context(), 10); n != 0 || err != nil {
		t.Fatalf("before they expire: %d, %v", n, err)
	}
	d.Later(t, keep+time.Second)
	fresh := change(t, s, claim(t, s, entry(alice, "")), ledger.Completed)
	if due, err := s.Overdue(t.Context(), 10); err != nil || len(due) != 1 || due[0].ID != open.ID {
		t.Fatalf("overdue: %+v, %v", due, err)
	}
	for _, want := range []int{10, 10, 5, 0} {
		if n, err := s.Expire(t.Context(), 10); n != want || err != nil {
			t.Fatalf("expired %d instead of %d, %v", n, want, err)
		}
	}
	get(t, s, open)
	get(t, s, fresh)
	for _, e := range ended {
		absent(t, s, e)
		if _, err := s.Outcome(t.Context(), e.Identity()); !errors.Is(err, ledger.ErrNoEntry) {
			t.Fatalf("outcome: %v", err)
		}
	}
	if u, err := s.Count(t.Context(), nil); err != nil || u.Entries != 2 || u.Bytes != 0 {
		t.Fatalf("usage %+v, %v", u, err)
	}
}

func testAnnounce(t *testing.T, d *Database) {
	if d.Forgetful {
		t.Skip("nobody else can use this database")
	}
	a, b := d.Open(t), d.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		e := claim(t, a, entry(alice, ""))
		a.Announce([]string{e.ID})
		for heard := false; !heard; {
			select {
			case ids := <-b.Changes():
				heard = ids == nil
				for _, id := range ids {
					heard = heard || id == e.ID
				}
			case <-ctx.Done():
				t.Fatal("the announcement has not come")
			}
		}
	}
}
