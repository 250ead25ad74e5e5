package a2a_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

// Section 6: the state after each outcome, in each version, with a text and data that say what to do.
func TestStates(t *testing.T) {
	const noRun = ";!@Tmetadata.EXT.executionId"
	for _, c := range []struct {
		about  string
		setup  setup
		answer http.HandlerFunc
		state  string
		want   string // T is the task, D the data of the status message
	}{
		{"completed", nil, providertest.Completed("e1", object{"a": 1}), "completed", `!@Tstatus.message;@Tartifacts.#=1;@Tartifacts.0.name=output;@Tartifacts.0.parts.0.data={"a":1};@Tmetadata.EXT.executionId=e1`},
		{"no output", with("echo", object{"endpoint": object{"status_url": nil, "result_url": nil}}), providertest.Answer(200, providertest.Response("e1", "completed", nil)), "completed", "!@Tartifacts"},
		{"null output", with("echo", object{"endpoint": object{"status_url": nil, "result_url": nil}}), providertest.Completed("e1", nil), "completed", "!@Tartifacts"},
		{
			"failed", nil, providertest.Answer(200, providertest.Response("e1", "failed", object{"error": object{"code": "INTERNAL_ERROR", "message": "It broke."}})), "failed",
			"@Dmessage~It broke;@Dexecuted=yes;@Dsource=provider;@Dnext;@Dcode;@Tmetadata.EXT.executionId=e1;!@Tartifacts",
		},
		{"timed out", nil, providertest.Answer(200, providertest.Response("e1", "timeout", nil)), "failed", "@Dcode~TIMEOUT;@Dexecuted=yes"},
		{"provider fault", nil, providertest.Answer(200, "[]"), "failed", "@Dsource;@Dexecuted=maybe"},
		{"overloaded", nil, providertest.Refused(429, "RATE_LIMITED"), "failed", "@Dcode=RATE_LIMITED;@Dexecuted=no;@Dsource=provider" + noRun},
		{"unauthorized", nil, providertest.Refused(401, "AUTH_REQUIRED"), "auth-required", "@Dcode=AUTH_REQUIRED;@Dexecuted=no" + noRun},
		{"no credential", with("echo", object{"auth": object{"type": "api_key", "header": "X-Key"}}), nil, "auth-required", "@Dcode=AUTH_REQUIRED;@Dexecuted=no;@Dsource=bridge;@Ddetails.required_by" + noRun},
		{"denied", nil, providertest.Refused(403, "PERMISSION_DENIED"), "rejected", "@Dcode=PERMISSION_DENIED;@Dexecuted=no" + noRun},
		{"provider's skill not found", nil, providertest.Refused(404, "SKILL_NOT_FOUND"), "rejected", "@Dcode=SKILL_NOT_FOUND;@Dsource=provider" + noRun},
		{"invalid inputs, says the provider", nil, providertest.Refused(400, "INVALID_INPUT"), "failed", "@Dsource=provider" + noRun},
		{"invalid document", with("echo", object{"endpoint": object{"method": "JUMP"}}), nil, "rejected", "@Dexecuted=no;@Dcode=VALIDATION_ERROR" + noRun},
		{"version incompatible", with("echo", object{"protocol": object{"version": "7.0.0"}}), nil, "rejected", "@Dexecuted=no;@Dcode=VERSION_INCOMPATIBLE" + noRun},
		{"descriptor unreachable", func(a *agent) { a.On("GET /skills/0.json", providertest.Answer(503, "{}")) }, nil, "failed", "@Dexecuted=no;@Dnext;@Dretry.suggested_delay_ms" + noRun},
		{"index unreachable", func(a *agent) { a.On("GET /.well-known/skill-sharing", providertest.Answer(503, "{}")) }, nil, "failed", "@Dexecuted=no" + noRun},
	} {
		t.Run(c.about, func(t *testing.T) {
			forEach(t, func(t *testing.T, d *dialect) {
				t.Helper()
				a := newAgent(t)
				if c.setup != nil {
					a = newAgent(t, c.setup)
				}
				if c.answer != nil {
					a.On("POST /run/echo", c.answer)
				}
				got := a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`))
				want := c.want
				if c.state != "completed" {
					want += ";@Tstatus.message.parts.0.text;@Tstatus.message.role"
				}
				want = strings.ReplaceAll(strings.ReplaceAll(want, "@D", d.task+".status.message.parts.1.data."), "@T", d.task+".")
				got.check(t, "200;"+d.task+".status.state="+d.state(c.state)+";"+want)
				invoked := 1
				if c.answer == nil {
					invoked = 0
				}
				a.Received(t, "POST /run/echo", invoked)
			})
		})
	}
}

// Section 6: the parts of an output, in each version.
func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		contentType string
		output      any
		v10, v03    string
	}{
		{"application/json", []int{1}, `{"data":[1]}`, `{"data":{"result":[1]},"kind":"data"}`},
		{"application/json", object{"a": "b"}, `{"data":{"a":"b"}}`, `{"data":{"a":"b"},"kind":"data"}`},
		{"text/plain", "a\nb", `{"text":"a\nb"}`, `{"kind":"text","text":"a\nb"}`},
		{"text/markdown", "# a", `{"mediaType":"text/markdown","text":"# a"}`, `{"kind":"text","metadata":{"mediaType":"text/markdown"},"text":"# a"}`},
		{"image/png", "AAAA", `{"mediaType":"image/png","raw":"AAAA"}`, `{"file":{"bytes":"AAAA","mimeType":"image/png"},"kind":"file"}`},
		{"image/png", object{"filename": "x.png", "url": "https://example.com/x"}, `{"filename":"x.png","mediaType":"image/png","url":"https://example.com/x"}`, `{"file":{"mimeType":"image/png","name":"x.png","uri":"https://example.com/x"},"kind":"file"}`},
		{"image/png", object{"base64": "AAAA", "media_type": "image/gif"}, `{"mediaType":"image/gif","raw":"AAAA"}`, ""},
		{"application/pdf", object{"base64": "AAAA", "more": 1}, `{"data":{"base64":"AAAA","more":1}}`, ""},
		{"multipart/mixed", []any{"a", object{"b": 1}, object{"base64": "AAAA"}}, `{"text":"a"},{"data":{"b":1}},{"raw":"AAAA"}`, ""},
	} {
		a := newAgent(t, with("echo", object{"output": object{"content_type": c.contentType}}))
		a.On("POST /run/echo", providertest.Completed("e1", c.output))
		a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "").check(t, "result.task.artifacts.0.parts=["+c.v10+"]")
		if c.v03 == "" {
			continue
		}
		a.call(t, "message/send", `{"message":`+message("0.3", text("0.3", "x"), `"metadata":{"skill":"acme.echo"}`)+`}`).check(t, "result.artifacts.0.parts=["+c.v03+"]")
		_, kind, _ := strings.Cut(c.v03, `"kind":"`)
		kind, _, _ = strings.Cut(kind, `"`)
		a.call(t, "tasks/send", `{"id":"`+named+`","message":`+message("0.1", text("0.1", "x"), `"metadata":{"skill":"acme.echo"}`)+`}`).check(t, "result.artifacts.0.parts.0.type="+kind)
	}
	// Numbers and texts are as the provider wrote them.
	a := newAgent(t)
	a.On("POST /run/echo", providertest.Answer(200, `{"execution_id":"e1","status":"completed","skill_id":"x","timestamps":{"created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:05Z"},"output":{"n":1.0e400,"big":123456789012345678901,"s":"\u0041"}}`))
	got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "")
	if !strings.Contains(got.text, `{"data":{"n":1.0e400,"big":123456789012345678901,"s":"\u0041"}}`) {
		t.Errorf("%s", got.text)
	}
}

// Section 6: AUTH_REQUIRED is a state that any later message resumes, with the same inputs. Nothing is invoked twice.
func TestAuthRequired(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		a.On("POST /run/form", providertest.Refused(401, "AUTH_REQUIRED"))
		send := d.params("", data(d.version, `{"skill":"acme.form","input":{"city":"Rome","days":2}}`), "")
		got := a.call(t, d.send, send)
		got.check(t, d.task+".status.state="+d.state("auth-required"))
		id := got.at(d.task + ".id")
		again := d.params(id, data(d.version, `{"city":7,"note":"a very long note that is too long"}`)+","+text(d.version, "done"), "")
		got = a.call(t, d.send, again)
		got.check(t, d.task+".id="+id+";"+d.task+".status.state="+d.state("auth-required"))
		a.On("POST /run/form", providertest.Completed("e1", "ok"))
		got = a.call(t, d.send, again)
		got.check(t, d.task+".id="+id+";"+d.task+".status.state="+d.state("completed"))
		sent := a.Inputs(t, "form")
		if len(sent) != 3 || sent[0] != sent[1] || sent[1] != sent[2] || sent[0] != `{"city":"Rome","days":2}` {
			t.Errorf("%q", sent)
		}
	})
	t.Run("an accepted run", func(t *testing.T) {
		a := newAgent(t)
		end := a.Accept("slow")
		a.On("GET /status/x-slow", providertest.Refused(401, "AUTH_REQUIRED"))
		got := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, "")
		got.check(t, "result.task.status.state=TASK_STATE_AUTH_REQUIRED;result.task.metadata.EXT.executionId=x-slow")
		id := got.at("result.task.id")
		a.call(t, "CancelTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "error.code=-32002")
		end("ok")
		got = a.send10(t, text("", "now"), fmt.Sprintf(`"taskId":%q`, id), "")
		got.check(t, `result.task.status.state=TASK_STATE_COMPLETED;result.task.artifacts.0.parts.0.data=ok`)
		a.Received(t, "POST /run/slow", 1)
	})
	t.Run("without inputs", func(t *testing.T) {
		a := newAgent(t)
		a.On("POST /run/number", providertest.Refused(401, "AUTH_REQUIRED"))
		got := a.send10(t, data("", `{}`), `"metadata":{"skill":"acme.number"}`, "")
		a.On("POST /run/number", providertest.Completed("e1", "ok"))
		a.send10(t, text("", "5"), fmt.Sprintf(`"taskId":%q`, got.at("result.task.id")), "").check(t, "result.task.status.state=TASK_STATE_COMPLETED")
		if sent := a.Inputs(t, "number"); len(sent) != 2 || sent[1] != "{}" {
			t.Errorf("%q", sent)
		}
	})
}

// Section 6: a message to a task whose run goes on, and to one that has ended.
func TestMessageToTask(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		end := a.Accept("slow")
		got := a.start(t, d, "slow")
		id := got.at("result.id")
		joined := make(chan *answer)
		go func() {
			joined <- a.call(t, d.send, d.params(id, text(d.version, "one more thing"), ""))
		}()
		a.call(t, d.send, d.params(id, text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`)).check(t, "error.code=-32602")
		eventually(t, func() bool {
			return a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).at("result.history.#") == "2"
		}, "the message is in the history")
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_WORKING;!result.status.message")
		end("ok")
		(<-joined).check(t, d.task+".status.state="+d.state("completed")+";"+d.task+".id="+id)
		a.Received(t, "POST /run/slow", 1)
		a.On("POST /run/slow", providertest.Completed("e2", "again"))
		last := a.call(t, d.send, d.params(id, text(d.version, "again"), `"metadata":{"skill":"acme.slow"}`))
		if d.version == "0.1" { // a new run under that id
			last.check(t, "result.id="+id+";result.status.state=completed;result.artifacts.0.parts.0.data.result=again")
			a.Received(t, "POST /run/slow", 2)
			a.call(t, "tasks/get", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.artifacts.0.parts.0.data.result=again")
			return
		}
		last.check(t, "error.code=-32004")
		a.Received(t, "POST /run/slow", 1)
	})
}

// start starts a run of a skill that accepts, and returns its task as GetTask has it.
func (a *agent) start(tb testing.TB, d *dialect, slug string) *answer {
	tb.Helper()
	id := named
	if d.version == "0.1" {
		body := strings.Replace(request(d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.`+slug+`"}`)), `"id":1,`, "", 1)
		a.post(tb, "/a2a", body, as(d.version))
	} else {
		more := `"metadata":{"skill":"acme.` + slug + `"},"configuration":{"returnImmediately":true,"blocking":false}`
		got := a.call(tb, d.send, d.params("", text(d.version, "x"), more))
		got.check(tb, "200;"+d.task+".id")
		id = got.at(d.task + ".id")
	}
	var got *answer
	eventually(tb, func() bool {
		got = a.post(tb, "/a2a", request(d.get, fmt.Sprintf(`{"id":%q}`, id)), as(d.version))
		return got.at("result.status.state") == d.state("working")
	}, "the task is working")
	return got
}

// Section 6: cancelling.
func TestCancel(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		cancel := func(a *agent, id string) *answer {
			return a.post(t, "/a2a", request(d.cancel, fmt.Sprintf(`{"id":%q}`, id)), as(d.version))
		}
		a := newAgent(t)
		got := a.call(t, d.send, d.params("", text(d.version, "x"), ""))
		id := got.at(d.task + ".id")
		cancel(a, id).check(t, "200;result.id="+id+";result.status.state="+d.state("canceled"))
		cancel(a, id).check(t, "200;error.code=-32002")
		cancel(a, "unknown").check(t, "200;error.code=-32001")
		cancel(a, "").check(t, "200;error.code=-32602")
		a = newAgent(t)
		end := a.Accept("slow")
		id = a.start(t, d, "slow").at("result.id")
		cancel(a, id).check(t, "200;error.code=-32002")
		end("ok")
		eventually(t, func() bool {
			return a.post(t, "/a2a", request(d.get, fmt.Sprintf(`{"id":%q}`, id)), as(d.version)).at("result.status.state") == d.state("completed")
		}, "the run goes on")

		a = newAgent(t, options(func(o *a2a.Options) { o.Abandon = true }))
		a.Accept("slow")
		id = a.start(t, d, "slow").at("result.id")
		cancel(a, id).check(t, "200;result.status.state="+d.state("canceled")+";result.status.message.parts.0.text~goes on;result.status.message.parts.1.data.code=ABANDONED;result.status.message.parts.1.data.executed=yes")
		eventually(t, func() bool { calls, _ := a.bridge.InProgress(); return calls == 0 }, "the run is no longer followed")
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_CANCELED")
		cancel(a, id).check(t, "200;error.code=-32002")
	})
}

// Section 6: skills whose output is the answer.
func TestReplyMessage(t *testing.T) {
	reply := options(func(o *a2a.Options) { o.ReplyMessage = []string{"acme.echo", "acme.free", "acme.form"} })
	for i := range dialects {
		d := &dialects[i]
		a := newAgent(t, reply)
		of := `"metadata":{"skill":"acme.echo"}`
		got := a.call(t, d.send, d.params("", text(d.version, "x"), of))
		switch d.version {
		case "1.0":
			got.check(t, `result.message.role=ROLE_AGENT;result.message.parts.0.data={"text":"x"};result.message.messageId;result.message.contextId;!result.message.taskId;!result.task`)
		case "0.3":
			got.check(t, `result.kind=message;result.role=agent;result.parts.0.kind=data;result.contextId;!result.taskId`)
		default:
			got.check(t, "result.status.state=completed")
			continue
		}
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, got.at(strings.TrimSuffix("result."+map[string]string{"1.0": "message"}[d.version], ".")+".messageId"))).check(t, "error.code=-32001")
		a.call(t, d.send, d.params("", text(d.version, "x"), of+`,"configuration":{"returnImmediately":true,"blocking":false}`)).check(t, d.task+".id;"+d.task+".status.state")
		a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.files"}`)).check(t, d.task+".status.state="+d.state("completed"))
		a.On("POST /run/free", providertest.Refused(403, "PERMISSION_DENIED"))
		a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.free"}`)).check(t, d.task+".status.state="+d.state("rejected"))
		// A task that the client knows stays one.
		got = a.call(t, d.send, d.params("", data(d.version, `{"city":"Rome"}`), `"metadata":{"skill":"acme.form"}`))
		got.check(t, d.task+".status.state="+d.state("input-required"))
		a.call(t, d.send, d.params(got.at(d.task+".id"), text(d.version, "3"), "")).check(t, d.task+".status.state="+d.state("completed"))
	}
}

// An output that had to be repaired says so in the task, also when it is read or listed later, in streams and in messages.
func TestRepairedOutput(t *testing.T) {
	const first = ".metadata.EXT.warnings.0.reason=invalid_json;"
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		another := func(id string) string { return map[string]string{"0.1": id}[d.version] }
		for _, output := range []string{`{"a":1,"a":2}`, `{"a":"\ud83d"}`, "{\"a\":\"\xff\"}"} {
			a := newAgent(t)
			a.On("POST /run/echo", providertest.Answer(200, `{"execution_id":"e1","status":"completed","output":`+output+`}`))
			of := `"metadata":{"skill":"acme.echo"}`
			got := a.post(t, "/a2a", request(d.send, d.params("", text(d.version, "x"), of)), by("ada"))
			got.check(t, d.task+".status.state="+d.state("completed")+";"+d.task+first+d.task+".metadata.EXT.warnings.0.message~the provider's answer is not valid JSON: ")
			a.post(t, "/a2a", request(d.get, fmt.Sprintf(`{"id":%q}`, got.at(d.task+".id"))), by("ada")).check(t, "result"+first+"!result.metadata.EXT.warnings.1")
			stream := a.call(t, d.stream, d.params(another("another-0123456789"), text(d.version, "x"), of))
			final := map[string][2]string{"1.0": {".artifactUpdate", ".statusUpdate"}}[d.version]
			stream.check(t, "-2.result"+final[0]+first+"-1.result"+final[1]+first+"!-3.result.metadata;!-3.result.statusUpdate.metadata")
			if d.version == "1.0" {
				a.post(t, "/a2a", request("ListTasks", `{}`), by("ada")).check(t, "result.tasks.0"+first)
			}
			a.On("POST /run/echo", providertest.Answer(200, `{"execution_id":"e1","status":"completed","output":{}}`))
			a.call(t, d.send, d.params(another("a-third-0123456789"), text(d.version, "x"), of)).check(t, d.task+".artifacts;!"+d.task+".metadata.EXT.warnings")
		}
	})
	a := newAgent(t, options(func(o *a2a.Options) { o.ReplyMessage = []string{"acme.echo"} }))
	a.On("POST /run/echo", providertest.Answer(200, `{"execution_id":"e1","status":"completed","output":"\udc00"}`))
	a.call(t, "SendMessage", dialects[0].params("", text("1.0", "x"), `"metadata":{"skill":"acme.echo"}`)).check(t, "result.message.parts.0.data=\ufffd;result.message"+first+"result.message.extensions.0="+wire.Extension)
}
