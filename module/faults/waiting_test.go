package faults_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// endless is how many polls a run takes that is not to end.
const endless = 1 << 30

// The members of a result, by how things are with the run.
var (
	runningMembers   = []string{"retry_after_ms", "run_id", "run_token", "status", "summary"}
	completedMembers = []string{"output", "run_id", "status", "summary"}
	failedMembers    = []string{"error", "run_id", "status", "summary"}
	lateMembers      = []string{"error", "run_id", "run_token", "status", "summary"}
)

// state is what an answer says of a run that goes on, and how to come back to it.
type state struct {
	RunID        string         `json:"run_id"`
	RunToken     string         `json:"run_token"`
	RetryAfterMS jsontext.Value `json:"retry_after_ms"`
}

func stateOf(raw jsontext.Value) state {
	var s state
	_ = json.Unmarshal(raw, &s) // what is missing is seen
	return s
}

// runToken is that of an answer, wherever it stands.
func runToken(a testbed.Answer) string {
	return stateOf(a.Result).RunToken + stateOf(a.Data.Raw).RunToken
}

// checkMembers fails the test if a result has others than these.
func checkMembers(t *testing.T, result jsontext.Value, names []string) {
	t.Helper()
	var members map[string]jsontext.Value
	if err := json.Unmarshal(result, &members); err != nil {
		t.Errorf("%s: %v", result, err)
	}
	if got := slices.Sorted(maps.Keys(members)); !slices.Equal(got, names) {
		t.Errorf("the members are %q, not %q: %s", got, names, result)
	}
}

// checkRunning fails the test unless an answer says that a run goes on, and how to
// come back to it, and nothing else.
func checkRunning(t *testing.T, a testbed.Answer, runID string, more ...string) {
	t.Helper()
	s := stateOf(a.Result)
	var delay int64
	if a.Outcome() != "running" || s.RunID != runID || s.RunToken == "" || json.Unmarshal(s.RetryAfterMS, &delay) != nil || delay < 1 {
		t.Errorf("want the run %s to go on: %s", runID, a)
		return
	}
	checkMembers(t, a.Result, slices.Sorted(slices.Values(append(more, runningMembers...))))
}

// wait sends wait_ms with each execute_skill.
func wait(ms any) testbed.Option { return testbed.Param("wait_ms", ms) }

// leave starts a run, does not wait for its end, and returns its token.
func leave(t *testing.T, c *testbed.Client, p *hostile.Provider, skill string) string {
	t.Helper()
	a := unpooled(c).With(wait(0)).Execute(skill, nil)
	runs := p.Accepted(a.Call)
	if len(runs) != 1 {
		t.Fatalf("the runs are %q: %s", runs, a)
	}
	checkRunning(t, a, runs[0])
	return runToken(a)
}

// getRun asks about a run. Params are names and values of further ones.
func getRun(c *testbed.Client, token string, params ...any) testbed.Answer {
	object := hostile.Object{"run_token": token}
	for i := 0; i < len(params); i += 2 {
		object[params[i].(string)] = params[i+1]
	}
	return unpooled(c).Call("get_run", object)
}

// lasting are skills of all sorts: acme/now completes at once, acme/soon and
// acme/fails after some polls, acme/slow never.
func lasting(t *testing.T) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/soon"}, hostile.Skill{ID: "acme/fails"}, hostile.Skill{ID: "acme/slow"})
	p.On("acme/soon", hostile.Invoke, hostile.Accept(2))
	p.On("acme/fails", hostile.Invoke, hostile.AcceptFailing(1))
	p.On("acme/slow", hostile.Invoke, hostile.Accept(endless))
	return p
}

// Who says how long he waits hears by then how the run is. Who does not say it waits
// for its end or for the timeout, as ever.
func TestExecuteSkillWaits(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	c := testbed.StartCaddy(t, withProvider(p, "timeout 1s"))
	patient := testbed.Timeout(patience)
	for _, skill := range []string{"slow", "soon", "fails", "now"} { // whose documents then take no time
		c.With(patient).Call("describe_skill", hostile.Object{"name": "acme." + skill})
	}
	for _, test := range []struct {
		name, skill string
		options     []testbed.Option
		outcome     string
		members     []string
		least       time.Duration
	}{
		{"as soon as it is accepted", "slow", []testbed.Option{wait(0), patient}, "running", runningMembers, 0},
		{"for a while", "slow", []testbed.Option{wait(500), patient}, "running", runningMembers, 500 * time.Millisecond},
		{"for a fraction", "slow", []testbed.Option{wait(0.5), patient}, "running", runningMembers, 0},
		{"longer than the own timeout", "slow", []testbed.Option{wait(60000), testbed.Timeout(800 * time.Millisecond)}, "running", runningMembers, 800 * time.Millisecond},
		{"longer than the default timeout", "slow", []testbed.Option{wait(1e300)}, "running", runningMembers, time.Second},
		{"long enough", "soon", []testbed.Option{wait(60000), patient}, "completed", completedMembers, 0},
		{"until it fails", "fails", []testbed.Option{wait(60000), patient}, "failed EXECUTION_FAILED", failedMembers, 0},
		{"for what takes no time", "now", []testbed.Option{wait(0), patient}, "completed", completedMembers, 0},

		{"not said", "slow", nil, "failed INVOCATION_TIMEOUT", lateMembers, time.Second},
		{"not said, own timeout", "slow", []testbed.Option{testbed.Timeout(800 * time.Millisecond)}, "failed INVOCATION_TIMEOUT", lateMembers, 800 * time.Millisecond},
		{"not said, and it ends", "soon", []testbed.Option{patient}, "completed", completedMembers, 0},
		{"not said, and it fails", "fails", []testbed.Option{patient}, "failed EXECUTION_FAILED", failedMembers, 0},
		{"not said, and it takes no time", "now", nil, "completed", completedMembers, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := c.With(test.options...).Execute("acme."+test.skill, nil)
			if a.Outcome() != test.outcome || a.Took < test.least {
				t.Fatalf("after %s: %s", a.Took, a)
			}
			checkMembers(t, a.Result, test.members)
			checkOnce(t, p, a)
			if test.skill == "now" {
				return
			}
			if run := p.Accepted(a.Call)[0]; a.Run().RunID != run {
				t.Errorf("the run %s is called %s", run, a.Run().RunID)
			}
			polls := 0 // of this run: those of others may still be on their way
			for _, r := range p.Requests("acme/"+test.skill, hostile.Status) {
				if r.Execution == a.Run().RunID {
					polls++
				}
			}
			if (polls > 0) != (test.least > 0 || test.skill != "slow") {
				t.Errorf("%d polls", polls)
			}
			if test.outcome == "running" {
				checkRunning(t, a, p.Accepted(a.Call)[0])
			}
		})
	}
	for _, value := range []any{-1, "100", true, hostile.Object{}} {
		a := c.With(wait(value)).Execute("acme.slow", nil)
		if a.Code != -32602 || a.Data.Param != "wait_ms" || a.Data.Executed != "no" || p.Posts(a.Call) != 0 {
			t.Errorf("wait_ms %v: %s", value, a)
		}
	}
	checkNoPanic(t, c.Log)
}

// get_run tells how a run is, and has no deadline of its own: that a run goes on is
// never a timeout.
func TestGetRun(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	p.On("acme/fails", hostile.Invoke, hostile.AcceptFailing(0))
	c := testbed.StartCaddy(t, withProvider(p, "timeout 200ms"))
	token := leave(t, c.Client, p, "acme.slow")
	for _, test := range []struct {
		name   string
		params []any
		least  time.Duration
		polls  int // exactly so many; 0: more
	}{
		{"no time", []any{"wait_ms", 0}, 0, 1},
		{"some time", []any{"wait_ms", 100}, 100 * time.Millisecond, 0},
		{"as long as the default timeout", nil, 200 * time.Millisecond, 0},
		{"a timeout, of which there is none", []any{"timeout_ms", 1}, 200 * time.Millisecond, 0},
		{"longer than the longest timeout", []any{"wait_ms", 60000}, 600 * time.Millisecond, 0},
	} {
		if test.least == 600*time.Millisecond {
			if err := c.Reload(withProvider(p, "timeout 200ms 600ms")); err != nil {
				t.Fatal(err)
			}
		}
		before := p.Count("acme/slow", hostile.Status)
		a := receive(t, begin(func() testbed.Answer { return getRun(c.Client, token, test.params...) }))
		if test.params != nil && test.params[0] == "timeout_ms" {
			checkRunning(t, a, "run-1", "ignored")
		} else {
			checkRunning(t, a, "run-1")
		}
		if a.Took < test.least {
			t.Errorf("%s: answered after %s", test.name, a.Took)
		}
		if n := p.Count("acme/slow", hostile.Status) - before; n == 0 || test.polls > 0 && n != test.polls {
			t.Errorf("%s: %d polls", test.name, n)
		}
		token = runToken(a) // each is as good as the first
	}
	for skill, test := range map[string]struct {
		outcome string
		members []string
	}{
		"soon":  {"completed", completedMembers},
		"fails": {"failed EXECUTION_FAILED", failedMembers},
	} {
		token := leave(t, c.Client, p, "acme."+skill)
		for range 2 { // also who has heard it may ask again
			a := getRun(c.Client, token, "wait_ms", 0)
			if a.Outcome() != test.outcome {
				t.Errorf("%s: %s", skill, a)
				continue
			}
			checkMembers(t, a.Result, test.members)
		}
	}
	// An end that comes while somebody waits is told at once, not when his time is up.
	gate := hostile.NewGate(t)
	p.On("acme/soon", hostile.Status, hostile.State("running"), gate.Then(hostile.Usual()))
	if err := c.Reload(withProvider(p)); err != nil {
		t.Fatal(err)
	}
	own := leave(t, c.Client, p, "acme.soon")
	answered := begin(func() testbed.Answer { return getRun(c.Client, own, "wait_ms", 10*patience.Milliseconds()) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is asked for")
	gate.Open()
	want{outcome: "completed"}.check(t, receive(t, answered))
	checkNoPanic(t, c.Log)
}

// Both methods in a batch, and as notifications: one of execute_skill starts a run
// that nobody comes back to, one of get_run does nothing.
func TestWaitingInBatches(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	c := testbed.StartCaddy(t, withProvider(p, "timeout 10s"))
	slow, soon := leave(t, c.Client, p, "acme.slow"), leave(t, c.Client, p, "acme.soon")
	a := c.Post(fmt.Sprintf(`[
		{"jsonrpc":"2.0","id":0,"method":"execute_skill","params":{"name":"acme.slow","wait_ms":0}},
		{"jsonrpc":"2.0","id":1,"method":"get_run","params":{"run_token":%q,"wait_ms":0}},
		{"jsonrpc":"2.0","id":2,"method":"get_run","params":{"run_token":%q}},
		{"jsonrpc":"2.0","id":3,"method":"get_run","params":{"run_token":"nonsense"}},
		{"jsonrpc":"2.0","method":"get_run","params":{"run_token":%q}},
		{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"acme.slow","args":{"call":"notified"},"wait_ms":0}},
		{"jsonrpc":"2.0","id":4,"method":"execute_skill","params":{"name":"acme.now","wait_ms":0}}
	]`, slow, soon, slow))
	var responses []struct {
		ID     int            `json:"id"`
		Result jsontext.Value `json:"result"`
		Error  struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(a.Body, &responses); err != nil || len(responses) != 5 {
		t.Fatalf("%d responses, %v: %s", len(responses), err, a.Body)
	}
	for _, r := range responses {
		switch r.ID {
		case 0, 1:
			checkMembers(t, r.Result, runningMembers)
		case 2, 4:
			checkMembers(t, r.Result, completedMembers)
		case 3:
			if r.Error.Code != -32602 {
				t.Errorf("nonsense for a token: %d", r.Error.Code)
			}
		}
	}
	testbed.Eventually(t, patience, func() bool { return len(p.Accepted("notified")) == 1 }, "the notification has started a run")

	polls, runs := p.Count("acme/slow", hostile.Status), p.Runs()
	for _, request := range []string{
		fmt.Sprintf(`{"jsonrpc":"2.0","method":"get_run","params":{"run_token":%q,"wait_ms":0}}`, slow),
		`{"jsonrpc":"2.0","method":"get_run","params":{"run_token":"nonsense"}}`,
		`{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"acme.slow","wait_ms":60000}}`,
		`{"jsonrpc":"2.0","method":"execute_skill","params":{"name":"acme.slow","wait_ms":-1}}`,
	} {
		if a := c.Post(request); a.Err != nil || len(a.Body) != 0 {
			t.Errorf("%s was answered: %s", request, a)
		}
	}
	testbed.Eventually(t, patience, func() bool { return p.Runs() == runs+1 }, "the notification has started a run")
	checkRunning(t, getRun(c.Client, slow, "wait_ms", 0), "run-1")
	if n := p.Count("acme/slow", hostile.Status) - polls; n != 1 || p.Runs() != runs+1 {
		t.Errorf("%d polls and %d runs, want the one that was asked for and one more", n, p.Runs()-runs)
	}
	checkDuplicates(t, p)
}

// storage is a global option.
func storage(folder string) string { return "storage file_system " + folder }

// Whatever keeps the bridge from telling a run's end, its answer carries a token with
// which another process, this one after other options were changed, and this one
// after a restart follow the run to its end. All that they share is the storage.
func TestUnfinishedRunsCanBeFollowed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status, result hostile.Action
		options        []testbed.Option
		outcome        string
	}{
		"left":        {nil, nil, []testbed.Option{wait(0)}, "running"},
		"late":        {hostile.State("running"), nil, []testbed.Option{testbed.Timeout(2 * time.Second)}, "failed INVOCATION_TIMEOUT"},
		"later":       {hostile.Respond(429, "", "Retry-After", "3600"), nil, []testbed.Option{testbed.Timeout(2 * time.Second)}, "failed INVOCATION_TIMEOUT"},
		"busy":        {hostile.Respond(429, ""), nil, nil, "RATE_LIMITED"},
		"broken":      {hostile.Respond(500, ""), nil, nil, "INVALID_PROVIDER_RESPONSE"},
		"unavailable": {hostile.Respond(503, ""), nil, nil, "ENDPOINT_UNREACHABLE"},
		"reset":       {hostile.Reset(), nil, nil, "ENDPOINT_UNREACHABLE"},
		"unknown":     {hostile.Respond(404, ""), nil, nil, "INVALID_PROVIDER_RESPONSE"},
		"denied":      {hostile.Respond(401, ""), nil, nil, "AUTH_REQUIRED"},
		"forbidden":   {hostile.Respond(403, ""), nil, nil, "PERMISSION_DENIED"},
		"redirected":  {hostile.Redirect(302, "https://example.com/"), nil, nil, "INVALID_PROVIDER_RESPONSE"},
		"no JSON":     {hostile.Respond(200, "<p>"), nil, nil, "INVALID_PROVIDER_RESPONSE"},
		"another run": {hostile.CompleteAs("run-of-another"), nil, nil, "INVALID_PROVIDER_RESPONSE"},
		"no result":   {nil, hostile.Respond(404, ""), nil, "INVALID_PROVIDER_RESPONSE"},
	}
	if !longtest.Runs(longtest.Long) {
		for _, lasts := range []string{"busy", "broken", "unavailable", "reset", "unknown", "no result"} { // which the bridge bears for half a minute
			delete(cases, lasts)
		}
	}
	p := hostile.NewProvider(t)
	for name, test := range cases {
		id := "acme/" + strings.ReplaceAll(name, " ", "-")
		p.Publish(hostile.Skill{ID: id})
		p.On(id, hostile.Invoke, hostile.Accept(0))
		if test.result != nil {
			p.On(id, hostile.Invoke, hostile.AcceptForResult(0))
			p.On(id, hostile.Result, test.result)
		}
		if test.status != nil {
			p.On(id, hostile.Status, test.status)
		}
	}
	folder := t.TempDir()
	config := func(lines ...string) string { return withProvider(p, append(lines, "circuit_breaker off")...) }
	one := testbed.StartProcess(t, testbed.Limits{}, config(), storage(folder))
	tokens := map[string]string{}
	patient := one.With(testbed.Timeout(4 * trouble))
	answered := map[string]<-chan testbed.Answer{}
	for name := range cases { // so that short deadlines are not over before the descriptor is read
		one.Call("describe_skill", hostile.Object{"name": "acme." + strings.ReplaceAll(name, " ", "-")})
	}
	for name, test := range cases {
		answered[name] = calling(patient.With(test.options...), "acme."+strings.ReplaceAll(name, " ", "-"), nil)
	}
	for name, test := range cases {
		a := <-answered[name]
		want{outcome: test.outcome}.check(t, a)
		checkOnce(t, p, a)
		if tokens[name] = runToken(a); tokens[name] == "" {
			t.Errorf("%s: there is no token: %s", name, a)
		}
	}
	for name := range cases {
		id := "acme/" + strings.ReplaceAll(name, " ", "-")
		p.On(id, hostile.Status)
		p.On(id, hostile.Result)
	}
	follow := func(who string, c *testbed.Client) {
		t.Helper()
		for name, token := range tokens {
			a := getRun(c, token, "wait_ms", 10000)
			if a.Outcome() != "completed" || runToken(a) != "" {
				t.Errorf("%s, %s: %s", who, name, a)
			}
		}
	}
	follow("the same process", one.Client)
	if err := one.Reload(config("timeout 9s", "limits {\n\truns 100\n}", "caller another", "provider http://127.0.0.1:1 {\n\tnamespace other\n}"), storage(folder)); err != nil {
		t.Fatal(err)
	}
	follow("after a reload", one.Client)
	follow("another process", testbed.StartProcess(t, testbed.Limits{}, config(), storage(folder)).Client)
	one.Signal(syscall.SIGTERM)
	one.Wait(patience)
	follow("after a restart", testbed.StartProcess(t, testbed.Limits{}, config(), storage(folder)).Client)
	checkDuplicates(t, p)
}

// The run of a bridge that is stopped goes on, and another one follows it.
func TestRunsOutliveTheBridge(t *testing.T) {
	t.Parallel()
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	gate := hostile.NewGate(t)
	p.On("acme/soon", hostile.Status, gate.Then(hostile.Usual()))
	folder := t.TempDir()
	one := testbed.StartProcess(t, testbed.Limits{}, withProvider(p), storage(folder), "grace_period 1s")
	answered := []<-chan testbed.Answer{
		calling(unpooled(one.Client), "acme.soon", nil),
		calling(unpooled(one.Client).With(wait(patience.Milliseconds())), "acme.soon", nil),
	}
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == len(answered) }, "the runs are asked for")
	own := leave(t, one.Client, p, "acme.soon")
	answered = append(answered, begin(func() testbed.Answer { return getRun(one.Client, own, "wait_ms", patience.Milliseconds()) }))
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == len(answered) }, "the third is, too")
	one.Signal(syscall.SIGTERM)
	var stopped []testbed.Answer
	for _, answer := range answered {
		a := receive(t, answer)
		if a.Outcome() != "INVOCATION_TIMEOUT" || a.Code != -32052 || a.Data.Next != "follow_run" || a.Data.ExecutionID == "" || runToken(a) == "" {
			t.Errorf("when the bridge was stopped: %s", a)
		}
		stopped = append(stopped, a)
	}
	one.Wait(patience)
	gate.Open()
	two := testbed.StartProcess(t, testbed.Limits{}, withProvider(p), storage(folder))
	for _, a := range stopped {
		b := getRun(two.Client, runToken(a))
		if b.Outcome() != "completed" || b.Run().RunID != a.Data.ExecutionID {
			t.Errorf("after %s: %s", a, b)
		}
	}
	checkDuplicates(t, p)
}

// Who asks for a run takes a place among those that `limits` has, and gives it back;
// who leaves one has given it back. Who finds none hears that the run exists.
func TestPlacesOfWaitingCalls(t *testing.T) {
	for limit, name := range map[string]string{"runs 1": "runs", "runs 9 1": "runs_per_provider"} {
		t.Run(name, func(t *testing.T) {
			testbed.CheckLeaks(t)
			p := lasting(t)
			p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
			gate := hostile.NewGate(t)
			p.On("acme/soon", hostile.Status, gate.Then(hostile.Usual()))
			c := testbed.StartCaddy(t, withProvider(p, "limits {\n\t"+limit+"\n}"))
			first, second := leave(t, c.Client, p, "acme.soon"), leave(t, c.Client, p, "acme.soon")
			answered := begin(func() testbed.Answer { return getRun(c.Client, first, "wait_ms", patience.Milliseconds()) })
			testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the first is asked for")
			for _, ms := range []int64{0, patience.Milliseconds()} {
				a := getRun(c.Client, second, "wait_ms", ms)
				want{outcome: "RATE_LIMITED", executed: "yes", next: "follow_run", source: "bridge"}.check(t, a)
				if a.Data.ExecutionID != "run-2" || runToken(a) == "" || !strings.Contains(string(a.Data.Details), `"`+name+`"`) {
					t.Errorf("with no place left: %s", a)
				}
			}
			a := c.With(wait(0)).Execute("acme.soon", nil)
			want{outcome: "RATE_LIMITED", executed: "no", next: "retry", source: "bridge"}.check(t, a)
			if n := p.Posts(a.Call); n != 0 {
				t.Errorf("%d invocations with no place left", n)
			}
			gate.Open()
			want{outcome: "completed"}.check(t, receive(t, answered))
			for _, token := range []string{second, first} {
				want{outcome: "completed"}.check(t, getRun(c.Client, token))
			}
			leave(t, c.Client, p, "acme.soon")
		})
	}
}

// herd are the calls whose runs are accepted at the same moment.
const herd = 300

// startHerd makes the calls and has their runs accepted, all at once. They take so
// many polls.
func startHerd(t *testing.T, p *hostile.Provider, c *testbed.Client, polls int) (accepted time.Time, stop func() *testbed.Report) {
	t.Helper()
	gate := hostile.NewGate(t)
	p.On("acme/soon", hostile.Invoke, gate.Then(hostile.Accept(polls-1)))
	patient := c.With(testbed.Timeout(10 * patience))
	stop = testbed.Load{Workers: herd, Calls: herd, Do: func(int, int) testbed.Answer { return patient.Execute("acme.soon", nil) }}.Start(t)
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == herd }, "all calls are under way")
	accepted = time.Now()
	gate.Open()
	return accepted, stop
}

// R36: runs that are accepted at the same moment are not asked for in step. When
// each is asked for again is counted from when it was asked for first, since even
// that many acceptances take a while.
func TestR36PollingHerd(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	c := testbed.StartCaddy(t, testbed.Bridge("poll_interval 1s 1s", offer(p, "acme")))
	_, stop := startHerd(t, p, c.Client, 2)
	stop().Only(t, "completed")
	asked := map[string][]time.Time{}
	for _, r := range p.Requests("acme/soon", hostile.Status) {
		asked[r.Execution] = append(asked[r.Execution], r.At)
	}
	if len(asked) != herd {
		t.Fatalf("%d runs are asked for, not %d", len(asked), herd)
	}
	together := map[time.Duration]int{}
	for run, at := range asked {
		if len(at) != 2 {
			t.Fatalf("%s: %d polls, not 2", run, len(at))
		}
		together[at[1].Sub(at[0])/(10*time.Millisecond)]++
	}
	if most := slices.Max(slices.Collect(maps.Values(together))); most > herd/4 {
		t.Errorf("of %d runs, %d are asked for within 10 ms", herd, most)
	}
	onceEach(t, p)
}

// R36: however many runs there are, they are asked for no more often than a host may be.
func TestR36PollingHerdIsBounded(t *testing.T) {
	longtest.Need(t, longtest.Long)
	testbed.CheckLeaks(t)
	const perSecond = 400
	p := lasting(t)
	testbed.Guard(t, func(g *guards.Guards) { g.Polls, g.AllPolls = perSecond, perSecond })
	c := testbed.StartCaddy(t, testbed.Bridge("poll_interval 20ms 20ms", offer(p, "acme")))
	start, stop := startHerd(t, p, c.Client, 5)
	stop().Only(t, "completed")
	polls := p.Requests("acme/soon", hostile.Status)
	slices.SortFunc(polls, func(a, b *hostile.Request) int { return a.At.Compare(b.At) }) // they are listed by when their body was read
	for i, r := range polls {
		// The bridge's clock began a little before: one part in a hundred is allowed for that.
		if most := perSecond + int(perSecond*r.At.Sub(start).Seconds()) + perSecond/100; i+1 > most {
			t.Fatalf("%d polls within %s, not %d", i+1, r.At.Sub(start), most)
		}
	}
	if len(polls) != 5*herd {
		t.Errorf("%d polls, not %d", len(polls), 5*herd)
	}
	onceEach(t, p)
}
