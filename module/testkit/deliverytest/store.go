// Package deliverytest has a [delivery.Store] in memory, and the tests that each implementation has to pass.
package deliverytest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/delivery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
)

// ErrDown is the error of an [Instance] whose database can't be reached.
var ErrDown = errors.New("the database can't be reached")

// SlowError makes a statement of an [Instance] answer later, instead of an error after its effect.
type SlowError time.Duration

// Error implements error.
func (s SlowError) Error() string { return "slow" }

// Database has runs and deliveries in memory, which instances share.
type Database struct {
	Ahead time.Duration // of its clock, before time.Now

	mu   sync.Mutex
	rows map[delivery.Key]*row
	runs map[ledger.Identity]*ledger.Entry
}

type row struct {
	delivery.Delivery
	next    time.Time // zero: idle
	since   time.Time
	claimed bool
}

func (d *Database) now() time.Time { return time.Now().Add(d.Ahead) }

// NewDatabase returns an empty database.
func NewDatabase() *Database {
	return &Database{rows: map[delivery.Key]*row{}, runs: map[ledger.Identity]*ledger.Entry{}}
}

// Rows returns how many deliveries there are that are not over.
func (d *Database) Rows() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		if r.Cursor != delivery.Over {
			n++
		}
	}
	return n
}

// Row returns a delivery; nil: there is none.
func (d *Database) Row(run ledger.Identity, receiver string) *delivery.Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.rows[delivery.Key{Run: run, Receiver: receiver}]; r != nil {
		own := r.Delivery
		return &own
	}
	return nil
}

// Store stores an entry with its version.
func (d *Database) Store(e *ledger.Entry) {
	d.mu.Lock()
	defer d.mu.Unlock()
	own := *e
	d.runs[e.Identity()] = &own
}

// Claimed stores an entry with its receiver, as a claim does.
func (d *Database) Claimed(e *ledger.Entry) {
	d.Store(e)
	if to := e.Receiver; to != nil {
		row := &delivery.Delivery{Run: e.Identity(), Receiver: to.Name, Front: e.Front, Host: to.Host, Target: to.Target, EndOnly: to.EndOnly}
		_ = d.Instance().Add(context.Background(), row, delivery.Bounds{}) // the run is there
	}
}

// Forget deletes a run, as when it has expired.
func (d *Database) Forget(run ledger.Identity) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.runs, run)
	for k := range d.rows {
		if k.Run == run {
			delete(d.rows, k)
		}
	}
}

// news reports whether a run has news for a delivery.
func (d *Database) news(r *row) bool {
	e := d.runs[r.Run]
	return e != nil && e.Version > r.Cursor && (!r.EndOnly || e.State.Ended() || e.State == ledger.Unknown)
}

// Instance is an instance of the bridge at the database. It implements [delivery.Store] and [delivery.Runs].
type Instance struct {
	*Database

	mu    sync.Mutex
	tell  []func(*ledger.Entry)
	fails func(method string) (before, after error)
	calls map[string]int
}

// Instance returns another instance.
func (d *Database) Instance() *Instance { return &Instance{Database: d, calls: map[string]int{}} }

// Fail makes statements return the errors of a function: before they have an effect, or after. nil: none fails.
func (i *Instance) Fail(fails func(method string) (before, after error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fails = fails
}

// Calls returns how often a method was called.
func (i *Instance) Calls(method string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.calls[method]
}

// Put stores the next version of an entry, and tells those who have subscribed at this instance.
func (i *Instance) Put(e ledger.Entry) *ledger.Entry {
	i.Database.mu.Lock()
	e.Version = 1
	if old := i.runs[e.Identity()]; old != nil {
		e.Version = old.Version + 1
	}
	i.runs[e.Identity()] = &e
	i.Database.mu.Unlock()
	i.mu.Lock()
	tell := i.tell
	i.mu.Unlock()
	for _, f := range tell {
		f(&e)
	}
	return &e
}

// Subscribe implements [delivery.Runs].
func (i *Instance) Subscribe(tell func(*ledger.Entry)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.tell = append(i.tell, tell)
}

// Get implements [delivery.Runs].
func (i *Instance) Get(_ context.Context, id ledger.Identity) (e *ledger.Entry, err error) {
	err = i.do("Get", func() error {
		if e = i.runs[id]; e == nil {
			return ledger.ErrNoEntry
		}
		return nil
	})
	return e, err
}

// do executes a statement.
func (i *Instance) do(method string, f func() error) error {
	i.mu.Lock()
	i.calls[method]++
	fails := i.fails
	i.mu.Unlock()
	var before, after error
	if fails != nil {
		before, after = fails(method)
	}
	if before != nil {
		return before
	}
	i.Database.mu.Lock()
	err := f()
	i.Database.mu.Unlock()
	if slow, ok := errors.AsType[SlowError](after); ok {
		time.Sleep(time.Duration(slow))
		return err
	}
	return errors.Join(err, after)
}

// Add implements [delivery.Store].
func (i *Instance) Add(_ context.Context, d *delivery.Delivery, most delivery.Bounds) error {
	return i.do("Add", func() error {
		if i.runs[d.Run] == nil {
			return ledger.ErrNoEntry
		}
		var ofRun, ofOwner int
		for k := range i.rows {
			if k.Run == d.Run {
				ofRun++
			}
			if k.Run.Owner == d.Run.Owner {
				ofOwner++
			}
		}
		if i.rows[delivery.Key{Run: d.Run, Receiver: d.Receiver}] == nil && (most.OfRun > 0 && ofRun >= most.OfRun || most.OfOwner > 0 && ofOwner >= most.OfOwner) {
			return delivery.ErrTooMany
		}
		r := &row{Delivery: *d}
		r.Target = bytes.Clone(d.Target)
		if old := i.rows[delivery.Key{Run: d.Run, Receiver: d.Receiver}]; old != nil {
			r.Version = old.Version
		}
		r.Version++
		i.rows[delivery.Key{Run: d.Run, Receiver: d.Receiver}] = r
		return nil
	})
}

// Remove implements [delivery.Store].
func (i *Instance) Remove(_ context.Context, k delivery.Key) error {
	return i.do("Remove", func() error {
		delete(i.rows, k)
		return nil
	})
}

// Of implements [delivery.Store].
func (i *Instance) Of(_ context.Context, run ledger.Identity) (all []*delivery.Delivery, err error) {
	err = i.do("Of", func() error {
		for k, r := range i.rows {
			if k.Run == run {
				own := r.Delivery
				own.Next, own.Since = r.next, r.since
				all = append(all, &own)
			}
		}
		slices.SortFunc(all, func(a, b *delivery.Delivery) int { return cmp.Compare(a.Receiver, b.Receiver) })
		return nil
	})
	return all, err
}

// claim claims a row.
func (r *row) claim(now time.Time, time time.Duration) *delivery.Delivery {
	if r.since.IsZero() {
		r.since = now
	}
	r.Version++
	r.claimed, r.next = true, now.Add(time)
	own := r.Delivery
	own.Next, own.Since, own.Claimed = r.next, r.since, true
	return &own
}

// Take implements [delivery.Store].
func (i *Instance) Take(_ context.Context, runs []ledger.Identity, claim time.Duration) (taken []*delivery.Delivery, err error) {
	err = i.do("Take", func() error {
		now, wanted := i.now(), map[ledger.Identity]bool{}
		for _, id := range runs {
			wanted[id] = true
		}
		for _, r := range i.rows {
			if wanted[r.Run] && !r.next.After(now) && i.news(r) {
				taken = append(taken, r.claim(now, claim))
			}
		}
		return nil
	})
	return taken, err
}

// Claim implements [delivery.Store].
func (i *Instance) Claim(_ context.Context, served []delivery.Served, most int, claim time.Duration) (claimed []*delivery.Delivery, err error) {
	err = i.do("Claim", func() error {
		now := i.now()
		var due []*row
		for _, r := range i.rows {
			if slices.Contains(served, r.Served()) && !r.next.IsZero() && !r.next.After(now) {
				due = append(due, r)
			}
		}
		slices.SortFunc(due, func(a, b *row) int { return a.next.Compare(b.next) })
		for _, r := range due[:min(most, len(due))] {
			claimed = append(claimed, r.claim(now, claim))
		}
		return nil
	})
	return claimed, err
}

// its returns the row of a delivery; nil: it has another version.
func (d *Database) its(of *delivery.Delivery) *row {
	if r := d.rows[delivery.Key{Run: of.Run, Receiver: of.Receiver}]; r != nil && r.Version == of.Version {
		return r
	}
	return nil
}

// Extend implements [delivery.Store].
func (i *Instance) Extend(_ context.Context, d *delivery.Delivery, claim time.Duration) (ok bool, err error) {
	err = i.do("Extend", func() error {
		if r := i.its(d); r != nil {
			own := r.claim(i.now(), claim)
			ok, d.Version, d.Next = true, own.Version, own.Next
		}
		return nil
	})
	return ok, err
}

// Settle implements [delivery.Store].
func (i *Instance) Settle(_ context.Context, d *delivery.Delivery, after time.Duration) (news bool, err error) {
	err = i.do("Settle", func() error {
		r, now := i.its(d), i.now()
		if r == nil {
			return nil
		}
		r.Cursor, r.Tries, r.claimed, r.next = d.Cursor, d.Tries, false, now.Add(after)
		r.Version++
		if after == delivery.Idle {
			r.next, r.since = time.Time{}, time.Time{}
			if news = i.news(r); news {
				r.next, r.since = now, now
			}
		}
		return nil
	})
	return news, err
}

// Done implements [delivery.Store].
func (i *Instance) Done(_ context.Context, d *delivery.Delivery) error {
	return i.do("Done", func() error {
		if i.its(d) != nil {
			delete(i.rows, delivery.Key{Run: d.Run, Receiver: d.Receiver})
		}
		return nil
	})
}

// Defer implements [delivery.Store].
func (i *Instance) Defer(_ context.Context, ds []*delivery.Delivery, after []time.Duration) error {
	return i.do("Defer", func() error {
		for n, d := range ds {
			if r := i.its(d); r != nil {
				r.Version++
				r.claimed, r.next = false, i.now().Add(after[n])
			}
		}
		return nil
	})
}

// Unheard implements [delivery.Store].
func (i *Instance) Unheard(_ context.Context, after delivery.Key, looks int) (runs []ledger.Identity, next delivery.Key, err error) {
	err = i.do("Unheard", func() error {
		var keys []delivery.Key
		for k := range i.rows {
			if compare(k, after) > 0 {
				keys = append(keys, k)
			}
		}
		if len(keys) >= looks {
			slices.SortFunc(keys, compare)
			keys, next = keys[:looks], keys[looks-1]
		}
		for _, k := range keys {
			if r := i.rows[k]; r.next.IsZero() && i.news(r) {
				runs = append(runs, k.Run)
			}
		}
		return nil
	})
	return runs, next, err
}

func compare(a, b delivery.Key) int {
	return cmp.Or(cmp.Compare(a.Run.Owner.Realm, b.Run.Owner.Realm), cmp.Compare(a.Run.Owner.Principal, b.Run.Owner.Principal), cmp.Compare(a.Run.ID, b.Run.ID),
		cmp.Compare(a.Receiver, b.Receiver))
}

// Waiting implements [delivery.Store].
func (i *Instance) Waiting(context.Context) (*delivery.Waiting, error) {
	all := &delivery.Waiting{}
	err := i.do("Waiting", func() error {
		now := i.now()
		of := map[delivery.Receiver]*delivery.Receiver{}
		for _, r := range i.rows {
			if r.next.IsZero() {
				continue
			}
			k := delivery.Receiver{Host: r.Host, Principal: r.Run.Owner.Principal}
			next := r.next
			if r.claimed || !next.After(now) {
				next = time.Time{}
			}
			to := of[k]
			if to == nil {
				to = &delivery.Receiver{Host: r.Host, Principal: r.Run.Owner.Principal, Oldest: r.since, Next: next}
				of[k] = to
			}
			to.Waiting++
			to.Oldest, to.Next = earlier(to.Oldest, r.since), earlier(to.Next, next)
			all.Waiting++
			if all.Waiting == 1 {
				all.Oldest = r.since
			}
			all.Oldest = earlier(all.Oldest, r.since)
		}
		for _, to := range of {
			all.Receivers = append(all.Receivers, *to)
		}
		slices.SortFunc(all.Receivers, func(a, b delivery.Receiver) int {
			return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Principal, b.Principal))
		})
		return nil
	})
	return all, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
