package observe

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// lineInterval is the shortest time between two equal log lines, so that neither providers
// nor agents can fill the log.
const lineInterval = time.Minute

// limiter limits how often equal lines are logged.
type limiter struct {
	max int // how many different lines are remembered

	mu    sync.Mutex
	lines map[string]*logged
}

// logged is a line that was logged.
type logged struct {
	last    time.Time
	dropped int // how many equal lines were not logged since then
}

func newLimiter(limit int) *limiter {
	return &limiter{max: limit, lines: make(map[string]*logged)}
}

// due reports whether a line is to be logged now, and how many equal lines were dropped
// since the last one.
func (l *limiter) due(line string, now time.Time) (dropped int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.lines[line]; ok {
		if now.Sub(known.last) < lineInterval {
			known.dropped++
			return 0, false
		}
		dropped = known.dropped
		known.last, known.dropped = now, 0
		return dropped, true
	}
	if len(l.lines) >= l.max {
		l.forget(now)
	}
	if len(l.lines) >= l.max {
		return 0, false
	}
	l.lines[line] = &logged{last: now}
	return 0, true
}

// forget removes the lines that were last logged more than lineInterval ago. The caller holds l.mu.
func (l *limiter) forget(now time.Time) {
	for line, known := range l.lines {
		if now.Sub(known.last) >= lineInterval {
			delete(l.lines, line)
		}
	}
}

// knows reports whether a line is remembered.
func (l *limiter) knows(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.lines[line]
	return known
}

// Warnings logs equal warnings at most once per minute.
type Warnings struct {
	logger *zap.Logger
	lines  *limiter
}

// NewWarnings returns Warnings that remember up to limit different warnings.
func NewWarnings(logger *zap.Logger, limit int) *Warnings {
	return &Warnings{logger, newLimiter(limit)}
}

// Warn logs a warning, if it is due.
func (w *Warnings) Warn(message string, err error) {
	if dropped, due := w.lines.due(message+"\n"+err.Error(), time.Now()); due {
		w.logger.Warn(message, zap.Error(err), repeated(dropped))
	}
}

// sourceLimiter is a limiter for each source, so that the lines of one source can't
// displace those of another.
type sourceLimiter struct {
	each int // how many different lines of a source are remembered

	mu      sync.Mutex
	sources map[string]*sourceLines // at most one per configured source
}

type sourceLines struct{ lines, full *limiter }

func newSourceLimiter(each int) *sourceLimiter {
	return &sourceLimiter{each: each, sources: make(map[string]*sourceLines)}
}

// due is like limiter.due. A line is dropped if the source has too many different lines. If so,
// full is true, but only once per lineInterval.
func (s *sourceLimiter) due(source, line string, now time.Time) (dropped int, due, full bool) {
	s.mu.Lock()
	l := s.sources[source]
	if l == nil {
		l = &sourceLines{newLimiter(s.each), newLimiter(1)}
		s.sources[source] = l
	}
	s.mu.Unlock()
	if dropped, due = l.lines.due(line, now); due || l.lines.knows(line) {
		return dropped, due, false
	}
	_, due = l.full.due("", now)
	return 0, due, due
}
