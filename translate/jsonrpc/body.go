package jsonrpc

import (
	"io"
	"net/http"
	"slices"
	"sync"
)

const (
	// minBuffer is enough for most requests and answers.
	minBuffer = 4 << 10
	// maxTrusted bounds how much memory is allocated for a declared Content-Length.
	maxTrusted = 64 << 10
	// maxPooled is the largest capacity of a buffer that is put back into the pool.
	maxPooled = 256 << 10
)

// buffers pools the buffers of bodies and answers.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, minBuffer)
	return &b
}}

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

// putBuffer puts a buffer back. Nothing may use its memory afterwards.
func putBuffer(b *[]byte) {
	if cap(*b) > maxPooled {
		return
	}
	*b = (*b)[:0]
	buffers.Put(b)
}

// appendBody appends all of r to dst, which is empty. announced is the Content-Length, or -1.
// The limit also applies to a body with a smaller Content-Length, because a handler in front may have replaced the body.
func appendBody(dst []byte, r io.Reader, announced, limit int64) ([]byte, error) {
	// One byte more than announced, so that the Read that returns io.EOF needs no larger buffer.
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
