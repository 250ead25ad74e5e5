package a2a_test

import (
	"net/http"
	"strings"
	"testing"
)

// A message that names a context and no task answers the question of the only task of the caller in it that waits, as clients do that send only
// contextId.
func TestAnswerByContext(t *testing.T) {
	for _, d := range []struct{ version, method, task, working, waits, completed string }{
		{"1.0", "SendMessage", "result.task", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"},
		{"0.3", "message/send", "result", "working", "input-required", "completed"},
	} {
		t.Run(d.version, func(t *testing.T) {
			a := newAgent(t)
			send := func(user, context, parts, more string) *answer {
				t.Helper()
				role, of := "ROLE_USER", ""
				if d.version == "0.3" {
					role = "user"
				}
				if context != "" {
					of = `"contextId":"` + context + `",`
				}
				return a.post(t, "/a2a", request(d.method, `{"message":{"messageId":"m",`+of+`"role":"`+role+`","parts":[`+parts+`]`+more+`}}`), http.Header{"User": {user}})
			}
			form := `,"metadata":{"skill":"acme.form"}`

			// The question for a skill, then those for its inputs, each answered by the context.
			first := send("ada", "", text(d.version, "help me"), "")
			first.check(t, d.task+".status.state="+d.waits)
			id, context := first.at(d.task+".id"), first.at(d.task+".contextId")
			send("ada", context, text(d.version, "acme.form"), "").check(t, d.task+".id="+id+";"+d.task+".status.state="+d.waits)
			send("ada", context, text(d.version, "Oslo"), "").check(t, d.task+".id="+id+";"+d.task+".status.state="+d.waits)
			send("ada", context, data(d.version, `{"skill":"acme.form","input":{"days":3}}`), "").check(t, d.task+".id="+id+";"+d.task+".status.state="+d.completed)
			if sent := a.Inputs(t, "form"); len(sent) != 1 || !strings.Contains(sent[0], "Oslo") {
				t.Errorf("%q", sent)
			}

			// None waits any more: a new task of the context.
			next := send("ada", context, data(d.version, `{}`), form)
			next.check(t, d.task+".status.state="+d.waits+";"+d.task+".contextId="+context)
			if next.at(d.task+".id") == id {
				t.Errorf("the same task: %s", next.text)
			}
			// Another caller's, another context's, and another skill's messages are no answers.
			for about, other := range map[string]*answer{
				"another caller":  send("bob", context, text(d.version, "Rome"), form),
				"anonymous":       send("", context, text(d.version, "Rome"), form),
				"another context": send("ada", "another-context-of-ada", text(d.version, "Rome"), form),
			} {
				if got := other.at(d.task + ".id"); got == next.at(d.task+".id") || other.at(d.task+".status.state") != d.waits {
					t.Errorf("%s: %s", about, other.text)
				}
			}
			send("ada", context, data(d.version, `{"text":"x"}`), `,"metadata":{"skill":"acme.echo"}`).check(t, d.task+".status.state="+d.completed)

			// Two wait: the client has to say which one it means, unless the skill does.
			second := send("ada", context, data(d.version, `{}`), `,"metadata":{"skill":"acme.slow"}`)
			second.check(t, d.task+".status.state="+d.waits)
			both := send("ada", context, text(d.version, "Rome"), "")
			both.check(t, "error.code=-32602")
			for _, waits := range []*answer{next, second} {
				if !strings.Contains(both.text, waits.at(d.task+".id")) || !strings.Contains(both.text, "message.taskId") {
					t.Errorf("%s", both.text)
				}
			}
			send("ada", context, data(d.version, `{"city":"Rome","days":1}`), form).check(t, d.task+".id="+next.at(d.task+".id")+";"+d.task+".status.state="+d.completed)
			send("ada", context, text(d.version, "x"), "").check(t, d.task+".id="+second.at(d.task+".id")+";"+d.task+".status.state="+d.completed)

			// All anonymous callers are one: a context that others may choose, too, finds nothing.
			short := send("", "ctx-1", data(d.version, `{}`), form)
			short.check(t, d.task+".status.state="+d.waits)
			if again := send("", "ctx-1", text(d.version, "Rome"), form); again.at(d.task+".id") == short.at(d.task+".id") {
				t.Errorf("%s", again.text)
			}
			long := send("", "0b7c7d5e-7d8f-4a33", data(d.version, `{}`), form)
			send("", "0b7c7d5e-7d8f-4a33", text(d.version, "Rome"), "").check(t, d.task+".id="+long.at(d.task+".id"))
		})
	}
}
