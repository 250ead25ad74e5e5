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

// stoppable is what a Stop ends.
type stoppable struct{ cancel context.CancelCauseFunc }

// Now has all calls answered as they stand, those that come later too.
func (s *Stop) Now() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for w := range s.waiting {
		w.cancel(skillsharing.ErrStopping)
	}
}

func (s *Stop) add(w *stoppable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		w.cancel(skillsharing.ErrStopping)
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
