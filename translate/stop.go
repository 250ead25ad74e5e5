package translate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
	call   *Call // its name, principal, arrival and trace do not change
	bridge *Bridge

	mu      sync.Mutex
	run     run.Ref // once it is accepted
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

// noteRun tells that a run was accepted.
func (w *stoppable) noteRun(ref run.Ref) {
	w.mu.Lock()
	w.run = ref
	w.mu.Unlock()
}

// CallInProgress is a call that has not been answered yet.
type CallInProgress struct {
	Bridge                   *Bridge // that was called
	Name, Principal, TraceID string
	Method                   string
	Arrived                  time.Time
	Run                      run.Ref // empty: none was accepted yet
}

// InProgress returns the calls that are in progress, the oldest first, but not more
// than so many, and how many there are.
func (s *Stop) InProgress(most int) (calls []CallInProgress, total int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]CallInProgress, 0, len(s.waiting))
	for w := range s.waiting {
		w.mu.Lock()
		list = append(list, CallInProgress{w.bridge, w.call.Name, w.call.Principal, w.call.TraceID, w.call.Method, w.call.Arrived, w.run})
		w.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b CallInProgress) int { return a.Arrived.Compare(b.Arrived) })
	return list[:min(len(list), most)], len(list)
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
