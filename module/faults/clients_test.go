package faults_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R20: a client that goes ends what is done for it, at whatever point: the
// requests to the provider are cancelled, and what it asked for is not begun any
// more. A run that was accepted goes on at its provider, since the protocol has no
// way to end it: the log names it.
func TestR20ClientGoes(t *testing.T) {
	testbed.CheckLeaks(t)
	type hold func(p *hostile.Provider, gate *hostile.Gate) (held func() bool)
	waiting := func(gate *hostile.Gate) func() bool { return func() bool { return gate.Waiting() > 0 } }
	for name, test := range map[string]struct {
		hold     hold
		phase    string
		executed string
		posts    int
	}{
		"while the descriptor is read": {func(p *hostile.Provider, gate *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Descriptor, gate.Then(hostile.Usual()))
			return waiting(gate)
		}, "descriptor", "no", 0},
		"while it is invoked": {func(p *hostile.Provider, gate *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Invoke, gate.Then(hostile.Usual()))
			return waiting(gate)
		}, "invoke", "maybe", 1},
		"in the middle of the answer": {func(p *hostile.Provider, _ *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Invoke, hostile.HangMidBody())
			return func() bool { return p.Hanging() > 0 }
		}, "invoke", "maybe", 1},
		"before a second attempt": {func(p *hostile.Provider, _ *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Invoke, hostile.Respond(429, "", "Retry-After", "20"))
			return func() bool { return p.Count("acme/slow", hostile.Invoke) > 0 }
		}, "invoke", "", 1},
		"between polls": {func(p *hostile.Provider, _ *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Status, hostile.State("running"))
			return func() bool { return p.Count("acme/slow", hostile.Status) > 1 }
		}, "poll", "yes", 1},
		"during a poll": {func(p *hostile.Provider, gate *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
			return waiting(gate)
		}, "poll", "yes", 1},
		"during the result": {func(p *hostile.Provider, gate *hostile.Gate) func() bool {
			p.On("acme/slow", hostile.Invoke, hostile.AcceptForResult(0))
			p.On("acme/slow", hostile.Result, gate.Then(hostile.Usual()))
			return waiting(gate)
		}, "result", "yes", 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow", Edit: consent(5, 1)})
			p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
			gate := hostile.NewGate(t)
			held := test.hold(p, gate)
			c := testbed.StartCaddy(t, withProvider(p))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			client, line := traced(t, c.With(testbed.Context(ctx)), c.Log)
			call := testbed.NewCall()
			answer := calling(client, "acme.slow", hostile.Object{"call": call})
			testbed.Eventually(t, patience, held, "the call has come to where it is to be left")
			leave()
			want{outcome: "gone"}.check(t, receive(t, answer))
			l := line()
			if l.Message != "call failed" || l.Phase != test.phase || test.executed != "" && l.Executed != test.executed {
				t.Errorf("the log says %+v", l)
			}
			if runs := p.Accepted(call); len(runs) > 0 && l.ExecutionID != runs[0] {
				t.Errorf("the log does not name the run %s: %+v", runs[0], l)
			}
			if test.phase != "descriptor" { // a document is read to its end, for whoever needs it next
				testbed.Eventually(t, patience, func() bool { return gate.Waiting()+p.Hanging() == 0 }, "the request is cancelled")
			}
			polls := p.Count("acme/slow", hostile.Status)
			gate.Open()
			p.On("acme/slow", hostile.Invoke)
			want{outcome: "completed"}.check(t, c.Execute("acme.slow", nil))
			if n := p.Posts(call); n != test.posts {
				t.Errorf("%d invocations, not %d", n, test.posts)
			}
			if n := p.Count("acme/slow", hostile.Status); n != polls {
				t.Errorf("%d further polls", n-polls)
			}
		})
	}
}

// R20: many clients that go, again and again: nothing is left of them. There are
// 10,000 of them if there is time.
func TestR20ClientsGoAndGo(t *testing.T) {
	testbed.CheckLeaks(t)
	const workers = 10
	repeats := 500
	if longtest.Runs(longtest.Minutes) {
		repeats = 10_000
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/hanging"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p))
	p.Lean()
	c.Log.Lean()
	var reached sync.Map // from a call to what is closed when its invocation has arrived
	arrive := func(then hostile.Action) hostile.Action {
		return func(x *hostile.Exchange) {
			if arrived, ok := reached.LoadAndDelete(x.Request.Call); ok {
				defer close(arrived.(chan struct{}))
			}
			then(x)
		}
	}
	p.On("acme/slow", hostile.Invoke, arrive(hostile.Accept(1_000_000)))
	p.On("acme/hanging", hostile.Invoke, func(x *hostile.Exchange) {
		arrive(func(*hostile.Exchange) {})(x)
		hostile.Hang()(x)
	})
	leave := func(skill string) testbed.Answer {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		call, arrived := testbed.NewCall(), make(chan struct{})
		reached.Store(call, arrived)
		if skill != "acme.echo" { // which is left as soon as it is called
			go func() {
				defer cancel()
				<-arrived
			}()
		} else {
			go cancel()
		}
		return c.With(testbed.Context(ctx)).Execute(skill, hostile.Object{"call": call})
	}
	skills := []string{"acme.slow", "acme.hanging", "acme.echo"}
	load := testbed.Load{Workers: workers, Calls: 3 * workers, Do: func(_, call int) testbed.Answer { return leave(skills[call%len(skills)]) }}
	load.Run(t)
	base := runtime.NumGoroutine()
	load.Calls = repeats
	load.Run(t).Only(t, "gone", "completed")
	testbed.Eventually(t, patience, func() bool { return p.Hanging() == 0 }, "all requests are cancelled")
	// Connections that are kept have goroutines, too, at both ends.
	testbed.Eventually(t, patience, func() bool { return runtime.NumGoroutine() < base+15*workers }, "no goroutines are left over")
	polls := p.Count("acme/slow", hostile.Status)
	for range 20 {
		want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	}
	if n := p.Count("acme/slow", hostile.Status); n != polls {
		t.Errorf("%d polls of runs that nobody waits for", n-polls)
	}
}

// crowd makes many calls of one skill, each from a client with a connection of its
// own, and returns when they are all pending. Leave ends them at once and returns
// when the clients have noticed.
func crowd(t *testing.T, url, skill string, clients, callsEach int, pending func() bool) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range clients {
		client := testbed.NewClient(t, url).With(testbed.Context(ctx))
		for range callsEach {
			calls.Go(func() { client.Execute(skill, nil) })
		}
	}
	testbed.Eventually(t, 5*time.Minute, pending, "all calls are pending")
	return func() {
		cancel()
		calls.Wait()
	}
}

// R21: clients that all go at once, while their calls hang, or wait between polls.
func TestR21AllClientsGo(t *testing.T) {
	testbed.CheckLeaks(t)
	const clients, callsEach = 50, 4
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/hanging"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {", "\tnamespace acme", "}", "poll_interval 10m 10m", "timeout 10m"))
	p.On("acme/hanging", hostile.Invoke, hostile.Hang())
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	base := runtime.NumGoroutine()
	for wave := range 3 {
		gone := len(c.Log.Lines("call failed"))
		leaveHanging := crowd(t, c.URL, "acme.hanging", clients, callsEach, func() bool { return p.Hanging() == clients*callsEach })
		leaveSlow := crowd(t, c.URL, "acme.slow", clients, callsEach, func() bool { return p.Runs() == (wave+1)*clients*callsEach })
		want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
		leaveHanging()
		leaveSlow()
		testbed.Eventually(t, patience, func() bool { return p.Hanging() == 0 }, "all requests are cancelled")
		testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines("call failed")) == gone+2*clients*callsEach }, "all calls end")
		want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	}
	p.Disconnect() // what is kept for the next calls
	testbed.Eventually(t, patience, func() bool { return runtime.NumGoroutine() < base+clients }, "no goroutines are left over")
}

// R41: a batch is answered when its last call is, but its calls do not wait for
// one that is slow. One that fails spoils none, and notifications are not answered.
func TestR41Batch(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/broken"})
	c := testbed.StartCaddy(t, withProvider(p))
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, gate.Then(hostile.Usual()))
	p.On("acme/broken", hostile.Invoke, hostile.Reset())
	element := func(id, skill string) string {
		return `{"jsonrpc":"2.0",` + id + `"method":"execute_skill","params":{"name":"` + skill + `","args":{"call":"` + testbed.NewCall() + `"}}}`
	}
	elements := []string{element(`"id":"slow",`, "acme.slow"), element(`"id":"broken",`, "acme.broken")}
	for i := range 38 {
		elements = append(elements, element(fmt.Sprintf(`"id":%d,`, i), "acme.echo"))
	}
	for range 8 {
		elements = append(elements, element("", "acme.echo"))
	}
	elements = append(elements, `{"jsonrpc":"2.0","id":"invalid"}`, element(`"id":"unknown",`, "acme.nothing"))
	answer := begin(func() testbed.Answer { return c.Post("[" + strings.Join(elements, ",") + "]") })

	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 && p.Count("acme/echo", hostile.Invoke) == 38+8 }, "the others do not wait")
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	select {
	case a := <-answer:
		t.Fatalf("answered before the last call was: %s", a)
	default:
	}
	gate.Open()
	answers := batchOf(t, receive(t, answer))
	if len(answers) != len(elements)-8 {
		t.Errorf("%d answers, not %d", len(answers), len(elements)-8)
	}
	for id, outcome := range map[string]string{
		`"slow"`: "completed", `"broken"`: "ENDPOINT_UNREACHABLE", `"invalid"`: "-32600", `"unknown"`: "SKILL_NOT_FOUND", "0": "completed", "37": "completed",
	} {
		if answers[id] != outcome {
			t.Errorf("%s: %q, not %q", id, answers[id], outcome)
		}
	}
	checkDuplicates(t, p)
}

// batchOf decodes the answer of a batch: the outcomes of its calls by their ids.
func batchOf(t *testing.T, a testbed.Answer) map[string]string {
	t.Helper()
	var list []struct {
		ID     jsontext.Value `json:"id"`
		Result *struct {
			Status string `json:"status"`
		} `json:"result"`
		Error struct {
			Code int `json:"code"`
			Data struct {
				Code string `json:"code"`
			} `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != 200 {
		t.Fatalf("%v: %s", err, a)
	}
	outcomes := make(map[string]string, len(list))
	for _, element := range list {
		outcome := element.Error.Data.Code
		switch {
		case element.Result != nil:
			outcome = element.Result.Status
		case outcome == "":
			outcome = fmt.Sprint(element.Error.Code)
		}
		if _, twice := outcomes[string(element.ID)]; twice {
			t.Errorf("%s is answered twice", element.ID)
		}
		outcomes[string(element.ID)] = outcome
	}
	return outcomes
}

// R41: a batch has no more calls than it may, and the limits of calls in progress
// hold within it. The bridge has
// no limits by tenant: they are for all callers, and for each provider.
func TestR41BatchLimits(t *testing.T) {
	testbed.CheckLeaks(t)
	t.Run("size", func(t *testing.T) {
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
		c := testbed.StartCaddy(t, withProvider(p))
		if a := c.Post(testbed.Batch(51, "acme.slow")); a.Code != -32600 {
			t.Errorf("a batch of 51: %s", a)
		}
		if n := p.Count("acme/slow", hostile.Invoke); n != 0 {
			t.Errorf("%d invocations", n)
		}
		if n := len(batchOf(t, c.Post(testbed.Batch(50, "acme.slow")))); n != 50 {
			t.Errorf("%d answers", n)
		}
	})

	t.Run("in progress", func(t *testing.T) {
		const runs = 4
		p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"})
		c := testbed.StartCaddy(t, withProvider(p, "limits {", fmt.Sprintf("\truns %d", runs), "}"))
		gate := hostile.NewGate(t)
		p.On("acme/slow", hostile.Invoke, gate.Then(hostile.Usual()))
		answer := begin(func() testbed.Answer { return c.Post(testbed.Batch(50, "acme.slow")) })
		// Each provider may have half of the places. The other calls find none, and are answered while these wait.
		testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines("call failed", "RATE_LIMITED")) == 50-runs/2 }, "the others are turned away")
		gate.Open()
		outcomes := map[string]int{}
		for _, outcome := range batchOf(t, receive(t, answer)) {
			outcomes[outcome]++
		}
		if outcomes["completed"] != runs/2 || outcomes["RATE_LIMITED"] != 50-runs/2 {
			t.Errorf("%v", outcomes)
		}
	})
}
