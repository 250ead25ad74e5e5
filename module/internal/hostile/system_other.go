//go:build !unix

package hostile

import "testing"

// BlackHole skips the test: a listener here refuses what its queue has no place for.
func BlackHole(tb testing.TB) (address string) {
	tb.Helper()
	tb.Skip("there is no address here at which connecting never ends")
	return ""
}

// Pipe skips the test: it takes a kind of file that there is not here.
func Pipe(tb testing.TB) (path string) {
	tb.Helper()
	tb.Skip("there is no file here whose opening never ends")
	return ""
}
