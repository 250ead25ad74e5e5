package mcp_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// FuzzFront: no request makes a panic or an answer that is neither JSON nor a refusal, whatever its body and header fields.
func FuzzFront(f *testing.F) {
	s := newServer(f, nil,
		skill("tool", nil, providertest.Input("region", "string", object{"schema": object{"x-mcp-header": "Region"}})), skill("guide", object{"capability_type": "knowledge"}))
	request := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + modernMeta + `}}`
	}
	for _, v := range [][4]string{
		{request("tools/list", `"cursor":"dDE6YQ",`), "2026-07-28", "tools/list", ""},
		{request("tools/call", `"name":"acme_tool","arguments":{"region":"eu"},`), "2026-07-28", "tools/call", "acme_tool"},
		{strings.Replace(request("tasks/get", `"taskId":"AgEAAAA",`), "Capabilities\":{}", `Capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1), "2026-07-28", "tasks/get", "AgEAAAA"},
		{request("resources/read", `"uri":"skill://acme.tool/SKILL.md",`), "2026-07-28", "resources/read", "skill://acme.tool/SKILL.md"},
		{request("prompts/get", `"name":"acme_guide","arguments":{"a":"b"},`), "2026-07-28", "prompts/get", "=?base64?YWNtZV9ndWlkZQ==?="},
		{request("completion/complete", `"ref":{"type":"ref/prompt","name":"acme_guide"},"argument":{"name":"a","value":""},`), "2026-07-28", "completion/complete", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, "", "", ""},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_run","arguments":{"run_token":"x","wait_ms":1}}}`, "2025-11-25", "", ""},
	} {
		f.Add(v[0], v[1], v[2], v[3])
	}
	f.Fuzz(func(t *testing.T, body, version, method, name string) {
		var fields []string
		for field, value := range map[string]string{"MCP-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name, "Mcp-Param-Region": name} {
			if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
				return // no HTTP client sends it
			}
			if value != "" {
				fields = append(fields, field, value)
			}
		}
		g := s.send(t, body, fields...)
		switch {
		case g.status == http.StatusAccepted && g.text == "":
		case g.body["jsonrpc"] == "2.0" && (g.body["result"] != nil) != (g.body["error"] != nil):
		default:
			t.Errorf("%d %s", g.status, g.text)
		}
	})
}
