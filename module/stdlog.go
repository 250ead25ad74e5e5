package skillbridge

import (
	"bytes"
	"io"
	"log"
	"time"
)

// Package net/http reports what a server sends without having been asked to the
// standard logger, from where it gets into Caddy's log: with the first bytes of
// it, which may be an answer with outputs or secrets, and as often as a provider
// likes.

// unsolicited begins such a report; what was sent comes after it.
var unsolicited = []byte("Unsolicited response received on idle HTTP channel")

// quietStandardLog keeps these reports short and rare, unless that is done already.
// Caddy replaces the standard logger's writer with each configuration.
func quietStandardLog() {
	if _, ok := log.Writer().(*quietWriter); !ok {
		log.SetOutput(&quietWriter{log.Writer(), newLimiter(1)})
	}
}

// quietWriter is the writer of the standard logger.
type quietWriter struct {
	io.Writer
	limiter *limiter
}

// Write implements io.Writer.
func (w *quietWriter) Write(line []byte) (int, error) {
	before, _, found := bytes.Cut(line, unsolicited)
	if !found {
		return w.Writer.Write(line)
	}
	if _, due := w.limiter.due("", time.Now()); due {
		if _, err := w.Writer.Write(append(bytes.Clone(before), unsolicited...)); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}
