package fronts_test

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// taking makes a modern request one of a client that takes tasks.
func taking(body string) string {
	return strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
}

// startTask calls a tool that is slow and returns the id of its task.
func startTask(t *testing.T, c *testbed.Caddy, tool string) string {
	t.Helper()
	a := sendMCP(c, taking(modern("tools/call", `"name":"`+tool+`"`)), mcpHeader("tools/call", tool)...)
	_, rest, _ := strings.Cut(string(a.Body), `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if id == "" {
		t.Fatalf("no task: %s", a)
	}
	return id
}

func aboutTask(c *testbed.Caddy, method, id string) string {
	return string(sendMCP(c, taking(modern(method, `"taskId":"`+id+`"`)), mcpHeader(method, id)...).Body)
}

// listenMCP opens a subscription.
func listenMCP(c *testbed.Caddy, notifications map[string]any) *testbed.Stream {
	options := []testbed.Option{testbed.Header("Mcp-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", "subscriptions/listen")}
	client := c.With(append(options, testbed.Fresh())...)
	client.URL = base(c) + "/mcp"
	return client.Stream("subscriptions/listen", map[string]any{"notifications": notifications, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
	}})
}

func nextText(s *testbed.Stream) string {
	e, _ := s.Next(20 * time.Second)
	return e.Text
}

const cancelled = `"status":"cancelled","statusMessage":"No longer followed; the provider may still finish it."`

// Section 5: a canceled task is remembered in the database, so that a reload, a restart and another instance know it. A task that has
// ended stays as it is.
func TestMCPCanceledTasksAreKept(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/soon"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	p.On("acme/soon", hostile.Invoke, hostile.Accept(1))
	config := func(principal string) string {
		bridge := inSite(p, alone, "mcp {\ntask_after 0s\n}", "name agents", "poll_interval 200ms 200ms", "principal {http.request.header.X-User}")
		return "{\nstorage file_system " + folder(t) + "\n}\n" + strings.Replace(bridge, "route {\n", "route {\nrequest_header X-User "+principal+"\n", 1)
	}
	ada, bob := config("ada"), config("bob")
	bob = strings.Replace(bob, folderOf(bob), folderOf(ada), 1)
	c := testbed.StartCaddy(t, ada)
	canceled, running, ended := startTask(t, c, "acme_slow"), startTask(t, c, "acme_slow"), startTask(t, c, "acme_soon")
	testbed.Eventually(t, 20*time.Second, func() bool { return strings.Contains(aboutTask(c, "tasks/get", ended), `"status":"completed"`) }, "a task completes")
	for _, id := range []string{canceled, ended, canceled} {
		if text := aboutTask(c, "tasks/cancel", id); !strings.Contains(text, `"result":{"resultType":"complete","_meta"`) {
			t.Errorf("tasks/cancel: %s", text)
		}
	}
	check := func(when string) {
		t.Helper()
		for id, want := range map[string]string{canceled: cancelled, running: `"status":"working"`, ended: `"status":"completed"`} {
			if text := aboutTask(c, "tasks/get", id); !strings.Contains(text, want) {
				t.Errorf("%s: %s, want %s", when, text, want)
			}
		}
	}
	check("at once")
	if err := c.Reload(ada + "\n# changed\n"); err != nil {
		t.Fatal(err)
	}
	check("after a reload")
	c.Stop()
	c = testbed.StartCaddy(t, ada)
	check("after a restart")
	if err := c.Reload(bob); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if text := aboutTask(c, method, running); !strings.Contains(text, `"code":-32602,"message":"Task not found"`) {
			t.Errorf("another principal: %s: %s", method, text)
		}
	}
}

// folder returns a folder that the end of the test removes, also while a stopped Caddy writes to it.
func folder(t *testing.T) string {
	t.Helper()
	name, err := os.MkdirTemp("", "mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(name) }) // as far as possible
	return name
}

func folderOf(config string) string {
	_, rest, _ := strings.Cut(config, "file_system ")
	name, _, _ := strings.Cut(rest, "\n")
	return name
}

// Section 5: a database that can't be used does not fail tasks/cancel, and the log says what that means.
func TestMCPCancelWithoutDatabase(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp {\ntask_after 0s\n}", "poll_interval 200ms 200ms",
		"store sqlite "+filepath.Join(file, "bridge.db"), "seal_key 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"))
	id := startTask(t, c, "acme_slow")
	if text := aboutTask(c, "tasks/cancel", id); !strings.Contains(text, `"resultType":"complete"`) {
		t.Errorf("%s", text)
	}
	if text := aboutTask(c, "tasks/get", id); !strings.Contains(text, cancelled) {
		t.Errorf("%s", text)
	}
	if !c.Log.Has("a canceled run can't be stored yet") {
		t.Error("the log does not say that the canceled task could not be stored")
	}
}

// Section 6: subscriptions end with the closing result when another configuration replaces theirs, or Caddy stops. A listener is told
// that a task was canceled.
func TestMCPSubscriptionsEnd(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	config := inSite(p, alone, "mcp {\ntask_after 0s\n}", "poll_interval 200ms 200ms")
	c := testbed.StartCaddy(t, config)
	const closing = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{`
	begin := func(notifications map[string]any) *testbed.Stream {
		t.Helper()
		s := listenMCP(c, notifications)
		if s.Response.StatusCode != http.StatusOK || s.Response.Header.Get("X-Accel-Buffering") != "no" {
			t.Fatalf("%v", s.Response)
		}
		if text := nextText(s); !strings.Contains(text, `"method":"notifications/subscriptions/acknowledged"`) || !strings.Contains(text, `"io.modelcontextprotocol/subscriptionId":1`) {
			t.Fatalf("%s", text)
		}
		return s
	}
	ends := func(when string, s *testbed.Stream) {
		t.Helper()
		text := nextText(s)
		if !strings.HasPrefix(text, closing) || !strings.Contains(text, `"io.modelcontextprotocol/subscriptionId":1`) {
			t.Errorf("%s: %s", when, text)
		}
		if rest := s.Rest(20 * time.Second); len(rest) > 0 || s.Broken() {
			t.Errorf("%s: then %v, broken %v", when, rest, s.Broken())
		}
	}
	task := startTask(t, c, "acme_slow")
	s := begin(map[string]any{"taskIds": []string{task, "AAAA"}})
	aboutTask(c, "tasks/cancel", task)
	if text := nextText(s); !strings.Contains(text, `"method":"notifications/tasks","params":{"taskId":"`+task+`",`+cancelled) {
		t.Errorf("canceled: %s", text)
	}
	ends("after all tasks", s)
	s = begin(map[string]any{"toolsListChanged": true})
	if err := c.Reload(config + "\n# changed\n"); err != nil {
		t.Fatal(err)
	}
	ends("at a reload", s)
	s = begin(map[string]any{"resourcesListChanged": true, "promptsListChanged": true})
	c.Stop()
	ends("at a stop", s)
}

// A listener that reads nothing takes memory for the output of one of its tasks, and gets all of them as soon as it reads.
func TestMCPListenerThatReadsNothing(t *testing.T) {
	const size, tasks = 9 << 20, 8
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/large"})
	gate := hostile.NewGate(t)
	output := `"` + strings.Repeat("x", size) + `"`
	p.On("acme/large", hostile.Invoke, hostile.Accept(0))
	p.On("acme/large", hostile.Status, gate.Then(hostile.RawOutput(output)))
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp {\ntask_after 0s\n}", "poll_interval 50ms 50ms"))
	var ids []string
	for range tasks {
		ids = append(ids, startTask(t, c, "acme_large"))
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": map[string]any{
		"notifications": map[string]any{"taskIds": ids},
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base(c)+"/mcp", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	own := new(http.Transport)
	t.Cleanup(own.CloseIdleConnections)
	response, err := (&http.Client{Transport: own}).Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	defer response.Body.Close()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	gate.Open()
	testbed.Eventually(t, time.Minute, func() bool { return heap()-before > 2*size }, "an output is there")
	testbed.Eventually(t, time.Minute, func() bool { return heap()-before < 8*size }, "the outputs are not kept")
	lines := bufio.NewReader(response.Body)
	for told := 0; told < tasks; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%d tasks were told: %v", told, err)
		}
		if strings.Contains(line[:min(len(line), 200)], `"method":"notifications/tasks"`) {
			if told++; len(line) < size || !strings.Contains(line, `"status":"completed"`) {
				t.Errorf("%.500s", line)
			}
		}
	}
}

// TestKeep: run tokens, and so the tasks of MCP, are valid for as long as the operator says, at all instances with the same seal_key, whatever their
// database.
func TestKeep(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	t.Setenv("SEAL_KEY", "3VbeQTeVHZySaBsDQW7BX4hrRIKifjpRfTLwhSRMvl0=")
	config := inSite(p, alone, "mcp {\ntask_after 0s\n}", "name agents", "poll_interval 200ms 200ms", "keep 48h", "store memory", "seal_key {env.SEAL_KEY}")
	c := testbed.StartCaddy(t, config)
	id := startTask(t, c, "acme_slow")
	if text := aboutTask(c, "tasks/get", id); !strings.Contains(text, `"ttlMs":172800000,`) {
		t.Error(text)
	}
	c.Stop()
	c = testbed.StartCaddy(t, config)
	if text := aboutTask(c, "tasks/get", id); !strings.Contains(text, `"status":"working"`) {
		t.Errorf("after a restart, with another database: %s", text)
	}
	c.Stop()
	c = testbed.StartCaddy(t, strings.Replace(config, "keep 48h", "keep 24h", 1))
	if text := aboutTask(c, "tasks/get", id); !strings.Contains(text, `"status":"working"`) {
		t.Errorf("of a longer time than the bridge gives now: %s", text)
	}
}
