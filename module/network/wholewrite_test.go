package network

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
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

// Nothing is allocated that is as large as the buffer that net/http would use.
func TestBodiesAreSentWithoutBuffer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	tr := testTransport(t, "", testRules([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, server.Listener.Addr().(*net.TCPAddr).AddrPort().Port()))
	body := bytes.Repeat([]byte("a"), 1<<20)
	send := func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	send() // opens the connection
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const times = 50
	for range times {
		send()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / times; each > 32<<10 {
		t.Errorf("%d bytes are allocated for a request", each)
	}
}
