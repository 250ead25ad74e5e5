package testbed

import (
	"context"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFreePort: only who shares ports, as Caddy does, gets a reserved one, over TCP and UDP.
func TestFreePort(t *testing.T) {
	t.Parallel()
	port := FreePort(t)
	caddys := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	for _, address := range []string{":" + port, loopback + ":" + port, "127.0.0.2:" + port, "[::1]:" + port} {
		if _, err := net.Listen("tcp", address); err == nil {
			t.Errorf("another program listens on %s over TCP", address)
		}
		listener, err := caddys.Listen(context.Background(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		packets, err := caddys.ListenPacket(context.Background(), "udp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = packets.Close()
	}
	if _, err := net.ListenPacket("udp", ":"+port); err == nil {
		t.Error("another program sends from the port over UDP")
	}
}
