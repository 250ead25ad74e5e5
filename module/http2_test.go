package skillbridge

import (
	"io"
	"net"
	"testing"
)

// endless is a connection on which something always comes.
type endless struct{ net.Conn }

func (endless) Read(p []byte) (int, error) { return len(p), nil }
func (endless) Close() error               { return nil }

// What is under way of calls that are given up at once ends no other call, and is
// bounded; with the last call the connection is closed.
func TestMeterOfCallsGivenUp(t *testing.T) {
	const overhead, calls = 256 << 10, 60
	m := newMeter(endless{}, overhead)
	for range calls + 1 {
		if !m.begin() {
			t.Fatal("closed")
		}
	}
	for range calls {
		m.end(true)
	}
	if n, err := io.CopyN(io.Discard, m, calls*int64(receiveWindow(overhead))); err != nil {
		t.Errorf("after %d bytes: %v", n, err)
	}
	if n, err := io.CopyN(io.Discard, m, (calls+2)*overhead); err == nil {
		t.Errorf("%d bytes more were taken", n)
	}

	m = newMeter(endless{}, overhead)
	m.begin()
	m.begin()
	m.end(true)
	m.end(false)
	if m.begin() {
		t.Error("a connection is used again on which something may be under way")
	}
}
