package share

import (
	"context"
	"sync"
)

// Queue bounds how many pieces of work run at a time. The sources with waiting work get turns in rotation, and so do the lines of a source. If more than one
// piece may run at a time, no source may use all places. So a source waits at most for one piece of work of each other source.
type Queue struct {
	atOnce int

	mu      sync.Mutex
	working int
	sources map[string]*source     // those with work
	turns   Turns[string, *source] // each as often as it has waiting work
}

// source is the work of one source. The channel of a piece of work is closed when it has its turn.
type source struct {
	working int
	lines   Turns[Line, chan struct{}]
}

// Line identifies work of a source by the principal and the skill that it is for. Both may be empty.
type Line struct{ Principal, SkillID string }

// NewQueue returns a queue that runs at most atOnce pieces of work at a time.
func NewQueue(atOnce int) *Queue { return &Queue{atOnce: atOnce, sources: map[string]*source{}} }

// Take waits for a turn of a source and one of its lines, until the context ends. If it returns true, the caller must end the turn with [Queue.End].
func (q *Queue) Take(ctx context.Context, name string, line Line) bool {
	ready := make(chan struct{})
	q.mu.Lock()
	s := q.sources[name]
	if s == nil {
		s = new(source)
		q.sources[name] = s
	}
	q.turns.Add(name, s)
	s.lines.Add(line, ready)
	q.next()
	q.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	q.mu.Lock()
	waits := s.lines.Remove(line, ready)
	if waits {
		q.turns.Remove(name, s)
		q.forget(name, s)
	}
	q.mu.Unlock()
	if !waits { // the turn came at the moment at which the context ended
		q.End(name)
	}
	return false
}

// End ends a turn of a source.
func (q *Queue) End(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.sources[name]
	q.working--
	s.working--
	q.forget(name, s)
	q.next()
}

// forget forgets a source without work.
func (q *Queue) forget(name string, s *source) {
	if s.working == 0 && s.lines.IsEmpty() {
		delete(q.sources, name)
	}
}

// next gives turns to waiting work while fewer than atOnce pieces of work run.
func (q *Queue) next() {
	for q.working < q.atOnce {
		s, ok := q.turns.Next(func(s *source) bool { return s.working < max(1, q.atOnce-1) })
		if !ok {
			return
		}
		ready, _ := s.lines.Next(func(chan struct{}) bool { return true })
		s.working++
		q.working++
		close(ready)
	}
}
