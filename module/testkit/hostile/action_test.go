package hostile_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const soon = 20 * time.Second // bounds waits on a loaded machine

// got is an answer as net/http returns it.
type got struct {
	status int
	header http.Header
	body   string
	err    error // of the request, or of reading the body
}

// newClient returns an HTTP client with its own connections.
func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func invoke(ctx context.Context, client *http.Client, url, call string) got {
	body := `{"skill_id":"acme/echo","inputs":{"call":"` + call + `"}}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return got{err: err}
	}
	r.GetBody = nil // so that net/http does not repeat the request
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return got{err: err}
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusSwitchingProtocols {
		return got{status: response.StatusCode} // the body is the connection, and the end of a context does not close it
	}
	read, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	return got{response.StatusCode, response.Header, string(read), err}
}

func newEcho(t *testing.T) *hostile.Provider {
	t.Helper()
	return hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
}

func TestActions(t *testing.T) {
	has := func(texts ...string) func(got) bool {
		return func(g got) bool {
			for _, text := range texts {
				if !strings.Contains(g.body, text) {
					return false
				}
			}
			return g.err == nil && g.status == http.StatusOK
		}
	}
	is := func(target error) func(got) bool { return func(g got) bool { return errors.Is(g.err, target) } }
	says := func(text string) func(got) bool {
		return func(g got) bool { return g.err != nil && strings.Contains(g.err.Error(), text) }
	}
	for name, tc := range map[string]struct {
		action hostile.Action
		want   func(got) bool
	}{
		"usual":        {hostile.Usual(), has(`"call":"c1"`, `"skill":"acme/echo"`, `"completed"`)},
		"complete":     {hostile.Complete(7), has(`"output":7`)},
		"fail":         {hostile.Fail("OOPS", "It broke."), has(`"failed"`, `"code":"OOPS"`)},
		"state":        {hostile.State("perhaps"), has(`"status":"perhaps"`)},
		"lie":          {hostile.CompleteAs("other"), has(`"execution_id":"other"`)},
		"deep":         {hostile.NestedOutput(500), has(strings.Repeat("[", 500) + strings.Repeat("]", 500))},
		"raw output":   {hostile.RawOutput(`{"a":1,"a":2}`), has(`"output":{"a":1,"a":2}`)},
		"dripped body": {hostile.DripBody(hostile.Every(0), http.StatusOK, "abc"), has("abc")},
		"dripped head": {hostile.DripHeaders(hostile.Every(0), http.StatusOK, "abc"), has("abc")},
		"bomb":         {hostile.Bomb(1000), has(strings.Repeat("a", 1000))},
		"then close":   {hostile.ThenClose(hostile.Complete(7)), has(`"output":7`)},
		"two":          {hostile.TwoResponses("poison"), func(g got) bool { return has(`"call":"c1"`)(g) && !strings.Contains(g.body, "poison") }},
		"interim":      {hostile.Interim(2, hostile.Complete(7)), has(`"output":7`)},
		"interim flood": {hostile.Interim(-1, hostile.Complete(7)), func(g got) bool {
			return g.err != nil && strings.Contains(g.err.Error(), "1xx") || says("header")(g)
		}},
		"respond": {hostile.Respond(http.StatusTeapot, "x", "Retry-After", "2", "Content-Type", "text/plain"), func(g got) bool {
			return g.status == http.StatusTeapot && g.body == "x" && g.header.Get("Retry-After") == "2" && g.header.Get("Content-Type") == "text/plain"
		}},
		"problem": {hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", "No."), func(g got) bool {
			return g.status == http.StatusForbidden && strings.Contains(g.body, `{"error":{`)
		}},
		"redirect": {hostile.Redirect(http.StatusTemporaryRedirect, "http://example.com/x"), func(g got) bool {
			return g.status == http.StatusTemporaryRedirect && g.header.Get("Location") == "http://example.com/x"
		}},
		"accept": {hostile.Accept(1), func(g got) bool {
			return g.status == http.StatusAccepted && strings.Contains(g.body, `"execution_id":"run-1"`)
		}},
		"handle": {hostile.Handle(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), func(g got) bool {
			return g.status == http.StatusNoContent
		}},
		"switch":            {hostile.SwitchProtocols(), func(g got) bool { return g.status == http.StatusSwitchingProtocols }},
		"reset":             {hostile.Reset(), is(syscall.ECONNRESET)},
		"close":             {hostile.Close(), is(io.EOF)},
		"reset in the body": {hostile.ResetMidBody(), is(syscall.ECONNRESET)},
		"truncated":         {hostile.Truncate(), func(g got) bool { return g.status == http.StatusOK && errors.Is(g.err, io.ErrUnexpectedEOF) }},
		"truncated chunk":   {hostile.TruncateChunked(), func(g got) bool { return g.status == http.StatusOK && errors.Is(g.err, io.ErrUnexpectedEOF) }},
		"garbage":           {hostile.Garbage(), says("malformed HTTP")},
		"endless body":      {hostile.EndlessBody(), func(g got) bool { return g.err == nil && len(g.body) == 1<<20 }},
		"endless headers":   {hostile.EndlessHeaders(), says("exceeded")},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.CheckLeaks(t)
			p := newEcho(t)
			p.On("acme/echo", hostile.Invoke, tc.action)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			if g := invoke(ctx, newClient(t), p.URLOf("acme/echo", hostile.Invoke), "c1"); !tc.want(g) {
				t.Errorf("%d %v %.200q %v", g.status, g.header, g.body, g.err)
			}
			if p.Posts("c1") != 1 || p.Count("acme/echo", hostile.Invoke) != 1 || p.Connections() != 1 {
				t.Errorf("%d posts, %d requests, %d connections", p.Posts("c1"), p.Count("acme/echo", hostile.Invoke), p.Connections())
			}
		})
	}
}

// each returns a tick for each received value.
func each(ticks <-chan struct{}) hostile.Tick {
	return func(gone <-chan struct{}) bool {
		select {
		case <-ticks:
			return true
		case <-gone:
			return false
		}
	}
}

// TestHangs: an action that hangs ends with the client's connection, and with the test.
func TestHangs(t *testing.T) {
	never := each(nil)
	for name, action := range map[string]hostile.Action{
		"hang":             hostile.Hang(),
		"in the body":      hostile.HangMidBody(),
		"dripping body":    hostile.DripBody(never, http.StatusOK, "abc"),
		"dripping headers": hostile.DripHeaders(never, http.StatusOK, "abc"),
		"raw":              hostile.RawOpen("HTTP/1.1 200 OK\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			testbed.CheckLeaks(t)
			p := newEcho(t)
			p.On("acme/echo", hostile.Invoke, action)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			client := newClient(t)
			done := make(chan got, 2)
			go func() { done <- invoke(ctx, client, p.URLOf("acme/echo", hostile.Invoke), "c1") }()
			testbed.Eventually(t, soon, func() bool { return p.Hanging() == 1 }, "the request hangs")
			cancel()
			if g := <-done; !errors.Is(g.err, context.Canceled) {
				t.Errorf("%+v", g)
			}
			testbed.Eventually(t, soon, func() bool { return p.Hanging() == 0 }, "it ends when the client goes")
			go func() { done <- invoke(context.Background(), client, p.URLOf("acme/echo", hostile.Invoke), "c2") }()
			testbed.Eventually(t, soon, func() bool { return p.Hanging() == 1 }, "another request hangs")
			t.Cleanup(func() { // cleanups run in reverse order, so this one runs after the provider's
				p.Disconnect()
				<-done
			})
		})
	}
}

func TestProviderEndsHangs(t *testing.T) {
	testbed.CheckLeaks(t)
	done := make(chan got, 1)
	t.Run("hanging", func(t *testing.T) {
		p := newEcho(t)
		p.On("acme/echo", hostile.Invoke, hostile.Hang())
		client := new(http.Client)
		go func() { done <- invoke(context.Background(), client, p.URLOf("acme/echo", hostile.Invoke), "c1") }()
		testbed.Eventually(t, soon, func() bool { return p.Hanging() == 1 }, "the request hangs")
	})
	if g := <-done; g.err == nil && g.status != http.StatusOK {
		t.Errorf("%+v", g)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestGate(t *testing.T) {
	p := newEcho(t)
	gate := hostile.NewGate(t)
	p.On("acme/echo", hostile.Invoke, gate.Then(hostile.Complete(7)))
	done := make(chan got)
	go func() { done <- invoke(t.Context(), newClient(t), p.URLOf("acme/echo", hostile.Invoke), "c1") }()
	testbed.Eventually(t, soon, func() bool { return gate.Waiting() == 1 }, "the request waits")
	gate.Open()
	if g := <-done; !strings.Contains(g.body, `"output":7`) || gate.Waiting() != 0 {
		t.Errorf("%+v", g)
	}
}

func TestDripIsDriven(t *testing.T) {
	p := newEcho(t)
	ticks := make(chan struct{})
	p.On("acme/echo", hostile.Invoke, hostile.DripBody(each(ticks), http.StatusOK, "abc"))
	response, err := newClient(t).Post(p.URLOf("acme/echo", hostile.Invoke), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	one := make([]byte, 1)
	for _, want := range "abc" {
		ticks <- struct{}{}
		if _, err := io.ReadFull(response.Body, one); err != nil || rune(one[0]) != want {
			t.Fatalf("%q, %v", one, err)
		}
	}
}

// TestBombIsSmall: the provider does not allocate the expanded size of a bomb.
func TestBombIsSmall(t *testing.T) {
	const size = 100 << 20
	p := newEcho(t)
	p.On("acme/echo", hostile.Invoke, hostile.Bomb(size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	client := newClient(t)
	response, err := client.Post(p.URLOf("acme/echo", hostile.Invoke), "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	runtime.ReadMemStats(&after)
	if err != nil || n < size || after.TotalAlloc-before.TotalAlloc > 10<<20 {
		t.Errorf("%d bytes, %v, %d allocated", n, err, after.TotalAlloc-before.TotalAlloc)
	}
	r := p.Requests("acme/echo", hostile.Invoke)[0]
	if sent := r.Sent(); sent < 1000 || sent > size/500 {
		t.Errorf("%d bytes were sent", sent)
	}
}

func TestThenCloseIsSeen(t *testing.T) {
	p := newEcho(t)
	p.On("acme/echo", hostile.Invoke, hostile.ThenClose(hostile.Complete(7)))
	c, err := net.Dial("tcp", strings.TrimPrefix(p.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /run/acme%2Fecho HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		t.Fatal(err)
	}
	buffered := bufio.NewReader(c)
	response, err := http.ReadResponse(buffered, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || response.Close || !strings.Contains(string(body), `"output":7`) {
		t.Errorf("%s, %v, close announced: %t", body, err, response.Close)
	}
	if _, err := buffered.ReadByte(); err != io.EOF {
		t.Errorf("%v, want a FIN", err)
	}
}

func TestSequences(t *testing.T) {
	p := newEcho(t)
	client := newClient(t)
	statuses := func(n int) (seen []int) {
		for range n {
			seen = append(seen, invoke(t.Context(), client, p.URLOf("acme/echo", hostile.Invoke), "c1").status)
		}
		return seen
	}
	p.On("acme/echo", hostile.Invoke, hostile.Respond(500, ""), hostile.Respond(429, ""), hostile.Usual())
	if s := statuses(4); s[0] != 500 || s[1] != 429 || s[2] != 200 || s[3] != 200 {
		t.Errorf("%v", s)
	}
	if p.Posts("c1") != 4 || p.Executions("c1") != 3 || p.Duplicates()["c1"] != 3 {
		t.Errorf("%d posts, %d executions, duplicates %v", p.Posts("c1"), p.Executions("c1"), p.Duplicates())
	}
	if p.Forget("c1") != 3 || p.Posts("c1") != 0 || len(p.Duplicates()) != 0 {
		t.Error("not forgotten")
	}
	p.Script("acme/echo", hostile.Invoke, func(n int) hostile.Action { return hostile.Respond(200+n, "") })
	if s := statuses(2); s[0] != 201 || s[1] != 202 {
		t.Errorf("%v", s)
	}
	p.On("acme/echo", hostile.Invoke)
	if s := statuses(1); s[0] != 200 {
		t.Errorf("%v", s)
	}
	if p.Count("acme/echo", hostile.Invoke) != 7 {
		t.Errorf("%d requests", p.Count("acme/echo", hostile.Invoke))
	}
}

func TestRecords(t *testing.T) {
	p := newEcho(t)
	client := newClient(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URLOf("acme/echo", hostile.Invoke)+"?q=se%63ret1", strings.NewReader(`{"x":"secret2"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("secret3", "pass word")
	r.Header.Set("X-Key", "secret4")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	seen := p.Requests("acme/echo", hostile.Invoke)
	if len(seen) != 1 || seen[0].Method != http.MethodPost || seen[0].Header.Get("X-Key") != "secret4" || seen[0].Body != `{"x":"secret2"}` ||
		seen[0].Status() != http.StatusOK || time.Since(seen[0].At) > time.Hour {
		t.Errorf("%+v", seen)
	}
	testbed.Eventually(t, soon, func() bool { return seen[0].Sent() > 100 }, "what was sent is counted")
	for _, text := range []string{"secret1", "secret2", "secret3", "secret4", "pass word", url.QueryEscape("acme/echo"), base64.StdEncoding.EncodeToString([]byte("secret3"))[:8]} {
		if len(p.Received(text)) != 1 {
			t.Errorf("%s was not found", text)
		}
	}
	if len(p.Received("secret5")) != 0 {
		t.Error("found what was not sent")
	}
	if c := p.Captured(); len(c) != 1 || !strings.HasPrefix(c[0], "POST /run/acme%2Fecho?q=se%63ret1 HTTP/1.1\r\n") || strings.Count(c[0], "HTTP/1.1") != 1 {
		t.Errorf("%q", c)
	}
	p.Lean()
	invoke(t.Context(), client, p.URLOf("acme/echo", hostile.Invoke), "c1")
	if len(p.All()) != 0 || len(p.Captured()) != 0 || p.Executions("c1") != 1 {
		t.Errorf("%d requests, %d connections, %d executions", len(p.All()), len(p.Captured()), p.Executions("c1"))
	}
}

func TestMustNotReceive(t *testing.T) {
	f := &testbed.Recorder{TB: t}
	p := hostile.NewProvider(f, hostile.Skill{ID: "acme/echo"})
	p.MustNotReceive("s3cret", "another")
	client := newClient(t)
	invoke(t.Context(), client, p.URLOf("acme/echo", hostile.Invoke), "harmless")
	if len(f.Failures) != 0 {
		t.Errorf("%v", f.Failures)
	}
	invoke(t.Context(), client, p.URLOf("acme/echo", hostile.Invoke), "s3cret")
	if len(f.Failures) != 1 {
		t.Errorf("%v", f.Failures)
	}
	p.MustNotReceive("harmless")
	if len(f.Failures) != 2 {
		t.Errorf("%v", f.Failures)
	}
}

func TestDownAndUp(t *testing.T) {
	testbed.CheckLeaks(t)
	p := newEcho(t)
	address := p.URLOf("acme/echo", hostile.Invoke)
	client := newClient(t)
	if g := invoke(t.Context(), client, address, "c1"); g.err != nil {
		t.Error(g.err)
	}
	p.Down()
	if g := invoke(t.Context(), client, address, "c1"); g.err != nil || p.Open() != 1 {
		t.Errorf("the connection should have stayed: %v", g.err)
	}
	p.Disconnect()
	testbed.Eventually(t, soon, func() bool { return p.Open() == 0 }, "the connection is closed")
	client.CloseIdleConnections()
	if g := invoke(t.Context(), client, address, "c1"); !errors.Is(g.err, syscall.ECONNREFUSED) {
		t.Errorf("%+v", g)
	}
	p.Up()
	if g := invoke(t.Context(), client, address, "c1"); g.err != nil {
		t.Error(g.err)
	}
	p.OnConnection(func(n int, _ net.Conn) bool { return n != 3 })
	p.Disconnect()
	client.CloseIdleConnections()
	if g := invoke(t.Context(), client, address, "c2"); g.err == nil {
		t.Error("the connection was served")
	}
	if g := invoke(t.Context(), client, address, "c2"); g.err != nil || p.Posts("c2") != 1 {
		t.Errorf("%+v", g)
	}
}

// TestEndlessStopsEarly: the number of sent bytes is close to the number of bytes that were read.
func TestEndlessStopsEarly(t *testing.T) {
	for name, action := range map[string]hostile.Action{"body": hostile.EndlessBody(), "headers": hostile.EndlessHeaders()} {
		t.Run(name, func(t *testing.T) {
			p := newEcho(t)
			p.On("acme/echo", hostile.Invoke, action)
			client := newClient(t)
			client.Transport.(*http.Transport).MaxResponseHeaderBytes = 1 << 20
			invoke(t.Context(), client, p.URLOf("acme/echo", hostile.Invoke), "c1") // reads 1 MiB
			testbed.Eventually(t, soon, func() bool { return p.Open() == 0 }, "the provider stops")
			if sent := p.Requests("acme/echo", hostile.Invoke)[0].Sent(); sent < 1<<20 || sent > 4<<20 {
				t.Errorf("%d bytes were sent", sent)
			} else {
				t.Logf("%d bytes were sent", sent)
			}
		})
	}
}
