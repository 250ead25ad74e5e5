package bridge

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// failingKeys have no secret at the moment.
type failingKeys struct{ runtokens.Sealed }

var errDown = errors.New("down")

func (failingKeys) Secret(context.Context, string) ([]byte, error) { return nil, errDown }

// TestCallersWithoutSecret: a call whose hash can't be made is not executed, and may be repeated. Values without a hash need no secret.
func TestCallersWithoutSecret(t *testing.T) {
	config := &translate.Config{Caller: skillsharing.Caller{ID: principalHash, Type: "user"}}
	tellCallers(config, "b", failingKeys{})
	_, failure := config.CallerOf(t.Context(), "alice", new(url.URL))
	if failure == nil || failure.Next() != run.NextRetry || failure.Executed != run.ExecutedNo || !errors.Is(failure, errDown) {
		t.Errorf("%+v", failure)
	}
	config.Caller = skillsharing.Caller{ID: defaultPrincipal, Type: "user"}
	tellCallers(config, "b", failingKeys{})
	if caller, failure := config.CallerOf(t.Context(), "alice", new(url.URL)); failure != nil || caller != (skillsharing.Caller{ID: "alice", Type: "user"}) {
		t.Errorf("%+v, %v", caller, failure)
	}
	equal(t, "an anonymous caller", config.Caller, ofBridge)
	config = &translate.Config{Caller: skillsharing.Caller{ID: "us", Type: "service"}}
	if tellCallers(config, "b", failingKeys{}); config.CallerOf != nil || config.Caller.ID != "us" {
		t.Errorf("%+v", config.Caller)
	}
}

// TestHashesOfOrigins: an origin is the same however it is written, and whatever its URLs are.
func TestHashesOfOrigins(t *testing.T) {
	secret := make([]byte, 32)
	of := func(text string) string {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return hashOf(secret, "b", u, "alice")
	}
	want := of("https://acme.example")
	for _, same := range []string{"https://ACME.example:443/x?y", "https://acme.example/.well-known/skill-sharing"} {
		equal(t, same, of(same), want)
	}
	for _, other := range []string{"http://acme.example", "https://acme.example:8443", "https://acme2.example"} {
		if of(other) == want {
			t.Errorf("%s has the same hash", other)
		}
	}
}
