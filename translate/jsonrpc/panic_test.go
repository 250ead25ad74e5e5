package jsonrpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// newFragileServer returns a server that panics in the method "panic" and aborts in
// "abort". It counts the calls of OnPanic.
func newFragileServer(t *testing.T, told *atomic.Int32) *jsonrpc.Server {
	t.Helper()
	return &jsonrpc.Server{
		Profile: profile,
		Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			switch req.Method {
			case "panic":
				panic("secret")
			case "abort":
				panic(http.ErrAbortHandler)
			case "exit":
				runtime.Goexit()
			}
			return toys(ctx, req)
		}),
		OnPanic: func(ctx context.Context, value any, stack []byte) {
			told.Add(1)
			if value != "secret" || ctx == nil || !strings.Contains(string(stack), "newFragileServer") {
				t.Errorf("value %v, stack %s", value, stack)
			}
		},
	}
}

func TestPanic(t *testing.T) {
	const (
		fragile = `{"jsonrpc":"2.0","method":"panic","id":1}`
		data    = `{"jsonrpc":"2.0","method":"get_data","id":2}`
		silent  = `{"jsonrpc":"2.0","method":"panic"}`
		exit    = `{"jsonrpc":"2.0","method":"exit","id":3}`
	)
	failed, fine := answerOf(`1`, jsonrpc.CodeInternalError), `{"jsonrpc":"2.0","id":2,"result":["hello", 5]}`
	for _, c := range []struct {
		name, body string
		status     int
		answer     string
		told       int32
	}{
		{"single", fragile, http.StatusInternalServerError, failed, 1},
		{"notification", silent, http.StatusNoContent, ``, 1},
		{"batch", `[` + fragile + `,` + data + `,` + fragile + `]`, http.StatusOK, `[` + failed + `,` + fine + `,` + failed + `]`, 2},
		{"batch of one", `[` + fragile + `]`, http.StatusOK, `[` + failed + `]`, 1},
		{"notification in a batch", `[` + silent + `,` + data + `]`, http.StatusOK, `[` + fine + `]`, 1},
		{"goroutine ended", `[` + exit + `,` + data + `]`, http.StatusOK, `[` + answerOf(`3`, jsonrpc.CodeInternalError) + `,` + fine + `]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told atomic.Int32
			w := post(t, newFragileServer(t, &told), c.body)
			if w.Code != c.status || w.Body.String() != c.answer {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.answer)
			}
			if told.Load() != c.told {
				t.Errorf("told of %d panics, want %d", told.Load(), c.told)
			}
		})
	}
}

func TestPanicIgnoresErrorStatusAndNeedsNoListener(t *testing.T) {
	var told atomic.Int32
	s := newFragileServer(t, &told)
	s.OnPanic = nil
	s.Profile.ErrorStatus = func(int) int { return http.StatusTeapot }
	if w := post(t, s, `{"jsonrpc":"2.0","method":"panic","id":1}`); w.Code != http.StatusInternalServerError {
		t.Errorf("status %d", w.Code)
	}
}

func TestServerWithoutHandlerFailsGracefully(t *testing.T) {
	w := post(t, new(jsonrpc.Server), ping)
	if w.Code != http.StatusInternalServerError || w.Body.String() != answerOf(`1`, jsonrpc.CodeInternalError) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestAbortIsPassedOn(t *testing.T) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"abort","id":1}`,
		`{"jsonrpc":"2.0","method":"abort"}`,
		`[{"jsonrpc":"2.0","method":"abort","id":1},{"jsonrpc":"2.0","method":"get_data","id":2}]`,
	} {
		var told atomic.Int32
		s := newFragileServer(t, &told)
		w := httptest.NewRecorder()
		value := func() (value any) {
			defer func() { value = recover() }()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
			return nil
		}()
		if value != http.ErrAbortHandler {
			t.Errorf("%s: recovered %v", body, value)
		}
		if w.Body.Len() != 0 || told.Load() != 0 {
			t.Errorf("%s: body %s, told of %d panics", body, w.Body, told.Load())
		}
	}
}

func TestAbortEndsTheBatch(t *testing.T) {
	defer func() {
		if value := recover(); value != http.ErrAbortHandler {
			t.Errorf("recovered %v", value)
		}
	}()
	s := &jsonrpc.Server{
		Profile: jsonrpc.Profile{MaxBatch: 2},
		Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
			if string(req.ID) == "1" {
				panic(http.ErrAbortHandler)
			}
			<-ctx.Done() // cancelled, since no answer will be sent
			return req.ID, nil
		}),
	}
	post(t, s, batch(2))
}
