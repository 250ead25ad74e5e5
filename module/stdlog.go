package skillbridge

import (
	"bytes"
	"io"
	"log"
	"sync"
	"time"
)

// Package net/http reports what a server sends without having been asked to the
// standard logger, from where it gets into Caddy's log: with the first bytes of
// it, which may be an answer with outputs or secrets, and as often as a provider
// likes.

// unsolicited begins such a report; what was sent comes after it.
var unsolicited = []byte("Unsolicited response received on idle HTTP channel")

// standardLog keeps these reports short and rare while a bridge runs. There is no
// other way: package net/http has no option for it.
var standardLog quietLog

type quietLog struct {
	mu      sync.Mutex
	bridges int // that run, or whose requests are still served
}

// start is called when a bridge runs. The function that it returns is called when
// nothing of it goes on any more; with the last, the writer is given back.
func (q *quietLog) start() (end func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bridges++
	q.install()
	return sync.OnceFunc(q.end)
}

// keep is called when a configuration is loaded, which replaces the writer.
func (q *quietLog) keep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bridges > 0 {
		q.install()
	}
}

func (*quietLog) install() {
	if _, ok := log.Writer().(*quietWriter); !ok {
		log.SetOutput(&quietWriter{log.Writer(), newLimiter(1)})
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
