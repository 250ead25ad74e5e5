package mcp

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// endless is a run that goes on until nobody watches it.
type endless struct{ translate.Execution }

func (endless) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) {
		for yield(run.Run{State: run.Working}) {
		}
	}
}

// TestProgressPanics: after a panic while progress is reported, nothing watches the run any more. A goroutine that stays fails the bubble.
func TestProgressPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if recover() != "a bug" {
				t.Error("no panic")
			}
		}()
		p := &progress{request: &request{front: &Front{Streaming: func(int) { panic("a bug") }}}}
		p.watch(endless{})
	})
}

// buggy is a run that makes what watches it panic, after its progress was reported.
type buggy struct{ translate.Execution }

func (buggy) Unknown() []string { return nil }

func (buggy) Watch() iter.Seq[run.Run] {
	return func(yield func(run.Run) bool) {
		yield(run.Run{State: run.Working})
		panic("a bug")
	}
}

// TestStreamsAfterPanics: a stream that has ended with a panic is not counted any more.
func TestStreamsAfterPanics(t *testing.T) {
	var open, most atomic.Int64
	server := jsonrpc.Server{Handler: func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		r := &request{Request: req, ctx: ctx, meta: wire.Meta{ProgressToken: jsontext.Value("1")}, front: &Front{Streaming: func(n int) {
			most.Store(max(most.Load(), open.Add(int64(n))))
		}}}
		return r.await(buggy{}, "acme.echo")
	}}
	s := httptest.NewServer(&server)
	defer s.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if a, err := http.DefaultClient.Do(r); err == nil {
		_, _ = io.Copy(io.Discard, a.Body)
		_ = a.Body.Close()
	}
	s.Close()
	if open.Load() != 0 || most.Load() != 1 {
		t.Errorf("%d streams are open, and %d were", open.Load(), most.Load())
	}
}
