package translate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Stop ends the calls in progress when the process is about to exit. Bridges may share it. Its zero
// value is ready for use.
type Stop struct {
	stopped atomic.Bool
	added   atomic.Uint32
	parts   [stopParts]stopPart
}

// stopParts is the number of lists of a Stop, each with a lock of its own, so that calls that begin and end at the same time rarely wait.
const stopParts = 32

// stopPart is one of these lists.
type stopPart struct {
	mu      sync.Mutex
	waiting map[*stoppable]struct{}
}

// stoppable is a call that a Stop can end.
type stoppable struct {
	call   *Call // whose name, principal, arrival and trace do not change
	bridge *Bridge
	part   *stopPart // that has it; nil: none

	mu      sync.Mutex
	run     run.Ref // once it is accepted
	stopped bool
	cancel  context.CancelFunc // of what the call waits for; nil: it does not wait
}

// Stopping reports whether the Stop has ended the call.
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

// waitFor says that the call begins to wait, and sets the function that cancels the wait.
func (w *stoppable) waitFor(cancel context.CancelFunc) {
	w.mu.Lock()
	w.cancel = cancel
	stopped := w.stopped
	w.mu.Unlock()
	if stopped && cancel != nil {
		cancel()
	}
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
	var list []CallInProgress
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for w := range p.waiting {
			w.mu.Lock()
			list = append(list, CallInProgress{w.call.Caller, w.bridge, w.call.Name, w.run})
			w.mu.Unlock()
		}
		p.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b CallInProgress) int { return a.Arrived.Compare(b.Arrived) })
	return list[:min(len(list), most)], len(list)
}

// Now ends all calls in progress, and all calls that begin later. Each is answered with the current state of its run,
// or, if it has none, with a failure of the kind [run.Stopped].
func (s *Stop) Now() {
	s.stopped.Store(true)
	for i := range s.parts {
		p := &s.parts[i]
		p.mu.Lock()
		for w := range p.waiting {
			w.stop()
		}
		p.mu.Unlock()
	}
}

func (s *Stop) add(w *stoppable) {
	p := &s.parts[s.added.Add(1)%stopParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.stopped.Load() { // otherwise Now, which sets it first, finds w in the list
		w.stop()
		return
	}
	if p.waiting == nil {
		p.waiting = make(map[*stoppable]struct{})
	}
	p.waiting[w], w.part = struct{}{}, p
}

func (*Stop) remove(w *stoppable) {
	if p := w.part; p != nil {
		p.mu.Lock()
		delete(p.waiting, w)
		p.mu.Unlock()
	}
}
