package jsonrpc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// pieceSize is how many bytes of an answer are copied into a buffer. As many bytes of each HTTP answer do not
	// count towards MaxAnswers.
	pieceSize = 64 << 10
	// writeSize bounds the size of a write. The client has the write timeout for each, so that
	// one that reads slowly is not disconnected.
	writeSize = pieceSize / 2
	// firstWrite is more than the minimum length that Caddy's encode handler compresses, which is 512 by default.
	firstWrite = 4 << 10
	// serverBuffer is how many bytes package net/http buffers over HTTP/1.1 until the
	// handler has returned. The handler does not wait for the client while it writes a
	// shorter answer.
	serverBuffer = 2 << 10
)

// output writes the answer to one HTTP request.
type output struct {
	server  *Server
	ctx     context.Context //nolint:containedctx // of the one request that is answered
	w       http.ResponseWriter
	request *http.Request
	arrived time.Time

	until     time.Time // when all writes have to end; zero: there is no such time
	deadline  time.Time // of the current write; zero: none was set
	written   int64
	unflushed int   // bytes written since the last flush, which a handler in front may buffer
	err       error // of a write
}

// error writes an error that is the whole answer. status is that of an error without one.
func (o *output) error(status int, id jsontext.Value, e *Error) {
	o.fields(e)
	buffer := getBuffer()
	*buffer = o.server.Profile.appendError(*buffer, id, o.server.Profile.form(o.request, e))
	o.whole(cmp.Or(e.Status, status), *buffer)
	putBuffer(buffer)
}

// fields sets the header fields of an error.
func (o *output) fields(e *Error) {
	h := o.w.Header()
	for name, values := range e.Header {
		h[http.CanonicalHeaderKey(name)] = slices.Clone(values) // handlers in front may change it
	}
}

// whole writes a complete answer.
func (o *output) whole(status int, body []byte) {
	o.header(status, strconv.Itoa(len(body)))
	if len(body) <= serverBuffer && o.request.ProtoMajor == 1 {
		_, _ = o.w.Write(body) // an error would mean that the client is gone
		return
	}
	o.write(body)
}

// noContent answers notifications.
func (o *output) noContent() {
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.WriteHeader(cmp.Or(o.server.Profile.NotificationStatus, http.StatusNoContent))
}

// header writes the header. length is empty if it is not known.
func (o *output) header(status int, length string) {
	h := o.w.Header()
	h.Set("Content-Type", "application/json")
	if length != "" {
		h.Set("Content-Length", length)
	}
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	o.w.WriteHeader(status)
}

// write writes a text in pieces of at most writeSize bytes, each with a new deadline.
func (o *output) write(text []byte) {
	for len(text) > 0 && o.err == nil {
		piece := text[:min(len(text), writeSize)]
		if o.unflushed > 0 && o.unflushed+len(piece) > writeSize {
			o.flush() // otherwise an encoder may buffer several pieces, and write them under one deadline
			if o.err != nil {
				return
			}
		}
		o.extendDeadline()
		n, err := o.w.Write(piece)
		o.written += int64(n)
		o.unflushed += n
		o.fail(err)
		text = text[len(piece):]
	}
}

// line writes a JSON text without its line ends, which are white space between tokens, in pieces. Only pieces with line ends are copied.
func (o *output) line(text []byte) {
	for len(text) > 0 && o.err == nil {
		n := writeSize - o.unflushed
		if n <= 0 {
			n = writeSize
		}
		piece := text[:min(len(text), n)]
		text = text[len(piece):]
		if bytes.ContainsAny(piece, "\r\n") {
			piece = bytes.Clone(piece)
			Flatten(piece)
		}
		o.write(piece)
	}
}

// flush flushes what was written to the client.
func (o *output) flush() {
	o.extendDeadline()
	o.unflushed = 0
	if err := http.NewResponseController(o.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		o.fail(err)
	}
}

// pause flushes what was written and removes the deadline, since the next write may be much later.
func (o *output) pause() {
	if o.err != nil {
		return
	}
	o.flush()
	if !o.deadline.IsZero() && o.err == nil {
		_ = http.NewResponseController(o.w).SetWriteDeadline(o.serverDeadline()) // an error would have occurred before
	}
}

// extendDeadline sets the write deadline to the write timeout from now, but not after that of the HTTP server.
func (o *output) extendDeadline() {
	if o.server.WriteTimeout <= 0 {
		return
	}
	o.deadline = time.Now().Add(o.server.WriteTimeout)
	if latest := o.serverDeadline(); !latest.IsZero() && latest.Before(o.deadline) {
		o.deadline = latest
	}
	if http.NewResponseController(o.w).SetWriteDeadline(o.deadline) != nil {
		o.deadline = time.Time{} // it is not supported: a handler in front buffers, or the server is not of net/http
	}
}

// serverDeadline returns the earlier one of the write deadline of the HTTP server and the end of the stream; zero: there is none.
func (o *output) serverDeadline() time.Time {
	server, ok := o.request.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout <= 0 {
		return o.until
	}
	last := o.arrived.Add(server.WriteTimeout)
	if !o.until.IsZero() && o.until.Before(last) {
		return o.until
	}
	return last
}

// fail stores the error of a write. If the client did not read in time, it calls OnUnread.
func (o *output) fail(err error) {
	if err == nil {
		return
	}
	o.err = err
	// Over HTTP/2, the error says only that the stream was closed.
	unread := errors.Is(err, os.ErrDeadlineExceeded) || !o.deadline.IsZero() && !time.Now().Before(o.deadline)
	if unread && o.server.OnUnread != nil {
		o.server.OnUnread(o.ctx, o.written)
	}
}

// appendResult appends the answer with a result (JSON-RPC 2.0, section 5). id and
// result must be valid JSON; a nil id means null.
func appendResult(dst []byte, id, result jsontext.Value) []byte {
	dst = appendHead(dst, id)
	dst = append(dst, `,"result":`...)
	dst = append(dst, result...)
	return append(dst, '}')
}

// appendError appends the answer with an error (JSON-RPC 2.0, section 5.1). id and
// e.Data must be valid JSON; a nil id means null or, with OmitNullID, none. Empty data is
// left out. Invalid UTF-8 in the message is replaced.
func (p *Profile) appendError(dst []byte, id jsontext.Value, e *Error) []byte {
	if id == nil && p.OmitNullID {
		dst = append(dst, `{"jsonrpc":"2.0"`...)
	} else {
		dst = appendHead(dst, id)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.Code), 10)
	dst = append(dst, `,"message":`...)
	// The only error is that invalid UTF-8 was replaced.
	dst, _ = jsontext.AppendQuote(dst, e.Message)
	if e.Data.Kind() != jsontext.KindInvalid {
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Data...)
	}
	return append(dst, `}}`...)
}

func appendHead(dst []byte, id jsontext.Value) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		return append(dst, `null`...)
	}
	return append(dst, id...)
}

const (
	// minBuffer is enough for most requests and answers.
	minBuffer = 4 << 10
	// maxTrusted bounds how much memory is allocated for a declared Content-Length before any content has come. Once as much has come,
	// up to maxAnnounced is allocated.
	maxTrusted, maxAnnounced = 64 << 10, 2 << 20
	// maxPooled is the largest capacity of a buffer in the pool for all uses; in the one for long bodies and answers, it is maxAnnounced.
	maxPooled = 256 << 10
)

// buffers pools the buffers of bodies and answers.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, minBuffer)
	return &b
}}

// longBuffers pools those that others do not need. New memory for a body of 256 KiB takes a fifth of its call.
var longBuffers sync.Pool

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

// putBuffer puts a buffer back. Nothing may use its memory afterwards.
func putBuffer(b *[]byte) {
	*b = (*b)[:0]
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	} else if cap(*b) <= maxAnnounced {
		longBuffers.Put(b)
	}
}

// grown returns a buffer with the bytes of another one, which it replaces, and room for size bytes.
func grown(b *[]byte, size int) *[]byte {
	if size > maxPooled {
		if long, ok := longBuffers.Get().(*[]byte); ok && cap(*long) >= size {
			*long = append(*long, *b...)
			putBuffer(b)
			return long
		}
	}
	*b = slices.Grow(*b, size-len(*b))
	return b
}

// readBody reads all of r into a buffer from the pool, also if it fails. announced is the Content-Length, or -1.
// The limit also applies to a body with a smaller Content-Length, because a handler in front may have replaced the body.
func readBody(r io.Reader, announced, limit int64) (*[]byte, error) {
	b := getBuffer()
	// One byte more than announced, so that the Read that returns io.EOF needs no larger buffer.
	*b = slices.Grow(*b, int(min(max(announced, 0), maxTrusted))+1)
	for {
		if len(*b) == cap(*b) {
			whole := int(min(announced+1, maxAnnounced))
			if len(*b) <= maxTrusted || whole <= len(*b) {
				whole = 2 * len(*b)
			}
			b = grown(b, whole)
		}
		n, err := r.Read((*b)[len(*b):cap(*b)])
		*b = (*b)[:len(*b)+n]
		if int64(len(*b)) > limit {
			return b, &http.MaxBytesError{Limit: limit}
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}
