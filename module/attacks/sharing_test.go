package attacks_test

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// caching is a bridge at {$PORT} that keeps documents and failures for a while, as it
// does by default.
func caching(lines ...string) string {
	return testbed.Bridge(append(lines, "allow_anonymous")...)
}

// elsewhere makes the site of a Caddyfile another one, at {$PORT_B}.
func elsewhere(caddyfile string) string {
	return strings.Replace(strings.Replace(caddyfile, "{$PORT}", "{$PORT_B}", 1), "{$PORT_B} {\n\tskill_bridge /rpc {", "{$PORT_B} {\n\tskill_bridge /rpc {\n\t\tname elsewhere", 1)
}

// second returns a client of the site at {$PORT_B}.
func second(t *testing.T, c *testbed.Caddy) *testbed.Client {
	t.Helper()
	return testbed.NewClient(t, strings.Replace(c.URL, c.Port("PORT"), c.Port("PORT_B"), 1))
}

// listing returns a victim with a skill, and a provider that lists the victim's
// descriptor as one of its own.
func listing(t *testing.T) (victim, attacker *hostile.Provider) {
	t.Helper()
	victim = hostile.NewProvider(t, hostile.Skill{ID: "victim/pay"}, hostile.Skill{ID: "victim/down", Unlisted: true})
	attacker = hostile.NewProvider(t, hostile.Skill{ID: "evil/own"}, hostile.Skill{ID: "evil/theirs", DescriptorURL: victim.URLOf("victim/pay", hostile.Descriptor)})
	return victim, attacker
}

// S45: what a provider's own secrets decide about a document says nothing about
// the document to another provider: an API key or an access token that equals the
// victim's skill id keeps the victim's descriptor from no other provider.
func TestS45SecretsOfAnotherProvider(t *testing.T) {
	const id = "victim/pay"
	t.Setenv("S_KEY", id)
	for name, credentials := range map[string]string{
		"API key":      "credentials api_key {env.S_KEY}",
		"access token": "credentials oauth2 {\n\tclient_id bridge\n\tclient_secret {env.S_KEY}-secret\n}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]string{{"evil.theirs", "victim.pay"}, {"victim.pay", "evil.theirs", "victim.pay"}} {
				victim, attacker := listing(t)
				attacker.Publish(hostile.Skill{ID: "evil/own", Auth: hostile.OAuth2(attacker.TokenURL())})
				attacker.On("", hostile.Token, hostile.Issue(id, time.Hour))
				c := testbed.StartCaddy(t, caching(provider(attacker.URL(), "evil", credentials), provider(victim.URL(), "victim")))
				c.Execute("evil.own", nil) // obtains the token
				for _, name := range order {
					if a := c.Execute(name, nil); name == "victim.pay" && a.Outcome() != "completed" {
						t.Errorf("%q: the victim's skill: %v", order, a)
					}
				}
				c.Stop()
			}
		})
	}
}

// S45: what a circuit breaker of one provider refuses, it refuses that provider.
func TestS45BreakerOfAnotherProvider(t *testing.T) {
	victim, attacker := listing(t)
	victim.On("victim/down", hostile.Descriptor, hostile.Respond(http.StatusServiceUnavailable, ""))
	const failures = 3
	for n := range failures {
		id := "evil/down" + strconv.Itoa(n)
		attacker.Publish(hostile.Skill{ID: id, DescriptorURL: victim.URLOf("victim/down", hostile.Descriptor) + "?n=" + strconv.Itoa(n)})
	}
	c := testbed.StartCaddy(t, caching("circuit_breaker {\n\tfailures "+strconv.Itoa(failures)+"\n\tcooldown 10m\n}",
		provider(attacker.URL(), "evil"), provider(victim.URL(), "victim")))
	for n := range failures {
		c.Execute("evil.down"+strconv.Itoa(n), nil)
	}
	if a := c.Execute("evil.theirs", nil); !strings.Contains(string(a.Data.Details), `"circuit_breaker"`) {
		t.Fatalf("the breaker is not open: %v", a)
	}
	mustComplete(t, c.Execute("victim.pay", nil))
}

// S45: two sites with the same settings share no circuit breaker for sources that
// only have their names in common.
func TestS45BreakerOfAnotherSite(t *testing.T) {
	victim, attacker := listing(t)
	victim.On("victim/down", hostile.Descriptor, hostile.Respond(http.StatusServiceUnavailable, ""))
	attacker.Publish(hostile.Skill{ID: "evil/down", DescriptorURL: victim.URLOf("victim/down", hostile.Descriptor)})
	lines := []string{"allow_ports " + victim.Port(), "circuit_breaker {\n\tfailures 1\n\tcooldown 10m\n}"}
	c := testbed.StartCaddy(t, elsewhere(caching(append(lines, provider(attacker.URL(), "acme"))...))+caching(append(lines, provider(victim.URL(), "acme"))...))
	b := second(t, c)
	b.Execute("acme.evil.down", nil)
	if a := b.Execute("acme.evil.theirs", nil); !strings.Contains(string(a.Data.Details), `"circuit_breaker"`) {
		t.Fatalf("the breaker is not open: %v", a)
	}
	mustComplete(t, c.Execute("acme.victim.pay", nil))
}

// S45: of two sites whose written ports differ, neither is refused a document because
// the other may not read it, and neither gets one past its own guard because
// the other may: whoever is first, and also if both read at the same time. The same
// provider in both makes no difference.
func TestS45PortsOfAnotherSite(t *testing.T) {
	read := func(c *testbed.Client, name string) testbed.Answer {
		return c.Call("describe_skill", hostile.Object{"name": name})
	}
	described := func(t *testing.T, who string, a testbed.Answer) {
		t.Helper()
		if a.Result == nil {
			t.Errorf("%s: not described: %v", who, a)
		}
	}
	t.Run("two providers", func(t *testing.T) {
		for _, strangerFirst := range []bool{true, false} {
			victim, attacker := listing(t)
			attacker.Publish(hostile.Skill{ID: "victim/pay", DescriptorURL: victim.URLOf("victim/pay", hostile.Descriptor)})
			c := testbed.StartCaddy(t, elsewhere(caching(provider(attacker.URL(), "evil")))+caching(provider(victim.URL(), "victim")))
			b := second(t, c)
			if !strangerFirst {
				described(t, "the victim", read(c.Client, "victim.pay"))
			}
			mustBeRefused(t, read(b, "evil.victim.pay"))
			described(t, "the victim", read(c.Client, "victim.pay"))
			mustBeRefused(t, read(b, "evil.victim.pay"))
			c.Stop()
		}
	})
	// The descriptor is elsewhere from the beginning, or redirected there.
	for _, redirected := range []bool{false, true} {
		setUp := func(t *testing.T) (c *testbed.Caddy, open, closed *testbed.Client, gate *hostile.Gate) {
			t.Helper()
			host := hostile.NewProvider(t, hostile.Skill{ID: "acme/pay"})
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/pay"})
			gate = hostile.NewGate(t)
			if redirected {
				p.On("acme/pay", hostile.Descriptor, gate.Then(hostile.Redirect(http.StatusFound, host.URLOf("acme/pay", hostile.Descriptor))))
			} else {
				p.Publish(hostile.Skill{ID: "acme/pay", DescriptorURL: host.URLOf("acme/pay", hostile.Descriptor)})
			}
			c = testbed.StartCaddy(t, testbed.AdminAPI+elsewhere(caching(provider(p.URL(), "acme")))+caching(provider(host.URL(), "other"), provider(p.URL(), "acme")))
			return c, c.Client, second(t, c), gate
		}
		name := map[bool]string{false: "listed", true: "redirected"}[redirected]
		t.Run("one provider, "+name, func(t *testing.T) {
			for _, closedFirst := range []bool{true, false} {
				c, open, closed, gate := setUp(t)
				gate.Open()
				if !closedFirst {
					described(t, "who may read it", read(open, "acme.pay"))
				}
				mustBeRefused(t, read(closed, "acme.pay"))
				described(t, "who may read it", read(open, "acme.pay"))
				mustBeRefused(t, read(closed, "acme.pay"))
				c.Stop()
			}
		})
		if !redirected {
			continue
		}
		t.Run("one provider, at the same time", func(t *testing.T) {
			for _, closedFirst := range []bool{true, false} {
				c, open, closed, gate := setUp(t)
				order := []*testbed.Client{open, closed}
				if closedFirst {
					order = []*testbed.Client{closed, open}
				}
				var calls sync.WaitGroup
				for i, client := range order {
					for range 8 {
						calls.Go(func() {
							if a := read(client, "acme.pay"); client == open {
								described(t, "who may read it", a)
							} else {
								mustBeRefused(t, a)
							}
						})
					}
					testbed.Eventually(t, 30*time.Second, func() bool { return gate.Waiting() == 1 && c.InProgress() == 8*(i+1) }, "all wait for the descriptor")
				}
				gate.Open()
				calls.Wait()
				c.Stop()
			}
		})
	}
}
