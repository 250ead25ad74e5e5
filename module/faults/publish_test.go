package faults_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// publishAPI starts an API and its publisher, and returns a function that invokes its operation and another that says how the API answers.
func publishAPI(t *testing.T) (invoke func() testbed.Answer, on func(http.HandlerFunc), api *httptest.Server) {
	t.Helper()
	var answer atomic.Pointer[http.HandlerFunc]
	api = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "api.yaml")
	document := `{"openapi":"3.1.0","info":{"title":"A","version":"1.0.0"},"paths":{"/a":{"get":{"operationId":"a","responses":{"200":{"description":"A.","content":{"application/json":{}}}}}}}}`
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, testbed.Site("skill_publish {\n\tstore memory\n\tnamespace n\n\tasync_after off\n\ttimeout 2s\n\topenapi "+file+" {\n\t\tinclude a\n\t}\n}",
		"reverse_proxy "+strings.TrimPrefix(api.URL, "http://")))
	client := testbed.NewClient(t, "http://127.0.0.1:"+c.Port("PORT")).With(testbed.Header("Content-Type", "application/json"))
	invoke = func() testbed.Answer {
		t.Helper()
		return client.Send(http.MethodPost, client.URL+"/skill-sharing/n/a", `{"caller":{"id":"a","type":"b"},"skill_id":"n/a","inputs":{}}`)
	}
	return invoke, func(h http.HandlerFunc) { answer.Store(&h) }, api
}

// R215: whatever happens to the API, an invocation is answered in the protocol's form, with a code that says what it was.
func TestR215APIsInTrouble(t *testing.T) {
	invoke, on, api := publishAPI(t)
	respond := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		want   string
	}{
		{"it answers", respond(200, `{"a":1.0}`, "Content-Type", "application/json"), 200, `"output":{"a":1.0}`},
		{"it hangs up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 200, `"code":"ENDPOINT_UNREACHABLE"`},
		{"it breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, 200, `"code":"ENDPOINT_UNREACHABLE"`},
		{"it stalls", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(30 * time.Second):
			}
		}, 200, `"status":"timeout"`},
		{"it answers too much", respond(200, strings.Repeat("a", 11<<20), "Content-Type", "text/plain"), 200, `"code":"TOO_LARGE"`},
		{"it is overloaded", respond(503, "", "Retry-After", "7"), 503, `"suggested_delay_ms":7000`},
		{"it limits", respond(429, "", "Retry-After", "7"), 429, `"code":"RATE_LIMITED"`},
		{"it is late", respond(408, ""), 408, `"code":"INVOCATION_TIMEOUT"`},
		{"its gateway is late", respond(504, ""), 200, `"status":"timeout"`},
		{"it fails", respond(500, "oops", "Content-Type", "text/plain"), 200, `"code":"INTERNAL_SERVER_ERROR","message":"HTTP 500 Internal Server Error: oops"`},
		{"it refuses", respond(422, `{"detail":"no"}`, "Content-Type", "application/problem+json"), 422, `"code":"VALIDATION_ERROR","message":"no"`},
		{"it does not know", respond(404, ""), 200, `"code":"NOT_FOUND"`},
		{"it is empty", respond(204, ""), 200, `"output":null`},
		{"it is away", nil, 503, `"message":"The API can't be reached; nothing was sent to it","retry":{`},
	} {
		if on(c.answer); c.answer == nil {
			api.Close()
		}
		if a := invoke(); a.Status != c.status || !strings.Contains(string(a.Body), c.want) {
			t.Errorf("%s: %d %.300s", c.name, a.Status, a.Body)
		}
	}
}
