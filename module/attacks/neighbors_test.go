package attacks_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S25: a host gets the keys of two blocks of the configuration, and repeats both in each answer. None is shown. Of a key that a host never
// gets, it does not learn whether it has guessed it.
func TestS25KeysOfOneHost(t *testing.T) {
	const first, second = "first-key-5Qx7", "second-key-9Lm2"
	t.Setenv("S25_FIRST", first)
	t.Setenv("S25_SECOND", second)
	host := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	other := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, bridge("allow_networks 127.0.0.0/8", "allow_anonymous",
		provider(host.URL(), "a", "credentials api_key {env.S25_FIRST}"), provider(host.URL(), "b", "credentials api_key {env.S25_SECOND}"),
		provider(other.URL(), "c", "credentials api_key another-key-1", "trust trusted.example"),
		provider("http://unused.example", "d", "credentials api_key another-key-2", "trust trusted.example")))
	for _, p := range []*hostile.Provider{host, other} {
		p.Script("s/key", hostile.Invoke, func(n int) hostile.Action {
			if n%2 == 0 {
				return hostile.Problem(http.StatusForbidden, "AUTH_INVALID", first+" and "+second+" and another-key-2")
			}
			return hostile.Complete(hostile.Object{first: second, "more": "another-key-2"})
		})
	}
	for name, want := range map[string]struct{ keys, related bool }{"a.s.key": {false, true}, "b.s.key": {false, true}, "c.s.key": {true, false}} {
		for range 2 {
			a := c.Execute(name, nil)
			for _, key := range []string{first, second} {
				if strings.Contains(string(a.Body), key) != want.keys {
					t.Errorf("%s: %s", name, a.Body)
				}
			}
			if strings.Contains(string(a.Body), "another-key-2") != want.related {
				t.Errorf("%s: %s", name, a.Body)
			}
		}
	}
}
