package front_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// TestPlaces: places are bounded in all and for each principal, and are free again after the leaving.
func TestPlaces(t *testing.T) {
	var p front.Places
	enter := func(principal string, want bool) func() {
		t.Helper()
		leave, ok := p.Enter(principal, 5, 3)
		if ok != want {
			t.Errorf("%q: %t", principal, ok)
		}
		return leave
	}
	var of [2][]func()
	for range 3 {
		of[0] = append(of[0], enter("ann", true))
	}
	enter("ann", false)
	for range 2 {
		of[1] = append(of[1], enter("", true))
	}
	enter("", false)
	enter("eve", false)
	of[0][0]()
	of[1][1] = enter("", true)
	enter("ann", false) // all are taken
	of[1][0]()
	enter("ann", true)
}
