package testbed

import (
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// FreePort returns a port of 127.0.0.1 that only Caddy can listen on until the test ends. A socket that is bound to it, but does not
// listen, reserves it. Caddy sets SO_REUSEPORT on its listeners, as this socket does, so it can listen. Without the
// reservation, Caddys of two test processes could get the same port, and each would receive some of the other's requests.
func FreePort(tb testing.TB) string {
	tb.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = unix.Close(socket) }) // nothing was written
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		tb.Fatal(err)
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte(net.ParseIP(loopback).To4())}); err != nil {
		tb.Fatal(err)
	}
	address, err := unix.Getsockname(socket)
	if err != nil {
		tb.Fatal(err)
	}
	return strconv.Itoa(address.(*unix.SockaddrInet4).Port)
}
