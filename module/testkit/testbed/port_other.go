//go:build !linux

package testbed

import "testing"

// FreePort returns a port of 127.0.0.1 for Caddy. Here, it can't be reserved.
func FreePort(tb testing.TB) string {
	tb.Helper()
	return UnusedPort(tb)
}
