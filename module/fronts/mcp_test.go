package fronts_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// modern returns the body of a modern request; params are its other params.
func modern(method, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + modernMeta + `}}`
}

// mcpHeader returns the header fields of a modern request.
func mcpHeader(method, name string) []string {
	fields := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		fields = append(fields, "Mcp-Name", name)
	}
	return fields
}

// legacyHeader returns the header fields of a legacy request.
func legacyHeader(version string) []string { return []string{"Mcp-Protocol-Version", version} }

// sendMCP sends a body with header fields; an empty value leaves a field out.
func sendMCP(c *testbed.Caddy, body string, fields ...string) testbed.Answer {
	options := []testbed.Option{testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Accept", "application/json, text/event-stream")}
	for i := 0; i+1 < len(fields); i += 2 {
		options = append(options, testbed.Header(fields[i], fields[i+1]))
	}
	return c.With(options...).Send(http.MethodPost, base(c)+"/mcp", body)
}

// Section 1 of the settled text: which requests are answered, and with which statuses and errors.
func TestMCPRequests(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp", "rpc"))
	call := modern("tools/call", `"name":"acme_echo"`)
	encoded := "=?base64?" + base64.StdEncoding.EncodeToString([]byte("acme_echo")) + "?="
	for _, v := range []struct {
		about, body string
		header      []string
		status      int
		has         string
	}{
		{"discover", modern("server/discover", ""), mcpHeader("server/discover", ""), 200, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`},
		{"list", modern("tools/list", ""), mcpHeader("tools/list", ""), 200, `"name":"acme_echo"`},
		{"call", call, mcpHeader("tools/call", "acme_echo"), 200, `"structuredContent":{`},
		{"call by the bridge's name", modern("tools/call", `"name":"acme.echo"`), mcpHeader("tools/call", "acme.echo"), 200, `"structuredContent":{`},
		{"encoded name", call, mcpHeader("tools/call", encoded), 200, `"resultType":"complete"`},
		{"spaces in the header", call, mcpHeader("tools/call", "  acme_echo "), 200, `"resultType":"complete"`},
		{"another name in the header", call, mcpHeader("tools/call", "acme_Echo"), 400, "-32020"},
		{"bad base64 in the header", call, mcpHeader("tools/call", "=?base64?%%?="), 400, "-32020"},
		{"no name in the header", call, mcpHeader("tools/call", ""), 400, "-32020"},
		{"another method in the header", call, mcpHeader("tools/list", "acme_echo"), 400, "-32020"},
		{"no method in the header", call, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Name", "acme_echo"}, 400, "-32020"},
		{"no version in the header", call, []string{"Mcp-Method", "tools/call", "Mcp-Name", "acme_echo"}, 400, "-32020"},
		{"another version in the header", call, []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/call", "Mcp-Name", "acme_echo"}, 400, "-32020"},
		{"unknown version", strings.ReplaceAll(call, "2026-07-28", "2030-01-01"), []string{"Mcp-Protocol-Version", "2030-01-01", "Mcp-Method", "tools/call", "Mcp-Name", "acme_echo"}, 400, `"requested":"2030-01-01"`},
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, mcpHeader("tools/list", ""), 400, "-32602"},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, mcpHeader("tools/list", ""), 400, "-32602"},
		{"no capabilities", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, mcpHeader("tools/list", ""), 400, "-32602"},
		{"unknown method", modern("tools/nope", ""), mcpHeader("tools/nope", ""), 404, "-32601"},
		{"legacy method", modern("ping", ""), mcpHeader("ping", ""), 404, "-32601"},
		{"legacy unknown method", `{"jsonrpc":"2.0","id":1,"method":"tools/nope"}`, legacyHeader("2025-11-25"), 200, "-32601"},
		{"legacy ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeader("2025-06-18"), 200, `"result":{}`},
		{"legacy without a version", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, 200, `"result":{}`},
		{"legacy with Mcp-Method", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "ping"}, 200, `"result":{}`},
		{"legacy unknown version", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, legacyHeader("2024-11-05"), 400, "-32022"},
		{"legacy discover", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, legacyHeader("2025-11-25"), 200, "-32601"},
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}`, nil, 200, `"protocolVersion":"2025-06-18"`},
		{"initialize with an unknown version", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{}}}`, nil, 200, `"protocolVersion":"2025-11-25"`},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ""},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, legacyHeader("2025-11-25"), 202, ""},
		{"not JSON", `{`, nil, 400, `{"jsonrpc":"2.0","error":{"code":-32700`},
		{"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}", nil, 400, "-32700"},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, legacyHeader("2025-11-25"), 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"boolean id", `{"jsonrpc":"2.0","id":true,"method":"ping"}`, nil, 400, `{"jsonrpc":"2.0","error":{"code":-32600`},
		{"a member twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}`, nil, 400, `"code":-32600`},
		{"too large", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`, []string{"Expect", "100-continue"}, 413, "-32600"},
		{"unknown tool", modern("tools/call", `"name":"acme_nope"`), mcpHeader("tools/call", "acme_nope"), 200, `"code":-32602`},
		{"arguments are no object", modern("tools/call", `"name":"acme_echo","arguments":[]`), mcpHeader("tools/call", "acme_echo"), 200, `"code":-32602`},
		{"no name", modern("tools/call", ""), mcpHeader("tools/call", "x"), 200, `"code":-32602`},
		{"unknown cursor", modern("tools/list", `"cursor":"bm90aGluZw"`), mcpHeader("tools/list", ""), 200, `"code":-32602`},
		{"empty cursor", modern("tools/list", `"cursor":""`), mcpHeader("tools/list", ""), 200, `"code":-32602`},
		{"tasks without the extension", modern("tasks/get", `"taskId":"x"`), mcpHeader("tasks/get", "x"), 400, `"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"tasks/list", modern("tasks/list", ""), mcpHeader("tasks/list", ""), 404, "-32601"},
		{"another media type", `{}`, []string{"Content-Type", "text/plain"}, 415, ""},
		{"content encoding", `{}`, []string{"Content-Encoding", "gzip"}, 415, ""},
		{"foreign origin", modern("tools/list", ""), append(mcpHeader("tools/list", ""), "Origin", "https://evil.example.com"), 403, ""},
		{"opaque origin", modern("tools/list", ""), append(mcpHeader("tools/list", ""), "Origin", "null"), 403, ""},
		{"loopback origin", modern("tools/list", ""), append(mcpHeader("tools/list", ""), "Origin", "http://localhost:6274"), 200, `"tools"`},
		{"foreign origin, not JSON", `{`, []string{"Origin", "https://evil.example.com"}, 403, ""},
	} {
		a := sendMCP(c, v.body, v.header...)
		if a.Err != nil || a.Status != v.status || !strings.Contains(string(a.Body), v.has) || v.has == "" && v.status == 202 && len(a.Body) > 0 {
			t.Errorf("%s: %v, %d %.600s, want %d and %s", v.about, a.Err, a.Status, a.Body, v.status, v.has)
		}
		if strings.Contains(string(a.Body), "\n") && a.Status == 200 && a.Header.Get("Content-Type") == "application/json" {
			t.Errorf("%s: the body has several lines", v.about)
		}
		if a.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%s: there is a session", v.about)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		if a := c.With(testbed.Fresh()).Send(method, base(c)+"/mcp", ""); a.Status != 405 || a.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d, %v", method, a.Status, a.Header)
		}
	}
}

// Sections 4 to 6: a run that goes on is an error with a run token, a task, or progress until its end.
func TestMCPSlowTools(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(3))
	c := testbed.StartCaddy(t, inSite(p, alone, "wait 50ms", "mcp {\ntask_after 0s\n}", "poll_interval 200ms 200ms"))
	plain := sendMCP(c, modern("tools/call", `"name":"acme_slow"`), mcpHeader("tools/call", "acme_slow")...)
	if text := string(plain.Body); !strings.Contains(text, `"code":"STILL_RUNNING"`) || !strings.Contains(text, `"isError":true`) || !strings.Contains(text, "get_run") {
		t.Fatalf("%s", text)
	}
	_, rest, _ := strings.Cut(string(plain.Body), `"runToken":"`)
	token, _, _ := strings.Cut(rest, `"`)
	var follow testbed.Answer
	testbed.Eventually(t, 20*time.Second, func() bool {
		follow = sendMCP(c, modern("tools/call", `"name":"get_run","arguments":{"run_token":"`+token+`"}`), mcpHeader("tools/call", "get_run")...)
		return strings.Contains(string(follow.Body), `"structuredContent"`)
	}, "get_run answers as the call would have")

	tasks := strings.Replace(modern("tools/call", `"name":"acme_slow"`), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	made := sendMCP(c, tasks, mcpHeader("tools/call", "acme_slow")...)
	_, rest, _ = strings.Cut(string(made.Body), `"taskId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if text := string(made.Body); id == "" || !strings.Contains(text, `"resultType":"task"`) || !strings.Contains(text, `"status":"working"`) || !strings.Contains(text, `"ttlMs":86400000`) {
		t.Fatalf("%s", text)
	}
	about := func(method, id string) testbed.Answer {
		body := strings.Replace(modern(method, `"taskId":"`+id+`"`), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
		return sendMCP(c, body, mcpHeader(method, id)...)
	}
	var got testbed.Answer
	testbed.Eventually(t, 20*time.Second, func() bool {
		got = about("tasks/get", id)
		return strings.Contains(string(got.Body), `"status":"completed"`)
	}, "the task completes")
	if text := string(got.Body); !strings.Contains(text, `"result":{`) || !strings.Contains(text, `"structuredContent":{`) || strings.Contains(text, "requestState") {
		t.Errorf("%s", text)
	}
	for name, other := range map[string]string{"forged": "AAAA", "changed": id[:len(id)-2] + "AA", "cut": id[:40]} {
		if a := about("tasks/get", other); !strings.Contains(string(a.Body), `"code":-32602,"message":"Task not found"`) {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
	second := sendMCP(c, tasks, mcpHeader("tools/call", "acme_slow")...)
	_, rest, _ = strings.Cut(string(second.Body), `"taskId":"`)
	id, _, _ = strings.Cut(rest, `"`)
	if a := about("tasks/cancel", id); a.Status != 200 || strings.Contains(string(a.Body), "error") {
		t.Errorf("%s", a.Body)
	}
	if a := about("tasks/get", id); !strings.Contains(string(a.Body), `"status":"cancelled"`) {
		t.Errorf("%s", a.Body)
	}
}

// Section 6: progress, then the answer as the last event.
func TestMCPProgress(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/quick"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(2))
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp", "poll_interval 200ms 200ms"))
	body := strings.Replace(modern("tools/call", `"name":"acme_slow"`), `"_meta":{`, `"_meta":{"progressToken":"p1",`, 1)
	a := sendMCP(c, body, mcpHeader("tools/call", "acme_slow")...)
	events := strings.Split(strings.TrimSpace(string(a.Body)), "\n\n")
	last := events[len(events)-1]
	if a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("X-Accel-Buffering") != "no" || len(events) < 2 ||
		!strings.Contains(events[0], `"method":"notifications/progress","params":{"progressToken":"p1","progress":`) || !strings.Contains(last, `"structuredContent"`) {
		t.Errorf("%v %s", a.Header, a.Body)
	}
	quick := sendMCP(c, strings.ReplaceAll(body, "acme_slow", "acme_quick"), mcpHeader("tools/call", "acme_quick")...)
	if quick.Header.Get("Content-Type") != "application/json" {
		t.Errorf("a run that completes at once: %v", quick.Header)
	}
}
