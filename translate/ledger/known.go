package ledger

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Newest is the newest version of an entry that a call knows. Its zero value is none.
type Newest struct{ atomic.Pointer[Entry] }

// Set notes a version; nil: the entry is gone, and its last version stays.
func (n *Newest) Set(e *Entry) {
	for old := n.Load(); e != nil && (old == nil || e.State.Ended() || e.Version >= old.Version && !old.State.Ended()); old = n.Load() {
		if n.CompareAndSwap(old, e) {
			return
		}
	}
}

// Follow is [translate.Config.Kept] for the runs of an owner: a run has one outcome, also for calls that ask about it by other means than its key.
func (l *Ledger) Follow(ctx context.Context, owner Owner, ref *run.Ref, call *translate.Call) translate.Record {
	e, err := l.Of(ctx, owner, ref)
	switch {
	case errors.Is(err, ErrNoEntry):
		return translate.Record{Asking: ctx}
	case err != nil: // the provider may know
		return translate.Record{Asking: ctx, Settle: func(said run.Run) run.Run {
			if said.Failure != nil && said.Failure.Lost {
				said.Failure = unread(&Entry{Ref: *ref}, err)
			}
			return said
		}}
	}
	if o, ok := l.Outcome(ctx, e, call.Answer); ok {
		return translate.Record{Asking: ctx, Ended: &o}
	}
	asking, cancel := context.WithCancelCause(ctx)
	var last Newest
	stop := l.Attend(e, &last, func() { cancel(run.ErrCallerCanceled) })
	record := translate.Record{Asking: asking, Settle: func(said run.Run) run.Run {
		stop()
		cancel(nil)
		o, _ := l.Agree(ctx, last.Load(), said, Settling{}, call.Answer)
		return o
	}}
	elsewhere := func(e *Entry) bool { return e.State.Followed() && !l.Follows(e) }
	if *call.Wait > 0 && elsewhere(e) {
		record.Wait = func(ctx context.Context) (time.Duration, bool) {
			if !l.store.Announce([]string{e.ID}) { // its follower would ask the provider as if no one waited, which may be every ten minutes
				return 0, false
			}
			for now := range l.Watch(ctx, e) {
				if now == nil || !elsewhere(now) {
					return 0, false
				}
			}
			return max(time.Second, min(e.gap(), longestPause)), true
		}
	}
	return record
}

// Attend notes the versions of an entry from a known one on, and calls a function when the end of the run is known without its provider.
func (l *Ledger) Attend(e *Entry, newest *Newest, known func()) (stop func()) {
	newest.Set(e)
	return l.OnChange(e, func(now *Entry) {
		if newest.Set(now); now.Known() {
			known()
		}
	})
}

// Known reports whether a run has ended, and how is known without its provider.
func (e *Entry) Known() bool {
	return e != nil && (e.State == Canceled || e.State.Ended() && (e.Outcome != nil || e.Apart > 0))
}

// read is the key of what [Ledger.Read] has read.
type read Identity

// Read reads the entry of a run for a call that asks for it several times: in the context, Of returns it, or the error, without reading it again.
func (l *Ledger) Read(ctx context.Context, owner Owner, ref *run.Ref) context.Context {
	e, err := l.Of(ctx, owner, ref)
	return context.WithValue(ctx, read{owner, ref.Kept}, func() (*Entry, error) { return e, err })
}

// Of returns the entry of a run. The error is [ErrNoEntry] if there is none. While the database does not respond, a call waits for it only as long as for a
// write.
func (l *Ledger) Of(ctx context.Context, owner Owner, ref *run.Ref) (*Entry, error) {
	if known, ok := ctx.Value(read{owner, ref.Kept}).(func() (*Entry, error)); ok {
		return known()
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	e, err := l.Get(ctx, Identity{owner, ref.Kept})
	if err == nil && (e.Ref.Source != ref.Source || e.Ref.SkillID != ref.SkillID || e.Ref.ExecutionID != ref.ExecutionID) {
		err = ErrNoEntry
	}
	return e, err
}

// Agree settles what the provider has said about a run, unless it has ended. It returns the state of the run, which is the outcome that was stored first,
// and the newest version of the entry; nil: it was deleted, as the skill was certainly not executed.
func (l *Ledger) Agree(ctx context.Context, e *Entry, said run.Run, how Settling, room exchange.AnswerBudget) (o run.Run, now *Entry) {
	if !e.State.Ended() {
		if how.state(l, e, &said) == Submitting {
			return said, e
		}
		if how.refused(&said) && !l.isLost(e, said.Failure) && (how.Unsent || said.Failure.Executed == run.ExecutedNo) {
			l.free(e)
			return said, nil
		}
		now, err := l.write(e, func(next *Entry) error { return how.settle(l, next, &said) })
		switch {
		case now == nil: // it was deleted
			return said, e
		case err == nil:
			return said, now
		}
		e = now
	}
	if o, ok := l.Outcome(ctx, e, room); ok {
		return o, e
	}
	return said, e
}
