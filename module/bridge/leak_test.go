package bridge

import (
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// runningHandler points to the bridge of the configuration that runs, without
// keeping it alive.
func runningHandler(t *testing.T) weak.Pointer[Handler] {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		if h := handlerIn(server.Routes); h != nil {
			return weak.Make(h)
		}
	}
	t.Fatal("the configuration has no bridge")
	return weak.Pointer[Handler]{}
}

func handlerIn(routes caddyhttp.RouteList) *Handler {
	for _, route := range routes {
		for _, handler := range route.Handlers {
			switch h := handler.(type) {
			case *Handler:
				return h
			case *caddyhttp.Subroute:
				if found := handlerIn(h.Routes); found != nil {
					return found
				}
			}
		}
	}
	return nil
}

// pooled counts what configurations share.
func pooled() int { return len(slices.Collect(sharedPool.All())) }

// settleTimers has every processor look at its timers: those that were stopped are
// dropped only then, and refer to a call's context until they are.
func settleTimers() {
	var busy sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		busy.Go(func() { time.Sleep(time.Millisecond) })
	}
	busy.Wait()
}

// TestNothingOutlivesItsConfiguration looks at what is left of a configuration
// once its last run has ended. That its handler is garbage then means that no
// goroutine, timer or pool refers to it any more.
func TestNothingOutlivesItsConfiguration(t *testing.T) {
	testbed.CheckLeaks(t)
	shared := pooled()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")}, hostile.Skill{ID: "acme/later", Auth: hostile.APIKey("X-Key")})
	q := hostile.NewProvider(t)
	q.Publish(hostile.Skill{ID: "beta/token", Auth: hostile.OAuth2(q.TokenURL())})
	gate := hostile.NewGate(t)
	p.On("acme/later", hostile.Invoke, hostile.Accept(0))
	p.On("acme/later", hostile.Status, gate.Then(hostile.State("running")), hostile.Usual())
	config := func(caller string) string {
		return testbed.Bridge("allow_anonymous", "poll_interval 10ms 20ms", "caller "+caller,
			"provider "+p.URL()+" {", "\tnamespace acme", "\tcredentials api_key a-key", "}",
			"provider "+q.URL()+" {", "\tnamespace beta", "\tcredentials oauth2 {", "\t\tclient_id bridge", "\t\tclient_secret a-secret", "\t}", "}")
	}
	files := testbed.OpenFiles(t)
	c := testbed.StartCaddy(t, config("first"))
	// Each call has a connection of its own: Caddy closes those that are idle when it
	// replaces a configuration.
	client := c.With()
	client.HTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, skill := range []string{"acme.key", "beta.token"} {
		if a := client.Execute(skill, nil); a.Outcome() != "completed" {
			t.Fatal(a)
		}
	}
	first := runningHandler(t)
	answered := make(chan testbed.Answer, 1)
	go func() { answered <- client.Execute("acme.later", nil) }()
	testbed.Eventually(t, time.Minute, func() bool { return gate.Waiting() == 1 }, "the run is under way")

	if err := c.Reload(config("second")); err != nil {
		t.Fatal(err)
	}
	second := runningHandler(t)
	if n := pooled() - shared; n != 1 {
		t.Errorf("two configurations of the same settings share %d caches, want 1", n)
	}
	runtime.GC()
	if first.Value() == nil {
		t.Fatal("a handler is garbage while a run needs it: this test sees nothing")
	}
	gate.Open()
	if a := <-answered; a.Outcome() != "completed" {
		t.Error(a)
	}
	gone := func(h weak.Pointer[Handler]) func() bool {
		return func() bool {
			settleTimers()
			runtime.GC()
			return h.Value() == nil
		}
	}
	testbed.Eventually(t, time.Minute, gone(first), "nothing refers to the first configuration's handler")
	if n := pooled() - shared; n != 1 {
		t.Errorf("after the first configuration's last run, %d caches, want 1", n)
	}
	c.Stop()
	if n := pooled() - shared; n != 0 {
		t.Errorf("after the last configuration, %d caches are left", n)
	}
	testbed.Eventually(t, time.Minute, gone(second), "nothing refers to the second configuration's handler")
	const reserved = 2 // the sockets that reserve Caddy's port until the end of the test
	testbed.Eventually(t, time.Minute, func() bool { return testbed.OpenFiles(t) <= files+reserved+openByProviders(p, q) }, "no file is left open")
	testbed.Eventually(t, time.Minute, func() bool { return openByProviders(p, q) == 0 }, "no connection to a provider is left open")
}

// openByProviders counts the connections that are open at the providers' side.
func openByProviders(providers ...*hostile.Provider) (n int) {
	for _, p := range providers {
		n += p.Open()
	}
	return n
}
