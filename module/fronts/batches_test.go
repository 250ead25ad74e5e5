package fronts_test

import (
	"encoding/json" // answers are maps
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R131: batches of MCP 2025-03-26, the version of requests that name none, are served within max_batch; other versions refuse them.
func TestR131BatchesOfMCP(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp", "max_batch 5"))
	const (
		ping     = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		list     = `{"jsonrpc":"2.0","id":"b","method":"tools/list","params":null}`
		call     = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"acme_echo","arguments":{"call":"batch"},"_meta":{"progressToken":1}}}`
		told     = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		response = `{"jsonrpc":"2.0","id":9,"result":{}}`
		modern   = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		begin    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`
	)
	headers := func(pairs ...string) *testbed.Client {
		client := c.Client.With(testbed.Header("Content-Type", "application/json"), testbed.Header("Accept", "application/json, text/event-stream"))
		for i := 0; i < len(pairs); i += 2 {
			client = client.With(testbed.Header(pairs[i], pairs[i+1]))
		}
		return client
	}
	for _, v := range []struct {
		body   string
		status int
		has    string
	}{
		{"[" + ping + "," + told + "," + list + "," + response + "," + call + "]", 200, `{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{"tools":[`},
		{"[" + ping + "]", 200, `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"[" + told + "," + response + "]", 202, ""},
		{"[" + told + "]", 202, ""},
		{"[" + begin + "," + ping + "]", 200, `"error":{"code":-32600,"message":"Invalid Request: initialize must not be part of a batch"}},{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"[" + modern + "]", 200, `-32020`},
		{"[1," + ping + "]", 200, `[{"jsonrpc":"2.0","error":{"code":-32600,`},
		{"[]", 400, `-32600`},
		{"[" + ping + "," + ping + "," + ping + "," + ping + "," + ping + "]", 200, `}},{`},
		{"[" + ping + "," + ping + "," + ping + "," + ping + "," + ping + "," + told + "]", 400, `max_batch`},
		{"[" + ping, 400, `-32700`},
	} {
		for _, client := range []*testbed.Client{headers(), headers("MCP-Protocol-Version", "2025-03-26"), headers("MCP-Protocol-Version", "2025-03-26", "Mcp-Method", "ping")} {
			a := (&visit{"POST", "/mcp", v.body, v.status, v.has}).check(t, client, base(c))
			if strings.Contains(string(a.Body), "initialize") && strings.Contains(string(a.Body), "serverInfo") {
				t.Errorf("%s: %s", v.body, a.Body)
			}
		}
	}
	var answers []map[string]any
	a := c.Send("POST", base(c)+"/mcp", "["+told+","+call+","+list+"]")
	if err := json.Unmarshal(a.Body, &answers); err != nil || len(answers) != 2 || answers[0]["id"] != 3.0 || answers[1]["id"] != "b" || !strings.Contains(string(a.Body), `"call":"batch"`) {
		t.Errorf("%v: %s", err, a.Body)
	}
	for _, client := range []*testbed.Client{
		headers("MCP-Protocol-Version", "2025-06-18"), headers("MCP-Protocol-Version", "2025-11-25"), headers("MCP-Protocol-Version", "2026-07-28"), headers("MCP-Protocol-Version", "2024-11-05"), headers("Mcp-Method", "ping"),
	} {
		(&visit{"POST", "/mcp", "[" + ping + "]", 400, `-32600`}).check(t, client, base(c))
	}
	reload := func(lines ...string) {
		t.Helper()
		if err := c.Reload(inSite(p, alone, lines...)); err != nil {
			t.Fatal(err)
		}
	}
	reload("mcp {", "versions 2025-11-25 2026-07-28", "}")
	(&visit{"POST", "/mcp", "[" + ping + "]", 400, `-32600`}).check(t, c.Client, base(c))
	reload("mcp {", "authorization_server https://login.example.com", "}", "require_principal")
	for _, body := range []string{"[" + ping + "," + list + "]", "[" + ping + "," + told + "]"} {
		if a := (&visit{"POST", "/mcp", body, 401, `-32600`}).check(t, c.Client, base(c)); !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer resource_metadata=") {
			t.Errorf("%v", a.Header)
		}
	}
}
