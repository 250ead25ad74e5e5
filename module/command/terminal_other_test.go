//go:build !linux

package command_test

import (
	"os/exec"
	"testing"
)

// atTerminal skips the test: only on Linux it makes a terminal.
func atTerminal(t *testing.T, _ *exec.Cmd, _ ...string) string {
	t.Helper()
	t.Skip("this test makes a terminal on Linux only")
	return ""
}
