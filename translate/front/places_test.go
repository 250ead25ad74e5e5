package front_test

import (
	"strconv"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// TestPlaces: places are bounded in all and for each principal, others find room, and places are free again after the leaving.
func TestPlaces(t *testing.T) {
	var p front.Places
	enter := func(principal string, want bool) func() {
		t.Helper()
		leave, ok := p.Enter(principal, 6, 3)
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
	of[1] = append(of[1], enter("", true))
	enter("", false) // two thirds are taken by two
	of[1] = append(of[1], enter("bob", true), enter("eve", true))
	enter("joe", false) // all are taken
	of[0][0]()
	enter("ann", false) // four have four fifths
	of[1][0]()
	enter("ann", true)
	enter("joe", true)
	enter("ann", false)
}

// TestPlacesForOthers: however many principals take all that they can, there is room for another one.
func TestPlacesForOthers(t *testing.T) {
	var p front.Places
	for i := range 9 {
		n := 0
		for _, ok := p.Enter(strconv.Itoa(i), 100, 64); ok; _, ok = p.Enter(strconv.Itoa(i), 100, 64) {
			n++
		}
		if n == 0 {
			t.Errorf("there is no room for principal %d", i)
		}
		if i == 0 && n != 50 {
			t.Errorf("one principal takes %d", n)
		}
	}
}
