package jsonrpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// uncounted is how many bytes of a text do not count.
const uncounted = 64 << 10

// TestRoomWaits: a room waits until there is memory for the whole text, and has it at once then. Those that wait have no memory.
func TestRoomWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &jsonrpc.Server{MaxAnswers: 100}
		first := s.Room("ann")
		if !first.Reserve(uncounted + 60) {
			t.Fatal("the first has no room")
		}
		var had atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		await := func(owner string, most int64, want bool) {
			room := s.Room(owner)
			defer room.Release()
			if got := room.Await(ctx, uncounted, most) && room.Await(ctx, uncounted+1, most); got != want {
				t.Errorf("%s: %v, want %v", owner, got, want)
				return
			}
			if !want {
				return
			}
			had.Add(1)
			if !room.Await(ctx, most, most) || !room.Reserve(most-1) { // it has the memory
				t.Errorf("%s waits for more", owner)
			}
			time.Sleep(time.Second)
		}
		for _, owner := range []string{"ann", "ann", "bob", "eve"} {
			go await(owner, uncounted+50, true)
		}
		time.Sleep(time.Hour)
		if n := had.Load(); n != 0 {
			t.Errorf("%d had room", n)
		}
		first.Release()
		time.Sleep(time.Hour)
		if n := had.Load(); n != 4 {
			t.Errorf("%d had room", n)
		}
		if room := s.Room("ann"); room.Await(ctx, uncounted+101, uncounted+101) || !room.Await(ctx, uncounted+1, uncounted+1000) || room.Await(ctx, uncounted+101, uncounted+1000) {
			t.Error("more than the limit")
		} else if !room.Reserve(uncounted+100) || room.Reserve(uncounted+101) || !first.Reserve(uncounted+100) {
			t.Error("a failed reservation keeps memory")
		}
		go await("bob", uncounted+1, false)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

// TestOwnersOfAnswers: slow readers of one owner leave room for others, with streams, shared results, answers and batches.
func TestOwnersOfAnswers(t *testing.T) {
	large := jsontext.Value(`"` + strings.Repeat("x", 200_000) + `"`)
	var results jsonrpc.Results[int]
	var key atomic.Int64
	for name, handler := range map[string]jsonrpc.Handler{
		"answer": func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) { return large, nil },
		"stream": func(_ context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			_ = r.Stream().Result(1, large)
			return nil, nil
		},
		"shared": func(_ context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			s := r.Stream()
			if results.Send(t.Context(), s, 0, 1, int(key.Add(1)), int64(len(large)), func(b []byte) []byte { return append(b, large...) }) != nil {
				_ = s.Error(&jsonrpc.Error{Code: 7})
			}
			return nil, nil
		},
	} {
		for _, body := range []string{ping, "[" + ping + "]"} {
			if body != ping && name != "answer" {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				s := &jsonrpc.Server{Handler: handler, MaxAnswers: 1_000_000, MaxAnswerSize: 1 << 20, Profile: jsonrpc.Profile{MaxBatch: 2}}
				s.Owner = func(ctx context.Context) string { return ctx.Value(keyOfTest{}).(string) }
				var served sync.WaitGroup
				serve := func(owner string) *slowWriter {
					w := &slowWriter{header: http.Header{}, pace: time.Minute}
					ctx := context.WithValue(t.Context(), keyOfTest{}, owner)
					r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(body))
					served.Go(func() { s.ServeHTTP(w, r) })
					return w
				}
				var all []*slowWriter
				for range 10 {
					all = append(all, serve("ann"))
					synctest.Wait()
				}
				other := serve("bob")
				served.Wait()
				answered := 0
				for _, w := range all {
					if w.taken > len(large) {
						answered++
					}
				}
				if answered != 3 || other.taken < len(large) { // 3 * 134 KB are at most the half
					t.Errorf("%s %s: %d answers of ann, %d bytes for bob", name, body, answered, other.taken)
				}
			})
		}
	}
}
