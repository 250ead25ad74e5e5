package translate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// callContext is the context of a call. It is part of the execution.
type callContext struct {
	context.Context
	execution *execution
}

// partContext is the context of a part of a call that has a deadline of its own. It makes a timer only when something waits for the deadline:
// it takes no memory of its own where all that is needed is in the cache.
type partContext struct {
	callContext
	deadline time.Time

	mu     sync.Mutex
	timed  context.Context // nil: nothing waits for the deadline
	cancel context.CancelFunc
}

// contexts are those of a call.
type contexts struct {
	caller  callContext
	finding partContext

	unknown sync.Mutex
	missing [4]any // keys without a value in the contexts around the call; unknown guards it
}

type callKey struct{}

// CallOf returns the call that a context was made for, so that an [Observer] can
// tell to which call an exchange belongs; nil if there is none.
func CallOf(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return &c.execution.call
	case run.StopKey:
		return &c.execution.stop
	case discovery.HoldKey:
		return &c.execution.hold
	case exchange.AnswerBudgetKey:
		return c.execution.call.Answer
	}
	return c.execution.outer(key)
}

// outer returns the value of a key in the contexts around the call. It remembers which keys they have no value for, such as that of a trace:
// each request to a provider asks for them, and there are some twenty contexts.
func (x *contexts) outer(key any) any {
	x.unknown.Lock()
	isMissing := slices.Contains(x.missing[:], key)
	x.unknown.Unlock()
	if isMissing {
		return nil
	}
	value := x.caller.Context.Value(key)
	if value == nil {
		x.unknown.Lock()
		defer x.unknown.Unlock()
		if i := slices.Index(x.missing[:], nil); i >= 0 {
			x.missing[i] = key
		}
	}
	return value
}

// Deadline implements [context.Context].
func (c *partContext) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.deadline) {
		return d, true
	}
	return c.deadline, true
}

// Done implements [context.Context].
func (c *partContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.Context, c.deadline)
		c.execution.stop.waitFor(c.cancel)
	}
	return c.timed.Done()
}

// Err implements [context.Context].
func (c *partContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed != nil {
		return c.timed.Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.execution.stop.Stopping() {
		return context.Canceled
	}
	if !time.Now().Before(c.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// end stops the timer.
func (c *partContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.execution.stop.waitFor(nil)
		c.cancel()
	}
}
