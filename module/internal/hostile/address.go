package hostile

import (
	"net"
	"testing"
)

// Refused is an address that refuses connections, and that no other program can get
// before the test ends: the near end of a connection, at which nothing listens.
func Refused(tb testing.TB) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() }) // nothing can be done about it
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() }) // nothing can be done about it
	return c.LocalAddr().String()
}
