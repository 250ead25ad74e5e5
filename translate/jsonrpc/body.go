package jsonrpc

import (
	"io"
	"net/http"
	"slices"
	"sync"
)

const (
	// minBuffer is room for most requests and answers.
	minBuffer = 4 << 10
	// maxTrusted is how much is set aside because a client says it will send it.
	maxTrusted = 64 << 10
	// maxPooled is the largest buffer worth keeping.
	maxPooled = 256 << 10
)

// buffers holds the memory of bodies and answers.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, minBuffer)
	return &b
}}

func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

// giveBuffer must only be called when nothing uses the memory any more.
func giveBuffer(b *[]byte) {
	if cap(*b) > maxPooled {
		return
	}
	*b = (*b)[:0]
	buffers.Put(b)
}

// appendBody appends all of r to dst, which is empty. announced is the length the
// client declared, or -1. Handlers in front may have put more in its place, so that
// the limit is held whatever was announced.
func appendBody(dst []byte, r io.Reader, announced, limit int64) ([]byte, error) {
	// One byte more, so that the end is seen without growing.
	dst = slices.Grow(dst, int(min(max(announced, 0), maxTrusted))+1)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, len(dst))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if int64(len(dst)) > limit {
			return dst, &http.MaxBytesError{Limit: limit}
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
