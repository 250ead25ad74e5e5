package consent_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClients runs client.mjs with the SDKs of MCP and A2A for TypeScript, which npm installs.
func TestClients(t *testing.T) {
	const gate = "SKILL_BRIDGE_CLIENT_TESTS"
	if os.Getenv(gate) == "" {
		t.Skipf("SKIPPED: it needs Node and npm's registry: set %s=1 to run it", gate)
	}
	folder := t.TempDir()
	program, err := os.ReadFile("client.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "client.mjs"), program, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "@modelcontextprotocol/client@2.3.1", "@a2a-js/sdk@1.3.0")
	install.Dir = folder
	if output, err := install.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the SDKs can't be had: %v: %s", err, output)
	}
	b := newBed(t, "a2a", "mcp")
	acts, done := make(chan string), make(chan struct{})
	control := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		acts <- strings.TrimPrefix(r.URL.Path, "/")
		<-done
	}))
	t.Cleanup(control.Close)
	command := exec.CommandContext(ctx, "node", "client.mjs", b.base, control.URL)
	command.Dir, command.Env = folder, append(os.Environ(), "NO_PROXY=127.0.0.1")
	ended := make(chan string)
	go func() {
		output, err := command.CombinedOutput()
		if err != nil {
			output = append(output, err.Error()...)
		}
		ended <- string(output)
	}()
	for {
		select {
		case act := <-acts:
			user, _, ends := strings.Cut(act, "/")
			if ends {
				b.browser(t, user).form("/connect/acme", "disconnect")
			} else {
				b.browser(t, user).connect()
			}
			done <- struct{}{}
		case output := <-ended:
			if strings.Count(output, "ok ") != 5 || strings.Count(output, "\n") != 5 {
				t.Errorf("it prints %s", output)
			}
			return
		}
	}
}
