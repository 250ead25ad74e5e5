package observe

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
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
	logger func() *zap.Logger // of the newest configuration
	lines  *limiter
}

// NewWarnings returns Warnings that remember up to limit different warnings.
func NewWarnings(logger func() *zap.Logger, limit int) *Warnings {
	return &Warnings{logger, newLimiter(limit)}
}

// Warn logs a warning, if it is due. err may be nil. about does not make warnings different.
func (w *Warnings) Warn(message string, err error, about ...zap.Field) {
	if dropped, due, full := w.lines.due("", fmt.Sprintln(message, err), time.Now()); due && !full {
		w.logger().Warn(message, append(about, zap.Error(err), repeated(dropped))...)
	}
}

// violations are the beginnings of what package net/http writes to the standard logger, and so to Caddy's log, about servers that violate HTTP. A provider
// can cause any number of these lines, and the line about an unsolicited answer quotes its first bytes, which may be outputs or secrets. So the rest of
// such a line is not logged, and equal ones once a minute.
var violations = [][]byte{
	[]byte("Unsolicited response received on idle HTTP channel"),
	[]byte("Transport: unhandled response frame type"),
	[]byte("http2: Transport received unsolicited DATA frame"),
	[]byte("http2: header list too large"),
	[]byte("http2: invalid header"),
	[]byte("http2: invalid pseudo headers"),
	[]byte("http2: 1xx informational responses too large"),
	[]byte("protocol error: received"),
}

// Quiet shortens and limits these lines from now on, until Caddy replaces the writer of the standard logger, as each new configuration does. Package
// net/http has no option for it.
func Quiet() {
	if _, ok := log.Writer().(*quietWriter); !ok {
		log.SetOutput(&quietWriter{log.Writer(), newLimiter(len(violations))})
	}
}

// QuietWhileRunning calls Quiet when a configuration starts to run, and at once if another one runs that it may not replace. One that is only
// validated never runs.
func QuietWhileRunning(ctx caddy.Context) error {
	if len(Live()) > 0 {
		Quiet()
	}
	return lifetime.OnStart(ctx, Quiet)
}

// quietWriter is the writer of the standard logger.
type quietWriter struct {
	io.Writer
	lines *limiter
}

// Write implements io.Writer.
func (w *quietWriter) Write(line []byte) (int, error) {
	for _, report := range violations {
		before, _, found := bytes.Cut(line, report)
		if !found {
			continue
		}
		if _, due, _ := w.lines.due("", string(report), time.Now()); due {
			if _, err := w.Writer.Write(append(bytes.Clone(before), report...)); err != nil {
				return 0, err
			}
		}
		return len(line), nil
	}
	return w.Writer.Write(line)
}
