package recent

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// CanceledStore keeps canceled runs for at least as long as their run tokens are valid. Implementations must be safe for concurrent
// use. They log their failures.
type CanceledStore interface {
	// Add notes that a principal has canceled a run. It returns the bound if there is no place; nil: there is.
	Add(ctx context.Context, principal string, ref *run.Ref) *run.Limit
	// Has reports whether a principal has canceled a run. It is false if that can't be read at the moment.
	Has(ctx context.Context, principal string, ref *run.Ref) bool
}

// KeptRuns are the runs that the ledger keeps (see [run.Ref]): canceled is a state of theirs. Implementations must be safe for concurrent use.
type KeptRuns interface {
	// State returns the state of a run of a principal; 0: it is not kept any more, or its state can't be read at the moment.
	State(ctx context.Context, principal string, ref *run.Ref) run.State
	// Cancel cancels a run, unless it has ended, and returns its state; 0: it is not kept any more.
	Cancel(ctx context.Context, principal string, ref *run.Ref) (run.State, error)
}

// MostStored bounds the runs of one principal that are stored within the time for which they are kept, so that one principal does not
// take the place of others in the store. Further ones can't be canceled.
const MostStored = 1000

// Canceled are the runs that were canceled, here or at another instance. The zero value is ready for use. Fronts may share it.
type Canceled struct {
	// Lifetime is how long run tokens are valid, and so for how long the runs are known; 0: [runtoken.Lifetime].
	Lifetime time.Duration
	// Store keeps them beyond the life of the value. May be nil.
	Store CanceledStore
	// Kept are the runs of the ledger. They are not in the Store. May be nil.
	Kept KeptRuns

	runs   Runs[time.Time] // when they were canceled
	mu     sync.Mutex
	next   chan struct{}      // nil: no one waits
	stored map[string]*stored // by principal
}

// stored counts what was stored for a principal since a time.
type stored struct {
	since time.Time
	count int
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
	case state != run.Canceled && c.Store != nil:
		limit := c.count(principal)
		if limit == nil {
			limit = c.Store.Add(ctx, principal, ref)
		}
		if limit != nil {
			return false, &run.Failure{
				Kind: run.RateLimited, By: run.Bridge, Executed: run.ExecutedYes, Ref: *ref, Limit: limit, Retry: run.RetryIn(time.Hour, 24),
				Message: fmt.Sprintf("Too many runs were canceled (%s: %d). This one is not canceled: it is still followed", limit.Name, limit.Max),
			}
		}
	}
	c.runs.Add(KeyOf(principal, ref), time.Now(), c.lifetime())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
	return false, nil
}

// count counts a run of a principal that is to be stored. It returns the bound if it may not be.
func (c *Canceled) count(principal string) *run.Limit {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := c.stored[principal]
	if s == nil || now.Sub(s.since) >= c.lifetime() {
		if c.stored == nil {
			c.stored = map[string]*stored{}
		}
		if len(c.stored) >= Most {
			maps.DeleteFunc(c.stored, func(_ string, s *stored) bool { return now.Sub(s.since) >= c.lifetime() })
		}
		if len(c.stored) >= Most {
			return &run.Limit{Name: "principals with canceled runs" + c.within(), Max: Most}
		}
		s = &stored{since: now}
		c.stored[principal] = s
	}
	if s.count >= MostStored {
		return &run.Limit{Name: "canceled runs of a principal" + c.within(), Max: MostStored}
	}
	s.count++
	return nil
}

// When returns when a principal has canceled a run, or when this instance has learned it; zero: it has not. The Store
// knows those that were canceled elsewhere.
func (c *Canceled) When(ctx context.Context, principal string, ref *run.Ref) time.Time {
	key := KeyOf(principal, ref)
	if at, ok := c.runs.Find(key); ok {
		return at
	}
	var state run.State
	if ref.Kept != "" && c.Kept != nil {
		state = c.Kept.State(ctx, principal, ref)
	}
	if state != run.Canceled && (state != 0 || c.Store == nil || !c.Store.Has(ctx, principal, ref)) {
		return time.Time{}
	}
	now := time.Now()
	c.runs.Add(key, now, c.lifetime())
	return now
}

// within says in which time runs are counted.
func (c *Canceled) within() string { return fmt.Sprintf(" in %.4g hours", c.lifetime().Hours()) }

func (c *Canceled) lifetime() time.Duration { return cmp.Or(c.Lifetime, runtoken.Lifetime) }

// Changed returns a channel that is closed when a run is canceled the next time.
func (c *Canceled) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}
