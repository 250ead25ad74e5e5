package jsonrpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

const ping = `{"jsonrpc":"2.0","method":"x","id":1}`

func TestMethod(t *testing.T) {
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post"} {
		w := httptest.NewRecorder()
		newToyServer().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/rpc", strings.NewReader(ping)))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: status %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
			t.Errorf("%s: Content-Type %q", method, got)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: Cache-Control %q", method, got)
		}
	}
}

func TestMediaType(t *testing.T) {
	type header = http.Header
	contentType := func(values ...string) header { return header{"Content-Type": values} }
	for _, c := range []struct {
		name   string
		header header
		status int
	}{
		{"JSON", contentType("application/json"), 200},
		{"mixed case", contentType("Application/JSON"), 200},
		{"charset", contentType("application/json; charset=utf-8"), 200},
		{"quoted charset", contentType(`application/json;charset="UTF-8"`), 200},
		{"another parameter", contentType("application/json; profile=a"), 200},
		{"json-rpc", contentType("application/json-rpc"), 200},
		{"jsonrequest", contentType("application/jsonrequest"), 415},
		{"another charset", contentType("application/json; charset=iso-8859-1"), 415},
		{"empty charset", contentType(`application/json; charset=""`), 415},
		{"suffix", contentType("application/problem+json"), 415},
		{"text", contentType("text/plain"), 415},
		{"text/json", contentType("text/json"), 415},
		{"form", contentType("application/x-www-form-urlencoded"), 415},
		{"parameter that is broken", contentType("application/json; charset"), 415},
		{"two in one", contentType("application/json, text/plain"), 415},
		{"text in front", contentType("text/plain; application/json"), 415},
		{"prefix only", contentType("application/jsonx"), 415},
		{"empty", contentType(""), 415},
		{"several", contentType("application/json", "application/json"), 415},
		{"none", header{}, 200},
		{"none, from a page", header{"Origin": {"https://example.com"}}, 415},
		{"none, from an opaque page", header{"Origin": {"null"}}, 415},
		{"none, from a browser", header{"Sec-Fetch-Site": {"same-origin"}}, 415},
		{"JSON, from a page", header{"Content-Type": {"application/json"}, "Origin": {"https://example.com"}}, 200},
		{"gzip", header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, 415},
		{"gzip after identity", header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity", "gzip"}}, 415},
		{"list of codings", header{"Content-Type": {"application/json"}, "Content-Encoding": {"identity, br"}}, 415},
		{"identity", header{"Content-Type": {"application/json"}, "Content-Encoding": {"Identity"}}, 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc", strings.NewReader(ping))
			r.Header = c.header
			w := httptest.NewRecorder()
			newToyServer().ServeHTTP(w, r)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d", w.Code, c.status)
			}
			if w.Code == 415 && w.Header().Get("Accept")+w.Header().Get("Accept-Encoding") == "" {
				t.Error("the answer does not say what would be accepted")
			}
		})
	}
}

func TestAnswerHeaders(t *testing.T) {
	for _, body := range []string{ping, ``, `1`, `[` + ping + `]`} {
		w := post(t, newToyServer(), body)
		for name, want := range map[string]string{
			"Content-Type":           "application/json",
			"Content-Length":         strconv.Itoa(w.Body.Len()),
			"Cache-Control":          "no-store",
			"X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%q: %s %q, want %q", body, name, got, want)
			}
		}
	}
	w := post(t, newToyServer(), `{"jsonrpc":"2.0","method":"x"}`)
	if w.Code != http.StatusNoContent || w.Body.Len() != 0 || w.Header().Get("Content-Type") != "" {
		t.Errorf("notification: status %d, body %q, Content-Type %q", w.Code, w.Body, w.Header().Get("Content-Type"))
	}
}

// counter is an endless body that counts the bytes read.
type counter struct{ read int }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	c.read += len(p)
	return len(p), nil
}

// failing is a body that ends with an error.
type failing struct {
	text string
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	n := copy(p, f.text)
	f.text = f.text[n:]
	if f.text == "" {
		return n, f.err
	}
	return n, nil
}

func TestBody(t *testing.T) {
	tooLarge := answerOf(`null`, jsonrpc.CodeInvalidRequest)
	broken := answerOf(`null`, jsonrpc.CodeParseError)
	fits := `{"jsonrpc":"2.0","method":"x","id":1,"params":["` + strings.Repeat("a", 100_000) + `"]}`
	unknown := answerOf(`1`, jsonrpc.CodeMethodNotFound)
	for _, c := range []struct {
		name      string
		body      io.Reader
		announced int64
		limit     int64
		status    int
		answer    string
	}{
		{"at the limit", strings.NewReader(fits), int64(len(fits)), int64(len(fits)), 200, unknown},
		{"at the limit, length unknown", strings.NewReader(fits), -1, int64(len(fits)), 200, unknown},
		{"above the limit, announced", &failing{err: errors.New("must not be read")}, int64(len(fits)), int64(len(fits)) - 1, 413, tooLarge},
		{"above the limit, length unknown", strings.NewReader(fits), -1, int64(len(fits)) - 1, 413, tooLarge},
		{"above the limit, announced as less", strings.NewReader(fits), 10, int64(len(fits)) - 1, 413, tooLarge},
		{"above the default limit", strings.NewReader(strings.Repeat(" ", 1<<20+1)), -1, 0, 413, tooLarge},
		{"within the default limit", strings.NewReader(ping + strings.Repeat(" ", 1<<20-len(ping))), -1, 0, 200, unknown},
		{"above the limit of a handler in front", &failing{`{"`, fmt.Errorf("in front: %w", &http.MaxBytesError{Limit: 2})}, -1, 1000, 413, tooLarge},
		{"broken off", &failing{ping, io.ErrUnexpectedEOF}, -1, 1000, 400, broken},
		{"client gone", &failing{"", context.Canceled}, -1, 1000, 400, broken},
		{"announced far more", strings.NewReader(ping), 1000, 1000, 200, unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newToyServer()
			s.MaxRequestSize = c.limit
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc", c.body)
			r.ContentLength = c.announced
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != c.status || withoutLimits(w.Body.String()) != c.answer {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.answer)
			}
		})
	}
}

// The memory that a request has released may be overwritten while the request is being served.
func TestReleasedRequests(t *testing.T) {
	s := newToyServer()
	post := func(body string) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc", strings.NewReader(body)))
		return w.Body.String()
	}
	s.Handler = jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if req.Method != "release" {
			return toys(ctx, req)
		}
		room := req.ResultBuffer(300_000)
		if room != nil && cap(room) < 300_000 {
			t.Errorf("there is room for %d bytes", cap(room))
		}
		result := append(room, `"in its room"`...)
		if req.ResultBuffer(0) != nil {
			t.Error("there is room twice")
		}
		req.Release()
		req.Release()
		post(`{"jsonrpc":"2.0","method":"sum","params":[` + strings.Repeat("1,", 200) + `1],"id":"` + strings.Repeat("y", 200) + `"}`)
		return result, nil
	})
	for _, id := range []string{`1`, `"x"`, `"` + strings.Repeat("x", 100) + `"`, `null`} {
		body, want := `{"jsonrpc":"2.0","method":"release","id":`+id+`}`, `{"jsonrpc":"2.0","id":`+id+`,"result":"in its room"}`
		if got := post(body); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := post("[" + body + "]"); got != "["+want+"]" {
			t.Errorf("in a batch: %s, want %s", got, want)
		}
	}
	if got := post(`{"jsonrpc":"2.0","method":"release"}`); got != "" {
		t.Errorf("a notification is answered with %s", got)
	}
}

func TestEndlessBody(t *testing.T) {
	s := newToyServer()
	s.MaxRequestSize = 10_000
	body := new(counter)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/rpc", body)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", w.Code)
	}
	if body.read > 10_001 {
		t.Errorf("%d bytes were read", body.read)
	}
}

func TestErrorStatus(t *testing.T) {
	s := newToyServer()
	s.Profile.ErrorStatus = func(code int) int {
		return map[int]int{
			jsonrpc.CodeParseError:     499, // must not be called for it
			jsonrpc.CodeInvalidRequest: http.StatusBadRequest,
			jsonrpc.CodeMethodNotFound: http.StatusNotFound,
		}[code]
	}
	for _, c := range []struct {
		body   string
		status int
	}{
		{ping, http.StatusNotFound},
		{`{}`, http.StatusBadRequest},
		{`[]`, http.StatusBadRequest},
		{`1`, http.StatusBadRequest},
		{`{`, http.StatusBadRequest},
		{`[` + ping + `]`, http.StatusOK},
		{`{"jsonrpc":"2.0","method":"subtract","id":1}`, http.StatusOK}, // -32602 has no status
		{`{"jsonrpc":"2.0","method":"get_data","id":1}`, http.StatusOK},
		{`{"jsonrpc":"2.0","method":"x"}`, http.StatusNoContent},
	} {
		if w := post(t, s, c.body); w.Code != c.status {
			t.Errorf("%s: status %d, want %d", c.body, w.Code, c.status)
		}
	}
}

func TestErrorData(t *testing.T) {
	s := newToyServer()
	s.MaxRequestSize = 100
	s.Profile.ErrorData = func(code int, reason string, _ *jsonrpc.Limit) jsontext.Value {
		if code == jsonrpc.CodeInvalidRequest && strings.HasPrefix(reason, "id") {
			return nil
		}
		return jsontext.Value(`{"source":"bridge"}`)
	}
	const data = `,"data":{"source":"bridge"}`
	with := func(answer string) string { return strings.TrimSuffix(answer, `}}`) + data + `}}` }
	for _, c := range []struct{ body, answer string }{
		{`{`, with(answerOf(`null`, jsonrpc.CodeParseError))},
		{`[]`, with(answerOf(`null`, jsonrpc.CodeInvalidRequest))},
		{`[1]`, `[` + with(answerOf(`null`, jsonrpc.CodeInvalidRequest)) + `]`},
		{strings.Repeat(" ", 101), with(answerOf(`null`, jsonrpc.CodeInvalidRequest))},
		{`{"jsonrpc":"2.0","method":"x","id":[]}`, answerOf(`null`, jsonrpc.CodeInvalidRequest)},
		{ping, answerOf(`1`, jsonrpc.CodeMethodNotFound)},
	} {
		if got := withoutLimits(post(t, s, c.body).Body.String()); got != c.answer {
			t.Errorf("%s: body\n%s\nwant\n%s", c.body, got, c.answer)
		}
	}
}

// TestLimitsAreNamed: errors name the limit that was exceeded.
func TestLimitsAreNamed(t *testing.T) {
	s := newToyServer()
	s.MaxRequestSize = 1100
	s.Profile.MaxBatch = 2
	s.Profile.ErrorData = func(_ int, _ string, limit *jsonrpc.Limit) jsontext.Value {
		if limit == nil {
			return nil
		}
		return jsontext.Value(`"` + limit.Name + " " + strconv.FormatInt(limit.Max, 10) + `"`)
	}
	chunked := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", 1101)))
	chunked.ContentLength = -1
	elsewhere := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	elsewhere.Body = http.MaxBytesReader(nil, io.NopCloser(strings.NewReader("1234")), 3) // by a handler in front
	answer := func(code int, message, data string) string {
		return `{"jsonrpc":"2.0","id":null,"error":{"code":` + strconv.Itoa(code) + `,"message":"` + message + `","data":"` + data + `"}}`
	}
	for _, c := range []struct {
		name    string
		request *http.Request
		body    string
		answer  string
	}{
		{"depth", nil, nested(513), answer(-32700, "Parse error: nested deeper than 512 levels", "depth 512")},
		{"batch", nil, `[1,2,3]`, answer(-32600, "Invalid Request: the batch has more than 2 elements: send several smaller ones (max_batch: 2)", "max_batch 2")},
		{"size", nil, strings.Repeat(" ", 1101), answer(-32600, "Invalid Request: the body is larger than 1100 bytes (max_request_size: 1100)", "max_request_size 1100")},
		{"size of chunks", chunked, "", answer(-32600, "Invalid Request: the body is larger than 1100 bytes (max_request_size: 1100)", "max_request_size 1100")},
		{"size in front", elsewhere, "", answer(-32600, "Invalid Request", " 3")},
	} {
		r := c.request
		if r == nil {
			r = httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(c.body))
		}
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Body.String() != c.answer {
			t.Errorf("%s: %s, want %s", c.name, w.Body, c.answer)
		}
	}
}

// TestResults checks the answers for handlers that return unusual results.
func TestResults(t *testing.T) {
	failed := answerOf(`1`, jsonrpc.CodeInternalError)
	for _, c := range []struct {
		name   string
		result jsontext.Value
		err    *jsonrpc.Error
		answer string
	}{
		{"nothing", nil, nil, failed},
		{"empty", jsontext.Value{}, nil, failed},
		{"white space", jsontext.Value(" \n"), nil, failed},
		{"null", jsontext.Value(`null`), nil, `{"jsonrpc":"2.0","id":1,"result":null}`},
		{"raw text", jsontext.Value(`{"a" : 1.0}`), nil, `{"jsonrpc":"2.0","id":1,"result":{"a" : 1.0}}`},
		{
			"both", jsontext.Value(`1`), &jsonrpc.Error{Code: 7, Message: "no"},
			`{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"no"}}`,
		},
		{
			"message with quotes and bad UTF-8", nil, &jsonrpc.Error{Code: -1, Message: "\"a\"\n\xff", Data: jsontext.Value(`[1]`)},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"\"a\"\n` + "\ufffd" + `","data":[1]}}`,
		},
		{
			"empty data", nil, &jsonrpc.Error{Code: -1, Message: "", Data: jsontext.Value(` `)},
			`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newToyServer()
			s.Handler = jsonrpc.Handler(func(context.Context, *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
				return c.result, c.err
			})
			for body, answer := range map[string]string{ping: c.answer, `[` + ping + `]`: `[` + c.answer + `]`} {
				w := post(t, s, body)
				if w.Code != http.StatusOK || w.Body.String() != answer {
					t.Errorf("%d %s, want 200 %s", w.Code, w.Body, answer)
				}
			}
		})
	}
}

func TestRequestReachesHandler(t *testing.T) {
	type key struct{}
	var got jsonrpc.Request
	s := newToyServer()
	s.Handler = jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if ctx.Value(key{}) != "value" {
			t.Error("the context is not the request's")
		}
		got = jsonrpc.Request{Method: req.Method, Params: req.Params.Clone(), ID: req.ID.Clone()}
		return jsontext.Value(`1`), nil
	})
	for _, c := range []struct {
		body         string
		method       string
		params, id   jsontext.Value
		notification bool
	}{
		{`{"jsonrpc":"2.0","method":"a\u0062\ud83d\ude00","params": {"a": 1} ,"id": "x" }`, "ab\U0001f600", jsontext.Value(`{"a": 1}`), jsontext.Value(`"x"`), false},
		{`{"id":null,"jsonrpc":"2.0","method":""}`, "", nil, jsontext.Value(`null`), false},
		{`{"jsonrpc":"2.0","method":"a","params":[]}`, "a", jsontext.Value(`[]`), nil, true},
		{`[{"jsonrpc":"2.0","method":"a"}]`, "a", nil, nil, true},
	} {
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), key{}, "value"), http.MethodPost, "/", strings.NewReader(c.body))
		s.ServeHTTP(httptest.NewRecorder(), r)
		if got.Method != c.method || !bytes.Equal(got.Params, c.params) || !bytes.Equal(got.ID, c.id) ||
			(got.Params == nil) != (c.params == nil) || got.IsNotification() != c.notification {
			t.Errorf("%s: method %q, params %s, id %s", c.body, got.Method, got.Params, got.ID)
		}
	}
}

// TestOverTheWire goes through a real connection, with answers larger and
// smaller than net/http's buffers.
func TestOverTheWire(t *testing.T) {
	server := httptest.NewServer(newToyServer())
	defer server.Close()
	for _, size := range []int{0, 10, 5000, 300_000} {
		params := `["` + strings.Repeat("a", size) + `"]`
		body := `{"jsonrpc":"2.0","method":"params","params":` + params + `,"id":"\u0041"}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if want := `{"jsonrpc":"2.0","id":"\u0041","result":` + params + `}`; string(got) != want {
			t.Errorf("%d: body %.200s", size, got)
		}
		if answer.ContentLength != int64(len(got)) {
			t.Errorf("%d: Content-Length %d for %d bytes", size, answer.ContentLength, len(got))
		}
	}
}

func TestErrorIsAnError(t *testing.T) {
	var err error = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Invalid params"}
	if got := err.Error(); got != "JSON-RPC error -32602: Invalid params" {
		t.Error(got)
	}
}
