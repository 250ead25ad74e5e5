package waiting_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/waiting"
)

// TestWaiting: a change wakes those whom it concerns, once.
func TestWaiting(t *testing.T) {
	var w waiting.Waiting[string]
	w.Wake(func(string) bool { return true })
	a, b := w.Next("a"), w.Next("b")
	if w.Next("a") != a {
		t.Error("the same group waits for two changes")
	}
	w.Wake(func(g string) bool { return g == "a" })
	<-a // it is closed
	select {
	case <-b:
		t.Error("the change does not concern b")
	case <-w.Next("a"):
		t.Error("a is woken twice")
	default:
	}
}
