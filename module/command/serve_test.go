package command_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestServePage: --browse serves the page and opens it; without it, there is no page. Where no browser can be started, the command says what to do.
func TestServePage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the program that opens a browser has another name")
	}
	p := newProvider(t)
	caddy, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		about  string
		flags  []string
		opener bool
		status int
	}{
		{"a desktop", []string{"--browse"}, true, http.StatusOK},
		{"no desktop", []string{"--browse"}, false, http.StatusOK},
		{"no page", nil, true, http.StatusMethodNotAllowed},
	} {
		t.Run(tc.about, func(t *testing.T) {
			port, folder := freePort(t), t.TempDir()
			opened := filepath.Join(folder, "opened")
			if tc.opener {
				if err := os.WriteFile(filepath.Join(folder, "xdg-open"), []byte("#!/bin/sh\necho \"$@\" > "+opened+".part && /bin/mv "+opened+".part "+opened+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.CommandContext(t.Context(), caddy, append([]string{
				"skill-bridge", "--provider", p.URL(), "--allow-http", "--allow-networks", "127.0.0.1", "--listen", "127.0.0.1:" + port,
			}, tc.flags...)...)
			command.Env = append(os.Environ(), "PATH="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
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
			if w.StatusCode != tc.status {
				t.Errorf("the page has status %d, want %d", w.StatusCode, tc.status)
			}
			said := func(file, want string) func() bool {
				return func() bool {
					text, err := os.ReadFile(file)
					return err == nil && strings.Contains(string(text), want)
				}
			}
			if tc.flags != nil && tc.opener {
				testbed.Eventually(t, 30*time.Second, said(opened, endpoint+"\n"), "the page is opened")
			}
			if tc.flags != nil && !tc.opener {
				testbed.Eventually(t, 30*time.Second, said(errs.Name(), "open "+endpoint+" in a browser"), "the command says what to open")
			}
			http.DefaultClient.CloseIdleConnections()
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("stopping: %v", err)
			}
			if _, err := os.Stat(opened); tc.flags == nil && err == nil {
				t.Error("a page is opened that is not served")
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
