package testbed_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// bridgeTo returns the Caddyfile of a bridge to a provider.
func bridgeTo(p *hostile.Provider, lines ...string) string {
	return testbed.Bridge(append(lines, "poll_interval 10ms 20ms", "provider "+p.URL()+" {", "\tnamespace acme", "}")...)
}

func TestReload(t *testing.T) {
	testbed.CheckLeaks(t)
	p := newEcho(t)
	gate := hostile.NewGate(t)
	p.On("acme/echo", hostile.Invoke, gate.Then(hostile.Complete(7)))
	c := testbed.StartCaddy(t, bridgeTo(p))
	port := c.Port("PORT")
	load := testbed.Load{Workers: 20, Calls: 20, Do: func(int, int) testbed.Answer { return c.Execute("acme.echo", nil) }}
	stop := load.Start(t)
	testbed.Eventually(t, soon, func() bool { return gate.Waiting() == 20 }, "all calls are under way")
	if err := c.Reload(bridgeTo(p, "priority low")); err != nil {
		t.Fatal(err)
	}
	if c.Port("PORT") != port {
		t.Error("the port has changed")
	}
	if err := c.Reload(bridgeTo(p, "no_such_option")); err == nil || !strings.Contains(err.Error(), "no_such_option") {
		t.Errorf("%v", err)
	}
	gate.Open()
	report := stop()
	report.Only(t, "completed")
	if report.Total != 20 || len(p.Duplicates()) != 0 || p.Posts("") != 0 {
		t.Errorf("%v, duplicates %v", report, p.Duplicates())
	}
	if a := c.With(testbed.Fresh()).Execute("acme.echo", nil); a.Outcome() != "completed" || !strings.Contains(p.Requests("acme/echo", hostile.Invoke)[20].Body, `"low"`) {
		t.Errorf("%v", a)
	}
	c.Stop()
	if a := c.Execute("acme.echo", nil); a.Outcome() != "broken" {
		t.Errorf("%v", a)
	}
}

// TestLeaks uses features for which Caddy leaves goroutines behind.
func TestLeaks(t *testing.T) {
	testbed.CheckLeaks(t)
	ca := hostile.NewCA(t)
	p := hostile.NewTLSProvider(t, ca, hostile.Valid, hostile.Skill{ID: "acme/echo"}).As("skills.example.test")
	s := hostile.NewNameServer(t)
	s.Set("skills.example.test", hostile.Addresses("127.0.0.1"))
	c := testbed.StartCaddy(t, `{
	metrics
	admin 127.0.0.1:{$ADMIN}
	log other {
		include http
	}
}
`+bridgeTo(p, s.Transport("tls_trust_pool file "+ca.File()))+`
https://127.0.0.1:{$PORT2} {
	tls internal
	respond hello
}
`)
	if !c.Log.Has("trust store installation disabled") {
		t.Error("the certificate authority may have been installed")
	}
	fresh := c.With(testbed.Fresh())
	for range 3 {
		if a := fresh.Execute("acme.echo", nil); a.Outcome() != "completed" {
			t.Errorf("%v", a)
		}
		if a := fresh.Send(http.MethodGet, "http://127.0.0.1:"+c.Port("ADMIN")+"/metrics", ""); !strings.Contains(string(a.Body), "caddy_") {
			t.Errorf("%v", a)
		}
		if err := c.Reload(bridgeTo(p, s.Transport("tls_trust_pool file "+ca.File()))); err != nil {
			t.Error(err)
		}
		if a := fresh.Execute("acme.echo", nil); a.Outcome() != "completed" {
			t.Errorf("%v", a)
		}
		if err := c.Reload("{\n\tadmin 127.0.0.1:{$ADMIN}\n\tmetrics\n}\n" + bridgeTo(p, s.Transport("tls_trust_pool file "+ca.File()))); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckLeaks(t *testing.T) {
	f := &testbed.Recorder{TB: t}
	stop := make(chan struct{})
	t.Run("leaking", func(t *testing.T) {
		f.TB = t
		testbed.CheckLeaks(f)
		go func() { <-stop }()
	})
	close(stop)
	if len(f.Failures) != 1 {
		t.Errorf("%v", f.Failures)
	}
}

func TestClient(t *testing.T) {
	p := newEcho(t)
	p.Publish(hostile.Skill{ID: "acme/second", Auth: hostile.APIKey("X-API-Key")}, hostile.Skill{ID: "acme/hidden", Unlisted: true})
	c := testbed.StartCaddy(t, testbed.Site(testbed.Accounts("alice", "bob"), "skill_bridge /rpc {",
		"allow_http", "allow_networks 127.0.0.1", "require_principal",
		"provider "+p.URL()+" {", "\tnamespace acme", "\tcredentials api_key the-key", "}", "}"))
	c.Log.MustNotShow("the-key")
	if a := c.Execute("acme.echo", nil); a.Outcome() != "http 401" {
		t.Errorf("%v", a)
	}
	alice := c.With(testbed.BasicAuth("alice", testbed.Password), testbed.Header("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
		testbed.Timeout(3*time.Second))
	if a := alice.Execute("acme.second", hostile.Object{"more": 1}); a.Outcome() != "completed" || a.Run().RunID != "run-0" {
		t.Errorf("%v", a)
	}
	r := p.Requests("acme/second", hostile.Invoke)
	if len(r) != 1 || r[0].Header.Get("X-Api-Key") != "the-key" || !strings.Contains(r[0].Body, `"more":1`) ||
		!strings.Contains(r[0].Body, "4bf92f3577b34da6a3ce929d0e0e4736") || !strings.Contains(r[0].Body, `"timeout_ms":3000`) {
		t.Errorf("%+v", r)
	}
	if names := alice.Names(); !slices.Equal(names, []string{"acme.echo", "acme.second"}) {
		t.Errorf("%v", names)
	}
	if a := alice.Execute("acme.nothing", nil); a.Outcome() != "SKILL_NOT_FOUND" || a.Code != -32602 || a.Data.Param != "name" {
		t.Errorf("%v", a)
	}
	if a := alice.Call("no_such_method", nil); a.Outcome() != "-32601" {
		t.Errorf("%v", a)
	}
	if a := alice.Post(`{`); a.Outcome() != "-32700" || a.Status != http.StatusBadRequest {
		t.Errorf("%v", a)
	}
	if a := alice.Post(`[{"jsonrpc":"2.0","id":1,"method":"list_skills"}]`); a.Outcome() != "http 200" || !strings.HasPrefix(string(a.Body), "[") {
		t.Errorf("%v", a)
	}
	p.On("acme/echo", hostile.Invoke, hostile.Fail("NO_INK", "Out of ink."), hostile.Problem(http.StatusForbidden, "PERMISSION_DENIED", "No."))
	if a := alice.Execute("acme.echo", nil); a.Outcome() != "failed NO_INK" {
		t.Errorf("%v", a)
	}
	if a := alice.Execute("acme.echo", nil); a.Outcome() != "PERMISSION_DENIED" || a.Data.HTTPStatus != http.StatusForbidden || p.Executions(a.Call) != 0 {
		t.Errorf("%v", a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if a := alice.With(testbed.Context(ctx)).Execute("acme.echo", nil); a.Outcome() != "gone" {
		t.Errorf("%v", a)
	}
	if len(c.Log.Lines("acme/second")) == 0 {
		t.Error("nothing was logged about the skill")
	}
}

func TestLogMustNotShow(t *testing.T) {
	f := &testbed.Recorder{TB: t}
	t.Run("showing", func(t *testing.T) {
		f.TB = t
		p := newEcho(t)
		c := testbed.StartCaddy(f, bridgeTo(p))
		if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
			t.Errorf("%v", a)
		}
		if len(f.Failures) != 0 {
			t.Errorf("%v", f.Failures)
		}
		c.Log.MustNotShow("acme/echo")
		if len(f.Failures) == 0 {
			t.Error("what was logged was not seen")
		}
		f.Failures = nil
		c.Log.Lean()
		if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
			t.Errorf("%v", a)
		}
		if len(f.Failures) == 0 || c.Log.Has("acme/echo") {
			t.Errorf("%v, %s", f.Failures, c.Log.Text())
		}
	})
}

func TestLoad(t *testing.T) {
	answers := []testbed.Answer{
		{Status: 200, Result: []byte(`{"status":"completed"}`), Took: time.Millisecond},
		{Status: 500, Took: time.Second},
	}
	var done int
	report := testbed.Load{
		Workers: 3, Calls: 100,
		Do:   func(_, call int) testbed.Answer { return answers[min(call%10, 1)^1] },
		Done: nil,
	}.Run(t)
	if report.Total != 100 || report.Outcomes["completed"] != 90 || report.Outcomes["http 500"] != 10 || len(report.Samples["http 500"]) != 3 {
		t.Errorf("%v", report)
	}
	f := &testbed.Recorder{TB: t}
	report.Only(f, "completed")
	if len(f.Failures) != 1 {
		t.Errorf("%v", f.Failures)
	}
	begun := make(chan struct{}, 1000)
	stop := testbed.Load{
		Pace: time.Millisecond,
		Do:   func(int, int) testbed.Answer { begun <- struct{}{}; return answers[0] },
		Done: func(int, int, testbed.Answer) { done++ },
	}.Start(t)
	<-begun
	<-begun
	if report := stop(); report.Total < 2 || done != report.Total {
		t.Errorf("%v, %d done", report, done)
	}
	if report := (testbed.Load{For: time.Millisecond, Do: func(int, int) testbed.Answer { return answers[0] }}).Run(t); report.Total == 0 {
		t.Errorf("%v", report)
	}
}

func TestMeasures(t *testing.T) {
	before, files := testbed.HeapInUse(), testbed.OpenFiles(t)
	block := make([]byte, 50<<20)
	p := newEcho(t)
	if more := testbed.HeapInUse() - before; more < 40<<20 {
		t.Errorf("%d bytes", more)
	}
	if n := testbed.OpenFiles(t); n <= files {
		t.Errorf("%d files, %d before", n, files)
	}
	if p.Open() != 0 {
		t.Errorf("%d connections", p.Open())
	}
	runtime.KeepAlive(block)
	f := &testbed.Recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		testbed.Eventually(f, time.Millisecond, func() bool { return false }, "something")
	}()
	<-done
	if len(f.Failures) != 1 {
		t.Errorf("%v", f.Failures)
	}
}

func TestProcess(t *testing.T) {
	testbed.CheckLeaks(t)
	p := newEcho(t)
	c := testbed.StartProcess(t, testbed.Limits{OpenFiles: 64, Env: []string{"GOMEMLIMIT=200MiB"}}, bridgeTo(p), "grace_period 5s")
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Fatalf("%v", a)
	}
	if n := c.OpenFiles(); n < 5 || n > 64 {
		t.Errorf("%d open files", n)
	}
	if rss := c.RSS(); rss < 10<<20 || rss > 2<<30 {
		t.Errorf("%d bytes", rss)
	}
	testbed.Eventually(t, soon, func() bool { return c.Log.Has(`"acme/echo"`) }, "the skill is logged")
	if err := c.Reload(bridgeTo(p, "priority low"), "grace_period 5s"); err != nil {
		t.Error(err)
	}
	if err := c.Reload(bridgeTo(p, "no_such_option")); err == nil || !strings.Contains(err.Error(), "no_such_option") {
		t.Errorf("%v", err)
	}
	if a := c.With(testbed.Fresh()).Execute("acme.echo", nil); a.Outcome() != "completed" || !strings.Contains(p.Requests("acme/echo", hostile.Invoke)[1].Body, `"low"`) {
		t.Errorf("%v", a)
	}
	if limits := readFile(t, fmt.Sprintf("/proc/%d/limits", c.PID())); !strings.Contains(strings.Join(strings.Fields(limits), " "), "Max open files 64 64") {
		t.Errorf("%s", limits)
	}
	gate := hostile.NewGate(t)
	p.On("acme/echo", hostile.Invoke, gate.Then(hostile.Complete(7)))
	answered := make(chan testbed.Answer, 1)
	go func() { answered <- c.Execute("acme.echo", nil) }()
	testbed.Eventually(t, soon, func() bool { return gate.Waiting() == 1 }, "the call is under way")
	c.Signal(syscall.SIGTERM)
	testbed.Eventually(t, soon, func() bool { return c.Log.Has("shutting down") }, "Caddy is stopping")
	gate.Open()
	if a := <-answered; a.Outcome() != "completed" {
		t.Errorf("%v", a)
	}
	if status := c.Wait(soon); status != 0 {
		t.Errorf("exit status %d\n%s", status, c.Log.Text())
	}
}
