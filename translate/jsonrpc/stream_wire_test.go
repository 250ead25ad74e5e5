package jsonrpc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// connections are the kinds of connections over which streams are tested.
var connections = []struct {
	name        string
	secure, two bool
	proto       string
}{
	{"HTTP/1.1", false, false, "HTTP/1.1"},
	{"HTTP/1.1 over TLS", true, false, "HTTP/1.1"},
	{"HTTP/2 over TLS", true, true, "HTTP/2.0"},
}

// received is an answer whose body is being read.
type received struct {
	proto  string
	status int
	header http.Header
	body   *bufio.Reader
}

// listen serves s on the loopback interface and returns a function that sends ping.
func listen(t *testing.T, s http.Handler, secure, two bool, configure func(*http.Server)) func(ctx context.Context) received {
	t.Helper()
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = two
	if configure != nil {
		configure(server.Config)
	}
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return func(ctx context.Context) received {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(ping))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return received{answer.Proto, answer.StatusCode, answer.Header, bufio.NewReader(answer.Body)}
	}
}

// event reads the next event of a stream.
func event(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	var text strings.Builder
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, text.String())
		}
		text.WriteString(line)
		if line == "\n" {
			return text.String()
		}
	}
}

// TestEventsArriveAtOnce: the client reads each event before the next one is sent.
func TestEventsArriveAtOnce(t *testing.T) {
	for _, c := range connections {
		t.Run(c.name, func(t *testing.T) {
			read := make(chan struct{})
			s := newStreamServer(func(ctx context.Context, s *jsonrpc.Stream) {
				for i, size := range []int{1, 100_000, 1} {
					noError(t, s.Result(uint64(i+1), jsontext.Value(`"`+strings.Repeat("x", size)+`"`)))
					select {
					case <-read:
					case <-ctx.Done():
						t.Error(ctx.Err())
					}
				}
				noError(t, s.KeepAlive(), s.Error(&jsonrpc.Error{Code: 1, Message: "last"}))
			})
			s.WriteTimeout = 10 * time.Second
			answer := listen(t, s, c.secure, c.two, nil)(t.Context())
			if answer.proto != c.proto || answer.status != http.StatusOK || answer.header.Get("Content-Type") != "text/event-stream" {
				t.Fatalf("%s %d %v", answer.proto, answer.status, answer.header)
			}
			body := answer.body
			for i, size := range []int{1, 100_000, 1} {
				want := "id: " + strconv.Itoa(i+1) + "\n" + `data: {"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", size) + "\"}\n\n"
				if got := event(t, body); got != want {
					t.Errorf("event %.200q", got)
				}
				read <- struct{}{}
			}
			rest, err := io.ReadAll(body)
			if want := ": \n\n" + `data: {"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"last"}}` + "\n\n"; err != nil || string(rest) != want {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

// TestStreamEndsWithItsClient: a handler that waits is cancelled once the client leaves, and a panic is no regular end.
func TestStreamEndsWithItsClient(t *testing.T) {
	for _, c := range connections {
		t.Run(c.name, func(t *testing.T) {
			ended := make(chan struct{})
			s := newStreamServer(func(ctx context.Context, s *jsonrpc.Stream) {
				defer close(ended)
				noError(t, s.Result(1, jsontext.Value(`1`)))
				<-ctx.Done()
				panic(http.ErrAbortHandler)
			})
			ctx, leave := context.WithCancel(t.Context())
			body := listen(t, s, c.secure, c.two, nil)(ctx).body
			event(t, body)
			leave()
			<-ended
		})
		t.Run(c.name+", panic", func(t *testing.T) {
			s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
				noError(t, s.Result(1, jsontext.Value(`1`)))
				panic("a bug")
			})
			body := listen(t, s, c.secure, c.two, nil)(t.Context()).body
			event(t, body)
			if rest, err := io.ReadAll(body); err == nil || len(rest) > 0 {
				t.Errorf("the stream ends regularly, with %q", rest)
			}
		})
	}
}

// TestUnreadStream: a client that reads nothing is disconnected.
func TestUnreadStream(t *testing.T) {
	large := jsontext.Value(`"` + strings.Repeat("x", 1<<20) + `"`)
	for _, c := range connections {
		if c.secure && !c.two {
			continue // package crypto/tls needs 5 s to close such a connection
		}
		t.Run(c.name, func(t *testing.T) {
			unread, ended := make(chan int64, 2), make(chan error, 1)
			s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
				var err error
				for err == nil {
					err = s.Result(1, large)
				}
				ended <- err
			})
			s.WriteTimeout = 200 * time.Millisecond
			s.OnUnread = func(_ context.Context, written int64) { unread <- written }
			answer := listen(t, s, c.secure, c.two, nil)(t.Context())
			if err := <-ended; errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if n := <-unread; n <= 0 || len(unread) > 0 {
				t.Errorf("the client was left at %d, and %d times more", n, len(unread))
			}
			if _, err := io.Copy(io.Discard, answer.body); err == nil {
				t.Error("the stream ends regularly")
			}
		})
	}
}

// TestServerTimeout: the WriteTimeout of the HTTP server ends a stream, although each event is read in time.
func TestServerTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range connections {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan bool, 1)
			s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
				tick, patience := time.NewTicker(20*time.Millisecond), time.After(10*time.Second)
				defer tick.Stop()
				for s.KeepAlive() == nil {
					select {
					case <-tick.C:
					case <-patience:
						ended <- false
						return
					}
				}
				ended <- true
			})
			s.WriteTimeout = time.Minute
			answer := listen(t, s, c.secure, c.two, func(s *http.Server) { s.WriteTimeout = 500 * time.Millisecond })(t.Context())
			if _, err := io.Copy(io.Discard, answer.body); err == nil || !<-ended {
				t.Errorf("the stream ends with %v", err)
			}
		})
	}
}

// idleWriter is a ResponseWriter that takes little memory.
type idleWriter struct{ header http.Header }

func (w idleWriter) Header() http.Header       { return w.header }
func (idleWriter) WriteHeader(int)             {}
func (idleWriter) Write(p []byte) (int, error) { return len(p), nil }
func (idleWriter) Flush()                      {}

// TestOpenStreams measures what a stream takes while it waits for its next event, without the HTTP server.
func TestOpenStreams(t *testing.T) {
	const streams = 1000
	var open, closed sync.WaitGroup
	release := make(chan struct{})
	s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
		noError(t, s.Result(1, jsontext.Value(`1`)))
		open.Done()
		<-release
		noError(t, s.Result(2, jsontext.Value(`2`)))
	})
	body := `{"jsonrpc":"2.0","method":"x","id":"7b1f3a3e-5f0c","params":{"text":"` + strings.Repeat("x", 100_000) + `"}}`
	requests, writers := make([]*http.Request, streams), make([]idleWriter, streams)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		writers[i] = idleWriter{http.Header{}}
	}
	before := memory()
	open.Add(streams)
	for i := range requests {
		closed.Go(func() { s.ServeHTTP(writers[i], requests[i]) })
	}
	open.Wait()
	after := memory()
	close(release)
	closed.Wait()
	runtime.KeepAlive(requests)
	heap, stack := (int64(after.HeapAlloc)-int64(before.HeapAlloc))/streams, (int64(after.StackInuse)-int64(before.StackInuse))/streams
	t.Logf("an open stream takes %d bytes of heap and %d of stack", heap, stack)
	if heap > 3<<10 {
		t.Errorf("an open stream takes %d bytes", heap)
	}
}

// memory returns what is in use after the pools were emptied.
func memory() (m runtime.MemStats) {
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}
