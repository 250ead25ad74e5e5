package translate

import (
	"context"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// Stop tells calls that are in progress that they can't be waited for any longer,
// because the process is about to end. It may be shared by many bridges, and its
// zero value is ready for use.
type Stop struct {
	mu      sync.Mutex
	stopped bool
	waiting map[*stoppable]struct{}
}

// stoppable is what a Stop ends: whatever a call is waiting for.
type stoppable struct {
	mu      sync.Mutex
	stopped bool
	cancel  context.CancelFunc // of what is waited for; nil: nothing is
}

// Stopping reports whether the call can't be waited for any longer.
func (w *stoppable) Stopping() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopped
}

func (w *stoppable) stop() {
	w.mu.Lock()
	w.stopped = true
	cancel := w.cancel
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// waitFor says how to end what is waited for from now on.
func (w *stoppable) waitFor(cancel context.CancelFunc) {
	w.mu.Lock()
	w.cancel = cancel
	stopped := w.stopped
	w.mu.Unlock()
	if stopped && cancel != nil {
		cancel()
	}
}

// callContext is the context of the request that a call came with, and tells of
// the call. It is part of something larger, so that it takes no memory of its own.
type callContext struct {
	context.Context
	call *Call
	stop *stoppable
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	switch key.(type) {
	case callKey:
		return c.call
	case skillsharing.StopKey:
		return c.stop
	}
	return c.Context.Value(key)
}

// Now has all calls answered as they stand, those that come later too.
func (s *Stop) Now() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for w := range s.waiting {
		w.stop()
	}
}

func (s *Stop) add(w *stoppable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		w.stop()
		return
	}
	if s.waiting == nil {
		s.waiting = make(map[*stoppable]struct{})
	}
	s.waiting[w] = struct{}{}
}

func (s *Stop) remove(w *stoppable) {
	s.mu.Lock()
	delete(s.waiting, w)
	s.mu.Unlock()
}
