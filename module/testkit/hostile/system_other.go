//go:build !unix

package hostile

import "testing"

// BlackHole skips the test: on this system, a full listener refuses connections.
func BlackHole(tb testing.TB) (address string) {
	tb.Helper()
	tb.Skip("there is no address here at which connecting never ends")
	return ""
}

// Pipe skips the test: this system has no named pipes.
func Pipe(tb testing.TB) (path string) {
	tb.Helper()
	tb.Skip("there is no file here whose opening never ends")
	return ""
}
