package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// endless is a connection on which something always comes.
type endless struct{ net.Conn }

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// What is under way of calls that are given up at once ends no other call, and is
// bounded; with the last call the connection is closed.
func TestMeterOfCallsGivenUp(t *testing.T) {
	const overhead, calls = 256 << 10, 60
	m := newMeter(endless{}, overhead)
	for range calls + 1 {
		if !m.begin() {
			t.Fatal("closed")
		}
	}
	for range calls {
		m.end(true)
	}
	if n, err := io.CopyN(io.Discard, m, calls*int64(receiveWindow(overhead))); err != nil {
		t.Errorf("after %d bytes: %v", n, err)
	}
	if n, err := io.CopyN(io.Discard, m, (calls+2)*overhead); err == nil {
		t.Errorf("%d bytes more were taken", n)
	}

	m = newMeter(endless{}, overhead)
	m.begin()
	m.begin()
	m.end(true)
	m.end(false)
	if m.begin() {
		t.Error("a connection is used again on which something may be under way")
	}
}

type usedKey struct{}

// A request whose used connections are all closed without an answer is sent on two of
// them, and then on a new one, each time with all of its body.
func TestUsedConnections(t *testing.T) {
	const idle = 6
	for _, scheme := range []string{"http", "https"} {
		var wait, drop atomic.Bool
		var sent atomic.Int32
		var waiting sync.WaitGroup
		release := make(chan struct{})
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			used := r.Context().Value(usedKey{}).(*atomic.Bool)
			sent.Add(1)
			if body, err := io.ReadAll(r.Body); err != nil || len(body) != int(r.ContentLength) {
				t.Errorf("%d bytes of %d: %v", len(body), r.ContentLength, err)
			}
			if used.Swap(true) && drop.Load() {
				panic(http.ErrAbortHandler)
			}
			if wait.Load() {
				waiting.Done()
				<-release
			}
		}))
		server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, usedKey{}, new(atomic.Bool))
		}
		if scheme == "https" {
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		address := server.Listener.Addr().String()
		_, port, _ := net.SplitHostPort(address)
		number, _ := strconv.ParseUint(port, 10, 16) // which it is
		tr := testTransport(t, `{"protocol":"http","tls":{"insecure_skip_verify":true}}`, testRules(networks(t, "127.0.0.0/8"), uint16(number)))
		wait.Store(true)
		waiting.Add(idle)
		var calls sync.WaitGroup
		for range idle {
			calls.Go(func() {
				if err := get(t.Context(), tr, scheme, address); err != nil {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		wait.Store(false)
		close(release)
		calls.Wait()
		drop.Store(true)
		sent.Store(0)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, scheme+"://"+address+"/", strings.NewReader("what may be sent again"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", "1") // by which package net/http repeats it
		response, err := tr.RoundTrip(r)
		if err != nil || sent.Load() != 3 {
			t.Fatalf("%s: sent %d times: %v", scheme, sent.Load(), err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
