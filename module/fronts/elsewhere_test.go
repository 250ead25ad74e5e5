package fronts_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R132: a client that has the URL of another protocol learns where its own is, in code and HTTP status as for any unknown method.
func TestR132MethodsOfOtherFronts(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a /agents/a", "mcp"))
	rpc := func(method string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{}}`
	}
	check := func(path, method, has string, header ...string) {
		t.Helper()
		client := c.Client.With(testbed.Fresh(), testbed.Header("Content-Type", "application/json")) // a reload drops idle connections
		status := 200
		for i := 0; i < len(header); i += 2 {
			client = client.With(testbed.Header(header[i], header[i+1]))
			status = 404
		}
		a := (&visit{"POST", path, rpc(method), status, has}).check(t, client, base(c))
		if !strings.Contains(string(a.Body), `"code":-32601`) {
			t.Errorf("%s at %s: %s", method, path, a.Body)
		}
	}
	const (
		toRPC, toMCP, toA2A       = `method of the Skills Protocol, which is at /rpc"`, `method of MCP, which is at /mcp`, `method of A2A, which is at /agents/a`
		dataRPC, dataMCP, dataA2A = `"protocol":"skills_protocol","endpoint":"/rpc"`, `"protocol":"mcp","endpoint":"/mcp"`, `"protocol":"a2a","endpoint":"/agents/a"`
	)
	for _, v := range []struct{ path, method, message, data string }{
		{"/rpc", "initialize", toMCP, dataMCP},
		{"/rpc", "tools/list", toMCP, dataMCP},
		{"/rpc", "tools/call", toMCP, dataMCP},
		{"/rpc", "ping", toMCP, dataMCP},
		{"/rpc", "server/discover", toMCP, dataMCP},
		{"/rpc", "logging/setLevel", toMCP, dataMCP},
		{"/rpc", "SendMessage", toA2A, dataA2A},
		{"/rpc", "message/send", toA2A, dataA2A},
		{"/rpc", "tasks/send", toA2A, dataA2A},
		{"/rpc", "agent/getAuthenticatedExtendedCard", toA2A, dataA2A},
		{"/rpc", "tasks/get", toMCP + ", and of A2A, which is at /agents/a", dataMCP},
		{"/rpc", "tools/call", "here, execute_skill is the method for it", `"candidates":["execute_skill"]`},
		{"/mcp", "execute_skill", toRPC, dataRPC},
		{"/mcp", "list_skills", toRPC, dataRPC},
		{"/mcp", "run_code", toRPC, dataRPC},
		{"/mcp", "rpc.discover", toRPC, dataRPC},
		{"/mcp", "message/send", toA2A, dataA2A},
		{"/mcp", "SendMessage", toA2A, dataA2A},
		{"/mcp", "nope", "Method not found: nope", `!"protocol"`},
		{"/mcp", "tasks/get", "Method not found: tasks/get", `!"protocol"`},
		{"/agents/a", "tools/call", toMCP, `"endpoint":"/mcp"`},
		{"/agents/a", "initialize", toMCP, `"endpoint":"/mcp"`},
		{"/agents/a", "execute_skill", toRPC, `"endpoint":"/rpc"`},
		{"/agents/a/acme.echo", "tools/list", toMCP, `"protocol":"mcp"`},
		{"/agents/a", "Nope", `"Method not found"`, `!"protocol"`},
		{"/rpc", "nope", "load_skills_protocol_guide", `!"protocol"`},
	} {
		check(v.path, v.method, v.message)
		check(v.path, v.method, v.data)
	}
	check("/mcp", "execute_skill", toRPC, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "execute_skill")
	reload := func(around func(string) string, lines ...string) {
		t.Helper()
		if err := c.Reload(inSite(p, around, lines...)); err != nil {
			t.Fatal(err)
		}
	}
	reload(alone, "mcp {", "versions 2026-07-28", "}")
	check("/mcp", "execute_skill", `method of the Skills Protocol, which is not offered here"`)
	check("/mcp", "SendMessage", `!"endpoint"`)
	reload(alone)
	check("/", "tools/list", `method of MCP, which is not offered here`)
	check("/", "tasks/get", `!"endpoint"`)
	reload(func(bridge string) string { return "handle_path /x/* {\n" + bridge + "\n}\nrespond passed 418" }, "rpc", "mcp /tools")
	check("/x/rpc", "tools/list", `"endpoint":"/x/tools"`)
	check("/x/rpc", "SendMessage", `which is not offered here`)
}
