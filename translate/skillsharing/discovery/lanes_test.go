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
