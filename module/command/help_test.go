package command_test

import (
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// TestHelpIsNarrow: the prose of each help fits into 80 columns.
func TestHelpIsNarrow(t *testing.T) {
	commands := []string{""}
	for i := 0; i < len(commands); i++ {
		args := append([]string{"skill-bridge"}, strings.Fields(commands[i])...)
		help, err := exec.CommandContext(t.Context(), "caddy", append(args, "--help")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		prose, rest, _ := strings.Cut(string(help), "\nUsage:\n")
		for line := range strings.Lines(prose) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%q: %d columns: %s", commands[i], n, line)
			}
		}
		if _, list, found := strings.Cut(rest, "\nAvailable Commands:\n"); found {
			list, _, _ = strings.Cut(list, "\n\n")
			for line := range strings.Lines(list) {
				commands = append(commands, strings.Fields(line)[0])
			}
		}
	}
	if len(commands) < 10 {
		t.Errorf("only the commands %q", commands)
	}
}

// TestAPIKeyPrefix: what is before a key in its header comes from a flag.
func TestAPIKeyPrefix(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/locked", Auth: hostile.APIKey("Authorization")})
	var sent atomic.Value
	p.On("acme/locked", hostile.Invoke, func(x *hostile.Exchange) {
		if key := x.Request.Header.Get("Authorization"); strings.HasSuffix(key, "open sesame") {
			sent.Store(key)
		}
		hostile.Usual()(x)
	})
	if status, _, output := try(t, p, "acme/locked", "--api-key-env", "KEY", "--api-key-prefix", "Bearer "); sent.Load() != "Bearer open sesame" {
		t.Errorf("%d, sent %v: %s", status, sent.Load(), output)
	}
}
