package ledger

import (
	"context"
	"sync/atomic"

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
func (l *Ledger) Follow(ctx context.Context, owner Owner, ref *run.Ref, call *translate.Call) (asking context.Context, known *run.Run, end func(said run.Run) run.Run) {
	e, err := l.Of(ctx, owner, ref)
	if err != nil {
		return ctx, nil, nil
	}
	if o, ok := l.Outcome(ctx, e, call.Answer); ok {
		return ctx, &o, nil
	}
	asking, cancel := context.WithCancelCause(ctx)
	var last Newest
	last.Set(e)
	stop := l.OnChange(e, func(now *Entry) {
		if last.Set(now); now.Known() {
			cancel(run.ErrCallerCanceled)
		}
	})
	return asking, nil, func(said run.Run) run.Run {
		stop()
		cancel(nil)
		return l.agree(ctx, last.Load(), said, call.Answer)
	}
}

// Known reports whether a run has ended, and how is known without its provider.
func (e *Entry) Known() bool {
	return e != nil && (e.State == Canceled || e.State.Ended() && (e.Outcome != nil || e.Apart > 0))
}

// Of returns the entry of a run. The error is [ErrNoEntry] if there is none.
func (l *Ledger) Of(ctx context.Context, owner Owner, ref *run.Ref) (*Entry, error) {
	e, err := l.Get(ctx, Identity{owner, ref.Kept})
	if err == nil && (e.Ref.Source != ref.Source || e.Ref.SkillID != ref.SkillID || e.Ref.ExecutionID != ref.ExecutionID) {
		err = ErrNoEntry
	}
	return e, err
}

// IsEnd reports whether what was said about a run is its end.
func IsEnd(said *run.Run) bool {
	if said.Failure == nil {
		return said.State.Ended()
	}
	return said.Failure.Kind == run.RunFailed || said.Failure.Lost
}

// agree returns the outcome of a run from what the provider has said: the one that was stored first.
func (l *Ledger) agree(ctx context.Context, e *Entry, said run.Run, room exchange.AnswerBudget) run.Run {
	if !e.State.Ended() {
		now, own := l.Settle(e, &said, Settling{})
		if own {
			return said
		}
		e = now
	}
	if o, ok := l.Outcome(ctx, e, room); ok {
		return o
	}
	return said
}
