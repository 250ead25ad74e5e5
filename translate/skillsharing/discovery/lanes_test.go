package discovery_test

import (
	"context"
	"errors"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// TestLanePanics: a panic of a reading is one of the call that waits for all lanes.
func TestLanePanics(t *testing.T) {
	bug := panics.Recovered(func() {
		new(discovery.Stalls).Read(t.Context(), map[int]discovery.Lane{0: {Host: "a.example"}, 1: {Host: "b.example"}}, func(_ context.Context, i int) bool {
			if i == 1 {
				panic("a bug")
			}
			return false
		})
	})
	if p, ok := errors.AsType[*panics.Panic](bug); !ok || p.Value != "a bug" {
		t.Errorf("%v", bug)
	}
}

// A registry may write the URL of a descriptor in another way than the provider whose credentials its skill has.
func TestLocationsOfOneDescriptor(t *testing.T) {
	for _, text := range []string{"https://ACME.example:443/a/X.json?v=1#top", "HTTPS://acme.example/a/X.json?v=1", "https://acme.Example:/a/X.json?v=1"} {
		if at := discovery.NewLocation(text); at != "https://acme.example/a/X.json?v=1" {
			t.Errorf("%s: %s", text, at)
		}
	}
}
