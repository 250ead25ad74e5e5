package front_test

import (
	"net/http"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// A media range with the weight 0 is not accepted, and the most specific range decides.
func TestAcceptsStream(t *testing.T) {
	const stream = "text/event-stream"
	for accept, want := range map[string][2]bool{ // by the media type, and also by wider ranges
		"":                                       {},
		"application/json":                       {},
		"application/json, text/event-stream":    {true, true},
		"TEXT/Event-Stream ; q=0.1":              {true, true},
		"text/event-stream;q=x":                  {true, true},
		"text/event-stream;q=0":                  {},
		"text/event-stream;Q=0.000, */*":         {},
		"*/*, text/event-stream;q=0":             {},
		"text/*;q=0, */*":                        {},
		"*/*;q=0, text/*;q=0, text/event-stream": {true, true},
		"*/*":                                    {false, true},
		"*/*;q=0":                                {},
		";, text/*;q=1":                          {false, true},
	} {
		r := &http.Request{Header: http.Header{"Accept": {accept}}}
		if got := [2]bool{front.AcceptsStream(r, stream), front.AcceptsStream(r, stream, "text/*", "*/*")}; got != want {
			t.Errorf("%s: %v, want %v", accept, got, want)
		}
	}
	if front.AcceptsStream(nil, stream) || !front.AcceptsStream(&http.Request{Header: http.Header{"Accept": {"a/b", stream}}}, stream) {
		t.Error("no request, or several fields")
	}
}
