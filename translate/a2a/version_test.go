package a2a_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

// Section 1: the order of refusals, their HTTP statuses, and the envelope.
func TestEnvelope(t *testing.T) {
	a := newAgent(t)
	send := request("SendMessage", `{"message":`+message("1.0", data("1.0", `{"skill":"acme.echo","input":{"text":"x"}}`), "")+`}`)
	long := strings.Repeat(" ", 1<<20)
	for _, c := range []struct {
		about, body string
		header      http.Header
		want        string
	}{
		{"another media type", send, http.Header{"Content-Type": {"text/plain"}}, "415;error.code=-32005;id=null;error.data.0.reason=CONTENT_TYPE_NOT_SUPPORTED;error.data.0.domain=a2a-protocol.org"},
		{"a media type before the size", long + send, http.Header{"Content-Type": {"text/plain"}}, "415;error.code=-32005"},
		{"a coding", send, http.Header{"Content-Encoding": {"gzip"}}, "415;error.code=-32005"},
		{"identity is a coding, too", send, http.Header{"Content-Encoding": {"identity"}}, "415;error.code=-32005"},
		{"a2a+json", send, http.Header{"Content-Type": {"application/a2a+json; charset=utf-8"}}, "200;result.task.status.state=TASK_STATE_COMPLETED"},
		{"too large, before the syntax", long + "{", nil, "413;error.code=-32600;id=null"},
		{"malformed", "{", nil, "200;error.code=-32700;id=null;error.message=Invalid JSON payload;error.data.0.reason=PARSE_ERROR"},
		{"the syntax before the version", "{", as("9.9"), "200;error.code=-32700"},
		{"no body", "", nil, "200;error.code=-32700"},
		{"no object", `1`, nil, "200;error.code=-32600;id=null;error.message=Request payload validation error"},
		{"no version", `{"id":7,"method":"GetTask"}`, nil, "200;error.code=-32600;id=7"},
		{"no method", `{"jsonrpc":"2.0","id":"x"}`, nil, "200;error.code=-32600;id=x"},
		{"the envelope before the version", `{"jsonrpc":"2.0","id":"x"}`, as("9.9"), "200;error.code=-32600;id=x"},
		{"the version before the method", request("Nope", ""), as("9.9"), "200;error.code=-32009"},
		{"the version before the params", request("GetTask", "[]"), as("9.9"), "200;error.code=-32009"},
		{"the method before the params", request("Nope", "[]"), nil, "200;error.code=-32601;error.message=Method not found"},
		{"array params", request("GetTask", `["x"]`), nil, "200;error.code=-32602;error.data.0.fieldViolations.0.field=params"},
		{"text params", request("GetTask", `"x"`), nil, "200;error.code=-32600"},
		{"null params", request("GetTask", `null`), nil, "200;error.code=-32602;error.data.0.fieldViolations.0.field=id"},
		{"no params", request("GetTask", ""), nil, "200;error.code=-32602;error.data.0.@type=type.googleapis.com/google.rpc.BadRequest"},
		{"an object as id", `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, nil, "200;error.code=-32600;id=null"},
		{"a large id", strings.Replace(send, `"id":1`, `"id":123456789012345678901234567890`, 1), nil, "200;result.task"},
		{"a null id", strings.Replace(send, `"id":1`, `"id":null`, 1), nil, "200;result.task;id=null"},
		{"an empty batch", `[]`, nil, "200;error.code=-32600"},
		{"a batch", `[` + send + `,1,` + request("Nope", "") + `]`, nil, "200;#=3;0.result.task;1.error.code=-32600;2.error.code=-32601"},
		{"a long batch", `[` + strings.Repeat("1,", 20) + `1]`, nil, "200;error.code=-32600;error.message~max_batch"},
	} {
		t.Run(c.about, func(t *testing.T) {
			got := a.post(t, "/a2a", c.body, c.header)
			got.check(t, c.want)
			if c.about == "a large id" && !strings.Contains(got.text, `"id":123456789012345678901234567890,`) {
				t.Errorf("%s", got.text)
			}
			if strings.HasPrefix(c.want, "415") && got.header.Get("Accept")+got.header.Get("Accept-Encoding") == "" {
				t.Errorf("%v", got.header)
			}
		})
	}
	// The data of errors is an array in 1.0, and an object for clients that say an older version.
	for _, c := range [][3]string{
		{"{", "error.code=-32700;error.data.0.reason=PARSE_ERROR;error.data.0.metadata.detail", "error.code=-32700;error.data.reason=PARSE_ERROR;error.data.domain=github.com/skill-bridge;error.data.detail"},
		{"[1]", "0.error.code=-32600;0.error.data.0.reason=INVALID_REQUEST", "0.error.code=-32600;0.error.data.reason=INVALID_REQUEST;0.error.data.detail;!0.error.data.@type"},
		{long + "{", "413;error.data.0.metadata.limit=max_request_size", "413;error.data.limit=max_request_size"},
	} {
		a.post(t, "/a2a", c[0], as("1.0")).check(t, c[1])
		for _, version := range []string{"0.3", "0.2", "0.1"} {
			a.post(t, "/a2a", c[0], as(version)).check(t, c[2])
		}
	}
	a.post(t, "/a2a", send, http.Header{"Content-Type": {"text/plain"}, "A2a-Version": {"0.3"}}).check(t, "415;error.code=-32005;error.data.reason=CONTENT_TYPE_NOT_SUPPORTED;error.data.domain=a2a-protocol.org")
	r, _ := http.NewRequest(http.MethodPut, a.url+"/a2a", strings.NewReader("{"))
	got := a.do(t, r)
	if got.status != 405 || got.header.Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("%d %v", got.status, got.header)
	}
}

// Section 1: in all versions, notifications are carried out and answered 204, streaming ones too, and streaming methods in batches
// are refused.
func TestNotificationsAndBatches(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		for i, method := range []string{d.send, d.stream, "[" + d.stream} {
			id := fmt.Sprintf("%s-%d", named, i)
			if d.version != "0.1" {
				id = ""
			}
			body := strings.Replace(request(strings.TrimPrefix(method, "["), d.params(id, text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`)), `"id":1,`, "", 1)
			if method[0] == '[' {
				body = "[" + body + "]"
			}
			got := a.post(t, "/a2a", body, as(d.version))
			if got.status != 204 || got.text != "" {
				t.Errorf("%s: %d %s", method, got.status, got.text)
			}
			eventually(t, func() bool { return len(a.Requests("POST /run/echo")) == i+1 }, "the notification is carried out")
		}
		batch := a.post(t, "/a2a", `[`+request(d.stream, d.params("", text(d.version, "x"), ""))+`,`+request(d.send, d.params("other-"+named, text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`))+`]`, as(d.version))
		want := "200;0.error.code=-32004;1.result"
		if d.version != "0.1" {
			want = "200;0.error.code=-32004;1.error.code=-32001"
		}
		batch.check(t, want)
	})
}

// Section 2: the table of versions.
func TestVersions(t *testing.T) {
	a := newAgent(t)
	const known, unknownMethod, badVersion = "-32602", "-32601", "-32009"
	for _, c := range []struct{ said, pascal, slash03, slash01, shared string }{
		{"", known, known, known, known},
		{" ", known, known, known, known},
		{"0.3", known, known, known, known},
		{"0.3.0", known, known, known, known},
		{"0.2", known, known, known, known},
		{"0.2.5", known, known, known, known},
		{"1.0", known, unknownMethod, unknownMethod, unknownMethod},
		{"1.0.7", known, unknownMethod, unknownMethod, unknownMethod},
		{"0.1", unknownMethod, unknownMethod, known, known},
		{"0.1.9", unknownMethod, unknownMethod, known, known},
		{"1", badVersion, badVersion, badVersion, badVersion},
		{"1.1", badVersion, badVersion, badVersion, badVersion},
		{"2.0", badVersion, badVersion, badVersion, badVersion},
		{"0.4", badVersion, badVersion, badVersion, badVersion},
		{"v1.0", badVersion, badVersion, badVersion, badVersion},
		{"x", badVersion, badVersion, badVersion, badVersion},
	} {
		for want, names := range map[string][]string{
			c.pascal + " ":    {"SendMessage", "GetTask", "CancelTask"},
			c.slash03 + "  ":  {"message/send"},
			c.slash01 + "   ": {"tasks/send"},
			c.shared + "    ": {"tasks/get", "tasks/cancel"},
		} {
			for _, name := range names {
				got := a.post(t, "/a2a", request(name, "{}"), http.Header{"A2a-Version": {c.said}})
				got.check(t, "200;error.code="+strings.TrimSpace(want))
				byQuery := a.post(t, "/a2a?A2A-Version="+strings.ReplaceAll(c.said, " ", "+"), request(name, "{}"), nil)
				byQuery.check(t, "200;error.code="+strings.TrimSpace(want))
				if t.Failed() {
					t.Fatalf("said %q, %s", c.said, name)
				}
			}
		}
	}
	// The header goes before the query, unless it is empty.
	a.post(t, "/a2a?A2A-Version=1.0", request("message/send", "{}"), as("0.3")).check(t, "error.code=-32602")
	a.post(t, "/a2a?A2A-Version=1.0", request("message/send", "{}"), http.Header{"A2a-Version": {""}}).check(t, "error.code=-32601")
	// An error has the form of the version that the client said, or of the method's name.
	for _, c := range [][3]string{
		{"0.3", "Nope", "error.data.method=Nope;error.data.reason=METHOD_NOT_FOUND"},
		{"1.0", "message/send", "error.data.0.metadata.method=message/send"},
		{"1.0", "tasks/get", "error.data.0.metadata.method=tasks/get"},
		{"0.1", "SendMessage", "error.data.method=SendMessage"},
		{"", "nope/nope", "error.data.method=nope/nope"},
		{"", "Nope", "error.data.0.metadata.method=Nope"},
		{"2.0", "GetTask", "error.data.0.reason=VERSION_NOT_SUPPORTED;error.data.0.domain=a2a-protocol.org;error.data.0.metadata.requested=2.0;error.data.0.metadata.supported=1.0, 0.3, 0.1"},
		{"2.0", "tasks/get", "error.data.reason=VERSION_NOT_SUPPORTED;error.data.requested=2.0"},
	} {
		a.post(t, "/a2a", request(c[1], "{}"), as(c[0])).check(t, c[2])
	}
}

// Section 2: versions that are switched off.
func TestVersionsOff(t *testing.T) {
	serve := func(versions ...wire.Version) *agent {
		return newAgent(t, options(func(o *a2a.Options) {
			o.Versions = a2a.Versions{}
			for _, v := range versions {
				o.Versions[v] = true
			}
		}))
	}
	one, old := serve(wire.V10), serve(wire.V03, wire.V01)
	for _, c := range []struct {
		a                  *agent
		said, method, want string
	}{
		{one, "", "SendMessage", "error.code=-32602"},
		{one, "0.3", "SendMessage", "error.code=-32009"},
		{one, "0.1", "tasks/send", "error.code=-32009"},
		{one, "", "message/send", "error.code=-32009;error.data.supported=1.0"},
		{one, "", "tasks/get", "error.code=-32009"},
		{old, "1.0", "SendMessage", "error.code=-32009"},
		{old, "", "SendMessage", "error.code=-32009"},
		{old, "0.2", "message/send", "error.code=-32602"},
		{old, "", "tasks/send", "error.code=-32602"},
	} {
		c.a.post(t, "/a2a", request(c.method, "{}"), as(c.said)).check(t, c.want)
	}
	only01 := serve(wire.V01)
	only01.call(t, "tasks/send", `{"id":"`+named+`","message":`+message("0.1", text("0.1", "acme.free"), "")+`}`).check(t, "result.status.state=completed")
	only01.call(t, "tasks/get", `{"id":"`+named+`"}`).check(t, "result.sessionId;!result.kind")
}

// Section 2: tasks/get is in the version of the task unless the client says 0.1, and a task can be read in any version.
func TestTaskInEachVersion(t *testing.T) {
	a := newAgent(t)
	ids := map[string]string{}
	for i := range dialects {
		d := &dialects[i]
		got := a.call(t, d.send, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.echo"}`))
		got.check(t, d.task+".status.state="+d.state("completed"))
		ids[d.version] = got.at(d.task + ".id")
	}
	if ids["0.1"] != named {
		t.Errorf("%v", ids)
	}
	for version, id := range ids {
		params := fmt.Sprintf(`{"id":%q}`, id)
		a.call(t, "GetTask", params).check(t, "result.contextId;result.status.state=TASK_STATE_COMPLETED;!result.kind;!result.sessionId;result.artifacts.0.artifactId=output;result.history.0.messageId;result.history.0.role=ROLE_USER")
		kind := "result.kind=task;result.contextId;result.history.0.kind=message"
		if version == "0.1" {
			kind = "!result.kind;result.sessionId;!result.contextId;result.artifacts.0.index=0;result.artifacts.0.lastChunk=true;!result.artifacts.0.artifactId;!result.history"
		}
		for _, said := range []string{"", "0.3"} {
			a.post(t, "/a2a", request("tasks/get", params), as(said)).check(t, kind)
		}
		a.post(t, "/a2a", request("tasks/get", params), as("0.1")).check(t, "!result.kind;result.sessionId;result.id="+id)
		a.post(t, "/a2a", request("tasks/get", fmt.Sprintf(`{"id":%q,"historyLength":5}`, id)), as("0.1")).check(t, "result.history.0.parts.0.type=text;!result.history.0.messageId")
	}
}

// Section 6: in 0.1, a message under the id of a task of 1.0 that has ended makes a new run, which is read, and sent to, by that id. In 1.0, the id
// is still that of the first task.
func TestNewRunUnderTheIDOfAnEndedTask(t *testing.T) {
	a := newAgent(t)
	first := a.call(t, "SendMessage", `{"message":`+message("1.0", data("1.0", `{"skill":"acme.echo","input":{"text":"first"}}`), "")+`}`)
	id := first.at("result.task.id")
	older := &dialects[slices.IndexFunc(dialects, func(d dialect) bool { return d.version == "0.1" })]
	a.post(t, "/a2a", request("tasks/get", fmt.Sprintf(`{"id":%q}`, id)), as("0.1")).check(t, "result.artifacts.0.parts.0.data.text=first")
	for _, run := range []string{"second", "third"} {
		a.post(t, "/a2a", request(older.send, older.params(id, text("0.1", run), `"metadata":{"skill":"acme.echo"}`)), as("0.1")).check(t, "result.status.state=completed;result.id="+id)
		for _, said := range []string{"", "0.1", "0.3"} {
			a.post(t, "/a2a", request("tasks/get", fmt.Sprintf(`{"id":%q}`, id)), as(said)).check(t, "result.id="+id+";result.artifacts.0.parts.0.data.text="+run)
		}
	}
	a.call(t, "GetTask", fmt.Sprintf(`{"id":%q}`, id)).check(t, "result.artifacts.0.parts.0.data.text=first")
	if n := len(a.Requests("POST /run/echo")); n != 3 {
		t.Errorf("%d runs", n)
	}
}
