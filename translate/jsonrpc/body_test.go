package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/iotest"
)

// A body is read whole, whatever its Content-Length says, and one byte beyond the limit is an error.
func TestReadBody(t *testing.T) {
	for _, size := range []int{0, 1, minBuffer, maxTrusted, maxTrusted + 1, maxPooled - 1, maxPooled, 900_000, maxAnnounced, 3 << 20} {
		text := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		for _, announced := range []int64{-1, 0, int64(size) / 2, int64(size), int64(size) + 1, 1 << 20, 10 << 20} {
			for range 2 { // with new buffers, and perhaps with pooled ones
				b, err := readBody(bytes.NewReader(text), announced, int64(size))
				if err != nil || !bytes.Equal(*b, text) {
					t.Fatalf("%d bytes, %d announced: %d bytes, %v", size, announced, len(*b), err)
				}
				putBuffer(b)
			}
			b, err := readBody(iotest.HalfReader(bytes.NewReader(text)), announced, int64(size)-1)
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); !tooLarge && size > 0 {
				t.Errorf("%d bytes, %d announced: %v", size, announced, err)
			}
			putBuffer(b)
		}
	}
}

// Memory for a Content-Length is allocated once 64 KiB have come, at most 2 MiB.
func TestTrustedLength(t *testing.T) {
	for _, c := range []struct{ sent, announced, most int }{
		{0, 1 << 20, maxPooled}, {maxTrusted, 1 << 30, maxPooled}, {maxPooled + 1, 1 << 20, 1 << 21}, {maxPooled + 1, 1 << 30, maxAnnounced},
	} {
		broken := io.MultiReader(bytes.NewReader(make([]byte, c.sent)), iotest.ErrReader(io.ErrUnexpectedEOF))
		b, err := readBody(broken, int64(c.announced), 1<<30)
		if err == nil || len(*b) != c.sent || cap(*b) > c.most {
			t.Errorf("%+v: %d bytes in %d, %v", c, len(*b), cap(*b), err)
		}
		putBuffer(b)
	}
}
