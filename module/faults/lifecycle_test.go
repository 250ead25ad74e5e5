package faults_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// patience is how long a test waits for what should take no time at all: the
// machine may be busy.
const patience = 30 * time.Second

// offer is the part of a Caddyfile that offers a provider's skills.
func offer(p *hostile.Provider, namespace string, lines ...string) string {
	return "provider " + p.URL() + " {\n\tnamespace " + namespace + "\n\t" + strings.Join(lines, "\n\t") + "\n}"
}

// oauth2 is the part of a Caddyfile that gets tokens of a provider's own.
func oauth2(secret string) string {
	return "credentials oauth2 {\n\t\tclient_id bridge\n\t\tclient_secret " + secret + "\n\t}"
}

// polling is the part of a Caddyfile that polls often.
const polling = "poll_interval 10ms 50ms"

// withoutBridge is a Caddyfile with a site at the same port that has no bridge.
const withoutBridge = "http://127.0.0.1:{$PORT} {\n\trespond \"no bridge here\"\n}\n"

// begin makes a call in the background.
func begin(call func() testbed.Answer) <-chan testbed.Answer {
	answered := make(chan testbed.Answer, 1)
	go func() { answered <- call() }()
	return answered
}

// receive waits for an answer.
func receive(tb testing.TB, answered <-chan testbed.Answer) testbed.Answer {
	tb.Helper()
	select {
	case a := <-answered:
		return a
	case <-time.After(patience):
		tb.Fatalf("no answer within %s", patience)
		return testbed.Answer{}
	}
}

// unpooled is a client that makes a connection for each call, so that none is
// closed under its hands when a configuration stops.
func unpooled(c *testbed.Client) *testbed.Client {
	other := c.With()
	other.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return other
}

// leavesNothing is testbed.CheckLeaks for servers that take their time: one that is
// being shut down looks every half a second whether its connections are closed, and
// goleak waits no longer than that.
func leavesNothing(t *testing.T) {
	t.Helper()
	options := append(testbed.CaddyGoroutines(), goleak.IgnoreCurrent())
	t.Cleanup(func() {
		err := goleak.Find(options...)
		for start := time.Now(); err != nil && time.Since(start) < patience; {
			err = goleak.Find(options...)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// execute makes a call that does not fail because the configuration has just been
// replaced: on a reload Caddy opens its ports anew, and connections that wait in
// the queue of the old listener are lost, whatever the handler.
func execute(c *testbed.Client, skill string) testbed.Answer {
	a := c.Execute(skill, nil)
	for range 10 {
		if a.Outcome() != "broken" {
			break
		}
		a = c.Execute(skill, nil)
	}
	return a
}

// onceEach fails the test if something was executed twice.
func onceEach(tb testing.TB, p *hostile.Provider) {
	tb.Helper()
	if twice := p.Duplicates(); len(twice) > 0 {
		tb.Errorf("executed more than once: %v", twice)
	}
}

// R22: of 500 calls that are under way while the configuration is replaced, all
// are answered properly. Half wait for the answer to their invocation, half for
// the end of a run that was accepted.
func TestR22ReloadInFlight(t *testing.T) {
	leavesNothing(t)
	const calls = 500
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later", Auth: hostile.APIKey("X-Key")})
	gate := hostile.NewGate(t)
	p.On("acme/now", hostile.Invoke, gate.Then(hostile.Complete(nil)))
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
	config := func(lines ...string) string {
		return testbed.Bridge(append(lines, polling, "allow_anonymous", offer(p, "acme", "credentials api_key a-key"))...)
	}
	c := testbed.StartCaddy(t, config())
	stop := testbed.Load{Workers: calls, Calls: calls, Do: func(_, call int) testbed.Answer {
		return c.Execute([]string{"acme.now", "acme.later"}[call%2], nil)
	}}.Start(t)
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == calls }, "all calls are under way")
	for _, caddyfile := range []string{config(), config("caller another"), config("timeout 20s"), withoutBridge, config()} {
		if err := c.Reload(caddyfile); err != nil {
			t.Fatal(err)
		}
	}
	if n := gate.Waiting(); n != calls {
		t.Errorf("after the reloads, %d calls are under way, want %d", n, calls)
	}
	gate.Open()
	report := stop()
	report.Only(t, "completed")
	if report.Total != calls {
		t.Errorf("%d calls were answered, want %d", report.Total, calls)
	}
	onceEach(t, p)
}

// R23: while the configuration is replaced 20 times under load, no call fails that
// the bridge has got, no document is fetched again and no token either. What is
// not counted are the connections that Caddy itself loses with every reload,
// whatever the handler: idle ones, and those that wait to be accepted. Nothing can
// have come of the calls on them.
func TestR23ReloadsUnderLoad(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/now"},
		hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")})
	q := hostile.NewProvider(t, hostile.Skill{ID: "beta/token"})
	q.Publish(hostile.Skill{ID: "beta/token", Auth: hostile.OAuth2(q.TokenURL())})
	q.On("beta/token", hostile.Invoke, hostile.Accept(1))
	config := func(n int) string {
		return testbed.Bridge(polling, "allow_anonymous", fmt.Sprintf("caller bridge-%d", n),
			offer(p, "acme", "credentials api_key a-key"), offer(q, "beta", oauth2("a-secret")))
	}
	c := testbed.StartCaddy(t, config(0))
	names := []string{"acme.now", "acme.key", "beta.token"}
	client := unpooled(c.Client)
	var answered atomic.Int64
	stop := testbed.Load{
		Workers: 12, Pace: 2 * time.Millisecond,
		Do: func(_, call int) testbed.Answer { return client.Execute(names[call%len(names)], nil) },
		Done: func(_, _ int, a testbed.Answer) {
			answered.Add(1)
			if posts := p.Posts(a.Call) + q.Posts(a.Call); a.Outcome() == "broken" && posts > 0 {
				t.Errorf("a call that the provider has got was not answered: %v", a)
			}
		},
	}.Start(t)
	reloads := 8
	if longtest.Runs(longtest.Long) {
		reloads = 20
	}
	for n := range reloads {
		before := answered.Load()
		testbed.Eventually(t, patience, func() bool { return answered.Load() >= before+15 }, "calls go on")
		if err := c.Reload(config(n + 1)); err != nil {
			t.Fatal(err)
		}
	}
	report := stop()
	report.Only(t, "completed", "broken")
	if report.Outcomes["completed"] < report.Total/2 {
		t.Error(report)
	}
	for what, n := range map[string]int{
		"index of acme": p.Count("", hostile.Index), "index of beta": q.Count("", hostile.Index),
		"descriptor of acme/now": p.Count("acme/now", hostile.Descriptor), "descriptor of acme/key": p.Count("acme/key", hostile.Descriptor),
		"descriptor of beta/token": q.Count("beta/token", hostile.Descriptor), "token": q.Count("", hostile.Token),
	} {
		if n != 1 {
			t.Errorf("the %s was fetched %d times, want once", what, n)
		}
	}
	onceEach(t, p)
	onceEach(t, q)
}

// R23: what a new configuration takes over from the old one, and what it gets
// anew because the settings that shape it have changed.
func TestR23WhatAReloadKeeps(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/token"})
	p.Publish(hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2(p.TokenURL())})
	config := func(secret string, lines ...string) string {
		return testbed.Bridge(append(lines, "allow_anonymous", offer(p, "acme", oauth2(secret)))...)
	}
	// Each configuration differs from the first, which is loaded in between.
	for name, tc := range map[string]struct {
		config            string
		documents, tokens bool // are fetched again
	}{
		"nothing changed":      {config("a-secret"), false, false},
		"caller":               {config("a-secret", "caller another"), false, false},
		"limits of calls":      {config("a-secret", "limits {", "\truns 10", "}", "max_batch 3"), false, false},
		"another provider":     {config("a-secret", "provider http://127.0.0.1:1 {", "\tnamespace other", "}"), false, false},
		"cache":                {config("a-secret", "cache {", "\tttl 4m", "}"), true, false},
		"transport":            {config("a-secret", "transport http {", "\tdial_timeout 3s", "}"), true, false},
		"limits of documents":  {config("a-secret", "limits {", "\tschema_size 17KiB", "}"), true, false},
		"credentials":          {config("another-secret"), false, true},
		"no bridge in between": {"", true, true},
		"own transport": {testbed.Bridge("allow_anonymous",
			offer(p, "acme", oauth2("a-secret"), "transport http {", "\tdial_timeout 3s", "}")), true, false},
		"discovery credentials": {testbed.Bridge("allow_anonymous",
			offer(p, "acme", oauth2("a-secret"), "discovery_credentials api_key a-key {", "\theader X-Key", "}")), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := testbed.StartCaddy(t, config("a-secret"))
			client := unpooled(c.Client)
			call := func() (documents, tokens int) {
				t.Helper()
				before, issued := p.Count("", hostile.Index)+p.Count("acme/token", hostile.Descriptor), p.Count("", hostile.Token)
				if a := execute(client, "acme.token"); a.Outcome() != "completed" {
					t.Fatal(a)
				}
				return p.Count("", hostile.Index) + p.Count("acme/token", hostile.Descriptor) - before, p.Count("", hostile.Token) - issued
			}
			if documents, tokens := call(); documents != 2 || tokens != 1 {
				t.Fatalf("the first call took %d documents and %d tokens, want 2 and 1", documents, tokens)
			}
			if documents, tokens := call(); documents != 0 || tokens != 0 {
				t.Fatalf("the second call took %d documents and %d tokens, want none", documents, tokens)
			}
			next := tc.config
			if next == "" {
				if err := c.Reload(withoutBridge); err != nil {
					t.Fatal(err)
				}
				next = config("a-secret")
			}
			if err := c.Reload(next); err != nil {
				t.Fatal(err)
			}
			documents, tokens := call()
			if got := documents > 0; got != tc.documents {
				t.Errorf("after the reload, documents fetched again: %t, want %t", got, tc.documents)
			}
			if got := tokens > 0; got != tc.tokens {
				t.Errorf("after the reload, tokens fetched again: %t, want %t", got, tc.tokens)
			}
		})
	}
}

// R23: a run of a configuration that has gone keeps what it uses, and whoever
// comes back before its end finds it still warm; after its end, nothing is left.
func TestR23ARunKeepsWhatItUses(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/later"})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, gate.Then(hostile.Complete(nil)))
	config := testbed.Bridge(offer(p, "acme"))
	c := testbed.StartCaddy(t, config)
	client := unpooled(c.Client)
	there := func(caddyfiles ...string) {
		t.Helper()
		for _, caddyfile := range caddyfiles {
			if err := c.Reload(caddyfile); err != nil {
				t.Fatal(err)
			}
		}
	}
	answered := begin(func() testbed.Answer { return client.Execute("acme.later", nil) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is under way")
	there(withoutBridge, config)
	if a := execute(client, "acme.now"); a.Outcome() != "completed" || p.Count("", hostile.Index) != 1 {
		t.Errorf("with a run under way, the index was fetched %d times, want once: %v", p.Count("", hostile.Index), a)
	}
	there(withoutBridge)
	gate.Open()
	if a := receive(t, answered); a.Outcome() != "completed" {
		t.Error(a)
	}
	there(config)
	if a := execute(client, "acme.now"); a.Outcome() != "completed" || p.Count("", hostile.Index) != 2 {
		t.Errorf("with no run under way, the index was fetched %d times in all, want twice: %v", p.Count("", hostile.Index), a)
	}
}

// R23: a circuit breaker that is open stays so when the configuration is replaced,
// unless what it goes by was changed.
func TestR23ReloadKeepsBreakers(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/sick"})
	p.On("acme/sick", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, ""))
	config := func(failures int, lines ...string) string {
		return testbed.Bridge(append(lines, fmt.Sprintf("circuit_breaker {\n\tfailures %d\n\tcooldown 10m\n}", failures), offer(p, "acme"))...)
	}
	c := testbed.StartCaddy(t, config(3))
	client := unpooled(c.Client)
	for n := range 4 {
		a := execute(client, "acme.sick")
		if a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != min(1, 3-n) {
			t.Fatalf("call %d: %v, %d posts", n, a, p.Posts(a.Call))
		}
	}
	if err := c.Reload(config(3, "caller another")); err != nil {
		t.Fatal(err)
	}
	a := execute(client, "acme.sick")
	if a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != 0 || !strings.Contains(string(a.Data.Details), `"circuit_breaker"`) {
		t.Errorf("after a reload, the breaker is closed: %v", a)
	}
	if err := c.Reload(config(4)); err != nil {
		t.Fatal(err)
	}
	if a := execute(client, "acme.sick"); p.Posts(a.Call) != 1 {
		t.Errorf("a breaker with other settings took over the state: %v", a)
	}
}

// R24: a call of a skill or a provider that a reload takes away, or whose
// credentials it changes, ends as it began; later ones see the new configuration.
func TestR24ReloadRemovesWhatIsInUse(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/later", Auth: hostile.APIKey("X-Key")})
	other := hostile.NewProvider(t, hostile.Skill{ID: "beta/now"})
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	config := func(key string) string {
		lines := []string{polling, "allow_anonymous", offer(other, "beta")}
		if key != "" {
			lines = append(lines, offer(p, "acme", "credentials api_key "+key))
		}
		return testbed.Bridge(lines...)
	}
	keys := func(part hostile.Part) map[string]bool {
		sent := map[string]bool{}
		for _, r := range p.Requests("acme/later", part) {
			sent[r.Header.Get("X-Key")] = true
		}
		return sent
	}
	c := testbed.StartCaddy(t, config("first-key"))
	client := unpooled(c.Client)
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Status, gate.Then(hostile.State("running")), hostile.Usual())
	answered := begin(func() testbed.Answer { return client.Execute("acme.later", nil) })
	testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is under way")

	if err := c.Reload(config("")); err != nil { // the provider is gone
		t.Fatal(err)
	}
	if a := execute(client, "acme.later"); a.Outcome() != "SKILL_NOT_FOUND" || a.Code != -32602 {
		t.Errorf("a skill of a provider that is gone: %v", a)
	}
	gate.Open()
	if a := receive(t, answered); a.Outcome() != "completed" || p.Count("acme/later", hostile.Status) < 2 {
		t.Errorf("the run under way: %v after %d polls", a, p.Count("acme/later", hostile.Status))
	}
	if got := keys(hostile.Status); !maps.Equal(got, map[string]bool{"first-key": true}) {
		t.Errorf("the run under way was asked for with %v, want the key it began with", got)
	}

	if err := c.Reload(config("second-key")); err != nil {
		t.Fatal(err)
	}
	if a := execute(client, "acme.later"); a.Outcome() != "completed" {
		t.Errorf("with another key: %v", a)
	}
	if got := keys(hostile.Invoke); !maps.Equal(got, map[string]bool{"first-key": true, "second-key": true}) {
		t.Errorf("invoked with %v", got)
	}
	onceEach(t, p)
}

// R25: a configuration that is refused changes nothing for the one that runs,
// whenever it is found out: while it is read, set up, or started.
func TestR25InvalidReload(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	good := testbed.Bridge(offer(p, "acme"))
	c := testbed.StartCaddy(t, good)
	var answered atomic.Int64
	stop := testbed.Load{
		Workers: 4,
		Do:      func(int, int) testbed.Answer { return c.Execute("acme.now", nil) },
		Done: func(_, _ int, a testbed.Answer) {
			answered.Add(1)
			if a.Outcome() == "broken" && p.Posts(a.Call) > 0 {
				t.Errorf("a call that the provider has got was not answered: %v", a)
			}
		},
	}.Start(t)
	inUse := p.Port() // by something else: Caddy shares its listeners' ports with nobody who does not ask for it
	for name, caddyfile := range map[string]string{
		"unknown option":     testbed.Bridge("teleport", offer(p, "acme")),
		"two namespaces":     testbed.Bridge(offer(p, "acme"), "provider http://127.0.0.1:1 {\n\tnamespace acme\n}"),
		"unknown protocol":   testbed.Bridge(offer(p, "acme"), "transport http {\n\tversions 5\n}"),
		"missing secret":     testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials api_key {env.THERE_IS_NO_SUCH_VARIABLE}")),
		"missing file":       testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials api_key {file./there/is/no/such/file}")),
		"no client":          testbed.Bridge("allow_anonymous", offer(p, "acme", "credentials oauth2 {\n\t\tclient_secret x\n\t}")),
		"a port that is not": good + "http://127.0.0.1:" + inUse + " {\n\tskill_bridge {\n\t\tcaller late\n\t}\n}\n",
	} {
		before := answered.Load()
		err := c.Reload(caddyfile)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		testbed.Eventually(t, patience, func() bool { return answered.Load() >= before+10 }, name+": calls go on")
	}
	report := stop()
	// The configuration that fails when it is started has opened the port by then:
	// Caddy may lose what waits in its queue, as with a reload that succeeds.
	report.Only(t, "completed", "broken")
	if n := report.Outcomes["broken"]; n > 4 {
		t.Errorf("%d calls had no answer", n)
	}
	if n := p.Count("", hostile.Index); n != 1 {
		t.Errorf("the index was fetched %d times, want once", n)
	}
	// What a refused configuration held is given back: else the pool would still
	// have the documents.
	for _, caddyfile := range []string{withoutBridge, good} {
		if err := c.Reload(caddyfile); err != nil {
			t.Fatal(err)
		}
	}
	if a := execute(unpooled(c.Client), "acme.now"); a.Outcome() != "completed" || p.Count("", hostile.Index) != 2 {
		t.Errorf("the index was fetched %d times in all, want twice: %v", p.Count("", hostile.Index), a)
	}
}

// stopping is a provider whose runs end when a test wants it, and the calls that
// a process that is to be stopped has under way.
type stopping struct {
	*hostile.Provider
	inTime *hostile.Gate // runs that end before the process
	calls  []underWay
}

// underWay is a call that has not been answered yet.
type underWay struct {
	skill    string
	answered <-chan stamped
}

// stamped is an answer, and when it came.
type stamped struct {
	testbed.Answer
	at time.Time
}

func newStopping(t *testing.T) *stopping {
	t.Helper()
	s := &stopping{
		Provider: hostile.NewProvider(t, hostile.Skill{ID: "acme/accepted"}, hostile.Skill{ID: "acme/silent"}, hostile.Skill{ID: "acme/intime"}),
		inTime:   hostile.NewGate(t),
	}
	s.On("acme/accepted", hostile.Invoke, hostile.Accept(1<<30))
	s.On("acme/silent", hostile.Invoke, hostile.Hang())
	s.On("acme/intime", hostile.Invoke, hostile.Accept(0))
	s.On("acme/intime", hostile.Status, s.inTime.Then(hostile.Usual()))
	return s
}

// begin makes one call of each kind and returns when all are under way.
func (s *stopping) begin(t *testing.T, c *testbed.Client) {
	t.Helper()
	client := unpooled(c)
	runs, silent, waiting := s.Runs(), s.Hanging(), s.inTime.Waiting()
	for _, skill := range []string{"accepted", "silent", "intime"} {
		answered := make(chan stamped, 1)
		s.calls = append(s.calls, underWay{skill, answered})
		go func() {
			a := client.Execute("acme."+skill, nil)
			answered <- stamped{a, time.Now()}
		}()
	}
	testbed.Eventually(t, patience, func() bool {
		return s.Runs() == runs+2 && s.Hanging() == silent+1 && s.inTime.Waiting() == waiting+1
	}, "the calls are under way")
	polls := s.Count("acme/accepted", hostile.Status)
	testbed.Eventually(t, patience, func() bool { return s.Count("acme/accepted", hostile.Status) > polls }, "the run is followed")
}

// end looks at the answers of all calls. Those that can't end in time are answered
// not before the given moment.
func (s *stopping) end(t *testing.T, notBefore time.Time) {
	t.Helper()
	for _, call := range s.calls {
		var a stamped
		select {
		case a = <-call.answered:
		case <-time.After(patience):
			t.Fatalf("%s: no answer", call.skill)
		}
		if call.skill == "intime" {
			if a.Outcome() != "completed" {
				t.Errorf("a run that ends in time: %v", a)
			}
			continue
		}
		if a.Outcome() != "INVOCATION_TIMEOUT" || a.Code != -32052 || a.Data.Source != "bridge" {
			t.Errorf("%s: %v, want -32052 from the bridge", call.skill, a)
			continue
		}
		if a.at.Before(notBefore) {
			t.Errorf("%s was answered %s too early", call.skill, notBefore.Sub(a.at))
		}
		runs := s.Accepted(a.Call)
		switch {
		case call.skill == "silent":
			if a.Data.ExecutionID != "" || a.Data.Executed != "maybe" || a.Data.Next != "none" {
				t.Errorf("an invocation that was not answered: %v", a)
			}
		case len(runs) != 1 || a.Data.ExecutionID != runs[0] || a.Data.Executed != "yes" || a.Data.Next != "follow_run":
			t.Errorf("the run %v: %v", runs, a)
		}
	}
}

// generation is a Caddyfile that polls often and is unlike others.
func generation(n int, s *stopping) string {
	return testbed.Bridge(polling, fmt.Sprintf("timeout %dm", n), offer(s.Provider, "acme"))
}

// logged waits for a line in a process's log.
func logged(t *testing.T, p *testbed.Process, text string) {
	t.Helper()
	testbed.Eventually(t, patience, func() bool { return p.Log.Has(text) }, "the log says: "+text)
}

// R26: when the process is told to stop, the runs of all configurations that there
// were have the grace period to end; a second before it ends, those that have not
// are answered with the ids of their runs, and the process ends in time.
func TestR26GracePeriod(t *testing.T) {
	t.Parallel()
	const grace, slack = 3 * time.Second, 10 * time.Second // the slack is for a busy machine
	removed := testbed.Bridge("provider http://127.0.0.1:1 {\n\tnamespace other\n}")
	for name, last := range map[string]func(*stopping) string{
		"as before":        func(s *stopping) string { return generation(3, s) },
		"provider removed": func(*stopping) string { return removed },
		"no bridge":        func(*stopping) string { return withoutBridge },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStopping(t)
			p := testbed.StartProcess(t, testbed.Limits{}, generation(1, s), "grace_period 3s")
			s.begin(t, p.Client)
			for _, caddyfile := range []string{generation(2, s), last(s)} {
				if err := p.Reload(caddyfile, "grace_period 3s"); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(caddyfile, s.URL()) {
					s.begin(t, p.Client)
				}
			}
			told := time.Now()
			p.Signal(syscall.SIGTERM)
			logged(t, p, "shutting down apps")
			s.inTime.Open()
			if code := p.Wait(grace + time.Second + slack); code != 0 {
				t.Errorf("exit status %d\n%s", code, p.Log.Text())
			}
			ended := time.Since(told)
			if ended > grace+time.Second {
				t.Logf("the process ended %s after it had been told to, want %s", ended, grace+time.Second)
			}
			s.end(t, told.Add(grace-time.Second-500*time.Millisecond))
			onceEach(t, s.Provider)
		})
	}
}

// R26: without a grace period, all runs end, however long they take; also those
// of configurations that have gone.
func TestR26WithoutGracePeriod(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]func(config string) string{
		"as before": func(config string) string { return config },
		"no bridge": func(string) string { return withoutBridge },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/later"})
			gate := hostile.NewGate(t)
			provider.On("acme/later", hostile.Invoke, hostile.Accept(0))
			provider.On("acme/later", hostile.Status, gate.Then(hostile.Usual()))
			config := testbed.Bridge(polling, offer(provider, "acme"))
			p := testbed.StartProcess(t, testbed.Limits{}, config)
			client := unpooled(p.Client)
			old := begin(func() testbed.Answer { return client.Execute("acme.later", nil) })
			testbed.Eventually(t, patience, func() bool { return gate.Waiting() == 1 }, "the run is under way")
			if err := p.Reload(last(config)); err != nil {
				t.Fatal(err)
			}
			p.Signal(syscall.SIGTERM)
			logged(t, p, "eternal grace period")
			select {
			case <-p.Exited():
				t.Fatalf("the process did not wait for the run\n%s", p.Log.Text())
			case <-time.After(1500 * time.Millisecond): // more than the last moment
			}
			if n := gate.Waiting(); n != 1 {
				t.Errorf("%d runs are under way, want 1", n)
			}
			gate.Open()
			if a := receive(t, old); a.Outcome() != "completed" {
				t.Error(a)
			}
			if code := p.Wait(patience); code != 0 {
				t.Errorf("exit status %d\n%s", code, p.Log.Text())
			}
		})
	}
}

// R26: a shutdown delay comes before the grace period: calls are served as ever
// until it is over, and those under way have both to end.
func TestR26ShutdownDelay(t *testing.T) {
	t.Parallel()
	longtest.Need(t, longtest.Long)
	const delay, grace = 1500 * time.Millisecond, 2 * time.Second
	s := newStopping(t)
	p := testbed.StartProcess(t, testbed.Limits{}, generation(1, s), "shutdown_delay 1500ms", "grace_period 2s")
	s.begin(t, p.Client)
	told := time.Now()
	p.Signal(syscall.SIGTERM)
	logged(t, p, "shutdown scheduled")
	s.begin(t, p.Client) // arrive during the delay
	s.inTime.Open()
	if code := p.Wait(patience); code != 0 {
		t.Errorf("exit status %d\n%s", code, p.Log.Text())
	}
	s.end(t, told.Add(delay+grace-time.Second-500*time.Millisecond))
}

// R26: a signal to stop at once is obeyed, as Caddy obeys it: a second SIGINT, and
// SIGQUIT. (A second SIGTERM is no such signal to Caddy.)
func TestR26ForcedExit(t *testing.T) {
	t.Parallel()
	for name, signals := range map[string][]os.Signal{
		"second SIGINT":       {os.Interrupt, os.Interrupt},
		"SIGQUIT":             {syscall.SIGQUIT},
		"SIGINTs on SIGTERMs": {syscall.SIGTERM, syscall.SIGTERM, os.Interrupt, os.Interrupt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := hostile.NewProvider(t, hostile.Skill{ID: "acme/silent"})
			provider.On("acme/silent", hostile.Invoke, hostile.Hang())
			p := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge(offer(provider, "acme")))
			client := unpooled(p.Client)
			answered := begin(func() testbed.Answer { return client.Execute("acme.silent", nil) })
			testbed.Eventually(t, patience, func() bool { return provider.Hanging() == 1 }, "the call is under way")
			for i, signal := range signals {
				if i > 0 { // signals that nobody has taken yet become one
					line := `"signal":"SIGINT"`
					if signals[i-1] == os.Signal(syscall.SIGTERM) {
						line = "eternal grace period"
					}
					logged(t, p, line)
				}
				p.Signal(signal)
			}
			const forced = 2 // Caddy's exit status for that
			if code := p.Wait(patience); code != forced {
				t.Errorf("exit status %d, want %d\n%s", code, forced, p.Log.Text())
			}
			if a := receive(t, answered); a.Outcome() != "broken" {
				t.Errorf("the call under way: %v", a)
			}
		})
	}
}
