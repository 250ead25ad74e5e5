package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// View is how a front shows its runs, in notes of its own.
type View interface {
	// Advance gives the next version of an entry what was learned of its run: its notes, state, ref and label, but not its outcome. The error is
	// [ErrUnchanged] if this is no news.
	Advance(next *Entry, o *run.Run) error
}

// Viewed is a ledger as fronts with a [View] use it.
type Viewed struct{ *Ledger }

// LabelQuery selects entries by their labels.
type LabelQuery struct {
	Owner Owner
	// Group, Skill and State are those of the wanted entries; empty or 0: all.
	Group, Skill string
	State        uint8
	// Since selects those with this At or a later one.
	Since time.Time
	// After is where the page begins: behind this At and id; an empty id: with the first.
	After   time.Time
	AfterID string
	Limit   int
	// Whole says that the outcomes that are stored apart are read, too.
	Whole bool
	// Bytes bounds the size of the page, which has at least one entry.
	Bytes int64
}

// LabelPage is a page of entries. It may have fewer entries than its limit, or none, although further ones follow: it looks at 1,000 entries at most.
type LabelPage struct {
	Entries []*Entry
	// Apart are the outcomes that are stored apart, by ids, if they are wanted.
	Apart map[string][]byte
	// More says that further entries follow behind NextAt and NextID.
	More   bool
	NextAt time.Time
	NextID string
	// Total counts the entries on all pages, among the first 1,000 at which the pages look.
	Total int
}

// Labelled returns entries by their labels.
func (l Viewed) Labelled(ctx context.Context, q *LabelQuery) (*LabelPage, error) {
	page, err := l.store.Labelled(ctx, q)
	if err != nil {
		return nil, err
	}
	for i, e := range page.Entries {
		if u := l.pending.find(e.Identity()); u != nil {
			page.Entries[i] = u.entry
		}
	}
	return page, nil
}

// NewID returns a new id in the form of those of entries.
func (l Viewed) NewID() string { return l.ids.Next(time.Now()) }

// Unname makes the key of an entry that has ended free.
func (l Viewed) Unname(ctx context.Context, id Identity) error { return l.store.Unname(ctx, id) }

// Stored returns the outcome that is stored apart from an entry; nil: there is none.
func (l Viewed) Stored(ctx context.Context, e *Entry) ([]byte, error) {
	if e.Apart == 0 || e.Outcome != nil {
		return nil, nil //nolint:nilnil // see above
	}
	data, err := l.store.Outcome(ctx, e.Identity())
	if errors.Is(err, ErrNoEntry) { // it has just expired
		err = nil
	}
	return data, err
}

// Now returns the time by the clock of the database, which instances share, as far as it is known: see Reach.
func (l Viewed) Now() time.Time { return l.store.Now() }

// Reach waits for the first lease of this instance, with which it learns the time of the database. If there is none, nothing can be claimed either.
func (l Viewed) Reach(ctx context.Context) {
	l.mu.Lock()
	first := l.renewed.IsZero()
	l.mu.Unlock()
	if first {
		ctx, cancel := context.WithTimeout(ctx, renewTimeout)
		defer cancel()
		_, _ = l.store.Renew(ctx)
	}
}

// Write makes a change that has happened already: if the store fails, this instance answers with it from memory, and writes it later. It returns the
// newest version. The error is [ErrEnded] if the entry had ended in another way, or that of decide.
func (l Viewed) Write(e *Entry, decide func(next *Entry) error) (*Entry, error) {
	return l.write(e, decide)
}

// WriteLater is Write in the background, for a change of a version that stays as it is until then.
func (l Viewed) WriteLater(e *Entry, decide func(next *Entry) error) {
	l.usage.settle(e.Identity(), true) // the store has it
	l.writeLater(&unwritten{e, decide, false, nil})
}

// Ended returns what to store of how a run has ended, for which some bytes may be reserved. exceeded is the bound that leaves no place; empty: there is place.
func (l Viewed) Ended(owner Owner, o *run.Run, reserved int64) (outcome []byte, exceeded string) {
	data, err := EncodeOutcome(o)
	if err != nil {
		l.trouble(err)
		return nil, "outcomes that it can encode"
	}
	if limit := l.usage.fits(owner, int64(len(data)), reserved); limit != nil {
		exceeded = fmt.Sprint(limit.Max, " ", limit.Name)
	}
	return data, exceeded
}

// Fits returns the failure of a change for which the owner has no place.
func (l Viewed) Fits(owner Owner, more int) *run.Failure {
	if limit := l.usage.fits(owner, int64(more), 0); limit != nil {
		return refuse(limit)
	}
	return nil
}

// IsReachable reports whether the store has answered in the last seconds.
func (l Viewed) IsReachable() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.renewed) < renewEvery+renewTimeout
}

// Draft gives an entry without a key its id and a place, but the store only gets what the first [Viewed.Write] makes of it, or [Viewed.Keep]: a run that ends
// at once is written once. Until then, its caller attends it.
func (l Viewed) Draft(ctx context.Context, e *Entry) *run.Failure { return l.place(ctx, e, 0) }

// Keep returns when a version of a draft is stored, or waits to be written as the end of its run, and the newest version. With an error, the version is written
// later, unless [Viewed.Drop] forgets it.
func (l Viewed) Keep(ctx context.Context, e *Entry) (*Entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	defer l.OnChange(e, func(*Entry) {})()
	now, err := l.write(e, func(next *Entry) error {
		if next.Version > 0 {
			return ErrUnchanged
		}
		return nil
	})
	if err == nil && (now.Version == 0 || l.pending.find(e.Identity()) != nil) {
		now, err = l.Change(ctx, e.Identity(), func(*Entry) error { return ErrUnchanged })
	}
	if errors.Is(err, ErrEnded) {
		err = nil
	}
	return now, err
}

// Drop forgets a draft, and gives its place back. If Keep has failed, the store may have it, or get it late: it is deleted in the background.
func (l Viewed) Drop(e *Entry, failed bool) {
	l.usage.settle(e.Identity(), false)
	l.pending.done(e.Identity(), nil, nil)
	if failed {
		l.pending.remove(e.Identity(), time.Time{})
	}
}
