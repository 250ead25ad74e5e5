package turns

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Queue bounds how many pieces of work run at a time. The sources that wait get turns one
// after another, and so do the lines of a source. If there are several places, one source never
// has all of them: so another source waits no longer than for one piece of each source.
type Queue struct {
	atOnce int

	mu      sync.Mutex
	working int
	sources []*sourceTurns // that have work, the one whose turn is next first
}

// sourceTurns is the work of one source.
type sourceTurns struct {
	name    string
	working int
	lines   []*waitingLine // that wait, the one whose turn is next first
}

// waitingLine is work that waits, in the order in which it came. A channel is closed when
// its turn has come.
type waitingLine struct {
	name    Line
	waiting []chan struct{}
}

// Line names a line: the principal and the skill that work of a source is for. It may be empty.
type Line struct{ Principal, SkillID string }

// NewQueue returns a queue of which so many pieces of work run at a time.
func NewQueue(atOnce int) *Queue { return &Queue{atOnce: atOnce} }

// Take waits for a turn of a source and one of its lines, until the context ends. If it
// reports true, the turn is to be ended.
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
	if !waited { // the turn has come at the same moment
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

// dequeue takes work back. It reports whether its turn had not come.
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

// forget forgets a source that has no work.
func (q *Queue) forget(i int) {
	if s := q.sources[i]; s.working == 0 && len(s.lines) == 0 {
		q.sources = slices.Delete(q.sources, i, i+1)
	}
}

// next gives turns to those that wait, for as long as there are places.
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
