package observe

import (
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
)

// lineInterval is the shortest time between two equal log lines, so that neither providers
// nor agents can fill the log.
const lineInterval = time.Minute

// limiter limits how often equal lines are logged. Each source has lines of its own, so that those of one can't displace those of another.
type limiter struct {
	each int // how many different lines of a source are remembered

	mu      sync.Mutex
	sources map[string]*sourceLines
}

// sourceLines are the lines of a source that were logged.
type sourceLines struct {
	lines map[string]*logged
	full  time.Time // when further lines were dropped for the first time within lineInterval
}

// logged is a line that was logged.
type logged struct {
	last    time.Time
	dropped int // how many equal lines were not logged since then
}

func newLimiter(each int) *limiter {
	return &limiter{each: each, sources: make(map[string]*sourceLines)}
}

// due reports whether a line is to be logged now, and how many equal lines were dropped since the last one. A line is dropped if its source has too
// many different lines. If so, due and full are true, but only once per lineInterval.
func (l *limiter) due(source, line string, now time.Time) (dropped int, due, full bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sources[source]
	if s == nil {
		s = &sourceLines{lines: make(map[string]*logged)}
		l.sources[source] = s
	}
	if known := s.lines[line]; known != nil {
		if now.Sub(known.last) < lineInterval {
			known.dropped++
			return 0, false, false
		}
		dropped = known.dropped
		*known = logged{last: now}
		return dropped, true, false
	}
	if len(s.lines) >= l.each {
		maps.DeleteFunc(s.lines, func(_ string, known *logged) bool { return now.Sub(known.last) >= lineInterval })
	}
	if len(s.lines) < l.each {
		s.lines[line] = &logged{last: now}
		return 0, true, false
	}
	if now.Sub(s.full) < lineInterval {
		return 0, false, false
	}
	s.full = now
	return 0, true, true
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
	if dropped, due, full := w.lines.due("", message+"\n"+err.Error(), time.Now()); due && !full {
		w.logger.Warn(message, zap.Error(err), repeated(dropped))
	}
}
