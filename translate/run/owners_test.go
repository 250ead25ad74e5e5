package run_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func TestOwners(t *testing.T) {
	var o run.Owners[*int]
	if !o.Empty() || o.Of("a\nalice") != nil {
		t.Fatal("the zero value is not empty")
	}
	first, second, other := new(int), new(int), new(int)
	of := func(realm string) func(string) bool {
		return func(owner string) bool { return strings.HasPrefix(owner, realm+"\n") }
	}
	o.Add(first, of("a"))
	o.Add(second, of("a"))
	o.Add(other, of("b"))
	if got := o.Of("a\nalice"); got != second {
		t.Error("not the newest value")
	}
	if got := o.Of("b\nbob"); got != other {
		t.Error("not the value that serves the owner")
	}
	o.Remove(second)
	o.Remove(second)
	if got := o.Of("a\nalice"); got != first {
		t.Error("not the value that is left")
	}
	if o.Of("c\ncarol") != nil || o.Empty() {
		t.Error("another owner has a value, or all were removed")
	}
}
