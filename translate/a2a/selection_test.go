package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

const extension = `"` + wire.Extension + `"`

// send10 sends a message in 1.0. more are members of params.
func (a *agent) send10(tb testing.TB, parts, ofMessage, ofParams string) *answer {
	tb.Helper()
	if ofParams != "" {
		ofParams = "," + ofParams
	}
	return a.call(tb, "SendMessage", `{"message":`+message("1.0", parts, ofMessage)+ofParams+`}`)
}

// Section 5: all ways to name a skill.
func TestSelection(t *testing.T) {
	const echo = `{"text":"x"}`
	x := text("", "x")
	for _, c := range []struct{ about, path, parts, ofMessage, ofParams, want string }{
		{"the URL", "/a2a/acme.echo", x, "", "", "ok"},
		{"the URL, spelt as an id", "/a2a/acme/echo", x, "", "", "ok"},
		{"tenant", "", x, "", `"tenant":"acme.echo"`, "ok"},
		{"data", "", data("", `{"skill":"acme.echo","input":`+echo+`}`), "", "", "ok"},
		{"data without input", "", data("", `{"skill":"acme.free"}`), "", "", "result.task.status.state=TASK_STATE_COMPLETED;result.task.artifacts.0.parts.0.data={}"},
		{"data with null as input", "", data("", `{"skill":"acme.free","input":null}`), "", "", "result.task.status.state=TASK_STATE_COMPLETED;result.task.artifacts.0.parts.0.data={}"},
		{"text that is such an object", "", text("", ` {"skill":"acme.echo","input":`+echo+`}`), "", "", "ok"},
		{"escaped", "", text("", `{"\u0073kill":"acme.echo","input":`+echo+`}`), "", "", "ok"},
		{"metadata skillId", "", x, `"metadata":{"skillId":"acme.echo"}`, "", "ok"},
		{"metadata skill_id", "", x, `"metadata":{"a":1,"skill_id":"acme.echo"}`, "", "ok"},
		{"metadata skill", "", x, `"metadata":{"skill":"acme.echo"}`, "", "ok"},
		{"metadata of the extension", "", x, `"metadata":{` + extension + `:{"skill":"acme.echo"}}`, "", "ok"},
		{"metadata of the request", "", x, "", `"metadata":{"skillId":"acme.echo"}`, "ok"},
		{"request, extension", "", x, "", `"metadata":{` + extension + `:{"skill":"acme.echo"}}`, "ok"},
		{"text that is a name", "", text("", "acme.free"), "", "", "result.task.metadata.EXT.skill=acme.free;result.task.status.state=TASK_STATE_COMPLETED"},
		{"text that is a name, beside data", "", text("", "acme.echo") + "," + data("", echo), "", "", "ok"},
		{"text that is a name, in blanks", "", text("", " acme.free\n"), "", "", "result.task.status.state=TASK_STATE_COMPLETED"},
		{"one of two texts is a name", "", text("", "acme.echo") + "," + x, "", "", "ok"},
		{"the last text is a name", "", x + "," + text("", " acme/echo "), "", "", "ok"},
		{"two texts are its name", "", text("", "acme.echo") + "," + text("", "acme/echo"), "", "", "result.task.metadata.EXT.skill=acme.echo;result.task.status.message.parts.1.data.missing=[\"text\"]"},
		{"two texts are names", "", text("", "acme.echo") + "," + text("", "acme.free"), "", "", "differ"},
		{"of many texts, the first few are looked up", "", strings.Repeat(text("", "a")+",", 16) + text("", "acme.free"), "", "", "result.task.status.message.parts.1.data.missing=[\"skill\"]"},
		{"data with a member beside input", "", data("", `{"skill":"acme.echo","input":`+echo+`,"n":1}`), "", "", "result.task.status.message.parts.1.data.missing=[\"skill\"];result.task.status.message.parts.0.text~message.parts[0] names no skill: only an object of"},
		{"data without input, but inputs", "", x + "," + data("", `{"text":"x","skill":"acme.echo"}`), "", "", "result.task.status.message.parts.1.data.missing=[\"skill\"];result.task.status.message.parts.0.text~message.parts[1] names no skill"},
		{"data whose input is no object", "", data("", `{"skill":"acme.echo","input":"x"}`), "", "", "result.task.status.message.parts.0.text~message.parts[0] names no skill"},
		{"text that is no such object", "", text("", `{"skill":"acme.echo","text":"x"}`), "", "", "result.task.status.message.parts.0.text~message.parts[0] names no skill"},
		{"data that names it, beside data that does not", "", data("", `{"skill":"acme.free"}`) + "," + data("", `{"skill":"x","n":1}`), "", "", "result.task.metadata.EXT.skill=acme.free"},
		{"not in a list of names", "", text("", "acme.free acme.echo"), "", "", "result.task.status.state=TASK_STATE_INPUT_REQUIRED"},
		{"all agree", "/a2a/acme.echo", data("", `{"skill":"acme/echo","input":`+echo+`}`), `"metadata":{"skillId":"acme.echo"}`, `"tenant":"acme.echo","metadata":{"skill":"acme.echo"}`, "ok"},
		{"null is absent", "", x, `"metadata":{"skillId":"acme.echo","skill":null}`, `"tenant":null,"metadata":null`, "ok"},
		{"URL and tenant", "/a2a/acme.echo", x, "", `"tenant":"acme.free"`, "differ"},
		{"text that is a name, beside the URL: an input", "/a2a/acme.echo", text("", "acme.free"), "", "", `result.task.artifacts.0.parts.0.data={"text":"acme.free"}`},
		{"URL and text", "/a2a/acme.echo", text("", `{"skill":"acme.free"}`), "", "", "differ"},
		{"URL and data", "/a2a/acme.echo", data("", `{"skill":"acme.free"}`), "", "", "differ"},
		{"two parts", "", data("", `{"skill":"acme.free"}`) + "," + data("", `{"skill":"acme.echo"}`), "", "", "differ"},
		{"data and text", "", data("", `{"skill":"acme.free"}`) + "," + text("", `{"skill":"acme.echo"}`), "", "", "differ"},
		{"message and request", "", x, `"metadata":{"skillId":"acme.echo"}`, `"metadata":{"skillId":"acme.free"}`, "differ"},
		{"two members", "", x, `"metadata":{"skillId":"acme.echo","skill":"acme.free"}`, "", "differ"},
		{"member and extension", "", x, `"metadata":{"skillId":"acme.echo",` + extension + `:{"skill":"acme.free"}}`, "", "differ"},
		{"unknown", "", x, `"metadata":{"skillId":"acme.ecko"}`, "", "error.code=-32602;error.data.0.fieldViolations.0.field=skill;error.data.1.metadata.candidates=acme.echo"},
		{"unknown, one of two", "", x, `"metadata":{"skillId":"acme.ecko"}`, `"tenant":"acme.echo"`, "error.code=-32602"},
		{"too long", "", x, `"metadata":{"skillId":"` + strings.Repeat("a", 257) + `"}`, "", "error.code=-32602;error.data.0.fieldViolations.0.field=message.metadata"},
		{"nothing", "", x, "", "", "result.task.status.state=TASK_STATE_INPUT_REQUIRED;result.task.status.message.parts.1.data.missing.0=skill;result.task.status.message.parts.1.data.skills.0.name=acme.echo;result.task.status.message.parts.0.text~acme.echo;!result.task.status.message.parts.1.data.skills.6"},
	} {
		t.Run(c.about, func(t *testing.T) {
			a := newAgent(t, with("secret", object{"access": "private"}))
			switch c.want {
			case "ok":
				c.want = `200;result.task.status.state=TASK_STATE_COMPLETED;result.task.metadata.EXT.skill=acme.echo;result.task.metadata.EXT.provider=acme;result.task.metadata.EXT.version=1.2.3;result.task.metadata.EXT.executionId=e1;result.task.artifacts.0.parts.0.data={"text":"x"}`
			case "differ":
				c.want = "200;error.code=-32602;error.data.0.fieldViolations.0.field;error.message~names"
			}
			if c.path == "" {
				c.path = "/a2a"
			}
			if c.ofParams != "" {
				c.ofParams = "," + c.ofParams
			}
			a.post(t, c.path, request("SendMessage", `{"message":`+message("1.0", c.parts, c.ofMessage)+c.ofParams+`}`), nil).check(t, c.want)
		})
	}
}

// Section 1: a URL with an unknown skill is HTTP 404, with a JSON-RPC error for each method, which names similar skills.
func TestUnknownSkillInURL(t *testing.T) {
	const unknown = "404;id=1;error.code=-32602;error.message~acme.ecko;"
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		candidates := "error.data.candidates.0=acme.echo"
		if d.version == "1.0" {
			candidates = "error.data.1.metadata.candidates=acme.echo"
		}
		for method, params := range map[string]string{
			d.send: d.params("", text(d.version, "x"), ""), d.stream: d.params("", text(d.version, "x"), ""), d.get: `{"id":"x"}`, d.send + " ": "",
		} {
			if method == d.send+" " { // wrong params
				method, params = d.send, "{}"
			}
			a.post(t, "/a2a/acme.ecko", request(method, params), as(d.version)).check(t, unknown+candidates)
		}
		a.post(t, "/a2a/acme.ecko", request("nope", "{}"), as(d.version)).check(t, "error.code=-32601")
	})
}

// Section 5: default_skill, and the only skill.
func TestUnclear(t *testing.T) {
	standard := options(func(o *a2a.Options) { o.DefaultSkill = "acme.echo" })
	x := text("", "x")
	newAgent(t, standard).send10(t, x, "", "").check(t, `result.task.artifacts.0.parts.0.data={"text":"x"}`)
	newAgent(t, standard).send10(t, text("", "acme.free"), "", "").check(t, `result.task.metadata.EXT.skill=acme.free`)
	newAgent(t, only("echo")).send10(t, x, "", "").check(t, `result.task.artifacts.0.parts.0.data={"text":"x"}`)
	newAgent(t, only("echo"), with("secret", object{"access": "private"})).send10(t, x, "", "").check(t, `result.task.metadata.EXT.skill=acme.echo`)
	newAgent(t, only("number"), standard).send10(t, x, "", "").check(t, `error.code=-32602`)
}

// Section 5: what the inputs of a message are.
func TestInputs(t *testing.T) {
	for _, c := range []struct{ about, skill, parts, want string }{
		{"data", "form", data("", `{"city":"Rome","days":2}`), `{"city":"Rome","days":2}`},
		{"data is raw", "form", data("", `{"days":2.0e0,"city":"R\u006fme"}`), `{"days":2.0e0,"city":"R\u006fme"}`},
		{"two parts", "form", data("", `{"city":"Rome"}`) + "," + data("", `{"days":2}`), `{"city":"Rome","days":2}`},
		{"an envelope and data", "form", data("", `{"skill":"acme.form","input":{"city":"Rome"}}`) + "," + data("", `{"days":2}`), `{"city":"Rome","days":2}`},
		{"text is a comment", "form", text("", "for two days") + "," + data("", `{"city":"Rome","days":2}`), `{"city":"Rome","days":2}`},
		{"not disjoint", "form", data("", `{"city":"Rome","days":2}`) + "," + data("", `{"days":2}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.days"},
		{"twice in one part", "form", data("", `{"city":"Rome","city":"Oslo","days":1}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.city"},
		{"no object", "form", data("", `[1]`), "error.code=-32602;error.data.0.fieldViolations.0.field=message.parts[0]"},
		{"null data", "form", data("", `null`), "error.code=-32602"},
		{"text that is an object of inputs", "form", text("", `{"city":"Rome","days":2}`), `{"city":"Rome","days":2}`},
		{"text with an optional input", "form", text("", `{"note":"n"}`), "missing city,days"},
		{"text with another member", "echo", text("", `{"text":"x","other":1}`), `{"text":"{\"text\":\"x\",\"other\":1}"}`},
		{"an empty object", "echo", text("", `{}`), `{"text":"{}"}`},
		{"text as it is", "echo", text("", " 12 \n"), `{"text":" 12 \n"}`},
		{"texts are joined", "echo", text("", "a") + "," + text("", "b"), `{"text":"a\nb"}`},
		{"an empty text", "echo", text("", ""), "missing text"},
		{"text fills the first", "form", text("", "Rome"), "missing days"},
		{"the only input, parsed", "number", text("", " 1.50 "), `{"n":1.50}`},
		{"the only input, not JSON", "number", text("", "one"), `{}`},
		{"text that is JSON, of a wrong type", "form", text("", `{"city":"Rome","days":"two"}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.days"},
		{"no input", "free", text("", "one"), `{}`},
		{"several optional ones", "files", text("", "one"), `{}`},
		{"a wrong type", "form", data("", `{"city":1,"days":1}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.city;!result"},
		{"a wrong schema", "form", data("", `{"city":"Rome","days":11}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.days"},
		{"a wrong value before a missing one", "form", data("", `{"days":11}`), "error.code=-32602;error.data.0.fieldViolations.0.field=input.days"},
		{"a default is not missing", "form", data("", `{"city":"Rome"}`), "missing days"},
		{"both are missing", "form", data("", `{}`), "missing city,days"},
		{"raw by its media type", "files", `{"raw":"AAAA","mediaType":"image/png"}`, `{"photo":"AAAA"}`},
		{"raw of another type", "files", `{"raw":"AAAA","mediaType":"text/plain"}`, `{"raw":"AAAA"}`},
		{"two raw", "files", `{"raw":"AAAA"},{"raw":"BBBB"}`, `{"photo":"AAAA","raw":"BBBB"}`},
		{"three raw", "files", `{"raw":"AAAA"},{"raw":"BBBB"},{"raw":"CCCC"}`, "error.code=-32005;error.data.0.reason=CONTENT_TYPE_NOT_SUPPORTED"},
		{"URL", "files", `{"url":"https://example.com/x"}`, `{"link":"https://example.com/x"}`},
		{"named", "files", `{"url":"https://example.com/x","metadata":{"input":"note"}}`, `{"note":"https://example.com/x"}`},
		{"named, but none", "files", `{"raw":"AAAA","metadata":{"input":"nope"}}`, "error.code=-32602;error.data.0.fieldViolations.0.field=message.parts[0]"},
		{"named twice", "files", `{"raw":"AAAA","metadata":{"input":"note"}},{"raw":"BBBB","metadata":{"input":"note"}}`, "error.code=-32602"},
		{"a text file, named", "files", `{"raw":"aMOpIQ==","mediaType":"text/markdown; charset=utf-8","metadata":{"input":"note"}}`, `{"note":"hé!"}`},
		{"a JSON file, named", "files", `{"raw":"e30=","mediaType":"application/geo+json","metadata":{"input":"note"}}`, `{"note":"{}"}`},
		{"a text file that is none", "files", `{"raw":"/w==","mediaType":"text/plain","metadata":{"input":"note"}}`, "error.code=-32602;error.message~UTF-8;error.data.0.fieldViolations.0.field=message.parts[0]"},
		{"a text file for base64, named", "files", `{"raw":"aMOpIQ==","mediaType":"text/plain","metadata":{"input":"raw"}}`, `{"raw":"aMOpIQ=="}`},
		{"an image, named", "files", `{"raw":"AAAA","mediaType":"image/png","metadata":{"input":"note"}}`, `{"note":"AAAA"}`},
		{"a file and data", "files", `{"raw":"AAAA"},` + data("", `{"note":"n"}`), `{"note":"n","photo":"AAAA"}`},
		{"a file and a text", "echo", `{"raw":"AAAA","metadata":{"input":"text"}},` + text("", "look"), `{"text":"AAAA"}`},
		{"no place for a file", "echo", `{"raw":"AAAA"},` + text("", "x"), "error.code=-32005"},
	} {
		t.Run(c.about, func(t *testing.T) {
			a := newAgent(t)
			got := a.send10(t, c.parts, `"metadata":{"skill":"acme.`+c.skill+`"}`, "")
			sent := a.Inputs(t, c.skill)
			missing, asks := strings.CutPrefix(c.want, "missing ")
			switch {
			case c.want[0] == '{':
				got.check(t, "200;result.task.status.state=TASK_STATE_COMPLETED")
				if len(sent) != 1 || sent[0] != c.want {
					t.Errorf("%q", sent)
				}
				return
			case asks:
				got.check(t, `200;result.task.status.state=TASK_STATE_INPUT_REQUIRED;result.task.status.message.role=ROLE_AGENT;result.task.status.message.parts.1.data.skill=acme.`+c.skill+
					`;result.task.status.message.parts.1.data.missing=["`+strings.ReplaceAll(missing, ",", `","`)+`"];result.task.status.message.parts.1.data.inputSchema.type=object;!result.task.status.message.parts.2;result.task.metadata.EXT.skill;result.task.metadata.EXT.provider=acme`)
			default:
				got.check(t, "200;"+c.want)
			}
			if len(sent) != 0 {
				t.Errorf("%q", sent)
			}
		})
	}
}

// Section 5: a text that is not JSON is no value of an input of another type. The question says so, in the first message and later.
func TestUnreadText(t *testing.T) {
	required := object{"required": true}
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		for i, c := range []struct{ kind, say, want string }{
			{"integer", "three", "That does not fit: argument \"n\" must be an integer, not a string. The skill acme.typed needs further inputs: n (integer): The n."},
			{"number", "3,5", "must be a number, not a string"},
			{"boolean", "yes", "must be a boolean, not a string"},
			{"array", "a, b", "must be an array, not a string"},
			{"object", "{a: 1}", "must be an object, not a string"},
			{"integer", "", "The skill acme.typed needs further inputs: n (integer): The n."},
		} {
			a := newAgent(t, func(a *agent) {
				a.skills = append(a.skills, skill("typed", providertest.Input("n", c.kind, required), providertest.Input("note", "string", nil)))
			})
			asked := "200;" + d.task + ".status.state=" + d.state("input-required") + ";" + d.task + `.status.message.parts.1.data.missing=["n"];` + d.task + ".status.message.parts.0.text"
			if asked += "~" + c.want; strings.HasPrefix(c.want, "The skill") {
				asked = strings.ReplaceAll(asked, "text~", "text=")
			}
			got := a.call(t, d.send, d.params(idOf(d, i), text(d.version, c.say), `"metadata":{"skill":"acme.typed"}`))
			got.check(t, asked)
			a.call(t, d.send, d.params(got.at(d.task+".id"), text(d.version, c.say), "")).check(t, asked)
			a.Received(t, "POST /run/typed", 0)
		}
	})
}

// What people read in the schema of a question is visible, and what calls are checked against is as the provider has it.
func TestSchemaOfQuestion(t *testing.T) {
	const hidden = "\u202e\u200b"
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t, func(a *agent) {
			a.skills = append(a.skills, skill("shown", providertest.Input("n", "string", object{
				"required": true, "description": "The" + hidden + " n.",
				"schema": object{"title": "T" + hidden, "x-note": "X" + hidden, "enum": []any{"a" + hidden, "b"}, "$comment": strings.Repeat("é", 3000)},
			})))
		})
		got := a.call(t, d.send, d.params("", data(d.version, `{}`), `"metadata":{"skill":"acme.shown"}`))
		schema := d.task + ".status.message.parts.1.data.inputSchema.properties.n."
		got.check(t, d.task+".status.message.parts.0.text=The skill acme.shown needs further inputs: n (string): The n.;"+schema+"description=The n.;"+schema+"title=T;"+schema+"x-note=X;"+schema+`enum=["a`+hidden+`","b"]`)
		if n := len([]rune(got.at(schema + "$comment"))); n > 2000 {
			t.Errorf("a text of %d characters", n)
		}
	})
}

// Section 5: clients that only send text are asked until all is there, in each version. Nothing is sent before.
func TestDialogue(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		asked := d.task + ".status.state=" + d.state("input-required") + ";" + d.task + ".status.message.parts.1.data."
		got := a.call(t, d.send, d.params("", text(d.version, "Hello"), ""))
		got.check(t, asked+"missing=[\"skill\"]")
		id := got.at(d.task + ".id")
		for _, step := range []struct{ say, want string }{
			{"what?", asked + `missing=["skill"]`},
			{"acme.form", asked + `missing=["city","days"]`},
			{"Rome", asked + `missing=["days"]`},
			{"many", asked + `missing=["days"];` + d.task + `.status.message.parts.0.text~an integer, not a string`},
			{"11", asked + `missing=["days"];` + d.task + `.status.message.parts.0.text~10`},
			{`{"city":7}`, asked + `missing=["city","days"]`},
			{`{"city":"Oslo"}`, asked + `missing=["days"]`},
			{"3", d.task + ".status.state=" + d.state("completed") + ";" + d.task + `.artifacts.0.parts.0.data={"city":"Oslo","days":3}`},
		} {
			a.Received(t, "POST /run/form", 0)
			got = a.call(t, d.send, d.params(id, text(d.version, step.say), ""))
			got.check(t, "200;"+d.task+".id="+id+";"+step.want)
		}
		a.Received(t, "POST /run/form", 1)
		got = a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id))
		// The client's messages and the status messages that were superseded, in order.
		got.check(t, "result.history.#=17;result.history.0.parts.0.text=Hello;result.history.1.role=ROLE_AGENT;result.history.2.parts.0.text=what?;result.history.15.role=ROLE_AGENT;result.history.16.parts.0.text=3;!result.status.message")
	})
}

// A follow-up is bound to the task's skill, and to its context.
func TestFollowUp(t *testing.T) {
	a := newAgent(t)
	got := a.send10(t, data("", `{"city":"Rome"}`), `"metadata":{"skill":"acme.form"},"contextId":"c1"`, "")
	got.check(t, "result.task.contextId=c1;result.task.status.state=TASK_STATE_INPUT_REQUIRED")
	of := fmt.Sprintf(`"taskId":%q`, got.at("result.task.id"))
	for _, c := range [][2]string{
		{of + `,"metadata":{"skill":"acme.echo"}`, "error.code=-32602;error.message~acme.echo"},
		{of + `,"metadata":{"skill":"acme.nope"}`, "error.code=-32602"},
		{of + `,"contextId":"c2"`, "error.code=-32602;error.data.0.fieldViolations.0.field=message.contextId"},
		{`"taskId":"nope"`, "error.code=-32001;error.data.0.reason=TASK_NOT_FOUND;error.data.0.metadata.taskId=nope"},
	} {
		a.send10(t, text("", "3"), c[0], "").check(t, "200;"+c[1])
	}
	a.send10(t, `{"raw":"AAAA"}`, of, "").check(t, "error.code=-32005")
	a.Received(t, "POST /run/form", 0)
	a.send10(t, text("", "3"), of+`,"contextId":"c1","metadata":{"skill":"acme/form"}`, "").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
	a.send10(t, text("", "3"), of, "").check(t, "200;error.code=-32004;error.data.0.reason=UNSUPPORTED_OPERATION")
	a.Received(t, "POST /run/form", 1)
}

// A file that comes before the skill is chosen is one of its inputs.
func TestFileBeforeSkill(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		file := func(bytes, mediaType, metadata string) string {
			switch d.version {
			case "0.3":
				return `{"kind":"file","file":{"bytes":"` + bytes + `","mimeType":"` + mediaType + `"},"metadata":` + metadata + `}`
			case "0.1":
				return `{"type":"file","file":{"bytes":"` + bytes + `","mimeType":"` + mediaType + `"},"metadata":` + metadata + `}`
			}
			return `{"raw":"` + bytes + `","mediaType":"` + mediaType + `","metadata":` + metadata + `}`
		}
		choose := `"metadata":{"skill":"acme.files"}`
		for i, c := range []struct{ first, second, more, want string }{
			{file("AAAA", "image/png", "null"), text(d.version, "acme.files"), "", `{"photo":"AAAA"}`},
			{file("AAAA", "text/x", "null"), data(d.version, `{"skill":"acme.files","input":{"note":"n"}}`), "", `{"raw":"AAAA","note":"n"}`},
			{file("AAAA", "image/png", "null") + "," + data(d.version, `{"note":"n"}`), file("BBBB", "image/png", "null"), choose, `{"note":"n","photo":"AAAA","raw":"BBBB"}`},
			{file("AAAA", "image/png", "null"), file("BBBB", "image/png", `{"input":"photo"}`), choose, `{"photo":"BBBB"}`},
			{file("AAAA", "image/png", "null"), data(d.version, `{"photo":"CCCC"}`), choose, `{"photo":"CCCC"}`},
		} {
			got := a.call(t, d.send, d.params(idOf(d, i), c.first, ""))
			got.check(t, d.task+".status.state="+d.state("input-required"))
			id := got.at(d.task + ".id")
			if i == 0 { // a skill without an input for it is refused, and another one can be chosen
				a.call(t, d.send, d.params(id, text(d.version, "acme.echo"), "")).check(t, "error.code=-32005;error.message~earlier message")
			}
			a.call(t, d.send, d.params(id, c.second, c.more)).check(t, d.task+".status.state="+d.state("completed"))
			if sent := a.Inputs(t, "files"); len(sent) != i+1 || sent[i] != c.want {
				t.Errorf("%q, want %s", sent, c.want)
			}
		}
	})
}
