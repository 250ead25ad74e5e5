package observe

import (
	"bytes"
	"context"
	"io"
	"log"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
)

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

// standardLog shortens and limits these lines while a bridge runs. It replaces the writer of
// the standard logger, because package net/http has no option for it.
var standardLog quietLog

type quietLog struct {
	mu      sync.Mutex
	bridges int // number of bridges that run, or whose requests are still served
}

// Quiet shortens and limits these lines until the function that it returns is called. The
// last such call restores the writer.
func Quiet() (end func()) {
	q := &standardLog
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bridges++
	q.install()
	return sync.OnceFunc(q.end)
}

// KeepQuiet sets the writer again after Caddy has replaced it. Call it when a configuration is
// loaded.
func KeepQuiet() {
	q := &standardLog
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bridges > 0 {
		q.install()
	}
}

func (*quietLog) install() {
	if _, ok := log.Writer().(*quietWriter); !ok {
		log.SetOutput(&quietWriter{log.Writer(), newLimiter(len(violations))})
	}
}

func (q *quietLog) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bridges--
	if w, ok := log.Writer().(*quietWriter); ok && q.bridges == 0 {
		log.SetOutput(w.Writer)
	}
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
		if _, due := w.lines.due(string(report), time.Now()); due {
			if _, err := w.Writer.Write(append(bytes.Clone(before), report...)); err != nil {
				return 0, err
			}
		}
		return len(line), nil
	}
	return w.Writer.Write(line)
}

// QuietWhileRunning calls Quiet when the configuration starts to run. The returned function
// ends the effect. A configuration that is only validated never runs.
func QuietWhileRunning(ctx caddy.Context) (end func(), err error) {
	app, err := ctx.AppIfConfigured("events")
	if err != nil {
		return func() {}, nil //nolint:nilerr // the HTTP app loads the events app: without it, no bridge serves requests
	}
	KeepQuiet()
	w := new(startWatcher)
	return w.end, app.(*caddyevents.App).On("started", w)
}

// startWatcher handles the event that a configuration has started.
type startWatcher struct {
	mu   sync.Mutex
	loud func() // restores the standard logger; nil: it is unchanged
}

// Handle implements caddyevents.Handler.
func (w *startWatcher) Handle(context.Context, caddy.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loud == nil {
		w.loud = Quiet()
	}
	return nil
}

func (w *startWatcher) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loud != nil {
		w.loud()
	}
}
