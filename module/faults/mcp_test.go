package faults_test

import (
	"context"
	"encoding/json" // requests are maps
	"fmt"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// withTools is a Caddyfile with MCP for a provider. The principal is what the header field User says.
func withTools(p *hostile.Provider, lines ...string) string {
	return testbed.Site("skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous", "\tprincipal {http.request.header.User}",
		"\tprovider "+p.URL()+" {", "\t\tnamespace acme", "\t}", "\t"+polling, "\tname tools", "\trpc", "\tmcp {\n\t\t"+strings.Join(lines, "\n\t\t")+"\n\t}", "}")
}

// toolClient returns a client of MCP 2026-07-28 for one method.
func toolClient(c *testbed.Client, user, method, name string) *testbed.Client {
	client := c.With(testbed.Fresh(), testbed.Header("User", user), testbed.Header("MCP-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", method),
		testbed.Header("Content-Type", "application/json"))
	if name != "" {
		client = client.With(testbed.Header("Mcp-Name", name))
	}
	client.URL = strings.TrimSuffix(c.URL, "/rpc") + "/mcp"
	return client
}

// toolParams are params with what each request of 2026-07-28 says, of a client that takes tasks.
func toolParams(more hostile.Object) hostile.Object {
	params := hostile.Object{"_meta": hostile.Object{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": hostile.Object{"extensions": hostile.Object{"io.modelcontextprotocol/tasks": hostile.Object{}}},
	}}
	maps.Copy(params, more)
	return params
}

// askTools sends a request and returns the text of its answer.
func askTools(t *testing.T, c *testbed.Client, user, method, name string, more hostile.Object) string {
	t.Helper()
	body, err := json.Marshal(hostile.Object{"jsonrpc": "2.0", "id": 1, "method": method, "params": toolParams(more)})
	if err != nil {
		t.Fatal(err)
	}
	a := toolClient(c, user, method, name).Post(string(body))
	if a.Err != nil {
		t.Fatal(a.Err)
	}
	return string(a.Body)
}

// R73: 1,000 subscriptions whose clients read nothing take little memory, do not delay calls, and neither a reload nor a stop waits
// for them; the next one is refused. After the reload there is room again.
func TestR73ListenersThatDoNotRead(t *testing.T) {
	t.Parallel()
	const listeners = 1000
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartProcess(t, testbed.Limits{}, withTools(p))
	notifications := hostile.Object{"notifications": hostile.Object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true}}
	call := func(when string) {
		t.Helper()
		if text := askTools(t, c.Client, "ann", "tools/call", "acme_echo", hostile.Object{"name": "acme_echo", "arguments": hostile.Object{}}); !strings.Contains(text, `"structuredContent"`) {
			t.Errorf("%s: %s", when, text)
		}
	}
	call("before")
	before := c.RSS()
	begin := func(n int) {
		for i := range n {
			s := toolClient(c.Client, fmt.Sprint("user-", i/16), "subscriptions/listen", "").Unread("subscriptions/listen", toolParams(notifications))
			if s.Response.StatusCode != http.StatusOK {
				t.Fatalf("subscription %d: %s", i, s.Response.Status)
			}
		}
	}
	begin(listeners)
	if text := askToolsStream(c.Client, "one-more", notifications); !strings.Contains(text, "Too many subscriptions") {
		t.Errorf("one more: %s", text)
	}
	call("with all of them")
	if grown := c.RSS() - before; grown > 150<<20 && !raced {
		t.Errorf("%d subscriptions take %d MB", listeners, grown>>20)
	}
	if err := c.Reload(withTools(p, "instructions another")); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, patience, func() bool { return c.InProgress() == 0 }, "no request is in progress after the reload")
	call("after the reload")
	begin(100)
	c.Signal(syscall.SIGTERM)
	if code := c.Wait(patience); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// An agent that hangs up has the outcome caller_gone also in calls and streams of MCP. A call whose own timeout has passed has not.
func TestCallerGoneOfTools(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.AdminAPI+withTools(p, "task_after off"))
	params := toolParams(hostile.Object{"name": "acme_slow", "arguments": hostile.Object{}})
	withProgress := toolParams(hostile.Object{"name": "acme_slow", "arguments": hostile.Object{}})
	withProgress["_meta"].(hostile.Object)["progressToken"] = "p"
	tools := toolClient(c.Client, "ann", "tools/call", "acme_slow").With(testbed.Header("Accept", "application/json, text/event-stream"))
	for i, params := range []hostile.Object{params, withProgress} {
		hangUp(t, tools, gate, "tools/call", params)
		testbed.Eventually(t, patience, func() bool {
			return len(c.Log.Lines(`"msg":"call failed"`, `"level":"info"`, `"outcome":"caller_gone"`)) == i+1 && c.InProgress() == 0 && gate.Waiting() == 0
		}, "the call has ended")
	}
	if len(c.Log.Lines(`"outcome":"timed_out"`)) > 0 {
		t.Errorf("timed_out: %s", c.Log.Text())
	}
	c.With(testbed.Timeout(50*time.Millisecond)).Execute("acme.slow", nil)
	testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines(`"outcome":"timed_out"`)) == 1 }, "the timeout of the call is another outcome")
}

// A list whose caller hangs up has the outcome caller_gone, and the source that was being read is not to blame.
func TestCallerGoneOfLists(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	gate := hostile.NewGate(t)
	p.On("", hostile.Index, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.AdminAPI+withProvider(p, "audit"))
	hangUp(t, c.Client, gate, "list_skills", hostile.Object{})
	for _, line := range []string{`"msg":"call failed"`, "skill_bridge.audit"} {
		testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines(line, `"level":"info"`, `"outcome":"caller_gone"`)) == 1 }, line+" has the outcome")
	}
	if lines := c.Log.Lines(`"level":"warn"`, `"source":"acme"`); len(lines) > 0 {
		t.Errorf("warnings about the source: %s", lines)
	}
	if health := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/providers", "").Body); strings.Contains(health, "trouble") {
		t.Errorf("the health of the source: %s", health)
	}
}

// hangUp makes a call and closes its connection when the gate has stopped a request to the provider.
func hangUp(t *testing.T, client *testbed.Client, gate *hostile.Gate, method string, params hostile.Object) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	answered := begin(func() testbed.Answer { return client.With(testbed.Context(ctx)).Call(method, params) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the call waits for its provider")
	cancel()
	receive(t, answered)
}

// askToolsStream asks for a subscription and returns the text of the answer, which has to be a refusal.
func askToolsStream(c *testbed.Client, user string, notifications hostile.Object) string {
	body, _ := json.Marshal(hostile.Object{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": toolParams(notifications)}) // it has only texts
	return string(toolClient(c, user, "subscriptions/listen", "").With(testbed.Header("Accept", "text/event-stream")).Post(string(body)).Body)
}

// R74: tasks of MCP outlive kill -9: the next process follows the runs, and knows those that were canceled.
func TestR74ToolTasksAfterKill(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	p, gate := later(t)
	config, storage := withTools(p, "task_after 0s"), "storage file_system "+t.TempDir()
	c := testbed.StartProcess(t, testbed.Limits{}, config, storage)
	task := func() string {
		t.Helper()
		text := askTools(t, c.Client, "ann", "tools/call", "acme_later", hostile.Object{"name": "acme_later", "arguments": hostile.Object{}})
		_, rest, _ := strings.Cut(text, `"taskId":"`)
		id, _, ok := strings.Cut(rest, `"`)
		if !ok {
			t.Fatalf("no task: %s", text)
		}
		return id
	}
	about := func(method, user, id string) string {
		t.Helper()
		return askTools(t, c.Client, user, method, id, hostile.Object{"taskId": id})
	}
	kept, canceled := task(), task()
	if text := about("tasks/cancel", "ann", canceled); !strings.Contains(text, `"resultType":"complete"`) {
		t.Errorf("tasks/cancel: %s", text)
	}
	c.Signal(syscall.SIGKILL)
	<-c.Exited()
	c = testbed.StartProcess(t, testbed.Limits{}, config, storage)
	if text := about("tasks/get", "ann", kept); !strings.Contains(text, `"status":"working"`) {
		t.Errorf("a task that goes on: %s", text)
	}
	gate.Open()
	testbed.Eventually(t, patience, func() bool { return strings.Contains(about("tasks/get", "ann", kept), `"status":"completed"`) }, "the task completes")
	if text := about("tasks/get", "ann", canceled); !strings.Contains(text, `"status":"cancelled"`) {
		t.Errorf("a canceled task: %s", text)
	}
	if text := about("tasks/get", "bob", kept); !strings.Contains(text, "Task not found") {
		t.Errorf("another principal: %s", text)
	}
}
