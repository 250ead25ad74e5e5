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

// gate is a handler with which a test decides when each request ends.
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

// ServeRPC waits until the test lets the request end.
func (g *gate) ServeRPC(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	<-g.door(string(req.ID))
	return req.ID, nil
}

func TestBatchStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{doors: map[string]chan struct{}{}}
		s := &jsonrpc.Server{Handler: g.ServeRPC, Profile: jsonrpc.Profile{MaxBatch: 10}}
		answered := make(chan *httptest.ResponseRecorder)
		go func() { answered <- post(t, s, batch(10)) }()
		for _, end := range []string{"2", "3", "1", "9", "5", "8", "4", "7", "0", "6"} {
			synctest.Wait()
			if got := strings.Join(g.started(), " "); got != "0 1 2 3 4 5 6 7 8 9" {
				t.Errorf("started %s", got)
			}
			close(g.door(end))
		}
		w := <-answered
		var want []string
		for i := range 10 {
			id := strconv.Itoa(i)
			want = append(want, `{"jsonrpc":"2.0","id":`+id+`,"result":`+id+`}`)
		}
		if got := w.Body.String(); got != `[`+strings.Join(want, ",")+`]` {
			t.Errorf("body %s", got)
		}
		if length := w.Header().Get("Content-Length"); length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Content-Length %s", length)
		}
	})
}

// TestLargeBatchIsWrittenAsItEnds: a large answer is written as soon as the ones before it
// have ended, together with small answers that are waiting.
func TestLargeBatchIsWrittenAsItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{doors: map[string]chan struct{}{}}
		large := `"` + strings.Repeat("x", 100_000) + `"`
		s := &jsonrpc.Server{Profile: jsonrpc.Profile{MaxBatch: 10}, Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			result, fault := g.ServeRPC(ctx, req)
			if string(req.ID) == "2" {
				result = jsontext.Value(large)
			}
			return result, fault
		})}
		answer := func(id, result string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + result + `}` }
		w, ended := httptest.NewRecorder(), make(chan struct{})
		go func() {
			defer close(ended)
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(batch(5))))
		}()
		want := ""
		for _, step := range []struct{ end, written string }{
			{"2", ""},
			{"1", ""},
			{"0", "[" + answer("0", "0") + "," + answer("1", "1") + "," + answer("2", large)},
			{"4", ""},
			{"3", "," + answer("3", "3") + "," + answer("4", "4") + "]"},
		} {
			synctest.Wait()
			close(g.door(step.end))
			synctest.Wait()
			if want += step.written; w.Body.String() != want {
				t.Errorf("after %s: %d bytes are written, want %d", step.end, w.Body.Len(), len(want))
			}
			if want != "" && !w.Flushed {
				t.Error("what is written is kept")
			}
		}
		<-ended
		if length := w.Header().Get("Content-Length"); length != "" {
			t.Errorf("Content-Length %s", length)
		}
	})
}

// TestBatchHasRoom: an answer may have exactly the length of the limit, each element has a
// share, and other elements can use what was reserved and not used.
func TestBatchHasRoom(t *testing.T) {
	const most, elements = 200_000, 10
	large := jsontext.Value(`"` + strings.Repeat("x", 50_000) + `"`)
	var once sync.WaitGroup
	once.Add(1)
	s := &jsonrpc.Server{
		MaxAnswerSize: most,
		Profile: jsonrpc.Profile{MaxBatch: 50, TooLarge: func(req *jsonrpc.Request, fault *jsonrpc.Error) *jsonrpc.Error {
			if _, limit := req.AnswerLimit(); fault != nil || limit != most {
				t.Errorf("%v, %d", fault, limit)
			}
			return &jsonrpc.Error{Code: 1, Message: "no room"}
		}},
		Handler: jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			switch string(req.ID) {
			case "0": // reserves what it does not need
				if !req.Reserve(100_000) || req.Reserve(1_000_000) || !req.Reserve(120_000) || !req.Reserve(1) {
					t.Error("there is no room")
				}
				once.Done()
				return req.ID, nil
			case "1":
				return jsontext.Value(`"` + strings.Repeat("y", 7000) + `"`), nil
			}
			once.Wait()
			return large, nil
		}),
	}
	w := post(t, s, batch(elements))
	if got := strings.Count(w.Body.String(), `"no room"`); got != 6 || w.Body.Len() > most {
		t.Errorf("no room for %d of %d; %d bytes", got, elements, w.Body.Len())
	}
	s = &jsonrpc.Server{MaxAnswerSize: 100, Handler: s.Handler, Profile: s.Profile} // less than minShare
	s.Handler = jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) { return large, nil })
	s.Profile.TooLarge = func(*jsonrpc.Request, *jsonrpc.Error) *jsonrpc.Error {
		return &jsonrpc.Error{Code: 1, Message: "no room"}
	}
	if w := post(t, s, batch(elements)); strings.Count(w.Body.String(), `"no room"`) != elements {
		t.Errorf("%s", w.Body)
	}
	if w := post(t, s, ping); w.Code != http.StatusOK { // alone
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBatchIsNotStartedWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &jsonrpc.Server{
		Profile: jsonrpc.Profile{MaxBatch: 10},
		Handler: jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			t.Errorf("%s is started", req.ID)
			return req.ID, nil
		}),
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(batch(2))))
	if got, want := w.Body.String(), `[`+answerOf(`0`, jsonrpc.CodeInternalError)+`,`+answerOf(`1`, jsonrpc.CodeInternalError)+`]`; got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}
}

func TestNotificationsOfABatchRun(t *testing.T) {
	var calls atomic.Int32
	s := &jsonrpc.Server{
		Profile: profile,
		Handler: jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
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

// TestBuffersAreNotMixedUp sends many requests concurrently, whose answers are slices of
// their bodies.
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
