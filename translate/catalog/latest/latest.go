// Package latest makes values of sources that may change at any time, so that whoever changes a source often does not make the process make
// and keep a value for each state of it.
package latest

import "sync"

// Maker makes values from sources, one at a time. The zero value is ready. It is safe for concurrent use.
type Maker[S, V any] struct {
	mu            sync.Mutex
	newest        work[S, V]
	running, next *making[V]
}

type work[S, V any] struct {
	source S
	value  func(S) V
}

// making is a value that is being made, or will be next.
type making[V any] struct {
	done     chan struct{}
	value    V
	panicked any
}

// Make returns the value of a source, or of one that came later. While a value is made, all who come share the next one, which is made from
// the source that came last, so that they need not keep theirs. A panic of value reaches those who wait for its value.
func (m *Maker[S, V]) Make(source S, value func(S) V) V {
	m.mu.Lock()
	m.newest = work[S, V]{source, value}
	of := m.next
	switch {
	case m.running == nil:
		of = newMaking[V]()
		m.running = of
		m.mu.Unlock()
		m.run(of)
	case of == nil:
		of = newMaking[V]()
		m.next = of
		m.mu.Unlock()
	default:
		m.mu.Unlock()
	}
	<-of.done
	if of.panicked != nil {
		panic(of.panicked)
	}
	return of.value
}

func newMaking[V any]() *making[V] { return &making[V]{done: make(chan struct{})} }

// run makes a value, and begins with the next one if somebody waits for it.
func (m *Maker[S, V]) run(of *making[V]) {
	m.mu.Lock()
	newest := m.newest
	m.mu.Unlock()
	defer func() {
		of.panicked = recover()
		m.mu.Lock()
		m.running, m.next = m.next, nil
		next := m.running
		if next == nil {
			m.newest = work[S, V]{}
		}
		m.mu.Unlock()
		close(of.done)
		if next != nil {
			go m.run(next)
		}
	}()
	of.value = newest.value(newest.source)
}
