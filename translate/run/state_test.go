package run_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func TestState(t *testing.T) {
	for s, want := range map[run.State]struct {
		name  string
		ended bool
	}{
		0:             {"", false},
		run.Accepted:  {"accepted", false},
		run.Working:   {"running", false},
		run.Completed: {"completed", true},
		run.Failed:    {"failed", true},
		run.TimedOut:  {"timeout", true},
		run.Canceled:  {"canceled", true},
		run.Lost:      {"lost", true},
	} {
		if s.String() != want.name || s.Ended() != want.ended {
			t.Errorf("%q, ended %t; want %q, %t", s, s.Ended(), want.name, want.ended)
		}
	}
	if name := run.State(200).String(); name != "unknown" {
		t.Errorf("a state that there is not is called %q", name)
	}
}
