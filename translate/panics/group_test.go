package panics_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/panics"
)

// buggy is in the stack of its panic.
func buggy() { panic("a bug") }

// TestGroupPanics: a panic, also in a group within a group, is one of the goroutine that waits, and keeps its stack. The other functions run to their end.
func TestGroupPanics(t *testing.T) {
	var ran atomic.Int32
	bug := panics.Recovered(func() {
		var outer panics.Group
		outer.SetLimit(1)
		for i := range 3 {
			outer.Go(func() {
				var inner panics.Group
				inner.Go(func() {
					if ran.Add(1); i == 0 {
						buggy()
					}
				})
				inner.Wait()
			})
		}
		outer.Wait()
		t.Error("no panic")
	})
	p, ok := errors.AsType[*panics.Panic](bug)
	if !ok || p.Value != "a bug" || !strings.Contains(p.Error(), "panics_test.buggy") {
		t.Errorf("%v", bug)
	}
	if n := ran.Load(); n != 3 {
		t.Errorf("%d functions ran", n)
	}
	panics.Raise(errors.New("no panic"))
	panics.Raise(fmt.Errorf("a failure whose cause is one: %w", bug))
	panics.Raise(panics.Recovered(func() {}))
}
