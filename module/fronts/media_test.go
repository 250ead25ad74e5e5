package fronts_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R133: an output that is an image is one for clients of MCP and A2A, and its base64 is there once; with a schema, which demands structured content, once
// there and once as an image, but not as text. What is no image of its type stays JSON.
func TestR133ImagesInOutputs(t *testing.T) {
	png := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\xfb\xff\x00", 300)))
	schema := func(d hostile.Object) {
		d["output"] = hostile.Object{"content_type": "application/json", "schema": hostile.Object{"type": "object", "properties": hostile.Object{"data_base64": hostile.Object{"type": "string"}}}}
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/plain"}, hostile.Skill{ID: "acme/schema", Edit: schema})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a", "mcp"))
	post := func(path, body string) string {
		t.Helper()
		a := c.With(testbed.Header("Content-Type", "application/json")).Send("POST", base(c)+path, body)
		if a.Err != nil || a.Status != 200 {
			t.Fatalf("%s: %v %d %s", path, a.Err, a.Status, a.Body)
		}
		return string(a.Body)
	}
	lines := png[:76] + "\r\n" + png[76:152] + "\r\n" + png[152:]
	urlSafe := strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(png), "=")
	object := func(typeName, dataName, data string) hostile.Object {
		return hostile.Object{typeName: "image/png", dataName: data}
	}
	for about, v := range map[string]struct {
		output any
		image  bool
		rest   bool // there is more than the image
	}{
		"as the demo":      {object("media_type", "data_base64", png), true, false},
		"mediaType, data":  {object("mediaType", "data", png), true, false},
		"mime_type":        {object("mime_type", "base64", png), true, false},
		"content_type":     {object("content_type", "data", png), true, false},
		"a data URI":       {"data:image/png;base64," + png, true, false},
		"a member":         {hostile.Object{"qr": "data:image/png;base64," + png, "n": 1}, true, true},
		"in lines":         {object("media_type", "data_base64", lines), true, false},
		"base64url":        {object("media_type", "data_base64", urlSafe), true, false},
		"a nested object":  {hostile.Object{"image": object("media_type", "data_base64", png)}, true, true},
		"no image":         {object("media_type", "data_base64", base64.StdEncoding.EncodeToString([]byte("<html>not found</html>"))), false, true},
		"another type":     {hostile.Object{"media_type": "image/jpeg", "data_base64": png}, false, true},
		"not even base64":  {object("media_type", "data_base64", "see below"), false, true},
		"no output at all": {hostile.Object{}, false, true},
	} {
		p.On("acme/plain", hostile.Invoke, hostile.Complete(v.output), hostile.Complete(v.output), hostile.Complete(v.output))
		tools := post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_plain"}}`)
		const text = `"type":"text"`
		if image := strings.Contains(tools, `{"type":"image","data":"`+png+`","mimeType":"image/png"}`); image != v.image || image && (strings.Count(tools, png) != 1 || strings.Contains(tools, "structuredContent")) || strings.Contains(tools, text) != v.rest {
			t.Errorf("%s, MCP: %s", about, tools)
		}
		agent := post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.plain"}}]}}}`)
		if image := strings.Contains(agent, `{"raw":"`+png+`","mediaType":"image/png"}`); image != v.image || image && strings.Count(agent, png) != 1 || !strings.Contains(agent, "COMPLETED") {
			t.Errorf("%s, A2A: %s", about, agent)
		}
		old := post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"data","data":{"skill":"acme.plain"}}]}}}`)
		if image := strings.Contains(old, `"kind":"file"`) && strings.Contains(old, `"bytes":"`+png+`"`) && strings.Contains(old, `"mimeType":"image/png"`); image != v.image {
			t.Errorf("%s, A2A 0.3: %s", about, old)
		}
	}
	p.On("acme/schema", hostile.Invoke, hostile.Complete(hostile.Object{"media_type": "image/png", "data_base64": png, "width": 8}))
	answer := post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_schema"}}`)
	for _, want := range []string{`"structuredContent":{`, `"data_base64":"` + png + `"`, `{"type":"image","data":"` + png + `","mimeType":"image/png"}`, `"width":8`, `\"width\":8`} {
		if !strings.Contains(answer, want) {
			t.Errorf("a schema: %s, want %s", answer, want)
		}
	}
	if n := strings.Count(answer, png); n != 2 {
		t.Errorf("%d times", n)
	}
}
