package command_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/cli"
	"github.com/skill-bridge/caddy-skill-bridge/module/command"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

// TestUsageOfNothing: a row without a caller or a skill has words for them.
func TestUsageOfNothing(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	used := usage.Usage{Total: 1, Rows: []usage.Row{{Counts: usage.Counts{Calls: 3}}}}
	screen := cli.NewScreen(out, out, false)
	command.ShowUsage(screen, &used)
	if err := screen.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\(anonymous\) +\(none\) +\(none\) +3 `).Match(text) {
		t.Errorf("%s", text)
	}
}

// TestSpan: several days are days and hours.
func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{90 * 24 * time.Hour: "90d0h", 49*time.Hour + 59*time.Minute: "2d1h", 47 * time.Hour: "47h0m0s", 1500 * time.Millisecond: "2s"} {
		if got := command.Span(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
