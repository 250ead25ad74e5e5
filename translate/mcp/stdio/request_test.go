package stdio_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/stdio"
)

// TestRequests: requests are those of Streamable HTTP, in both eras.
func TestRequests(t *testing.T) {
	encoded := func(text string) string {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(text)) + "?="
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`
	for _, tc := range []struct {
		name     string
		messages []string
		want     map[string]string // of the last message
	}{
		{"legacy, before initialize", []string{request(1, "ping")}, map[string]string{}},
		{"initialize again", []string{initialize, initialize}, map[string]string{}},
		{"legacy", []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`}, map[string]string{"Mcp-Protocol-Version": "2025-06-18"}},
		{"a legacy notification", []string{initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`}, map[string]string{"Mcp-Protocol-Version": "2025-06-18"}},
		{"modern", []string{`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover",
		}},
		{"modern, after initialize", []string{initialize, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
		}},
		{"a tool", []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_weather",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "acme_weather",
		}},
		{"a resource", []string{`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{` + meta + `,"name":"x","uri":"skill://a/SKILL.md"}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": "skill://a/SKILL.md",
		}},
		{"a task", []string{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{` + meta + `,"taskId":"t"}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tasks/get", "Mcp-Name": "t",
		}},
		{"no name", []string{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"":"x",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call",
		}},
		{"an encoded name", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"h\u00f6r zu\n",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded("hör zu\n"),
		}},
		{"a name with spaces", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":" a b",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded(" a b"),
		}},
		{"a name that looks encoded", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"=?base64?YQ==?=",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded("=?base64?YQ==?="),
		}},
		{"an empty name", []string{`{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"",` + meta + `}}`}, map[string]string{
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "prompts/get", "Mcp-Name": encoded(""),
		}},
		{"a version that no header can have", []string{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"a\r\nX: y"}}}`}, map[string]string{
			"Mcp-Method": "ping",
		}},
		{"a version that is no text", []string{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1}}}`}, map[string]string{
			"Mcp-Method": "ping",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var header http.Header
				var body, method string
				do := stdio.InProcess(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					text, _ := io.ReadAll(r.Body)
					header, body, method = r.Header, string(text), r.Method
					if strings.Contains(body, `"initialize"`) {
						_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18"}}`)
						return
					}
					w.WriteHeader(http.StatusAccepted)
				}))
				c := start(t, do, stdio.Options{}).reads()
				for _, m := range tc.messages {
					c.send(m)
					synctest.Wait()
				}
				c.end()
				synctest.Wait()
				if last := tc.messages[len(tc.messages)-1]; body != last || method != http.MethodPost {
					t.Errorf("%s %s", method, body)
				}
				if header.Get("Content-Type") != "application/json" || header.Get("Accept") != "application/json, text/event-stream" {
					t.Errorf("%v", header)
				}
				for _, name := range []string{"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"} {
					want, wanted := tc.want[name]
					if values := header.Values(name); len(values) > 0 != wanted || wanted && values[0] != want {
						t.Errorf("%s is %q, want %q", name, values, want)
					}
				}
			})
		})
	}
}
