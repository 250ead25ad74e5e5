package recent

import (
	"context"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// CanceledStore keeps canceled runs for at least as long as their run tokens are valid. Implementations must be safe for concurrent
// use. They log their failures.
type CanceledStore interface {
	// Add notes that a principal has canceled a run.
	Add(ctx context.Context, principal string, ref *run.Ref)
	// Has reports whether a principal has canceled a run. It is false if that can't be read at the moment.
	Has(ctx context.Context, principal string, ref *run.Ref) bool
}

// Canceled are the runs whose tasks were canceled, here or at another instance. The zero value is ready for use.
type Canceled struct {
	runs Runs[struct{}]
	mu   sync.Mutex
	next chan struct{} // nil: no one waits
}

// Add notes that a principal has canceled a run, also in a store, which may be nil.
func (c *Canceled) Add(ctx context.Context, store CanceledStore, principal string, ref *run.Ref) {
	if store != nil {
		store.Add(ctx, principal, ref)
	}
	c.runs.Add(KeyOf(principal, ref), struct{}{}, runtoken.Lifetime)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Has reports whether a principal has canceled a run. The store, which may be nil, knows those that were canceled elsewhere.
func (c *Canceled) Has(ctx context.Context, store CanceledStore, principal string, ref *run.Ref) bool {
	key := KeyOf(principal, ref)
	if _, ok := c.runs.Find(key); ok {
		return true
	}
	if store == nil || !store.Has(ctx, principal, ref) {
		return false
	}
	c.runs.Add(key, struct{}{}, runtoken.Lifetime)
	return true
}

// Changed returns a channel that is closed when Add is called the next time.
func (c *Canceled) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}
