package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R50: all calls of a batch start at once, however long the others take, so that
// each has as much time as if it had come alone; notifications do, too. The answers
// stand in the order of the calls.
func TestR50BatchStartsAtOnce(t *testing.T) {
	testbed.CheckLeaks(t)
	const calls, notifications = 30, 20
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, withProvider(p))
	elements := make([]string, 0, calls+notifications)
	for i := range calls + notifications {
		id := ""
		if i%5 < 3 {
			id = fmt.Sprintf(`"id":%d,`, i)
		}
		elements = append(elements, fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":"execute_skill","params":{"name":"acme.slow","args":{"call":%q}}}`, id, testbed.NewCall()))
	}
	answer := begin(func() testbed.Answer { return c.Post("[" + strings.Join(elements, ",") + "]") })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == calls+notifications }, "all calls are in progress")
	gate.Open()
	a := receive(t, answer)
	outcomes, last := batchOf(t, a), -1
	for i := range calls + notifications {
		id := fmt.Sprint(i)
		if i%5 >= 3 {
			if outcomes[id] != "" {
				t.Errorf("notification %d is answered", i)
			}
			continue
		}
		at := strings.Index(string(a.Body), `"id":`+id+`,`)
		if outcomes[id] != "completed" || at < last {
			t.Errorf("%d: %q, at %d of the answer; the one before is at %d", i, outcomes[id], at, last)
		}
		last = at
	}
	checkDuplicates(t, p)
}

// R50: the clocks of the calls of a batch run at the same time: none is executed
// at the provider and answered as if there had been no time for it.
func TestR50EachHasItsTime(t *testing.T) {
	testbed.CheckLeaks(t)
	const calls = 30
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, func(x *hostile.Exchange) {
		if hostile.Every(600 * time.Millisecond)(x.Gone()) {
			hostile.Usual()(x)
		}
	})
	c := testbed.StartCaddy(t, withProvider(p, "timeout 2s")) // three of these runs, not four, one after the other
	for id, outcome := range batchOf(t, c.Post(testbed.Batch(calls, "acme.slow"))) {
		if outcome != "completed" {
			t.Errorf("%s: %s", id, outcome)
		}
	}
}

// R52: a connection is used again after a request in chunks that was read whole. Where a proxy is in front, which may have gone
// by a Content-Length that package net/http does not show, it is not.
func TestR52ChunkedRequests(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for _, test := range []struct {
		name   string
		header string
		again  bool
	}{
		{"chunked", "", true},
		{"through a proxy", "Via", false},
		{"through another proxy", "X-Forwarded-For", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var reused []bool
			for range 2 {
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) { reused = append(reused, g.Reused) }})
				body := `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo"}}`
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, struct{ *strings.Reader }{strings.NewReader(body)})
				if err != nil {
					t.Fatal(err)
				}
				r.ContentLength = -1
				r.Header.Set("Content-Type", "application/json")
				if test.header != "" {
					r.Header.Set(test.header, "1.1 192.0.2.1")
				}
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				read(t, response)
				if response.StatusCode != http.StatusOK || response.Close == test.again {
					t.Errorf("HTTP %d, close: %t", response.StatusCode, response.Close)
				}
			}
			if reused[1] != test.again {
				t.Errorf("the connection is used again: %t", reused[1])
			}
		})
	}
}

// R57: what is wrong with a request as a whole is refused with an error that names
// the option that says so, and what it says.
func TestR57RequestLimitsAreNamed(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p, "max_request_size 2KiB", "max_batch 3"))
	for _, test := range []struct {
		name, body   string
		status, code int
		message      string
		limit        string
		most         int
	}{
		{"depth", strings.Repeat("[", 513) + strings.Repeat("]", 513), 400, -32700, "nested deeper than 512 levels", "depth", 512},
		{"body", strings.Repeat(" ", 2049), 413, -32600, "max_request_size: 2048", "max_request_size", 2048},
		{"batch", "[1,2,3,4]", 200, -32600, "max_batch: 3", "max_batch", 3},
	} {
		a := c.Post(test.body)
		details := fmt.Sprintf(`{"limit":%q,"max":%d}`, test.limit, test.most)
		if a.Status != test.status || a.Code != test.code || !strings.Contains(a.Message, test.message) || string(a.Data.Details) != details ||
			a.Data.Executed != "no" || a.Data.Next != "fix_params" {
			t.Errorf("%s: want %q and %s: %s", test.name, test.message, details, a)
		}
	}
}

// read reads an answer to its end, so that its connection can be used again.
func read(t *testing.T, response *http.Response) {
	t.Helper()
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
}
