package recent

import (
	"context"
	"maps"
	"sync"
	"time"

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

// MostStored bounds the runs of one principal that are stored within the time for which they are kept, so that one principal does not
// take the place of others in the store. The further ones are known to this instance only.
const MostStored = 1000

// Canceled are the runs whose tasks were canceled, here or at another instance. The zero value is ready for use.
type Canceled struct {
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

// Add notes that a principal has canceled a run, also in a store, which may be nil.
func (c *Canceled) Add(ctx context.Context, store CanceledStore, principal string, ref *run.Ref) {
	if store != nil && c.mayStore(principal) {
		store.Add(ctx, principal, ref)
	}
	c.runs.Add(KeyOf(principal, ref), time.Now(), runtoken.Lifetime)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// mayStore counts a run of a principal that is to be stored, and reports whether it may be.
func (c *Canceled) mayStore(principal string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	s := c.stored[principal]
	if s == nil || now.Sub(s.since) >= runtoken.Lifetime {
		if c.stored == nil {
			c.stored = map[string]*stored{}
		}
		if len(c.stored) >= Most {
			maps.DeleteFunc(c.stored, func(_ string, s *stored) bool { return now.Sub(s.since) >= runtoken.Lifetime })
		}
		if len(c.stored) >= Most {
			return false
		}
		s = &stored{since: now}
		c.stored[principal] = s
	}
	s.count++
	return s.count <= MostStored
}

// When returns when a principal has canceled a run, or when this instance has learned it; zero: it has not. The store, which may be nil,
// knows those that were canceled elsewhere.
func (c *Canceled) When(ctx context.Context, store CanceledStore, principal string, ref *run.Ref) time.Time {
	key := KeyOf(principal, ref)
	if at, ok := c.runs.Find(key); ok {
		return at
	}
	if store == nil || !store.Has(ctx, principal, ref) {
		return time.Time{}
	}
	now := time.Now()
	c.runs.Add(key, now, runtoken.Lifetime)
	return now
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
