package network

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// A body arrives as it is, whatever its size, and is sent without a buffer for it. One that is longer than its Content-Length is not
// sent.
func TestBodiesAreSentWhole(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil || int64(len(text)) != r.ContentLength || strings.Trim(string(text), "a") != "" {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	tr := testTransport(t, "", testRules([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, server.Listener.Addr().(*net.TCPAddr).AddrPort().Port()))
	send := func(body io.Reader, length int64) error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
		if err != nil {
			return err
		}
		r.ContentLength = length
		resp, err := tr.RoundTrip(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	}
	for _, size := range []int64{1, 8 << 10, 8<<10 + 1, 100_000, 2 << 20} {
		text := bytes.Repeat([]byte("a"), int(size))
		for name, body := range map[string]io.Reader{"in memory": bytes.NewReader(text), "read": struct{ io.Reader }{bytes.NewReader(text)}} {
			if err := send(body, size); err != nil {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
		}
		if err := send(bytes.NewReader(append(text, 'a')), size); err == nil {
			t.Errorf("%d bytes with one more: no error", size)
		}
	}
}

// net/http would read the body into a buffer of its own.
func TestBodiesAreSentWithoutBuffer(t *testing.T) {
	var received atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		received.Add(n)
	}))
	defer server.Close()
	tr := testTransport(t, "", testRules([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, server.Listener.Addr().(*net.TCPAddr).AddrPort().Port()))
	const size = 1 << 20
	body := &wholeBody{rest: bytes.Repeat([]byte("a"), size)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = size
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if body.reads.Load() > 0 || received.Load() != size {
		t.Errorf("%d bytes were sent, and the body was read %d times", received.Load(), body.reads.Load())
	}
}

// wholeBody is a body that writes itself.
type wholeBody struct {
	rest  []byte
	reads atomic.Int64
}

func (b *wholeBody) Read(p []byte) (int, error) {
	b.reads.Add(1)
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *wholeBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b.rest)
	b.rest = b.rest[n:]
	return int64(n), err
}
