package document

import (
	"context"
	"slices"
	"sync"
)

// Limiter bounds how many pieces of work run at a time. The sources that wait get turns one
// after another, and so do the lines of a source. If there are several places, one source never
// has all of them: so another source waits no longer than for one piece of each source.
type Limiter struct {
	atOnce int

	mu      sync.Mutex
	working int
	sources []*sourceTurns // that have work, the one whose turn is next first
}

// sourceTurns is the work of one source.
type sourceTurns struct {
	name    string
	working int
	lines   []*turnLine // that wait, the one whose turn is next first
}

// turnLine is work that waits, in the order in which it came. A channel is closed when
// its turn has come.
type turnLine struct {
	name    Asker
	waiting []chan struct{}
}

// Asker names a line: the principal and the skill that work of a source is for. It may be empty.
type Asker struct{ Principal, SkillID string }

// NewLimiter returns a limiter of so many pieces of work at a time.
func NewLimiter(atOnce int) *Limiter { return &Limiter{atOnce: atOnce} }

// Take waits for a turn of a source and one of its lines, until the context ends. If it
// reports true, the turn is to be ended.
func (t *Limiter) Take(ctx context.Context, source string, line Asker) bool {
	ready := make(chan struct{})
	t.mu.Lock()
	t.enqueue(source, line, ready)
	t.next()
	t.mu.Unlock()
	select {
	case <-ready:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	waited := t.dequeue(source, line, ready)
	t.mu.Unlock()
	if !waited { // the turn has come at the same moment
		t.End(source)
	}
	return false
}

// End ends a turn of a source.
func (t *Limiter) End(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working--
	i := t.find(source)
	t.sources[i].working--
	t.forget(i)
	t.next()
}

func (t *Limiter) find(source string) int {
	return slices.IndexFunc(t.sources, func(s *sourceTurns) bool { return s.name == source })
}

func (s *sourceTurns) find(line Asker) int {
	return slices.IndexFunc(s.lines, func(l *turnLine) bool { return l.name == line })
}

func (t *Limiter) enqueue(source string, line Asker, ready chan struct{}) {
	i := t.find(source)
	if i < 0 {
		i = len(t.sources)
		t.sources = append(t.sources, &sourceTurns{name: source})
	}
	s := t.sources[i]
	j := s.find(line)
	if j < 0 {
		j = len(s.lines)
		s.lines = append(s.lines, &turnLine{name: line})
	}
	s.lines[j].waiting = append(s.lines[j].waiting, ready)
}

// dequeue takes work back. It reports whether its turn had not come.
func (t *Limiter) dequeue(source string, line Asker, ready chan struct{}) bool {
	i := t.find(source)
	if i < 0 {
		return false
	}
	s := t.sources[i]
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
	t.forget(i)
	return true
}

// forget forgets a source that has no work.
func (t *Limiter) forget(i int) {
	if s := t.sources[i]; s.working == 0 && len(s.lines) == 0 {
		t.sources = slices.Delete(t.sources, i, i+1)
	}
}

// next gives turns to those that wait, for as long as there are places.
func (t *Limiter) next() {
	for t.working < t.atOnce {
		i := slices.IndexFunc(t.sources, func(s *sourceTurns) bool { return len(s.lines) > 0 && s.working < max(1, t.atOnce-1) })
		if i < 0 {
			return
		}
		s := t.sources[i]
		t.sources = append(slices.Delete(t.sources, i, i+1), s)
		l := s.lines[0]
		s.lines = slices.Delete(s.lines, 0, 1)
		ready := l.waiting[0]
		if l.waiting = slices.Delete(l.waiting, 0, 1); len(l.waiting) > 0 {
			s.lines = append(s.lines, l)
		}
		s.working++
		t.working++
		close(ready)
	}
}
