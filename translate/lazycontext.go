package translate

import (
	"context"
	"sync"
	"time"
)

// lazyContext is a context with a deadline that takes nothing until somebody waits
// for it: what it bounds is usually at hand.
type lazyContext struct {
	context.Context
	deadline time.Time
	stop     *stoppable

	mu     sync.Mutex
	timed  context.Context // nil: nobody waits
	cancel context.CancelFunc
}

// Deadline implements context.Context.
func (c *lazyContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *lazyContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		c.stop.waitFor(c.cancel)
	}
	return c.timed.Done()
}

// Err implements context.Context.
func (c *lazyContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.stop.Stopping() {
		return context.Canceled
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end frees what waiting took.
func (c *lazyContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.stop.waitFor(nil)
		c.cancel()
	}
}
