package hostile

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A Gate blocks requests until it is opened. The end of the test opens it.
type Gate struct {
	opened  chan struct{}
	once    sync.Once
	waiting atomic.Int64
}

// NewGate returns a closed gate.
func NewGate(tb testing.TB) *Gate {
	tb.Helper()
	g := &Gate{opened: make(chan struct{})}
	tb.Cleanup(g.Open)
	return g
}

// Then returns an action that waits until the gate is open, or until the client disconnects.
func (g *Gate) Then(action Action) Action {
	return func(x *Exchange) {
		if g.pass(x.Gone()) {
			action(x)
		}
	}
}

// pass waits until the gate is open, or until done is closed. It reports whether the gate is open.
func (g *Gate) pass(done <-chan struct{}) bool {
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	select {
	case <-g.opened:
		return true
	case <-done:
		return false
	}
}

// Open unblocks all waiting and later requests.
func (g *Gate) Open() { g.once.Do(func() { close(g.opened) }) }

// Waiting returns the number of blocked requests.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }
