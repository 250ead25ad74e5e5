//go:build !linux

package testbed

import (
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port of 127.0.0.1 that was free at the time of the call.
func FreePort(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}
