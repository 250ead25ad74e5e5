package testbed

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

func init() {
	caddy.RegisterModule(logWriter{})
}

// maxLog is the maximum size of a log in memory. The oldest part is dropped.
const maxLog = 64 << 20

// A Log is Caddy's log, with all levels.
type Log struct {
	tb        testing.TB
	mu        sync.Mutex
	rest      []byte // the incomplete last line
	lines     bytes.Buffer
	forbidden []string
	ended     bool
	quiet     bool
}

func newLog(tb testing.TB) *Log {
	tb.Helper()
	l := &Log{tb: tb}
	tb.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = true
	})
	return l
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 {
			return len(b), nil
		}
		l.add(string(l.rest[:end+1]))
		l.rest = l.rest[end+1:]
	}
}

func (l *Log) add(line string) {
	for _, text := range l.forbidden {
		if shows(line, text) && !l.ended {
			l.tb.Errorf("the log shows %q: %s", text, line)
		}
	}
	if l.quiet {
		return
	}
	if l.lines.Len() > maxLog {
		l.lines.Next(maxLog / 2)
	}
	l.lines.WriteString(line)
}

// shows reports whether a line contains a text. The line in which Caddy logs its configuration does
// not count.
func shows(line, text string) bool {
	return strings.Contains(line, text) && !strings.Contains(line, `"logger":"http.auto_https","msg":"adjusted config"`)
}

// Text returns the log.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String() + string(l.rest)
}

// Has reports whether the log contains a text.
func (l *Log) Has(text string) bool { return strings.Contains(l.Text(), text) }

// Lines returns the lines that contain all texts.
func (l *Log) Lines(texts ...string) []string {
	var found []string
lines:
	for line := range strings.Lines(l.Text()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

// MustNotShow fails the test if one of the texts was logged or is logged later.
func (l *Log) MustNotShow(texts ...string) {
	l.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forbidden = append(l.forbidden, texts...)
	for line := range strings.Lines(l.lines.String()) {
		for _, text := range texts {
			if shows(line, text) {
				l.tb.Errorf("the log shows %q: %s", text, line)
			}
		}
	}
}

// Lean stops keeping lines, so that a long test can measure memory. New lines are still searched for
// the texts of MustNotShow.
func (l *Log) Lean() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = true
	l.lines = bytes.Buffer{}
}

// logs are the logs of running Caddys, by key.
var logs sync.Map

// logWriter is the Caddy module that writes to a [Log].
type logWriter struct {
	Key string `json:"key"`
}

// CaddyModule implements caddy.Module.
func (logWriter) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.logging.writers.testbed", New: func() caddy.Module { return new(logWriter) }}
}

func (w logWriter) String() string    { return "testbed " + w.Key }
func (w logWriter) WriterKey() string { return w.String() }

func (w logWriter) OpenWriter() (io.WriteCloser, error) {
	if log, ok := logs.Load(w.Key); ok {
		return unclosed{log.(*Log)}, nil
	}
	return unclosed{io.Discard}, nil
}

// unclosed ignores Close, because the log is read after Caddy has closed it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
