package command_test

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/command"
)

// TestMemoryLimit: a bridge without a configuration has a memory limit of 1 GiB, unless GOMEMLIMIT or the container has set another.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	for limit, want := range map[int64]int64{math.MaxInt64: 1 << 30, 400 << 20: 400 << 20, 8 << 30: 8 << 30} {
		debug.SetMemoryLimit(limit)
		command.LimitMemory()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("with %d: %d, want %d", limit, got, want)
		}
	}
}
