package jsonrpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// batch is an array of n requests with ids from 0.
func batch(n int) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = `{"jsonrpc":"2.0","method":"x","id":` + strconv.Itoa(i) + `}`
	}
	return `[` + strings.Join(elements, ",") + `]`
}

// gate is a handler that lets a test say when which request ends.
type gate struct {
	mu    sync.Mutex
	doors map[string]chan struct{}
}

func (g *gate) door(id string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.doors[id] == nil {
		g.doors[id] = make(chan struct{})
	}
	return g.doors[id]
}

func (g *gate) started() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ids []string
	for id := range g.doors {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (g *gate) ServeRPC(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	<-g.door(string(req.ID))
	return req.ID, nil
}

func TestBatchRunsInParallelUnderTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{doors: map[string]chan struct{}{}}
		s := &jsonrpc.Server{Handler: g, Profile: jsonrpc.Profile{MaxBatch: 10, BatchConcurrency: 3}}
		answered := make(chan *httptest.ResponseRecorder)
		go func() { answered <- post(t, s, batch(6)) }()

		// Element 0 stays slow all the time; the others go on beside it.
		for _, step := range []struct{ started, end string }{
			{"0 1 2", "2"},
			{"0 1 2 3", "3"},
			{"0 1 2 3 4", "1"},
			{"0 1 2 3 4 5", "5"},
			{"0 1 2 3 4 5", "4"},
			{"0 1 2 3 4 5", "0"},
		} {
			synctest.Wait()
			if got := strings.Join(g.started(), " "); got != step.started {
				t.Errorf("before %s ends: started %s, want %s", step.end, got, step.started)
			}
			close(g.door(step.end))
		}
		w := <-answered
		var want []string
		for i := range 6 {
			id := strconv.Itoa(i)
			want = append(want, `{"jsonrpc":"2.0","id":`+id+`,"result":`+id+`}`)
		}
		if got := w.Body.String(); got != `[`+strings.Join(want, ",")+`]` {
			t.Errorf("body %s", got)
		}
	})
}

func TestBatchWithoutConcurrencyRunsOneByOne(t *testing.T) {
	var running, calls atomic.Int32
	s := &jsonrpc.Server{
		Profile: jsonrpc.Profile{MaxBatch: 10},
		Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			if running.Add(1) > 1 {
				t.Error("two at a time")
			}
			defer running.Add(-1)
			if want := strconv.Itoa(int(calls.Add(1)) - 1); string(req.ID) != want {
				t.Errorf("id %s, want %s", req.ID, want)
			}
			return req.ID, nil
		}),
	}
	post(t, s, batch(10))
	if calls.Load() != 10 {
		t.Errorf("%d calls", calls.Load())
	}
}

func TestBatchStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int32
	s := &jsonrpc.Server{
		Profile: jsonrpc.Profile{MaxBatch: 10, BatchConcurrency: 1},
		Handler: jsonrpc.HandlerFunc(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			if calls.Add(1) == 2 {
				cancel()
			}
			return req.ID, nil
		}),
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(batch(4))))
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}
	want := `[{"jsonrpc":"2.0","id":0,"result":0},{"jsonrpc":"2.0","id":1,"result":1},` +
		answerOf(`2`, jsonrpc.CodeInternalError) + `,` + answerOf(`3`, jsonrpc.CodeInternalError) + `]`
	if got := w.Body.String(); got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}
}

func TestNotificationsOfABatchRun(t *testing.T) {
	var calls atomic.Int32
	s := &jsonrpc.Server{
		Profile: profile,
		Handler: jsonrpc.HandlerFunc(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			calls.Add(1)
			return nil, &jsonrpc.Error{Code: 1, Message: "dropped"}
		}),
	}
	const notification = `{"jsonrpc":"2.0","method":"x"}`
	w := post(t, s, `[`+notification+`,`+notification+`]`)
	if w.Code != http.StatusNoContent || w.Body.Len() != 0 || calls.Load() != 2 {
		t.Errorf("status %d, body %q, %d calls", w.Code, w.Body, calls.Load())
	}
}

// TestBuffersAreNotMixedUp has many bodies in flight whose answers echo slices
// of them.
func TestBuffersAreNotMixedUp(t *testing.T) {
	s := newToyServer()
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for round := range 50 {
				params := `["` + strings.Repeat(strconv.Itoa(client), 10*round) + `"]`
				request := `{"jsonrpc":"2.0","method":"params","params":` + params + `,"id":` + strconv.Itoa(round) + `}`
				answer := `{"jsonrpc":"2.0","id":` + strconv.Itoa(round) + `,"result":` + params + `}`
				if got := post(t, s, request).Body.String(); got != answer {
					t.Errorf("body %s, want %s", got, answer)
				}
				both := `[` + answer + `,` + answer + `]`
				if got := post(t, s, `[`+request+`,`+request+`]`).Body.String(); got != both {
					t.Errorf("body %s, want %s", got, both)
				}
			}
		})
	}
	clients.Wait()
}
