package lifetime_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
)

func TestUsage(t *testing.T) {
	var released, idled int
	u := lifetime.NewUsage(func() { idled++ })
	u.OnRelease(func() { released++ })
	check := func(step string, wantReleased, wantIdled int) {
		t.Helper()
		if released != wantReleased || idled != wantIdled {
			t.Errorf("%s: released %d times, idle connections closed %d times; want %d and %d", step, released, idled, wantReleased, wantIdled)
		}
	}
	u.Acquire()
	u.Done()
	check("a request before Cleanup", 0, 0)
	u.Acquire()
	u.Acquire()
	u.Leave()
	u.Leave()
	check("Cleanup during two requests", 0, 0)
	u.Done()
	check("the first of them ends", 0, 0)
	u.Done()
	check("the last of them ends", 1, 1)
	u.Acquire()
	u.Done()
	check("a request after Cleanup", 1, 2)
}
