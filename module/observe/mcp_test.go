package observe

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/testbed"
)

// toolCalls returns what the log says about calls of MCP: method, operation, outcome, source and skill of each, and how it ended.
func (a *agent) toolCalls() (found []string) {
	a.t.Helper()
	for _, line := range a.Log.Lines(`"front":"mcp"`, `"msg":"call `) {
		var fields struct {
			Msg, Method, Operation, Outcome, Source string
			SkillID                                 string `json:"skill_id"`
		}
		if err := json.Unmarshal([]byte(line), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
			a.t.Fatal(err)
		}
		end := strings.TrimPrefix(fields.Msg, "call ")
		found = append(found, strings.Join([]string{fields.Method, fields.Operation, fields.Outcome, fields.Source, fields.SkillID, end}, " "))
	}
	return found
}

// TestReportsOfMCP: each request is one call in the log and in the metrics, with its outcome and what it is about.
func TestReportsOfMCP(t *testing.T) {
	countAnew(t)
	a := startAgent(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n", nil, []string{"mcp"})
	call := func(name, arguments string) string { return `{"name":"` + name + `","arguments":` + arguments + `}` }
	total := scrape(t, a.Caddy).of("calls_total")
	for _, tc := range []struct{ name, method, params, want string }{
		{"a call", "tools/call", call("acme_echo", `{}`), "tools/call execute completed acme acme/echo completed"},
		{"wrong input", "tools/call", call("acme_text", `{"text":1}`), "tools/call execute invalid_arguments acme acme/text failed"},
		{"unknown tool", "tools/call", call("acme_none", `{}`), "tools/call execute skill_not_found acme  failed"},
		{"no credential", "tools/call", call("acme_key", `{}`), "tools/call execute auth_required acme acme/key failed"},
		{"provider down", "tools/call", call("acme_down", `{}`), "tools/call execute unreachable acme acme/down failed"},
		{"no name", "tools/call", `{}`, "tools/call execute invalid_arguments   failed"},
		{"arguments that are no object", "tools/call", call("acme_echo", `1`), "tools/call execute invalid_arguments   failed"},
		{"no such run", "tools/call", call("get_run", `{"run_token":"x"}`), "tools/call execute invalid_arguments   failed"},
		{"tools", "tools/list", `{}`, "tools/list list completed   completed"},
		{"a cursor of others", "tools/list", `{"cursor":"x"}`, "tools/list list invalid_arguments   failed"},
		{"resources", "resources/list", `{}`, "resources/list list completed   completed"},
		{"templates", "resources/templates/list", `{}`, "resources/templates/list describe completed   completed"},
		{"a resource", "resources/read", `{"uri":"skill://acme.echo/SKILL.md"}`, "resources/read describe completed acme acme/echo completed"},
		{"no such resource", "resources/read", `{"uri":"skill://acme.none/SKILL.md"}`, "resources/read describe skill_not_found acme  failed"},
		{"prompts", "prompts/list", `{}`, "prompts/list list completed   completed"},
		{"no such prompt", "prompts/get", `{"name":"acme_echo"}`, "prompts/get execute invalid_arguments acme acme/echo failed"},
		{"completion", "completion/complete", `{"ref":{"type":"ref/resource","uri":"skill://{name}/{file}"},"argument":{"name":"name","value":"a"}}`, "completion/complete describe completed   completed"},
		{"initialize", "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, "initialize describe completed   completed"},
		{"ping", "ping", `{}`, "ping describe completed   completed"},
		{"unknown method", "canary", `{}`, "unknown describe invalid_arguments   failed"},
		{"a task", "tasks/get", `{"taskId":"x"}`, "tasks/get follow invalid_arguments   failed"},
	} {
		before := len(a.toolCalls())
		client := a.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Header("Content-Type", "application/json"))
		answer := client.Send(http.MethodPost, "http://127.0.0.1:"+a.Port("PORT")+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+tc.method+`","params":`+tc.params+`}`)
		if answer.Err != nil {
			t.Fatal(answer)
		}
		got := strings.Join(a.toolCalls()[before:], "; ")
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		words := strings.Split(tc.want, " ")
		orNone := func(label string) string { return map[bool]string{true: labelNone, false: label}[label == ""] }
		total[fmt.Sprintf(`front="mcp",method=%q,outcome=%q,provider=%q,skill=%q`, words[0], words[2], orNone(words[3]), orNone(words[4]))]++
	}
	if got := scrape(t, a.Caddy).of("calls_total"); !maps.Equal(got, total) {
		t.Errorf("the metrics have %v, want %v", got, total)
	}
	a.Log.MustNotShow("canary")
}
