package jsonrpc

import (
	"io"
	"math/bits"
	"net/http"
	"slices"
	"sync"
)

const (
	// minBuffer is enough for most requests and answers.
	minBuffer = 4 << 10
	// maxTrusted bounds how much memory is allocated for a declared Content-Length before any content has come. Once as much has come,
	// up to maxPooled is allocated.
	maxTrusted = 64 << 10
	// maxSmall is the largest capacity of a buffer in the pool for all uses, and maxPooled that of one in the pool for long bodies.
	maxSmall, maxPooled = 256 << 10, 2 << 20
)

// buffers pools the buffers of bodies and answers, and longBuffers those of long bodies.
var (
	buffers = sync.Pool{New: func() any {
		b := make([]byte, 0, minBuffer)
		return &b
	}}
	longBuffers sync.Pool
)

func getBuffer() *[]byte { return buffers.Get().(*[]byte) }

// longBuffer returns a buffer with room for size bytes, which are more than maxSmall and at most maxPooled.
func longBuffer(size int) *[]byte {
	if b, ok := longBuffers.Get().(*[]byte); ok && cap(*b) >= size {
		return b
	}
	b := make([]byte, 0, 1<<bits.Len(uint(size-1))) // a power of two, so that it fits most other bodies
	return &b
}

// putBuffer puts a buffer back. Nothing may use its memory afterwards.
func putBuffer(b *[]byte) {
	pool := &buffers
	switch size := cap(*b); {
	case size > maxPooled:
		return
	case size > maxSmall:
		pool = &longBuffers
	}
	*b = (*b)[:0]
	pool.Put(b)
}

// readBody reads all of r into a buffer from the pool, also if it fails. announced is the Content-Length, or -1.
// The limit also applies to a body with a smaller Content-Length, because a handler in front may have replaced the body.
func readBody(r io.Reader, announced, limit int64) (*[]byte, error) {
	b := getBuffer()
	// One byte more than announced, so that the Read that returns io.EOF needs no larger buffer.
	*b = slices.Grow(*b, int(min(max(announced, 0), maxTrusted))+1)
	for {
		if len(*b) == cap(*b) {
			switch whole := int(min(announced+1, maxPooled)); {
			case len(*b) <= maxTrusted || whole <= len(*b):
				*b = slices.Grow(*b, len(*b))
			case whole <= maxSmall:
				*b = slices.Grow(*b, whole-len(*b))
			default:
				long := longBuffer(whole)
				*long = append(*long, *b...)
				putBuffer(b)
				b = long
			}
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
