package observe

import (
	"bytes"
	"io"
	"log"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
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
