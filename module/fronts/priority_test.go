package fronts_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

var refused = regexp.MustCompile(`none of those that callers of this bridge may ask for: low|'priority' must be a non-empty string`)

// Callers choose the priority of a run, in each protocol, up to the operator's. Nothing is sent to a provider with one above it.
func TestPriorityOfCallers(t *testing.T) {
	knowledge := func(of hostile.Object) { of["capability_type"] = "knowledge" } // so that it is a prompt, too
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: knowledge, EditEntry: knowledge})
	endpoints := map[string]string{
		"/rpc": `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo","priority":%s}}`,
		"/a2a": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.echo"}}]},` +
			`"metadata":{"` + wire.Extension + `":{"priority":%s}}}}`,
		"/mcp":        `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_echo","arguments":{},"_meta":{"io.github.skill-bridge/priority":%s}}}`,
		"/mcp?prompt": `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"acme_echo","_meta":{"io.github.skill-bridge/priority":%s}}}`,
	}
	for option, wants := range map[string]map[string]string{
		"priority low":  {`null`: "low", `"low"`: "low", `"normal"`: "", `"high"`: ""},
		"":              {`null`: "normal", `"low"`: "low", `"normal"`: "normal", `"high"`: "", `"urgent"`: "", `"LOW"`: "", `3`: "", `["low"]`: "", `""`: ""},
		"priority high": {`null`: "normal", `"low"`: "low", `"high"`: "high"},
	} {
		c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a", "mcp", option))
		for path, body := range endpoints {
			for asked, want := range wants {
				before := len(p.Requests("acme/echo", hostile.Invoke))
				a := c.Send("POST", base(c)+path, fmt.Sprintf(body, asked))
				sent := p.Requests("acme/echo", hostile.Invoke)[before:]
				switch {
				case want == "" && (len(sent) != 0 || !refused.Match(a.Body) || strings.Contains(string(a.Body), "batch")):
					t.Errorf("%s, %s, %s: %d requests, %s", option, path, asked, len(sent), a.Body)
				case want != "" && (len(sent) != 1 || !strings.Contains(sent[0].Body, `"priority":"`+want+`"`)):
					t.Errorf("%s, %s, %s: %d requests, %s", option, path, asked, len(sent), a.Body)
				}
			}
		}
		a := c.Send("POST", base(c)+"/rpc", fmt.Sprintf(endpoints["/rpc"], `"soon"`))
		if a.Code != -32602 || a.Data.Param != "priority" || a.Data.Executed != "no" || a.Data.Reason != "schema" {
			t.Errorf("%s: %s", option, a.Body)
		}
		c.Stop()
	}
}
