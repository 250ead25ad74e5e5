package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// take takes memory for answers, which the returned function frees.
func take(t *testing.T, memory *share.Pool, most, size int64) (free func()) {
	t.Helper()
	taken, release, done := make(chan bool), make(chan struct{}), make(chan struct{})
	other := &jsonrpc.Server{MaxAnswers: most, Memory: memory, Handler: jsonrpc.Handler(func(_ context.Context, r *jsonrpc.Request) (jsontext.Value, *jsonrpc.Error) {
		taken <- r.Reserve(size)
		<-release
		return jsontext.Value("1"), nil
	})}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"m"}`))
	r.Header.Set("Content-Type", "application/json")
	go func() {
		defer close(done)
		other.Serve(t.Context(), httptest.NewRecorder(), r)
	}()
	if !<-taken {
		t.Fatal("there is no room")
	}
	return func() {
		close(release)
		<-done
	}
}

// Section 4: a call whose result finds no room in the memory for answers says that the skill was executed, and how to get the output:
// a client must not start it again.
func TestNoRoomForResults(t *testing.T) {
	const most = 1 << 20
	s := newServer(t, func(s *server) { s.maxAnswers, s.memory = most, new(share.Pool) }, skill("large", nil), skill("slow", nil))
	tooLarge, large := strings.Repeat("x", 900_000), strings.Repeat("x", 300_000)
	check := func(about string, v any, next, text string) (token string) {
		t.Helper()
		e, _ := at(v, "_meta", "io.github.skill-bridge/error").(object)
		token, _ = e["runToken"].(string)
		if at(v, "isError") != true || e["code"] != "RATE_LIMITED" || e["executed"] != "yes" || e["next"] != next || token == "" || !isJSON(e["details"], `{"limit":"answers","max":1048576}`) ||
			!strings.Contains(at(v, "content", 0, "text").(string), text) {
			t.Errorf("%s: %.600v", about, v)
		}
		return token
	}
	s.On("POST /run/large", providertest.Completed("e1", tooLarge))
	progress := object{"name": "acme_large", "_meta": object{"progressToken": 1}}
	check("always", s.call(t, "acme_large", object{}).result(), "none", "too large for an answer (at most 1048576 bytes). Do not call the tool again")
	check("legacy", s.legacy(t, "tools/call", object{"name": "acme_large"}).result(), "none", "too large")
	check("with progress", s.modern(t, "tools/call", progress, "Accept", "text/event-stream").result(), "none", "too large")
	end := s.Accept("slow")
	task := s.task(t, "acme_slow", "ada")
	end(tooLarge)
	eventually(t, func() bool { return s.about(t, "tasks/get", task, "ada").result()["status"] == "completed" }, "the task ends")
	check("a task", s.about(t, "tasks/get", task, "ada").result()["result"], "none", "too large")

	s.On("POST /run/large", providertest.Completed("e1", large))
	end = s.Accept("slow")
	task = s.task(t, "acme_slow", "bob")
	free := take(t, s.memory, most, 600_000)
	token := check("now", s.call(t, "acme_large", object{}).result(), "follow_run", "do not start another one; call get_run with run_token ")
	end(large)
	eventually(t, func() bool {
		message, _ := s.about(t, "tasks/get", task, "bob").result()["statusMessage"].(string)
		return strings.Contains(message, "There is no room")
	}, "the output of the task waits for room")
	free()
	s.On("GET /result/e1", providertest.Completed("e1", large))
	s.On("GET /status/e1", providertest.Completed("e1", large))
	if r := s.call(t, "get_run", object{"run_token": token}).result(); r["structuredContent"] != large {
		t.Errorf("%.500v", r)
	}
	eventually(t, func() bool { return s.about(t, "tasks/get", task, "bob").result()["status"] == "completed" }, "the task has room")
}

// Section 6: a listener is told the end of a task once there is room for its output.
func TestListenersWaitForRoom(t *testing.T) {
	const most = 1 << 20
	s := newServer(t, func(s *server) { s.maxAnswers, s.memory = most, new(share.Pool) }, skill("slow", nil))
	end := s.Accept("slow")
	task := s.task(t, "acme_slow", "ada")
	free := take(t, s.memory, most, most)
	l := s.listen(t, object{"taskIds": []any{task}}, asTaker, "yes", "User", "ada")
	l.next()
	output := strings.Repeat("x", 300_000)
	s.Forget()
	end(output)
	told := make(chan object, 1)
	go func() { told <- l.next() }()
	eventually(t, func() bool { return s.Count("GET /status/") > 0 }, "the state is read")
	if status := s.about(t, "tasks/get", task, "ada").result()["status"]; status != "working" {
		t.Errorf("the task is %v", status)
	}
	select {
	case e := <-told:
		t.Errorf("%.500v", e)
	default:
	}
	free()
	if e := <-told; at(e, "params", "status") != "completed" || at(e, "params", "result", "structuredContent") != output {
		t.Errorf("%.500v", e)
	}
}

// Another answer for which there is no room is a short error that says what happened.
func TestNoRoomForOtherAnswers(t *testing.T) {
	s := newServer(t, func(s *server) { s.maxAnswers = 1000 }, skill("large", object{"description": strings.Repeat("x", 200_000), "capability_type": "knowledge", "output": object{"content_type": "text/plain"}}))
	s.On("POST /run/large", providertest.Completed("e1", strings.Repeat("x", 200_000)))
	for about, v := range map[string]struct {
		method string
		params object
		want   string
	}{
		"a file":   {"resources/read", object{"uri": "skill://acme.large/descriptor.json"}, "no"},
		"a folder": {"resources/read", object{"uri": "skill://acme/large/descriptor.json"}, "no"},
		"a skill":  {"skills/get", object{"uri": "skill://acme/large/SKILL.md"}, "no"},
		"a prompt": {"prompts/get", object{"name": "acme_large"}, "yes"},
	} {
		g := s.modern(t, v.method, v.params)
		if g.status != http.StatusOK || at(g.failure(), "code") != -32603.0 || !strings.Contains(at(g.failure(), "message").(string), "at most 1000 bytes") ||
			at(g.failure(), "data", "code") != "RATE_LIMITED" || at(g.failure(), "data", "details", "limit") != "answers" || v.want == "yes" && at(g.failure(), "data", "executed") != v.want {
			t.Errorf("%s: %.500s", about, g.text)
		}
	}
}

// Section 6: the tasks of listeners are told one after the other if there is not room for all, and a task for which there will never be
// room is told as tasks/get tells it. The stream goes on until all are told.
func TestListenersTakeTurns(t *testing.T) {
	const most = 1 << 19
	s := newServer(t, func(s *server) { s.maxAnswers, s.memory = most, new(share.Pool) }, skill("slow", nil), skill("large", nil), skill("huge", nil))
	end, endLarge, endHuge := s.Accept("slow"), s.Accept("large"), s.Accept("huge")
	large, huge := s.task(t, "acme_large", "ada"), s.task(t, "acme_huge", "ada")
	ids := []any{large, huge}
	for range 6 {
		ids = append(ids, s.task(t, "acme_slow", "ada"))
	}
	var all []*stream
	for range 3 {
		l := s.listen(t, object{"taskIds": ids}, asTaker, "yes", "User", "ada")
		l.next()
		all = append(all, l)
	}
	output := strings.Repeat("x", 200_000)
	end(output)
	endLarge(strings.Repeat("x", 400_000))
	endHuge(strings.Repeat("x", 900_000))
	for _, l := range all {
		told := map[any]bool{}
		for range ids {
			e := l.next()
			id, result := at(e, "params", "taskId"), at(e, "params", "result")
			told[id] = true
			if at(e, "params", "status") != "completed" {
				t.Fatalf("%.300v", e)
			}
			if id != large && id != huge {
				if at(result, "structuredContent") != output {
					t.Errorf("%.500v", e)
				}
				continue
			}
			if text, _ := at(result, "content", 0, "text").(string); at(result, "isError") != true || !strings.Contains(text, "too large for an answer (at most 524288 bytes)") {
				t.Errorf("%.500v", e)
			}
		}
		if last := l.next(); len(told) != len(ids) || at(last, "result", "resultType") != "complete" || l.next() != nil {
			t.Errorf("%d tasks of %d are told, and then %v", len(told), len(ids), last)
		}
	}
	free := take(t, s.memory, most, most) // all of it is free again
	free()
}
