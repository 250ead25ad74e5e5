package catalog

import "testing"

// A change wakes those whom it concerns, once.
func TestListeners(t *testing.T) {
	var l listeners
	l.wake(func(audience) bool { return true })
	first, other := audience{anonymous: true}, audience{}
	a, b := l.next(first), l.next(other)
	if l.next(first) != a {
		t.Error("the same audience waits for two changes")
	}
	l.wake(func(a audience) bool { return a == first })
	<-a // it is closed
	select {
	case <-b:
		t.Error("the change does not concern the other one")
	case <-l.next(first):
		t.Error("the first one is woken twice")
	default:
	}
}
