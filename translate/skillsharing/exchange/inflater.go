package exchange

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// coding is the only content coding that is accepted (RFC 9110, section 8.4.1.3). This
// package decodes it because package net/http does not report how much of the compressed
// body it has read, and would read a body without content until the end of the call.
const coding = "gzip"

// isGzip reports whether the body of an answer is compressed.
func isGzip(resp *http.Response) bool {
	return codingOf(resp.Header) == coding
}

// codingOf returns the content codings of an answer in lower case; empty: there are none. x-gzip is gzip (RFC 9110, section 8.4.1.3).
func codingOf(h http.Header) string {
	value := strings.Join(h["Content-Encoding"], ",")
	if value == "" {
		return ""
	}
	var codings []string
	for name := range strings.SplitSeq(strings.ToLower(value), ",") {
		switch name = strings.TrimSpace(name); name {
		case "", "identity":
		case "x-gzip":
			codings = append(codings, coding)
		default:
			codings = append(codings, name)
		}
	}
	return strings.Join(codings, ", ")
}

// UnknownCoding returns what is wrong with the Content-Encoding of an answer that was read; empty: nothing is. The header of one that was
// decompressed has none.
func UnknownCoding(h http.Header) string {
	if codings := codingOf(h); codings != "" {
		return fmt.Sprintf("its body has the Content-Encoding %q, but must have gzip or none", safetext.Line(codings, maxStatus))
	}
	return ""
}

// describeContent changes the header of an answer to that of its decompressed body.
func describeContent(resp *http.Response) {
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// errHollow is the error for a compressed body that is larger than its content.
var errHollow = errors.New("its compressed body is larger than its content")

const (
	// inflateAhead is how many bytes of a compressed body are read even if they have no content.
	inflateAhead = 64 << 10
	// inflateRatio is how many compressed bytes are read for each byte of content: an encoder that
	// ends a block after every byte writes 7 bytes for each.
	inflateRatio = 8
)

// inflater decompresses a body. It limits what it reads by the content so far, because members of a
// file (RFC 1952, section 2.2) and blocks of a stream (RFC 1951, section 3.2.3) may be empty, and there
// may be any number of them.
type inflater struct {
	source  io.Reader
	size    int64 // limit of the body, in bytes
	read    int64 // compressed bytes so far
	content int64 // decompressed so far

	buffer *bufio.Reader
	reader *gzip.Reader // nil before the first byte is read
	err    error
}

// inflaters keeps inflaters, of some 45 KB each, for reuse.
var inflaters = sync.Pool{New: func() any { return &inflater{buffer: bufio.NewReader(nil)} }}

// newInflater returns an inflater for a body of at most about size bytes. It must be freed.
func newInflater(source io.Reader, size int64) *inflater {
	z := inflaters.Get().(*inflater)
	z.begin(source, size)
	return z
}

func (z *inflater) begin(source io.Reader, size int64) {
	z.source, z.size, z.read, z.content, z.err = source, size, 0, 0, nil
	z.buffer.Reset((*compressed)(z))
}

// inflatedBody returns the content of a body of at most about size bytes. It may be closed during a
// read.
func inflatedBody(body io.ReadCloser, size int64) io.ReadCloser {
	z := &inflater{buffer: bufio.NewReader(nil)}
	z.begin(body, size)
	return struct {
		io.Reader
		io.Closer
	}{z, body}
}

// free gives the inflater back. It must not be read any more.
func (z *inflater) free() {
	z.source, z.err = nil, io.ErrClosedPipe
	inflaters.Put(z)
}

// Read implements [io.Reader].
func (z *inflater) Read(p []byte) (int, error) {
	if z.err == nil && z.content == 0 && z.read == 0 {
		z.err = z.readHead()
	}
	if z.err != nil {
		return 0, z.err
	}
	n, err := z.reader.Read(p)
	z.content += int64(n)
	z.err = err
	return n, err
}

// readHead reads the head of the body. A body without a byte is empty.
func (z *inflater) readHead() error {
	if z.reader != nil {
		return z.reader.Reset(z.buffer)
	}
	reader, err := gzip.NewReader(z.buffer)
	if err == nil {
		z.reader = reader
	}
	return err
}

// compressed reads the compressed body, within the limits.
type compressed inflater

// Read implements [io.Reader].
func (c *compressed) Read(p []byte) (int, error) {
	switch most := c.size + inflateAhead; {
	case c.read > most:
		return 0, errTooLarge
	case c.read > inflateRatio*c.content+inflateAhead:
		return 0, errHollow
	}
	n, err := c.source.Read(p)
	c.read += int64(n)
	return n, err
}
