package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
)

// Section 7: SKILL.md is listed, descriptor.json can be read, and nothing else exists; names are exact, and nothing is resolved.
func TestResources(t *testing.T) {
	s := newServer(t, func(s *server) {
		s.source(t, "private", providertest.Start(t, skill("secret", object{"id": "private/secret"}))).RequirePrincipal = true
	}, skill("tool", nil), skill("a.b", nil))
	g := s.modern(t, "resources/list", object{})
	if !strings.Contains(g.text, `"uri":"skill://acme.tool/SKILL.md"`) || at(g.result(), "resources", 0, "mimeType") != "text/markdown" || strings.Contains(g.text, "descriptor.json") || strings.Contains(g.text, "secret") {
		t.Errorf("%s", g.text)
	}
	g = s.modern(t, "resources/templates/list", object{})
	if at(g.result(), "resourceTemplates", 0, "uriTemplate") != "skill://{name}/{file}" {
		t.Errorf("%s", g.text)
	}
	for _, cursor := range []string{"bTE6YWE", ""} { // there is one page
		if g := s.modern(t, "resources/templates/list", object{"cursor": cursor}); at(g.failure(), "code") != -32602.0 {
			t.Errorf("templates after %q: %s", cursor, g.text)
		}
	}
	g = s.modern(t, "resources/read", object{"uri": "skill://acme.tool/SKILL.md"})
	if text, _ := at(g.result(), "contents", 0, "text").(string); !strings.Contains(text, "acme_tool") || at(g.result(), "contents", 0, "mimeType") != "text/markdown" || at(g.result(), "contents", 0, "uri") != "skill://acme.tool/SKILL.md" || g.result()["ttlMs"] == nil {
		t.Errorf("%s", g.text)
	}
	g = s.modern(t, "resources/read", object{"uri": "skill://acme.tool/descriptor.json"})
	if text, _ := at(g.result(), "contents", 0, "text").(string); !strings.Contains(text, `"id":"acme/tool"`) || at(g.result(), "contents", 0, "mimeType") != "application/json" {
		t.Errorf("%s", g.text)
	}
	if g := s.modern(t, "resources/read", object{"uri": "skill://private.secret/SKILL.md"}, "User", "ada"); g.result() == nil {
		t.Errorf("%s", g.text)
	}
	for _, uri := range []string{
		"", "skill://", "skill:///SKILL.md", "skill://acme.tool", "skill://acme.tool/", "skill://acme.tool/skill.md", "skill://acme.tool/SKILL.md/", "skill://acme.tool/../acme.tool/SKILL.md",
		"skill://acme.tool/..%2fSKILL.md", "skill://acme.tool/%53KILL.md", "skill://acme.tool/SKILL.md?x", "skill://acme.tool/SKILL.md#x", "SKILL://acme.tool/SKILL.md", "skill://acme_tool/SKILL.md", "skill://acme%2Etool/SKILL.md", "skill://acme.too%6c/SKILL.md",
		"skill://acme.nope/SKILL.md", "skill://nope/SKILL.md", "skill://ACME.tool/SKILL.md", "skill://acme.tool%00/SKILL.md", "skill://acme.tool%zz/SKILL.md", "file:///etc/passwd", "http://127.0.0.1/SKILL.md",
		"skill://user@acme.tool/SKILL.md", strings.Repeat("skill://", 10_000),
	} {
		for era, read := range map[float64]func(testing.TB, string, object, ...string) *got{-32602: s.modern, -32002: s.legacy} {
			g := read(t, "resources/read", object{"uri": uri})
			if g.status != http.StatusOK || at(g.failure(), "code") != era || at(g.failure(), "data", "uri") == nil || len(g.text) > 2000 {
				t.Errorf("%.100q: %d %.500s", uri, g.status, g.text)
			}
		}
	}
	for _, params := range []object{{}, {"uri": 1}} {
		if g := s.modern(t, "resources/read", params); at(g.failure(), "code") != -32602.0 {
			t.Errorf("%s", g.text)
		}
	}
}

// Section 7: prompts are the skills of the type knowledge; their arguments are texts, parsed for other types.
func TestPrompts(t *testing.T) {
	knowledge := object{"capability_type": "knowledge", "output": object{"content_type": "multipart/mixed"}}
	s := newServer(t, func(s *server) { s.front.Options.Wait = 20 * time.Millisecond },
		skill("guide", knowledge, providertest.Input("topic", "string", object{"required": true}), providertest.Input("depth", "integer", nil), providertest.Input("deep", "boolean", nil)),
		skill("slow", knowledge), skill("broken", knowledge), skill("tool", nil))
	s.Accept("slow")
	g := s.modern(t, "prompts/list", object{})
	if !strings.Contains(g.text, `"name":"acme_guide"`) || strings.Contains(g.text, "acme_tool") || strings.Contains(g.text, `"name":"acme_broken","title":"guide"`) {
		t.Errorf("%s", g.text)
	}
	s.On("POST /run/guide", providertest.Completed("e1", []any{"one", object{"base64": "iVBORw0KGgo=", "media_type": "image/png"}}))
	s.On("POST /run/broken", providertest.Answer(200, providertest.Response("e1", "failed", object{"error": object{"code": "X", "message": "It has no more ink"}})))
	for _, get := range []func(testing.TB, string, object, ...string) *got{s.modern, s.legacy} {
		g := get(t, "prompts/get", object{"name": "acme_guide", "arguments": object{"topic": "5", "depth": "7", "deep": "true"}})
		if !isJSON(at(g.result(), "messages"), `[{"role":"user","content":{"type":"text","text":"one"}},{"role":"user","content":{"type":"image","data":"iVBORw0KGgo=","mimeType":"image/png"}}]`) {
			t.Errorf("%s", g.text)
		}
	}
	if s.Count(`POST /run/guide {`) != 2 || !strings.Contains(strings.Join(s.Inputs(t, "guide"), "\n"), `{"deep":true,"depth":7,"topic":"5"}`) {
		t.Errorf("%v", s.Inputs(t, "guide"))
	}
	for _, v := range []struct {
		about, name string
		arguments   any
		code        float64
		has         string
	}{
		{"unknown", "acme_nope", object{}, -32602, "acme_nope"},
		{"no prompt", "acme_tool", object{}, -32602, "acme_tool"},
		{"missing", "acme_guide", object{}, -32602, "topic"},
		{"unknown argument", "acme_guide", object{"topic": "x", "nope": "x"}, -32602, "nope"},
		{"no text", "acme_guide", object{"topic": 5}, -32602, "topic"},
		{"no number", "acme_guide", object{"topic": "x", "depth": "deep"}, -32602, "depth"},
		{"no object", "acme_guide", []int{}, -32602, "object"},
		{"failed", "acme_broken", object{}, -32603, "It has no more ink"},
		{"too slow", "acme_slow", object{}, -32603, ""},
	} {
		g := s.modern(t, "prompts/get", object{"name": v.name, "arguments": v.arguments})
		if g.status != http.StatusOK || at(g.failure(), "code") != v.code || !strings.Contains(at(g.failure(), "message").(string), v.has) {
			t.Errorf("%s: %d %s", v.about, g.status, g.text)
		}
	}
	// A run that goes on is followed, so that the client does not start another one.
	for _, lost := range []bool{false, true} {
		if lost {
			s.On("GET /status/x-slow", providertest.Refused(401, "AUTH_REQUIRED"))
		}
		g := s.modern(t, "prompts/get", object{"name": "acme_slow"})
		token, _ := at(g.failure(), "data", "runToken").(string)
		if token == "" || at(g.failure(), "data", "executed") != "yes" || at(g.failure(), "data", "next") != "follow_run" ||
			!lost && at(g.failure(), "data", "code") != "STILL_RUNNING" || !strings.Contains(at(g.failure(), "message").(string), "call get_run with run_token "+token) {
			t.Errorf("%v: %s", lost, g.text)
			continue
		}
		if g := s.call(t, "get_run", object{"run_token": token, "wait_ms": 0}); !lost && at(g.result(), "_meta", "io.github.skill-bridge/error", "code") != "STILL_RUNNING" {
			t.Errorf("%s", g.text)
		}
	}
	if n := s.Count("POST /run/slow"); n != 3 {
		t.Errorf("%d runs", n)
	}
}

// Section 7: completion.
func TestCompletion(t *testing.T) {
	var skills []object
	for i := range 120 {
		skills = append(skills, skill(fmt.Sprintf("s-%03d", i), nil))
	}
	skills = append(skills, skill("guide", object{"capability_type": "knowledge"}, providertest.Input("unit", "string", object{"schema": object{"enum": []any{"km", "kg", "m"}}}),
		providertest.Input("level", "integer", object{"schema": object{"enum": []any{1, 10, 2}}}), providertest.Input("deep", "boolean", nil), providertest.Input("free", "string", nil)))
	s := newServer(t, func(s *server) {
		s.source(t, "private", providertest.Start(t, skill("secret", object{"id": "private/secret"}))).RequirePrincipal = true
	}, skills...)
	template, guide := object{"type": "ref/resource", "uri": "skill://{name}/{file}"}, object{"type": "ref/prompt", "name": "acme_guide"}
	complete := func(ref, argument any, header ...string) *got {
		t.Helper()
		return s.modern(t, "completion/complete", object{"ref": ref, "argument": argument}, header...)
	}
	for _, v := range []struct {
		ref         object
		name, value string
		want        string // the completion
	}{
		{template, "name", "acme.s-00", `{"values":["acme.s-000","acme.s-001","acme.s-002","acme.s-003","acme.s-004","acme.s-005","acme.s-006","acme.s-007","acme.s-008","acme.s-009"],"total":10,"hasMore":false}`},
		{template, "name", "private", `{"values":[],"total":0,"hasMore":false}`},
		{template, "file", "", `{"values":["SKILL.md","descriptor.json"],"total":2,"hasMore":false}`},
		{template, "file", "S", `{"values":["SKILL.md"],"total":1,"hasMore":false}`},
		{template, "other", "", `{"values":[],"total":0,"hasMore":false}`},
		{guide, "unit", "k", `{"values":["km","kg"],"total":2,"hasMore":false}`},
		{guide, "level", "1", `{"values":["1","10"],"total":2,"hasMore":false}`},
		{guide, "deep", "", `{"values":["false","true"],"total":2,"hasMore":false}`},
		{guide, "free", "", `{"values":[],"total":0,"hasMore":false}`},
		{guide, "nope", "", `{"values":[],"total":0,"hasMore":false}`},
	} {
		if g := complete(v.ref, object{"name": v.name, "value": v.value}); !isJSON(at(g.result(), "completion"), v.want) {
			t.Errorf("%s %q: %s", v.name, v.value, g.text)
		}
	}
	all := complete(template, object{"name": "name", "value": ""})
	if list := at(all.result(), "completion", "values").([]any); len(list) != 100 || at(all.result(), "completion", "total") != 121.0 || at(all.result(), "completion", "hasMore") != true {
		t.Errorf("%s", all.text)
	}
	if g := complete(template, object{"name": "name", "value": "private"}, "User", "ada"); at(g.result(), "completion", "values", 0) != "private.secret" {
		t.Errorf("%s", g.text)
	}
	name := object{"name": "name", "value": ""}
	for about, v := range map[string][2]any{
		"no template": {object{"type": "ref/resource", "uri": "skill://x"}, name}, "no prompt": {object{"type": "ref/prompt", "name": "acme_s-001"}, name},
		"unknown prompt": {object{"type": "ref/prompt", "name": "nope"}, name}, "unknown type": {object{"type": "ref/tool", "name": "acme_guide"}, name},
		"no ref": {nil, name}, "no argument": {template, nil}, "no value": {template, object{"name": "name"}}, "a number": {template, object{"name": "name", "value": 1}},
	} {
		if g := complete(v[0], v[1]); g.status != http.StatusOK || at(g.failure(), "code") != -32602.0 {
			t.Errorf("%s: %d %s", about, g.status, g.text)
		}
	}
}

// Files are read by each URI that an expansion of the template makes (RFC 6570), whatever it escapes and in any case of the digits, and by no
// other.
func TestResourcesByTemplate(t *testing.T) {
	s := newServer(t, nil, skill("tool@v1:a+b", nil), skill("naïve", nil))
	for _, v := range []struct {
		name       string
		uris, none []string
	}{
		{
			"acme.tool@v1:a+b",
			[]string{"acme.tool%40v1%3Aa%2Bb", "acme.tool%40v1%3aa%2bb", "acme.tool@v1:a+b", "acme.tool@v1%3Aa%2bb"},
			[]string{"acme.tool@v1:a b", "acme.tool%2540v1%3Aa%2Bb", "acme%2etool@v1:a+b", "ACME.tool@v1:a+b", "acme.tool@v1:a+%62"},
		},
		{"acme.naïve", []string{"acme.na%C3%AFve", "acme.na%c3%afve", "acme.na%C3%afve"}, []string{"acme.naïve", "acme.na%EFve", "acme.nai%CC%88ve", "acme.na%C3%AFv%65", "acme.na%25C3%25AFve"}},
	} {
		for _, name := range v.uris {
			for _, file := range []string{"SKILL.md", "descriptor.json"} {
				uri := "skill://" + name + "/" + file
				if g := s.legacy(t, "resources/read", object{"uri": uri}); at(g.result(), "contents", 0, "uri") != uri || at(g.result(), "contents", 0, "text") == "" {
					t.Errorf("%s: %s", uri, g.text)
				}
			}
		}
		for _, name := range v.none {
			if g := s.legacy(t, "resources/read", object{"uri": "skill://" + name + "/SKILL.md"}); at(g.failure(), "code") != -32002.0 {
				t.Errorf("%s: %s", name, g.text)
			}
		}
	}
	list := s.legacy(t, "resources/list", object{})
	resources, _ := list.result()["resources"].([]any)
	for i := range resources {
		uri := at(resources, i, "uri")
		if g := s.legacy(t, "resources/read", object{"uri": uri}); at(g.result(), "contents", 0, "uri") != uri {
			t.Errorf("%s: %s", uri, g.text)
		}
	}
	if len(resources) != 2 {
		t.Errorf("%s", list.text)
	}
}

// The files of a skill show what is hidden in its descriptor: texts are without it, and JSON has it as escapes.
func TestHiddenTextInFiles(t *testing.T) {
	const hidden = "\u202e\u200b\U000e0041\u3164\ufe0f"
	s := newServer(t, nil, skill("tool", providertest.Merge(output("application/json", object{"title": "O" + hidden, "enum": []any{"V" + hidden, nil}}), object{"name": "N" + hidden, "description": "D" + hidden}),
		providertest.Input("p", "string", object{"description": "P" + hidden, "default": "E" + hidden, "schema": object{"type": "string", "examples": []any{"X" + hidden}}})))
	visible := func(about, text string) {
		t.Helper()
		for _, r := range hidden {
			if strings.ContainsRune(text, r) {
				t.Errorf("%s shows %U: %.300q", about, r, text)
			}
		}
	}
	for _, file := range []string{"SKILL.md", "descriptor.json"} {
		text, _ := at(s.modern(t, "resources/read", object{"uri": "skill://acme.tool/" + file}).result(), "contents", 0, "text").(string)
		visible(file, text)
		if file == "descriptor.json" && (at(parse(t, text), "name") != "N"+hidden || at(parse(t, text), "output", "schema", "enum", 0) != "V"+hidden) {
			t.Errorf("the descriptor is changed: %s", text)
		}
	}
	text, _ := at(s.tool(t, "acme_tool"), "inputSchema", "properties", "p", "default").(string)
	if examples := at(s.tool(t, "acme_tool"), "inputSchema", "properties", "p", "examples", 0); text != "E" || examples != "X" {
		t.Errorf("default %q, example %q", text, examples)
	}
}
