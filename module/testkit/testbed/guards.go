package testbed

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/guards"
)

// Guard changes the guards of the bridges that are started in this process before the test ends.
func Guard(tb testing.TB, change func(*guards.Guards)) {
	tb.Helper()
	before := guards.Current
	tb.Cleanup(func() { guards.Current = before })
	change(&guards.Current)
}
