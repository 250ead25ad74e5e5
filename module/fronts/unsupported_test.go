package fronts_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R140: a skill that takes requests of a type that is not JSON follows the protocol, but can't be called: its calls are refused before anything is
// sent, it has a state of its own, and lists of what can be called do not have it. JSON types are sent as they are.
func TestR140UnsupportedContentType(t *testing.T) {
	endpoint := func(id, method, contentType string) hostile.Skill {
		knowledge := func(o hostile.Object) { o["capability_type"] = "knowledge" }
		return hostile.Skill{ID: id, EditEntry: knowledge, Edit: func(d hostile.Object) {
			knowledge(d)
			d["endpoint"].(hostile.Object)["method"], d["endpoint"].(hostile.Object)["content_type"] = method, contentType
		}}
	}
	p := hostile.NewProvider(t, endpoint("acme/form", "POST", "multipart/form-data; boundary=x"), endpoint("acme/xml", "PUT", "TEXT/XML"), endpoint("acme/jsonp", "POST", "application/jsonp"),
		endpoint("acme/get", "GET", "text/plain"), endpoint("acme/json", "POST", `application/vnd.acme+json; v="2"`), hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, alone, "browse", "rpc", "a2a", "mcp", "agent_skills"))
	rpc := func(method, params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`
	}
	client := c.With(testbed.Header("Content-Type", "application/json"))
	const list = `{"usable":true,"detail":"names"}`
	const send = `"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.form"}}]}`
	for range 2 { // before the descriptors are known, and after
		for _, v := range []visit{
			{"POST", "/mcp", rpc("tools/list", `{}`), 200, `!acme_form`},
			{"POST", "/mcp", rpc("tools/list", `{}`), 200, `"acme_json"`},
			{"POST", "/mcp", rpc("prompts/list", `{}`), 200, `!acme_xml`},
			{"POST", "/mcp", rpc("prompts/list", `{}`), 200, `"acme_get"`},
			{"POST", "/rpc", rpc("list_skills", list), 200, `!acme.jsonp`},
			{"POST", "/rpc", rpc("list_skills", list), 200, `"acme.get"`},
			{"POST", "/rpc", rpc("list_skills", `{"detail":"tools"}`), 200, `!acme_form`},
			{"GET", "/.well-known/agent-skills/index.json", "", 200, `!acme-form`},
			{"GET", "/.well-known/agent-card.json", "", 200, `!acme.form`},
			{"GET", "/.well-known/agent-card.json", "", 200, `acme.get`},
			{"GET", "/a2a/acme.form", "", 404, ""},
			{"POST", "/rpc", rpc("list_skills", `{}`), 200, `"name":"acme.form","tool_name":"acme_form","version":"1.0.0","description":"Does something.","state":"unsupported"`},
			{"POST", "/rpc", rpc("describe_skill", `{"name":"acme.xml"}`), 200, `"state":"unsupported"`},
			{"POST", "/rpc", rpc("describe_skill", `{"name":"acme.get"}`), 200, `"state":"available"`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.form"}`), 200, `"code":-32055`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.form","args":7}`), 200, `"param":"args"`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.form"}`), 200, `"details":{"reason":"unsupported_content_type","path":"/endpoint/content_type","content_type":"multipart/form-data; boundary=x"}`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.xml"}`), 200, `"next":"other_skill"`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.jsonp"}`), 200, `"executed":"no"`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.json"}`), 200, `"completed"`},
			{"POST", "/rpc", rpc("execute_skill", `{"name":"acme.get"}`), 200, `"completed"`},
			{"POST", "/mcp", rpc("tools/call", `{"name":"acme_form"}`), 200, `multipart/form-data; boundary=x, and bridges send only JSON. Use another tool.`},
			{"POST", "/mcp", rpc("prompts/get", `{"name":"acme_xml"}`), 200, `and bridges send only JSON`},
			{"POST", "/a2a", rpc("SendMessage", `{`+send+`}`), 200, `TASK_STATE_REJECTED`},
			{"POST", "/a2a", rpc("SendMessage", `{`+send+`}`), 200, `unsupported_content_type`},
		} {
			v.check(t, client, base(c))
		}
	}
	for _, v := range []visit{
		{"GET", "/rpc?skill=acme.form", "", 200, "not supported"},
		{"GET", "/rpc?skill=acme.form", "", 200, "bridges send only JSON"},
		{"GET", "/rpc?skill=acme.form", "", 200, `!class="try"`},
		{"GET", "/rpc?state=unsupported", "", 200, `data-name="acme.form"`},
		{"GET", "/rpc?state=unsupported", "", 200, `!data-name="acme.get"`},
	} {
		page := c.With(testbed.Header("Accept", "text/html"))
		v.check(t, page, base(c))
	}
	for _, id := range []string{"acme/form", "acme/xml", "acme/jsonp"} {
		if sent := p.Requests(id, hostile.Invoke); len(sent) > 0 {
			t.Errorf("%s was invoked: %+v", id, sent)
		}
	}
	for _, r := range p.Requests("acme/json", hostile.Invoke) {
		if got := r.Header.Get("Content-Type"); got != `application/vnd.acme+json; v="2"` {
			t.Errorf("sent as %s", got)
		}
	}
}
