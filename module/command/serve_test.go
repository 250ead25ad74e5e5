package command_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestServePage: --browse serves the page, and says where; without it, there is no page.
func TestServePage(t *testing.T) {
	p := newProvider(t)
	for status, flags := range map[int][]string{http.StatusOK: {"--browse"}, http.StatusMethodNotAllowed: nil} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			folder := t.TempDir()
			command := exec.CommandContext(t.Context(), "caddy", append([]string{
				"skill-bridge", "--provider", p.URL(), "--allow-http", "--allow-networks", "127.0.0.1", "--listen", "127.0.0.1:" + testbed.UnusedPort(t),
			}, flags...)...)
			command.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
			errs, err := os.Create(filepath.Join(folder, "errors"))
			if err != nil {
				t.Fatal(err)
			}
			defer errs.Close()
			command.Stderr = errs
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			endpoint := strings.TrimSpace(line)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", "text/html")
			w, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = w.Body.Close()
			if w.StatusCode != status {
				t.Errorf("the page has status %d, want %d", w.StatusCode, status)
			}
			http.DefaultClient.CloseIdleConnections()
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("stopping: %v", err)
			}
			if said, err := os.ReadFile(errs.Name()); err != nil || strings.Contains(string(said), "open "+endpoint+" in a browser") != (flags != nil) {
				t.Errorf("%s %v", said, err)
			}
		})
	}
}

// A bridge says on the terminal that it is ready, although its log goes to a file.
func TestReadyOnTerminal(t *testing.T) {
	folder, port := t.TempDir(), testbed.FreePort(t)
	config := filepath.Join(folder, "Caddyfile")
	text := "{\nadmin off\nlog {\noutput file " + filepath.Join(folder, "log") + "\n}\n}\nhttp://localhost:" + port + " {\nbind 127.0.0.1\nskill_bridge {\nrpc\nstore memory\n}\n}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shown := atTerminal(t, exec.CommandContext(t.Context(), "caddy", "run", "--config", config), "SQLite in memory)\r\n", "\x03")
	if want := "Skill Bridge is ready: http://localhost:" + port + "/rpc (sources: ; callers: everyone; store: SQLite in memory)"; !strings.Contains(shown, want) {
		t.Errorf("the terminal shows %s, want %s", shown, want)
	}
}
