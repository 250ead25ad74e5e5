package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// withProvider is a Caddyfile with a bridge to one provider, of the namespace
// acme, and with further lines.
func withProvider(p *hostile.Provider, lines ...string) string {
	return testbed.Bridge(append([]string{"provider " + p.URL() + " {", "\tnamespace acme", "}", polling}, lines...)...)
}

// withoutKeepAlive is the part of a Caddyfile that has each request make a
// connection of its own, so that none is sent on one that is being closed.
const withoutKeepAlive = "transport http {\n\tkeepalive off\n}"

// want is what came of a call. Fields that are empty may be anything.
type want struct {
	outcome, phase, executed, next, source string
}

// check fails the test if an answer is another one.
func (w want) check(t *testing.T, a testbed.Answer) {
	t.Helper()
	said := want{a.Outcome(), a.Data.Phase, a.Data.Executed, a.Data.Next, a.Data.Source}
	if e := a.Run().Error; e.Type != "" {
		said.executed, said.next, said.source = e.Executed, e.Next, e.Source
	}
	for _, field := range []struct{ name, got, want string }{
		{"outcome", said.outcome, w.outcome},
		{"phase", said.phase, w.phase},
		{"executed", said.executed, w.executed},
		{"next", said.next, w.next},
		{"source", said.source, w.source},
	} {
		if field.want != "" && field.got != field.want {
			t.Errorf("%s is %q, not %q: %s", field.name, field.got, field.want, a)
		}
	}
}

// consent lets the bridge repeat invocations of a skill (Skill Sharing Protocol,
// section 3.5.3).
func consent(attempts, backoffMS int) func(hostile.Object) {
	return endpoint("retry", hostile.Object{"max_attempts": attempts, "backoff_ms": backoffMS})
}

// endpoint sets a member of a descriptor's endpoint.
func endpoint(member string, value any) func(hostile.Object) {
	return func(descriptor hostile.Object) { descriptor["endpoint"].(hostile.Object)[member] = value }
}

// callLine is what the log says of a call.
type callLine struct {
	Message     string `json:"msg"`
	Attempts    int    `json:"attempts"`
	Polls       int    `json:"polls"`
	ExecutionID string `json:"execution_id"`
	Executed    string `json:"executed"`
	Phase       string `json:"phase"`
	Cause       string `json:"cause"`
}

// traced returns a client whose calls belong to one trace, and what waits for the
// log line of the call that it makes.
func traced(t *testing.T, client *testbed.Client, log *testbed.Log) (own *testbed.Client, line func() callLine) {
	t.Helper()
	trace := fmt.Sprintf("%032x", time.Now().UnixNano())
	own = client.With(testbed.Header("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01"))
	return own, func() callLine {
		t.Helper()
		var lines []string
		testbed.Eventually(t, patience, func() bool {
			lines = log.Lines(`"msg":"call `, trace)
			return len(lines) > 0
		}, "the log has a line about the call")
		var l callLine
		if err := json.Unmarshal([]byte(lines[0]), &l); err != nil {
			t.Fatal(err)
		}
		return l
	}
}

// calling makes a call that the test does not wait for yet.
func calling(client *testbed.Client, name string, args hostile.Object) <-chan testbed.Answer {
	return begin(func() testbed.Answer { return client.Execute(name, args) })
}

// checkOnce fails the test if a call arrived at its provider more or less than once.
func checkOnce(t *testing.T, p *hostile.Provider, a testbed.Answer) {
	t.Helper()
	if n := p.Posts(a.Call); n != 1 {
		t.Errorf("%d invocations of one call: %s", n, a)
	}
}

// checkDuplicates fails the test if a call was executed more than once.
func checkDuplicates(t *testing.T, p *hostile.Provider) {
	t.Helper()
	if d := p.Duplicates(); len(d) > 0 {
		t.Errorf("executed more than once: %v", d)
	}
}

// checkNoPanic fails the test if the bridge has logged a panic.
func checkNoPanic(t *testing.T, log *testbed.Log) {
	t.Helper()
	if lines := log.Lines("panic"); len(lines) > 0 {
		t.Error(strings.Join(lines, ""))
	}
}
