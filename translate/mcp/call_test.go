package mcp_test

import (
	"context"
	"encoding/json" // tests write numbers as they are
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
)

// Section 4: outputs by their content type.
func TestOutputs(t *testing.T) {
	png := "iVBORw0KGgo="
	anyObject, aText := object{"type": "object"}, object{"type": "string"}
	for _, v := range []struct {
		about          string
		output         object
		out            any
		modern, legacy string // the result without _meta and resultType
	}{
		{"an object", output("application/json", anyObject), object{"a": 1}, `{"structuredContent":{"a":1},"content":[{"type":"text","text":"{\"a\":1}"}]}`, ""},
		{
			"a text", output("application/json", aText), "x", `{"structuredContent":"x","content":[{"type":"text","text":"\"x\""}]}`,
			`{"structuredContent":{"result":"x"},"content":[{"type":"text","text":"{\"result\":\"x\"}"}]}`,
		},
		{
			"a list without a schema", output("application/json", nil),
			[]int{1},
			`{"structuredContent":[1],"content":[{"type":"text","text":"[1]"}]}`,
			`{"structuredContent":{"result":[1]},"content":[{"type":"text","text":"{\"result\":[1]}"}]}`,
		},
		{"an object without a schema", output("application/json", nil), object{}, `{"structuredContent":{},"content":[{"type":"text","text":"{}"}]}`, ""},
		{
			"an object of a schema of any type", output("application/json", object{"minProperties": 0}),
			object{},
			`{"structuredContent":{},"content":[{"type":"text","text":"{}"}]}`,
			`{"structuredContent":{"result":{}},"content":[{"type":"text","text":"{\"result\":{}}"}]}`,
		},
		{"plain text", output("text/plain", nil), "hello", `{"content":[{"type":"text","text":"hello"}]}`, ""},
		{"a picture", output("image/png", nil), png, `{"content":[{"type":"image","data":"` + png + `","mimeType":"image/png"}]}`, ""},
		{"sound", output("audio/wav", nil), "UklGRiQAAABXQVZF", `{"content":[{"type":"audio","data":"UklGRiQAAABXQVZF","mimeType":"audio/wav"}]}`, ""},
		{
			"sound that is a picture", output("audio/wav", nil),
			png,
			`{"content":[{"type":"resource","resource":{"uri":"skill-output://e1/output-1","mimeType":"audio/wav","blob":"` + png + `"}}]}`, "",
		},
		{
			"a link", output("application/pdf", nil),
			object{"url": "https://example.com/a.pdf"},
			`{"content":[{"type":"resource_link","uri":"https://example.com/a.pdf","name":"output-1","mimeType":"application/pdf"}]}`, "",
		},
		{"no link", output("application/pdf", nil), object{"url": "javascript:alert(1)"}, `{"content":[{"type":"text","text":"{\"url\":\"javascript:alert(1)\"}"}]}`, ""},
		{
			"a file", output("application/pdf", nil),
			object{"base64": png, "filename": "../a b.pdf"},
			`{"content":[{"type":"resource","resource":{"uri":"skill-output://e1/a%20b.pdf","mimeType":"application/pdf","blob":"` + png + `"}}]}`, "",
		},
		{
			"several", output("multipart/mixed", nil),
			[]any{"a", object{"text": "b", "filename": "b.txt", "media_type": "text/plain"}},
			`{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"uri":"skill-output://e1/b.txt","mimeType":"text/plain","text":"b"}}]}`, "",
		},
	} {
		s := newServer(t, nil, skill("tool", v.output))
		s.On("POST /run/tool", providertest.Completed("e1", v.out))
		for era, g := range map[string]*got{"modern": s.call(t, "acme_tool", object{}), "legacy": s.legacy(t, "tools/call", object{"name": "acme_tool"})} {
			want := v.modern
			if era == "legacy" && v.legacy != "" {
				want = v.legacy
			}
			r := g.result()
			if era == "modern" && r["resultType"] != "complete" {
				t.Errorf("%s: %s", v.about, g.text)
			}
			delete(r, "resultType")
			delete(r, "_meta")
			if !isJSON(r, want) {
				t.Errorf("%s, %s: %s, want %s", v.about, era, g.text, want)
			}
		}
	}
}

// 2025-03-26, which is also the version of a request that names none, has no links: they are texts.
func TestLinksOfTheOldestVersion(t *testing.T) {
	linked := object{"output": object{"content_type": "application/pdf"}}
	s := newServer(t, nil, skill("tool", linked), skill("guide", object{"capability_type": "knowledge", "output": linked["output"]}))
	s.On("POST /run/tool", providertest.Completed("e1", object{"url": "https://example.com/a.pdf"}))
	s.On("POST /run/guide", providertest.Completed("e1", object{"url": "https://example.com/a.pdf"}))
	for _, v := range []struct {
		header []string
		want   string
	}{
		{nil, "text"},
		{[]string{"MCP-Protocol-Version", "2025-03-26"}, "text"},
		{[]string{"MCP-Protocol-Version", "2025-06-18"}, "resource_link"},
	} {
		called := s.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_tool"}}`, v.header...)
		got := s.send(t, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"acme_guide"}}`, v.header...)
		for about, content := range map[string]any{"a tool": at(called.result(), "content", 0), "a prompt": at(got.result(), "messages", 0, "content")} {
			c, _ := content.(object)
			if at := map[string]string{"text": "text", "resource_link": "uri"}[v.want]; c["type"] != v.want || c[at] != "https://example.com/a.pdf" {
				t.Errorf("%v, %s: %v", v.header, about, content)
			}
		}
	}
}

// An output that had to be repaired has warnings, whether or not it fits its schema.
func TestRepairedOutput(t *testing.T) {
	s := newServer(t, nil, skill("tool", output("application/json", object{"type": "object", "required": []any{"a"}})))
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":"\ud83d"}`, `{"b":"\ud83d"}`} {
		s.On("POST /run/tool", providertest.Answer(200, `{"execution_id":"e1","status":"completed","output":`+text+`}`))
		for era, g := range map[string]*got{"modern": s.call(t, "acme_tool", object{}), "legacy": s.legacy(t, "tools/call", object{"name": "acme_tool"})} {
			if r := g.result(); at(r, "_meta", "io.github.skill-bridge/warnings", 0, "reason") != "invalid_json" || (r["isError"] == true) != strings.Contains(text, "b") {
				t.Errorf("%s, %s: %s", text, era, g.text)
			}
		}
	}
}

// Section 4: an output that does not fit its schema is not called structured, and all of it is there; validate off checks nothing.
func TestOutputThatDoesNotFit(t *testing.T) {
	d := skill("tool", output("application/json", object{"type": "object", "required": []any{"n"}, "properties": object{"n": object{"type": "integer"}}}))
	s := newServer(t, nil, d)
	for _, text := range []string{`{"n":"\u202ehidden"}`, `[1,2]`, `"text"`, `{}`, `null`} {
		s.On("POST /run/tool", providertest.Answer(200, `{"execution_id":"e1","status":"completed","skill_id":"x","timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"},"output":`+text+`}`))
		for era, g := range map[string]*got{"modern": s.call(t, "acme_tool", object{}), "legacy": s.legacy(t, "tools/call", object{"name": "acme_tool"})} {
			r := g.result()
			if r["isError"] != true || r["structuredContent"] != nil || at(r, "content", 1, "text") != text || !strings.Contains(at(r, "content", 0, "text").(string), "does not fit the schema") {
				t.Errorf("%s, %s: %s", text, era, g.text)
			}
			if at(r, "_meta", "io.github.skill-bridge/error", "executed") != "yes" {
				t.Errorf("%s, %s: %s", text, era, g.text)
			}
			said, _ := at(r, "content", 0, "text").(string)
			if _, about, _ := strings.Cut(said, "has published "); !strings.HasPrefix(about, "(the output") || strings.Contains(about, "argument") || strings.Contains(about, "/output") || text[:2] == `{"` && !strings.HasPrefix(about, "(the output: /n must") {
				t.Errorf("%s", said)
			}
		}
	}
	off := newServer(t, func(s *server) { s.front.Options.Validate = false }, d)
	off.On("POST /run/tool", providertest.Completed("e1", []int{1}))
	if g := off.call(t, "acme_tool", object{}); g.result()["isError"] != nil || !isJSON(g.result()["structuredContent"], `[1]`) {
		t.Errorf("validate off: %s", g.text)
	}
}

// Section 4: what a model can act on is a result that says what and what next; the rest is an error.
func TestCallFailures(t *testing.T) {
	s := newServer(t, func(s *server) {
		private := s.source(t, "private", providertest.Start(t, skill("secret", object{"id": "private/secret"})))
		private.RequirePrincipal = true
		gone := providertest.Start(t)
		s.source(t, "gone", gone).URL.Host = "127.0.0.1:1"
	}, skill("tool", nil, providertest.Input("n", "integer", object{"required": true})), skill("key", object{"auth": object{"type": "api_key", "api_key": object{"in": "header", "name": "X-Key"}}}),
		skill("newer", object{"protocol": object{"version": "2.0.0"}}), skill("bad", object{"endpoint": object{"url": "no URL"}}))
	good := object{"n": 1}
	for _, v := range []struct {
		about, tool string
		arguments   object
		answer      http.HandlerFunc
		code, next  string
		executed    string
	}{
		{"a missing argument", "acme_tool", object{}, nil, "VALIDATION_ERROR", "fix_params", "no"},
		{"a wrong argument", "acme_tool", object{"n": "x"}, nil, "VALIDATION_ERROR", "fix_params", "no"},
		{"refused by the provider", "acme_tool", good, providertest.Refused(400, "VALIDATION_ERROR"), "VALIDATION_ERROR", "fix_params", ""},
		{"a secret that is missing", "acme_key", object{}, nil, "AUTH_REQUIRED", "ask_operator", "no"},
		{"a secret that was refused", "acme_tool", good, providertest.Refused(401, "AUTH_REQUIRED"), "AUTH_REQUIRED", "", "no"},
		{"denied", "acme_tool", good, providertest.Refused(403, "PERMISSION_DENIED"), "PERMISSION_DENIED", "", "no"},
		{"too many requests", "acme_tool", good, providertest.Refused(429, "RATE_LIMITED"), "RATE_LIMITED", "retry", "no"},
		{"the provider has no such skill", "acme_tool", good, providertest.Refused(404, "SKILL_NOT_FOUND"), "SKILL_NOT_FOUND", "other_skill", "no"},
		{"unavailable", "acme_tool", good, providertest.Refused(503, "SERVICE_UNAVAILABLE"), "ENDPOINT_UNREACHABLE", "", ""},
		{"the run failed", "acme_tool", good, providertest.Answer(200, providertest.Response("e1", "failed", object{"error": object{"code": "X_FAILED", "message": "It \u202efailed."}})), "X_FAILED", "none", "yes"},
		{"a newer protocol", "acme_newer", object{}, nil, "VERSION_INCOMPATIBLE", "other_skill", "no"},
		{"an invalid document", "acme_bad", object{}, nil, "", "other_skill", "no"},
		{"a private source", "private_secret", object{}, nil, "AUTH_REQUIRED", "authenticate", "no"},
		{"a source that can't be reached", "gone.any", object{}, nil, "", "", "no"},
	} {
		if v.answer != nil {
			s.On("POST /run/tool", v.answer)
		}
		g := s.call(t, v.tool, v.arguments)
		r := g.result()
		told, text := at(r, "_meta", "io.github.skill-bridge/error"), at(r, "content", 0, "text")
		if g.status != http.StatusOK || r["isError"] != true || r["resultType"] != "complete" || text == nil || r["structuredContent"] != nil {
			t.Errorf("%s: %d %s", v.about, g.status, g.text)
			continue
		}
		if v.code != "" && at(told, "code") != v.code || v.next != "" && at(told, "next") != v.next || v.executed != "" && at(told, "executed") != v.executed || at(told, "source") == nil {
			t.Errorf("%s: %v, want %s %s %s", v.about, told, v.code, v.next, v.executed)
		}
		if strings.ContainsAny(text.(string), "\u202e\n") || len(text.(string)) < 10 {
			t.Errorf("%s: %q", v.about, text)
		}
		if l := s.legacy(t, "tools/call", object{"name": v.tool, "arguments": v.arguments}); l.result()["isError"] != true || l.result()["resultType"] != nil {
			t.Errorf("%s, legacy: %s", v.about, l.text)
		}
	}
	for _, v := range []struct {
		about, tool string
		arguments   any
		answer      http.HandlerFunc
		code        float64
	}{
		{"unknown", "acme_nope", object{}, nil, -32602},
		{"an unknown namespace", "nope_nope", object{}, nil, -32602},
		{"no name", "", object{}, nil, -32602},
		{"hidden characters", "acme_\u202e", object{}, nil, -32602},
		{"arguments are a list", "acme_tool", []int{}, nil, -32602},
		{"arguments are a text", "acme_tool", "n", nil, -32602},
		{"an answer that is none", "acme_tool", good, providertest.Answer(200, `{"x":1}`), -32603},
		{"an answer that is no JSON", "acme_tool", good, providertest.Answer(200, `<html>`), -32603},
	} {
		if v.answer != nil {
			s.On("POST /run/tool", v.answer)
		}
		header := []string{}
		if v.tool == "acme_\u202e" {
			header = append(header, "Mcp-Name", "=?base64?YWNtZV/igK4=?=")
		}
		g := s.modern(t, "tools/call", object{"name": v.tool, "arguments": v.arguments}, header...)
		if g.status != http.StatusOK || at(g.failure(), "code") != v.code || strings.Contains(g.text, "\u202e") {
			t.Errorf("%s: %d %s", v.about, g.status, g.text)
		}
		if v.code == -32603 && (at(g.failure(), "data", "code") == nil || at(g.failure(), "data", "executed") == nil) {
			t.Errorf("%s: %s", v.about, g.text)
		}
	}
	for _, g := range []*got{s.modern(t, "tools/call", object{}), s.modern(t, "tools/call", object{"name": 1}), s.legacy(t, "tools/call", object{})} {
		if g.status != http.StatusOK || at(g.failure(), "code") != -32602.0 {
			t.Errorf("%d %s", g.status, g.text)
		}
	}
}

// Section 4: a text says what to do next also if nothing is known to help: a model would call the tool again.
func TestTextsAfterFailures(t *testing.T) {
	s := newServer(t, nil, skill("tool", nil), skill("bad", object{"inputs": []object{{"name": "a"}}}))
	for about, v := range map[string]struct {
		tool   string
		answer http.HandlerFunc
		want   string
	}{
		"the run failed":         {"acme_tool", providertest.Answer(200, providertest.Response("e1", "failed", object{"error": object{"code": "X", "message": "No"}})), "No. The skill was executed and failed: another call executes it again."},
		"unavailable":            {"acme_tool", providertest.Refused(503, "SERVICE_UNAVAILABLE"), "find that out, or ask the user, before you call the tool again."},
		"no answer of the skill": {"acme_tool", providertest.Answer(200, `{"x":1}`), "find that out, or ask the user, before you call the tool again."},
		"too many requests": {"acme_tool", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			providertest.Answer(429, "{}")(w, r)
		}, "Nothing was executed: call the tool again in 7 seconds."},
		"too many requests, says the provider": {"acme_tool", providertest.Answer(429, `{"error":{"code":"RATE_LIMITED","message":"No","retry":{"suggested_delay_ms":19500,"max_attempts":1}}}`), "call the tool again in 20 seconds."},
		"too many requests for now":            {"acme_tool", providertest.Refused(429, "RATE_LIMITED"), "call the tool again in a moment."},
		"an invalid document":                  {"acme_bad", nil, " more violations). Use another tool."},
	} {
		if v.answer != nil {
			s.On("POST /run/tool", v.answer)
		}
		g := s.call(t, v.tool, object{})
		text, _ := at(g.result(), "content", 0, "text").(string)
		if message, _ := g.failure()["message"].(string); !strings.HasSuffix(text+message, v.want) {
			t.Errorf("%s: %s, want %q", about, g.text, v.want)
		}
	}
}

// A model that writes a wrong name learns that from the text.
func TestUnknownArguments(t *testing.T) {
	s := newServer(t, nil, skill("tool", nil, providertest.Input("text", "string", object{"required": true})), skill("a.b", nil), skill("a_b", nil))
	for _, arguments := range []object{{"Text": "x"}, {"text": 1, "Text": "\u202e"}} {
		g := s.call(t, "acme_tool", arguments)
		if text, _ := at(g.result(), "content", 0, "text").(string); !strings.HasSuffix(text, `. The tool has no argument "Text". Correct the arguments and call the tool again.`) {
			t.Errorf("%v: %s", arguments, g.text)
		}
	}
	if g := s.call(t, "acme_tool", object{"text": "x", "Text": "y"}); g.result()["isError"] != nil {
		t.Errorf("further arguments are for the provider: %s", g.text)
	}
	g := s.call(t, "acme_a_b", object{})
	candidates, _ := at(g.failure(), "data", "candidates").([]any)
	if message := fmt.Sprint(g.failure()["message"]); len(candidates) != 2 || message != fmt.Sprintf(`Unknown tool: acme_a_b. Did you mean %q or %q?`, candidates...) {
		t.Errorf("%s", g.text)
	}
}

// Section 4: a run that goes on at the end of the wait is an error that tells how to go on, and get_run answers as the call would have.
func TestStillRunning(t *testing.T) {
	s := newServer(t, func(s *server) { s.front.Options.Wait = 20 * time.Millisecond }, skill("slow", output("application/json", object{"type": "object"})))
	end := s.Accept("slow")
	g := s.call(t, "acme_slow", object{}, "User", "ada")
	told := at(g.result(), "_meta", "io.github.skill-bridge/error")
	token, _ := at(told, "runToken").(string)
	text, _ := at(g.result(), "content", 0, "text").(string)
	if at(told, "code") != "STILL_RUNNING" || at(told, "next") != "follow_run" || g.result()["isError"] != true || token == "" || !strings.Contains(text, token) || !strings.Contains(text, "get_run") || !strings.Contains(text, "not start another") {
		t.Fatalf("%s", g.text)
	}
	follow := func(token any, user string) *got {
		t.Helper()
		return s.call(t, "get_run", object{"run_token": token, "wait_ms": 10}, "User", user)
	}
	if g := follow(token, "ada"); at(g.result(), "_meta", "io.github.skill-bridge/error", "code") != "STILL_RUNNING" {
		t.Errorf("%s", g.text)
	}
	for _, wait := range []string{"0", "10.0", "1e1", "100e-1"} { // the schema of wait_ms says integer
		if g := s.call(t, "get_run", object{"run_token": token, "wait_ms": json.Number(wait)}, "User", "ada"); at(g.result(), "_meta", "io.github.skill-bridge/error", "code") != "STILL_RUNNING" {
			t.Errorf("wait_ms %s: %s", wait, g.text)
		}
	}
	for about, g := range map[string]*got{
		"half a millisecond": s.call(t, "get_run", object{"run_token": token, "wait_ms": 0.5}, "User", "ada"), "a text": s.call(t, "get_run", object{"run_token": token, "wait_ms": "10"}, "User", "ada"),
		"another principal": follow(token, "bob"), "anonymous": follow(token, ""), "forged": follow("AAAA", "ada"), "cut": follow(token[:len(token)-4], "ada"),
		"changed": follow(token[:20]+"x"+token[21:], "ada"), "a number": follow(1, "ada"), "long": follow(strings.Repeat("A", 100_000), "ada"), "empty": follow("", "ada"),
		"no arguments": s.call(t, "get_run", nil, "User", "ada"), "a wrong wait": s.call(t, "get_run", object{"run_token": token, "wait_ms": -1}, "User", "ada"),
	} {
		if about == "no arguments" {
			if text, _ := at(g.result(), "content", 0, "text").(string); g.result()["isError"] != true || !strings.HasPrefix(text, "run_token is required") { // they are null
				t.Errorf("%s: %s", about, g.text)
			}
			continue
		}
		if g.status != http.StatusOK || g.result()["isError"] != true {
			t.Errorf("%s: %d %.300s", about, g.status, g.text)
		}
	}
	end(object{"a": 1})
	for _, wait := range []string{"2147483648", "1e300", "1e999"} {
		if g := s.call(t, "get_run", object{"run_token": token, "wait_ms": json.Number(wait)}, "User", "ada"); g.result()["isError"] == true && strings.Contains(g.text, "wait_ms") {
			t.Errorf("wait_ms %s: %s", wait, g.text)
		}
	}
	eventually(t, func() bool { return isJSON(at(follow(token, "ada").result(), "structuredContent"), `{"a":1}`) }, "get_run answers with the output")
}

// A tool is told the timeout of its descriptor, and a client that leaves ends the wait but not the run.
func TestClientLeaves(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil))
	s.Accept("slow")
	body, fields := modernRequest(t, "tools/call", object{"name": "acme_slow"})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		eventually(t, func() bool { return s.Count("GET /status/") > 2 }, "the run is followed")
		leave()
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	if response, err := http.DefaultClient.Do(r); err == nil {
		response.Body.Close()
		t.Error("there is an answer")
	}
	if n := s.Count("POST /run/") + s.Count("DELETE "); n != 1 {
		t.Errorf("the provider got %d requests", n)
	}
}

// Section 6: progress is a stream with rising numbers and then the answer, also an error; without a token or Accept it is plain JSON.
func TestProgress(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(s *server) { s.front.Options.Wait = 1200 * time.Millisecond }, skill("slow", nil), skill("quick", nil))
	s.Accept("slow")
	for _, v := range []struct {
		about, tool string
		token       any
		accept      string
		streams     bool
	}{
		{"a text", "acme_slow", "t", "application/json, text/event-stream", true},
		{"a number", "acme_slow", 7, "text/event-stream;q=0.5", true},
		{"a fraction", "acme_slow", 7.5, "text/event-stream", false},
		{"null", "acme_slow", nil, "text/event-stream", false},
		{"an object", "acme_slow", object{}, "text/event-stream", false},
		{"no streams", "acme_slow", "t", "application/json", false},
		{"completes at once", "acme_quick", "t", "text/event-stream", false},
	} {
		t.Run(v.about, func(t *testing.T) {
			t.Parallel()
			g := s.modern(t, "tools/call", object{"name": v.tool, "_meta": object{"progressToken": v.token}}, "Accept", v.accept)
			if streams := len(g.events) > 0; streams != v.streams || g.result() == nil {
				t.Errorf("%v %s", g.header, g.text)
				return
			}
			if !v.streams {
				return
			}
			last := -1.0
			for _, e := range g.events[:len(g.events)-1] {
				now, _ := at(e, "params", "progress").(float64)
				if e["method"] != "notifications/progress" || now <= last || at(e, "params", "total") != nil || at(e, "params", "message") == nil {
					t.Errorf("%v after %v", e, last)
				}
				last = now
			}
			if n := len(g.events); n < 3 || g.header.Get("X-Accel-Buffering") != "no" || at(g.result(), "_meta", "io.github.skill-bridge/error", "code") != "STILL_RUNNING" {
				t.Errorf("%d events, %v, %s", n, g.header, g.text)
			}
		})
	}
}

// A name that is nearly that of a tool is answered with the names of tools, which are what clients know.
func TestSimilarTools(t *testing.T) {
	s := newServer(t, nil, skill("summarize", nil), skill("secret", object{"access": "private"}))
	for _, name := range []string{"acme_sumarize", "acme.sumarize"} {
		g := s.call(t, name, object{})
		if message, _ := at(g.failure(), "message").(string); at(g.failure(), "code") != -32602.0 || !isJSON(at(g.failure(), "data", "candidates"), `["acme_summarize"]`) || !strings.HasSuffix(message, `. Did you mean "acme_summarize"?`) {
			t.Errorf("%s: %s", name, g.text)
		}
	}
}

// Section 6: the message of progress is the newest state; an answer to a poll that says an older one is no progress.
func TestProgressOfStates(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil))
	s.On("POST /run/slow", providertest.Answer(202, providertest.Response("x-slow", "running", nil)))
	accepted, running := providertest.Answer(200, providertest.Response("x-slow", "accepted", nil)), providertest.Answer(200, providertest.Response("x-slow", "running", nil))
	s.On("GET /status/x-slow", accepted, running, accepted, providertest.Completed("x-slow", 1))
	s.On("GET /result/x-slow", providertest.Completed("x-slow", 1))
	g := s.modern(t, "tools/call", object{"name": "acme_slow", "_meta": object{"progressToken": 1}}, "Accept", "text/event-stream")
	var told []string
	for _, e := range g.events[:len(g.events)-1] {
		told = append(told, at(e, "params", "message").(string))
	}
	if len(told) != 1 || told[0] != "running" || g.result()["structuredContent"] == nil && g.result()["content"] == nil {
		t.Errorf("%q %s", told, g.text)
	}
}

// The default options are those of the settled text.
func TestDefaults(t *testing.T) {
	if mcp.DefaultTaskAfter != 2*time.Second || strings.Join(mcp.AllVersions(), " ") != "2026-07-28 2025-11-25 2025-06-18 2025-03-26" {
		t.Error(mcp.DefaultTaskAfter, mcp.AllVersions())
	}
}

// Section 1: a body is one line, however a provider prints its outputs and the details of its errors.
func TestBodiesAreOneLine(t *testing.T) {
	knowledge := object{"capability_type": "knowledge"}
	s := newServer(t, nil, skill("tool", nil), skill("guide", knowledge), skill("slow", nil))
	const status = "{\"execution_id\":\"x-slow\",\"skill_id\":\"x\",\"status\":\"completed\",\"timestamps\":{\"created_at\":\"2026-01-02T03:04:05Z\",\"updated_at\":\"2026-01-02T03:04:05Z\"},"
	completed := providertest.Answer(200, status+"\"output\":{\r\n\t\"a\":\r\"b\\n\"\n}\n}\n")
	failed := providertest.Answer(422, "{\"error\":{\"code\":\"INVALID_INPUT\",\"message\":\"No.\",\"details\":{\n\"a\":\r\n1}}}")
	s.Accept("slow")
	task := s.task(t, "acme_slow", "")
	s.On("GET /status/x-slow", completed)
	s.On("GET /result/x-slow", completed)
	line := func(g *got) *got {
		t.Helper()
		if strings.ContainsAny(g.text, "\r\n") || g.body == nil {
			t.Errorf("%q", g.text)
		}
		return g
	}
	s.On("POST /run/tool", completed)
	for _, g := range []*got{s.call(t, "acme_tool", object{}), s.legacy(t, "tools/call", object{"name": "acme_tool"})} {
		if at(line(g).result(), "structuredContent", "a") != "b\n" {
			t.Errorf("%q", g.text)
		}
	}
	eventually(t, func() bool { return line(s.about(t, "tasks/get", task, "")).result()["status"] == "completed" }, "the task ends")
	s.On("POST /run/tool", failed)
	s.On("POST /run/guide", failed)
	if g := line(s.call(t, "acme_tool", object{})); at(g.result(), "_meta", "io.github.skill-bridge/error", "details", "error", "details", "a") != 1.0 {
		t.Errorf("%q", g.text)
	}
	if g := line(s.modern(t, "prompts/get", object{"name": "acme_guide"})); at(g.failure(), "data", "details", "error", "details", "a") != 1.0 {
		t.Errorf("%q", g.text)
	}
}
