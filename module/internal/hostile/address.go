package hostile

import (
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// socket binds a TCP socket to a free port of 127.0.0.1 until the test ends.
func socket(tb testing.TB) (fd int, address string) {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	return fd, net.JoinHostPort(loopback, strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}

// Refused is an address that refuses connections, and that nobody else can get
// before the test ends.
func Refused(tb testing.TB) (address string) {
	tb.Helper()
	_, address = socket(tb)
	return address
}

// BlackHole is an address at which connecting itself never ends: that of a
// listener that accepts nothing and whose queue is full, so that the kernel drops
// what else comes.
func BlackHole(tb testing.TB) (address string) {
	tb.Helper()
	fd, address := socket(tb)
	if err := syscall.Listen(fd, 0); err != nil {
		tb.Fatal(err)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err != nil {
			return address
		}
		tb.Cleanup(func() { _ = c.Close() }) // nothing can be done about it
	}
	tb.Fatal("the queue of a listener does not get full: there is no black hole here")
	return ""
}
