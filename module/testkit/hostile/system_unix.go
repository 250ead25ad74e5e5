//go:build unix

package hostile

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BlackHole returns an address to which connecting never ends: a listener that accepts nothing and
// whose queue is full, so that the kernel drops connections. The test is skipped if the kernel refuses
// them instead.
func BlackHole(tb testing.TB) (address string) {
	tb.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() }) // the error does not matter
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), 0) }); err != nil || failed != nil {
		tb.Fatal(err, failed)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", l.Addr().String(), 200*time.Millisecond)
		if err != nil {
			return l.Addr().String()
		}
		tb.Cleanup(func() { _ = c.Close() }) // the error does not matter
	}
	tb.Fatal("the queue of a listener does not get full: there is no black hole here")
	return ""
}

// Pipe returns the path of a named pipe, which blocks on opening.
func Pipe(tb testing.TB) (path string) {
	tb.Helper()
	path = filepath.Join(tb.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
