package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Marks are the runs without entries that were canceled, kept for at least as long as their run tokens are valid. One principal's don't take the places of
// others'. Implementations must be safe for concurrent use. They log their failures.
type Marks interface {
	// Add notes that a principal has canceled a run. It returns the bound if there is no place; nil: there is.
	Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit
	// When returns when a principal has canceled a run; zero: it has not, as far as this instance can say.
	When(ctx context.Context, principal string, ref *run.Ref) time.Time
	// Next returns a channel that is closed when When may return something else, also because of another instance.
	Next() <-chan struct{}
}

// Cancellations are the runs of a realm that were canceled, here or at another instance. The zero value is ready for use. Fronts share it.
type Cancellations struct {
	Realm string
	// Ledger has the kept runs (see [run.Ref]): canceled is a state of theirs. nil: there are none.
	Ledger *Ledger
	// Marks are those of other runs. nil: they are known for as long as the value lives, [runtoken.MaxLifetime] at most.
	Marks Marks

	runs run.Memory[time.Time] // when they were canceled, without Marks
	here share.Signal          // is sent when a run is canceled here
}

// kept reports whether the ledger may have the run.
func (c *Cancellations) kept(ref *run.Ref) bool { return c.Ledger != nil && ref.Kept != "" }

// Read is [Ledger.Read] for a principal of the realm, if the run may be kept.
func (c *Cancellations) Read(ctx context.Context, principal string, ref *run.Ref) context.Context {
	if !c.kept(ref) {
		return ctx
	}
	return c.Ledger.Read(ctx, Owner{c.Realm, principal}, ref)
}

// Cancel notes that a principal has canceled a run. ended says that it has not since the run has ended otherwise, and a failure that it can't be noted.
func (c *Cancellations) Cancel(ctx context.Context, principal string, ref *run.Ref) (ended bool, failure *run.Failure) {
	var e *Entry
	err := ErrNoEntry
	if c.kept(ref) {
		e, err = c.cancel(ctx, principal, ref)
	}
	switch {
	case err == nil && e.State.Ended() && e.State != Canceled:
		return true, nil
	case err == nil && e.State == Canceled:
	case err != nil && !errors.Is(err, ErrNoEntry):
		failure = run.StorageFailed("", run.ExecutedYes, "the bridge can't use its database at the moment, so it is not known whether the run has ended or is canceled now. "+
			"Follow the run to learn that, and cancel it again if it goes on", err)
		failure.Ref = *ref
		return false, failure
	case c.Marks == nil:
		c.runs.Add(run.KeyOf(principal, ref), time.Now(), runtoken.MaxLifetime)
	default:
		if limit := c.Marks.Add(ctx, principal, ref); limit != nil {
			return false, &run.Failure{
				Kind: run.RateLimited, By: run.Bridge, Executed: run.ExecutedYes, Ref: *ref, Limit: limit, Retry: run.RetryIn(time.Hour, 24),
				Message: fmt.Sprintf("Too many runs were canceled (%s: %d). This one is not canceled: it is still followed", limit.Name, limit.Max),
			}
		}
	}
	c.here.Send()
	return false, nil
}

// cancel cancels a kept run, unless it has ended.
func (c *Cancellations) cancel(ctx context.Context, principal string, ref *run.Ref) (*Entry, error) {
	e, err := c.Ledger.Of(ctx, Owner{c.Realm, principal}, ref)
	if err != nil {
		return nil, err
	}
	defer c.Ledger.OnChange(e, func(*Entry) {})() // so that it is not read again
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer end()
	return c.Ledger.Cancel(ctx, e.Identity())
}

// When returns when a principal has canceled a run; zero: it has not, as far as this instance can say.
func (c *Cancellations) When(ctx context.Context, principal string, ref *run.Ref) time.Time {
	if c.kept(ref) {
		switch e, err := c.Ledger.Of(ctx, Owner{c.Realm, principal}, ref); {
		case err == nil && e.State == Canceled:
			return e.Changed
		case !errors.Is(err, ErrNoEntry):
			return time.Time{}
		}
	}
	if c.Marks != nil {
		return c.Marks.When(ctx, principal, ref)
	}
	at, _ := c.runs.Find(run.KeyOf(principal, ref))
	return at
}

// Changed returns a channel that is closed when a run is canceled here the next time.
func (c *Cancellations) Changed() <-chan struct{} { return c.here.Next() }

// Elsewhere returns a channel that is closed when a run without an entry may have been canceled at another instance; nil: there are no [Marks].
func (c *Cancellations) Elsewhere() <-chan struct{} {
	if c.Marks == nil {
		return nil
	}
	return c.Marks.Next()
}

// Follow is [translate.Config.Kept]: a call that waits for the end of a run ends when the run is canceled.
func (c *Cancellations) Follow(ctx context.Context, ref *run.Ref, call *translate.Call) translate.Record {
	switch {
	case call.Poll != nil: // it is one of the ledger
		return translate.Record{Asking: ctx}
	case c.kept(ref):
		return c.Ledger.Follow(ctx, Owner{c.Realm, call.Principal}, ref, call)
	case *call.Wait == 0, call.Detached: // else no caller waits; subscriptions hear of it by Changed
		return translate.Record{Asking: ctx}
	}
	asking, cancel := context.WithCancelCause(ctx)
	go func() {
		var canceled bool
		bug := panics.Recovered(func() { canceled = c.await(asking, call.Principal, ref) })
		if bug != nil || canceled {
			cancel(cmp.Or(bug, run.ErrCallerCanceled))
		}
	}()
	return translate.Record{Asking: asking, Settle: func(said run.Run) run.Run {
		panics.Raise(context.Cause(asking))
		if errors.Is(context.Cause(asking), run.ErrCallerCanceled) && !said.State.Ended() {
			said = run.Run{Ref: *ref, State: run.Canceled}
		}
		cancel(nil)
		return said
	}}
}

// await waits until a principal cancels a run that is not kept. It returns false if the context ends before.
func (c *Cancellations) await(ctx context.Context, principal string, ref *run.Ref) bool {
	for {
		here, elsewhere := c.Changed(), c.Elsewhere()
		if !c.When(ctx, principal, ref).IsZero() {
			return true
		}
		select {
		case <-here:
		case <-elsewhere:
		case <-ctx.Done():
			return false
		}
	}
}
