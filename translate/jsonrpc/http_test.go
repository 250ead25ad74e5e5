package jsonrpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// TestHandlerSeesHTTP: a method sees the HTTP request of a call, of a notification and of the elements of a batch.
func TestHandlerSeesHTTP(t *testing.T) {
	seen := make(chan bool, 2)
	s := newToyServer()
	s.Handler = jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if got := req.HTTP.Header.Get("A2a-Version") + " " + req.HTTP.URL.Path; got != "1.0 /rpc/skill" {
			t.Errorf("the method sees %q", got)
		}
		seen <- req.InBatch()
		return jsontext.Value(`1`), nil
	})
	const notification = `{"jsonrpc":"2.0","method":"x"}`
	for body, batch := range map[string]bool{
		ping: false, notification: false, `[` + ping + `]`: true, `[` + ping + `,` + notification + `]`: true,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc/skill?x=1", strings.NewReader(body))
		r.Header.Set("A2A-Version", "1.0")
		s.ServeHTTP(httptest.NewRecorder(), r)
		if len(seen) == 0 {
			t.Errorf("%s: no method was called", body)
		}
		for len(seen) > 0 {
			if got := <-seen; got != batch {
				t.Errorf("%s: in a batch: %t", body, got)
			}
		}
	}
}

// TestErrorWithStatus: an error has its own HTTP status and header fields, but not in a batch and not for a notification.
func TestErrorWithStatus(t *testing.T) {
	challenges := []string{"Basic", "Bearer"}
	full := &jsonrpc.Error{Code: -32057, Message: "full", Status: http.StatusTooManyRequests, Header: http.Header{
		"Retry-After": {"7"}, "www-authenticate": challenges, "Content-Type": {"text/html"}, "Content-Length": {"1"},
	}}
	s := newToyServer()
	s.Profile.ErrorStatus = func(int) int { return http.StatusTeapot }
	s.Handler = jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if req.Method == "other" {
			return nil, &jsonrpc.Error{Code: -32057, Message: "other"}
		}
		return nil, full
	})
	const answer = `{"jsonrpc":"2.0","id":1,"error":{"code":-32057,"message":"full"}}`
	for _, c := range []struct {
		body   string
		status int
		retry  string
		answer string
	}{
		{ping, http.StatusTooManyRequests, "7", answer},
		{`{"jsonrpc":"2.0","method":"other","id":1}`, http.StatusTeapot, "", strings.Replace(answer, "full", "other", 1)},
		{`[` + ping + `]`, http.StatusOK, "", `[` + answer + `]`},
		{`{"jsonrpc":"2.0","method":"x"}`, http.StatusNoContent, "", ``},
	} {
		w := post(t, s, c.body)
		if w.Code != c.status || w.Body.String() != c.answer || w.Header().Get("Retry-After") != c.retry {
			t.Errorf("%s: %d %s, Retry-After %q", c.body, w.Code, w.Body, w.Header().Get("Retry-After"))
		}
		if c.retry == "" {
			continue
		}
		if got := w.Header().Values("WWW-Authenticate"); len(got) != 2 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("header %v", w.Header())
		}
		w.Header().Values("WWW-Authenticate")[0] = "changed by a handler in front"
	}
	if challenges[0] != "Basic" {
		t.Errorf("the answers share their header: %s", challenges[0])
	}
}
