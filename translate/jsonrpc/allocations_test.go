package jsonrpc

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// raceDetector is true under the race detector, which allocates memory.
var raceDetector bool

// discardWriter is a ResponseWriter without allocations.
type discardWriter struct{ header http.Header }

func (n discardWriter) Header() http.Header             { clear(n.header); return n.header }
func (discardWriter) WriteHeader(int)                   {}
func (discardWriter) Write(b []byte) (int, error)       { return len(b), nil }
func (discardWriter) WriteString(s string) (int, error) { return len(s), nil }

// TestAllocations checks the number of allocations per request. A change that alters the
// number has to alter it here.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector takes memory of its own")
	}
	const body = `{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"a.b","args":{"city":"Kyoto","days":[1,2,3]}},"id":"7b1f3a3e-5f0c"}`
	s := &Server{Handler: Handler(func(context.Context, *Request) (jsontext.Value, *Error) {
		return jsontext.Value(`{"status":"completed"}`), nil
	})}
	r := httptest.NewRequest(http.MethodPost, "/rpc", nil)
	r.Header.Set("Content-Type", "application/json")
	text, w := strings.NewReader(body), discardWriter{http.Header{}}
	r.Body, r.ContentLength = http.NoBody, int64(len(body))
	got := int(testing.AllocsPerRun(1000, func() {
		text.Reset(body)
		r.Body = readCloser{text}
		s.ServeHTTP(w, r)
	}))
	if got != 6 {
		t.Errorf("a request takes %d allocations, want 6", got)
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
