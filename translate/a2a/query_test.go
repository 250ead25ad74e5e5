package a2a_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func by(user string) http.Header { return http.Header{"User": {user}} }

// Section 3: what a request waits for, in each version.
func TestWaiting(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			a := newAgent(t, inBubble)
			end := a.Accept("slow")
			ceiling := 50 * time.Second
			if d.version == "0.1" {
				ceiling = 25 * time.Second
			}
			start := time.Now()
			got := a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.slow"}`))
			got.check(t, "200;"+d.task+".status.state="+d.state("working"))
			if took := time.Since(start); took != ceiling {
				t.Errorf("it waits %v", took)
			}
			id := got.at(d.task + ".id")
			start = time.Now()
			a.post(t, "/a2a", request(d.get, fmt.Sprintf(`{"id":%q}`, id)), as(d.version)).check(t, "result.status.state="+d.state("working"))
			if took := time.Since(start); took > 0 {
				t.Errorf("get waits %v", took)
			}
			if d.version != "0.1" {
				for more, waits := range map[string]bool{
					``: true, `"configuration":{}`: true, `"configuration":{"returnImmediately":true,"blocking":false}`: false,
					`"configuration":{"returnImmediately":false,"blocking":true}`: true, `"configuration":{"returnImmediately":null,"blocking":null}`: true,
				} {
					start = time.Now()
					a.call(t, d.send, d.params(id, text(d.version, "x"), more)).check(t, "200;"+d.task+".id="+id)
					if took := time.Since(start); took > 0 != waits {
						t.Errorf("%s: it waits %v", more, took)
					}
				}
			}
			time.AfterFunc(3*time.Second, func() { end("ok") })
			start = time.Now()
			a.call(t, d.send, d.params(id, text(d.version, "x"), "")).check(t, d.task+".status.state="+d.state("completed"))
			if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
				t.Errorf("it waits %v", took)
			}
			a.Received(t, "POST /run/slow", 1)
		})
	})
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble, options(func(o *a2a.Options) { o.Wait = 7 * time.Second }))
		a.Accept("slow")
		for _, d := range dialects {
			start := time.Now()
			a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.slow"}`))
			if took := time.Since(start); took != 7*time.Second {
				t.Errorf("%s: it waits %v", d.version, took)
			}
		}
		time.Sleep(time.Hour) // until the runs are no longer followed
	})
}

// The timeout of a task is the client's, or the descriptor's, also a longer one than max_timeout. Without one, it has none.
func TestTimeouts(t *testing.T) {
	for _, c := range []struct {
		about, metadata string
		descriptor      any
		want            time.Duration
	}{
		{"none", `{}`, nil, 0},
		{"the descriptor's", `{}`, 90_000, 90 * time.Second},
		{"the client's", `{` + extension + `:{"timeoutMs":5000}}`, 90_000, 5 * time.Second},
		{"the client's is a double", `{` + extension + `:{"timeoutMs":5000.0}}`, 90_000, 5 * time.Second},
		{"the client's is long", `{` + extension + `:{"timeoutMs":2400000}}`, nil, 40 * time.Minute},
		{"null", `{` + extension + `:{"timeoutMs":null}}`, 90_000, 90 * time.Second},
		{"too short", `{` + extension + `:{"timeoutMs":0}}`, 90_000, -1},
		{"negative", `{` + extension + `:{"timeoutMs":-5000}}`, 90_000, -1},
		{"no number", `{` + extension + `:{"timeoutMs":"5000"}}`, 90_000, -1},
	} {
		for _, place := range []string{"request", "message"} {
			t.Run(c.about+" of the "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAgent(t, inBubble, with("slow", object{"endpoint": object{"timeout_ms": c.descriptor}}), options(func(o *a2a.Options) { o.Wait = c.want + 15*time.Minute }))
					a.Accept("slow")
					start := time.Now()
					of, whole := `"metadata":`+c.metadata, `"tenant":"acme.slow"`
					if place == "request" {
						of, whole = "", whole+`,"metadata":`+c.metadata
					}
					got := a.send10(t, text("", "x"), of, whole)
					if c.want < 0 {
						got.check(t, "error.code=-32602;error.data.0.fieldViolations.0.description~timeoutMs")
						return
					}
					if c.want == 0 {
						got.check(t, "result.task.status.state=TASK_STATE_WORKING")
						return
					}
					got.check(t, "result.task.status.state=TASK_STATE_FAILED;result.task.status.message.parts.1.data.code~TIMEOUT;result.task.status.message.parts.1.data.executed=yes")
					if took := time.Since(start); took < c.want || took > c.want+time.Minute { // after half an hour, without a call
						t.Errorf("%v, want %v", took, c.want)
					}
				})
			})
		}
	}
}

// A task without a timeout may take days: the provider is told none, streams go on, and few polls follow it. A run that never ends is FAILED when keep is over.
func TestLongTask(t *testing.T) {
	longtest.Need(t, longtest.Long)
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		end := a.Accept("slow")
		send := func() string {
			return a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		}
		id := send()
		time.AfterFunc(45*time.Minute, func() {
			for range 2 { // streams last an hour
				a.call(t, "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id)).want(t, "task working")
			}
		})
		time.Sleep(3 * time.Hour)
		watched := a.Count("GET /status/x-slow")
		time.Sleep(17 * time.Hour)
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_WORKING")
		end("late")
		time.Sleep(time.Hour)
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.0.name=output")
		if body := a.Requests("POST /run/slow")[0].Body; strings.Contains(body, "timeout_ms") {
			t.Errorf("the provider is told a timeout: %s", body)
		}
		if n := a.Count("GET /status/x-slow") - watched; n < 50 || n > 200 {
			t.Errorf("%d polls", n)
		}
		a.Accept("slow")
		id = send()
		time.Sleep(24*time.Hour + 2*time.Minute)
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_FAILED;result.status.message.parts.1.data.executed=yes")
	})
}

// Section 6: a task goes on while its provider may learn of the run, or of its output, also if it has left its client by then.
func TestRunIsKnownLate(t *testing.T) {
	done := providertest.Answer(http.StatusOK, providertest.Response("x-slow", "completed", nil))
	unknown, broken := providertest.Answer(http.StatusNotFound, "{}"), providertest.Answer(http.StatusInternalServerError, "{}")
	for name, c := range map[string]struct {
		status, result http.HandlerFunc
		late           time.Duration
		state          string
	}{
		"status, soon":       {unknown, nil, time.Second, "COMPLETED"},
		"status, later":      {unknown, nil, 25 * time.Second, "COMPLETED"},
		"status, never":      {unknown, nil, time.Hour, "FAILED"},
		"result":             {done, unknown, 25 * time.Second, "COMPLETED"},
		"result, never":      {done, unknown, time.Hour, "FAILED"},
		"status URL is down": {broken, nil, 10 * time.Minute, "COMPLETED"},
		"result URL is down": {done, broken, 10 * time.Minute, "COMPLETED"},
	} {
		for _, waits := range []string{"true", "false"} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAgent(t, inBubble)
					end := a.Accept("slow")
					a.On("GET /status/x-slow", c.status)
					a.On("GET /result/x-slow", c.result)
					time.AfterFunc(c.late, func() { end(1) })
					id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":`+waits+`}`).at("result.task.id")
					get := request("GetTask", fmt.Sprintf(`{"id":%q}`, id))
					for range 29 {
						if state := a.post(t, "/a2a", get, nil).at("result.status.state"); state == "TASK_STATE_FAILED" && c.state != "FAILED" {
							t.Fatal("the task has failed")
						}
						time.Sleep(time.Second)
					}
					time.Sleep(15 * time.Minute)
					a.post(t, "/a2a", get, nil).check(t, "result.status.state=TASK_STATE_"+c.state)
					time.Sleep(2 * time.Hour) // until the runs are no longer followed
				})
			})
		}
	}
}

// Section 6: a run outlives its request. It takes no call while it is followed, and its end is known without a request.
func TestRunOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		end := a.Accept("slow")
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.slow"}`, `"configuration":{"returnImmediately":true}`).at("result.task.id")
		a.postWith(t, ctx, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", "x"), fmt.Sprintf(`"taskId":%q`, id))+`}`), nil)
		time.Sleep(30 * time.Second)
		if calls, _ := a.bridge.InProgress(); calls != 0 {
			t.Errorf("%d calls are in progress", calls)
		}
		end("ok")
		time.Sleep(time.Minute)
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.status.state=TASK_STATE_COMPLETED;result.artifacts.0.parts.0.data=ok")
		a.Received(t, "POST /run/slow", 1)
	})
}

// Section 3: historyLength.
func TestHistoryLength(t *testing.T) {
	a := newAgent(t)
	got := a.send10(t, text("", "Rome"), `"metadata":{"skill":"acme.form"}`, "")
	id := got.at("result.task.id")
	a.send10(t, text("", "3"), fmt.Sprintf(`"taskId":%q`, id), "").check(t, "result.task.history.#=3")
	for _, c := range [][2]string{
		{`null`, "result.history.#=3"},
		{`0`, "!result.history"},
		{`1`, "result.history.#=1;result.history.0.parts.0.text=3"},
		{`2.0`, "result.history.#=2;result.history.0.role=ROLE_AGENT"},
		{`1e2`, "result.history.#=3"},
		{`-1`, "error.code=-32602;error.data.0.fieldViolations.0.field=historyLength"},
		{`1.5`, "error.code=-32602"},
		{`"1"`, "error.code=-32602"},
		{`true`, "error.code=-32602"},
	} {
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q,"historyLength":%s}`, id, c[0])).check(t, "200;"+c[1])
		a.call(t, "GetTask", fmt.Sprintf(`{"id":%q,"history_length":%s}`, id, c[0])).check(t, "200;"+c[1])
		a.call(t, "tasks/get", fmt.Sprintf(`{"id":%q,"historyLength":%s}`, id, c[0])).check(t, "200;"+strings.ReplaceAll(strings.ReplaceAll(c[1], "data.0.", "data."), "ROLE_AGENT", "agent"))
	}
	x := text("", "x")
	of := `"metadata":{"skill":"acme.echo"}`
	a.send10(t, x, of, `"configuration":{"historyLength":0}`).check(t, "!result.task.history;result.task.id")
	a.send10(t, x, of, `"configuration":{"historyLength":-1}`).check(t, "error.code=-32602;error.data.0.fieldViolations.0.field=configuration.historyLength")
	a.call(t, "SendStreamingMessage", `{"message":`+message("1.0", x, of)+`,"configuration":{"historyLength":0}}`).check(t, "!0.result.task.history;0.result.task.id")
	a.call(t, "tasks/send", `{"id":"`+named+`","message":`+message("0.1", text("0.1", "x"), of)+`}`).check(t, "!result.history;result.id")
	a.call(t, "tasks/send", `{"id":"`+named+`2","historyLength":3,"message":`+message("0.1", text("0.1", "x"), of)+`}`).check(t, "result.history.#=1")
}

// Section 3: contextId is the client's, else a UUID; in 0.1, it is the sessionId.
func TestContext(t *testing.T) {
	a := newAgent(t)
	of := `"metadata":{"skill":"acme.echo"}`
	a.send10(t, text("", "x"), of+`,"contextId":"mine"`, "").check(t, "result.task.contextId=mine;result.task.history.0.contextId=mine")
	a.send10(t, text("", "x"), of+`,"context_id":"mine"`, "").check(t, "result.task.contextId=mine")
	if got := a.send10(t, text("", "x"), of+`,"contextId":null`, "").at("result.task.contextId"); len(got) != 36 {
		t.Error(got)
	}
	a.call(t, "message/send", `{"message":`+message("0.3", text("0.3", "x"), of+`,"contextId":"mine"`)+`}`).check(t, "result.contextId=mine")
	a.call(t, "tasks/send", `{"id":"`+named+`","sessionId":"mine","message":`+message("0.1", text("0.1", "x"), of)+`}`).check(t, "result.sessionId=mine")
	a.send10(t, text("", "x"), of+`,"contextId":"`+strings.Repeat("x", 257)+`"`, "").check(t, "error.code=-32602;error.data.0.fieldViolations.0.field=message.contextId")
}

// Section 4: the faults of messages.
func TestFaultyMessages(t *testing.T) {
	a := newAgent(t)
	for _, c := range [][3]string{
		{"SendMessage", `{}`, "message"},
		{"SendMessage", `{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}`, "message.messageId"},
		{"SendMessage", `{"message":{"messageId":"","role":"ROLE_USER","parts":[{"text":"x"}]}}`, "message.messageId"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}`, "message.role"},
		{"SendMessage", `{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}`, "message.role"},
		{"SendMessage", `{"message":{"messageId":"m","parts":[{"text":"x"}]}}`, "message.role"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`, "message.parts"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER"}}`, "message.parts"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{}]}}`, "message.parts[0]"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","url":"y"}]}}`, "message.parts[0]"},
		{"SendMessage", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"},{"raw":"%"}]}}`, "message.parts[1].raw"},
		{"SendMessage", `{"message":{"messageId":"` + strings.Repeat("m", 257) + `","role":"ROLE_USER","parts":[{"text":"x"}]}}`, "message.messageId"},
		{"message/send", `{"message":{"role":"user","parts":[{"kind":"text","text":"x"}]}}`, "message.messageId"},
		{"message/send", `{"message":{"messageId":"m","role":"user","parts":[{"kind":"data","data":[1]}]}}`, "message.parts[0].data"},
		{"message/send", `{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}`, "message.parts[0].kind"},
		{"message/send", `{"message":{"messageId":"m","role":"agent","parts":[{"kind":"text","text":"x"}]}}`, "message.role"},
		{"tasks/send", `{"message":{"role":"user","parts":[{"type":"text","text":"x"}]}}`, "id"},
		{"tasks/send", `{"id":"` + named + `","message":{"role":"user","parts":[{"kind":"text","text":"x"}]}}`, "message.parts[0].type"},
		{"tasks/send", `{"id":"` + named + `"}`, "message"},
		{"GetTask", `{"id":""}`, "id"},
		{"GetTask", `{"id":7}`, "id"},
		{"CancelTask", `{}`, "id"},
	} {
		got := a.call(t, c[0], c[1])
		path := "error.data.fieldViolations.0.field"
		if c[0] == "SendMessage" || c[0] == "GetTask" || c[0] == "CancelTask" {
			path = "error.data.0.fieldViolations.0.field"
		}
		got.check(t, "200;error.code=-32602;"+path+"="+c[2])
	}
	// Unknown members and extensions are ignored, and null is absent.
	a.post(t, "/a2a", request("SendMessage", `{"x":1,"tenant":null,"configuration":{"y":2,"historyLength":null,"acceptedOutputModes":["a/b"]},"message":{"z":{},"taskId":null,"message_id":"m","role":"ROLE_USER","extensions":["https://example.com/e"],"reference_task_ids":["r"],"parts":[{"text":"acme.free","raw":null,"other":1}]}}`),
		http.Header{"A2a-Extensions": {"https://example.com/e"}}).check(t, "result.task.status.state=TASK_STATE_COMPLETED;result.task.history.0.messageId=m;result.task.history.0.extensions.0=https://example.com/e;result.task.history.0.referenceTaskIds.0=r;!result.task.history.0.z")
}

// Section 7: quotations are short and clean; -32003 for webhooks while push is off.
func TestErrors(t *testing.T) {
	a := newAgent(t)
	long := strings.Repeat("x", 5000) + `\u202e\u0007`
	for _, c := range [][2]string{
		{"SendMessage", `{"message":` + message("1.0", text("", "x"), `"metadata":{"skill":"acme.`+strings.Repeat("y", 240)+`\u202e\u0007"}`) + `}`},
		{"GetTask", `{"id":"` + strings.Repeat("z", 250) + `\u202e"}`},
		{strings.ReplaceAll(long, `\u`, `\\u`), `{}`},
		{"SendMessage", `{"message":` + message("1.0", `{"raw":"AAAA","metadata":{"input":"`+long+`"}}`, `"metadata":{"skill":"acme.files"}`) + `}`},
		{"SendMessage", `{"message":` + message("1.0", data("", `{"`+long+`":1,"`+long+`":1}`), `"metadata":{"skill":"acme.files"}`) + `}`},
		{"SendMessage", `{"message":` + message("1.0", data("", `{"text":"`+long+`","text":1}`), `"metadata":{"skill":"acme.echo"}`) + `}`},
	} {
		got := a.call(t, c[0], c[1])
		got.check(t, "200;error.code")
		if len(got.text) > 2500 || strings.ContainsAny(got.text, "\u202e\u0007") || strings.Contains(got.text, strings.Repeat("x", 300)) {
			t.Errorf("%d bytes: %.3000s", len(got.text), got.text)
		}
	}
	a.post(t, "/a2a", request("GetTask", `{}`), as("1."+long[:3000])).check(t, "error.code=-32009")
	hook := `{"url":"https://example.com/hook"}`
	for method, params := range map[string]string{
		"CreateTaskPushNotificationConfig": `{"taskId":"x","url":"https://example.com/hook"}`, "GetTaskPushNotificationConfig": `{"taskId":"x","id":"y"}`,
		"ListTaskPushNotificationConfig": `{"taskId":"x"}`, "ListTaskPushNotificationConfigs": `{"taskId":"x"}`, "DeleteTaskPushNotificationConfig": `{"taskId":"x","id":"y"}`,
		"tasks/pushNotificationConfig/set": `{"taskId":"x","pushNotificationConfig":` + hook + `}`, "tasks/pushNotificationConfig/get": `{"id":"x"}`,
		"tasks/pushNotificationConfig/list": `{"id":"x"}`, "tasks/pushNotificationConfig/delete": `{"id":"x","pushNotificationConfigId":"y"}`,
		"tasks/pushNotification/set": `{"id":"x","pushNotificationConfig":` + hook + `}`, "tasks/pushNotification/get": `{"id":"x"}`,
		"SendMessage":  `{"message":` + message("1.0", text("", "acme.free"), "") + `,"configuration":{"taskPushNotificationConfig":` + hook + `}}`,
		"message/send": `{"message":` + message("0.3", text("0.3", "acme.free"), "") + `,"configuration":{"pushNotificationConfig":` + hook + `}}`,
		"tasks/send":   `{"id":"` + named + `","message":` + message("0.1", text("0.1", "acme.free"), "") + `,"pushNotification":` + hook + `}`,
	} {
		a.call(t, method, params).check(t, "200;error.code=-32003")
	}
	a.Received(t, "POST /run/free", 0)
}

// Section 9: whose tasks, under which ids.
func TestOwners(t *testing.T) {
	a := newAgent(t)
	of := `"metadata":{"skill":"acme.echo"}`
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		send := request(d.send, d.params("", text(d.version, "x"), of))
		mine := a.post(t, "/a2a", send, by("ada")).at(d.task + ".id")
		for _, method := range []string{"GetTask", "CancelTask", "tasks/get", "tasks/cancel"} {
			params := fmt.Sprintf(`{"id":%q}`, mine)
			for _, other := range []http.Header{by("bob"), nil} {
				foreign := a.post(t, "/a2a", request(method, params), other)
				missing := a.post(t, "/a2a", request(method, `{"id":"01a20708-0000-7a82-b84e-919c3abc86a7"}`), other)
				foreign.check(t, "200;error.code=-32001")
				if got := strings.ReplaceAll(foreign.text, mine, "01a20708-0000-7a82-b84e-919c3abc86a7"); got != missing.text {
					t.Errorf("%s\n%s", got, missing.text)
				}
			}
		}
		a.post(t, "/a2a", request("SubscribeToTask", fmt.Sprintf(`{"id":%q}`, mine)), by("bob")).check(t, "404;error.code=-32001")
		foreign := a.post(t, "/a2a", request(d.send, d.params(mine, text(d.version, "x"), of)), by("bob"))
		if d.version == "0.1" { // the names of two owners
			foreign.check(t, "result.status.state=completed;result.id="+mine)
			return
		}
		foreign.check(t, "error.code=-32001")
	})
	for id, want := range map[string]string{
		"short": "error.code=-32602;error.data.fieldViolations.0.field=id", strings.Repeat("é", 15): "error.code=-32602", strings.Repeat("é", 16): "result.status.state=completed",
		"../../../../etc/passwd": "result.status.state=completed", strings.Repeat("x", 257): "error.code=-32602",
	} {
		a.call(t, "tasks/send", fmt.Sprintf(`{"id":%q,"message":%s}`, id, message("0.1", text("0.1", "x"), of))).check(t, want)
	}
	a.post(t, "/a2a", request("tasks/send", `{"id":"s","message":`+message("0.1", text("0.1", "x"), of)+`}`), by("ada")).check(t, "result.id=s;result.status.state=completed")
}

// A message of 0.1 that is sent twice at once is one run.
func TestSameNameAtOnce(t *testing.T) {
	a := newAgent(t)
	end := a.Accept("slow")
	var wg sync.WaitGroup
	answers := make([]*answer, 5)
	for i := range answers {
		wg.Go(func() {
			answers[i] = a.call(t, "tasks/send", `{"id":"`+named+`","message":`+message("0.1", text("0.1", "x"), `"metadata":{"skill":"acme.slow"}`)+`}`)
		})
	}
	eventually(t, func() bool {
		return a.call(t, "tasks/get", `{"id":"`+named+`","historyLength":9}`).at("result.history.#") == "5"
	}, "all messages are in the history")
	end("ok")
	wg.Wait()
	for _, got := range answers {
		got.check(t, "result.status.state=completed")
	}
	a.Received(t, "POST /run/slow", 1)
}

// Section 9: ListTasks.
func TestListTasks(t *testing.T) {
	a := newAgent(t)
	list := func(params string, header http.Header) *answer {
		return a.post(t, "/a2a", request("ListTasks", params), header)
	}
	ada := by("ada")
	var ids []string
	for i := range 5 {
		skill, parts := "echo", text("", "x")
		if i == 3 {
			skill, parts = "form", data("", `{}`)
		}
		got := a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", parts, fmt.Sprintf(`"contextId":"c%d","metadata":{"skill":"acme.%s"}`, i%2, skill))+`}`), ada)
		ids = append([]string{got.at("result.task.id")}, ids...)
		time.Sleep(2 * time.Millisecond) // the resolution of a timestamp
	}
	a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", "acme.free"), "")+`}`), nil)
	all := list("", ada)
	all.check(t, `200;result.pageSize=50;result.totalSize=5;result.nextPageToken=;result.tasks.#=5;!result.tasks.0.artifacts;result.tasks.0.history`)
	for i, id := range ids {
		all.check(t, fmt.Sprintf("result.tasks.%d.id=%s", i, id))
	}
	first := list(`{"pageSize":2}`, ada)
	first.check(t, "result.tasks.#=2;result.pageSize=2;result.totalSize=5;result.tasks.0.id="+ids[0])
	second := list(`{"pageSize":2,"pageToken":"`+first.at("result.nextPageToken")+`"}`, ada)
	second.check(t, "result.tasks.#=2;result.tasks.0.id="+ids[2])
	list(`{"page_size":2,"page_token":"`+second.at("result.nextPageToken")+`"}`, ada).check(t, "result.tasks.#=1;result.nextPageToken=;result.tasks.0.id="+ids[4])
	since := all.at("result.tasks.2.status.timestamp")
	for _, c := range [][2]string{
		{`{"contextId":"c1"}`, "result.totalSize=2"},
		{`{"contextId":"none"}`, "result.totalSize=0;result.tasks=[]"},
		{`{"status":"TASK_STATE_INPUT_REQUIRED"}`, "result.totalSize=1;result.tasks.0.status.state=TASK_STATE_INPUT_REQUIRED"},
		{`{"status":"TASK_STATE_COMPLETED","contextId":"c0"}`, "result.totalSize=3"},
		{`{"status":null,"contextId":null}`, "result.totalSize=5"},
		{`{"includeArtifacts":true}`, "result.tasks.0.artifacts.0.name=output"},
		{`{"historyLength":0}`, "!result.tasks.0.history"},
		{`{"statusTimestampAfter":"` + since + `"}`, "result.totalSize=3"},
		{`{"pageSize":100}`, "result.pageSize=100"},
		{`{"pageSize":0}`, "error.code=-32602;error.data.0.fieldViolations.0.field=pageSize"},
		{`{"pageSize":101}`, "error.code=-32602"},
		{`{"pageSize":-1}`, "error.code=-32602"},
		{`{"pageSize":1.5}`, "error.code=-32602"},
		{`{"status":"completed"}`, "error.code=-32602;error.data.0.fieldViolations.0.field=status"},
		{`{"status":7}`, "error.code=-32602"},
		{`{"pageToken":"!"}`, "error.code=-32602;error.data.0.fieldViolations.0.field=pageToken"},
		{`{"pageToken":7}`, "error.code=-32602"},
		{`{"statusTimestampAfter":"yesterday"}`, "error.code=-32602;error.data.0.fieldViolations.0.field=statusTimestampAfter"},
		{`{"historyLength":-1}`, "error.code=-32602"},
		{`{"includeArtifacts":"yes"}`, "error.code=-32602"},
	} {
		list(c[0], ada).check(t, "200;"+c[1])
	}
	list(`{}`, nil).check(t, "200;result.totalSize=0;result.tasks=[];result.nextPageToken=;result.pageSize=50")
	list(`{"pageToken":"!"}`, nil).check(t, "200;error.code=-32602;error.data.0.fieldViolations.0.field=pageToken")
	a.post(t, "/a2a/acme.form", request("ListTasks", `{"tenant":"acme.echo","pageToken":"!"}`), ada).check(t, "error.code=-32602")
	list(`{}`, by("bob")).check(t, "200;result.totalSize=0")
	a.post(t, "/a2a/acme.form", request("ListTasks", "{}"), ada).check(t, "result.totalSize=1;result.tasks.0.metadata.EXT.skill=acme.form")
}

// Section 1: only the skill of the URL exists there, with its tasks.
func TestURLOfSkill(t *testing.T) {
	a := newAgent(t)
	id := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "").at("result.task.id")
	params := fmt.Sprintf(`{"id":%q}`, id)
	a.post(t, "/a2a/acme.echo", request("GetTask", params), nil).check(t, "result.id="+id)
	a.post(t, "/a2a/acme.form", request("GetTask", params), nil).check(t, "error.code=-32001")
	a.post(t, "/a2a/acme.form", request("CancelTask", params), nil).check(t, "error.code=-32001")
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a.post(t, "/a2a/acme.echo", request(d.send, d.params("", text(d.version, "x"), "")), nil).check(t, d.task+".status.state="+d.state("completed")+";"+d.task+".metadata.EXT.skill=acme.echo")
	})
}

// Section 5: the tenant is the name of a skill, whose tasks are the only ones there.
func TestTenant(t *testing.T) {
	a := newAgent(t)
	ada := by("ada")
	id := a.post(t, "/a2a", request("SendMessage", `{"tenant":"acme.echo","message":`+message("1.0", text("", "x"), "")+`}`), ada).at("result.task.id")
	asked := a.post(t, "/a2a", request("SendMessage", `{"message":`+message("1.0", text("", "x"), "")+`}`), ada).at("result.task.id")
	for _, c := range []struct{ path, method, id, tenant, want string }{
		{"", "GetTask", id, "acme.echo", "result.id=" + id},
		{"", "GetTask", id, "acme/echo", "result.id=" + id},
		{"", "GetTask", id, "", "result.id=" + id},
		{"", "GetTask", id, "acme.form", "error.code=-32001"},
		{"", "GetTask", id, "acme.none", "error.code=-32001"},
		{"", "GetTask", id, strings.Repeat("x", 5000), "error.code=-32001"},
		{"/acme.echo", "GetTask", id, "acme.echo", "result.id=" + id},
		{"/acme.echo", "GetTask", id, "acme.form", "error.code=-32001"},
		{"", "CancelTask", id, "acme.form", "error.code=-32001"},
		{"", "CancelTask", id, "acme.echo", "error.code=-32002"},
		{"", "SubscribeToTask", id, "acme.form", "404;error.code=-32001"},
		{"", "SubscribeToTask", id, "acme.echo", "400;error.code=-32004"},
		{"", "GetTask", asked, "acme.form", "result.id=" + asked},             // no skill is chosen yet
		{"", "GetTask", asked, strings.Repeat("x", 257), "error.code=-32001"}, // no skill has such a name
		{"", "CancelTask", asked, strings.Repeat("x", 257), "error.code=-32001"},
		{"", "ListTasks", "", "", "result.totalSize=2"},
		{"", "ListTasks", "", strings.Repeat("x", 5000), "result.totalSize=0"},
		{"", "ListTasks", "", "acme/echo", "result.totalSize=1;result.tasks.0.id=" + id},
		{"", "ListTasks", "", "acme.form", "result.totalSize=0;result.pageSize=50"},
		{"/acme.echo", "ListTasks", "", "acme.echo", "result.totalSize=1"},
		{"/acme.echo", "ListTasks", "", "acme.form", "result.totalSize=0;result.tasks=[];result.nextPageToken="},
		{"", "SendMessage", id, "acme.form", "error.code=-32602"},
	} {
		params := fmt.Sprintf(`{"id":%q,"tenant":%q}`, c.id, c.tenant)
		if c.method == "SendMessage" {
			params = fmt.Sprintf(`{"message":%s,"tenant":%q}`, message("1.0", text("", "x"), fmt.Sprintf(`"taskId":%q`, asked)+`,"metadata":{"skill":"acme.echo"}`), c.tenant)
		}
		t.Run(c.path+" "+c.method+" "+c.tenant[:min(len(c.tenant), 20)], func(t *testing.T) {
			a.post(t, "/a2a"+c.path, request(c.method, params), ada).check(t, c.want)
		})
	}
	a.post(t, "/a2a", request("GetTask", fmt.Sprintf(`{"id":%q,"tenant":7}`, id)), ada).check(t, "error.code=-32602;error.data.0.fieldViolations.0.field=tenant")
}

// Section 3: the extended card.
func TestExtendedCard(t *testing.T) {
	a := newAgent(t)
	a.call(t, "GetExtendedAgentCard", "").check(t, "200;error.code=-32004")
	a.front.ExtendedCard = func(_ context.Context, r *http.Request, v wire.Version, c *run.Caller) (jsontext.Value, *run.Failure) {
		if c.Principal == "" {
			return nil, &run.Failure{Kind: run.AuthRequired, By: run.Bridge, Demand: run.NoPrincipal(), Message: "Log in."}
		}
		return jsontext.Value(fmt.Sprintf(`{"version":%q,"path":%q}`, v, r.URL.Path)), nil
	}
	for _, params := range []string{"", "null", "{}"} {
		a.post(t, "/a2a", request("GetExtendedAgentCard", params), by("ada")).check(t, "200;result.version=1.0;result.path=/a2a")
		a.post(t, "/a2a", request("agent/getAuthenticatedExtendedCard", params), by("ada")).check(t, "200;result.version=0.3")
		a.post(t, "/a2a", request("GetExtendedAgentCard", params), nil).check(t, "401;error.code=-32050")
	}
	a.post(t, "/a2a", request("GetExtendedAgentCard", "[]"), by("ada")).check(t, "200;error.code=-32602")
}
