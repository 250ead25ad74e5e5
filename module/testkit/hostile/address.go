package hostile

import (
	"net"
	"testing"
)

// Refused returns an address that refuses connections. It is the local address of an open connection,
// so that no other program can listen there before the test ends.
func Refused(tb testing.TB) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() }) // the error does not matter
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() }) // the error does not matter
	return c.LocalAddr().String()
}
