package run_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func TestServing(t *testing.T) {
	var s run.Serving[string, *int]
	if s.Remove("a", nil); len(s.Served()) != 0 || s.Of("a") != nil {
		t.Fatal("the zero value is not empty")
	}
	first, second, other := new(int), new(int), new(int)
	s.Add("a", first)
	s.Add("a", second)
	s.Add("b", other)
	if s.Of("a") != second || s.Of("b") != other || s.Of("c") != nil || len(s.Served()) != 2 {
		t.Errorf("not the newest value of each: %v", s.Served())
	}
	s.Remove("a", second)
	s.Remove("a", second)
	if s.Of("a") != first {
		t.Error("not the value that is left")
	}
	if s.Remove("a", first); s.Of("a") != nil || len(s.Served()) != 1 {
		t.Errorf("a value is left: %v", s.Served())
	}
}
