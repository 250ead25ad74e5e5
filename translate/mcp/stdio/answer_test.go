package stdio_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// TestAnswers: each request has exactly one answer with its id, whatever the server answers.
func TestAnswers(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":12345678901234567890,"method":"tools/call"}`
	const id = `{"jsonrpc":"2.0","id":12345678901234567890,`
	const answer = `{"jsonrpc":"2.0","id":12345678901234567890,"result":{"a":1}}`
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress"}`
	const stream = "text/event-stream"
	for _, tc := range []struct {
		name, request string
		status        int
		mediaType     string
		body          string
		want          []string // how the lines begin and what they have, separated by …
	}{
		{"a result", call, 200, "application/json", answer, []string{answer}},
		{"lines", call, 200, "application/json", "{\r\n\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\n\"result\":\"a\\nb\"}\n", []string{`{  "jsonrpc":"2.0","id":12345678901234567890, "result":"a\nb"}`}},
		{"an error", call, 404, "application/json", id + `"error":{"code":-32601,"message":"no"}}`, []string{id + `"error":{"code":-32601,"message":"no"}}`}},
		{"another id", call, 200, "application/json", `{"jsonrpc":"2.0","id":12345678901234567000,"result":{"id":5}}`, []string{id + `"result":{"id":5}}`}},
		{"id null", call, 400, "application/json", `{"id":null,"error":{"code":-32700,"message":"deep"},"jsonrpc":"2.0"}`, []string{id + `"error":{"code":-32700,"message":"deep"}}`}},
		{"no id", call, 413, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"large"}}`, []string{id + `"error":{"code":-32600,"message":"large"}}`}},
		{"an error of the server", call, 500, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"panic"}}`, []string{id + `"error":{"code":-32603,"message":"panic"}}`}},
		{"no readable id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"id"}}`, []string{`{"jsonrpc":"2.0","error":{"code":-32600,"message":"id"}}`}},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"batch"}}`, []string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"batch"}}`}},
		{"no request", `{}`, 502, "text/html", ``, []string{`{"jsonrpc":"2.0","error":{"code":-32603,…HTTP 502`}},
		{"a stream", call, 200, stream, ": hi\n\nid: 1\ndata:\n\nevent: message\ndata: " + progress + "\n\ndata: " + answer + "\n\ndata: " + progress + "\n\n", []string{progress, answer}},
		{"events of several lines", call, 200, stream + "; charset=utf-8", "data: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":12345678901234567890,\"result\"\r\ndata::[\r\ndata:1]}\r\n\r\n", []string{`{"jsonrpc":"2.0", "id":12345678901234567890,"result" :[ 1]}`}},
		{"an error without id in a stream", call, 200, stream, "data: {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"m\"}}\n\n", []string{id + `"error":{"code":-32603,"message":"m"}}`}},
		{"a request of the server", call, 200, stream, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\ndata: " + answer + "\n\n", []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, answer}},
		{"events that are no messages", call, 200, stream, "data: hello\n\ndata: {}\n\ndata: " + answer + "\n\n", []string{answer}},
		{"half a stream", call, 200, stream, "data: " + progress + "\n\ndata: " + answer + "\n", []string{progress, id + `"error":{"code":-32603,"message":"The answer of http://bridge.example.com/mcp could not be read: unexpected EOF. The request may have been executed`}},
		{"an empty stream", call, 200, stream, "", []string{id + `"error":{"code":-32603,…may have been executed`}},
		{"no answer", call, 202, "", "", []string{id + `"error":{"code":-32603,…HTTP 202 and an empty body…nothing serves MCP there…Check that the URL…may have been executed`}},
		{"no content", call, 200, "application/json", " \n", []string{id + `"error":{"code":-32603,…HTTP 200 and an empty body…Check that the URL`}},
		{"a page", call, 200, "text/html; charset=utf-8", "<html>", []string{id + `"error":{"code":-32603,…HTTP 200 and text/html instead of…Check that the URL`}},
		{"half an answer", call, 200, "application/json", answer[:30], []string{id + `"error":{"code":-32603,…HTTP 200 and application/json`}},
		{"not found", call, 404, "text/plain", "404", []string{id + `"error":{"code":-32603,…HTTP 404 and text/plain`}},
		{"401", call, 401, "application/json", answer, []string{id + `"error":{"code":-32603,…HTTP 401…Use --bearer-env.`}},
		{"403", call, 403, "", "", []string{id + `"error":{"code":-32603,…HTTP 403…Use --bearer-env.`}},
		{"403 with a message", call, 403, "application/json", id + `"error":{"code":-32600,"message":"origin"}}`, []string{id + `"error":{"code":-32600,"message":"origin"}}`}},
		{"moved", call, 307, "", "", []string{id + `"error":{"code":-32603,…redirects to https://other.example.com/mcp, which is not followed`}},
		{"429", call, 429, "", "", []string{id + `"error":{"code":-32603,…overloaded…Try again after 7`}},
		{"502", call, 502, "text/html", "<h1>Bad gateway</h1>", []string{id + `"error":{"code":-32603,…HTTP 502…may have been executed`}},
		{"a batch of answers", call, 200, "application/json", "[" + answer + "]", []string{id + `"error":{"code":-32603`}},
		{"a request as answer", call, 200, "application/json", progress, []string{id + `"error":{"code":-32603`}},
		{"a refused notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 500, "application/json", answer, nil},
		{"a refused response", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}`, 400, "application/json", answer, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", tc.mediaType)
					w.Header().Set("Location", "https://user:secret@other.example.com/mcp?token=secret")
					w.Header().Set("Retry-After", "7")
					w.WriteHeader(tc.status)
					_, _ = io.WriteString(w, tc.body)
				})), stdio.Options{URL: "http://user:secret@bridge.example.com/mcp?key=secret", Refused: "Use --bearer-env."}).reads()
				c.send(tc.request)
				synctest.Wait()
				lines := c.end()
				if len(lines) != len(tc.want) {
					t.Fatalf("%d lines, want %d: %q", len(lines), len(tc.want), lines)
				}
				for i, want := range tc.want {
					begin, parts, partial := strings.Cut(want, "…")
					for part := range strings.SplitSeq(parts, "…") {
						if !strings.HasPrefix(lines[i], begin) || !partial && !strings.Contains(want, "-32603") && lines[i] != want || !strings.Contains(lines[i], part) {
							t.Errorf("%s\nwant %s", lines[i], want)
						}
					}
					if strings.Contains(lines[i], "secret") {
						t.Errorf("a secret: %s", lines[i])
					}
				}
				if warned := c.warned(); (tc.want == nil) != strings.Contains(warned, "was refused: ") {
					t.Errorf("warnings: %s", warned)
				}
			})
		})
	}
}

// TestConnections: errors of the connection are answers, and nothing is sent twice.
func TestConnections(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 { // so that the client has a connection that it uses again
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":1}`)
			return
		}
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c := start(t, server.Client().Do, stdio.Options{URL: server.URL + "/mcp?key=secret"}).reads()
	c.send(request(1, "ping"))
	c.read()
	c.send(request(2, "ping"))
	line := c.read()
	if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,`) || !strings.Contains(line, "may have been executed") || strings.Contains(line, "secret") || requests.Load() != 2 {
		t.Errorf("after %d requests: %s", requests.Load(), line)
	}
	c.end()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	c = start(t, http.DefaultClient.Do, stdio.Options{URL: "http://" + l.Addr().String() + "/mcp?key=secret"}).reads()
	c.send(request(1, "ping"), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	line = c.read()
	if !strings.Contains(line, `"id":1,`) || !strings.Contains(line, "can't be reached: ") || !strings.Contains(line, "was not executed") || strings.Contains(line, "secret") {
		t.Error(line)
	}
	if rest := c.end(); len(rest) > 0 || !strings.Contains(c.warned(), "notifications/initialized was not delivered") {
		t.Errorf("%q, %s", rest, c.warned())
	}
}

// TestLargeAnswers: an answer or event above the bound becomes an error, and is not kept.
func TestLargeAnswers(t *testing.T) {
	for _, begin := range []string{`{"jsonrpc":"2.0","id":1,"result":"`, "data: "} {
		c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if begin == "data: " {
				w.Header().Set("Content-Type", "text/event-stream")
			}
			_, _ = io.WriteString(w, begin)
			_, _ = io.Copy(w, &endless{100 << 20})
		})), stdio.Options{}).reads()
		c.send(request(1, "ping"))
		if line := c.read(); !strings.Contains(line, "larger than 64 MiB") {
			t.Errorf("%.200s", line)
		}
		c.end()
	}
}

// TestInProcess: a handler in the process sees what it would see of an HTTP server.
func TestInProcess(t *testing.T) {
	request := func(ctx context.Context, h http.HandlerFunc) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp?a=b", strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		return stdio.InProcess(h)(r)
	}
	t.Run("header and body", func(t *testing.T) {
		resp, err := request(t.Context(), func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header()["x-name"] = []string{"value"}
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
			w.WriteHeader(http.StatusOK)
			w.Header().Set("Late", "1")
			_, _ = io.WriteString(w, r.Host+r.RequestURI+string(body))
		})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Name") != "value" || resp.Header.Get("Late") != "" || string(body) != "localhost/mcp?a=bbody" || err != nil {
			t.Errorf("%v %s %v", resp, body, err)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		resp, err := request(t.Context(), func(http.ResponseWriter, *http.Request) {})
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); len(body) > 0 || err != nil {
			t.Errorf("%q %v", body, err)
		}
	})
	t.Run("a panic", func(t *testing.T) {
		if resp, err := request(t.Context(), func(http.ResponseWriter, *http.Request) { panic("p") }); !errors.Is(err, io.EOF) { //nolint:bodyclose // there is none
			t.Errorf("%v %v", resp, err)
		}
	})
	t.Run("a panic in the body", func(t *testing.T) {
		resp, err := request(t.Context(), func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); string(body) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s %v", body, err)
		}
	})
	t.Run("flushed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			resp, err := request(t.Context(), func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%v %v", resp, err)
			}
			_ = resp.Body.Close() // ends the handler
		})
	})
	t.Run("back pressure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			written, failed := 0, error(nil)
			resp, err := request(t.Context(), func(w http.ResponseWriter, r *http.Request) {
				for failed == nil {
					var n int
					n, failed = w.Write(make([]byte, 1000))
					written += n
				}
				<-r.Context().Done()
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(resp.Body, make([]byte, 1500)); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			if written > 32<<10 { // which the connection buffers
				t.Errorf("%d bytes were written", written)
			}
			_ = resp.Body.Close()
			synctest.Wait()
			if failed == nil {
				t.Error("the handler still writes")
			}
		})
	})
	t.Run("a caller that leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			left := false
			go func() {
				synctest.Wait()
				cancel()
			}()
			resp, err := request(ctx, func(w http.ResponseWriter, r *http.Request) { //nolint:bodyclose // there is none
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
				_, _ = io.WriteString(w, "too late")
				left = http.NewResponseController(w).Flush() != nil
			})
			synctest.Wait()
			if !errors.Is(err, context.Canceled) || !left {
				t.Errorf("%v %v %v", resp, err, left)
			}
		})
	})
}
