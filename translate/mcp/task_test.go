package mcp_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/keptcallstest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/ledgertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// task starts a run and returns the id of its task.
func (s *server) task(t *testing.T, tool, user string) string {
	t.Helper()
	g := s.call(t, tool, object{}, asTaker, "yes", "User", user)
	id, ok := g.result()["taskId"].(string)
	if !ok {
		t.Fatalf("%s", g.text)
	}
	return id
}

func (s *server) about(t *testing.T, method, id, user string) *got {
	t.Helper()
	return s.modern(t, method, object{"taskId": id}, asTaker, "yes", "User", user)
}

// Section 5: a flat task, polled at most once a second, with the result that the call would have had.
func TestTasks(t *testing.T) {
	s := newServer(t, nil, skill("slow", output("application/json", object{"type": "object"})), skill("quick", nil), skill("untold", nil))
	end := s.Accept("slow")
	g := s.call(t, "acme_slow", object{}, asTaker, "yes")
	r := g.result()
	if r["resultType"] != "task" || r["status"] != "working" || r["ttlMs"] != 86_400_000.0 || r["createdAt"] == nil || r["lastUpdatedAt"] == nil || r["task"] != nil || r["content"] != nil {
		t.Fatalf("%s", g.text)
	}
	if wait := r["pollIntervalMs"].(float64); wait < 500 || wait > 30_000 {
		t.Errorf("pollIntervalMs %v", wait)
	}
	s.call(t, "acme_untold", object{})
	if task, call := s.Requests("POST /run/slow"), s.Requests("POST /run/untold"); len(task) != 1 || strings.Contains(task[0].Body, "timeout_ms") || len(call) != 1 || !strings.Contains(call[0].Body, "timeout_ms") {
		t.Errorf("%+v, %+v: the provider of a task is told a timeout, or that of a call that waits is not", task, call)
	}
	id := r["taskId"].(string)
	before := s.Count("GET /status/")
	for range 5 {
		if r := s.about(t, "tasks/get", id, "").result(); r["status"] != "working" || r["resultType"] != "complete" || r["requestState"] != nil || r["taskId"] != id {
			t.Errorf("%v", r)
		}
	}
	if n := s.Count("GET /status/") - before; n > 2 {
		t.Errorf("%d polls for 5 requests within a second", n)
	}
	end(object{"a": 1})
	eventually(t, func() bool { return s.about(t, "tasks/get", id, "").result()["status"] == "completed" }, "the task completes")
	r = s.about(t, "tasks/get", id, "").result()
	if !isJSON(at(r, "result", "structuredContent"), `{"a":1}`) || at(r, "result", "content", 0, "text") != `{"a":1}` || r["error"] != nil {
		t.Errorf("%v", r)
	}
	if g := s.call(t, "acme_quick", object{}, asTaker, "yes"); g.result()["structuredContent"] == nil {
		t.Errorf("a call that completes at once: %s", g.text)
	}
	if g := s.about(t, "tasks/update", id, ""); g.result()["resultType"] != "complete" || len(g.result()) != 2 {
		t.Errorf("tasks/update: %s", g.text)
	}
}

// Section 5: a run that fails is a completed task with isError, and what a model can't act on a failed task with the error.
func TestTaskFailures(t *testing.T) {
	s := newServer(t, nil, skill("slow", output("application/json", object{"type": "object"})))
	for about, v := range map[string]struct {
		status http.HandlerFunc
		want   string
	}{
		"failed":         {providertest.Answer(200, providertest.Response("x-slow", "failed", object{"error": object{"code": "X", "message": "No."}})), "completed"},
		"does not fit":   {providertest.Answer(200, providertest.Response("x-slow", "completed", object{"output": 1})), "completed"},
		"no answer":      {providertest.Answer(200, `{"x":1}`), "failed"},
		"unavailable":    {providertest.Refused(503, "SERVICE_UNAVAILABLE"), "working"},
		"too many polls": {providertest.Refused(429, "RATE_LIMITED"), "working"},
	} {
		s.Accept("slow")
		id := s.task(t, "acme_slow", about)
		s.On("GET /status/x-slow", v.status)
		s.On("GET /result/x-slow", v.status)
		var g *got
		eventually(t, func() bool {
			g = s.about(t, "tasks/get", id, about)
			return g.result()["status"] == v.want && (v.want != "working" || g.result()["statusMessage"] != nil)
		}, about)
		switch v.want {
		case "completed":
			if at(g.result(), "result", "isError") != true || g.result()["error"] != nil {
				t.Errorf("%s: %s", about, g.text)
			}
		case "failed":
			if at(g.result(), "error", "code") != -32603.0 || at(g.result(), "error", "data", "code") == nil || g.result()["result"] != nil ||
				g.result()["statusMessage"] == nil || g.result()["statusMessage"] != at(g.result(), "error", "message") {
				t.Errorf("%s: %s", about, g.text)
			}
		}
	}
}

// A provider whose status URL fails, or that denies a run, may have a server that does not know it yet: the task goes on. It has failed if the
// denials last for 30 s, or, once the run was seen, for 2 s, although each tasks/get polls once.
func TestDeniedTasks(t *testing.T) {
	const never = 5 * time.Minute // it would have failed by then
	denied, running := providertest.Answer(404, "{}"), providertest.Answer(200, providertest.Response("x-slow", "running", nil))
	for about, v := range map[string]struct {
		answers []http.HandlerFunc // the last one repeats
		fails   time.Duration      // after which time the task has failed
	}{
		"never seen": {[]http.HandlerFunc{denied}, 30 * time.Second},
		"seen":       {[]http.HandlerFunc{running, denied}, 3 * time.Second},
		"in turns":   {[]http.HandlerFunc{denied, running, providertest.Answer(410, "{}"), running, denied}, 6 * time.Second},
		"trouble":    {[]http.HandlerFunc{providertest.Answer(500, "{}"), denied, providertest.Answer(500, "{}")}, never},
	} {
		for _, back := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := inBubble(t, skill("slow", nil))
				end := s.Accept("slow")
				id, begun := s.task(t, "acme_slow", "ada"), time.Now()
				s.On("GET /status/x-slow", v.answers...)
				for time.Since(begun) < v.fails {
					if g := s.about(t, "tasks/get", id, "ada"); g.result()["status"] != "working" {
						t.Fatalf("%s, after %v: %s", about, time.Since(begun), g.text)
					}
					time.Sleep(time.Second)
				}
				want := "failed"
				if back || v.fails == never {
					end(object{"a": 1})
					want = "completed"
				}
				for range 2 {
					if g := s.about(t, "tasks/get", id, "ada"); g.result()["status"] != want {
						t.Errorf("%s: %s, want %s", about, g.text, want)
					}
					time.Sleep(time.Second)
				}
			})
		}
	}
}

// A descriptor that is not there for a while, such as during a deployment of the provider, does not end a task, nor does tasks/cancel take it for ended.
func TestTaskOfMissingDescriptor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, skill("slow", nil))
		end := s.Accept("slow")
		ends, canceled := s.task(t, "acme_slow", "ada"), s.task(t, "acme_slow", "bob")
		s.On("GET /skills/0.json", providertest.Answer(404, "{}"))
		asked := s.Count("GET /skills/0.json")
		for s.Count("GET /skills/0.json") == asked {
			time.Sleep(time.Minute)
			if g := s.about(t, "tasks/get", ends, "ada"); g.result()["status"] != "working" {
				t.Fatal(g.text)
			}
		}
		s.about(t, "tasks/cancel", canceled, "bob")
		s.On("GET /skills/0.json")
		end(object{"a": 1})
		time.Sleep(time.Hour)
		for id, want := range map[string]string{ends: "completed", canceled: "cancelled"} {
			caller := map[string]string{ends: "ada", canceled: "bob"}[id]
			if g := s.about(t, "tasks/get", id, caller); g.result()["status"] != want {
				t.Errorf("%s, want %s", g.text, want)
			}
		}
	})
}

// Section 5: an id that is unknown, foreign, expired or damaged is one error, and the extension is demanded first.
func TestTaskIDs(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil))
	s.Accept("slow")
	id := s.task(t, "acme_slow", "ada")
	other, err := tokensOfAnotherBridge.Seal(t.Context(), run.Ref{Source: "acme", SkillID: "acme/slow", ExecutionID: "x-slow"}, blockOf("other"), "ada")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		for about, v := range map[string][2]string{
			"foreign": {id, "bob"}, "anonymous": {id, ""}, "forged": {"AAAA", "ada"}, "empty": {"", "ada"}, "cut": {id[:len(id)-3], "ada"}, "cut at its beginning": {id[3:], "ada"},
			"longer": {id + "AAAA", "ada"}, "changed": {id[:30] + flip(id[30]) + id[31:], "ada"}, "long": {strings.Repeat("A", 100_000), "ada"}, "of another bridge": {other, "ada"},
			"twice": {id + id, "ada"},
		} {
			g := s.about(t, method, v[0], v[1])
			if g.status != http.StatusOK || at(g.failure(), "code") != -32602.0 || at(g.failure(), "message") != "Task not found" || len(g.failure()) != 2 {
				t.Errorf("%s, %s: %d %.300s", method, about, g.status, g.text)
			}
		}
		for about, params := range map[string]object{"none": {}, "a number": {"taskId": 1}} {
			if g := s.modern(t, method, params, asTaker, "yes"); g.status != http.StatusOK || at(g.failure(), "code") != -32602.0 {
				t.Errorf("%s, %s: %d %s", method, about, g.status, g.text)
			}
		}
		g := s.modern(t, method, object{"taskId": id}, "User", "ada")
		if g.status != http.StatusBadRequest || at(g.failure(), "code") != -32021.0 || !isJSON(at(g.failure(), "data"), `{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`) {
			t.Errorf("%s without the extension: %d %s", method, g.status, g.text)
		}
		if g := s.legacy(t, method, object{"taskId": id}); at(g.failure(), "code") != -32601.0 {
			t.Errorf("legacy %s: %s", method, g.text)
		}
	}
	for _, method := range []string{"tasks/list", "tasks/result"} {
		if g := s.about(t, method, id, "ada"); g.status != http.StatusNotFound || at(g.failure(), "code") != -32601.0 {
			t.Errorf("%s: %d %s", method, g.status, g.text)
		}
	}
	if g := s.about(t, "tasks/get", id, "ada"); g.result()["status"] != "working" {
		t.Errorf("the owner: %s", g.text)
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// memory is a store of canceled runs.
type memory struct {
	mu   sync.Mutex
	of   map[string]time.Time
	next chan struct{}
}

func (m *memory) Add(_ context.Context, principal string, ref *run.Ref) *run.Limit {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of[principal+" "+ref.ExecutionID] = time.Now()
	close(m.next)
	m.next = make(chan struct{})
	return nil
}

func (m *memory) Next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.next
}

func (m *memory) When(_ context.Context, principal string, ref *run.Ref) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of[principal+" "+ref.ExecutionID]
}

// Section 5: tasks/cancel is an empty answer, always; another instance knows it; a run that has ended stays as it ended.
func TestCancel(t *testing.T) {
	kept := &memory{of: map[string]time.Time{}, next: make(chan struct{})}
	use := func(s *server) { s.front.Canceled = &ledger.Cancellations{Marks: kept} }
	s := newServer(t, use, skill("slow", nil), skill("ended", nil), skill("down", nil))
	s.Accept("slow")
	s.Accept("down")
	end := s.Accept("ended")
	canceled, ended, down := s.task(t, "acme_slow", "ada"), s.task(t, "acme_ended", "ada"), s.task(t, "acme_down", "ada")
	end(object{"a": 1})
	s.On("GET /status/x-down", providertest.Refused(503, "SERVICE_UNAVAILABLE"))
	other := newServer(t, func(o *server) {
		use(o)
		o.Provider, o.config.Sources = s.Provider, nil
		o.source(t, "acme", s.Provider)
	})
	polls := s.Count("GET /status/x-slow")
	l := other.listen(t, object{"taskIds": []any{canceled}}, asTaker, "yes", "User", "ada")
	l.next()
	eventually(t, func() bool { return s.Count("GET /status/x-slow") > polls }, "a poll for the subscription") // else it may come after the cancellation
	began := time.Now()
	for _, id := range []string{canceled, canceled, ended, down} {
		if g := s.about(t, "tasks/cancel", id, "ada"); g.result()["resultType"] != "complete" || len(g.result()) != 2 {
			t.Errorf("%s", g.text)
		}
	}
	if e := l.next(); at(e, "params", "status") != "cancelled" || time.Since(began) > 10*time.Second { // 15 s if nothing says so
		t.Errorf("a subscription at another instance, after %s: %v", time.Since(began), e)
	}
	polls = s.Count("GET /status/x-slow")
	for name, s := range map[string]*server{"this": s, "another": other} {
		for id, want := range map[string]string{canceled: "cancelled", down: "cancelled", ended: "completed"} {
			r := s.about(t, "tasks/get", id, "ada").result()
			if r["status"] != want || want == "cancelled" && r["statusMessage"] != "No longer followed; the provider may still finish it." {
				t.Errorf("%s instance: %v, want %s", name, r, want)
			}
		}
	}
	if n := s.Count("GET /status/x-slow"); n != polls || s.Count("DELETE ") > 0 {
		t.Errorf("a canceled run was polled %d times", n-polls)
	}
}

// Section 5: a run that ended within a second of the last poll stays as it ended when its task is canceled then.
func TestCancelAfterTheEnd(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil))
	end := s.Accept("slow")
	id := s.task(t, "acme_slow", "ada")
	if g := s.about(t, "tasks/get", id, "ada"); g.result()["status"] != "working" {
		t.Fatal(g.text)
	}
	end(object{"a": 1})
	polls := s.Count("GET /status/x-slow")
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { s.about(t, "tasks/cancel", id, "ada") })
	}
	all.Wait()
	if g := s.about(t, "tasks/get", id, "ada"); g.result()["status"] != "completed" || at(g.result(), "result", "structuredContent", "a") != 1.0 {
		t.Error(g.text)
	}
	if n := s.Count("GET /status/x-slow") - polls; n == 0 || n > 20 {
		t.Errorf("%d polls", n)
	}
}

// Section 10: with task_after off there are no tasks, and a client is told so.
func TestWithoutTasks(t *testing.T) {
	s := newServer(t, func(s *server) { s.front.Options.TaskAfter, s.front.Options.Wait = -1, 20*time.Millisecond }, skill("slow", nil))
	s.Accept("slow")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if g := s.about(t, method, "AAAA", ""); g.status != http.StatusNotFound || at(g.failure(), "code") != -32601.0 {
			t.Errorf("%s: %d %s", method, g.status, g.text)
		}
	}
	if g := s.modern(t, "server/discover", object{}); !isJSON(at(g.result(), "capabilities", "extensions"), `{"io.modelcontextprotocol/skills":{}}`) || g.result() == nil {
		t.Errorf("%s", g.text)
	}
	g := s.call(t, "acme_slow", object{}, asTaker, "yes")
	if g.result()["isError"] != true || g.result()["taskId"] != nil {
		t.Errorf("%s", g.text)
	}
	token := at(g.result(), "_meta", "io.github.skill-bridge/error", "runToken")
	l := s.listen(t, object{"taskIds": []any{token}, "toolsListChanged": true}, asTaker, "yes")
	if ack := l.next(); !isJSON(at(ack, "params", "notifications"), `{"toolsListChanged":true}`) {
		t.Errorf("%v", ack)
	}
}

// Section 5: one poll a second and run at most, also of a run that has ended, whose task no longer changes and is not to be polled.
func TestEndedTasks(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil), skill("failing", nil), skill("canceled", nil))
	end := s.Accept("slow")
	s.Accept("failing")
	s.Accept("canceled")
	for tool, v := range map[string]struct {
		status string
		end    func(id string)
	}{
		"slow": {"completed", func(string) { end(object{"a": 1}) }},
		"failing": {"completed", func(string) {
			s.On("GET /status/x-failing", providertest.Answer(200, providertest.Response("x-failing", "failed", object{"error": object{"code": "X", "message": "No."}})))
		}},
		"canceled": {"cancelled", func(id string) { s.about(t, "tasks/cancel", id, "ada") }},
	} {
		id := s.task(t, "acme_"+tool, "ada")
		v.end(id)
		var first object
		eventually(t, func() bool {
			first = s.about(t, "tasks/get", id, "ada").result()
			return first["status"] == v.status
		}, tool+" ends")
		polls := s.Count("GET /status/x-"+tool) + s.Count("GET /result/x-"+tool)
		began := time.Now()
		for range 5 {
			r := s.about(t, "tasks/get", id, "ada").result()
			if r["status"] != v.status || r["lastUpdatedAt"] != first["lastUpdatedAt"] || r["pollIntervalMs"] != nil {
				t.Errorf("%s: %v, before %v", tool, r, first)
			}
		}
		most := 2 * int(time.Since(began)/time.Second+1)
		if n := s.Count("GET /status/x-"+tool) + s.Count("GET /result/x-"+tool) - polls; n > most {
			t.Errorf("%s: %d polls, at most %d are due", tool, n, most)
		}
	}
}

// Section 5: a task that has ended stays as it ended, also when its provider fails afterwards, or says something else. If its output is
// too long to be kept, its result can't be read then, which is an error that says when to ask again.
func TestEndedTasksStay(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		about, tool, output string
		later               http.HandlerFunc
		kept                bool
	}{
		{"a short output, unavailable", "slow", "x", providertest.Refused(503, "SERVICE_UNAVAILABLE"), true},
		{"a short output, running again", "slow", "x", providertest.Answer(200, providertest.Response("x-slow", "running", nil)), true},
		{"a long output, unavailable", "large", strings.Repeat("x", 100_000), providertest.Refused(503, "SERVICE_UNAVAILABLE"), false},
		{"a long output, running again", "large", strings.Repeat("x", 100_000), providertest.Answer(200, providertest.Response("x-large", "running", nil)), false},
	} {
		t.Run(v.about, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, nil, skill("slow", nil), skill("large", nil))
			end := s.Accept(v.tool)
			id := s.task(t, "acme_"+v.tool, "ada")
			end(v.output)
			var first object
			eventually(t, func() bool {
				first = s.about(t, "tasks/get", id, "ada").result()
				return first["status"] == "completed"
			}, v.about+": the task ends")
			s.On("GET /status/x-"+v.tool, v.later)
			s.On("GET /result/x-"+v.tool, v.later)
			for since := time.Now(); time.Since(since) < 1200*time.Millisecond; { // results of polls are shared for a second
				g := s.about(t, "tasks/get", id, "ada")
				if v.kept {
					if r := g.result(); r["status"] != "completed" || r["lastUpdatedAt"] != first["lastUpdatedAt"] || at(r, "result", "structuredContent") != v.output {
						t.Fatalf("%s: %s", v.about, g.text)
					}
				} else if e := g.failure(); e == nil && g.result()["status"] != "completed" || e != nil && (e["code"] != -32603.0 || at(e, "data", "executed") != "yes" ||
					at(e, "data", "next") != "follow_run" || at(e, "data", "retry") == nil || !strings.Contains(e["message"].(string), "has ended, but its result can't be read at the moment")) {
					t.Fatalf("%s: %.300s", v.about, g.text)
				}
				<-time.After(20 * time.Millisecond)
			}
			if g := s.about(t, "tasks/cancel", id, "ada"); g.result()["resultType"] != "complete" {
				t.Errorf("%s: %s", v.about, g.text)
			}
			s.On("GET /status/x-"+v.tool, providertest.Completed("x-"+v.tool, v.output))
			s.On("GET /result/x-"+v.tool, providertest.Completed("x-"+v.tool, v.output))
			eventually(t, func() bool { return s.about(t, "tasks/get", id, "ada").result()["status"] == "completed" }, v.about+": the result can be read again")
			if r := s.about(t, "tasks/get", id, "ada").result(); r["lastUpdatedAt"] != first["lastUpdatedAt"] {
				t.Errorf("%s: %.300v", v.about, r)
			}
		})
	}
}

// reports are the calls that were reported.
type reports struct {
	mu    sync.Mutex
	all   []string
	kinds []run.Kind // of the failures
}

func (*reports) Begin(ctx context.Context, _ *translate.Call) context.Context { return ctx }
func (*reports) Exchange(context.Context, *exchange.Exchange)                 {}
func (*reports) Notice(context.Context, *exchange.Notice)                     {}

func (r *reports) Called(_ context.Context, call *translate.Call, o *run.Run, _ *translate.Statistics) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Failure != nil {
		r.kinds = append(r.kinds, o.Failure.Kind)
	}
	r.all = append(r.all, fmt.Sprintf("%s %s %s %v", call.Method, o.ExecutionID, o.State, o.Failure != nil))
}

// A call about a task is reported with the state of its run, also one that was answered without asking the provider.
func TestReportsOfTasks(t *testing.T) {
	reported := new(reports)
	s := newServer(t, func(s *server) { s.config.Observer = reported }, skill("slow", nil))
	s.Accept("slow")
	id := s.task(t, "acme_slow", "ada")
	for _, method := range []string{"tasks/get", "tasks/get", "tasks/cancel", "tasks/cancel", "tasks/get"} {
		s.about(t, method, id, "ada")
	}
	// The bridge reports the first tasks/get, which asks the provider, and the tasks/cancel that has an effect.
	want := []string{
		"tools/call x-slow accepted false", "tasks/get x-slow running false", "tasks/get x-slow running false", "tasks/cancel x-slow running false",
		"tasks/cancel x-slow canceled false", "tasks/get x-slow canceled false",
	}
	if !slices.Equal(reported.all, want) {
		t.Errorf("%q", reported.all)
	}
}

// Section 6: the acknowledgment comes first and says what is honoured: own tasks, at most 16. A task is told at its end, or when it is canceled.
func TestListenToTasks(t *testing.T) {
	s := newServer(t, nil, skill("slow", nil), skill("long", nil))
	end := s.Accept("slow")
	s.Accept("long")
	var ids []any
	for range 18 {
		ids = append(ids, s.task(t, "acme_long", "ada"))
	}
	ids = append([]any{ids[0], ids[0]}, ids...) // the same task counts once
	foreign := s.task(t, "acme_long", "bob")
	l := s.listen(t, object{"taskIds": append([]any{foreign, "AAAA", 1, nil}, ids...), "toolsListChanged": true, "resourcesListChanged": false, "nope": true}, asTaker, "yes", "User", "ada")
	ack := l.next()
	honoured, _ := at(ack, "params", "notifications", "taskIds").([]any)
	if ack["method"] != "notifications/subscriptions/acknowledged" || len(honoured) != 16 || honoured[0] != ids[0] || !slices.Equal(honoured, ids[2:18]) || at(ack, "params", "notifications", "toolsListChanged") != true ||
		at(ack, "params", "notifications", "resourcesListChanged") != nil || at(ack, "params", "notifications", "nope") != nil || at(ack, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 1.0 {
		t.Errorf("%v", ack)
	}
	l.end()
	slow, long := s.task(t, "acme_slow", "ada"), s.task(t, "acme_long", "ada")
	l = s.listen(t, object{"taskIds": []any{slow, long}}, asTaker, "yes", "User", "ada")
	l.next()
	end(object{"a": 1})
	if e := l.next(); e["method"] != "notifications/tasks" || at(e, "params", "taskId") != slow || at(e, "params", "status") != "completed" || !isJSON(at(e, "params", "result", "structuredContent"), `{"a":1}`) ||
		at(e, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 1.0 {
		t.Errorf("%v", e)
	}
	s.about(t, "tasks/cancel", long, "ada")
	if e := l.next(); at(e, "params", "taskId") != long || at(e, "params", "status") != "cancelled" {
		t.Errorf("%v", e)
	}
	if e := l.next(); at(e, "result", "resultType") != "complete" || at(e, "result", "_meta", "io.modelcontextprotocol/subscriptionId") != 1.0 || l.next() != nil {
		t.Errorf("the closing result: %v", e)
	}
	without := s.listen(t, object{"taskIds": []any{}, "promptsListChanged": true, "toolsListChanged": nil}, "User", "ada")
	if ack := without.next(); ack["method"] != "notifications/subscriptions/acknowledged" {
		t.Errorf("no ids without the extension: %v", ack)
	}
	if g := s.modern(t, "subscriptions/listen", object{"notifications": object{"taskIds": []any{slow}}}, "User", "ada", "Accept", "text/event-stream"); g.status != http.StatusBadRequest ||
		at(g.failure(), "code") != -32021.0 || at(g.failure(), "data", "requiredCapabilities", "extensions", "io.modelcontextprotocol/tasks") == nil {
		t.Errorf("ids without the extension: %d %s", g.status, g.text)
	}
}

// A kept run that is canceled at another instance, or with another front, is a canceled task, for who listens and who asks.
func TestCanceledKeptRun(t *testing.T) {
	p, db := keptcallstest.Provider(), ledgertest.New()
	p.Accept("sum")
	i, other := keptcallstest.Start(t, p, db, nil), keptcallstest.Start(t, p, db, nil)
	begun := i.Call("k", "acme.sum", "", keptcallstest.Waits(0))
	s := newServer(t, nil)
	s.front.Bridge, s.front.Canceled = i.Bridge, i.Canceled
	id, err := s.front.Tokens.Seal(t.Context(), begun.Ref, "ada")
	if err != nil {
		t.Fatal(err)
	}
	l := s.listen(t, object{"taskIds": []any{id}}, asTaker, "yes", "User", "ada")
	l.next()
	time.Sleep(100 * time.Millisecond) // so that the end of the run is waited for
	gets := i.Store.Sent("get")
	if _, failure := i.Canceled.Cancel(t.Context(), "bob", &run.Ref{Source: "acme", SkillID: "acme.sum", ExecutionID: "other"}); failure != nil {
		t.Fatal(failure)
	}
	time.Sleep(100 * time.Millisecond) // the listener hears of it
	if gets = i.Store.Sent("get") - gets; gets != 0 {
		t.Errorf("another canceled run: the kept one was read %d times", gets)
	}
	e, err := other.Cancel(t.Context(), ledger.Identity{Owner: keptcallstest.Ada, ID: begun.Ref.Kept})
	if err != nil {
		t.Fatal(err)
	}
	event, _ := at(l.next(), "params").(object)
	for about, task := range map[string]object{"the event": event, "tasks/get": s.about(t, "tasks/get", id, "ada").result()} {
		updated, err := time.Parse(time.RFC3339, fmt.Sprint(task["lastUpdatedAt"]))
		if task["status"] != "cancelled" || task["statusMessage"] != "No longer followed; the provider may still finish it." || task["result"] != nil ||
			err != nil || updated.Sub(e.Changed).Abs() > 2*time.Millisecond {
			t.Errorf("%s: %v", about, task)
		}
	}
}

// Section 6: 16 subscriptions of a principal and 1,000 of all; what is over gets -32603, and room is free again at once.
func TestListenersAreBounded(t *testing.T) {
	s := newServer(t, nil, skill("one", nil))
	refused := func(user string) bool {
		g := s.modern(t, "subscriptions/listen", object{"notifications": object{}}, "Accept", "text/event-stream", "User", user)
		return at(g.failure(), "code") == -32603.0
	}
	var open []*stream
	for range 16 {
		l := s.listen(t, object{"toolsListChanged": true}, "User", "ada")
		l.next()
		open = append(open, l)
	}
	if !refused("ada") || refused("bob") || refused("") {
		t.Error("a principal has more than 16, or takes the room of others")
	}
	open[0].end()
	eventually(t, func() bool { return !refused("ada") }, "there is room again")
	for i := range 1000 - 15 {
		s.listen(t, object{"toolsListChanged": true}, "User", "user-"+strconv.Itoa(i/16)).next()
	}
	if !refused("cy") {
		t.Error("there are more than 1,000")
	}
}

// A subscription that is one too many is reported as a matter of a limit: it is no fault of the server.
func TestReportOfOneListenerTooMany(t *testing.T) {
	reported := new(reports)
	s := newServer(t, func(s *server) { s.config.Observer = reported }, skill("one", nil))
	for range 16 {
		s.listen(t, object{"toolsListChanged": true}, "User", "ada").next()
	}
	s.modern(t, "subscriptions/listen", object{"notifications": object{}}, "Accept", "text/event-stream", "User", "ada")
	if !slices.Equal(reported.kinds, []run.Kind{run.RateLimited}) {
		t.Errorf("%v", reported.kinds)
	}
}

// A stream keeps the id of its request and a progress token, which no limit counts: they may have 1,024 bytes.
func TestLongIDsOfListeners(t *testing.T) {
	s := newServer(t, func(s *server) { s.front.Options.Wait = 1200 * time.Millisecond }, skill("slow", nil))
	s.Accept("slow")
	for _, n := range []int{1024, 1025} {
		id := `"` + strings.Repeat("i", n-2) + `"`
		body, fields := modernRequest(t, "subscriptions/listen", object{"notifications": object{}}, "Accept", "text/event-stream")
		g := s.send(t, strings.Replace(body, `"id":1`, `"id":`+id, 1), fields...)
		message, _ := at(g.failure(), "message").(string)
		if refused := at(g.failure(), "code") == -32600.0 && strings.Contains(message, "longer than 1024 bytes"); refused != (n > 1024) {
			t.Errorf("an id of %d bytes: %d %.200s", n, g.status, g.text)
		}
		g = s.modern(t, "tools/call", object{"name": "acme_slow", "_meta": object{"progressToken": id[1 : len(id)-1]}}, "Accept", "text/event-stream")
		if streams := len(g.events) > 0; streams != (n == 1024) || g.result() == nil {
			t.Errorf("a progress token of %d bytes: %.200s", n, g.text)
		}
	}
}

// Section 6: a change of a list is told to those who asked for it; the lists are read while somebody listens.
func TestListChanges(t *testing.T) {
	stop := make(chan struct{})
	s := newServer(t, func(s *server) { s.front.Stopping = stop }, skill("one", nil))
	l := s.listen(t, object{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	if ack := l.next(); !isJSON(at(ack, "params", "notifications"), `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`) {
		t.Errorf("%v", ack)
	}
	eventually(t, func() bool { return s.Count("GET /.well-known/") > 0 }, "the lists are read")
	close(stop)
	for e := l.next(); ; e = l.next() {
		if e["result"] != nil {
			break
		}
		if e == nil {
			t.Fatal("there is no closing result")
		}
	}
	for about, params := range map[string]object{
		"none": {}, "a list": {"notifications": []int{}}, "no boolean": {"notifications": object{"promptsListChanged": "true"}},
		"one id": {"notifications": object{"taskIds": "AAAA"}},
	} {
		if g := s.modern(t, "subscriptions/listen", params, "Accept", "text/event-stream"); at(g.failure(), "code") != -32602.0 {
			t.Errorf("%s: %s", about, g.text)
		}
	}
	for _, accept := range []string{"", "application/json", "text/event-stream;q=0", "application/json, text/event-stream; q=0.0"} {
		g := s.modern(t, "subscriptions/listen", object{"notifications": object{}}, "Accept", accept)
		if g.status != http.StatusOK || at(g.failure(), "code") != -32600.0 || g.events != nil {
			t.Errorf("Accept: %s: %d %s", accept, g.status, g.text)
		}
	}
	if g := s.legacy(t, "subscriptions/listen", object{"notifications": object{}}); at(g.failure(), "code") != -32601.0 {
		t.Errorf("legacy: %s", g.text)
	}
}

// Section 6: while somebody listens, a call that publishes a tool is followed by a notification, however long the index is fresh.
func TestChangeByCall(t *testing.T) {
	s := newServer(t, nil, skill("publish", nil))
	s.call(t, "acme_publish", object{}) // the index is in the cache
	l := s.listen(t, object{"toolsListChanged": true})
	l.next() // the acknowledgement
	s.On("POST /run/publish", func(w http.ResponseWriter, r *http.Request) {
		s.Publish(skill("publish", nil), skill("more", nil))
		providertest.Completed("e1", "published")(w, r)
	})
	if g := s.call(t, "acme_publish", object{}); at(g.result(), "isError") == true {
		t.Fatal(g.text)
	}
	if e := l.next(); e["method"] != "notifications/tools/list_changed" {
		t.Fatalf("%v", e)
	}
	if tools, _ := s.tools(t, s.modern); !slices.Contains(names(tools), "acme_more") {
		t.Errorf("%v", names(tools))
	}
}

// A client that was told that it listens is told of every change after that, also of one at once.
func TestChangeAfterAcknowledgement(t *testing.T) {
	var changed <-chan struct{}
	s := newServer(t, func(s *server) {
		s.wrote = func(part []byte) {
			if !bytes.Contains(part, []byte("notifications/subscriptions/acknowledged")) {
				return
			}
			s.Publish(skill("publish", nil), skill("more", nil))
			s.call(t, "acme_publish", object{})
			select {
			case <-changed:
			case <-time.After(30 * time.Second):
				t.Error("the list was not read after the call")
			}
		}
	}, skill("publish", nil))
	s.call(t, "acme_publish", object{}) // the index is in the cache
	changed = s.front.Bridge.Changed("")
	l := s.listen(t, object{"toolsListChanged": true})
	l.next() // the acknowledgement
	if e := l.next(); e["method"] != "notifications/tools/list_changed" {
		t.Errorf("%v", e)
	}
}

// An anonymous listener does not keep the lists of others from being read.
func TestListenersOfOthers(t *testing.T) {
	var private *providertest.Provider
	s := newServer(t, func(s *server) {
		private = providertest.Start(t, skill("secret", object{"id": "private/secret"}))
		s.source(t, "private", private).RequirePrincipal = true
	}, skill("one", nil))
	s.listen(t, object{"toolsListChanged": true}).next()
	eventually(t, func() bool { return s.Count("GET /.well-known/") > 0 }, "the open list is read")
	if n := private.Count("GET "); n > 0 {
		t.Errorf("an anonymous listener had a private list read %d times", n)
	}
	s.listen(t, object{"toolsListChanged": true}, "User", "ada").next()
	eventually(t, func() bool { return private.Count("GET /.well-known/") > 0 }, "the private list is read for a listener who may see it")
}

// A listener to whom the access rules leave some sources does not keep those of others from being read.
func TestListenersWithAccessRules(t *testing.T) {
	var quick *providertest.Provider
	s := newServer(t, func(s *server) {
		quick = providertest.Start(t, skill("quick", object{"id": "quick/quick"}))
		s.source(t, "quick", quick)
		s.config.Access = &access.Rules{List: []access.Rule{
			{Allow: true, Principal: "bob", Skills: []string{"acme.*"}}, {Allow: true, Principal: "alice", Skills: []string{"quick.*"}},
		}}
	}, skill("one", nil))
	s.listen(t, object{"toolsListChanged": true}, "User", "bob").next()
	eventually(t, func() bool { return s.Count("GET /.well-known/") > 0 }, "bob's list is read")
	if n := quick.Count("GET "); n > 0 {
		t.Errorf("bob had a list that he may not see read %d times", n)
	}
	s.listen(t, object{"toolsListChanged": true}, "User", "alice").next()
	eventually(t, func() bool { return quick.Count("GET /.well-known/") > 0 }, "alice's list is read")
	s.call(t, "quick_quick", object{}, "User", "alice") // the index is in the cache
	bob, alice, anonymous := s.front.Bridge.Changed("bob"), s.front.Bridge.Changed("alice"), s.front.Bridge.Changed("")
	quick.Publish(skill("quick", object{"id": "quick/quick"}), skill("more", object{"id": "quick/more"}))
	s.call(t, "quick_quick", object{}, "User", "alice")
	<-alice
	for who, changed := range map[string]<-chan struct{}{"bob": bob, "an anonymous caller": anonymous} {
		select {
		case <-changed:
			t.Errorf("%s is told of a change of a source that does not exist to others", who)
		default:
		}
	}
}

// While a source hangs, comments and ends of tasks are sent, and a stop ends the subscription.
func TestSourceThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := providertest.New()
		hung.On("GET /.well-known/skill-sharing", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		stopping, done := make(chan struct{}), make(chan struct{})
		s := &server{Provider: providertest.New(), bubble: true}
		s.serve(t, func(s *server) {
			s.front.Stopping = stopping
			s.source(t, "hung", hung)
		}, skill("slow", nil))
		end := s.Accept("slow")
		task := s.task(t, "acme_slow", "ada")
		var mu sync.Mutex
		var sent strings.Builder
		s.wrote = func(part []byte) {
			mu.Lock()
			defer mu.Unlock()
			sent.Write(part)
		}
		count := func(what string) int {
			mu.Lock()
			defer mu.Unlock()
			return strings.Count(sent.String(), what)
		}
		go func() {
			defer close(done)
			s.listen(t, object{"taskIds": []any{task}, "toolsListChanged": true}, asTaker, "yes", "User", "ada")
		}()
		time.Sleep(46 * time.Second)
		synctest.Wait()
		if n := count(": \n\n"); n != 3 {
			t.Errorf("%d comments in 46 seconds", n)
		}
		end(object{"a": 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if count("notifications/tasks") != 1 {
			t.Errorf("the end of the task is not sent: %s", sent.String())
		}
		close(stopping)
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("a stop does not end the subscription")
		}
	})
}
