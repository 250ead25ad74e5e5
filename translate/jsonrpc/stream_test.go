package jsonrpc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// newStreamServer returns a server whose method "x" sends events; the others are toys.
func newStreamServer(send func(ctx context.Context, s *jsonrpc.Stream)) *jsonrpc.Server {
	return &jsonrpc.Server{Profile: profile, Handler: jsonrpc.Handler(func(ctx context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if req.Method != "x" {
			return toys(ctx, req)
		}
		stream := req.Stream()
		if stream == nil {
			return jsontext.Value(`"no stream"`), nil
		}
		req.Release()
		send(ctx, stream)
		return jsontext.Value(`"plain"`), nil
	})}
}

// writes is a ResponseWriter that records each write and each flush.
type writes struct {
	header http.Header
	status int
	texts  []string
}

func (w *writes) Header() http.Header    { return w.header }
func (w *writes) WriteHeader(status int) { w.status = status }
func (w *writes) Flush()                 { w.texts = append(w.texts, "flush") }

func (w *writes) Write(p []byte) (int, error) {
	w.texts = append(w.texts, string(p))
	return len(p), nil
}

// serve serves a body without a network.
func serve(t *testing.T, s *jsonrpc.Server, body string) *writes {
	t.Helper()
	w := &writes{header: http.Header{}}
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body)))
	return w
}

func noError(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// TestStream checks each byte of a stream, and that each event is written and flushed at once.
func TestStream(t *testing.T) {
	for _, id := range []string{`1`, `"\u0041"`, `null`, `-0.50e+1`, `"` + strings.Repeat("x", 100) + `"`} {
		var kept *jsonrpc.Stream
		s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
			kept = s
			noError(t, s.KeepAlive(), s.Result(1, jsontext.Value(`{"a":1.0}`)), s.Result(0, jsontext.Value(" [1,\r\n\t\"\\n\"]\n")), s.KeepAlive(),
				s.Result(18446744073709551615, jsontext.Value(`null`)),
				s.Error(&jsonrpc.Error{Code: 7, Message: "a\nb", Data: jsontext.Value("[\n1]"), Status: 404, Header: http.Header{"X": {"y"}}}))
		})
		w := serve(t, s, `{"jsonrpc":"2.0","method":"x","id":`+id+`}`)
		head := `data: {"jsonrpc":"2.0","id":` + id + `,`
		want := []string{
			": \n\n",
			"id: 1\n" + head + `"result":{"a":1.0}}` + "\n\n",
			head + "\"result\": [1,  \t\"\\n\"] }\n\n",
			": \n\n",
			"id: 18446744073709551615\n" + head + `"result":null}` + "\n\n",
			head + `"error":{"code":7,"message":"a\nb","data":[ 1]}}` + "\n\n",
		}
		if got, want := strings.Join(w.texts, "|"), strings.Join(want, "|flush|")+"|flush"; got != want {
			t.Errorf("written\n%s\nwant\n%s", got, want)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff", "Content-Length": "", "X": "",
		} {
			if got := w.header.Get(name); got != want {
				t.Errorf("%s %q, want %q", name, got, want)
			}
		}
		if w.status != http.StatusOK {
			t.Errorf("status %d", w.status)
		}
		if kept.KeepAlive() == nil || kept.Result(1, jsontext.Value(`1`)) == nil || len(w.texts) != 2*len(want) {
			t.Error("the stream can be used after its handler")
		}
	}
}

// TestNoStream: a stream that sent nothing is answered as usual; notifications and elements of a batch have none.
func TestNoStream(t *testing.T) {
	s := newStreamServer(func(context.Context, *jsonrpc.Stream) {})
	for body, answer := range map[string]string{
		ping:                               `{"jsonrpc":"2.0","id":1,"result":"plain"}`,
		`[` + ping + `]`:                   `[{"jsonrpc":"2.0","id":1,"result":"no stream"}]`,
		`{"jsonrpc":"2.0","method":"x"}`:   ``,
		`[{"jsonrpc":"2.0","method":"x"}]`: ``,
		`{"jsonrpc":"2.0","method":1}`:     answerOf(`null`, jsonrpc.CodeInvalidRequest),
	} {
		w := serve(t, s, body)
		if got := strings.Join(w.texts, "|"); got != answer || w.header.Get("Content-Type") == "text/event-stream" {
			t.Errorf("%s: %s, want %s", body, got, answer)
		}
	}
	s.Handler = jsonrpc.Handler(func(_ context.Context, req *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		if first := req.Stream(); first != req.Stream() {
			t.Error("a request has two streams")
		}
		return nil, &jsonrpc.Error{Code: -32001, Message: "Task not found", Status: http.StatusNotFound}
	})
	if w := post(t, s, ping); w.Code != http.StatusNotFound || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPanicInStream: a panic ends the connection once the stream has begun.
func TestPanicInStream(t *testing.T) {
	for _, test := range []struct {
		name   string
		begun  bool
		value  any
		status int // 0: the connection is ended
		told   bool
	}{
		{"before the first event", false, "a bug", http.StatusInternalServerError, true},
		{"after an event", true, "a bug", 0, true},
		{"aborted", true, http.ErrAbortHandler, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
				if test.begun {
					noError(t, s.Result(1, jsontext.Value(`1`)))
				}
				panic(test.value)
			})
			told := false
			s.OnPanic = func(context.Context, any, []byte) { told = true }
			defer func() {
				if value := recover(); (value == http.ErrAbortHandler) != (test.status == 0) || told != test.told {
					t.Errorf("recovered %v, told of the panic: %t", value, told)
				}
			}()
			if w := serve(t, s, ping); w.status != test.status {
				t.Errorf("status %d", w.status)
			}
		})
	}
}

// TestLastEvents: a result that can't be sent is replaced by an error, which ends the stream.
func TestLastEvents(t *testing.T) {
	large := jsontext.Value(`"` + strings.Repeat("x", 100_000) + `"`)
	for _, test := range []struct {
		name   string
		result jsontext.Value
		code   int
	}{
		{"nothing", nil, jsonrpc.CodeInternalError},
		{"white space", jsontext.Value(" \n"), jsonrpc.CodeInternalError},
		{"too large", large, -32050},
	} {
		t.Run(test.name, func(t *testing.T) {
			var err error
			s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
				noError(t, s.Result(1, jsontext.Value(`1`)))
				err = s.Result(2, test.result)
				if s.KeepAlive() != err || s.Result(3, jsontext.Value(`1`)) != err || s.Error(&jsonrpc.Error{}) != err {
					t.Error("the stream goes on")
				}
			})
			s.MaxAnswers = 1000
			s.Profile.TooLarge = func(req *jsonrpc.Request, _ *jsonrpc.Error) *jsonrpc.Error {
				if _, most := req.AnswerLimit(); most != 1000 {
					t.Errorf("the limit is %d", most)
				}
				return &jsonrpc.Error{Code: -32050, Message: "too large"}
			}
			w := serve(t, s, ping)
			if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != test.code {
				t.Errorf("error %v", err)
			}
			if len(w.texts) != 4 || !strings.HasPrefix(w.texts[2], "id: 2\ndata: {") || !strings.Contains(w.texts[2], `"error":`) {
				t.Errorf("written %q", w.texts)
			}
		})
	}
}

// TestMemoryOfEvents: an event counts towards MaxAnswers while it is written, and not afterwards.
func TestMemoryOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := jsontext.Value(`"` + strings.Repeat("x", 200_000) + `"`)
		var refused atomic.Int32
		s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
			for range 3 {
				if s.Result(1, large) != nil {
					refused.Add(1)
				}
				time.Sleep(time.Hour) // of the bubble: the other stream may send now
			}
		})
		s.MaxAnswers = 150_000 // of one event, without its first 64 KiB
		serve := func() {
			w := &slowWriter{header: http.Header{}, pace: time.Second}
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping)))
		}
		go serve()
		time.Sleep(30 * time.Minute)
		serve() // no two events are written at the same time
		synctest.Wait()
		if refused.Load() != 0 {
			t.Errorf("%d events were refused", refused.Load())
		}
		go serve()
		time.Sleep(time.Second)
		serve()
		if refused.Load() != 3 { // one event, and the two after it
			t.Errorf("%d events were refused, want 3", refused.Load())
		}
		time.Sleep(24 * time.Hour)
	})
}

// TestSharedMemory: servers that share the memory of their answers share its bound.
func TestSharedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := jsontext.Value(`"` + strings.Repeat("x", 200_000) + `"`)
		for _, shared := range []*share.Pool{nil, new(share.Pool)} {
			var refused atomic.Int32
			serve := func() {
				s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
					if s.Result(1, large) != nil {
						refused.Add(1)
					}
				})
				s.MaxAnswers, s.Memory = 150_000, shared
				w := &slowWriter{header: http.Header{}, pace: time.Second}
				s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(ping)))
			}
			go serve()
			go serve()
			time.Sleep(time.Hour)
			serve() // there is room again
			if got, want := refused.Load() == 1, shared != nil; got != want {
				t.Errorf("%d events were refused; the memory is shared: %v", refused.Load(), want)
			}
		}
	})
}

// TestClientHasTimeForEachEvent: the write timeout applies to each piece of an event, not to the time between events; the
// timeout of the HTTP server is not extended.
func TestClientHasTimeForEachEvent(t *testing.T) {
	const size = 1_000_000
	large := jsontext.Value(`"` + strings.Repeat("x", size) + `"`)
	for _, test := range []struct {
		name   string
		result jsontext.Value
		pace   time.Duration
		server time.Duration // the HTTP server's own
		unread bool
	}{
		{"slow", jsontext.Value(`1`), 9 * time.Second, 0, false},
		{"slow with long events", large, 9 * time.Second, 0, false},
		{"reads nothing", jsontext.Value(`1`), 11 * time.Second, 0, true},
		{"reads nothing of long events", large, 11 * time.Second, 0, true},
		{"the server is in a hurry", jsontext.Value(`1`), 9 * time.Second, 10 * time.Minute, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				unread, sent := -1, 0
				s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
					for i := range 4 {
						if err := s.Result(uint64(i+1), test.result); err != nil {
							if s.KeepAlive() != err {
								t.Error("the error is forgotten")
							}
							return
						}
						sent++
						time.Sleep(15 * time.Minute)
					}
				})
				s.WriteTimeout = 10 * time.Second
				s.OnUnread = func(_ context.Context, written int64) {
					if unread >= 0 {
						t.Error("the client is left twice")
					}
					unread = int(written)
				}
				w := &slowWriter{header: http.Header{}, pace: test.pace}
				ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: test.server})
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(ping))
				if err != nil {
					t.Fatal(err)
				}
				s.ServeHTTP(w, r)
				if test.unread != (unread >= 0) || test.unread && unread != w.taken || !test.unread && sent != 4 {
					t.Errorf("%d events were sent and %d bytes read; the client was left at %d", sent, w.taken, unread)
				}
				if w.pieces > 0 && w.taken/w.pieces > 64<<10 {
					t.Errorf("%d bytes in %d pieces", w.taken, w.pieces)
				}
			})
		})
	}
}

// FuzzStream: whatever a result or an error holds, an event of the HTML Standard has exactly this JSON as its data.
func FuzzStream(f *testing.F) {
	for _, result := range []string{
		`1`, " {\"a\":\r\n[1,\n\n2]}\r", `"\r\n\n data: x"`, "\"\u2028\u2029\u0085\ufeff\"", `"` + strings.Repeat("x", 70_000) + "\"\n", `]`, "\n\ndata: 2\n\n", ``,
	} {
		f.Add([]byte(result), "a\r\nb", uint64(len(result)))
	}
	f.Fuzz(func(t *testing.T, result []byte, message string, number uint64) {
		fault := &jsonrpc.Error{Code: 1, Message: message}
		data := jsontext.Value(result).Clone()
		if data.IsValid(jsontext.AllowDuplicateNames(true)) {
			fault.Data = data
		}
		var err error
		s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
			if err = s.Result(number, data); err == nil {
				noError(t, s.KeepAlive(), s.Error(fault))
			}
		})
		w := post(t, s, ping)
		if string(data) != string(result) {
			t.Error("the result was changed")
		}
		got := events(t, w.Body.String())
		flat := strings.NewReplacer("\r", " ", "\n", " ")
		if err == nil && (len(got) != 2 || got[0] != flat.Replace(`{"jsonrpc":"2.0","id":1,"result":`+string(result)+`}`)) ||
			err != nil && len(got) != 1 {
			t.Errorf("events %q", got)
		}
		if fault.Data != nil || err != nil {
			for _, data := range got {
				mustBeJSON(t, []byte(data))
			}
		}
	})
}

// events returns the data of the events of a stream, as a client reads it (HTML Standard, section 9.2.6).
func events(t *testing.T, stream string) (all []string) {
	t.Helper()
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	if !strings.HasSuffix(stream, "\n\n") {
		t.Error("the last event has no end")
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		var data []string
		for line := range strings.SplitSeq(event, "\n") {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "data":
				data = append(data, strings.TrimPrefix(value, " "))
			case "", "id":
			default:
				t.Errorf("line %q", line)
			}
		}
		if data != nil {
			all = append(all, strings.Join(data, "\n"))
		}
	}
	return all
}

// TestStreamNotify sends notifications before the answer.
func TestStreamNotify(t *testing.T) {
	s := newStreamServer(func(_ context.Context, s *jsonrpc.Stream) {
		noError(t, s.Notify("notifications/progress", jsontext.Value("{\n\"progress\": 1}")), s.Result(0, jsontext.Value(`7`)))
	})
	got := strings.Join(serve(t, s, `{"jsonrpc":"2.0","id":1,"method":"x"}`).texts, "")
	want := "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{ \"progress\": 1}}\n\nflush" +
		"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n\nflush"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
