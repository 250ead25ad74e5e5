package jsonrpc

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// pieceSize is what a client has to take in the time it has.
	pieceSize = 64 << 10
	// portion is how much is written at a time, so that a client that reads slowly is seen
	// to read.
	portion = pieceSize / 2
	// beginning is more than what encoders in front want to see, which is 512 by default.
	beginning = 4 << 10
	// unhurried is what package net/http keeps until the handler has returned, over
	// HTTP/1.1: writing it never waits for the client.
	unhurried = 2 << 10
)

// output writes the answer to one HTTP request.
type output struct {
	server  *Server
	ctx     context.Context //nolint:containedctx // of the one request that is answered
	w       http.ResponseWriter
	request *http.Request
	arrived time.Time

	deadline time.Time // of what is being written
	written  int64
	unsent   int   // what a handler in front may hold back, which has been written
	err      error // of a client that can't be written to
}

func (o *output) error(status int, id jsontext.Value, e *Error) {
	buffer := takeBuffer()
	*buffer = AppendError(*buffer, id, e)
	o.whole(status, *buffer)
	giveBuffer(buffer)
}

// whole writes an answer that has ended.
func (o *output) whole(status int, body []byte) {
	o.header(status, strconv.Itoa(len(body)))
	if len(body) <= unhurried && o.request.ProtoMajor == 1 {
		_, _ = o.w.Write(body) // a client that is gone gets no error
		return
	}
	o.write(body)
}

// nothing answers where no answer is owed.
func (o *output) nothing() {
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.WriteHeader(http.StatusNoContent)
}

// header begins an answer. length is empty if it is not known yet.
func (o *output) header(status int, length string) {
	// In one piece, but not shared with other answers: handlers in front may write to them.
	values := [...]string{"application/json", length, "no-store", "nosniff"}
	h := o.w.Header()
	h["Content-Type"] = values[0:1:1]
	if length != "" {
		h["Content-Length"] = values[1:2:2]
	}
	h["Cache-Control"] = values[2:3:3]
	h["X-Content-Type-Options"] = values[3:4:4]
	o.w.WriteHeader(status)
}

// write writes in pieces, for each of which the client has time anew.
func (o *output) write(text []byte) {
	for len(text) > 0 && o.err == nil {
		piece := text[:min(len(text), portion)]
		if o.unsent > 0 && o.unsent+len(piece) > portion {
			o.flush() // or an encoder writes more at a time than the client has time for
			if o.err != nil {
				return
			}
		}
		o.hurry()
		n, err := o.w.Write(piece)
		o.written += int64(n)
		o.unsent += n
		o.note(err)
		text = text[len(piece):]
	}
}

// flush passes on what was written.
func (o *output) flush() {
	o.hurry()
	o.unsent = 0
	if err := http.NewResponseController(o.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		o.note(err)
	}
}

// pause passes on what was written, and stops the clock: nothing is to be written for a while.
func (o *output) pause() {
	if o.err != nil {
		return
	}
	o.flush()
	if !o.deadline.IsZero() && o.err == nil {
		_ = http.NewResponseController(o.w).SetWriteDeadline(o.latest()) // as it was set before
	}
}

// hurry gives the client so long to take what is written next.
func (o *output) hurry() {
	if o.server.WriteTimeout <= 0 {
		return
	}
	o.deadline = time.Now().Add(o.server.WriteTimeout)
	if latest := o.latest(); !latest.IsZero() && latest.Before(o.deadline) {
		o.deadline = latest
	}
	if http.NewResponseController(o.w).SetWriteDeadline(o.deadline) != nil {
		o.deadline = time.Time{} // a handler in front buffers the answer, or the server is not that of package net/http
	}
}

// latest is the write deadline of the HTTP server; zero: there is none.
func (o *output) latest() time.Time {
	server, ok := o.request.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout <= 0 {
		return time.Time{}
	}
	return o.arrived.Add(server.WriteTimeout)
}

// note notes why writing failed.
func (o *output) note(err error) {
	if err == nil {
		return
	}
	o.err = err
	// Over HTTP/2 the error says no more than that the stream has ended.
	unread := errors.Is(err, os.ErrDeadlineExceeded) || !o.deadline.IsZero() && !time.Now().Before(o.deadline)
	if unread && o.server.OnUnread != nil {
		o.server.OnUnread(o.ctx, o.written)
	}
}
