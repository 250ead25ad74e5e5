package faults_test

import (
	"os"
	"testing"
)

// isSlow reports whether the tests may take minutes.
func isSlow() bool { return os.Getenv("SKILL_BRIDGE_SLOW_TESTS") != "" }

// slow skips a test that takes minutes, unless it was asked for.
func slow(t *testing.T) {
	t.Helper()
	if !isSlow() {
		t.Skip("takes minutes: runs when SKILL_BRIDGE_SLOW_TESTS is set")
	}
}
