package testbed

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// FreePort returns a port of 127.0.0.1 that only Caddy can listen on until the test ends, over TCP and, for HTTP/3, over UDP. Sockets that are bound to it,
// but receive nothing, reserve it. Caddy sets SO_REUSEPORT on its listeners, as these sockets do, so it can listen. Without the
// reservation, Caddys of two test processes could get the same port, and each would receive some of the other's requests.
func FreePort(tb testing.TB) string {
	tb.Helper()
	for range 10 {
		// Of all addresses: a client's connection from 127.0.0.2 or a listener of [::1] with this port would keep Caddy, which listens on all, from it.
		port, err := reserve(tb, unix.SOCK_STREAM, net.IPv6zero, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) { // no IPv6
			return UnusedPort(tb)
		}
		if err != nil {
			tb.Fatal(err)
		}
		// A UDP socket that sends from any address keeps Caddy from the port. One of 127.0.0.1 would get packets that are sent to Caddy, so it has another.
		if _, err = reserve(tb, unix.SOCK_DGRAM, net.IPv4(127, 255, 0, 1), port); err == nil {
			return strconv.Itoa(port)
		}
	}
	tb.Fatal("ten ports that are free for TCP are used for UDP")
	return ""
}

// reserve binds a socket until the test ends, and returns its port; port 0: any.
func reserve(tb testing.TB, kind int, address net.IP, port int) (int, error) {
	tb.Helper()
	socket, err := unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	tb.Cleanup(func() { _ = unix.Close(socket) }) // nothing was written
	if err := unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet6{Port: port, Addr: [16]byte(address.To16())}); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return bound.(*unix.SockaddrInet6).Port, nil
}
