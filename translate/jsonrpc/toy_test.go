package jsonrpc_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// profile has large limits; tests lower the one that they are about.
var profile = jsonrpc.Profile{MaxBatch: 50, NullID: true}

// toys are the methods that the examples of JSON-RPC 2.0, section 7 call.
func toys(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
	switch {
	case req.Method == "subtract":
		return subtract(req.Params)
	case req.Method == "sum":
		var terms []int
		if err := json.Unmarshal(req.Params, &terms); err != nil {
			return nil, invalidParams(err)
		}
		total := 0
		for _, term := range terms {
			total += term
		}
		return number(total), nil
	case req.Method == "get_data":
		return jsontext.Value(`["hello", 5]`), nil
	case req.Method == "update", strings.HasPrefix(req.Method, "notify_"):
		return jsontext.Value(`null`), nil
	case req.Method == "params":
		return req.Params, nil
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
}

func subtract(params jsontext.Value) (jsontext.Value, *jsonrpc.Error) {
	var by struct {
		Minuend    int `json:"minuend"`
		Subtrahend int `json:"subtrahend"`
	}
	var err error
	if params.Kind() == '[' {
		var both [2]int
		err = json.Unmarshal(params, &both)
		by.Minuend, by.Subtrahend = both[0], both[1]
	} else {
		err = json.Unmarshal(params, &by)
	}
	if err != nil {
		return nil, invalidParams(err)
	}
	return number(by.Minuend - by.Subtrahend), nil
}

func number(n int) jsontext.Value { return jsontext.Value(strconv.Itoa(n)) }

func invalidParams(err error) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("Invalid params: %v", err)}
}

func newToyServer() *jsonrpc.Server {
	return &jsonrpc.Server{Handler: jsonrpc.Handler(toys), Profile: profile}
}

// post sends body as application/json.
func post(t *testing.T, s *jsonrpc.Server, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// expect compares status and body, the body as JSON in which neither the order
// of members nor white space counts.
func expect(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d", w.Code, status)
	}
	if got, want := canonical(t, w.Body.String()), canonical(t, body); got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	v := jsontext.Value(text)
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return string(v)
}
