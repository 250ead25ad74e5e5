package testbed_test

import (
	"fmt"
	"os"
	"runtime"
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

// failing is a testing.TB that records failures.
type failing struct {
	testing.TB
	failures []string
}

func (f *failing) Helper()                      {}
func (f *failing) Errorf(text string, _ ...any) { f.failures = append(f.failures, text) }
func (f *failing) Fatalf(text string, _ ...any) {
	f.failures = append(f.failures, text)
	runtime.Goexit()
}

func (f *failing) Error(arguments ...any) { f.failures = append(f.failures, fmt.Sprint(arguments...)) }
