package ledger

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

var (
	// ErrEnded is the error for a change of an entry that has ended.
	ErrEnded = errors.New("the run has ended")
	// ErrLost is the error for a draft that could not be written, while too much waits for that already.
	ErrLost = errors.New("the run is lost")
	// ErrUnchanged is what a function returns to [Ledger.Change] that changes nothing. It is not returned to the caller.
	ErrUnchanged = errors.New("nothing is to be changed")
)

// isOver reports whether an error says that there is nothing to change any more.
func isOver(err error) bool { return errors.Is(err, ErrEnded) || errors.Is(err, ErrNoEntry) }

// Change changes an entry: decide gets a copy of the newest version and changes it, and is called again if another caller has changed the entry meanwhile.
// It returns the newest version. The error is [ErrEnded] if the entry has ended, [ErrNoEntry] if there is none, that of decide, or one of the store, after
// which it is not known whether the entry is changed.
func (l *Ledger) Change(ctx context.Context, id Identity, decide func(next *Entry) error) (*Entry, error) {
	if u := l.pending.find(id); u != nil {
		if u.entry.State.Ended() {
			return u.entry, ErrEnded
		}
		if err := u.write(ctx, l); err != nil {
			return u.entry, err
		}
	}
	return l.change(ctx, id, true, decide)
}

// change is Change without regard to what is not written yet. The changes of an entry in this instance are made one after the other. surely says that it is
// not decided by an old version in memory that nothing is to be changed: another instance may have made a newer one.
func (l *Ledger) change(ctx context.Context, id Identity, surely bool, decide func(next *Entry) error) (*Entry, error) {
	n, leave := l.use(id, 0)
	defer leave()
	select {
	case n.turn <- struct{}{}:
		defer func() { <-n.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	e := n.entry
	l.mu.Unlock()
	for tried := int64(0); ; {
		if e == nil {
			var err error
			if e, err = l.store.Get(ctx, id); err != nil {
				if errors.Is(err, ErrNoEntry) {
					l.tellWatches(id, nil)
				}
				return nil, err
			}
			surely = false
			l.learnAfter(tried, e)
		}
		if e.State.Ended() && e.Version > 0 {
			return e, ErrEnded
		}
		next := *e
		switch err := decide(&next); {
		case err != nil && surely && e.Version > 0:
			e = nil
			continue
		case errors.Is(err, ErrUnchanged):
			return e, nil
		case err != nil:
			return e, err
		}
		l.follow(&next, e)
		var apart []byte
		if len(next.Outcome) > MaxInline {
			apart, next.Outcome, next.Apart = next.Outcome, nil, int64(len(next.Outcome))
		}
		ok, err := l.put(ctx, &next, apart)
		if err != nil {
			if e.Version == 0 { // it is not known whether the store has it
				l.mu.Lock()
				n.entry = nil
				l.mu.Unlock()
			}
			return e, err
		}
		if ok {
			l.usage.settle(id, true)
			l.usage.change(id.Owner, 0, next.Size()-e.Size(), next.State.Ended())
			l.learn(&next, true)
			if e.Version > 0 {
				l.store.Announce([]string{id.ID})
			}
			return &next, nil
		}
		e, tried = nil, next.Version
	}
}

// put writes the next version of an entry, the first one of a draft by a claim. An outcome is stored apart by a change only.
func (l *Ledger) put(ctx context.Context, next *Entry, apart []byte) (ok bool, err error) {
	keep := time.Duration(l.keep.Load())
	if next.Version == 0 {
		first := next
		if apart != nil {
			first = new(*next)
			first.State, first.Apart = Submitting, 0
		}
		if _, err = Insist(ctx, func(ctx context.Context) error {
			_, err := l.store.Claim(ctx, first, keep)
			return err
		}); err != nil || apart == nil {
			return err == nil, err
		}
		next.Version = first.Version
	}
	return l.store.Change(ctx, next, apart, keep)
}

// Cancel ends a run that was accepted, or that waits, as canceled. It returns the newest version: the run may have ended in another way before.
func (l *Ledger) Cancel(ctx context.Context, id Identity) (*Entry, error) {
	e, err := l.Change(ctx, id, func(next *Entry) error {
		if next.State < Waiting {
			return ErrUnchanged
		}
		next.State = Canceled
		return nil
	})
	if errors.Is(err, ErrEnded) {
		err = nil
	}
	return e, err
}

const (
	// writeTimeout is how long an answer waits for the writing of what has happened. Then it is written in the background, every writeEvery, in
	// writeLater at most.
	writeTimeout = 2 * time.Second
	writeEvery   = time.Second
	writeLater   = 5 * time.Second
)

// write makes a change that has happened already, such as the end of a run. If it can't be written in time, this instance answers with it from memory, and
// writes it later. It returns the newest version.
func (l *Ledger) write(known *Entry, decide func(next *Entry) error) (*Entry, error) {
	id := known.Identity()
	var first *Entry
	earlier := l.pending.find(id)
	if earlier != nil {
		if earlier.entry.State.Ended() {
			return earlier.entry, ErrEnded
		}
		last := decide
		first, known, decide = earlier.first, earlier.entry, func(next *Entry) error {
			if before, err := earlier.decide(next), last(next); before != nil || !errors.Is(err, ErrUnchanged) {
				return err
			}
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	e, err := l.insertAndChange(ctx, first, id, decide)
	if err == nil || isOver(err) {
		l.pending.done(id, earlier, e)
		return e, err
	}
	l.trouble(err)
	if e == nil {
		e = known
	}
	next := *e
	if decide(&next) != nil {
		return e, nil
	}
	l.follow(&next, e)
	if first == nil && e.Version == 0 {
		first = e
	}
	kept := l.writeLater(&unwritten{&next, decide, first == nil && e.State.Followed() && next.State.Ended() && !next.Single, first})
	if l.tellWatches(id, &next); !kept && first != nil {
		return nil, ErrLost
	}
	return &next, nil
}

// writeLater keeps in memory what could not be written. It reports whether there was place for it.
func (l *Ledger) writeLater(u *unwritten) bool {
	dropped := l.pending.add(u)
	for _, other := range dropped {
		l.usage.settle(other.entry.Identity(), false)
		l.mu.Lock() // its run is asked about again
		if n := l.all[other.entry.Identity()]; n != nil {
			l.tidy(n)
		}
		l.mu.Unlock()
	}
	return !slices.Contains(dropped, u)
}

// insertAndChange is change for an entry that the store perhaps does not have yet; nil: it has it.
func (l *Ledger) insertAndChange(ctx context.Context, first *Entry, id Identity, decide func(next *Entry) error) (*Entry, error) {
	if first == nil {
		return l.change(ctx, id, false, decide)
	}
	_, leave := l.use(id, 0)
	defer leave()
	if _, err := l.store.Claim(ctx, new(*first), time.Duration(l.keep.Load())); err != nil {
		return nil, err
	}
	l.usage.settle(id, true)
	e, err := l.change(ctx, id, false, decide)
	if e != nil {
		l.learn(e, true)
	}
	return e, err
}

// The bounds of what waits to be written.
const (
	mostUnwritten      = 10_000
	mostUnwrittenBytes = 64 << 20
)

// unwritten is a version that could not be written.
type unwritten struct {
	entry   *Entry
	decide  func(next *Entry) error
	askable bool   // it is the end of a run, and the provider can be asked about that again
	first   *Entry // has to be inserted before the change, unless that was done already; nil: the store has the entry
}

// claimedLate is after which time a claim that was sent is certainly stored, or never.
const claimedLate = 30 * time.Second

// pending is what could not be written yet, in no order.
type pending struct {
	wake chan struct{}

	mu       sync.Mutex
	bytes    int64
	changes  map[Identity]*unwritten
	removals map[Identity]time.Time // claims that have to be deleted, and from when on; zero: that was not done yet. It is done again, since a claim whose answer was not awaited may be stored late
}

// find returns the version of an entry that could not be written; nil: there is none.
func (p *pending) find(id Identity) *unwritten {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes[id]
}

// named is find for a key.
func (p *pending) named(owner Owner, key []byte) *Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, u := range p.changes {
		if key != nil && id.Owner == owner && bytes.Equal(u.entry.Key, key) {
			return u.entry
		}
	}
	return nil
}

// add adds a change, in the place of one of the same entry. If there are too many, it returns what it has dropped: if possible, one of a run whose provider
// can be asked again, so that nothing is lost. Another run will have no outcome.
func (p *pending) add(u *unwritten) (dropped []*unwritten) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(u.entry.Identity())
	p.changes[u.entry.Identity()] = u
	p.bytes += u.entry.Size()
	for len(p.changes) > mostUnwritten || p.bytes > mostUnwrittenBytes {
		var one *unwritten
		for _, one = range p.changes {
			if one.askable {
				break
			}
		}
		dropped = append(dropped, one)
		p.drop(one.entry.Identity())
	}
	Wake(p.wake)
	return dropped
}

// drop forgets the change of an entry. The lock is held.
func (p *pending) drop(id Identity) {
	if u := p.changes[id]; u != nil {
		p.bytes -= u.entry.Size()
		delete(p.changes, id)
	}
}

// done forgets a change that is written. A later one of the entry stays, unless the entry has ended or is gone now.
func (p *pending) done(id Identity, u *unwritten, now *Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now == nil || now.State.Ended() || p.changes[id] == u {
		p.drop(id)
	}
}

// remove adds a claim that has to be deleted from a time on. If there are too many, it stays: it is not known then whether it was executed.
func (p *pending) remove(id Identity, from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.removals[id]; known || len(p.removals) < mostUnwritten {
		p.removals[id] = from
	}
	Wake(p.wake)
}

// writing writes what could not be written before, in the background.
func (l *instance) writing() {
	for {
		select {
		case <-l.closed.Done():
			return
		case <-l.pending.wake:
		}
		for run.Sleep(l.closed, writeEvery) && !l.writePending(l.closed) {
			continue
		}
	}
}

// writePending writes what could not be written, until the store fails again. It reports whether nothing is left.
func (l *instance) writePending(ctx context.Context) bool {
	p := &l.pending
	p.mu.Lock()
	changes, removals := maps.Clone(p.changes), maps.Clone(p.removals)
	p.mu.Unlock()
	try := func(write func(ctx context.Context) error) bool {
		ctx, cancel := context.WithTimeout(ctx, writeLater)
		defer cancel()
		return write(ctx) == nil
	}
	for id, u := range changes {
		if p.find(id) == u && !try(func(ctx context.Context) error { return l.writeAgain(ctx, u) }) {
			return false
		}
	}
	for id, from := range removals {
		if from.Before(time.Now()) && !try(func(ctx context.Context) error { return l.remove(ctx, id, from) }) {
			return false
		}
	}
	return len(changes)+len(removals) == 0
}

// writeAgain tries again to write a version. One whose change panics is given up: it would do so each time.
func (l *instance) writeAgain(ctx context.Context, u *unwritten) (err error) {
	if bug := panics.Recovered(func() { err = u.write(ctx, l.Ledger) }); bug != nil {
		l.Panicked(ctx, bug, nil)
		Viewed{l.Ledger}.Drop(u.entry, false)
	}
	return err
}

// write tries again to write the version.
func (u *unwritten) write(ctx context.Context, l *Ledger) error {
	id := u.entry.Identity()
	_, leave := l.use(id, 0)
	defer leave()
	e, err := l.insertAndChange(ctx, u.first, id, u.decide)
	if err != nil && !isOver(err) {
		return err
	}
	if l.pending.done(id, u, e); e != nil { // perhaps it was written already, although the answer was lost
		l.learn(e, true)
	}
	return nil
}

// remove tries again to delete a claim.
func (l *instance) remove(ctx context.Context, id Identity, from time.Time) error {
	if err := l.store.Delete(ctx, id); err != nil {
		return err
	}
	if from.IsZero() {
		l.gone(id)
		l.pending.remove(id, time.Now().Add(claimedLate))
		return nil
	}
	l.pending.mu.Lock()
	defer l.pending.mu.Unlock()
	delete(l.pending.removals, id)
	return nil
}

// stateOf returns the state of an entry of a run.
func stateOf(s run.State) State {
	return [...]State{run.Accepted: Accepted, run.Working: Working, run.Completed: Completed, run.Failed: Failed, run.TimedOut: TimedOut, run.Canceled: Canceled, run.Lost: Lost}[s]
}

// Run returns the state of the run of an entry; 0: none was accepted, as far as it is known.
func (s State) Run() run.State {
	states := [...]run.State{
		Waiting: run.Working, Accepted: run.Accepted, Working: run.Working, Completed: run.Completed, Failed: run.Failed, TimedOut: run.TimedOut, Canceled: run.Canceled, Lost: run.Lost,
	}
	if int(s) >= len(states) { // a newer build has stored it
		return 0
	}
	return states[s]
}
