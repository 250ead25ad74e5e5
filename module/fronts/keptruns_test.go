package fronts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// listedRuns is the answer to list_runs.
type listedRuns struct {
	Runs []struct {
		RunID    string `json:"run_id"`
		RunToken string `json:"run_token"`
		Skill    string `json:"skill"`
		Status   string `json:"status"`
		Began    string `json:"began"`
		Ended    string `json:"ended"`
	} `json:"runs"`
	NextCursor *string `json:"next_cursor"`
	Hint       struct {
		Message string `json:"message"`
	} `json:"hint"`
}

// list asks for runs. It fails the test if the answer is an error.
func list(t *testing.T, c *testbed.Client, params hostile.Object) (page listedRuns) {
	t.Helper()
	a := c.Call("list_runs", params)
	if err := json.Unmarshal(a.Result, &page); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	return page
}

// keyedSite is a Caddyfile with a bridge whose callers say in a header who they are.
func keyedSite(t *testing.T, p *hostile.Provider) string {
	t.Helper()
	return "{\nstorage file_system " + folder(t) + "\n}\n" + inSite(p, alone, "rpc", "mcp {\ntask_after 0s\n}", "name agents", "poll_interval 200ms 200ms", "principal {http.request.header.X-User}")
}

// keyed executes a skill with an idempotency key in the header.
func keyed(c *testbed.Client, user, skill, key string) testbed.Answer {
	return c.With(testbed.Header("X-User", user), testbed.Header("Idempotency-Key", `"`+key+`"`), testbed.Param("wait_ms", 0)).Execute(skill, hostile.Object{"call": key})
}

// A call with a key whose connection to the provider breaks is not submitted again, and each answer says what to do.
func TestKeyedCallBreaks(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	p.On("acme/echo", hostile.Invoke, func(x *hostile.Exchange) { _ = x.Conn().Close() })
	c := testbed.StartCaddy(t, keyedSite(t, p))
	const advice = `"hint":{"message":"the bridge does not submit this call again: ask the provider`
	for range 2 {
		if a := keyed(c.Client, "ada", "acme.echo", "a"); a.Data.Executed != "maybe" || strings.Count(string(a.Body), advice) != 1 {
			t.Errorf("%s", a.Body)
		}
	}
	if a := c.With(testbed.Header("Idempotency-Key", `"b"`), testbed.Header("X-User", "ada")).Execute("acme.none", nil); a.Data.Executed != "no" || strings.Contains(string(a.Body), advice) {
		t.Errorf("%s", a.Body)
	}
	if n := p.Count("acme/echo", hostile.Invoke); n != 1 {
		t.Errorf("%d invocations", n)
	}
}

// list_runs lists the caller's runs with idempotency keys, with tokens for get_run.
func TestListRuns(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/now"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	c := testbed.StartCaddy(t, keyedSite(t, p))
	ada := c.With(testbed.Header("X-User", "ada"))
	if page := list(t, ada, nil); len(page.Runs) != 0 || page.NextCursor != nil || !strings.Contains(page.Hint.Message, "'idempotency_key'") {
		t.Errorf("%+v", page)
	}
	ada.Execute("acme.now", nil) // without a key
	keyed(c.Client, "bob", "acme.now", "0")
	for n, skill := range []string{"acme.now", "acme.slow", "acme.now"} {
		if a := keyed(c.Client, "ada", skill, string(rune('a'+n))); a.Outcome() != "completed" && a.Outcome() != "running" {
			t.Fatal(a)
		}
	}
	summary := func(page listedRuns) (text string) {
		t.Helper()
		for _, r := range page.Runs {
			text += r.Skill + " " + r.Status + ", "
			if r.RunID == "" || r.RunToken == "" || r.Began == "" || (r.Ended == "") != (r.Status == "running") {
				t.Errorf("%+v", r)
			}
		}
		return text
	}
	for _, q := range []struct {
		params hostile.Object
		want   string
	}{
		{nil, "acme.now completed, acme.slow running, acme.now completed, "},
		{hostile.Object{"status": "running"}, "acme.slow running, "},
		{hostile.Object{"skill": "acme/now", "status": "completed"}, "acme.now completed, acme.now completed, "},
		{hostile.Object{"skill": "acme_slow"}, "acme.slow running, "},
		{hostile.Object{"skill": "acme.other"}, ""},
		{hostile.Object{"limit": 1}, "acme.now completed, "},
	} {
		if got := summary(list(t, ada, q.params)); got != q.want {
			t.Errorf("%v: %s, want %s", q.params, got, q.want)
		}
	}
	if page := list(t, ada, hostile.Object{"skill": "acme.slwo"}); !strings.Contains(page.Hint.Message, "did you mean 'acme.slow'?") {
		t.Errorf("a wrong name: %+v", page)
	}
	first := list(t, ada, hostile.Object{"limit": 1})
	second := list(t, ada, hostile.Object{"limit": 1, "cursor": *first.NextCursor})
	if summary(second) != "acme.slow running, " {
		t.Errorf("the second page: %+v", second)
	}
	token := second.Runs[0].RunToken
	if a := ada.Call("get_run", hostile.Object{"run_token": token, "wait_ms": 0}); a.Outcome() != "running" || a.Run().RunID != second.Runs[0].RunID {
		t.Error(a)
	}
	for _, params := range []hostile.Object{{"limit": 0}, {"status": "done"}, {"cursor": "x"}, {"skill": ""}} {
		if a := ada.Call("list_runs", params); a.Code != -32602 {
			t.Errorf("%v: %s", params, a)
		}
	}
	if a := c.Call("list_runs", nil); a.Data.Code != "AUTH_REQUIRED" || a.Data.Next != "authenticate" || !strings.Contains(a.Message, "anonymous") {
		t.Errorf("anonymous: %s", a)
	}
}

// cancel_run ends the following of a run, with and without a key, for all protocols, also after a restart. A run that has ended stays as it is.
func TestCancelRun(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/soon"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	config := keyedSite(t, p)
	c := testbed.StartCaddy(t, config)
	about := func(method, user, token string) testbed.Answer {
		return c.With(testbed.Header("X-User", user)).Call(method, hostile.Object{"run_token": token})
	}
	withKey := keyed(c.Client, "ada", "acme.slow", "a")
	without := c.With(testbed.Header("X-User", "ada"), testbed.Param("wait_ms", 0)).Execute("acme.slow", nil)
	ended := c.With(testbed.Header("X-User", "ada"), testbed.Param("wait_ms", 0)).Execute("acme.soon", nil)
	if a := about("cancel_run", "ada", tokenIn(t, ended)); a.Outcome() != "completed" {
		t.Errorf("a run that has ended: %s", a)
	}
	for _, begun := range []testbed.Answer{withKey, without} {
		token := tokenIn(t, begun)
		if a := about("cancel_run", "bob", token); a.Code != -32602 {
			t.Errorf("another caller: %s", a)
		}
		for _, method := range []string{"cancel_run", "get_run", "cancel_run"} {
			if a := about(method, "ada", token); a.Outcome() != "canceled" || a.Run().RunID != begun.Run().RunID || !strings.Contains(a.Run().Summary, "may go on there") {
				t.Errorf("%s: %s", method, a)
			}
		}
	}
	anonymous := c.With(testbed.Param("wait_ms", 0)).Execute("acme.slow", nil)
	if a := c.Call("cancel_run", hostile.Object{"run_token": tokenIn(t, anonymous)}); a.Outcome() != "canceled" {
		t.Errorf("an anonymous caller: %s", a)
	}
	if text := aboutTask(c, "tasks/get", tokenIn(t, anonymous)); !strings.Contains(text, cancelled) {
		t.Errorf("as a task of MCP: %s", text)
	}
	check := func(when string) {
		t.Helper()
		if a := keyed(c.Client, "ada", "acme.slow", "a"); a.Outcome() != "canceled" || a.Run().RunID != withKey.Run().RunID {
			t.Errorf("%s: a call with the key: %s", when, a)
		}
		if a := about("get_run", "ada", tokenIn(t, without)); a.Outcome() != "canceled" {
			t.Errorf("%s: get_run: %s", when, a)
		}
		if page := list(t, c.With(testbed.Header("X-User", "ada")), hostile.Object{"status": "canceled"}); len(page.Runs) != 1 || page.Runs[0].RunID != withKey.Run().RunID {
			t.Errorf("%s: list_runs: %+v", when, page)
		}
	}
	check("at once")
	c.Stop()
	c = testbed.StartCaddy(t, config)
	check("after a restart")
	gone := keyed(c.Client, "ada", "acme.slow", "b")
	p.Withdraw("acme/slow")
	c.Stop()
	c = testbed.StartCaddy(t, config)
	for _, method := range []string{"cancel_run", "get_run"} {
		if a := about(method, "ada", tokenIn(t, gone)); a.Outcome() != "canceled" {
			t.Errorf("of a skill that is no longer offered: %s: %s", method, a)
		}
	}
	if n := p.Count("acme/slow", hostile.Invoke); n != 4 {
		t.Errorf("%d invocations", n)
	}
}

// tokenIn returns the run token in an answer.
func tokenIn(t *testing.T, a testbed.Answer) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(a.Result), `"run_token":"`)
	token, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no run token: %s", a)
	}
	return token
}

// The run of a key has one outcome, for all methods of all protocols, though its provider can't be asked.
func TestOneOutcome(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/shout", Edit: func(d hostile.Object) {
		endpoint := d["endpoint"].(hostile.Object) //nolint:forcetypeassert // the provider made it
		delete(endpoint, "status_url")
		delete(endpoint, "result_url")
	}}, hostile.Skill{ID: "acme/down"})
	p.On("acme/shout", hostile.Invoke, hostile.Complete("HELLO"))
	p.On("acme/down", hostile.Invoke, hostile.Accept(0))
	c := testbed.StartCaddy(t, keyedSite(t, p))
	ada := c.With(testbed.Header("X-User", "ada"))
	for _, skill := range []string{"acme.shout", "acme.down"} {
		keyed(c.Client, "ada", skill, skill)
		again := func() testbed.Answer { return keyed(c.Client, "ada", skill, skill) }
		testbed.Eventually(t, 20*time.Second, func() bool { return again().Outcome() == "completed" }, "the run ends")
	}
	p.On("acme/down", hostile.Status, hostile.Respond(500, ""))
	p.On("acme/down", hostile.Result, hostile.Respond(500, ""))
	runs := list(t, ada, nil).Runs
	if len(runs) != 2 {
		t.Fatalf("%+v", runs)
	}
	for _, r := range runs {
		want := keyed(c.Client, "ada", r.Skill, r.Skill)
		if r.Status != "completed" || want.Outcome() != "completed" {
			t.Errorf("%+v: %s", r, want)
		}
		for _, method := range []string{"cancel_run", "get_run"} {
			if a := ada.Call(method, hostile.Object{"run_token": r.RunToken}); string(a.Result) != string(want.Result) {
				t.Errorf("%s of %s: %s, want %s", method, r.Skill, a, want)
			}
		}
		mcp := func(method, name, body string) string {
			return string(sendMCP(c, body, append(mcpHeader(method, name), "X-User", "ada")...).Body)
		}
		about := func(method string) string {
			return mcp(method, r.RunToken, taking(modern(method, `"taskId":"`+r.RunToken+`"`)))
		}
		about("tasks/cancel")
		tool := mcp("tools/call", "get_run", modern("tools/call", `"name":"get_run","arguments":{"run_token":"`+r.RunToken+`"}`))
		if task := about("tasks/get"); !strings.Contains(task, `"status":"completed"`) || strings.Contains(task+tool, `"isError":true`) || !strings.Contains(tool, `"content"`) {
			t.Errorf("%s with MCP: %s\n%s", r.Skill, task, tool)
		}
	}
	if n := p.Count("acme/shout", hostile.Invoke) + p.Count("acme/down", hostile.Invoke); n != 2 {
		t.Errorf("%d invocations", n)
	}
}

// A run id that is longer than a URL may have is shortened in list_runs, and the run can be read with its token.
func TestListLongRunID(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/long"})
	p.On("acme/long", hostile.Invoke, hostile.CompleteAs(strings.Repeat("x", 60_000)))
	c := testbed.StartCaddy(t, keyedSite(t, p))
	if a := keyed(c.Client, "ada", "acme.long", "a"); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	ada := c.With(testbed.Header("X-User", "ada"))
	page := list(t, ada, nil)
	if len(page.Runs) != 1 || len(page.Runs[0].RunID) > document.MaxExecutionID+len("…") || page.Runs[0].Status != "completed" {
		t.Fatalf("%.1000v", page)
	}
	if a := ada.Call("get_run", hostile.Object{"run_token": page.Runs[0].RunToken}); a.Outcome() != "completed" {
		t.Errorf("%.300s", a)
	}
	if a := keyed(c.Client, "ada", "acme.long", "a"); a.Outcome() != "completed" || p.Count("acme/long", hostile.Invoke) != 1 {
		t.Errorf("%.300s", a)
	}
}

// The run of a key is followed after a restart without a call.
func TestKeptRunsAreResumed(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	config := keyedSite(t, p)
	c := testbed.StartCaddy(t, config)
	if a := keyed(c.Client, "ada", "acme.slow", "a"); a.Outcome() != "running" {
		t.Fatal(a)
	}
	c.Stop()
	polls := p.Count("acme/slow", hostile.Status)
	testbed.StartCaddy(t, config)
	testbed.Eventually(t, 60*time.Second, func() bool { return p.Count("acme/slow", hostile.Status) > polls+2 }, "the run is followed")
}

// A call with a key has warnings about unknown arguments, as one without has.
func TestWarningsWithKey(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, keyedSite(t, p))
	for _, option := range [][]testbed.Option{nil, {testbed.Header("Idempotency-Key", `"a"`)}} {
		a := c.With(append(option, testbed.Header("X-User", "ada"))...).Execute("acme.now", hostile.Object{"cal": "x"})
		if !strings.Contains(string(a.Result), `"warnings":[{"argument":"cal"`) {
			t.Errorf("%s", a)
		}
	}
}

// TestStoreUnavailable: while the database can't be opened, calls that need it are refused before anything is sent, and all others go on. The file of SQLite would be in a
// file.
func TestStoreUnavailable(t *testing.T) {
	longtest.Need(t, longtest.Long)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1_000_000))
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, "{\nstorage file_system "+folder(t)+"\n}\n"+inSite(p, alone, "rpc", "name agents", "principal {http.request.header.X-User}", notifyLocal,
		"store sqlite "+filepath.Join(file, "bridge.db"), "seal_key 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"))
	ada := c.With(testbed.Header("X-User", "ada"))
	for name, refused := range map[string]*testbed.Client{
		"a key":       ada.With(testbed.Header("Idempotency-Key", `"a"`)),
		"a call-back": ada.With(testbed.Param("notify", hostile.Object{"url": "https://127.0.0.1:1/", "token": ownSecret})),
	} {
		if a := refused.Execute("acme.now", nil); a.Data.Executed != "no" || a.Data.Next != "ask_operator" || !strings.Contains(a.Message, "database") {
			t.Errorf("%s: %s", name, a)
		}
	}
	if a := ada.Call("list_runs", nil); a.Data.Next != "ask_operator" {
		t.Errorf("list_runs: %s", a)
	}
	if n := p.Count("acme/now", hostile.Invoke); n != 0 {
		t.Errorf("%d invocations", n)
	}
	if a := ada.Execute("acme.now", nil); a.Outcome() != "completed" {
		t.Errorf("without a key: %s", a)
	}
	left := ada.With(testbed.Param("wait_ms", 0)).Execute("acme.slow", nil)
	if a := ada.Call("get_run", hostile.Object{"run_token": tokenIn(t, left), "wait_ms": 0}); a.Outcome() != "running" {
		t.Errorf("get_run: %s", a)
	}
}
