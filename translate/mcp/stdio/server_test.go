package stdio_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// client is a client of [stdio.Serve].
type client struct {
	t        *testing.T
	in       *io.PipeWriter
	out      *io.PipeReader
	lines    chan string
	ended    chan error
	stop     context.CancelFunc
	mu       sync.Mutex
	warnings []string
}

// start serves a client with a function that sends requests.
func start(t *testing.T, do stdio.Do, o stdio.Options) *client {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	c := &client{t: t, in: toServer, out: fromServer, lines: make(chan string, 1000), ended: make(chan error, 1), stop: stop}
	if o.URL == "" {
		o.URL = "http://bridge.example.com/mcp"
	}
	o.Warn = func(text string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warnings = append(c.warnings, text)
	}
	go func() {
		c.ended <- stdio.Serve(ctx, in, out, do, o)
		_ = out.Close()
	}()
	t.Cleanup(func() {
		stop()
		_ = toServer.Close()
		_ = fromServer.Close()
	})
	return c
}

// reads makes the client read its lines.
func (c *client) reads() *client {
	go func() {
		defer close(c.lines)
		r := bufio.NewReader(c.out)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				if line != "" {
					c.t.Errorf("half a line: %.200q", line)
				}
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	return c
}

func (c *client) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Errorf("writing %.100q: %v", line, err)
		}
	}
}

// read returns the next line; empty: the output has ended.
func (c *client) read() string {
	line := <-c.lines
	if line != "" && !jsontext.Value(line).IsValid() {
		c.t.Errorf("no message: %.200q", line)
	}
	return line
}

// end closes the input and returns the rest of the lines.
func (c *client) end() (rest []string) {
	c.t.Helper()
	_ = c.in.Close()
	if err := <-c.ended; err != nil {
		c.t.Errorf("Serve: %v", err)
	}
	for line := range c.lines {
		rest = append(rest, line)
	}
	return rest
}

func (c *client) warned() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.warnings, "\n")
}

// rpc is a message as a handler of these tests reads it.
type rpc struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params struct {
		Name string `json:"name"`
	} `json:"params"`
}

// answers is a handler that answers requests with the result of a function. Notifications get 202.
func answers(result func(r *http.Request, m rpc) string) stdio.Do {
	return stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m rpc
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		text := result(r, m)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text)
	}))
}

func echo(_ *http.Request, m rpc) string { return fmt.Sprintf("%q", m.Method) }

func request(id int, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)
}

// TestLines: what is no message is answered as such, and the next line is read.
func TestLines(t *testing.T) {
	const parseError = `{"jsonrpc":"2.0","error":{"code":-32700,`
	for _, tc := range []struct{ name, in, want string }{
		{"a request", request(1, "ping") + "\n", `{"jsonrpc":"2.0","id":1,"result":"ping"}`},
		{"CR LF", request(1, "ping") + "\r\n", `"result":"ping"`},
		{"a byte order mark", "\ufeff" + request(1, "ping") + "\n", `"result":"ping"`},
		{"without a line end", request(1, "ping"), `"result":"ping"`},
		{"half a line", `{"jsonrpc":"2.0","id":1,"meth`, parseError},
		{"no JSON", "hello\n", parseError},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n", parseError},
		{"two messages", request(1, "a") + request(2, "b") + "\n", parseError},
		{"blank", "\n \t\r\n\r\n", ""},
		{"nothing", "", ""},
		{"a notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n", ""},
		{"a response", `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n", ""},
		{"just as long", strings.Repeat(" ", 1000-len(request(1, "ping"))) + request(1, "ping") + "\r\n", `"result":"ping"`},
		{"too long", strings.Repeat(" ", 1001-len(request(1, "ping"))) + request(1, "ping") + "\r\n", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"The message is larger than 1000 bytes (max_request_size)`},
		{"too long, without an end", strings.Repeat("x", 100_000), `"code":-32600`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := start(t, answers(echo), stdio.Options{MaxMessage: 1000, LimitName: "max_request_size"}).reads()
				if _, err := io.WriteString(c.in, tc.in); err != nil {
					t.Error(err)
				}
				if tc.want != "" {
					go func() { _ = c.in.Close() }()
					if line := c.read(); !strings.Contains(line, tc.want) {
						t.Errorf("%s, want %s", line, tc.want)
					}
				}
				if rest := c.end(); len(rest) > 0 {
					t.Errorf("further lines: %q", rest)
				}
			})
		})
	}
	t.Run("then the next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := start(t, answers(echo), stdio.Options{MaxMessage: 100}).reads()
			c.send("{", strings.Repeat("x", 200_000), request(1, "ping"))
			lines := append([]string{c.read(), c.read(), c.read()}, c.end()...)
			slices.Sort(lines)
			if len(lines) != 3 || !strings.Contains(lines[0], "-32600") || !strings.Contains(lines[1], "-32700") || !strings.Contains(lines[2], `"ping"`) {
				t.Errorf("%q", lines)
			}
		})
	})
}

// endless is a line of many bytes.
type endless struct{ rest int }

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.rest)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.rest -= n
	return n, nil
}

// TestLongLine: a line of 100 MB takes no memory.
func TestLongLine(t *testing.T) {
	var out strings.Builder
	in := io.MultiReader(&endless{100 << 20}, strings.NewReader("\n"+request(1, "ping")+"\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := stdio.Serve(t.Context(), in, &out, answers(echo), stdio.Options{URL: "http://localhost/"}); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, `"code":-32600`) || !strings.Contains(text, `"result":"ping"`) {
		t.Errorf("%q", text)
	}
}

// TestSameTime: 64 requests are with the server at the same time, others wait, and answers are in the order of their ends.
func TestSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var arrived int
		gates := map[string]chan struct{}{}
		c := start(t, answers(func(_ *http.Request, m rpc) string {
			gate := make(chan struct{})
			mu.Lock()
			arrived++
			gates[string(m.ID)] = gate
			mu.Unlock()
			<-gate
			return "1"
		}), stdio.Options{}).reads()
		sent := make(chan int, 100)
		go func() {
			for i := range 70 {
				c.send(request(i, "tools/call"))
				sent <- i
			}
		}()
		synctest.Wait()
		mu.Lock()
		if arrived != 64 || len(sent) != 70 {
			t.Errorf("%d requests arrived and %d were read", arrived, len(sent))
		}
		mu.Unlock()
		for id := range 70 {
			id = 69 - id
			if id > 63 {
				continue
			}
			close(gates[fmt.Sprint(id)])
			if line := c.read(); !strings.Contains(line, fmt.Sprintf(`"id":%d,`, id)) {
				t.Errorf("%s, want the answer to %d", line, id)
			}
			synctest.Wait()
		}
		mu.Lock()
		if arrived != 70 {
			t.Errorf("%d requests arrived", arrived)
		}
		for id := 64; id < 70; id++ {
			close(gates[fmt.Sprint(id)])
		}
		mu.Unlock()
		if rest := c.end(); len(rest) != 6 {
			t.Errorf("%q", rest)
		}
	})
}

// TestCancel: notifications/cancelled ends the request with that id, whose answer is not written.
func TestCancel(t *testing.T) {
	for _, tc := range []struct {
		name, id, cancel string
		ends             bool
	}{
		{"a number", `7`, `7`, true},
		{"a text", `"a"`, `"a"`, true},
		{"a text, escaped", `"a"`, `"\u0061"`, true},
		{"another type", `"7"`, `7`, false},
		{"another id", `7`, `8`, false},
		{"no id", `7`, `null`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := false
				c := start(t, answers(func(r *http.Request, _ rpc) string {
					select {
					case <-r.Context().Done():
						left = true
					case <-time.After(time.Minute):
					}
					return "1"
				}), stdio.Options{}).reads()
				c.send(`{"jsonrpc":"2.0","id":` + tc.id + `,"method":"tools/call"}`)
				synctest.Wait()
				c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + tc.cancel + `,"reason":"r"}}`)
				time.Sleep(2 * time.Minute)
				rest := c.end()
				synctest.Wait()
				if left != tc.ends || len(rest) == 1 != !tc.ends {
					t.Errorf("left: %v, answers: %q", left, rest)
				}
			})
		})
	}
}

// TestFull: while 64 calls last, pings, notifications and cancellations are served, and the end of the input is seen. Calls that
// were cancelled while they waited never reach the server.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var arrived, left, notified atomic.Int32
		c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m rpc
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &m)
			switch m.Method {
			case "tools/call":
				arrived.Add(1)
				<-r.Context().Done()
				left.Add(1)
			case "ping":
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			default:
				notified.Add(1)
				w.WriteHeader(http.StatusAccepted)
			}
		})), stdio.Options{}).reads()
		for i := range 100 {
			c.send(request(i, "tools/call"))
		}
		for i := 90; i < 100; i++ {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, request(100, "ping"), "hello")
		if lines := c.read() + c.read(); !strings.Contains(lines, `"id":100,"result"`) || !strings.Contains(lines, "-32700") {
			t.Error(lines)
		}
		synctest.Wait()
		if arrived.Load() != 64 || notified.Load() != 1 || left.Load() != 0 {
			t.Errorf("%d calls and %d notifications arrived, %d were left", arrived.Load(), notified.Load(), left.Load())
		}
		for i := range 64 { // those that wait take the places
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i))
		}
		synctest.Wait()
		if arrived.Load() != 90 || left.Load() != 64 {
			t.Errorf("%d calls arrived, %d were left", arrived.Load(), left.Load())
		}
		for i := 200; i < 300; i++ {
			c.send(request(i, "tools/call"))
		}
		synctest.Wait()
		ending := time.Now()
		if rest := c.end(); len(rest) > 0 || time.Since(ending) != 2*time.Second {
			t.Errorf("%q after %v", rest, time.Since(ending))
		}
		synctest.Wait()
		if arrived.Load() != 128 { // 26 of the first and 38 of the second lot had places at the end
			t.Errorf("%d calls arrived", arrived.Load())
		}
	})
}

// TestRefused: requests beyond what may wait are answered with an error, and not executed. If the client does not read either, they
// are left out, but its input is still read.
func TestRefused(t *testing.T) {
	large := func(id, size int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":"%s"}`, id, strings.Repeat("x", size))
	}
	begin := func(t *testing.T) (*client, *atomic.Int32) {
		t.Helper()
		var arrived atomic.Int32
		return start(t, answers(func(r *http.Request, _ rpc) string {
			arrived.Add(1)
			<-r.Context().Done()
			return "1"
		}), stdio.Options{}), &arrived
	}
	t.Run("answered", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, arrived := begin(t)
			c.reads()
			for i := range 64 {
				c.send(request(i, "tools/call"))
			}
			for i := 100; i < 140; i++ {
				c.send(large(i, 1000<<10))
			}
			synctest.Wait()
			lines := c.end()
			if len(lines) != 8 || arrived.Load() != 64 {
				t.Errorf("%d refusals, %d calls arrived", len(lines), arrived.Load())
			}
			for _, line := range lines {
				if !strings.Contains(line, `"error":{"code":-32603,`) || !strings.Contains(line, "was not executed") || !strings.Contains(line, `"id":1`) {
					t.Errorf("%.200s", line)
				}
			}
		})
	})
	t.Run("left out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, arrived := begin(t)
			for i := range 64 {
				c.send(request(i, "tools/call"))
			}
			for i := 64; i < 100; i++ {
				c.send(large(i, 900<<10))
			}
			for i := 100; i < 6000; i++ {
				c.send(large(i, 1<<10))
			}
			ending := time.Now()
			_ = c.in.Close()
			if err := <-c.ended; err != nil || time.Since(ending) != 2*time.Second || arrived.Load() != 64 {
				t.Errorf("%v after %v, %d calls arrived", err, time.Since(ending), arrived.Load())
			}
			if warned := c.warned(); strings.Count(warned, "left out") != 1 {
				t.Error(warned)
			}
		})
	})
}

// TestCancelledStream: after a cancellation, no event is written either.
func TestCancelledStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.Copy(io.Discard, r.Body)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		})), stdio.Options{}).reads()
		c.send(request(1, "tools/call"))
		c.read()
		c.read()
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		synctest.Wait()
		time.Sleep(time.Minute)
		if rest := c.end(); len(rest) > 0 {
			t.Errorf("%q", rest)
		}
	})
}

// TestEnd: what is with the server has 2 s after the end of the input, or of the context.
func TestEnd(t *testing.T) {
	for _, tc := range []struct {
		name   string
		method string
		lasts  time.Duration
		want   int
		after  time.Duration
	}{
		{"nothing", "", 0, 0, 0},
		{"a short call", "tools/call", time.Second, 1, time.Second},
		{"a long call", "tools/call", time.Hour, 0, 2 * time.Second},
		{"a subscription", "subscriptions/listen", time.Hour, 0, 0},
	} {
		for _, end := range []string{"input", "context"} {
			t.Run(tc.name+", "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := start(t, answers(func(r *http.Request, _ rpc) string {
						select {
						case <-r.Context().Done():
						case <-time.After(tc.lasts):
						}
						return "1"
					}), stdio.Options{}).reads()
					if tc.method != "" {
						c.send(request(1, tc.method))
					}
					synctest.Wait()
					ending := time.Now()
					if end == "context" {
						c.stop()
						if err := <-c.ended; err != nil {
							t.Error(err)
						}
						c.ended <- nil
					}
					rest := c.end()
					if after := time.Since(ending); len(rest) != tc.want || after != tc.after {
						t.Errorf("%d answers, after %v", len(rest), after)
					}
				})
			})
		}
	}
}

// TestClosedOutput: Serve ends without an error if the client has closed the output.
func TestClosedOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, answers(echo), stdio.Options{})
		_ = c.out.Close()
		c.send(request(1, "ping"))
		if err := <-c.ended; err != nil {
			t.Error(err)
		}
	})
}

// TestUnreadOutput: a client that does not read stops the server, but does not keep it from ending.
func TestUnreadOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, answers(echo), stdio.Options{})
		go func() {
			for i := range 200 {
				if _, err := io.WriteString(c.in, request(i, "ping")+"\n"); err != nil {
					return
				}
			}
		}()
		time.Sleep(time.Hour)
		stopping := time.Now()
		c.stop()
		if err := <-c.ended; err != nil || time.Since(stopping) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(stopping))
		}
	})
}

// counted counts the bytes of answers that were read.
type counted struct {
	io.ReadCloser
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// TestUnreadAnswers: of large answers that a client does not read, only four are in memory, as whole bodies and as events.
func TestUnreadAnswers(t *testing.T) {
	for _, mediaType := range []string{"application/json", "text/event-stream"} {
		t.Run(mediaType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size = 512 << 10
				var read atomic.Int64
				handler := stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var m rpc
					body, _ := io.ReadAll(r.Body)
					_ = json.Unmarshal(body, &m)
					w.Header().Set("Content-Type", mediaType)
					if mediaType == "text/event-stream" {
						_, _ = io.WriteString(w, ": comments do not count\n\ndata: ")
					}
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"`, m.ID)
					_, _ = io.Copy(w, &endless{size})
					_, _ = io.WriteString(w, "\"}\n\n")
				}))
				c := start(t, func(r *http.Request) (*http.Response, error) {
					resp, err := handler(r)
					if err == nil {
						resp.Body = counted{resp.Body, &read}
					}
					return resp, err
				}, stdio.Options{})
				for i := range 40 {
					c.send(request(i, "tools/call"))
				}
				synctest.Wait()
				if most := int64(5*size + 40*150<<10); read.Load() > most {
					t.Errorf("%d bytes were read, want at most %d", read.Load(), most)
				}
				c.reads()
				for range 40 {
					if line := c.read(); len(line) < size {
						t.Fatalf("%.200s", line)
					}
				}
				if rest := c.end(); len(rest) > 0 {
					t.Errorf("%d further lines", len(rest))
				}
			})
		})
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestErrors(t *testing.T) {
	full := errors.New("disk full")
	for _, tc := range []struct{ err, want error }{{full, full}, {&os.PathError{Op: "write", Err: syscall.EPIPE}, nil}} {
		in, writer := io.Pipe()
		go func() { _, _ = io.WriteString(writer, request(1, "ping")+"\n") }()
		err := stdio.Serve(t.Context(), in, failing{tc.err}, answers(echo), stdio.Options{URL: "http://localhost/"})
		if !errors.Is(err, tc.want) {
			t.Errorf("%v, want %v", err, tc.want)
		}
	}
	broken := errors.New("broken")
	in := io.MultiReader(strings.NewReader(request(1, "ping")+"\n"), &faulty{broken})
	var out strings.Builder
	if err := stdio.Serve(t.Context(), in, &out, answers(echo), stdio.Options{URL: "http://localhost/"}); !errors.Is(err, broken) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%v, %q", err, out.String())
	}
}

// faulty is a reader that fails.
type faulty struct{ err error }

func (f *faulty) Read([]byte) (int, error) { return 0, f.err }

// TestWholeLines: messages that end at the same time are lines, also long ones with line ends in them.
func TestWholeLines(t *testing.T) {
	c := start(t, stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m rpc
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		fmt.Fprintf(w, "{\n\t\"jsonrpc\": \"2.0\",\r\n\t\"id\": %s,\r\"result\": [%s 1]\n}\n", m.ID, strings.Repeat("\"\\n\u2028\",\n", 20_000))
	})), stdio.Options{}).reads()
	go func() {
		for i := range 200 {
			c.send(request(i, "tools/call"))
		}
	}()
	seen := map[string]bool{}
	for range 200 {
		var m rpc
		if err := json.Unmarshal([]byte(c.read()), &m); err != nil {
			t.Fatal(err)
		}
		seen[string(m.ID)] = true
	}
	if rest := c.end(); len(seen) != 200 || len(rest) > 0 {
		t.Errorf("%d answers", len(seen))
	}
}
