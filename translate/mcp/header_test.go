package mcp_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// Section 1: what is refused, in which order, and with what. Each request has all later faults, too.
func TestOrderOfRefusals(t *testing.T) {
	s := newServer(t, nil, skill("tool", nil))
	version, method, name := []string{"MCP-Protocol-Version", "2026-07-28"}, []string{"Mcp-Method", "tools/call"}, []string{"Mcp-Name", "acme_tool"}
	body := func(meta, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + meta + `}}`
	}
	of := func(fields ...[]string) (all []string) {
		for _, f := range fields {
			all = append(all, f...)
		}
		return all
	}
	named := `"name":"acme_tool",`
	for _, v := range []struct {
		about, body string
		header      []string
		status      int
		code        float64
	}{
		{"media type", `{`, []string{"Content-Type", "text/plain"}, 415, 0},
		{"media type missing", `{`, []string{"Content-Type", ""}, 415, 0},
		{"content encoding", `{`, []string{"Content-Encoding", "identity"}, 415, 0},
		{"too large", strings.Repeat(" ", 1<<20) + `{`, nil, 413, -32600},
		{"no JSON", `{`, nil, 400, -32700},
		{"nothing", ``, nil, 400, -32700},
		{"bad UTF-8", "{\"\xff\":1}", nil, 400, -32700},
		{"too deep", strings.Repeat("[", 100_000), nil, 400, -32700},
		{"a batch", `[` + body(modernMeta, named) + `]`, of(version, method, name), 400, -32600},
		{"an empty batch", `[]`, nil, 400, -32600},
		{"a text", `"x"`, nil, 400, -32600},
		{"no version of JSON-RPC", `{"id":1,"method":"ping"}`, nil, 400, -32600},
		{"a method that is none", `{"jsonrpc":"2.0","id":1,"method":1}`, nil, 400, -32600},
		{"params that are none", `{"jsonrpc":"2.0","id":1,"method":"ping","params":1}`, nil, 400, -32600},
		{"a list of params", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, nil, 200, -32602},
		{"_meta without a version", body(`"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}`, ""), of(version), 400, -32602},
		{"a version that is no text", body(`"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}}`, ""), nil, 400, -32602},
		{"_meta without capabilities", body(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`, ""), nil, 400, -32602},
		{"capabilities that are none", body(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}`, ""), nil, 400, -32602},
		{"_meta that is none", body(`"_meta":1`, ""), of(version), 400, -32602},
		{"no version in the header", body(modernMeta, named), nil, 400, -32020},
		{"another version in the header", body(modernMeta, named), []string{"MCP-Protocol-Version", "2025-11-25"}, 400, -32020},
		{"versions in the header", body(modernMeta, named), []string{"MCP-Protocol-Version", "2026-07-28, 2026-07-28"}, 400, -32020},
		{"an unknown version", body(strings.ReplaceAll(modernMeta, "2026-07-28", "2027-01-01"), named), []string{"MCP-Protocol-Version", "2027-01-01"}, 400, -32022},
		{"a legacy version in _meta", body(strings.ReplaceAll(modernMeta, "2026-07-28", "2025-11-25"), named), []string{"MCP-Protocol-Version", "2025-11-25"}, 400, -32022},
		{"no method in the header", body(modernMeta, named), version, 400, -32020},
		{"another method in the header", body(modernMeta, named), of(version, []string{"Mcp-Method", "tools/list"}), 400, -32020},
		{"another case of the method", body(modernMeta, named), of(version, []string{"Mcp-Method", "Tools/Call"}), 400, -32020},
		{"an encoded method", body(modernMeta, named), of(version, []string{"Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="}), 400, -32020},
		{"no name in the header", body(modernMeta, named), of(version, method), 400, -32020},
		{"another name in the header", body(modernMeta, named), of(version, method, []string{"Mcp-Name", "acme_Tool"}), 400, -32020},
		{"the bridge's name in the header", body(modernMeta, named), of(version, method, []string{"Mcp-Name", "acme.tool"}), 400, -32020},
		{"bad UTF-8 in base64", body(modernMeta, named), of(version, method, []string{"Mcp-Name", "=?base64?/w==?="}), 400, -32020},
		{"base64 without an end", body(modernMeta, named), of(version, method, []string{"Mcp-Name", "=?base64?YWNtZV90b29s"}), 400, -32020},
		{"_meta twice", body(modernMeta+","+modernMeta, named), nil, 400, -32600},
		{"name twice", body(modernMeta, named+named), nil, 400, -32600},
		{"a version twice", body(strings.Replace(modernMeta, "{", `{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`, 1), named), of(version, method, name), 400, -32600},
		{"capabilities twice", body(strings.Replace(modernMeta, "{", `{"io.modelcontextprotocol/clientCapabilities":{},`, 1), named), of(version, method, name), 400, -32600},
		{"a progress token twice", body(strings.Replace(modernMeta, "{", `{"progressToken":1,"progress\u0054oken":2,`, 1), named), of(version, method, name), 400, -32600},
		{"a capability twice", body(strings.Replace(modernMeta, `"io.modelcontextprotocol/clientCapabilities":{`, `"io.modelcontextprotocol/clientCapabilities":{"x":1,"x":{}`, 1), named), of(version, method, name), 400, -32600},
		{"params as an array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, -32602},
		{"legacy params as an array", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}`, []string{"MCP-Protocol-Version", "2025-11-25"}, 200, -32602},
		{"a trace twice", body(strings.Replace(modernMeta, "{", `{"traceparent":"","traceparent":1,`, 1), named), of(version, method, name), 400, -32600},
	} {
		g := s.send(t, v.body, v.header...)
		if code, _ := at(g.failure(), "code").(float64); g.status != v.status || code != v.code {
			t.Errorf("%s: %d %.300s, want %d and %v", v.about, g.status, g.text, v.status, v.code)
		}
		if _, has := g.body["id"]; has != (g.body["id"] == 1.0) {
			t.Errorf("%s: the id is %v", v.about, g.body["id"])
		}
	}
	if n := s.Count("POST /run/"); n > 0 {
		t.Errorf("the provider was called %d times", n)
	}
	plain := `"name":"=?base64?acme_tool",` // it has no end, so it is not encoded
	if g := s.send(t, body(modernMeta, plain), of(version, method, []string{"Mcp-Name", "=?base64?acme_tool"})...); g.status != 200 || at(g.failure(), "code") != -32602.0 {
		t.Errorf("%d %s", g.status, g.text)
	}
	good := s.send(t, body(modernMeta, named), of(version, method, name)...)
	if good.status != 200 || good.result() == nil || strings.Contains(good.text, "\n") {
		t.Errorf("%s", good.text)
	}
}

// Section 1: which requests are modern, and what the eras answer alike and differently.
func TestEras(t *testing.T) {
	s := newServer(t, nil, skill("tool", nil))
	list, meta := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{%s}}`, modernMeta
	for _, v := range []struct {
		about, meta string
		header      []string
		modern      bool // or it is refused as such
	}{
		{"_meta", meta, []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, true},
		{"_meta only", meta, nil, true},
		{"the header's version only", "", []string{"MCP-Protocol-Version", "2026-07-28"}, true},
		{"the header's method only", "", []string{"Mcp-Method", "tools/list"}, true},
		{"nothing", "", nil, false},
		{"a legacy version", "", []string{"MCP-Protocol-Version", "2025-11-25"}, false},
		{"a legacy version with Mcp-Method", "", []string{"MCP-Protocol-Version", "2025-06-18", "Mcp-Method", "tools/call"}, false},
	} {
		g := s.send(t, fmt.Sprintf(list, v.meta), v.header...)
		if v.modern != (g.status == 400 || g.result()["resultType"] == "complete") || !v.modern && g.result()["tools"] == nil {
			t.Errorf("%s: %d %.300s", v.about, g.status, g.text)
		}
	}
	for _, v := range []string{"2024-11-05", "", "x", "2026-07-29"} {
		g := s.legacy(t, "ping", object{"protocolVersion": "2025-11-25"}, "MCP-Protocol-Version", v)
		if g.status != 400 || at(g.failure(), "code") != -32022.0 || at(g.failure(), "data", "requested") != v {
			t.Errorf("ping of %q: %d %s", v, g.status, g.text)
		}
	}
	for _, header := range [][]string{ // initialize negotiates, whatever the header says
		{"MCP-Protocol-Version", "2024-11-05"},
		{"MCP-Protocol-Version", ""},
		{"MCP-Protocol-Version", "x"},
		{"MCP-Protocol-Version", "2026-07-28"},
		{"MCP-Protocol-Version", "2027-01-01"},
		{"MCP-Protocol-Version", "2025-03-26"},
		{"Mcp-Method", "initialize"},
		{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "initialize"},
	} {
		for asked, want := range map[string]string{"2025-06-18": "2025-06-18", "2026-07-28": "2025-11-25", "2027-01-01": "2025-11-25", "2024-11-05": "2025-11-25"} {
			g := s.legacy(t, "initialize", object{"protocolVersion": asked, "capabilities": object{}}, header...)
			if g.status != 200 || g.result()["protocolVersion"] != want {
				t.Errorf("initialize of %s with %q: %d %s", asked, header, g.status, g.text)
			}
		}
	}
	for asked, want := range map[string]string{"2025-03-26": "2025-03-26", "2025-11-25": "2025-11-25", "2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25", "x": "2025-11-25"} {
		g := s.send(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"x"}}}`)
		if g.result()["protocolVersion"] != want || g.header.Get("Mcp-Session-Id") != "" || at(g.result(), "capabilities", "tools", "listChanged") != nil || at(g.result(), "capabilities", "tasks") != nil ||
			at(g.result(), "capabilities", "logging") != nil || !isJSON(at(g.result(), "capabilities", "extensions"), `{"io.modelcontextprotocol/skills":{}}`) || at(g.result(), "serverInfo", "name") != "test" {
			t.Errorf("%s: %s", asked, g.text)
		}
	}
	d := s.modern(t, "server/discover", object{}).result()
	if !isJSON(d["capabilities"], `{"tools":{"listChanged":true},"resources":{},"prompts":{},"completions":{},"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{}}}`) ||
		!isJSON(d["supportedVersions"], `["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`) || d["ttlMs"] == nil || d["cacheScope"] != "public" || at(d, "_meta", "io.modelcontextprotocol/serverInfo", "name") != "test" {
		t.Errorf("%v", d)
	}
	for _, method := range []string{"logging/setLevel", "resources/subscribe", "roots/list", "sampling/createMessage", "tasks/list", "resources/directory/read", "skills/activate", "notifications", "", "tools/list\u0000"} {
		if g := s.legacy(t, method, object{}); g.status != http.StatusOK || at(g.failure(), "code") != -32601.0 {
			t.Errorf("%q: %d %s", method, g.status, g.text)
		}
	}
	for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"acme_tool"}}`, `{"jsonrpc":"2.0","method":"nope"}`, `{"jsonrpc":"2.0","id":5,"result":{}}`, `{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"x"}}`} {
		if g := s.send(t, body, "MCP-Protocol-Version", "2025-11-25"); g.status != http.StatusAccepted || g.text != "" {
			t.Errorf("%s: %d %s", body, g.status, g.text)
		}
	}
	if n := s.Count("POST /run/"); n > 0 {
		t.Errorf("a notification called the provider %d times", n)
	}
	only := newServer(t, func(s *server) { s.front.Options.Versions = []string{"2026-07-28"} }, skill("tool", nil))
	if g := only.legacy(t, "initialize", object{"protocolVersion": "2025-11-25"}); at(g.failure(), "code") != -32022.0 {
		t.Errorf("versions: %s", g.text)
	}
	if g := only.legacy(t, "tools/list", object{}); g.status != 400 || at(g.failure(), "code") != -32022.0 {
		t.Errorf("versions: %s", g.text)
	}
}

// Sections 1 and 8: callers without a principal, where all need one.
func TestPrincipals(t *testing.T) {
	for _, challenge := range []string{"", `Bearer resource_metadata="x"`} {
		s := newServer(t, func(s *server) {
			s.front.RequirePrincipal = true
			s.front.Challenge = func(*http.Request) string { return challenge }
		}, skill("tool", nil))
		for _, method := range []string{"tools/list", "server/discover", "subscriptions/listen", "tasks/get"} {
			g := s.modern(t, method, object{"taskId": "x"}, "Accept", "text/event-stream")
			if method != "tasks/get" && method != "subscriptions/listen" && (g.status != http.StatusUnauthorized || g.header.Get("WWW-Authenticate") != challenge) || g.result() != nil {
				t.Errorf("%s: %d %v %s", method, g.status, g.header, g.text)
			}
		}
		for about, g := range map[string]*got{ // the principal comes first
			"an unknown method":         s.modern(t, "none", object{}),
			"an unknown legacy method":  s.legacy(t, "none", object{}),
			"a version that is unknown": s.send(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "MCP-Protocol-Version", "2020-01-01"),
			"a header that is missing":  s.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`),
			"params that are no object": s.send(t, `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`),
			"a member that is twice":    s.send(t, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"name":1,"name":1}}`),
		} {
			if g.status != http.StatusUnauthorized || g.header.Get("WWW-Authenticate") != challenge {
				t.Errorf("%s: %d %v %s", about, g.status, g.header, g.text)
			}
		}
		if g := s.modern(t, "tools/list", object{}, "User", "ada"); g.result()["cacheScope"] != "private" {
			t.Errorf("%s", g.text)
		}
	}
}

// Section 8: if the only source wants a principal, all methods refuse anonymous callers with the status 401 where they can learn how to
// get one.
func TestPrincipalsOfSources(t *testing.T) {
	challenge := ""
	s := newServer(t, func(s *server) {
		s.config.Sources[0].RequirePrincipal = true
		s.front.Challenge = func(*http.Request) string { return challenge }
		s.front.Options.Search = true
	}, skill("tool", object{"capability_type": "knowledge", "output": object{"content_type": "text/plain"}}))
	s.On("POST /run/tool", providertest.Completed("e1", "x"))
	list := newServer(t, func(o *server) { o.front.Challenge, o.config = s.front.Challenge, s.config })
	for _, challenge = range []string{"", `Bearer resource_metadata="x"`} {
		for _, v := range []struct {
			of     *server
			method string
			params object
		}{
			{list, "tools/list", object{}},
			{list, "prompts/list", object{}},
			{list, "resources/list", object{}},
			{list, "tools/call", object{"name": "acme_tool"}},
			{list, "prompts/get", object{"name": "acme_tool"}},
			{list, "resources/read", object{"uri": "skill://acme.tool/SKILL.md"}},
			{list, "completion/complete", object{"ref": object{"type": "ref/prompt", "name": "acme_tool"}, "argument": object{"name": "a", "value": ""}}},
			{s, "tools/call", object{"name": "search_skills", "arguments": object{"query": "tool"}}},
			{s, "tools/call", object{"name": "describe_skill", "arguments": object{"name": "acme_tool"}}},
			{s, "tools/call", object{"name": "call_skill", "arguments": object{"name": "acme_tool"}}},
		} {
			for era, send := range map[string]func(testing.TB, string, object, ...string) *got{"modern": v.of.modern, "legacy": v.of.legacy} {
				g := send(t, v.method, v.params)
				if refused := g.status == http.StatusUnauthorized; refused != (challenge != "") || g.header.Get("WWW-Authenticate") != challenge || at(g.result(), "isError") == nil && g.failure() == nil {
					t.Errorf("%s %s %v: %d %v %s", era, v.method, v.params, g.status, g.header, g.text)
				}
				if g := send(t, v.method, v.params, "User", "ada"); g.result() == nil || at(g.result(), "isError") != nil {
					t.Errorf("%s %s %v of ada: %d %s", era, v.method, v.params, g.status, g.text)
				}
			}
		}
	}
}

// Section 1: a name that is there twice is refused, in params and in the arguments of tools and prompts, however it is spelt: parsers
// do not agree on which of the values counts.
func TestNamesTwice(t *testing.T) {
	s := newServer(t, func(s *server) { s.front.Options.Search = true }, skill("one", object{
		"capability_type": "knowledge", "inputs": []object{{"name": "a", "type": "string", "description": "d", "required": false}},
	}))
	many := `"n0":0`
	for i := 1; i < 40; i++ {
		many += `,"n` + strconv.Itoa(i) + `":0`
	}
	for body, want := range map[string]string{
		`"tools/call","params":{"name":"acme_one","arguments":{"a":"1","a":"2"}}`:                                                                                `The argument "a" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","arguments":{"a":"1","\u0061":"2"}}`:                                                                           `The argument "a" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","arguments":{"\u202e":"1","\u202e":"2"}}`:                                                                      `The argument "" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","arguments":{` + many + `}}`:                                                                                   "",
		`"tools/call","params":{"name":"acme_one","arguments":{` + many + `,"n39":1}}`:                                                                           `The argument "n39" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","arguments":{` + many + `,"n3":1}}`:                                                                            `The argument "n3" is there more than once.`,
		`"tools/call","params":{"name":"get_run","arguments":{"run_token":"1","run_token":"2"}}`:                                                                 `The argument "run_token" is there more than once.`,
		`"tools/call","params":{"name":"call_skill","arguments":{"name":"acme.one","arguments":{"a":"1","a":"2"}}}`:                                              `The argument "a" is there more than once.`,
		`"tools/call","params":{"name":"call_skill","arguments":{"name":"acme.one","arguments":{},"arguments":null}}`:                                            `The argument "arguments" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","arguments":{"a":{"b":[{"c":1,"c":2}]}}}`:                                                                      `In the arguments, "/a/b/0/c" is there more than once.`,
		`"tools/call","params":{"name":"call_skill","arguments":{"name":"acme.one","arguments":{"a":{"c":1,"\u0063":2}}}}`:                                       `is there more than once.`,
		`"completion/complete","params":{"ref":{"type":"ref/resource","type":"ref/prompt","uri":"skill://{name}/{file}"},"argument":{"name":"name","value":""}}`: `-32600 Invalid Request: "type" is there more than once`,
		`"completion/complete","params":{"ref":{"type":"ref/resource","uri":"skill://{name}/{file}"},"argument":{"name":"name","value":"","value":"x"}}`:         `-32600 Invalid Request: "value" is there more than once`,
		`"prompts/get","params":{"name":"acme_one","arguments":{"a":"1","a":"2"}}`:                                                                               `-32602 The argument "a" is there more than once.`,
		`"tools/call","params":{"name":"acme_one","name":"acme_two"}`:                                                                                            `-32600 Invalid Request: "name" is there more than once`,
		`"tools/call","params":{"name":"acme_one","x":1,"x":1}`:                                                                                                  `-32600 Invalid Request: "x" is there more than once`,
		`"tools/call","params":{"name":"acme_one","_meta":{"traceparent":"a","traceparent":"b"}}`:                                                                `-32600 Invalid Request: "traceparent" is there more than once`,
		`"tools/call","params":{"name":"acme_one","_meta":{"":"a","":"b"}}`:                                                                                      `-32600 Invalid Request: "" is there more than once`,
	} {
		s.Forget()
		g := s.send(t, `{"jsonrpc":"2.0","id":1,"method":`+body+`}`, "MCP-Protocol-Version", "2025-11-25")
		got := ""
		switch {
		case g.failure() != nil:
			got = strconv.FormatFloat(at(g.failure(), "code").(float64), 'f', -1, 64) + " " + at(g.failure(), "message").(string)
		case at(g.result(), "isError") == true:
			got = at(g.result(), "content", 0, "text").(string)
		}
		got = strings.TrimPrefix(got, "-32602 Invalid params: ")
		if !strings.Contains(got, strings.TrimPrefix(want, "-32602 ")) || want == "" && got != "" || want != "" && s.Count("POST ") > 0 {
			t.Errorf("%.120s: %s\nwant %s, and no run", body, g.text, want)
		}
	}
}
