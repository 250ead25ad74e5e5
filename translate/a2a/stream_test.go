package a2a_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
)

// steps returns the events of a stream, one word for each: the kind, the state or parts, and whether it is final.
func (a *answer) steps() string {
	var all []string
	for _, e := range a.events {
		get := func(path string) string {
			if v, ok := find(e, path); ok {
				return fmt.Sprint(v)
			}
			return ""
		}
		step := "?"
		for _, form := range []struct{ name, at, state string }{
			{"task", "result.task", "result.task.status.state"},
			{"status", "result.statusUpdate", "result.statusUpdate.status.state"},
			{"artifact", "result.artifactUpdate", "result.artifactUpdate.lastChunk"},
			{"error", "error", "error.code"},
			{"artifact", "result.artifact", "result.lastChunk"},
			{"status", "result.final", "result.status.state"},
			{"task", "result.status", "result.status.state"},
		} {
			if get(form.at) != "" {
				step = strings.ToLower(form.name + " " + strings.TrimPrefix(get(form.state), "TASK_STATE_"))
				break
			}
		}
		if get("result.final") == "true" {
			step += " final"
		}
		all = append(all, step)
	}
	return strings.Join(all, ", ")
}

// want compares the steps of a stream.
func (a *answer) want(tb testing.TB, steps string) {
	tb.Helper()
	if got := a.steps(); got != steps {
		tb.Errorf("%s\nwant %s\n%.3000s", got, steps, a.text)
	}
}

// Section 8: the events of streams in each version.
func TestStreams(t *testing.T) {
	type row struct{ about, skill, v10, v03, v01 string }
	for _, c := range []row{
		{
			"completed", "echo", "task submitted, status working, artifact true, status completed",
			"task submitted, status working, artifact true, status completed final", "status working, artifact , status completed final",
		},
		{"denied", "denied", "task submitted, status rejected", "task submitted, status rejected final", "status failed final"},
		{"fails", "fails", "task submitted, status working, status failed", "task submitted, status working, status failed final", "status working, status failed final"},
		{"a credential is missing", "auth", "task submitted, status auth_required", "task submitted, status auth-required final", "status input-required final"},
		{"no credential", "key", "task submitted, status auth_required", "task submitted, status auth-required final", "status input-required final"},
		{"inputs are missing", "form", "task submitted, status input_required", "task submitted, status input-required final", "status input-required final"},
	} {
		t.Run(c.about, func(t *testing.T) {
			forEach(t, func(t *testing.T, d *dialect) {
				t.Helper()
				a := newAgent(t, with("denied", nil), with("fails", nil), with("auth", nil), with("key", object{"auth": object{"type": "api_key", "header": "X-Key"}}))
				a.On("POST /run/denied", providertest.Refused(403, "PERMISSION_DENIED"))
				a.On("POST /run/auth", providertest.Refused(401, "AUTH_REQUIRED"))
				a.On("POST /run/fails", providertest.Answer(200, providertest.Response("e1", "failed", nil)))
				part := data(d.version, `{"text":"x"}`)
				got := a.call(t, d.stream, d.params("", part, `"metadata":{"skill":"acme.`+c.skill+`"}`))
				want := map[string]string{"1.0": c.v10, "0.3": c.v03, "0.1": c.v01}[d.version]
				got.want(t, want)
				got.check(t, "200;0.id=1;-1.id=1;0.jsonrpc=2.0")
				if d.version == "1.0" {
					got.check(t, "!-1.result.statusUpdate.final")
				}
				if h := got.header; h.Get("X-Accel-Buffering") != "no" || !strings.Contains(h.Get("Cache-Control"), "no-store") || h.Get("Content-Type") != "text/event-stream" {
					t.Errorf("%v", h)
				}
				if len(got.ids) != len(got.events) || d.version != "0.1" && got.ids[0] != "1" {
					t.Errorf("ids %v", got.ids)
				}
			})
		})
	}
}

// Section 8: a follow-up that streams.
func TestStreamOfFollowUp(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		got := a.call(t, d.send, d.params("", data(d.version, `{"city":"Rome"}`), `"metadata":{"skill":"acme.form"}`))
		id := got.at(d.task + ".id")
		again := a.call(t, d.stream, d.params(id, text(d.version, "11"), ""))
		again.want(t, map[string]string{"1.0": "task input_required", "0.3": "task input-required, status input-required final", "0.1": "status input-required final"}[d.version])
		got = a.call(t, d.stream, d.params(id, text(d.version, "3"), ""))
		got.want(t, map[string]string{
			"1.0": "task working, artifact true, status completed", "0.3": "task working, artifact true, status completed final", "0.1": "artifact , status completed final",
		}[d.version])
	})
}

// Section 8: errors before the first event.
func TestStreamErrors(t *testing.T) {
	a := newAgent(t)
	done := a.call(t, "SendMessage", `{"message":`+message("1.0", text("", "acme.free"), "")+`}`).at("result.task.id")
	both := http.Header{"Accept": {"application/json, text/event-stream"}}
	for _, c := range []struct {
		said, method, params string
		accept               http.Header
		want                 string // of the plain answer, or of the only event
		plain                bool
	}{
		{"", "SendStreamingMessage", `{}`, both, "400;error.code=-32602", true},
		{"", "SendStreamingMessage", `[]`, both, "400;error.code=-32602", true},
		{"", "SubscribeToTask", `{"id":"x"}`, both, "404;error.code=-32001", true},
		{"", "SubscribeToTask", `{"id":"` + done + `"}`, both, "400;error.code=-32004;error.message~read it with GetTask", true},
		{"1.0", "SendStreamingMessage", `{"message":` + message("1.0", text("", "x"), `"taskId":"x"`) + `}`, both, "404;error.code=-32001", true},
		{"1.0", "SendStreamingMessage", `{"message":` + message("1.0", text("", "x"), `"metadata":{"skill":"acme.nope"}`) + `}`, both, "400;error.code=-32602", true},
		{"2.0", "SendStreamingMessage", `{}`, both, "400;error.code=-32009", true},
		{"", "message/stream", `{}`, both, "200;0.error.code=-32602;0.id=1;0.error.data.fieldViolations.0.field", false},
		{"", "message/stream", `{}`, http.Header{"Accept": {"*/*"}}, "200;0.error.code=-32602", false},
		{"", "message/stream", `{}`, http.Header{"Accept": {"application/json"}}, "200;error.code=-32602", true},
		{"", "message/stream", `{}`, nil, "200;error.code=-32602", true},
		{"", "tasks/resubscribe", `{"id":"x"}`, both, "200;0.error.code=-32001;!1", false},
		{"", "tasks/resubscribe", `{"id":"` + done + `"}`, both, "200;0.error.code=-32004;0.error.message~read it with tasks/get", false},
		{"0.1", "tasks/resubscribe", `{"id":"x"}`, both, "200;0.error.code=-32001", false},
		{"", "tasks/sendSubscribe", `{"id":"short","message":` + message("0.1", text("0.1", "x"), "") + `}`, both, "200;0.error.code=-32602;0.error.data.fieldViolations.0.field=id", false},
		{"", "tasks/sendSubscribe", `[]`, http.Header{"Accept": {"text/html"}}, "200;error.code=-32602", true},
	} {
		t.Run(c.said+" "+c.method+" "+c.params, func(t *testing.T) {
			h := as(c.said)
			maps.Copy(h, c.accept)
			got := a.post(t, "/a2a", request(c.method, c.params), h)
			got.check(t, c.want)
			if (got.events == nil) != c.plain {
				t.Errorf("%s", got.text)
			}
		})
	}
	a.front.RequirePrincipal = true
	for _, method := range []string{"SendStreamingMessage", "message/stream", "tasks/sendSubscribe", "GetTask", "tasks/get"} {
		got := a.post(t, "/a2a", request(method, "{}"), both)
		got.check(t, "401;error.code=-32050")
		if got.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%v", got.header)
		}
	}
	a.post(t, "/a2a", request("GetTask", "{}"), http.Header{"User": {"ada"}}).check(t, "200;error.code=-32602")
}

// A stream keeps the id of its request, which no limit counts: it may have 1,024 bytes.
func TestLongIDsOfStreams(t *testing.T) {
	a := newAgent(t)
	id := func(n int) string { return `"` + strings.Repeat("i", n-2) + `"` }
	for _, c := range []struct{ version, method string }{
		{"1.0", "SendStreamingMessage"}, {"1.0", "SubscribeToTask"}, {"0.3", "message/stream"}, {"0.3", "tasks/resubscribe"}, {"0.1", "tasks/sendSubscribe"},
	} {
		for _, n := range []int{1024, 1025} {
			body := strings.Replace(request(c.method, "{}"), `"id":1`, `"id":`+id(n), 1)
			got := a.post(t, "/a2a", body, http.Header{"A2a-Version": {c.version}, "Accept": {"text/event-stream"}})
			refused := strings.Contains(got.text, "-32600") && strings.Contains(got.text, "longer than 1024 bytes")
			if refused != (n > 1024) || !strings.Contains(got.text, id(n)) {
				t.Errorf("%s with an id of %d bytes: %.200s", c.method, n, got.text)
			}
		}
	}
	a.post(t, "/a2a", strings.Replace(request("GetTask", "{}"), `"id":1`, `"id":`+id(5000), 1), nil).check(t, "200;error.code=-32602;id="+strings.Trim(id(5000), `"`))
}

// A stream keeps nothing of the metadata of its request, which may be long and is read before.
func TestMetadataOfStreams(t *testing.T) {
	a := newAgent(t)
	a.Accept("slow")
	const streams, long = 30, 900 << 10
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	before := heap()
	body := request("SendStreamingMessage", `{"message":`+message("1.0", text("", "x"), "")+`,"metadata":{"skillId":"acme.slow","long":"`+strings.Repeat("m", long)+`"}}`)
	for i := range streams {
		wg.Go(func() { a.postWith(t, ctx, "/a2a", body, nil) })
		eventually(t, func() bool { return int(a.streams.Load()) == i+1 }, "the stream is open")
	}
	if grown := heap() - before; grown > streams*long/4 {
		t.Errorf("%d streams take %d KiB", streams, grown>>10)
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Section 8: subscriptions see the same events as the stream that sends, close only at the end, and nothing ends if one leaves.
func TestSubscriptions(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t)
		end := a.Accept("slow")
		id := a.start(t, d, "slow").at("result.id")
		params := fmt.Sprintf(`{"id":%q}`, id)
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { a.postWith(t, ctx, "/a2a", request(d.subscribe, params), as(d.version)) })
		subscribed := func(n int) func() bool {
			return func() bool { return int(a.streams.Load()) == n }
		}
		eventually(t, subscribed(1), "one reader")
		answers := make([]*answer, 3)
		for i := range answers {
			wg.Go(func() { answers[i] = a.post(t, "/a2a", request(d.subscribe, params), as(d.version)) })
		}
		eventually(t, subscribed(4), "four readers")
		leave()
		eventually(t, subscribed(3), "three readers")
		end("ok")
		wg.Wait()
		want := map[string]string{
			"1.0": "task working, artifact true, status completed", "0.3": "task working, artifact true, status completed final", "0.1": "artifact , status completed final",
		}[d.version]
		for _, got := range answers {
			got.want(t, want)
			if got.text != answers[0].text {
				t.Errorf("%s\n%s", got.text, answers[0].text)
			}
		}
		got := a.post(t, "/a2a", request(d.subscribe, params), http.Header{"A2a-Version": {d.version}, "Accept": {"text/event-stream"}})
		if d.version == "0.1" { // the artifacts and the final status again
			got.want(t, "artifact , status completed final")
			if !slices.Equal(got.ids, answers[0].ids) {
				t.Errorf("the events have the numbers %q, and %q the second time", answers[0].ids, got.ids)
			}
		} else if !strings.Contains(got.text, "-32004") {
			t.Errorf("%s", got.text)
		}
		a.Received(t, "POST /run/slow", 1)
	})
	t.Run("interrupted", func(t *testing.T) { // the stream goes on, so the status is not final
		forEach(t, func(t *testing.T, d *dialect) {
			t.Helper()
			a := newAgent(t)
			id := a.call(t, d.send, d.params("", data(d.version, `{"city":"Rome"}`), `"metadata":{"skill":"acme.form"}`)).at(d.task + ".id")
			read := make(chan *answer)
			go func() { read <- a.post(t, "/a2a", request(d.subscribe, fmt.Sprintf(`{"id":%q}`, id)), as(d.version)) }()
			eventually(t, func() bool { return int(a.streams.Load()) == 1 }, "a reader")
			a.call(t, d.send, d.params(id, text(d.version, "11"), ""))
			a.call(t, d.send, d.params(id, text(d.version, "3"), ""))
			(<-read).want(t, map[string]string{
				"1.0": "task input_required, status input_required, status working, artifact true, status completed",
				"0.3": "task input-required, status input-required, status working, artifact true, status completed final",
				"0.1": "status input-required, status working, artifact , status completed final",
			}[d.version])
		})
	})
}

// Section 8: a comment every 15 seconds, and an hour at most. The run goes on.
func TestStreamTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgent(t, inBubble)
		end := a.Accept("slow")
		start := time.Now()
		got := a.call(t, "SendStreamingMessage", `{"message":`+message("1.0", text("", "x"), `"metadata":{"skill":"acme.slow"}`)+`,"metadata":{`+extension+`:{"timeoutMs":1700000}}}`)
		got.want(t, "task submitted, status working, status failed")
		if took := time.Since(start); took != 1700*time.Second {
			t.Errorf("the timeout of the client is over after %v", took)
		}
		if n := strings.Count(got.text, "\n: \n"); n < 112 || n > 113 {
			t.Errorf("%d comments", n)
		}
		got.check(t, "-1.result.statusUpdate.status.message.parts.1.data.code~TIMEOUT;-1.result.statusUpdate.status.message.parts.1.data.executed=yes")

		id := a.send10(t, data("", `{"city":"Rome"}`), `"metadata":{"skill":"acme.form"}`, "").at("result.task.id")
		start = time.Now()
		a.call(t, "SubscribeToTask", fmt.Sprintf(`{"id":%q}`, id)).want(t, "task input_required")
		if took := time.Since(start); took != time.Hour {
			t.Errorf("a stream of %v", took)
		}
		end("ok")
	})
}

// The stream of a client that leaves takes no caller's place any more.
func TestStreamDetaches(t *testing.T) {
	a := newAgent(t, func(a *agent) { a.config.MaxRuns = 1 })
	end := a.Accept("slow")
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		a.postWith(t, ctx, "/a2a", request("SendStreamingMessage", `{"message":`+message("1.0", text("", "x"), `"metadata":{"skill":"acme.slow"}`)+`}`), nil)
	})
	eventually(t, func() bool { return len(a.Requests("GET /status/x-slow")) > 0 }, "it is followed")
	full := a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "")
	full.check(t, "429;error.code=-32057;error.data.0.domain=github.com/skill-bridge;error.data.0.reason=RATE_LIMITED;error.data.0.metadata.executed=no")
	if full.header.Get("Retry-After") == "" {
		t.Errorf("%v", full.header)
	}
	leave()
	wg.Wait()
	eventually(t, func() bool {
		return a.send10(t, text("", "x"), `"metadata":{"skill":"acme.echo"}`, "").at("result.task.status.state") == "TASK_STATE_COMPLETED"
	}, "there is a place again")
	end("ok")
	eventually(t, func() bool { calls, _ := a.bridge.InProgress(); return calls == 0 }, "the run has ended")
}

// A principal may have a number of streams open, and all principals together another. What is refused is not executed.
func TestOpenStreamsAreBounded(t *testing.T) {
	forEach(t, func(t *testing.T, d *dialect) {
		t.Helper()
		a := newAgent(t, options(func(o *a2a.Options) { o.Streams, o.StreamsOfOne = 4, 2 }))
		end := a.Accept("slow")
		subscription := request(d.subscribe, fmt.Sprintf(`{"id":%q}`, a.start(t, d, "slow").at("result.id")))
		message := func(skill string) string {
			return request(d.stream, d.params("", text(d.version, "x"), `"metadata":{"skill":"acme.`+skill+`"}`))
		}
		by := func(principal string) http.Header {
			h := as(d.version)
			if principal != "" {
				h.Set("User", principal)
			}
			return h
		}
		var wg sync.WaitGroup
		open := func(n int, principal, body string) {
			t.Helper()
			wg.Go(func() { a.post(t, "/a2a", body, by(principal)) })
			eventually(t, func() bool { return int(a.streams.Load()) == n }, "the stream is open")
		}
		refused := func(principal string) {
			t.Helper()
			for _, body := range []string{subscription, message("echo")} {
				got := a.post(t, "/a2a", body, by(principal))
				got.check(t, "429;error.code=-32057;error.message~Too many streams")
				if got.header.Get("Retry-After") == "" {
					t.Errorf("%v", got.header)
				}
			}
		}
		open(1, "", subscription)
		open(2, "", subscription)
		refused("")
		open(3, "ada", message("slow"))
		open(4, "joe", message("slow"))
		refused("eve")
		end("ok")
		wg.Wait()
		a.Received(t, "POST /run/echo", 0)
		for _, principal := range []string{"", "ada", "eve"} {
			if got := a.post(t, "/a2a", message("echo"), by(principal)); len(got.events) < 3 {
				t.Errorf("%q: %s", principal, got.text)
			}
		}
	})
}
