package testbed

import (
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
		port, err := reserve(tb, unix.SOCK_STREAM, loopback, 0)
		if err != nil {
			tb.Fatal(err)
		}
		// A UDP socket that sends from any address keeps Caddy from the port. One of 127.0.0.1 would get packets that are sent to Caddy, so it has another.
		if _, err = reserve(tb, unix.SOCK_DGRAM, "127.255.0.1", port); err == nil {
			return strconv.Itoa(port)
		}
	}
	tb.Fatal("ten ports that are free for TCP are used for UDP")
	return ""
}

// reserve binds a socket until the test ends, and returns its port; port 0: any.
func reserve(tb testing.TB, kind int, address string, port int) (int, error) {
	tb.Helper()
	socket, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	tb.Cleanup(func() { _ = unix.Close(socket) }) // nothing was written
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(address).To4())}); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	return bound.(*unix.SockaddrInet4).Port, nil
}
