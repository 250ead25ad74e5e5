package runtoken

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// CanceledStore keeps canceled runs for at least as long as their run tokens are valid. One principal's don't take the places of others'. Implementations
// must be safe for concurrent use. They log their failures.
type CanceledStore interface {
	// Add notes that a principal has canceled a run. It returns the bound if there is no place; nil: there is.
	Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit
	// When returns when a principal has canceled a run; zero: it has not, as far as this instance can say.
	When(ctx context.Context, principal string, ref *run.Ref) time.Time
}

// KeptRuns are the runs that the ledger keeps (see [run.Ref]): canceled is a state of theirs. Implementations must be safe for concurrent use.
type KeptRuns interface {
	// State returns the state of a run of a principal, and since when it has it; 0: it is not kept any more, or its state can't be read at the moment.
	State(ctx context.Context, principal string, ref *run.Ref) (state run.State, since time.Time)
	// Cancel cancels a run, unless it has ended, and returns its state; 0: it is not kept any more.
	Cancel(ctx context.Context, principal string, ref *run.Ref) (run.State, error)
}

// Canceled are the runs that were canceled, here or at another instance. The zero value is ready for use. Fronts may share it.
type Canceled struct {
	// Store keeps them. Nil: they are known for as long as the value lives, [MaxLifetime] at most.
	Store CanceledStore
	// Kept are the runs of the ledger. They are not in the Store. May be nil.
	Kept KeptRuns

	runs run.Memory[time.Time] // when they were canceled, without a store
	mu   sync.Mutex
	next chan struct{} // nil: no one waits
}

// Cancel notes that a principal has canceled a run. ended says that it has not since the run has ended otherwise, and a failure that it can't be noted.
func (c *Canceled) Cancel(ctx context.Context, principal string, ref *run.Ref) (ended bool, failure *run.Failure) {
	var state run.State
	if ref.Kept != "" && c.Kept != nil {
		var err error
		if state, err = c.Kept.Cancel(ctx, principal, ref); err != nil {
			return false, &run.Failure{
				Kind: run.Internal, By: run.Bridge, Executed: run.ExecutedYes, Ref: *ref, Retry: run.RetryIn(2*time.Second, 5), Cause: err,
				Message: "Internal error: the bridge can't use its database at the moment. The run is not canceled: it is still followed; " + run.StorageAdvice(err),
			}
		}
	}
	switch {
	case state.Ended() && state != run.Canceled:
		return true, nil
	case state == run.Canceled:
	case c.Store == nil:
		c.runs.Add(run.KeyOf(principal, ref), time.Now(), MaxLifetime)
	default:
		if limit := c.Store.Add(ctx, principal, ref); limit != nil {
			return false, &run.Failure{
				Kind: run.RateLimited, By: run.Bridge, Executed: run.ExecutedYes, Ref: *ref, Limit: limit, Retry: run.RetryIn(time.Hour, 24),
				Message: fmt.Sprintf("Too many runs were canceled (%s: %d). This one is not canceled: it is still followed", limit.Name, limit.Max),
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
	return false, nil
}

// When returns when a principal has canceled a run; zero: it has not, as far as this instance can say.
func (c *Canceled) When(ctx context.Context, principal string, ref *run.Ref) time.Time {
	if ref.Kept != "" && c.Kept != nil {
		switch state, changed := c.Kept.State(ctx, principal, ref); state {
		case 0:
		case run.Canceled:
			return changed
		default:
			return time.Time{}
		}
	}
	if c.Store != nil {
		return c.Store.When(ctx, principal, ref)
	}
	at, _ := c.runs.Find(run.KeyOf(principal, ref))
	return at
}

// Changed returns a channel that is closed when a run is canceled the next time.
func (c *Canceled) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}
