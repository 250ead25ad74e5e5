package turns

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Queue bounds how many pieces of work run at a time. The sources with waiting work get turns
// in rotation, and so do the lines of a source. If more than one piece may run at a time, no
// source may use all places. So a source waits at most for one piece of work of each other
// source.
type Queue struct {
	atOnce int

	mu      sync.Mutex
	working int
	sources []*sourceTurns // those with work; the first one has the next turn
}

// sourceTurns is the work of one source.
type sourceTurns struct {
	name    string
	working int
	lines   []*waitingLine // those that wait; the first one has the next turn
}

// waitingLine is the waiting work of one line, oldest first. The channel of a piece of
// work is closed when it has its turn.
type waitingLine struct {
	name    Line
	waiting []chan struct{}
}

// Line identifies work of a source by the principal and the skill that it is for. Both may be
// empty.
type Line struct{ Principal, SkillID string }

// NewQueue returns a queue that runs at most atOnce pieces of work at a time.
func NewQueue(atOnce int) *Queue { return &Queue{atOnce: atOnce} }

// Take waits for a turn of a source and one of its lines, until the context ends. If it
// returns true, the caller must end the turn with [Queue.End].
func (q *Queue) Take(ctx context.Context, source string, line Line) bool {
	ready := make(chan struct{})
	q.mu.Lock()
	q.enqueue(source, line, ready)
	q.next()
	q.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	q.mu.Lock()
	waited := q.dequeue(source, line, ready)
	q.mu.Unlock()
	if !waited { // the turn came at the moment at which the context ended
		q.End(source)
	}
	return false
}

// End ends a turn of a source.
func (q *Queue) End(source string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working--
	i := q.find(source)
	q.sources[i].working--
	q.forget(i)
	q.next()
}

func (q *Queue) find(source string) int {
	return slices.IndexFunc(q.sources, func(s *sourceTurns) bool { return s.name == source })
}

func (s *sourceTurns) find(line Line) int {
	return slices.IndexFunc(s.lines, func(l *waitingLine) bool { return l.name == line })
}

func (q *Queue) enqueue(source string, line Line, ready chan struct{}) {
	i := q.find(source)
	if i < 0 {
		i = len(q.sources)
		q.sources = append(q.sources, &sourceTurns{name: source})
	}
	s := q.sources[i]
	j := s.find(line)
	if j < 0 {
		j = len(s.lines)
		s.lines = append(s.lines, &waitingLine{name: line})
	}
	s.lines[j].waiting = append(s.lines[j].waiting, ready)
}

// dequeue removes waiting work. It returns false if the work already has its turn.
func (q *Queue) dequeue(source string, line Line, ready chan struct{}) bool {
	i := q.find(source)
	if i < 0 {
		return false
	}
	s := q.sources[i]
	j := s.find(line)
	if j < 0 {
		return false
	}
	l := s.lines[j]
	n := slices.Index(l.waiting, ready)
	if n < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, n, n+1)
	if len(l.waiting) == 0 {
		s.lines = slices.Delete(s.lines, j, j+1)
	}
	q.forget(i)
	return true
}

// forget removes the source at index i if it has no work.
func (q *Queue) forget(i int) {
	if s := q.sources[i]; s.working == 0 && len(s.lines) == 0 {
		q.sources = slices.Delete(q.sources, i, i+1)
	}
}

// next gives turns to waiting work while fewer than atOnce pieces of work run.
func (q *Queue) next() {
	for q.working < q.atOnce {
		i := slices.IndexFunc(q.sources, func(s *sourceTurns) bool { return len(s.lines) > 0 && s.working < max(1, q.atOnce-1) })
		if i < 0 {
			return
		}
		s := q.sources[i]
		q.sources = append(slices.Delete(q.sources, i, i+1), s)
		l := s.lines[0]
		s.lines = slices.Delete(s.lines, 0, 1)
		ready := l.waiting[0]
		if l.waiting = slices.Delete(l.waiting, 0, 1); len(l.waiting) > 0 {
			s.lines = append(s.lines, l)
		}
		s.working++
		q.working++
		close(ready)
	}
}

// BusyError is the failure of a call whose deadline passed before its work had a turn.
func BusyError(phase run.Phase, message string) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo, Message: message,
		Reach: &run.Reach{Reason: "the bridge is busy"}, Retry: run.RetryIn(time.Second, 3),
	}
}
