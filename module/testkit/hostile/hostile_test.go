package hostile_test

import (
	"net/http"
	"testing"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

func TestBridge(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"})
	c := testbed.StartCaddy(t, testbed.Bridge("poll_interval 10ms 20ms", "provider "+p.URL()+" {", "\tnamespace acme", "}"))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" || p.Executions(a.Call) != 1 {
		t.Errorf("%v, %d executions", a, p.Executions(a.Call))
	}
	p.On("acme/slow", hostile.Invoke, hostile.Accept(3))
	if a := c.Execute("acme.slow", nil); a.Outcome() != "completed" || p.Count("acme/slow", hostile.Status) != 4 {
		t.Errorf("%v after %d polls", a, p.Count("acme/slow", hostile.Status))
	}
	p.On("acme/slow", hostile.Invoke, hostile.AcceptForResult(0))
	if a := c.Execute("acme.slow", nil); a.Outcome() != "completed" || p.Count("acme/slow", hostile.Result) != 1 {
		t.Errorf("%v", a)
	}
	p.On("acme/slow", hostile.Invoke, hostile.AcceptFailing(0))
	if a := c.Execute("acme.slow", nil); a.Outcome() != "failed EXECUTION_FAILED" {
		t.Errorf("%v", a)
	}
	p.On("acme/echo", hostile.Invoke, hostile.Reset())
	if a := c.Execute("acme.echo", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" || p.Posts(a.Call) != 1 || a.Data.Executed != "maybe" {
		t.Errorf("%v, %d posts", a, p.Posts(a.Call))
	}
	if !c.Log.Has("acme/echo") {
		t.Error("nothing was logged about the skill")
	}
}

// TestSources: a bridge finds skills by descriptor URL and in a registry.
func TestSources(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/hidden", Unlisted: true})
	c := testbed.StartCaddy(t, testbed.Bridge(
		"registry "+p.URLOf("", hostile.Registry)+" {", "\tnamespace acme", "}",
		"skill hidden "+p.URLOf("acme/hidden", hostile.Descriptor)))
	for _, name := range []string{"acme.echo", "hidden"} {
		if a := c.Execute(name, nil); a.Outcome() != "completed" {
			t.Errorf("%s: %v", name, a)
		}
	}
	if p.Count("", hostile.Registry) != 1 || p.Count("", hostile.Index) != 0 {
		t.Errorf("%d requests to the registry, %d for the index", p.Count("", hostile.Registry), p.Count("", hostile.Index))
	}
	p.Withdraw("acme/hidden")
	if a := testbed.NewClient(t, p.URL()).Send(http.MethodGet, p.URLOf("acme/hidden", hostile.Descriptor), ""); a.Status != http.StatusNotFound {
		t.Errorf("%v", a)
	}
}

// TestTokens uses the token endpoint.
func TestTokens(t *testing.T) {
	p := hostile.NewProvider(t)
	p.Publish(hostile.Skill{ID: "acme/echo", Auth: hostile.OAuth2(p.TokenURL())})
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", "provider "+p.URL()+" {",
		"\tnamespace acme", "\tcredentials oauth2 {", "\t\tclient_id me", "\t\tclient_secret hush", "\t}", "}"))
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Errorf("%v", a)
	}
	if r := p.Requests("acme/echo", hostile.Invoke); len(r) != 1 || r[0].Header.Get("Authorization") != "Bearer "+hostile.IssuedToken {
		t.Errorf("%+v", r)
	}
	if r := p.Received("hush"); len(r) != 1 || r[0].Part != hostile.Token {
		t.Errorf("%+v", r)
	}
}

// A provider does not get the port of an earlier one, whose documents a bridge may still have in its cache.
func TestPortsAreNew(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		p := hostile.NewProvider(t)
		if seen[p.Port()] {
			t.Errorf("port %s again", p.Port())
		}
		seen[p.Port()] = true
		p.Down()
	}
}
