package observe

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
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
		{"unknown method", "canary", `{}`, "unknown  invalid_arguments   failed"},
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

// TestMCPInAuditAccessLogAndTraces: calls of tools and tasks, and what fails, are in the audit log; each request has its call in the
// access log and is a span below that of the request.
func TestMCPInAuditAccessLogAndTraces(t *testing.T) {
	spans := collect(t)
	file := filepath.Join(t.TempDir(), "access.log")
	a := startAgent(t, "", append([]string{"tracing", "log {", "output file " + file, "}"}, appended...), []string{"mcp"})
	call := func(name, arguments string) string { return `"name":"` + name + `","arguments":` + arguments }
	const canary = `{"text":"canary"}`
	type traced struct{ id, method, failure string }
	var traces []traced
	for _, tc := range []struct {
		about, method, name, params     string
		outcome, skill, audited, status string // audited: operation and whether it was executed; status: the error of the span
	}{
		{"a call", "tools/call", "acme_text", call("acme_text", canary), "completed", "acme/text", "execute yes", ""},
		{"wrong input", "tools/call", "acme_text", call("acme_text", `{"text":["canary"]}`), "invalid_arguments", "acme/text", "execute no", "VALIDATION_ERROR"},
		{"unknown tool", "tools/call", "acme_none", call("acme_none", canary), "skill_not_found", "", "execute no", "SKILL_NOT_FOUND"},
		{"provider down", "tools/call", "acme_down", call("acme_down", `{}`), "unreachable", "acme/down", "execute maybe", "ENDPOINT_UNREACHABLE"},
		{"tools", "tools/list", "", "", "completed", "", "", ""},
		{"a resource", "resources/read", "skill://acme.echo/SKILL.md", `"uri":"skill://acme.echo/SKILL.md"`, "completed", "acme/echo", "", ""},
		{"a forged task", "tasks/get", "canary", `"taskId":"canary"`, "invalid_arguments", "", "follow no", "VALIDATION_ERROR"},
		{"cancelling one", "tasks/cancel", "canary", `"taskId":"canary"`, "invalid_arguments", "", "follow no", "VALIDATION_ERROR"},
		{"a forged cursor", "tools/list", "x", `"cursor":"canary"`, "invalid_arguments", "", "list no", "VALIDATION_ERROR"},
	} {
		fields := func(file string) (all []map[string]any) {
			text, _ := os.ReadFile(file)
			for line := range strings.Lines(string(text)) {
				var fields map[string]any
				if json.Unmarshal([]byte(line), &fields) == nil {
					all = append(all, fields)
				}
			}
			return all
		}
		const auditor = `http.handlers.skill_bridge.audit"`
		before, audited := len(fields(file)), len(a.Log.Lines(auditor))
		params := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
		if tc.params != "" {
			params = tc.params + "," + params
		}
		client := a.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Header("Content-Type", "application/json"),
			testbed.Header("Mcp-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", tc.method), testbed.Header("Mcp-Name", tc.name))
		answer := client.Send(http.MethodPost, "http://127.0.0.1:"+a.Port("PORT")+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+tc.method+`","params":{`+params+`}}`)
		if answer.Err != nil {
			t.Fatal(answer)
		}
		var lines []map[string]any
		testbed.Eventually(t, 20*time.Second, func() bool { lines = fields(file); return len(lines) > before }, "a line in the access log")
		line := lines[before]
		skill, _ := line["skill_bridge_skill"].(string)
		trace, _ := line["skill_bridge_trace_id"].(string)
		if line["skill_bridge_method"] != tc.method || line["skill_bridge_outcome"] != tc.outcome || skill != tc.skill || len(trace) != 32 || line["skill_bridge_calls"] != nil {
			t.Errorf("%s: the access log has %v", tc.about, line)
		}
		checkAppended(t, line)
		switch of := a.Log.Lines(auditor)[audited:]; {
		case tc.audited == "" && len(of) > 0, tc.audited != "" && len(of) != 1:
			t.Errorf("%s: the audit log has %q", tc.about, of)
		case tc.audited != "":
			operation, executed, _ := strings.Cut(tc.audited, " ")
			for _, want := range []string{`"principal":"ada"`, `"operation":"` + operation + `"`, `"executed":"` + executed + `"`, `"outcome":"` + tc.outcome + `"`, `"trace_id":"` + trace + `"`} {
				if !strings.Contains(of[0], want) {
					t.Errorf("%s: the audit log has no %s: %s", tc.about, want, of[0])
				}
			}
		}
		traces = append(traces, traced{trace, tc.method, tc.status})
	}
	a.Stop() // sends the spans
	for _, want := range traces {
		all := spans.of(want.id)
		at := slices.IndexFunc(all, func(s *collected) bool { return s.scope == tracerName && s.Kind == tracepb.Span_SPAN_KIND_SERVER })
		if at < 0 || !slices.ContainsFunc(all, func(s *collected) bool { return string(s.SpanId) == string(all[at].ParentSpanId) }) {
			t.Errorf("no span of %s below that of the request: %s", want.method, tree(t, all))
			continue
		}
		attributes, failed := describeAttributes(all[at].Attributes), all[at].Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR
		if !slices.Contains(attributes, "front=mcp") || !slices.Contains(attributes, "rpc.method="+want.method) ||
			failed != (want.failure != "") || failed && !slices.Contains(attributes, "error.type="+want.failure) {
			t.Errorf("the span of %s (%q) has %v, %q", want.method, want.failure, all[at].Status, attributes)
		}
	}
	a.Log.MustNotShow("canary")
}
