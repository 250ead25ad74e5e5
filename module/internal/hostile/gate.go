package hostile

import (
	"sync"
	"sync/atomic"
	"testing"
)

// A Gate holds requests up until it is opened. The end of the test opens it.
type Gate struct {
	opened  chan struct{}
	once    sync.Once
	waiting atomic.Int64
}

// NewGate makes a gate that is closed.
func NewGate(tb testing.TB) *Gate {
	tb.Helper()
	g := &Gate{opened: make(chan struct{})}
	tb.Cleanup(g.Open)
	return g
}

// Then is an action that waits for the gate, unless the client goes first.
func (g *Gate) Then(action Action) Action {
	return func(x *Exchange) {
		if g.pass(x.Gone()) {
			action(x)
		}
	}
}

// pass waits for the gate, and reports whether it was opened before done was closed.
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

// Open lets through what waits and what will come.
func (g *Gate) Open() { g.once.Do(func() { close(g.opened) }) }

// Waiting is how many are held up now.
func (g *Gate) Waiting() int { return int(g.waiting.Load()) }
