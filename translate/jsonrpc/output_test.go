package jsonrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// slowWriter is a ResponseWriter whose client takes some time to read each piece.
type slowWriter struct {
	header   http.Header
	pace     time.Duration
	deadline time.Time
	taken    int
	pieces   int
}

func (c *slowWriter) Header() http.Header { return c.header }
func (c *slowWriter) WriteHeader(int)     {}

func (c *slowWriter) SetWriteDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

func (c *slowWriter) Write(p []byte) (int, error) {
	if late := time.Until(c.deadline); !c.deadline.IsZero() && late < c.pace {
		time.Sleep(max(late, 0))
		return 0, errors.New("HTTP/2 does not say why")
	}
	time.Sleep(c.pace)
	c.taken += len(p)
	c.pieces++
	return len(p), nil
}

func (c *slowWriter) FlushError() error {
	if !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
		return errors.New("too late")
	}
	return nil
}

// TestClientHasTimeForEachPiece: a client that reads slowly gets its answer; one that reads
// nothing for the write timeout is disconnected; there is no timeout while there is nothing
// to write.
func TestClientHasTimeForEachPiece(t *testing.T) {
	const size = 1_000_000
	large := jsontext.Value(`"` + strings.Repeat("x", size) + `"`)
	for _, test := range []struct {
		name   string
		body   string
		pace   time.Duration
		server time.Duration // the HTTP server's own
		unread bool
	}{
		{"slow", ping, 9 * time.Second, 0, false},
		{"slow batch", batch(3), 9 * time.Second, 0, false},
		{"reads nothing", ping, 11 * time.Second, 0, true},
		{"reads nothing of a batch", batch(3), 11 * time.Second, 0, true},
		{"the server is in a hurry", ping, 9 * time.Second, 30 * time.Second, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				unread := -1
				var canceled atomic.Bool
				s := &jsonrpc.Server{
					Profile: jsonrpc.Profile{MaxBatch: 10}, WriteTimeout: 10 * time.Second,
					Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
						if string(req.ID) == "2" { // the others have been written by then
							select {
							case <-ctx.Done():
								canceled.Store(true)
							case <-time.After(20 * time.Minute):
							}
							return req.ID, nil
						}
						return large, nil
					}),
					OnUnread: func(_ context.Context, written int64) { unread = int(written) },
				}
				w := &slowWriter{header: http.Header{}, pace: test.pace}
				ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: test.server})
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(test.body))
				if err != nil {
					t.Fatal(err)
				}
				s.ServeHTTP(w, r)
				if !test.unread && (unread != -1 || w.taken < size) {
					t.Errorf("%d bytes were read, and the client was left at %d", w.taken, unread)
				}
				if test.unread && (unread != w.taken || w.taken > size/2) {
					t.Errorf("%d bytes were read, and the client was left at %d", w.taken, unread)
				}
				if test.body != ping && canceled.Load() != test.unread {
					t.Errorf("the rest of the batch was cancelled: %t", canceled.Load())
				}
				if w.pieces > 0 && w.taken/w.pieces > 64<<10 {
					t.Errorf("%d bytes in %d pieces", w.taken, w.pieces)
				}
			})
		})
	}
}

// TestConnectionOfUnread: with package net/http, the connection of a client that does not read
// is closed. A client that disconnects is not reported as unread.
func TestConnectionOfUnread(t *testing.T) {
	for _, goes := range []bool{false, true} {
		unread := make(chan int64, 1)
		ended := make(chan struct{})
		s := &jsonrpc.Server{
			WriteTimeout: 200 * time.Millisecond,
			Handler: jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
				return jsontext.Value(`"` + strings.Repeat("x", 16<<20) + `"`), nil
			}),
			OnUnread: func(_ context.Context, written int64) { unread <- written },
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			s.ServeHTTP(w, r)
		})}
		go func() { _ = server.Serve(listener) }() // until it is closed
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n"+ping+strings.Repeat(" ", 40-len(ping))); err != nil {
			t.Fatal(err)
		}
		if goes {
			_ = conn.Close() // the client disconnects
		}
		<-ended
		select {
		case n := <-unread:
			if goes || n <= 0 || n >= 16<<20 {
				t.Errorf("%d bytes were written; the client is gone: %t", n, goes)
			}
		default:
			if !goes {
				t.Error("the client was not left")
			}
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second)) // of an open connection, or it fails below
		if n, err := io.Copy(io.Discard, conn); n >= 16<<20 || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes were read, %v", n, err)
		}
		_ = conn.Close()   // done with
		_ = server.Close() // done with
	}
}
