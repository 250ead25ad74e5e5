package ledger

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Call follows the run of an entry by its execution: for the request that has begun the run, and longer if the submission takes longer. Once the run is
// accepted and the request has ended, the ledger follows it by polls.
type Call struct {
	// Newest is the newest version of the entry; none: the call has no entry.
	Newest Newest

	cancel context.CancelCauseFunc // ends the execution
	ending atomic.Bool             // the call itself writes the end, of which its execution need not learn

	mu        sync.Mutex
	execution translate.Execution
	detached  bool
	accepted  bool
	over      bool
	letGo     func()
}

// Go executes a function in a goroutine of its own, whose context does not end with that of the request, and then ends the call: with a failure if the
// function has panicked, which is also reported, as is a panic of the end.
func (c *Call) Go(ctx context.Context, panicked func(context.Context, any, []byte), execute func(context.Context), end func(context.Context, *run.Failure)) {
	ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	go func() {
		growStack()
		var failure *run.Failure
		if bug := panics.Recovered(func() { execute(ctx) }); bug != nil {
			panicked(ctx, bug, nil)
			failure = &run.Failure{By: run.Bridge, Executed: run.ExecutedMaybe, Message: "The bridge failed because of a bug."}
		}
		if bug := panics.Recovered(func() { end(ctx, failure) }); bug != nil {
			panicked(ctx, bug, nil)
		}
	}()
}

// growStack enlarges the stack of its goroutine at once: deep in a call, when there is much on it to copy, that takes 4 % of the time of a call.
//
//go:noinline
func growStack() {
	var large [12 << 10]byte
	runtime.KeepAlive(&large)
}

// Attend makes the call the one that follows the run of an entry, until End. If the end of the run becomes known otherwise, such as by a cancellation at
// whichever instance, that ends the execution.
func (c *Call) Attend(l *Ledger, e *Entry) {
	_, letGo := l.use(e.Identity(), 1) // so that it is not polled
	stop := l.Attend(e, &c.Newest, func() {
		if !c.ending.Load() {
			c.cancel(run.ErrCallerCanceled)
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.letGo = func() { stop(); letGo() }; c.over {
		c.letGo()
	}
}

// Follow calls a function for each state of an execution, until it ends, or is left to the ledger. kept reports whether there is an entry of the run.
func (c *Call) Follow(ctx context.Context, x translate.Execution, each func(*run.Run) (kept bool)) {
	c.mu.Lock()
	if c.execution = x; c.detached {
		x.Detach()
	}
	c.mu.Unlock()
	for o := range x.Watch() {
		if errors.Is(context.Cause(ctx), run.ErrLeft) && !o.IsEnd() || each(&o) && o.GoesOn() && c.isLeft() {
			return
		}
	}
}

// isLeft notes that the run was accepted. It reports whether the request has ended.
func (c *Call) isLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = true
	return c.detached
}

// Write calls a function that writes a state of the run, with which it may end.
func (c *Call) Write(ends bool, write func()) {
	c.ending.Store(ends)
	defer c.ending.Store(false)
	write()
}

// Detach tells the execution that no request waits for the run any more, and ends it once the run was accepted.
func (c *Call) Detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.detached = true
	if c.execution != nil {
		c.execution.Detach()
	}
	if c.accepted {
		c.cancel(run.ErrLeft)
	}
}

// End says that the call is over. It ends what Attend has begun or begins later.
func (c *Call) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over = true; c.letGo != nil {
		c.letGo()
	}
	c.cancel(nil)
}
