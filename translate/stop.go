package translate

import (
	"context"
	"slices"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Stop ends the calls in progress when the process is about to exit. Bridges may share it. Its zero
// value is ready for use.
type Stop struct {
	mu      sync.Mutex
	stopped bool
	waiting map[*stoppable]struct{}
}

// stoppable is a call that a Stop can end.
type stoppable struct {
	call   *Call // whose name, principal, arrival and trace do not change
	bridge *Bridge
	cancel context.CancelCauseFunc // of the call

	mu  sync.Mutex
	run run.Ref // once it is accepted
}

// noteRun notes the accepted run of the call.
func (w *stoppable) noteRun(ref run.Ref) {
	w.mu.Lock()
	w.run = ref
	w.mu.Unlock()
}

// CallInProgress describes a call that has not been answered yet.
type CallInProgress struct {
	run.Caller

	Bridge *Bridge // that was called
	Name   string  // of the skill, as the agent wrote it
	Run    run.Ref // empty: none was accepted yet
}

// InProgress returns the oldest calls in progress, up to most of them, and the number of all calls in progress.
func (s *Stop) InProgress(most int) (calls []CallInProgress, total int) {
	s.mu.Lock()
	list := make([]CallInProgress, 0, len(s.waiting))
	for w := range s.waiting {
		w.mu.Lock()
		list = append(list, CallInProgress{w.call.Caller, w.bridge, w.call.Name, w.run})
		w.mu.Unlock()
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b CallInProgress) int { return a.Arrived.Compare(b.Arrived) })
	return list[:min(len(list), most)], len(list)
}

// Now ends all calls in progress, and all calls that begin later. Each is answered with the current state of its run,
// or, if it has none, with a failure of the kind [run.Stopped].
func (s *Stop) Now() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for w := range s.waiting {
		w.cancel(run.ErrStopping)
	}
}

func (s *Stop) add(w *stoppable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		w.cancel(run.ErrStopping)
		return
	}
	if s.waiting == nil {
		s.waiting = make(map[*stoppable]struct{})
	}
	s.waiting[w] = struct{}{}
}

func (s *Stop) remove(w *stoppable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, w)
}
