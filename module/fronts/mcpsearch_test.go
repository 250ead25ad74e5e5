package fronts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// callTool calls a tool as a modern client.
func callTool(c *testbed.Caddy, name, arguments string) testbed.Answer {
	return sendMCP(c, modern("tools/call", `"name":"`+name+`","arguments":`+arguments), mcpHeader("tools/call", name)...)
}

// expectMCP checks the status of an answer and what its body has. Texts that begin with "!" must not be there.
func expectMCP(t *testing.T, about string, a testbed.Answer, status int, has ...string) {
	t.Helper()
	if a.Err != nil || a.Status != status {
		t.Errorf("%s: %v, %d %.600s", about, a.Err, a.Status, a.Body)
		return
	}
	for _, text := range has {
		unwanted, absent := strings.CutPrefix(text, "!")
		if absent && strings.Contains(string(a.Body), unwanted) || !absent && !strings.Contains(string(a.Body), text) {
			t.Errorf("%s: want %s in %.1500s", about, text, a.Body)
		}
	}
}

// Section 3: with a search, four tools are listed, and all others can still be called.
func TestMCPSearch(t *testing.T) {
	described := func(text string) func(hostile.Object) {
		return func(o hostile.Object) { o["description"] = text }
	}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/weather", EditEntry: described("Tells the forecast."), Edit: described("Tells the forecast.")},
		hostile.Skill{ID: "acme/invoice", EditEntry: described("Writes bills about the weather."), Edit: described("Writes bills about the weather.")},
		hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/hidden", Access: "private"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1000))
	c := testbed.StartCaddy(t, strings.Replace(inSite(p, alone, "wait 50ms", "mcp {\ncatalog search\ntask_after 0s\n}", "allow_anonymous"), "namespace acme\n", "namespace acme\ndiscovery_credentials api_key secret\n", 1))
	for _, era := range []struct {
		list   string
		header []string
	}{
		{modern("tools/list", ""), mcpHeader("tools/list", "")},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, legacyHeader("2025-11-25")},
	} {
		list := sendMCP(c, era.list, era.header...)
		expectMCP(t, "list", list, 200, `"name":"call_skill"`, `"name":"describe_skill"`, `"name":"get_run"`, `"name":"search_skills"`, "!acme", "!nextCursor")
	}
	if n := p.Count("", hostile.Index); n != 0 {
		t.Errorf("the list has asked the provider %d times", n)
	}
	expectMCP(t, "a cursor", sendMCP(c, modern("tools/list", `"cursor":"dDE6YQ"`), mcpHeader("tools/list", "")...), 200, `"code":-32602`)
	expectMCP(t, "discover", sendMCP(c, modern("server/discover", ""), mcpHeader("server/discover", "")...), 200, `"tools":{}`, "search_skills")

	found := callTool(c, "search_skills", `{"query":"weather"}`)
	expectMCP(t, "search", found, 200, `"structuredContent":{"skills":[{"name":"acme_weather"`, `"name":"acme_invoice"`, `"description":"Tells the forecast."`)
	if n := p.Count("acme/weather", hostile.Descriptor); n != 0 {
		t.Errorf("the search has read %d descriptors", n)
	}
	for _, v := range []struct {
		about, tool, arguments string
		has                    []string
	}{
		{"a limit", "search_skills", `{"query":"weather","limit":1}`, []string{"acme_weather", "!acme_invoice"}},
		{"a limit of 0", "search_skills", `{"query":"weather","limit":0}`, []string{`"isError":true`, "limit must be a whole number of 1 or more"}},
		{"a large limit", "search_skills", `{"query":"weather","limit":1000000}`, []string{"acme_weather", "acme_invoice"}},
		{"nothing found", "search_skills", `{"query":"zebra"}`, []string{`"structuredContent":{"skills":[]}`}},
		{"a hidden skill", "search_skills", `{"query":"hidden"}`, []string{"!acme_hidden"}},
		{"no query", "search_skills", `{}`, []string{`"isError":true`, "query is required"}},
		{"a query that is no text", "search_skills", `{"query":5}`, []string{`"isError":true`, "query must be a text"}},
		{"a limit that is no number", "search_skills", `{"query":"weather","limit":"many"}`, []string{`"isError":true`, "limit must be"}},
		{"a negative limit", "search_skills", `{"query":"weather","limit":-1}`, []string{`"isError":true`}},
		{"description", "describe_skill", `{"name":"acme_weather"}`, []string{`"structuredContent":{"name":"acme_weather"`, `"inputSchema":{`, `"description":"Tells the forecast."`}},
		{"description by the bridge's name", "describe_skill", `{"name":"acme.weather"}`, []string{`"structuredContent":{"name":"acme_weather"`}},
		{"description of an unknown skill", "describe_skill", `{"name":"acme_wether"}`, []string{`"isError":true`, `"next":"`, "!-32602"}},
		{"description of a hidden skill", "describe_skill", `{"name":"acme_hidden"}`, []string{`"isError":true`, "!structuredContent"}},
		{"description without a name", "describe_skill", `{}`, []string{`"isError":true`, "name is required"}},
		{"call", "call_skill", `{"name":"acme_weather","arguments":{}}`, []string{`"structuredContent":{"`, "!isError"}},
		{"call without arguments", "call_skill", `{"name":"acme.weather"}`, []string{`"structuredContent":{"`, "!isError"}},
		{"call with arguments that are no object", "call_skill", `{"name":"acme_weather","arguments":[]}`, []string{`"isError":true`, "must be an object"}},
		{"call of an unknown skill", "call_skill", `{"name":"acme_nope"}`, []string{`"isError":true`, `"executed":"no"`, "!-32602"}},
		{"call of a hidden skill", "call_skill", `{"name":"acme_hidden"}`, []string{`"isError":true`, `"executed":"no"`}},
		{"call of a built-in tool", "call_skill", `{"name":"get_run"}`, []string{`"isError":true`}},
		{"call that goes on", "call_skill", `{"name":"acme_slow"}`, []string{`"code":"STILL_RUNNING"`, `"runToken":"`}},
		{"direct call", "acme_weather", `{}`, []string{`"structuredContent":{"`}},
		{"direct call of an unknown tool", "acme_nope", `{}`, []string{`"code":-32602`}},
	} {
		expectMCP(t, v.about, callTool(c, v.tool, v.arguments), 200, v.has...)
	}
	asTask := strings.Replace(modern("tools/call", `"name":"call_skill","arguments":{"name":"acme_slow"}`), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	expectMCP(t, "a task", sendMCP(c, asTask, mcpHeader("tools/call", "call_skill")...), 200, `"resultType":"task"`)
}

// Section 3: more than 100 tools, of which get_run is one, are worth a warning, once for each configuration, as soon as the index is known: when it
// is first read, or when a configuration loads that finds it in the cache. Without a search, its tools don't exist.
func TestMCPLongList(t *testing.T) {
	const text = "the MCP mount lists more than 100 tools"
	for _, most := range []int{99, 100} {
		skills := make([]hostile.Skill, most)
		for i := range skills {
			skills[i].ID = fmt.Sprintf("acme/skill%d", i)
		}
		p := hostile.NewProvider(t, skills...)
		c := testbed.StartCaddy(t, inSite(p, alone, "mcp"))
		warned := func(about string, want int) {
			t.Helper()
			if got := strings.Count(c.Log.Text(), text); most == 99 && got != 0 || most == 100 && got != want {
				t.Errorf("%d skills, %s: %d warnings, want %d", most, about, got, want)
			}
		}
		warned("before the index is read", 0)
		expectMCP(t, "a call", callTool(c, "acme_skill0", `{}`), 200)
		warned("after a call", 1)
		for range 2 {
			expectMCP(t, "list", sendMCP(c, modern("tools/list", ""), mcpHeader("tools/list", "")...), 200, `"name":"acme_skill0"`, "!search_skills")
		}
		expectMCP(t, "no search", callTool(c, "search_skills", `{"query":"skill"}`), 200, `"code":-32602`)
		warned("after lists", 1)
		if err := c.Reload(inSite(p, alone, "mcp", "wait 20s")); err != nil {
			t.Fatal(err)
		}
		warned("after a reload", 2)
		if err := c.Reload(inSite(p, alone, "mcp {\ncatalog search\n}")); err != nil {
			t.Fatal(err)
		}
		warned("with a search", 2)
		c.Stop()
		warned("at the end", 2)
		p.Down()
	}
}

// A task_after that is longer than wait has no effect, which is worth a warning when the configuration loads. The default is no mistake.
func TestMCPTaskAfterWait(t *testing.T) {
	const text = "mcp task_after is longer than wait"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for options, want := range map[string]int{"wait 1s\nmcp {\ntask_after 2s\n}": 1, "wait 1s\nmcp": 0, "wait 2s\nmcp {\ntask_after 2s\n}": 0, "wait 1s\nmcp {\ntask_after off\n}": 0} {
		c := testbed.StartCaddy(t, inSite(p, alone, options))
		c.Stop()
		if got := strings.Count(c.Log.Text(), text); got != want {
			t.Errorf("%q: %d warnings, want %d", options, got, want)
		}
	}
}
