package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap/zapcore"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// agent is a bridge that serves A2A, and a provider with skills that it offers. The gate holds the run of acme/slow.
type agent struct {
	*testbed.Caddy
	t        *testing.T
	provider *hostile.Provider
	gate     *hostile.Gate
}

func startAgent(t *testing.T, head string, site, lines []string) *agent {
	t.Helper()
	text := func(d hostile.Object) {
		d["inputs"] = []hostile.Object{{"name": "text", "type": "string", "description": "A text.", "required": true}}
	}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/text", Edit: text},
		hostile.Skill{ID: "acme/down"}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")},
	)
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	p.On("acme/down", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "0"))
	bridge := slices.Concat([]string{"skill_bridge {"}, []string{
		"rpc", "allow_http", "allow_networks 127.0.0.0/8", "principal {http.request.header.X-User}", "audit", "provider " + p.URL() + " {", "namespace acme", "}",
	}, lines, []string{"}"})
	c := testbed.StartCaddy(t, head+testbed.Site(strings.Join(slices.Concat(site, bridge), "\n")))
	return &agent{c, t, p, gate}
}

// post sends a method with params to a path below the mount.
func (a *agent) post(path, version, method, params string) testbed.Answer {
	a.t.Helper()
	client := a.With(testbed.Fresh(), testbed.Header("X-User", "ada"), testbed.Header("Content-Type", "application/json"), testbed.Header("A2A-Version", version))
	return client.Send(http.MethodPost, "http://127.0.0.1:"+a.Port("PORT")+"/a2a"+path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}

// message is the params of a message of A2A 1.0 to a skill.
func message(skill, more string) string {
	return `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"data":{"skill":"` + skill + `","input":{}}}]}` + more + `}`
}

const atOnce = `,"configuration":{"returnImmediately":true}`

// taskID returns the id of the first task that an answer has.
func taskID(t *testing.T, a testbed.Answer) string {
	t.Helper()
	match := regexp.MustCompile(`"id":"([0-9a-f]{8}-[0-9a-f-]{27})"`).FindSubmatch(a.Body)
	if match == nil {
		t.Fatalf("no task: %v", a)
	}
	return string(match[1])
}

// calls returns what the log says about calls: method, outcome, source and skill of each.
func (a *agent) calls() []string {
	a.t.Helper()
	var found []string
	for _, line := range a.Log.Lines(`"front":"a2a"`) {
		var fields struct {
			Msg, Method, Operation, Outcome, Source string
			SkillID                                 string `json:"skill_id"`
		}
		if err := json.Unmarshal([]byte(line), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
			a.t.Fatal(err)
		}
		if end, ok := strings.CutPrefix(fields.Msg, "call "); ok {
			found = append(found, strings.Join([]string{fields.Method, fields.Operation, fields.Outcome, fields.Source, fields.SkillID, end}, " "))
		}
	}
	return found
}

// TestReportsOfA2A: each request is one call in the log and in the metrics, with its outcome and what it is about.
func TestReportsOfA2A(t *testing.T) {
	countAnew(t)
	a := startAgent(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n", nil, []string{"a2a {", "extended_card", "}"})
	done := taskID(t, a.post("", "", "SendMessage", message("acme.echo", "")))
	asked := taskID(t, a.post("", "", "SendMessage", message("acme.text", "")))
	one := func(id string) string { return `{"id":"` + id + `"}` }
	total := scrape(t, a.Caddy).of("calls_total")
	for _, tc := range []struct {
		name, path, version, method, params, want string
	}{
		{"a message", "", "", "SendMessage", message("acme.echo", ""), "SendMessage execute completed acme acme/echo completed"},
		{"of 0.3", "", "", "message/send", `{"message":{"messageId":"m","role":"user","kind":"message","parts":[{"kind":"data","data":{"skill":"acme.echo","input":{}}}]}}`, "message/send execute completed acme acme/echo completed"},
		{"of 0.1", "", "", "tasks/send", `{"id":"a-name-of-the-client","message":{"role":"user","parts":[{"type":"data","data":{"skill":"acme.echo","input":{}}}]}}`, "tasks/send execute completed acme acme/echo completed"},
		{"a stream", "", "", "SendStreamingMessage", message("acme.echo", ""), "SendStreamingMessage execute completed acme acme/echo completed"},
		{"inputs are missing", "", "", "SendMessage", message("acme.text", ""), "SendMessage execute input_required acme acme/text completed"},
		{"the skill is missing", "", "", "SendMessage", `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hello, you"}]}}`, "SendMessage execute input_required   completed"},
		{"wrong input", "", "", "SendMessage", strings.Replace(message("acme.text", ""), `{}`, `{"text":1}`, 1), "SendMessage execute invalid_arguments acme acme/text failed"},
		{"unknown skill", "", "", "SendMessage", message("acme.none", ""), "SendMessage execute skill_not_found acme  failed"},
		{"no credential", "", "", "SendMessage", message("acme.key", ""), "SendMessage execute auth_required acme acme/key failed"},
		{"provider down", "", "", "SendMessage", message("acme.down", ""), "SendMessage execute unreachable acme acme/down failed"},
		{"message to an ended task", "", "", "SendMessage", strings.Replace(message("acme.echo", ""), `"messageId"`, `"taskId":"`+done+`","messageId"`, 1), "SendMessage execute invalid_arguments   failed"},
		{"no message", "", "", "SendMessage", `{}`, "SendMessage execute invalid_arguments   failed"},
		{"a task", "", "", "GetTask", one(done), "GetTask task completed acme acme/echo completed"},
		{"a task of 0.3", "", "", "tasks/get", one(done), "tasks/get task completed acme acme/echo completed"},
		{"no such task", "", "", "GetTask", one("none"), "GetTask task invalid_arguments   failed"},
		{"tasks", "", "", "ListTasks", `{}`, "ListTasks list completed   completed"},
		{"wrong query", "", "", "ListTasks", `{"pageSize":"x"}`, "ListTasks list invalid_arguments   failed"},
		{"cancel an ended one", "", "", "CancelTask", one(done), "CancelTask task invalid_arguments acme acme/echo failed"},
		{"cancel", "", "", "CancelTask", one(asked), "CancelTask task completed acme acme/text completed"},
		{"subscribe to an ended one", "", "", "SubscribeToTask", one(done), "SubscribeToTask task invalid_arguments acme acme/echo failed"},
		{"push is off", "", "", "ListTaskPushNotificationConfigs", `{"taskId":"x"}`, "ListTaskPushNotificationConfigs describe invalid_arguments   failed"},
		{"extended card", "", "", "GetExtendedAgentCard", `{}`, "GetExtendedAgentCard describe completed   completed"},
		{"extended card again", "", "", "GetExtendedAgentCard", `{}`, "GetExtendedAgentCard describe completed   completed"},
		{"unknown method", "", "", "Canary", `{}`, "unknown  invalid_arguments   failed"},
		{"unknown version", "", "7.0", "GetTask", one(done), "GetTask task invalid_arguments   failed"},
		{"method of another version", "", "1.0", "message/send", `{}`, "message/send execute invalid_arguments   failed"},
		{"array", "", "", "GetTask", `[]`, "GetTask task invalid_arguments   failed"},
		{"one skill", "/acme.echo", "", "SendMessage", `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"{}"}]}}`, "SendMessage execute completed acme acme/echo completed"},
		{"unknown skill in the URL", "/acme.none", "", "SendMessage", `{}`, "SendMessage execute skill_not_found   failed"},
	} {
		before := len(a.calls())
		answer := a.post(tc.path, tc.version, tc.method, tc.params)
		if answer.Err != nil {
			t.Fatal(answer)
		}
		got := a.calls()[before:]
		if len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: %q, want %q\n%s", tc.name, got, tc.want, answer.Body)
		}
		words := strings.Split(tc.want, " ")
		orNone := func(label string) string { return map[bool]string{true: labelNone, false: label}[label == ""] }
		total[fmt.Sprintf(`front="a2a",method=%q,outcome=%q,provider=%q,skill=%q`, words[0], words[2], orNone(words[3]), orNone(words[4]))]++
	}
	get := a.With(testbed.Fresh(), testbed.Header("X-User", "ada"))
	for _, path := range []string{"/.well-known/agent-card.json", "/a2a/.well-known/agent-card.json", "/a2a", "/a2a/acme.echo", "/.well-known/agent.json", "/a2a/acme.none"} {
		before := len(a.calls())
		answer := get.Send(http.MethodGet, "http://127.0.0.1:"+a.Port("PORT")+path, "")
		want := "agent_card describe completed   completed"
		if strings.HasSuffix(path, "none") {
			want = "agent_card describe skill_not_found   failed"
		}
		if got := a.calls()[before:]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, %d %s", path, got, answer.Status, answer.Body)
		}
		total[`front="a2a",method="agent_card",outcome="`+strings.Fields(want)[2]+`",provider="none",skill="none"`]++
	}
	got := scrape(t, a.Caddy).of("calls_total")
	for series, n := range got {
		if total[series] != n {
			t.Errorf("%s is %v, want %v", series, n, total[series])
		}
	}
	if len(got) != len(total) {
		t.Errorf("%d series, want %d: %v", len(got), len(total), total)
	}
}

// TestRefusedParams: the line of a call whose params are refused says which of them is wrong, and what is wrong with it.
func TestRefusedParams(t *testing.T) {
	a := startAgent(t, "", nil, []string{"a2a", "webhooks"})
	id := taskID(t, a.post("", "", "SendMessage", message("acme.text", "")))
	for _, tc := range []struct{ method, params, want string }{
		{"SendMessage", `{}`, "message required"},
		{"SendMessage", `{"message":{"messageId":"m1","role":"canary","parts":[{"text":"x"}]}}`, "message.role invalid"},
		{"SendMessage", `{"message":{"messageId":"m1","taskId":"` + id + `","contextId":"canary","role":"ROLE_USER","parts":[{"text":"x"}]}}`, "message.contextId invalid"},
		{"SendMessage", message("acme.echo", `,"tenant":"acme.text"`), "message.parts[0] invalid"},
		{"SendMessage", message("acme.echo", `,"configuration":{"taskPushNotificationConfig":{"url":"ftp://canary.example"}}`), "configuration.taskPushNotificationConfig.url invalid"},
		{"SendStreamingMessage", `{"message":{"role":"ROLE_USER","parts":[{"text":"x"}]}}`, "message.messageId required"},
		{"tasks/send", `{"id":7,"message":{"role":"user","parts":[{"type":"text","text":"x"}]}}`, "id invalid"},
		{"GetTask", `{"id":"` + id + `","historyLength":-1}`, "historyLength invalid"},
		{"CancelTask", `{}`, "id required"},
		{"ListTasks", `{"pageToken":"canary"}`, "pageToken invalid"},
		{"ListTasks", `{"status":"canary"}`, "status invalid"},
		{"GetTask", `["canary"]`, "params invalid"},
		{"GetTask", `{"id":"canary"}`, "id not_found"},
		{"tasks/cancel", `{"id":"canary"}`, "id not_found"},
		{"CreateTaskPushNotificationConfig", `{"taskId":"` + id + `"}`, "url required"},
		{"CreateTaskPushNotificationConfig", `{"taskId":"` + id + `","url":"ftp://canary.example"}`, "url invalid"},
		{"tasks/pushNotificationConfig/get", `{}`, "id required"},
	} {
		answer := a.post("", "", tc.method, tc.params)
		lines := a.Log.Lines(`"front":"a2a"`, `"method":"`+tc.method+`"`, "call failed")
		if len(lines) == 0 {
			t.Errorf("%s %s: no line: %s", tc.method, tc.params, answer.Body)
			continue
		}
		var fields struct{ Outcome, Param, Reason, Next string }
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if got := fields.Param + " " + fields.Reason; got != tc.want || fields.Outcome != "invalid_arguments" || fields.Next != "fix_params" {
			t.Errorf("%s %s: %q, want %q: %+v %s", tc.method, tc.params, got, tc.want, fields, answer.Body)
		}
	}
	if lines := a.Log.Lines(`"method":"ListTasks"`, `"skills":`); len(lines) > 0 {
		t.Errorf("a list of tasks has no skills: %q", lines)
	}
	// The webhook of a client that may not be reached is not for the operator to act on, and the option that allows it is that of webhooks.
	a.post("", "", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","url":"https://203.0.113.7:8444/hook"}`)
	a.post("", "", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","url":"https://10.1.2.3/hook"}`)
	for _, option := range []string{"webhooks > allow_ports 8444", "webhooks > allow_networks 10.1.2.3"} {
		if lines := a.Log.Lines(`"level":"info"`, "did not connect to a client's webhook: ", `"option":"`+option+`"`); len(lines) != 1 {
			t.Errorf("%s: %q", option, a.Log.Lines("did not connect"))
		}
	}
	if lines := a.Log.Lines("canary"); len(lines) > 0 {
		t.Errorf("the log has what clients sent: %q", lines)
	}
}

// TestTasksInBackground: a message whose run outlives its request is a call that ends when the run is accepted; its end is learned by another one.
func TestTasksInBackground(t *testing.T) {
	countAnew(t)
	a := startAgent(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n", nil, []string{"a2a"})
	id := taskID(t, a.post("", "", "SendMessage", message("acme.slow", atOnce)))
	testbed.Eventually(t, 10*time.Second, func() bool { return a.gate.Waiting() > 0 }, "the run is followed")
	reading := make(chan testbed.Answer, 1)
	go func() { reading <- a.post("", "", "SubscribeToTask", `{"id":"`+id+`"}`) }()
	testbed.Eventually(t, 10*time.Second, func() bool { return scrape(t, a.Caddy)["streams"] == 1 }, "a stream is open")
	mustHave(t, scrape(t, a.Caddy), samples{"streams": 1})
	if line := a.Log.Lines("task made", `"principal":"ada"`, `"task":"`+id+`"`, `"name":"acme.slow"`, `"source":"acme"`); len(line) != 1 {
		t.Errorf("%q", line)
	}
	a.gate.Open()
	<-reading
	testbed.Eventually(t, 10*time.Second, func() bool { return len(a.calls()) == 3 }, "all calls have ended")
	got := a.calls()
	slices.Sort(got)
	if want := []string{"SendMessage execute running acme acme/slow completed", "SubscribeToTask task completed acme acme/slow completed", "follow follow completed acme acme/slow completed"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if lines := a.Log.Lines(`"msg":"call`, `"task":"`+id+`"`, `"execution_id":"run-1"`); len(lines) != 6 { // each call is in the audit log, too
		t.Errorf("%q", lines)
	}
	mustHave(t, scrape(t, a.Caddy), samples{"streams": 0})
}

// TestRunThatIsLeft: a call whose run goes on after the request has waited for it has not failed.
func TestRunThatIsLeft(t *testing.T) {
	a := startAgent(t, "", nil, []string{"a2a", "wait 500ms"})
	id := taskID(t, a.post("", "", "SendMessage", message("acme.slow", "")))
	testbed.Eventually(t, 10*time.Second, func() bool { return len(a.Log.Lines(`"msg":"call`, `"task":"`+id+`"`)) == 2 }, "the log and the audit log have the call")
	for _, line := range a.Log.Lines(`"msg":"call`, `"task":"`+id+`"`) {
		if !strings.Contains(line, `"outcome":"running"`) || strings.Contains(line, "call failed") {
			t.Errorf("%s", line)
		}
	}
	a.gate.Open()
}

// TestRunEndsBeforeItsRequestIsLogged: a call that ends after its request has left it is still one call.
func TestRunEndsBeforeItsRequestIsLogged(t *testing.T) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	ctx, served := NewRequest(httptest.NewRecorder(), r, run.Caller{})
	o, _ := observed(zapcore.InfoLevel)
	ref := run.Ref{Source: "acme", SkillID: "acme/echo", ExecutionID: "e1"}
	o.LeftRunning(ctx, &translate.Call{Caller: run.Caller{Method: "SendMessage"}, Name: "acme.echo", Task: func() string { return "t1" }}, &ref)
	ended := func(id string) {
		o.Called(ctx, &translate.Call{Caller: run.Caller{Front: "a2a", Method: "SendMessage"}, Task: func() string { return id }},
			&run.Run{Ref: ref, State: run.Completed}, &translate.Statistics{Operation: translate.OperationExecute, Source: "acme"})
	}
	ended("t1")
	if served.calls.count != 1 || served.calls.first.outcome != outcomeCompleted || served.calls.first.task != "t1" {
		t.Errorf("%+v", &served.calls)
	}
	ended("t2") // of the same batch
	if served.calls.count != 2 || served.calls.first.task != "t1" {
		t.Errorf("%+v", &served.calls)
	}
}

// TestAuditOfTasks: the audit log has who made, read and canceled a task.
func TestAuditOfTasks(t *testing.T) {
	a := startAgent(t, "", nil, []string{"a2a {", "cancel abandon", "}"})
	id := taskID(t, a.post("", "", "SendMessage", message("acme.slow", atOnce)))
	testbed.Eventually(t, 10*time.Second, func() bool { return a.gate.Waiting() > 0 }, "the run is followed")
	a.post("", "", "GetTask", `{"id":"`+id+`"}`)
	a.post("", "", "CancelTask", `{"id":"`+id+`"}`)
	a.post("", "", "CancelTask", `{"id":"`+id+`"}`) // is refused
	a.gate.Open()
	var got []string
	testbed.Eventually(t, 10*time.Second, func() bool {
		got = nil
		for _, line := range a.Log.Lines(`http.handlers.skill_bridge.audit"`, `"principal":"ada"`, `"task":"`+id+`"`, `"skill_id":"acme/slow"`, `"trace_id":"`) {
			var fields struct{ Msg, Operation, Outcome string }
			if err := json.Unmarshal([]byte(line), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			if fields.Operation != "follow" { // the poll that was in progress when the task was canceled, which may end before or after this
				got = append(got, strings.TrimSpace(fields.Msg+" "+fields.Operation+" "+fields.Outcome))
			}
		}
		return len(got) >= 6
	}, "all is audited")
	slices.Sort(got) // the call of the run ends on a goroutine of its own
	if want := []string{"call execute running", "call task completed", "call task completed", "call task invalid_arguments", "task canceled", "task made"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestAuditOfWebhooks: the audit log has who set and deleted a webhook, with the host of its URL and no secret.
func TestAuditOfWebhooks(t *testing.T) {
	a := startAgent(t, "", nil, []string{"a2a", "webhooks"})
	webhook := func(host string) string {
		return `"url":"https://` + host + `/canary?canary=1","token":"canary","authentication":{"scheme":"Bearer","credentials":"canary"}`
	}
	id := taskID(t, a.post("", "", "SendMessage", message("acme.text", `,"configuration":{"taskPushNotificationConfig":{"id":"w1",`+webhook("one.example")+`}}`)))
	a.post("", "", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"w2",`+webhook("two.example")+`}`)
	a.post("", "", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"w3",`+webhook("10.1.2.3")+`}`) // is refused
	a.post("", "", "CreateTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"w2",`+webhook("three.example")+`}`)
	a.post("", "", "DeleteTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"w2"}`)
	a.post("", "", "DeleteTaskPushNotificationConfig", `{"taskId":"`+id+`","id":"w2"}`) // there is none any more
	a.post("", "", "tasks/pushNotificationConfig/delete", `{"id":"`+id+`","pushNotificationConfigId":"w1"}`)
	var got []string
	for _, line := range a.Log.Lines(`http.handlers.skill_bridge.audit"`, `"webhook `, `"principal":"ada"`, `"task":"`+id+`"`, `"name":"acme.text"`, `"source":"acme"`, `"trace_id":"`) {
		var fields struct{ Msg, Webhook, Host string }
		if err := json.Unmarshal([]byte(line), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		got = append(got, fields.Msg+" "+fields.Webhook+" "+fields.Host)
	}
	want := []string{"webhook set w1 one.example", "webhook set w2 two.example", "webhook set w2 three.example", "webhook deleted w2 three.example", "webhook deleted w1 one.example"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if lines := a.Log.Lines("canary"); len(lines) > 0 {
		t.Errorf("the log has a secret: %q", lines)
	}
}

// TestAccessLogOfTasks: the line of a request has its task. If the run goes on, its outcome is running.
func TestAccessLogOfTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	a := startAgent(t, "", append([]string{"log {", "output file " + file, "}"}, appended...), []string{"a2a"})
	var ids []string
	for _, params := range []string{message("acme.echo", ""), message("acme.text", ""), message("acme.slow", atOnce)} {
		ids = append(ids, taskID(t, a.post("", "", "SendMessage", params)))
	}
	for range 20 { // none may be logged before its call is reported
		ids = append(ids, taskID(t, a.post("", "", "SendStreamingMessage", message("acme.echo", ""))))
	}
	ids = append(ids, ids[0])
	a.post("", "", "GetTask", `{"id":"`+ids[0]+`"}`)
	var lines []map[string]any
	testbed.Eventually(t, 5*time.Second, func() bool {
		text, err := os.ReadFile(file)
		lines = nil
		for line := range strings.Lines(string(text)) {
			var fields map[string]any
			if json.Unmarshal([]byte(line), &fields) == nil {
				lines = append(lines, fields)
			}
		}
		return err == nil && len(lines) == len(ids)
	}, "all lines of the access log")
	a.gate.Open()
	testbed.Eventually(t, 10*time.Second, func() bool { return len(a.calls()) == len(ids)+1 }, "the run has ended")
	type fields struct{ method, skill, outcome string }
	kinds := []fields{
		{"SendMessage", "acme/echo", "completed"},
		{"SendMessage", "acme/text", "input_required"},
		{"SendMessage", "acme/slow", "running"},
	}
	for i, line := range lines {
		checkAppended(t, line)
		want := fields{"SendStreamingMessage", "acme/echo", "completed"}
		switch {
		case i < len(kinds):
			want = kinds[i]
		case i == len(lines)-1:
			want.method = "GetTask"
		}
		for name, want := range map[string]any{
			"skill_bridge_method": want.method, "skill_bridge_source": "acme", "skill_bridge_skill": want.skill, "skill_bridge_outcome": want.outcome,
			"skill_bridge_task": ids[i], "skill_bridge_calls": nil,
		} {
			if line[name] != want {
				t.Errorf("%d: %s is %v, want %v", i, name, line[name], want)
			}
		}
		if trace, _ := line["skill_bridge_trace_id"].(string); len(trace) != 32 {
			t.Errorf("%d: %v", i, line)
		}
	}
}

// TestTracesOfTasks: the span of a call, which ends with its run, is below the request's, and providers are told of it.
func TestTracesOfTasks(t *testing.T) {
	spans := collect(t)
	a := startAgent(t, "", []string{"tracing"}, []string{"a2a"})
	id := taskID(t, a.post("", "", "SendMessage", message("acme.slow", atOnce)))
	testbed.Eventually(t, 10*time.Second, func() bool { return a.gate.Waiting() > 0 }, "the run is followed")
	a.post("", "", "SendMessage", message("acme.text", ""))
	a.post("", "", "GetTask", `{"id":"none"}`)
	a.gate.Open()
	testbed.Eventually(t, 10*time.Second, func() bool { return len(a.calls()) == 3 }, "the run has ended")
	checks := map[string]func(s *collected, attributes []string){
		"completed": func(_ *collected, attributes []string) {
			if !slices.Contains(attributes, "task="+id) || !slices.Contains(attributes, "execution_id=…") {
				t.Errorf("%q", attributes)
			}
		},
		"input_required": func(s *collected, attributes []string) {
			if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR || slices.ContainsFunc(attributes, func(a string) bool { return strings.HasPrefix(a, "rpc.response.status_code") }) {
				t.Errorf("%q", attributes)
			}
		},
		"invalid_arguments": func(s *collected, attributes []string) {
			if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || !slices.Contains(attributes, "rpc.response.status_code=-32001") {
				t.Errorf("%q", attributes)
			}
		},
	}
	a.Stop()
	for _, line := range a.Log.Lines(`"front":"a2a"`, `"msg":"call `) {
		var fields struct {
			Method, Outcome string
			TraceID         string `json:"trace_id"`
		}
		if err := json.Unmarshal([]byte(line), &fields, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		if fields.Method == "follow" { // no request waits for it
			continue
		}
		all := spans.of(fields.TraceID)
		at := slices.IndexFunc(all, func(s *collected) bool { return s.scope == tracerName && s.Kind == tracepb.Span_SPAN_KIND_SERVER })
		if at < 0 {
			t.Fatalf("no span of %s: %s", fields.Method, tree(t, all))
		}
		call := all[at]
		attributes := describeAttributes(call.Attributes)
		for _, want := range []string{"front=a2a", "rpc.method=" + fields.Method, "rpc.system.name=jsonrpc"} {
			if !slices.Contains(attributes, want) {
				t.Errorf("%s: %q", fields.Method, attributes)
			}
		}
		if !slices.ContainsFunc(all, func(s *collected) bool { return s.scope != tracerName && string(s.SpanId) == string(call.ParentSpanId) }) {
			t.Errorf("%s is not below the request: %s", fields.Method, tree(t, all))
		}
		if check := checks[fields.Outcome]; check != nil {
			check(call, attributes)
		}
		if fields.Outcome == "completed" && !slices.ContainsFunc(all, func(s *collected) bool { return s.Name == "run" && string(s.ParentSpanId) == string(call.SpanId) }) {
			t.Errorf("no run below the call: %s", tree(t, all))
		}
	}
	invoked := a.provider.Requests("acme/slow", hostile.Invoke)
	if len(invoked) != 1 || invoked[0].Header.Get("Traceparent") == "" {
		t.Errorf("%v", invoked)
	}
}
