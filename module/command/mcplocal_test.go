package command_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

const mcpMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// toolCall returns a tools/call of the modern era.
func toolCall(id int, tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{},%s}}`, id, tool, mcpMeta)
}

// tools returns the names of the tools in the answer to tools/list.
func tools(t *testing.T, line string) string {
	t.Helper()
	var answer struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range answer.Result.Tools {
		names = append(names, tool.Name)
	}
	return strings.Join(names, " ")
}

// TestLocal serves a client with a bridge in the process of the command, in both eras.
func TestLocal(t *testing.T) {
	p := newProvider(t)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := `{
	admin off
	log {
		output stdout
		level DEBUG
	}
}
http://localhost:1, http://localhost:2 {
	basic_auth {
		alice $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG
	}
	handle /agents/* {
		skill_bridge {
			require_principal
			principal {http.request.header.Remote-User}
			max_request_size 2KiB
			allow_http
			allow_networks 127.0.0.1
			rpc
			a2a
			browse
			agent_skills
			webhooks
			provider ` + p.URL() + ` {
				namespace acme
				credentials api_key {env.KEY}
			}
		}
	}
}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "Caddyfile") // with callers_file, which this caller needs no key of
	config = strings.Replace(strings.Replace(config, "principal {http.request.header.Remote-User}", "callers_file /run/no/such/file", 1), "require_principal", "", 1)
	if err := os.WriteFile(keys, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"callers_file", []string{"--config", keys}},
		{"providers", []string{"--allow-http", "--allow-networks", "127.0.0.1", "--namespace", "acme", "--api-key-env", "KEY", p.URL()}},
		{"a configuration", []string{"--config", file}},
	} {
		start := func(t *testing.T) *desktop {
			t.Helper()
			return startDesktop(t, []string{"KEY=open sesame"}, tc.args...)
		}
		t.Run(tc.name+", legacy", func(t *testing.T) {
			d := start(t)
			d.send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			if line := d.read(); !strings.Contains(line, `"protocolVersion":"2025-06-18"`) {
				t.Error(line)
			}
			d.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			if names := tools(t, d.read()); !strings.Contains(names, "acme_echo") || !strings.Contains(names, "acme_locked") {
				t.Errorf("the tools are %s", names)
			}
			d.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acme_locked"}}`)
			if line := d.read(); !strings.Contains(line, `"id":2,`) || !strings.Contains(line, "unlocked") {
				t.Error(line)
			}
			_ = d.in.Close()
			if status := d.ends(); status != 0 || strings.Contains(d.errs.String(), "open sesame") || strings.Contains(d.errs.String(), `"info"`) {
				t.Errorf("exit status %d: %s", status, &d.errs)
			}
		})
		t.Run(tc.name+", modern", func(t *testing.T) {
			d := start(t)
			d.send(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + mcpMeta + `}}`)
			if line := d.read(); !strings.Contains(line, `"2026-07-28"`) {
				t.Error(line)
			}
			d.send(toolCall(1, "acme_echo"), toolCall(2, "nothing"))
			if lines := d.read() + d.read(); !strings.Contains(lines, `"id":1,"result"`) || !strings.Contains(lines, `"id":2,"error":{"code":-32602,`) {
				t.Error(lines)
			}
			d.send(strings.Repeat("x", 2<<20), toolCall(3, "acme_echo"))
			if lines := d.read() + d.read(); !strings.Contains(lines, `(max_request_size)`) || !strings.Contains(lines, `"id":3,"result"`) {
				t.Error(lines)
			}
			d.send(toolCall(4, "acme_slow"))
			if line := d.read(); !strings.Contains(line, `"id":4,"result"`) {
				t.Error(line)
			}
			if found, _ := filepath.Glob(filepath.Join(d.folder, "caddy", "*.db")); len(found) > 0 {
				t.Errorf("databases were written: %q", found)
			}
			_ = d.in.Close()
			if status := d.ends(); status != 0 {
				t.Errorf("exit status %d: %s", status, &d.errs)
			}
		})
	}
	t.Run("cancelled and ended", func(t *testing.T) {
		d := startDesktop(t, nil, "--allow-http", "--allow-networks", "127.0.0.1", "--namespace", "acme", p.URL())
		d.send(toolCall(1, "acme_never"), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, toolCall(2, "acme_never"))
		testbed.Eventually(t, 20*time.Second, func() bool { return p.Count("acme/never", hostile.Invoke) > 0 }, "the provider is asked")
		if err := d.command.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		if status := d.ends(); status != 0 {
			t.Errorf("exit status %d: %s", status, &d.errs)
		}
	})
}

// TestClientConfigurations starts the command as the configurations of clients in the manual say.
func TestClientConfigurations(t *testing.T) {
	type server struct {
		URL     string            `json:"url"`
		Command string            `json:"command"`
		Args    []string          `json:"args"`
		Env     map[string]string `json:"env"`
	}
	started, connected := 0, 0
	for _, block := range manuals.In(t, "json", manuals.CommandLine, manuals.MCP, manuals.README) {
		if !strings.Contains(block.Text, `ervers":`) {
			continue // a document of a provider
		}
		var servers []server
		for d := jsontext.NewDecoder(strings.NewReader(block.Text)); d.PeekKind() != jsontext.KindInvalid; {
			var config map[string]map[string]server
			if err := json.UnmarshalDecode(d, &config); err != nil {
				t.Fatalf("%s: %v", block.Text, err)
			}
			for _, some := range config {
				servers = slices.AppendSeq(servers, maps.Values(some))
			}
		}
		for _, s := range servers {
			if s.Command == "" {
				if s.URL != "https://tools.example.com/mcp" && s.URL != "https://agents.example.com/mcp" {
					t.Errorf("%s has no URL of an endpoint", block.Text)
				}
				connected++
				continue
			}
			if s.Command != "/usr/local/bin/caddy" {
				t.Errorf("%s: clients do not start it without its full path", s.Command)
			}
			command := exec.CommandContext(t.Context(), filepath.Base(s.Command), s.Args...)
			folder := t.TempDir()
			command.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
			for name, value := range s.Env {
				command.Env = append(command.Env, name+"="+strings.Replace(value, "...", "secret-of-acme", 1))
			}
			if out, err := command.CombinedOutput(); err != nil || len(out) > 0 { // the input is empty
				t.Errorf("%v: %v: %s", s.Args, err, out)
			}
			started++
		}
	}
	if started != 2 || connected < 2 {
		t.Errorf("%d clients start the command, %d connect to an endpoint", started, connected)
	}
}
