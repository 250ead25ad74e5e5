package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// trouble is for how long a run's status or result may fail before the run is given up,
// and troubled is how many requests there are within it, or one more: some of what they
// wait for is random.
const (
	trouble  = 30 * time.Second
	troubled = 11
)

// following is a bridge to one provider, one of whose skills is invoked
// asynchronously. Connections are not kept: on one that was, package net/http
// repeats a GET by itself, which may be, but makes it hard to count.
func following(t *testing.T, lines ...string) (*hostile.Provider, *testbed.Caddy) {
	t.Helper()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow", Edit: consent(5, 1)})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	return p, testbed.StartCaddy(t, withProvider(p, append(lines, withoutKeepAlive)...))
}

// R9: a status URL may fail for a while, in whatever way. The run is asked for
// again, each time later, and is not started again.
func TestR09StatusFails(t *testing.T) {
	testbed.CheckLeaks(t)
	tests := map[string][]hostile.Action{
		"three errors":      {hostile.Respond(500, ""), hostile.Respond(502, ""), hostile.Respond(503, "")},
		"as many as it may": {hostile.Respond(500, ""), hostile.Respond(502, ""), hostile.Respond(503, ""), hostile.Respond(504, ""), hostile.Respond(429, "")},
		"timeouts":          {hostile.Respond(408, ""), hostile.Respond(504, "")},
		"with a body":       {hostile.Problem(500, "INTERNAL", "Sorry."), hostile.Problem(503, "ENDPOINT_UNREACHABLE", "Sorry.")},
		"connections":       {hostile.Reset(), hostile.Close(), hostile.ResetMidBody()},
		"halves":            {hostile.Truncate(), hostile.TruncateChunked()},
		"not in a row": {
			hostile.Reset(), hostile.Reset(), hostile.State("running"),
			hostile.Respond(500, ""), hostile.Respond(500, ""), hostile.State("accepted"),
		},
		"not found once": {hostile.Respond(404, ""), hostile.State("running"), hostile.Respond(410, "")},
	}
	if !longtest.Runs(longtest.Long) {
		delete(tests, "as many as it may")
	}
	p, c := following(t, "circuit_breaker off")
	var calls sync.WaitGroup
	idOf := func(name string) string { return "acme/" + strings.ReplaceAll(name, " ", "-") }
	for name, actions := range tests { // all of them, before the index is read
		id := idOf(name)
		p.Publish(hostile.Skill{ID: id, Edit: consent(5, 1)})
		p.On(id, hostile.Invoke, hostile.Accept(0))
		p.On(id, hostile.Status, append(actions, hostile.Usual())...)
	}
	for name, actions := range tests {
		calls.Go(func() {
			id := idOf(name)
			a := c.Execute(strings.ReplaceAll(id, "/", "."), nil)
			want{outcome: "completed"}.check(t, a)
			checkOnce(t, p, a)
			requests := p.Requests(id, hostile.Status)
			if len(requests) != len(actions)+1 {
				t.Errorf("%s: %d polls, not %d", name, len(requests), len(actions)+1)
				return
			}
			before, least := p.Requests(id, hostile.Invoke)[0].At, 9*time.Millisecond // a tenth is random
			for i, r := range requests {
				if gap := r.At.Sub(before); gap < least {
					t.Errorf("%s: poll %d came after %s, not %s", name, i+1, gap, least)
				}
				before, least = r.At, 9*time.Millisecond
				if r.Status() != http.StatusOK { // 0: there was none
					least = 450 * time.Millisecond
				}
			}
		})
	}
	calls.Wait()
}

// R9, R15: a status or result URL that fails for ever ends the call with the run's id, so
// that it can be followed again.
func TestR09KeepsFailing(t *testing.T) {
	longtest.Need(t, longtest.Long)
	t.Parallel()
	p := hostile.NewProvider(t)
	patient := testbed.StartProcess(t, testbed.Limits{}, withProvider(p, "circuit_breaker off", withoutKeepAlive)).With(testbed.Timeout(4 * trouble))
	var calls sync.WaitGroup
	tests := map[string]struct {
		part          hostile.Part
		action        hostile.Action
		outcome, next string
	}{
		"500":            {hostile.Status, hostile.Respond(500, ""), "INVALID_PROVIDER_RESPONSE", "follow_run"},
		"503":            {hostile.Status, hostile.Respond(503, ""), "ENDPOINT_UNREACHABLE", "follow_run"},
		"429":            {hostile.Status, hostile.Respond(429, ""), "RATE_LIMITED", "follow_run"},
		"reset":          {hostile.Status, hostile.Reset(), "ENDPOINT_UNREACHABLE", "follow_run"},
		"truncated":      {hostile.Status, hostile.Truncate(), "ENDPOINT_UNREACHABLE", "follow_run"},
		"result-500":     {hostile.Result, hostile.Respond(500, ""), "INVALID_PROVIDER_RESPONSE", "follow_run"},
		"result-reset":   {hostile.Result, hostile.Reset(), "ENDPOINT_UNREACHABLE", "follow_run"},
		"404":            {hostile.Status, hostile.Respond(404, ""), "INVALID_PROVIDER_RESPONSE", "none"},
		"result-404":     {hostile.Result, hostile.Respond(404, ""), "INVALID_PROVIDER_RESPONSE", "none"},
		"result-410":     {hostile.Result, hostile.Respond(410, ""), "INVALID_PROVIDER_RESPONSE", "none"},
		"result-running": {hostile.Result, hostile.State("running"), "INVALID_PROVIDER_RESPONSE", "none"},
	}
	for name, test := range tests { // all of them, before the index is read
		id, accept := "acme/"+name, hostile.Accept(0)
		if test.part == hostile.Result {
			accept = hostile.AcceptForResult(0)
		}
		p.Publish(hostile.Skill{ID: id})
		p.On(id, hostile.Invoke, accept)
		p.On(id, test.part, test.action)
	}
	for name, test := range tests {
		calls.Go(func() {
			id, phase := "acme/"+name, "poll"
			if test.part == hostile.Result {
				phase = "result"
			}
			a := patient.Execute("acme."+name, nil)
			want{test.outcome, phase, "yes", test.next, ""}.check(t, a)
			checkOnce(t, p, a)
			if accepted := p.Accepted(a.Call); len(accepted) != 1 || a.Data.ExecutionID != accepted[0] {
				t.Errorf("%s: the run is not named: %s", name, a)
			}
			if n := p.Count(id, test.part); n < troubled || n > troubled+1 || a.Took < trouble {
				t.Errorf("%s: %d requests within %s, not %d within %s", name, n, a.Took, troubled, trouble)
			}
		})
	}
	calls.Wait()
}

// R9: a provider that restarts while its runs go on.
func TestR09ProviderRestarts(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme"))) // which polls as it does by default
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1))
	answer := calling(c.Client, "acme.slow", nil)
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/slow", hostile.Status) > 0 }, "the run is asked for")
	p.Down()
	p.Disconnect()
	testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines(`"phase":"poll"`, "connection refused")) > 0 }, "a poll fails")
	p.Up()
	a := receive(t, answer)
	want{outcome: "completed"}.check(t, a)
	checkOnce(t, p, a)
}

// R10: a provider is not asked again before it wants to be, however it says so.
func TestR10RetryAfter(t *testing.T) {
	testbed.CheckLeaks(t)
	const delay = time.Second
	running := func(x *hostile.Exchange) {
		x.Writer.Header().Set("Retry-After", "1")
		hostile.State("running")(x)
	}
	tests := map[string]struct {
		invoke hostile.Action
		status []hostile.Action
	}{
		"seconds":  {hostile.Accept(0), []hostile.Action{hostile.Respond(429, "", "Retry-After", "1")}},
		"date":     {hostile.Accept(0), []hostile.Action{inThreeSeconds}},
		"in body":  {hostile.Accept(0), []hostile.Action{hostile.Respond(429, `{"error":{"code":"RATE_LIMITED","message":"Later.","retry":{"suggested_delay_ms":1000,"max_attempts":3}}}`)}},
		"503":      {hostile.Accept(0), []hostile.Action{hostile.Respond(503, "", "Retry-After", "1")}},
		"running":  {hostile.Accept(0), []hostile.Action{running}},
		"accepted": {accepted, nil},
	}
	if !longtest.Runs(longtest.Long) {
		delete(tests, "date") // is in whole seconds
	}
	p := hostile.NewProvider(t)
	for name, test := range tests {
		p.Publish(hostile.Skill{ID: "acme/" + name})
		p.On("acme/"+name, hostile.Invoke, test.invoke)
		p.On("acme/"+name, hostile.Status, append(test.status, hostile.Usual())...)
	}
	c := testbed.StartCaddy(t, withProvider(p))
	var calls sync.WaitGroup
	for name, test := range tests {
		calls.Go(func() {
			a := c.Execute("acme."+name, nil)
			want{outcome: "completed"}.check(t, a)
			checkOnce(t, p, a)
			requests := append(p.Requests("acme/"+name, hostile.Invoke), p.Requests("acme/"+name, hostile.Status)...)
			if len(requests) != len(test.status)+2 {
				t.Errorf("%s: %d requests, not %d", name, len(requests), len(test.status)+2)
				return
			}
			last := len(requests) - 1
			if gap := requests[last].At.Sub(requests[last-1].At); gap < delay || gap > patience {
				t.Errorf("%s: asked again after %s", name, gap)
			}
		})
	}
	calls.Wait()
}

// accepted accepts a run whose state is not to be asked for at once.
func accepted(x *hostile.Exchange) {
	x.Writer.Header().Set("Retry-After", "1")
	hostile.Accept(0)(x)
}

// inThreeSeconds is an answer with a date, which has no fractions of a second.
func inThreeSeconds(x *hostile.Exchange) {
	hostile.Respond(429, "", "Retry-After", time.Now().Add(3*time.Second).UTC().Format(http.TimeFormat))(x)
}

// R10: who asks for more patience than there is time is not asked again.
func TestR10RetryAfterTheDeadline(t *testing.T) {
	testbed.CheckLeaks(t)
	p, c := following(t)
	p.On("acme/slow", hostile.Status, hostile.Respond(429, "", "Retry-After", "3600"))
	c.Call("describe_skill", hostile.Object{"name": "acme.slow"}) // so that its documents take no time
	a := c.With(testbed.Timeout(500*time.Millisecond)).Execute("acme.slow", nil)
	want{outcome: "failed INVOCATION_TIMEOUT", executed: "yes", next: "follow_run", source: "bridge"}.check(t, a)
	if n := p.Count("acme/slow", hostile.Status); n != 1 {
		t.Errorf("%d polls", n)
	}
}

// R11: three of ten answers to polls break off. All runs are followed to their
// ends, with at most 1.6 times as many polls as without that.
func TestR11StatusBreaksOff(t *testing.T) {
	testbed.CheckLeaks(t)
	const runs, polls = 40, 5
	p, c := following(t, "circuit_breaker off")
	p.On("acme/slow", hostile.Invoke, hostile.Accept(polls-1))
	var mu sync.Mutex
	asked := map[string]int{} // by run
	p.On("acme/slow", hostile.Status, func(x *hostile.Exchange) {
		mu.Lock()
		asked[x.Request.Execution]++
		n := asked[x.Request.Execution]
		mu.Unlock()
		if n%3 == 2 {
			hostile.ResetMidBody()(x)
			return
		}
		hostile.Usual()(x)
	})
	r := testbed.Load{Workers: runs, Calls: runs, Do: func(int, int) testbed.Answer { return c.Execute("acme.slow", nil) }}.Run(t)
	r.Only(t, "completed")
	checkDuplicates(t, p)
	if n := p.Count("acme/slow", hostile.Status); n*10 > runs*polls*16 {
		t.Errorf("%d polls for %d runs, of which each needs %d", n, runs, polls)
	}
}

// R12: a run that never ends is given up at the deadline, with its id and with no
// more polls than the schedule has until then.
func TestR12RunsForEver(t *testing.T) {
	testbed.CheckLeaks(t)
	const timeout = time.Second
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, hostile.State("running"))
	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "\tnamespace acme", "}", "poll_interval 50ms 200ms"))
	c.Call("describe_skill", hostile.Object{"name": "acme.slow"}) // so that its documents take no time
	a := c.With(testbed.Timeout(timeout)).Execute("acme.slow", nil)
	want{outcome: "failed INVOCATION_TIMEOUT", executed: "yes", next: "follow_run", source: "bridge"}.check(t, a)
	checkOnce(t, p, a)
	run := p.Accepted(a.Call)[0]
	details := fmt.Sprintf(`{"timeout_ms":1000,"execution_id":%q}`, run)
	if r := a.Run(); r.RunID != run || string(r.Error.Details) != details {
		t.Errorf("the run is not named: %s", a)
	}
	if a.Took < timeout || a.Took > patience {
		t.Errorf("answered after %s", a.Took)
	}
	// 45 + 67 + 101 + 152 + 180 + … ms, where a tenth of each is random.
	most := 1
	for at, delay := time.Duration(0), 45*time.Millisecond; at+delay < timeout; most++ {
		at += delay
		delay = min(delay*3/2, 180*time.Millisecond)
	}
	n := p.Count("acme/slow", hostile.Status)
	if n < 1 || n > most {
		t.Errorf("%d polls, where there is time for %d", n, most)
	}
}

// R13: a run that was accepted and is not found, or gone, may only just not be known everywhere yet. It is asked for as long as after any
// other failure (TestR09KeepsFailing), and is lost after two such answers that are at least 2 s apart once it was seen. Any other refusal ends
// the call.
func TestR13StatusNotFound(t *testing.T) {
	testbed.CheckLeaks(t)
	running, no := hostile.State("running"), `{"error":{"code":"SKILL_NOT_FOUND","message":"What run?"}}`
	late := 1
	if longtest.Runs(longtest.Long) {
		late = 4
	}
	tests := map[string]struct {
		status  []hostile.Action
		outcome string
		next    string
		polls   int
	}{
		"late":          {repeated(hostile.Respond(404, ""), late, hostile.Respond(404, no), hostile.Usual()), "completed", "", late + 2},
		"404":           {[]hostile.Action{running, hostile.Respond(404, "")}, "INVALID_PROVIDER_RESPONSE", "none", 6},
		"410":           {[]hostile.Action{running, hostile.Respond(410, "")}, "INVALID_PROVIDER_RESPONSE", "none", 6},
		"404-and-words": {[]hostile.Action{running, hostile.Respond(404, no)}, "INVALID_PROVIDER_RESPONSE", "none", 6},
		"422":           {[]hostile.Action{hostile.Respond(422, "")}, "INVALID_PROVIDER_RESPONSE", "follow_run", 1},
		"400":           {[]hostile.Action{hostile.Respond(400, `{"bad":"request"}`)}, "INVALID_PROVIDER_RESPONSE", "follow_run", 1},
		"401":           {[]hostile.Action{hostile.Respond(401, "")}, "AUTH_REQUIRED", "follow_run", 1},
		"403":           {[]hostile.Action{hostile.Respond(403, "")}, "PERMISSION_DENIED", "follow_run", 1},
	}
	p, c := following(t, "circuit_breaker off")
	for name, test := range tests {
		p.Publish(hostile.Skill{ID: "acme/" + name})
		p.On("acme/"+name, hostile.Invoke, hostile.Accept(0))
		p.On("acme/"+name, hostile.Status, test.status...)
	}
	var calls sync.WaitGroup
	for name, test := range tests {
		calls.Go(func() {
			a := c.Execute("acme."+name, nil)
			checkOnce(t, p, a)
			if n := p.Count("acme/"+name, hostile.Status); n != test.polls && n != test.polls-1 {
				t.Errorf("%s: %d polls, not %d", name, n, test.polls)
			}
			if test.outcome == "completed" {
				want{outcome: "completed"}.check(t, a)
				return
			}
			want{test.outcome, "poll", "yes", test.next, "provider"}.check(t, a)
			if a.Data.ExecutionID != p.Accepted(a.Call)[0] || a.Data.HTTPStatus == 0 {
				t.Errorf("%s: the run or the status is not named: %s", name, a)
			}
		})
	}
	calls.Wait()
}

// repeated is n times an action, and then others.
func repeated(a hostile.Action, n int, then ...hostile.Action) []hostile.Action {
	return append(slices.Repeat([]hostile.Action{a}, n), then...)
}

// R14: the first final state counts; states go back and forth before it as they
// like. A state that nobody knows, and an answer about another run, are
// INVALID_PROVIDER_RESPONSE at once.
func TestR14Flapping(t *testing.T) {
	testbed.CheckLeaks(t)
	done := hostile.Complete("first")
	again := hostile.Complete("second")
	for name, test := range map[string]struct {
		invoke  hostile.Action
		status  []hostile.Action
		outcome string
		polls   int
	}{
		"back and forth":      {hostile.Accept(0), []hostile.Action{hostile.State("running"), hostile.State("accepted"), hostile.State("running"), done, hostile.State("running"), again}, "completed", 4},
		"completed, failed":   {hostile.Accept(0), []hostile.Action{done, hostile.Fail("X", "No.")}, "completed", 1},
		"failed, completed":   {hostile.Accept(0), []hostile.Action{hostile.Fail("OUT_OF_PAPER", "No."), done}, "failed OUT_OF_PAPER", 1},
		"timeout, completed":  {hostile.Accept(0), []hostile.Action{hostile.State("timeout"), done}, "failed INVOCATION_TIMEOUT", 1},
		"completed at once":   {done, []hostile.Action{hostile.Fail("X", "No.")}, "completed", 0},
		"failed at once":      {hostile.Fail("OUT_OF_PAPER", "No."), []hostile.Action{done}, "failed OUT_OF_PAPER", 0},
		"running at once":     {running0, []hostile.Action{done}, "completed", 1},
		"unknown state":       {hostile.Accept(0), []hostile.Action{hostile.State("sleeping"), done}, "INVALID_PROVIDER_RESPONSE", 1},
		"unknown at once":     {hostile.State("sleeping"), []hostile.Action{done}, "INVALID_PROVIDER_RESPONSE", 0},
		"another run":         {hostile.Accept(0), []hostile.Action{hostile.CompleteAs("run-999"), done}, "INVALID_PROVIDER_RESPONSE", 1},
		"another run running": {hostile.Accept(0), []hostile.Action{hostile.Handle(otherRun), done}, "INVALID_PROVIDER_RESPONSE", 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, c := following(t)
			p.On("acme/slow", hostile.Invoke, test.invoke)
			p.On("acme/slow", hostile.Status, test.status...)
			a := c.Execute("acme.slow", nil)
			want{outcome: test.outcome}.check(t, a)
			checkOnce(t, p, a)
			if output := string(a.Run().Output); test.outcome == "completed" && output != `"first"` {
				t.Errorf("another answer: %s", output)
			}
			if n := p.Count("acme/slow", hostile.Status); n != test.polls {
				t.Errorf("%d polls, not %d", n, test.polls)
			}
			if test.outcome == "INVALID_PROVIDER_RESPONSE" && test.polls > 0 {
				want{phase: "poll", executed: "yes", next: "follow_run", source: "bridge"}.check(t, a)
				if a.Data.ExecutionID != p.Accepted(a.Call)[0] {
					t.Errorf("the run is not named: %s", a)
				}
			}
		})
	}
}

// running0 answers an invocation with a run that is under way.
func running0(x *hostile.Exchange) { x.JSON(http.StatusOK, x.Body("running", nil)) }

// otherRun is the state of a run that nobody asked for.
func otherRun(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"execution_id":"run-999","status":"running"}`)
}

// R15: a result is asked for like a status; one that can't be had is an error that
// names the run. Nothing of that starts the run again.
func TestR15Result(t *testing.T) {
	testbed.CheckLeaks(t)
	atOnce := hostile.State("completed") // in the first answer, without its output
	missing := 1
	if longtest.Runs(longtest.Long) {
		missing = 3
	}
	tests := map[string]struct {
		invoke  hostile.Action
		result  []hostile.Action
		outcome string
		next    string
		results int
	}{
		"fails-twice":        {hostile.AcceptForResult(1), []hostile.Action{hostile.Respond(500, ""), hostile.Reset(), hostile.Usual()}, "completed", "", 3},
		"fails-at-once":      {atOnce, []hostile.Action{hostile.Respond(503, ""), hostile.Truncate(), hostile.Complete("result")}, "completed", "", 3},
		"bare":               {hostile.AcceptForResult(0), []hostile.Action{hostile.Respond(200, `{"output":"result"}`)}, "completed", "", 1},
		"not-found-yet":      {hostile.AcceptForResult(0), repeated(hostile.Respond(404, ""), missing, hostile.Respond(410, ""), hostile.Usual()), "completed", "", missing + 2},
		"not-found-at-once":  {atOnce, repeated(hostile.Respond(404, ""), missing, hostile.Complete("result")), "completed", "", missing + 1},
		"running-then-there": {hostile.AcceptForResult(0), []hostile.Action{hostile.State("running"), hostile.State("running"), hostile.Usual()}, "completed", "", 3},
		"of-another-run":     {hostile.AcceptForResult(0), []hostile.Action{hostile.CompleteAs("run-999")}, "INVALID_PROVIDER_RESPONSE", "follow_run", 1},
		"no-JSON":            {hostile.AcceptForResult(0), []hostile.Action{hostile.Respond(200, "done")}, "INVALID_PROVIDER_RESPONSE", "follow_run", 1},
		"failed":             {hostile.AcceptForResult(0), []hostile.Action{hostile.Fail("OUT_OF_PAPER", "No.")}, "failed OUT_OF_PAPER", "none", 1},
	}
	p, c := following(t, "circuit_breaker off")
	for name, test := range tests {
		p.Publish(hostile.Skill{ID: "acme/" + name})
		p.On("acme/"+name, hostile.Invoke, test.invoke)
		p.On("acme/"+name, hostile.Result, test.result...)
	}
	var calls sync.WaitGroup
	for name, test := range tests {
		calls.Go(func() {
			a := c.Execute("acme."+name, nil)
			w := want{outcome: test.outcome, next: test.next}
			if a.Data.Code != "" {
				w.phase, w.executed = "result", "yes"
				if a.Data.ExecutionID == "" {
					t.Errorf("%s: the run is not named: %s", name, a)
				}
			}
			w.check(t, a)
			checkOnce(t, p, a)
			if n := p.Count("acme/"+name, hostile.Result); n != test.results {
				t.Errorf("%s: %d requests for the result, not %d", name, n, test.results)
			}
			if output := string(a.Run().Output); test.outcome == "completed" && (output == "" || output == "null") {
				t.Errorf("%s: no output: %s", name, a)
			}
		})
	}
	calls.Wait()
}
