package jsonrpc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// TestSharedResults: streams that send the same result at a time share one text, which counts once towards MaxAnswers, and no
// longer than they send it.
func TestSharedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		var results jsonrpc.Results[string]
		var mu sync.Mutex
		made, sent, refused := map[string]int{}, 0, 0
		s := newStreamServer(func(ctx context.Context, s *jsonrpc.Stream) {
			key := ctx.Value(keyOfTest{}).(string)
			err := results.Send(t.Context(), s, 0, 7, key, 200_000, func(b []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				made[key]++
				return append(append(append(b, `"`+key...), strings.Repeat("x", 200_000)...), "\"\r\n"...)
			})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				sent++
			case errors.Is(err, jsonrpc.ErrNoRoom):
				refused++
				noError(t, s.Error(&jsonrpc.Error{Code: 7})) // the stream goes on
			default:
				t.Error(err)
			}
		})
		s.MaxAnswers = 150_000 // of one result, without its first 64 KiB
		var writers []*slowWriter
		serve := func(key string) {
			w := &slowWriter{header: http.Header{}, pace: time.Second}
			writers = append(writers, w)
			ctx := context.WithValue(t.Context(), keyOfTest{}, key)
			go s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(ping)))
		}
		for range streams {
			serve("a")
		}
		synctest.Wait()
		serve("b")
		synctest.Wait()
		if len(made) != 1 || made["a"] != 1 || refused != 1 {
			t.Errorf("made %v, %d refused", made, refused)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if sent != streams {
			t.Errorf("%d streams sent the result, want %d", sent, streams)
		}
		serve("b") // there is room again
		time.Sleep(time.Hour)
		synctest.Wait()
		if made["b"] != 1 || sent != streams+1 || refused != 1 {
			t.Errorf("made %v, %d sent, %d refused", made, sent, refused)
		}
		for i, w := range writers {
			if i != streams && w.taken < 200_000 {
				t.Errorf("stream %d has %d bytes", i, w.taken)
			}
		}
	})
}

type keyOfTest struct{}

// TestFewWaitForRoom: of the results that wait for room, at most a quarter of MaxAnswers is in memory, of which one caller has half. The others are refused at once.
func TestFewWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results jsonrpc.Results[int]
		var mu sync.Mutex
		sent, refused, next := 0, 0, 0
		s := newStreamServer(func(ctx context.Context, s *jsonrpc.Stream) {
			mu.Lock()
			next++
			key := next
			mu.Unlock()
			begun := time.Now()
			err := results.Send(ctx, s, time.Hour, 7, key, 200_000, func(b []byte) []byte { return append(b, '1') })
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				sent++
			case errors.Is(err, jsonrpc.ErrNoRoom) && time.Since(begun) == 0:
				refused++
			default:
				t.Errorf("%v after %v", err, time.Since(begun))
			}
		})
		s.MaxAnswers = 1_600_000
		all := s.Room("")
		all.Reserve(s.MaxAnswers + uncounted)
		serve := func() {
			go s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping)))
		}
		for range 10 {
			serve()
		}
		time.Sleep(time.Minute)
		all.Release()
		time.Sleep(time.Minute)
		serve()
		synctest.Wait()
		if sent != 2 || refused != 9 {
			t.Errorf("%d sent, %d refused", sent, refused)
		}
	})
}

// TestStreamEnds: a client that reads a little at a time does not have its stream for longer than the stream may last.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
			s.EndBy(time.Now().Add(time.Hour))
			noError(t, s.KeepAlive())
			failed = s.Result(0, []byte(`"`+strings.Repeat("x", 10<<20)+`"`))
		})
		s.WriteTimeout = time.Minute
		w := &slowWriter{header: http.Header{}, pace: 50 * time.Second}
		begun := time.Now()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping)))
		if took := time.Since(begun); failed == nil || took > time.Hour || took < 58*time.Minute {
			t.Errorf("%v after %v", failed, took)
		}
	})
}

// TestEmptySharedResult: what can't be made is answered with an error in each stream.
func TestEmptySharedResult(t *testing.T) {
	var results jsonrpc.Results[int]
	s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
		err := results.Send(t.Context(), s, 0, 7, 1, 100, func(b []byte) []byte { return b })
		if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != jsonrpc.CodeInternalError {
			t.Errorf("error %v", err)
		}
		if results.Send(t.Context(), s, 0, 7, 1, 100, func(b []byte) []byte { return append(b, '1') }) != err {
			t.Error("the stream goes on")
		}
	})
	if got := strings.Join(serve(t, s, ping).texts, ""); !strings.HasPrefix(got, "id: 7\ndata: {") || strings.Count(got, "data: ") != 1 || !strings.Contains(got, `"error":`) {
		t.Errorf("%q", got)
	}
}

// copies counts the bytes that are written, and those of them that are not in a text itself but in a copy.
type copies struct {
	header          http.Header
	text            []byte
	next            int // index of the text
	written, copied int
}

func (c *copies) Header() http.Header { return c.header }
func (c *copies) WriteHeader(int)     {}

func (c *copies) Write(p []byte) (int, error) {
	if &p[0] == &c.text[c.next] {
		c.next = (c.next + len(p)) % len(c.text)
	} else {
		c.copied += len(p)
	}
	c.written += len(p)
	return len(p), nil
}

// TestLongResultsAreNotCopied: a stream whose client reads nothing takes no memory for a copy of its event.
func TestLongResultsAreNotCopied(t *testing.T) {
	const size = 4 << 20
	text := []byte(`"` + strings.Repeat("x", size) + `"`)
	var results jsonrpc.Results[int]
	s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
		noError(t, s.Result(0, text), s.Notify("n", text), results.Send(t.Context(), s, 0, 0, 1, size, func([]byte) []byte { return text }))
	})
	w := &copies{header: http.Header{}, text: text}
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping)))
	if w.written < 3*size || w.copied > 500 {
		t.Errorf("%d bytes, %d of them are copies", w.written, w.copied)
	}
}
