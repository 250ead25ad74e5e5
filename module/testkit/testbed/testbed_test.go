package testbed_test

import (
	"os"
	"testing"
	"time"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

const soon = 20 * time.Second // bounds waits on a loaded machine

func newEcho(t *testing.T) *hostile.Provider {
	t.Helper()
	return hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
