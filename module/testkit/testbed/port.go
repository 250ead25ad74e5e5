package testbed

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// UnusedPort returns a port of 127.0.0.1 that was free at the time of the call, for programs that can't listen on a port of [FreePort].
// Systems choose higher ports for connections and for listeners on port 0, so that none of these takes it in the meantime.
func UnusedPort(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000)) //nolint:gosec // no secret
		if listener, err := net.Listen("tcp", net.JoinHostPort(loopback, port)); err == nil {
			_ = listener.Close() // nothing was sent
			return port
		}
	}
	tb.Fatal("no port is free")
	return ""
}
