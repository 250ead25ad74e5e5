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

// maxLog is how much of a log is kept: its newest part.
const maxLog = 64 << 20

// A Log is what Caddy logged, at every level.
type Log struct {
	tb        testing.TB
	mu        sync.Mutex
	rest      []byte // the line being written
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

// shows reports whether a line has a text, other than the one in which Caddy
// itself logs its configuration as it is written.
func shows(line, text string) bool {
	return strings.Contains(line, text) && !strings.Contains(line, `"logger":"http.auto_https","msg":"adjusted config"`)
}

// Text is what was logged until now.
func (l *Log) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String() + string(l.rest)
}

// Has reports whether a text was logged.
func (l *Log) Has(text string) bool { return strings.Contains(l.Text(), text) }

// Lines returns the lines that have all of the texts.
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

// MustNotShow fails the test when one of the texts is logged, now or later.
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

// Lean keeps no lines from now on, so that a long test can measure memory. They
// are still searched for what must not be shown.
func (l *Log) Lean() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.quiet = true
	l.lines = bytes.Buffer{}
}

// logs are those that a running Caddy writes to, by their key.
var logs sync.Map

// logWriter is a Caddy log writer into a [Log].
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

// unclosed is a log that is still read after Caddy has closed it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
