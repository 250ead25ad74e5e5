package jsonrpc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// agentProfile is like the profile of A2A: all errors have status 200, except for refused media types and sizes.
var agentProfile = jsonrpc.Profile{
	MaxBatch: 50, NullID: true, ParseStatus: http.StatusOK, MediaTypes: []string{"application/json", "application/a2a+json"}, Allow: "GET, HEAD, POST",
	Messages: map[int]string{
		jsonrpc.CodeParseError: "Invalid JSON payload", jsonrpc.CodeInvalidRequest: "Request payload validation error",
	},
	Refuse: func(status int, reason string) *jsonrpc.Error {
		code := jsonrpc.CodeInvalidRequest
		if status == http.StatusUnsupportedMediaType {
			code = -32005
		}
		return &jsonrpc.Error{Code: code, Message: reason}
	},
}

// contextProfile is like the profile of MCP: there are no batches and no null ids.
var contextProfile = jsonrpc.Profile{
	OmitNullID: true, WholeIDs: true, TakesResponse: func(r *http.Request) bool { return r.Header.Get("Modern") == "" },
	NotificationStatus: http.StatusAccepted, MediaTypes: []string{"application/json"},
	ErrorStatus: func(code int) int {
		return map[int]int{jsonrpc.CodeInvalidRequest: http.StatusBadRequest}[code]
	},
}

// TestProfiles checks status and answer of profiles that differ from the default.
func TestProfiles(t *testing.T) {
	const (
		notification = `{"jsonrpc":"2.0","method":"update"}`
		nullID       = `{"jsonrpc":"2.0","method":"get_data","id":null}`
		invalid      = `{"jsonrpc":"2.0","method":1,"id":7}`
		panics       = `{"jsonrpc":"2.0","method":"panic","id":1}`
	)
	for _, c := range []struct {
		name    string
		profile jsonrpc.Profile
		body    string
		status  int
		answer  string
	}{
		{"agent, not JSON", agentProfile, `{`, 200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Invalid JSON payload"}}`},
		{"agent, no request", agentProfile, `1`, 200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request payload validation error"}}`},
		{"agent, invalid request", agentProfile, invalid, 200, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"Request payload validation error"}}`},
		{"agent, in a batch", agentProfile, `[1]`, 200, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Request payload validation error"}}]`},
		{"agent, null id", agentProfile, nullID, 200, `{"jsonrpc":"2.0","id":null,"result":["hello", 5]}`},
		{"agent, notification", agentProfile, notification, 204, ``},
		{"agent, a message of the specification", agentProfile, panics, 500, answerOf(`1`, jsonrpc.CodeInternalError)},
		{"context, not JSON", contextProfile, `{`, 400, `{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`},
		{"context, batch", contextProfile, `[` + ping + `]`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, no request", contextProfile, `{}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, null id", contextProfile, nullID, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, invalid request", contextProfile, invalid, 400, answerOf(`7`, jsonrpc.CodeInvalidRequest)},
		{"context, unknown method", contextProfile, ping, 200, answerOf(`1`, jsonrpc.CodeMethodNotFound)},
		{"context, notification", contextProfile, notification, 202, ``},
		{"context, fractional id", contextProfile, `{"jsonrpc":"2.0","method":"get_data","id":1.5}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, id with an exponent", contextProfile, `{"jsonrpc":"2.0","method":"get_data","id":1e3}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, negative id", contextProfile, `{"jsonrpc":"2.0","method":"get_data","id":-3}`, 200, `{"jsonrpc":"2.0","id":-3,"result":["hello", 5]}`},
		{"context, response", contextProfile, `{"jsonrpc":"2.0","id":1,"result":{}}`, 202, ``},
		{"context, response with an error", contextProfile, `{"jsonrpc":"2.0","error":{},"id":"a"}`, 202, ``},
		{"context, result without an id", contextProfile, `{"jsonrpc":"2.0","result":{}}`, 400, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"}}`},
		{"context, result twice", contextProfile, `{"jsonrpc":"2.0","id":1,"result":{},"result":{}}`, 400, answerOf(`1`, jsonrpc.CodeInvalidRequest)},
		{"a response where none is expected", jsonrpc.Profile{}, `{"jsonrpc":"2.0","id":1,"result":{}}`, 200, answerOf(`1`, jsonrpc.CodeInvalidRequest)},
		{"a request with a result", jsonrpc.Profile{}, `{"jsonrpc":"2.0","method":"get_data","result":1,"id":1,"result":2}`, 200, `{"jsonrpc":"2.0","id":1,"result":["hello", 5]}`},
		{"null id where it may not be", jsonrpc.Profile{}, nullID, 200, answerOf(`null`, jsonrpc.CodeInvalidRequest)},
		{"null id in an error", jsonrpc.Profile{NullID: true, OmitNullID: true}, strings.Replace(nullID, "get_data", "x", 1), 200, answerOf(`null`, jsonrpc.CodeMethodNotFound)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &jsonrpc.Server{Profile: c.profile, Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
				if req.Method == "panic" {
					panic("a bug")
				}
				return toys(ctx, req)
			})}
			if w := post(t, s, c.body); w.Code != c.status || w.Body.String() != c.answer {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.answer)
			}
		})
	}
}

// TestRefusals checks the order in which a request is refused, and the answers.
func TestRefusals(t *testing.T) {
	refused := func(code, reason string) string {
		return `{"jsonrpc":"2.0","id":null,"error":{"code":` + code + `,"message":"` + reason + `"}}`
	}
	wrongType := refused("-32005", "Send the request with one Content-Type: application/json or application/a2a+json, in UTF-8.")
	coded := refused("-32005", "Send the request without a Content-Encoding.")
	tooLarge := refused("-32600", "the body is larger than 100 bytes (max_request_size: 100)")
	fits, large := ping, strings.Repeat(" ", 101)
	for _, c := range []struct {
		name     string
		method   string
		types    []string
		encoding string
		body     string
		status   int
		answer   string
		field    string // of the header, and its value
		value    string
	}{
		{"accepted", "POST", []string{"application/a2a+json; charset=UTF-8"}, "", fits, 200, answerOf(`1`, jsonrpc.CodeMethodNotFound), "", ""},
		{"accepted as JSON", "POST", []string{"application/json"}, "", fits, 200, answerOf(`1`, jsonrpc.CodeMethodNotFound), "", ""},
		{"method", "PUT", []string{"text/plain"}, "gzip", large, 405, "JSON-RPC needs a POST request.\n", "Allow", "GET, HEAD, POST"},
		{"type before coding", "POST", []string{"text/plain"}, "gzip", large, 415, wrongType, "Accept", "application/json, application/a2a+json"},
		{"form", "POST", []string{"application/x-www-form-urlencoded"}, "", fits, 415, wrongType, "", ""},
		{"no longer accepted", "POST", []string{"application/json-rpc"}, "", fits, 415, wrongType, "", ""},
		{"none", "POST", nil, "", fits, 415, wrongType, "", ""},
		{"two", "POST", []string{"application/json", "application/json"}, "", fits, 415, wrongType, "", ""},
		{"another charset", "POST", []string{"application/a2a+json; charset=latin1"}, "", fits, 415, wrongType, "", ""},
		{"coding before size", "POST", []string{"application/json"}, "gzip", large, 415, coded, "Accept-Encoding", "identity"},
		{"size before JSON", "POST", []string{"application/json"}, "", large, 413, tooLarge, "Content-Type", "application/json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newToyServer()
			s.Profile, s.MaxRequestSize = agentProfile, 100
			for _, announced := range []int64{int64(len(c.body)), -1} {
				r := httptest.NewRequestWithContext(t.Context(), c.method, "/", strings.NewReader(c.body))
				r.Header["Content-Type"], r.ContentLength = c.types, announced
				if c.encoding != "" {
					r.Header.Set("Content-Encoding", c.encoding)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != c.status || w.Body.String() != c.answer {
					t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.answer)
				}
				if got := w.Header().Get(c.field); c.field != "" && got != c.value || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("header %v", w.Header())
				}
			}
		})
	}
}

// TestRefuseWithoutAnError: a profile that has no error for a refusal answers as one without Refuse.
func TestRefuseWithoutAnError(t *testing.T) {
	with, without := newToyServer(), newToyServer()
	with.Profile.Refuse = func(int, string) *jsonrpc.Error { return nil }
	with.MaxRequestSize, without.MaxRequestSize = 1, 1
	for _, contentType := range []string{"text/plain", "application/json"} {
		var answers [2]string
		for i, s := range []*jsonrpc.Server{with, without} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping))
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			answers[i] = w.Result().Status + w.Body.String()
		}
		if answers[0] != answers[1] {
			t.Errorf("%s, want %s", answers[0], answers[1])
		}
	}
}

// TestBrokenBodyHasParseStatus: a body that ends too early is a parse error.
func TestBrokenBodyHasParseStatus(t *testing.T) {
	s := newToyServer()
	s.Profile = agentProfile
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", &failing{"{", errors.New("broken off")})
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Invalid JSON payload") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// params that are null are absent.
func TestNullParams(t *testing.T) {
	s := &jsonrpc.Server{Profile: jsonrpc.Profile{MaxBatch: 2}, Handler: jsonrpc.Handler(func(_ context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		return strconv.AppendBool(nil, r.Params == nil && r.Members == nil), nil
	})}
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":null}`:      `{"jsonrpc":"2.0","id":1,"result":true}`,
		`[{"jsonrpc":"2.0","id":1,"method":"m","params" : null }]`: `[{"jsonrpc":"2.0","id":1,"result":true}]`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{}}`:        `{"jsonrpc":"2.0","id":1,"result":false}`,
	} {
		if w := post(t, s, body); w.Body.String() != want {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
}

// Only UTF-8 is accepted, by any of its labels.
func TestCharsets(t *testing.T) {
	s := newToyServer()
	for _, mediaTypes := range [][]string{nil, {"application/json"}} {
		s.Profile.MediaTypes = mediaTypes
		for contentType, want := range map[string]int{
			"application/json;charset=utf8": 200, "application/json; charset=UTF8": 200, `application/json; charset="utf8"`: 200, `Application/JSON; Charset="Utf-8"`: 200,
			"application/json; charset=utf-8": 200, "application/json; charset=utf_8": 415, "application/json; charset=latin1": 415, "application/json; charset=utf-16": 415,
			`application/json; charset=""`: 415,
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping))
			r.Header.Set("Content-Type", contentType)
			w := httptest.NewRecorder()
			if s.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s: %d, want %d", contentType, w.Code, want)
			}
		}
	}
}

// Errors of the package are written in the form of the profile, alone and in batches; those of methods stay as they are.
func TestErrorForm(t *testing.T) {
	s := &jsonrpc.Server{Profile: jsonrpc.Profile{MaxBatch: 5, ErrorForm: func(r *http.Request, e *jsonrpc.Error) *jsonrpc.Error {
		own := *e
		own.Message = r.Header.Get("Form")
		return &own
	}}, Handler: jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		return nil, &jsonrpc.Error{Code: 7, Message: "own"}
	})}
	for body, want := range map[string]int{"{": 1, "1": 1, "[1,2]": 2, "[]": 1, `{"jsonrpc":"2.0","id":1,"method":"m"}`: 0, `[{"jsonrpc":"2.0","id":1,"method":"m"}]`: 0} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Form", "formed")
		s.ServeHTTP(w, r)
		if got := strings.Count(w.Body.String(), `"message":"formed"`); got != want {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
}
