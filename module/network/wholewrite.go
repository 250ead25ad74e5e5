package network

import (
	"io"
	"net"
	"net/http"
)

// wholeWriter is a TCP connection that writes a request's body, or what is left of it, with one system call and without a copy.
// net/http would copy it through a new buffer of 32 KiB.
type wholeWriter struct{ *net.TCPConn }

// ReadFrom implements [io.ReaderFrom], which net/http calls for bodies that are larger than its buffer.
func (w wholeWriter) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return w.TCPConn.ReadFrom(r)
	}
	body, ok := limited.R.(io.WriterTo) // as a bytes.Reader is
	if !ok {
		return w.TCPConn.ReadFrom(r)
	}
	n, err := body.WriteTo(&limitedWriter{w.TCPConn, limited.N})
	limited.N -= n
	return n, err
}

// limitedWriter writes at most n bytes more.
type limitedWriter struct {
	to io.Writer
	n  int64
}

// Write implements [io.Writer].
func (w *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.n {
		return 0, http.ErrContentLength
	}
	n, err := w.to.Write(p)
	w.n -= int64(n)
	return n, err
}
