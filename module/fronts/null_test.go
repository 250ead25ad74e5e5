package fronts_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R130: params, and members of them, that are null are as absent, in each protocol and version. If a member is required, the answer says so. Only
// the arguments of a skill are passed on as they are.
func TestR130NullIsAbsent(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a", "mcp"))
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	const (
		part10 = `"metadata":null,"filename":null,"mediaType":null,"text":null,"raw":null,"url":null,"data":{"skill":"acme.echo","input":null}`
		send10 = `"message":{"messageId":"m","role":"ROLE_USER","contextId":null,"taskId":null,"extensions":null,"referenceTaskIds":null,"metadata":null,"parts":[{` + part10 + `}]},"configuration":null,"metadata":null,"tenant":null`
		send03 = `"message":{"kind":"message","messageId":"m","role":"user","contextId":null,"taskId":null,"extensions":null,"metadata":null,"parts":[{"kind":"data","metadata":null,"data":{"skill":"acme.echo"}}]}`
		send01 = `"id":"a-task-of-0.1-of-nobody","sessionId":null,"historyLength":null,"pushNotification":null,"metadata":null,"acceptedOutputModes":null,"message":{"role":"user","metadata":null,"parts":[{"type":"data","data":{"skill":"acme.echo"}}]}`
		modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":null},"progressToken":null,"traceparent":null}`
	)
	for _, v := range []struct{ path, body, has string }{
		{"/rpc", rpc("list_skills", `null`), `"acme.echo"`},
		{"/rpc", rpc("load_skills_protocol_guide", `null`), `"content"`},
		{"/rpc", rpc("rpc.discover", `null`), `"result"`},
		{"/rpc", rpc("list_skills", `{"namespace":null,"capability_type":null,"query":null,"usable":null,"detail":null,"format":null,"limit":null,"cursor":null,"other":null}`), `{"skills":[{"name":"acme.echo","tool_name":"acme_echo"`},
		{"/rpc", rpc("describe_skill", `{"name":"acme.echo","version":null,"detail":null}`), `"manifest"`},
		{"/rpc", rpc("read_skill_file", `{"name":"acme.echo","path":"SKILL.md","version":null}`), `"content"`},
		{"/rpc", rpc("execute_skill", `{"name":"acme.echo","args":null,"version":null,"timeout_ms":null,"priority":null,"wait_ms":null,"input_blobs":null,"idempotency_key":null,"notify":null}`), `"completed"`},
		{"/rpc", "[" + rpc("execute_skill", `{"name":"acme.echo","args":null}`) + "]", `"completed"`},
		{"/rpc", rpc("execute_skill", `null`), `"param":"name","reason":"required"`},
		{"/rpc", rpc("execute_skill", `{"name":null}`), `"param":"name","reason":"required"`},
		{"/rpc", rpc("read_skill_file", `{"name":"acme.echo","path":null}`), `"param":"path","reason":"required"`},
		{"/rpc", rpc("get_run", `{"run_token":null,"wait_ms":null}`), `"param":"run_token","reason":"required"`},
		{"/rpc", rpc("execute_skill", `{"name":null,"name":"acme.echo"}`), `"reason":"duplicate"`},

		{"/mcp", rpc("tools/list", `null`), `"acme_echo"`},
		{"/mcp", rpc("tools/list", `{"cursor":null,"_meta":null}`), `"acme_echo"`},
		{"/mcp", rpc("resources/list", `{"cursor":null}`), `skill://acme.echo/SKILL.md`},
		{"/mcp", rpc("resources/templates/list", `{"cursor":null}`), `skill://{name}/{file}`},
		{"/mcp", rpc("prompts/list", `{"cursor":null}`), `"prompts":[]`},
		{"/mcp", rpc("ping", `null`), `"result":{}`},
		{"/mcp", rpc("initialize", `{"protocolVersion":"2025-06-18","capabilities":null,"clientInfo":null,"_meta":null}`), `"protocolVersion":"2025-06-18"`},
		{"/mcp", rpc("tools/call", `{"name":"acme_echo","arguments":null,"_meta":{"progressToken":null}}`), `"structuredContent"`},
		{"/mcp", rpc("tools/call", `{"name":"acme_echo","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":null}}`), `"structuredContent"`},
		{"/mcp", rpc("tools/call", `{"name":"get_run","arguments":{"run_token":null,"wait_ms":null}}`), `run_token is required`},
		{"/mcp", rpc("tools/call", `{"name":null}`), `name is required`},
		{"/mcp", rpc("tools/call", `null`), `name is required`},
		{"/mcp", rpc("completion/complete", `{"ref":null,"argument":null}`), `required`},
		{"/mcp", rpc("initialize", `{"protocolVersion":null}`), `protocolVersion is required`},
		{"/mcp modern", rpc("tools/list", `{"cursor":null,`+modern+`}`), `"acme_echo"`},
		{"/mcp modern", rpc("tools/list", `{"_meta":null}`), `_meta needs the text`},

		{"/a2a", rpc("SendMessage", `{`+send10+`}`), `TASK_STATE_COMPLETED`},
		{"/a2a", rpc("SendMessage", `{`+send10[:len(send10)-len(`"configuration":null,"metadata":null,"tenant":null`)]+`"configuration":{"acceptedOutputModes":null,"historyLength":null,"returnImmediately":null,"taskPushNotificationConfig":null}}`), `TASK_STATE_COMPLETED`},
		{"/a2a", rpc("SendMessage", `{"message":null}`), `message is required`},
		{"/a2a", rpc("SendMessage", `null`), `message is required`},
		{"/a2a", rpc("ListTasks", `{"contextId":null,"status":null,"pageSize":null,"pageToken":null,"historyLength":null,"statusTimestampAfter":null,"includeArtifacts":null,"tenant":null}`), `"tasks":[]`},
		{"/a2a", rpc("ListTasks", `null`), `"tasks":[]`},
		{"/a2a", rpc("GetTask", `{"id":null,"historyLength":null}`), `id is required`},
		{"/a2a", rpc("message/send", `{`+send03+`,"configuration":null,"metadata":null}`), `"completed"`},
		{"/a2a", rpc("message/send", `{`+send03+`,"configuration":{"blocking":null,"historyLength":null,"pushNotificationConfig":null}}`), `"completed"`},
		{"/a2a", rpc("tasks/get", `{"id":null}`), `id is required`},
		{"/a2a", rpc("tasks/send", `{`+send01+`}`), `"completed"`},
		{"/a2a", rpc("tasks/send", `{"id":null,"message":null}`), `id is required`},
	} {
		client, path := c.Client.With(testbed.Header("Content-Type", "application/json")), v.path
		if path == "/mcp modern" {
			path = "/mcp"
			client = client.With(testbed.Header("MCP-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", "tools/list"))
		}
		status := 200
		if v.has == `_meta needs the text` {
			status = 400
		}
		(&visit{"POST", path, v.body, status, v.has}).check(t, client, base(c))
	}
	(&visit{"POST", "/rpc", rpc("list_skills", `{"limit":null,"other":null}`), 200, `!"ignored"`}).check(t, c.Client, base(c))
	const own = `"inputs":{"text":null}`
	(&visit{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.echo","args":{"text":null}}`), 200, `"completed"`}).check(t, c.Client, base(c))
	(&visit{"POST", "/mcp", rpc("tools/call", `{"name":"acme_echo","arguments":{"text":null}}`), 200, `"structuredContent"`}).check(t, c.Client.With(testbed.Header("Content-Type", "application/json")), base(c))
	if n := len(p.Received(own)); n != 2 {
		t.Errorf("%d calls had %s", n, own)
	}
}
