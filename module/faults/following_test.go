package faults_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R49: a run is asked about as often by ten who want to know as by one, and each of
// them hears what comes of it: in time, if it goes on, and at once, if it ends.
func TestR49OneFollowerPerRun(t *testing.T) {
	testbed.CheckLeaks(t)
	const watchers = 10
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.AcceptForResult(6))
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme"), "poll_interval 200ms 200ms"))
	watch := func(token string, n int, ms int64) (answers []testbed.Answer) {
		var answered []<-chan testbed.Answer
		for range n {
			answered = append(answered, begin(func() testbed.Answer { return getRun(c.Client, token, "wait_ms", ms) }))
		}
		for _, answer := range answered {
			answers = append(answers, receive(t, answer))
		}
		return answers
	}
	slow := leave(t, c.Client, p, "acme.slow")
	polls := func(n int) int {
		before := p.Count("acme/slow", hostile.Status)
		for _, a := range watch(slow, n, 1000) {
			checkRunning(t, a, "run-1")
			if a.Took < time.Second {
				t.Errorf("answered after %s", a.Took)
			}
		}
		return p.Count("acme/slow", hostile.Status) - before
	}
	one, ten := polls(1), polls(watchers)
	if one < 3 || ten > one+1 { // on a slow machine the last of them begins, and so ends, later
		t.Errorf("%d polls for %d who wait, %d for one", ten, watchers, one)
	}

	soon := leave(t, c.Client, p, "acme.soon")
	for _, a := range watch(soon, watchers, 10*patience.Milliseconds()) {
		want{outcome: "completed"}.check(t, a)
	}
	if n := p.Count("acme/soon", hostile.Result); n != 1 {
		t.Errorf("%d requests for the output", n)
	}
	if n := p.Count("acme/soon", hostile.Status); n != 7 {
		t.Errorf("%d polls of a run that takes 7", n)
	}
	checkNoPanic(t, c.Log)
}

// R49: who asks about a run goes or has waited for as long as it wants to: another one
// of those who wait goes on, and hears the end.
func TestR49FollowerIsHandedOver(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	gate := hostile.NewGate(t)
	p.On("acme/soon", hostile.Status, gate.Then(hostile.Usual()))
	c := testbed.StartCaddy(t, testbed.AdminAPI+withProvider(p))
	token := leave(t, c.Client, p, "acme.soon")
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	first := begin(func() testbed.Answer { return getRun(c.With(testbed.Context(ctx)), token) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is asked about")
	second := begin(func() testbed.Answer { return getRun(c.Client, token, "wait_ms", 1500) })
	third := begin(func() testbed.Answer { return getRun(c.Client, token, "wait_ms", 10*patience.Milliseconds()) })
	testbed.Eventually(t, patience, func() bool { return c.InProgress() == 3 }, "three wait")
	if n := p.Count("acme/soon", hostile.Status); n != 1 {
		t.Errorf("%d polls under way", n)
	}
	hangUp()
	want{outcome: "gone"}.check(t, receive(t, first))
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/soon", hostile.Status) == 2 }, "another one asks")
	checkRunning(t, receive(t, second), "run-1")
	gate.Open()
	want{outcome: "completed"}.check(t, receive(t, third))
	if n := p.Count("acme/soon", hostile.Status); n > 3 {
		t.Errorf("%d polls", n)
	}
}

// R51: where a host may be asked less often than there are runs to ask about, the runs
// that are likely to have ended are asked about first, whoever came first.
func TestR51LikelyRunsFirst(t *testing.T) {
	longtest.Need(t, longtest.Long)
	testbed.CheckLeaks(t)
	const crowd, perSecond = 20, 4 // all of them once take five seconds
	p := lasting(t)
	p.On("acme/soon", hostile.Invoke, hostile.Accept(0))
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	for range 20 { // from which it is learned how quick it is
		want{outcome: "completed"}.check(t, c.Execute("acme.soon", nil))
	}
	testbed.Guard(t, func(g *guards.Guards) { g.Polls, g.AllPolls = perSecond, perSecond })
	if err := c.Reload(testbed.Bridge("audit", offer(p, "acme"))); err != nil { // Caddy does not load an equal one again
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	var crowded []<-chan testbed.Answer
	for range crowd {
		crowded = append(crowded, calling(unpooled(c.With(testbed.Context(ctx), testbed.Timeout(2*patience))), "acme.slow", nil))
	}
	asked := func() bool { return p.Count("acme/slow", hostile.Status) > 2*crowd }
	testbed.Eventually(t, patience, func() bool { return p.Count("acme/slow", hostile.Invoke) == crowd && asked() }, "all are known to take long")
	for range 3 {
		a := c.Execute("acme.soon", nil)
		want{outcome: "completed"}.check(t, a)
		if a.Took > 3*time.Second {
			t.Errorf("a run that has ended is noticed after %s", a.Took)
		}
	}
	leave()
	for _, answered := range crowded {
		receive(t, answered)
	}
	onceEach(t, p)
}

// R51: who says how long it waits hears by then that the run goes on, also where the host
// is not asked any more often.
func TestR51WaitsEndWithTheState(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	testbed.Guard(t, func(g *guards.Guards) { g.Polls, g.AllPolls = 1, 1 })
	c := testbed.StartCaddy(t, testbed.Bridge(offer(p, "acme")))
	var all []<-chan testbed.Answer
	for range 20 {
		all = append(all, calling(unpooled(c.With(wait(2000))), "acme.slow", nil))
	}
	for _, answered := range all {
		if a := receive(t, answered); a.Outcome() != "running" || a.Took < 2*time.Second || a.Took > 10*time.Second {
			t.Errorf("after %s: %s", a.Took, a)
		}
	}
}

// R53: a status or result URL that fails for some seconds loses no run that has more
// time than that, however often it is usually asked; and it is not asked as often then.
func TestR53RunsAreNotGivenUpEarly(t *testing.T) {
	t.Parallel()
	lasting, least, most := 1500*time.Millisecond, 3, 6
	polls := []string{"poll_interval 20ms 20ms"}
	if longtest.Runs(longtest.Long) {
		lasting, least, most = 4*time.Second, 4, 8
		polls = []string{"", "poll_interval 20ms 20ms", "poll_interval 20ms 40ms"}
	}
	failures := map[string]hostile.Action{
		"503": hostile.Respond(503, ""), "429": hostile.Respond(429, ""), "reset": hostile.Reset(), "500": hostile.Respond(500, ""),
	}
	for _, poll := range polls {
		t.Run(poll, func(t *testing.T) {
			t.Parallel()
			p := hostile.NewProvider(t)
			p.Publish(hostile.Skill{ID: "acme/quick"})
			for name := range failures {
				p.Publish(hostile.Skill{ID: "acme/" + name}, hostile.Skill{ID: "acme/result-" + name})
			}
			c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge(offer(p, "acme"), poll, "circuit_breaker off", withoutKeepAlive))
			var calls sync.WaitGroup
			for name, failure := range failures {
				for id, part := range map[string]hostile.Part{"acme/" + name: hostile.Status, "acme/result-" + name: hostile.Result} {
					var since atomic.Int64
					accept := hostile.Accept(0)
					if part == hostile.Result {
						accept = hostile.AcceptForResult(0)
					}
					p.On(id, part)
					p.On(id, hostile.Invoke, accept)
					calls.Go(func() {
						for range 5 { // from which it is learned that the skill is quick
							want{outcome: "completed"}.check(t, c.Execute(strings.Replace(id, "/", ".", 1), nil))
						}
						p.On(id, part, func(x *hostile.Exchange) {
							since.CompareAndSwap(0, time.Now().UnixNano())
							if time.Since(time.Unix(0, since.Load())) < lasting {
								failure(x)
								return
							}
							hostile.Usual()(x)
						})
						before := p.Count(id, part)
						a := c.Execute(strings.Replace(id, "/", ".", 1), nil)
						want{outcome: "completed"}.check(t, a)
						if n := p.Count(id, part) - before; n < least || n > most {
							t.Errorf("%s, %s: %d requests within %s of trouble", id, poll, n, lasting)
						}
					})
				}
			}
			calls.Wait()
		})
	}
}

// R55: an agent that hangs up is an outcome of its own in the log, the audit, the
// metrics and the access log, which name the run that goes on; its provider's health
// does not change.
func TestR55CallerGone(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/hanging"}, hostile.Skill{ID: "acme/unread"}, hostile.Skill{ID: "acme/echo"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	p.On("acme/hanging", hostile.Invoke, gate.Then(hostile.Usual()))
	p.On("acme/unread", hostile.Descriptor, gate.Then(hostile.Usual()))
	// Metrics are those of the whole process: a namespace of its own tells this test's apart.
	site := strings.Replace(testbed.Bridge(offer(p, "leavers"), "audit"), "{\n", "{\n\tlog\n", 1)
	c := testbed.StartCaddy(t, testbed.AdminAPI+site)
	want{outcome: "completed"}.check(t, c.Execute("leavers.acme.echo", nil))
	for _, test := range []struct{ skill, executed string }{{"slow", "yes"}, {"hanging", "maybe"}, {"unread", "no"}} {
		ctx, hangUp := context.WithCancel(t.Context())
		client, line := traced(t, c.With(testbed.Context(ctx)), c.Log)
		call := testbed.NewCall()
		answered := calling(client, "leavers.acme."+test.skill, hostile.Object{"call": call})
		testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the call has come to where it is to be left")
		hangUp()
		if test.executed == "no" {
			testbed.Eventually(t, patience, func() bool { return c.InProgress() == 0 }, "the call has ended")
			gate.Open() // what others may be waiting for goes on to be read
		}
		testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 0 }, "nobody waits for the provider")
		want{outcome: "gone"}.check(t, receive(t, answered))
		if l := line(); l.Executed != test.executed || test.executed == "yes" && l.ExecutionID != p.Accepted(call)[0] {
			t.Errorf("%s: the log says %+v", test.skill, l)
		}
	}
	of := func(texts ...string) int { return len(c.Log.Lines(texts...)) }
	testbed.Eventually(t, patience, func() bool { return of(`"status":499`) == 3 }, "the access log has it")
	for name, n := range map[string]int{
		"the log":        of(`"logger":"http.handlers.skill_bridge"`, `"outcome":"caller_gone"`),
		"the audit":      of(`skill_bridge.audit`, `"outcome":"caller_gone"`),
		"the access log": of(`http.log.access`, `"status":499`, `"skill_bridge_outcome":"caller_gone"`),
	} {
		if n != 3 {
			t.Errorf("%s has %d of 3:\n%s", name, n, c.Log.Text())
		}
	}
	if of(`http.log.access`, `"status":499`, `"skill_bridge_execution_id":"run-1"`) != 1 {
		t.Error("the access log does not name the run")
	}
	var metrics string
	for line := range strings.Lines(string(c.Send(http.MethodGet, c.Admin()+"/metrics", "").Body)) {
		if strings.Contains(line, "leavers") {
			metrics += line
		}
	}
	if n := strings.Count(metrics, `outcome="caller_gone"`); n == 0 || strings.Contains(metrics, `outcome="timed_out"`) {
		t.Errorf("metrics: %d series of caller_gone, timed_out: %v", n, strings.Contains(metrics, `outcome="timed_out"`))
	}
	if health := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/providers", "").Body); !strings.Contains(health, `"health":"ok"`) || strings.Contains(health, "trouble") || strings.Contains(health, "cancel") {
		t.Errorf("the provider's health: %s", health)
	}
}

// R56: each error whose advice is to try again says when.
func TestR56RetryHasADelay(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t)
	for name, action := range map[string]hostile.Action{
		"429":           hostile.Respond(429, ""),
		"429-problem":   hostile.Problem(429, "RATE_LIMITED", "Later."),
		"429-null":      hostile.Respond(429, `{"error":{"code":"RATE_LIMITED","message":"Later.","retry":null}}`),
		"429-text":      hostile.Respond(429, `{"error":{"code":"RATE_LIMITED","message":"Later.","retry":"soon"}}`),
		"429-when":      hostile.Respond(429, "", "Retry-After", "3"),
		"404-but-later": hostile.Problem(404, "ENDPOINT_UNREACHABLE", "Restarting."),
	} {
		p.Publish(hostile.Skill{ID: "acme/" + name})
		p.On("acme/"+name, hostile.Invoke, action)
		defer p.On("acme/"+name, hostile.Invoke)
	}
	c := testbed.StartCaddy(t, withProvider(p))
	for _, name := range c.Names() {
		a := c.Execute(name, nil)
		want{executed: "no", next: "retry"}.check(t, a)
		var said struct {
			Retry struct {
				Delay    float64 `json:"suggested_delay_ms"`
				Attempts float64 `json:"max_attempts"`
			} `json:"retry"`
		}
		if err := json.Unmarshal(a.Data.Raw, &said); err != nil || said.Retry.Delay < 100 || said.Retry.Attempts < 1 {
			t.Errorf("%s: %v, %+v: %s", name, err, said, a)
		}
	}
}

// R56: who does not want to wait hears in time how a run is as far as is known, also
// if the status URL does not answer.
func TestR56GetRunDoesNotHang(t *testing.T) {
	testbed.CheckLeaks(t)
	p := lasting(t)
	c := testbed.StartCaddy(t, withProvider(p))
	token := leave(t, c.Client, p, "acme.slow")
	p.On("acme/slow", hostile.Status, hostile.Hang())
	waits := []int64{0}
	if longtest.Runs(longtest.Long) {
		waits = []int64{0, 1, 500}
	}
	for _, ms := range waits {
		a := getRun(c.Client, token, "wait_ms", ms)
		checkRunning(t, a, "run-1")
		if most := time.Duration(ms)*time.Millisecond + 10*time.Second; a.Took > most {
			t.Errorf("wait_ms %d: answered after %s", ms, a.Took)
		}
	}
	p.On("acme/slow", hostile.Status, hostile.Complete(nil))
	want{outcome: "completed"}.check(t, getRun(c.Client, token, "wait_ms", 0))
}
