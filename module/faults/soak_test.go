package faults_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// soakFor is how long the mixed load goes on, after a warm-up: a few seconds, and under the
// race detector half a minute if long tests are asked for, unless SKILL_BRIDGE_SOAK says otherwise.
// Without the race detector, it is a long test, since it takes the whole processor.
func soakFor(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("SKILL_BRIDGE_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("SKILL_BRIDGE_SOAK: %v", err)
		}
		return d
	}
	switch {
	case !raced:
		longtest.Need(t, longtest.Long)
		return 5 * time.Second
	case longtest.Runs(longtest.Long):
		return 30 * time.Second
	}
	return 2 * time.Second
}

// TestSoak is the row R44: a mixed load with faults of all kinds, several
// providers, credentials, reloads and clients that go away. At the end there are
// no more goroutines, memory in use and open files than after the warm-up, every
// outcome is one that the behaviour allows, and nothing was executed twice.
func TestSoak(t *testing.T) {
	leavesNothing(t)
	s := newSoak(t)
	duration := soakFor(t)
	s.run(min(max(2*time.Second, duration/10), 30*time.Second))
	before := s.measure()
	s.run(duration)
	after := s.measure()
	// Beyond a tenth: what is made only once something rare has happened. Of
	// goroutines and files, those of one connection in each direction that is being
	// closed while they are counted; of memory, tables that do not shrink (metrics,
	// log lines, breakers, and those of the Go runtime) and buffers in pools.
	const someGoroutines, someFiles, someMemory = 20, 10, 2 << 20
	testbed.Eventually(t, patience, func() bool {
		after = s.measure()
		return after.goroutines <= before.goroutines*11/10+someGoroutines && after.files <= before.files*11/10+someFiles &&
			after.heap <= before.heap*11/10+someMemory
	}, fmt.Sprintf("what is in use is again what it was: %v, and now %v", before, s.measure()))
	t.Logf("after the warm-up %v, at the end %v", before, after)
	s.report()
}

// soak is a mixed load.
type soak struct {
	t         *testing.T
	caddy     *testbed.Caddy
	pooled    *testbed.Client
	unpooled  *testbed.Client
	providers map[string]*hostile.Provider // by namespace
	calls     []soakCall
	reloads   atomic.Int64

	mu     sync.Mutex
	total  int
	counts map[string]map[string]int // how often each call had each outcome
	wrong  []string                  // samples of outcomes that are not allowed
	late   []lateCall                // calls whose executions are counted later
}

// soakCall is a kind of call.
type soakCall struct {
	name     string
	timeout  time.Duration // 0: the default
	do       func(c *testbed.Client) testbed.Answer
	outcomes []string
}

// lateCall is a call that a provider may still be about to receive.
type lateCall struct {
	id string
	at time.Time
}

// soakSkill is a skill of a provider and what may come of it.
type soakSkill struct {
	id       string
	part     hostile.Part
	choose   func(n int) hostile.Action // nil: as usual
	timeout  time.Duration
	outcomes []string
	edit     func(hostile.Object)
}

// always is a choice of one action.
func always(action hostile.Action) func(int) hostile.Action {
	return func(int) hostile.Action { return action }
}

// sometimes is the second action once in n times.
func sometimes(n int, action, other hostile.Action) func(int) hostile.Action {
	return func(i int) hostile.Action {
		if i%n == 0 {
			return other
		}
		return action
	}
}

const (
	done        = "completed"
	unreachable = "ENDPOINT_UNREACHABLE"
	invalid     = "INVALID_PROVIDER_RESPONSE"
	timedOut    = "INVOCATION_TIMEOUT"
)

// hurry is the timeout of calls that never end by themselves.
const hurry = 300 * time.Millisecond

// steady are the skills of a provider without fault.
func steady() []soakSkill {
	return []soakSkill{
		{id: "acme/now", outcomes: []string{done}},
		{id: "acme/later", part: hostile.Invoke, choose: always(hostile.Accept(2)), outcomes: []string{done}},
		{id: "acme/result", part: hostile.Invoke, choose: always(hostile.AcceptForResult(1)), outcomes: []string{done}},
		{id: "acme/fails", part: hostile.Invoke, choose: always(hostile.AcceptFailing(1)), outcomes: []string{"failed EXECUTION_FAILED"}},
		{id: "acme/busy", part: hostile.Invoke, outcomes: []string{done, "RATE_LIMITED"}, edit: func(d hostile.Object) {
			d["endpoint"].(hostile.Object)["retry"] = hostile.Object{"max_attempts": 3, "backoff_ms": 10}
		}, choose: sometimes(2, hostile.Usual(), hostile.Problem(http.StatusTooManyRequests, "RATE_LIMITED", "Busy."))},
	}
}

// sick are the skills of a provider that answers nothing properly. Its circuit
// breaker opens now and then.
func sick() []soakSkill {
	long := `{"status":"completed","output":"` + strings.Repeat("a", 1000) + `"}`
	drip := hostile.Every(20 * time.Millisecond)
	skills := []soakSkill{
		{id: "sick/reset", choose: always(hostile.Reset())},
		{id: "sick/close", choose: always(hostile.Close())},
		{id: "sick/reset-mid-body", choose: always(hostile.ResetMidBody())},
		{id: "sick/truncate", choose: always(hostile.Truncate())},
		{id: "sick/truncate-chunked", choose: always(hostile.TruncateChunked())},
		{id: "sick/then-close", choose: always(hostile.ThenClose(hostile.Usual())), outcomes: []string{done}},
		{id: "sick/hang", choose: always(hostile.Hang()), timeout: hurry, outcomes: []string{timedOut}},
		{id: "sick/hang-mid-body", choose: always(hostile.HangMidBody()), timeout: hurry, outcomes: []string{timedOut}},
		{id: "sick/drip-body", choose: always(hostile.DripBody(drip, http.StatusOK, long)), timeout: hurry, outcomes: []string{timedOut}},
		{id: "sick/drip-headers", choose: always(hostile.DripHeaders(drip, http.StatusOK, long)), timeout: hurry, outcomes: []string{timedOut}},
		{id: "sick/endless-body", choose: always(hostile.EndlessBody()), outcomes: []string{invalid}},
		{id: "sick/endless-headers", choose: always(hostile.EndlessHeaders()), outcomes: []string{invalid}},
		{id: "sick/bomb", choose: always(hostile.Bomb(2 << 20)), outcomes: []string{invalid}},
		{id: "sick/deep", choose: always(hostile.NestedOutput(10_000)), outcomes: []string{invalid}},
		{id: "sick/interim", choose: always(hostile.Interim(-1, hostile.Usual())), outcomes: []string{invalid}},
		{id: "sick/lie", part: hostile.Status, choose: always(hostile.CompleteAs("run-of-another")), outcomes: []string{invalid}},
		{id: "sick/garbage", choose: always(hostile.Garbage()), outcomes: []string{invalid}},
		{id: "sick/redirect", choose: always(hostile.Redirect(http.StatusTemporaryRedirect, "https://example.com/")), outcomes: []string{invalid}},
		{id: "sick/state", choose: always(hostile.State("asleep")), outcomes: []string{invalid}},
		{id: "sick/500", choose: always(hostile.Respond(http.StatusInternalServerError, "")), outcomes: []string{invalid}},
		{id: "sick/503", choose: always(hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "1"))},
		{id: "sick/not-json", choose: always(hostile.RawOutput("{]")), outcomes: []string{invalid}},
		{id: "sick/polls", part: hostile.Status, choose: sometimes(3, hostile.Usual(), hostile.Reset()), outcomes: []string{done}},
		{id: "sick/lost", part: hostile.Status, choose: always(hostile.Respond(http.StatusNotFound, "")), timeout: hurry, outcomes: []string{"failed " + timedOut}},
		{id: "sick/endless-run", part: hostile.Status, choose: always(hostile.State("running")), timeout: hurry, outcomes: []string{"failed " + timedOut}},
	}
	return complete(skills)
}

// smuggling are the skills of a provider that answers what nobody has asked. The
// next call on the same connection may get that answer, and the one after it none.
func smuggling() []soakSkill {
	return complete([]soakSkill{
		{id: "smuggler/two", choose: always(hostile.TwoResponses("poison")), timeout: hurry, outcomes: []string{done, timedOut, invalid}},
		// On one connection, what a host sends unasked just as it is asked for something else is its answer to that.
		{id: "smuggler/switch", choose: always(hostile.SwitchProtocols()), timeout: hurry, outcomes: []string{done, invalid, timedOut}},
	})
}

// complete fills in what all skills of sick providers have in common.
func complete(skills []soakSkill) []soakSkill {
	for i := range skills {
		s := &skills[i]
		if s.part == "" {
			s.part = hostile.Invoke
		}
		s.outcomes = append(s.outcomes, unreachable)
		if s.timeout > 0 && s.part == hostile.Status {
			s.outcomes = append(s.outcomes, timedOut) // before the run was accepted
		}
	}
	return skills
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{t: t, providers: map[string]*hostile.Provider{}, counts: map[string]map[string]int{}}
	s.offer("acme", hostile.APIKey("X-Key"), steady())
	s.offer("sick", nil, sick())
	s.offer("smuggler", nil, smuggling())
	s.offer("token", hostile.Object{}, []soakSkill{
		{id: "token/now", outcomes: []string{done, unreachable}},
		{id: "token/later", part: hostile.Invoke, choose: always(hostile.Accept(1)), outcomes: []string{done, unreachable}},
		{
			id: "token/revoked", part: hostile.Invoke, outcomes: []string{done, unreachable, "AUTH_REQUIRED"},
			choose: sometimes(4, hostile.Usual(), hostile.Respond(http.StatusUnauthorized, "")),
		},
	})
	s.providers["token"].Script("", hostile.Token, func(n int) hostile.Action {
		if n%5 == 0 {
			return hostile.Respond(http.StatusServiceUnavailable, "")
		}
		return hostile.Issue(fmt.Sprintf("token-%d", n), time.Second)
	})
	s.offer("flap", nil, []soakSkill{
		{id: "flap/now", outcomes: []string{done, unreachable, "SKILL_NOT_FOUND"}},
		// The provider forgets a run once it has said that it is completed, even if
		// the connection was closed before that arrived.
		{id: "flap/later", part: hostile.Invoke, choose: always(hostile.Accept(2)), outcomes: []string{done, unreachable, "SKILL_NOT_FOUND", invalid}},
	})
	s.offer("docs", nil, []soakSkill{
		{id: "docs/now", outcomes: []string{done, unreachable}},
		{id: "docs/gone", part: hostile.Descriptor, choose: always(hostile.Respond(http.StatusNotFound, "")), outcomes: []string{"SKILL_NOT_FOUND", unreachable}},
		{id: "docs/invalid", edit: func(d hostile.Object) { delete(d, "endpoint") }, outcomes: []string{"VALIDATION_ERROR", unreachable}},
		{
			id: "docs/future", outcomes: []string{"VERSION_INCOMPATIBLE", unreachable},
			edit: func(d hostile.Object) { d["protocol"] = hostile.Object{"version": "2.0.0"} },
		},
		{id: "docs/flaky", part: hostile.Descriptor, choose: sometimes(2, hostile.Usual(), hostile.Reset()), outcomes: []string{done, unreachable}},
	})
	s.providers["docs"].Script("", hostile.Index, sometimes(3, hostile.Usual(), hostile.Respond(http.StatusBadGateway, "")))
	s.calls = append(s.calls,
		soakCall{name: "list_skills", do: func(c *testbed.Client) testbed.Answer { return c.Call("list_skills", hostile.Object{}) }, outcomes: []string{"result"}},
		soakCall{name: "describe_skill", do: func(c *testbed.Client) testbed.Answer {
			return c.Call("describe_skill", hostile.Object{"name": "acme.now"})
		}, outcomes: []string{"result"}},
		soakCall{name: "not JSON", do: func(c *testbed.Client) testbed.Answer { return c.Post("{") }, outcomes: []string{"-32700"}},
		soakCall{name: "unknown skill", do: func(c *testbed.Client) testbed.Answer { return c.Execute("acme.unknown", nil) }, outcomes: []string{"SKILL_NOT_FOUND"}},
	)
	for _, p := range s.providers {
		p.Lean()
	}
	s.caddy = testbed.StartCaddy(t, s.config(0))
	s.caddy.Log.Lean()
	s.pooled, s.unpooled = s.caddy.Client, unpooled(s.caddy.Client)
	return s
}

// offer starts a provider and adds its skills to the calls.
func (s *soak) offer(namespace string, auth hostile.Object, skills []soakSkill) {
	s.t.Helper()
	p := hostile.NewProvider(s.t)
	if auth != nil && len(auth) == 0 {
		auth = hostile.OAuth2(p.TokenURL())
	}
	s.providers[namespace] = p
	for _, skill := range skills {
		p.Publish(hostile.Skill{ID: skill.id, Auth: auth, Edit: skill.edit})
		if skill.choose != nil {
			p.Script(skill.id, skill.part, skill.choose)
		}
		if skill.part == hostile.Status {
			p.On(skill.id, hostile.Invoke, hostile.Accept(1))
		}
		name := strings.Replace(skill.id, "/", ".", 1)
		s.calls = append(s.calls, soakCall{
			name: name, timeout: skill.timeout, outcomes: skill.outcomes,
			do: func(c *testbed.Client) testbed.Answer { return c.Execute(name, nil) },
		})
	}
}

// config is the n-th configuration: callers, keys, providers, cache and transport
// change by turns.
func (s *soak) config(n int) string {
	lines := []string{
		"allow_anonymous", polling, fmt.Sprintf("caller bridge-%d", n), "max_response_size 1MiB",
		"circuit_breaker {\n\tcooldown 100ms\n}",
		offer(s.providers["acme"], "acme", fmt.Sprintf("credentials api_key key-%d", n/2%4)),
		offer(s.providers["sick"], "sick"),
		offer(s.providers["smuggler"], "smuggler"),
		offer(s.providers["token"], "token", oauth2("a-secret")),
		offer(s.providers["docs"], "docs"),
		fmt.Sprintf("cache {\n\tttl %dms\n\tnegative_ttl 50ms\n}", 500+n/3%3),
	}
	if n%4 != 3 {
		lines = append(lines, offer(s.providers["flap"], "flap"))
	}
	if n%5 == 4 {
		lines = append(lines, "transport http {\n\tdial_timeout 3s\n}")
	}
	return testbed.Bridge(lines...)
}

// run keeps up the load for a while, together with what goes on beside it.
func (s *soak) run(duration time.Duration) {
	s.t.Helper()
	ended := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { s.reload(ended) })
	beside.Go(func() { s.flap(ended) })
	report := testbed.Load{Workers: 24, For: duration, Pace: time.Millisecond, Do: s.do}.Run(s.t)
	close(ended)
	beside.Wait()
	s.t.Log(report)
}

// reload replaces the configuration every few seconds.
func (s *soak) reload(ended <-chan struct{}) {
	for hostile.Every(2 * time.Second)(ended) {
		if err := s.caddy.Reload(s.config(int(s.reloads.Add(1)))); err != nil {
			s.t.Errorf("reloading: %v", err)
			return
		}
	}
}

// flap takes a provider down and up again.
func (s *soak) flap(ended <-chan struct{}) {
	p := s.providers["flap"]
	for {
		more := hostile.Every(700 * time.Millisecond)(ended)
		p.Down()
		p.Disconnect()
		more = more && hostile.Every(300*time.Millisecond)(ended)
		p.Up()
		if !more {
			return
		}
	}
}

// do makes one call and judges what comes of it.
func (s *soak) do(worker, call int) testbed.Answer {
	kind := &s.calls[call%len(s.calls)]
	c := s.pooled
	if worker%4 == 0 {
		c = s.unpooled
	}
	if kind.timeout > 0 {
		c = c.With(testbed.Timeout(kind.timeout))
	}
	impatient := call%17 == 0
	if impatient { // between at once and after a poll or two
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Duration(call%40)*time.Millisecond)
		defer cancel()
		c = c.With(testbed.Context(ctx))
	}
	a := kind.do(c)
	outcome := a.Outcome()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	if s.counts[kind.name] == nil {
		s.counts[kind.name] = map[string]int{}
	}
	s.counts[kind.name][outcome]++
	allowed := slices.Contains(kind.outcomes, outcome) || impatient && outcome == "gone"
	if outcome == "broken" { // of the connections that Caddy loses with a reload, which nothing can have come of
		allowed = s.posts(a.Call) == 0
	}
	if outcome == "RATE_LIMITED" && strings.Contains(a.Message, "too busy to check it") { // as this machine may be: nothing was sent
		allowed = s.posts(a.Call) == 0
	}
	if !allowed && len(s.wrong) < 20 {
		s.wrong = append(s.wrong, fmt.Sprintf("%s: %v", kind.name, a))
	}
	if a.Call != "" {
		s.late = append(s.late, lateCall{a.Call, time.Now()})
	}
	s.settle(5 * time.Second)
	return a
}

// posts is how often a call was sent to any provider.
func (s *soak) posts(call string) int {
	n := 0
	for _, p := range s.providers {
		n += p.Posts(call)
	}
	return n
}

// settle counts the executions of calls that are older than age, of which nothing
// more can come.
func (s *soak) settle(age time.Duration) {
	for len(s.late) > 0 && time.Since(s.late[0].at) >= age {
		call := s.late[0].id
		s.late = s.late[1:]
		executions := 0
		for _, p := range s.providers {
			executions += p.Forget(call)
		}
		if executions > 1 && len(s.wrong) < 20 {
			s.wrong = append(s.wrong, fmt.Sprintf("%s was executed %d times", call, executions))
		}
	}
}

// soakUse is what a process uses.
type soakUse struct {
	goroutines, files int
	heap              int64
}

func (u soakUse) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %.1f MiB", u.goroutines, u.files, float64(u.heap)/(1<<20))
}

// measure tells what is in use while nothing goes on.
func (s *soak) measure() soakUse {
	s.t.Helper()
	testbed.Eventually(s.t, patience, func() bool {
		for _, p := range s.providers {
			if p.Hanging() > 0 {
				return false
			}
		}
		return true
	}, "nothing is under way")
	s.mu.Lock()
	s.settle(0)
	s.late = nil
	s.mu.Unlock()
	s.pooled.HTTP.CloseIdleConnections()
	for _, p := range s.providers {
		p.Disconnect()
	}
	// What was idle on either side is noticed to be closed soon.
	last := soakUse{}
	for range 100 {
		now := soakUse{runtime.NumGoroutine(), testbed.OpenFiles(s.t), 0}
		if now == last {
			break
		}
		last = now
		time.Sleep(50 * time.Millisecond)
	}
	last.heap = testbed.HeapInUse()
	return last
}

// report fails the test if there was what must not be, and shows what there was.
func (s *soak) report() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.wrong {
		s.t.Error(text)
	}
	broken := 0
	for _, kind := range s.calls {
		broken += s.counts[kind.name]["broken"]
		good := 0
		for _, outcome := range kind.outcomes {
			good += s.counts[kind.name][outcome]
		}
		if good == 0 {
			s.t.Errorf("%s never had an outcome of its own: %v", kind.name, s.counts[kind.name])
		}
		s.t.Logf("%s: %v", kind.name, s.counts[kind.name])
	}
	s.t.Logf("%d calls, %d reloads, %d connections lost with them", s.total, s.reloads.Load(), broken)
	if broken > 24*(int(s.reloads.Load())+1) {
		s.t.Errorf("%d calls had no answer in %d reloads", broken, s.reloads.Load())
	}
}
