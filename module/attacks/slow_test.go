package attacks_test

import (
	"os"
	"testing"
)

// slowTests reports whether tests that take minutes are asked for, too.
func slowTests() bool { return os.Getenv("SKILL_BRIDGE_SLOW_TESTS") != "" }

// slow skips a test unless slow ones are asked for.
func slow(t *testing.T) {
	t.Helper()
	if !slowTests() {
		t.Skip("set SKILL_BRIDGE_SLOW_TESTS to run it")
	}
}
