package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// TestREADMEPublishes: the README's documents are valid, and the bridge executes their skill.
func TestREADMEPublishes(t *testing.T) {
	const origin = "https://skills.example.com"
	blocks := slices.DeleteFunc(manuals.In(t, "json", manuals.README), func(b manuals.Block) bool {
		return strings.Contains(b.Text, `"mcpServers"`) // TestClientConfigurations in package command reads it
	})
	if len(blocks) != 3 {
		t.Fatalf("the README has %d documents, want an index, a descriptor and an answer", len(blocks))
	}
	var server *httptest.Server
	document := func(block int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.ReplaceAll(blocks[block].Text, origin, server.URL)) // the call fails then
		}
	}
	provider := http.NewServeMux()
	provider.HandleFunc("GET /.well-known/skill-sharing", document(0))
	provider.HandleFunc("GET /shout.json", document(1))
	provider.HandleFunc("POST /shout", func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Inputs struct {
				Text string `json:"text"`
			} `json:"inputs"`
		}
		if err := json.UnmarshalRead(r.Body, &request); err != nil || request.Inputs.Text != "hi" {
			http.Error(w, "these are no inputs", http.StatusBadRequest)
			return
		}
		document(2)(w, r)
	})
	server = httptest.NewServer(provider)
	t.Cleanup(server.Close)

	shell := &aShell{t: t, folder: t.TempDir(), provider: strings.TrimPrefix(server.URL, "http://")}
	for i, name := range []string{"index.json", "descriptor.json"} {
		if err := os.WriteFile(filepath.Join(shell.folder, name), []byte(blocks[i].Text), 0o600); err != nil {
			t.Fatal(err)
		}
		shell.ask("caddy skill-bridge validate " + name)
	}
	shell.ask("caddy skill-bridge validate " + origin)

	e := newExample(t, "http://localhost:8080 {\n\tskill_bridge /rpc {\n\t\tprovider "+server.URL+" {\n\t\t\tnamespace example\n\t\t}\n\t}\n}\n")
	e.onLoopback()
	b := e.start()
	if o := b.call("execute_skill", `{"name":"example.shout","args":{"text":"hi"}}`); !strings.Contains(string(o.Result), `"output":{"text": "HI"}`) {
		t.Errorf("it is answered %s, %+v", o.Result, o.Error)
	}
}

// TestA2AClient runs the program of the A2A manual with the official SDK, from npm.
func TestA2AClient(t *testing.T) {
	const gate = "SKILL_BRIDGE_CLIENT_TESTS"
	if os.Getenv(gate) == "" {
		t.Skipf("it needs Node and npm's registry: set %s=1 to run it", gate)
	}
	b := startQuickstart(open(t, "quickstart"))
	folder := t.TempDir()
	text := strings.Replace(manuals.In(t, "js", manuals.A2A)[0].Text, "http://localhost:8080", strings.TrimSuffix(b.endpoint, "/rpc"), 1)
	if err := os.WriteFile(filepath.Join(folder, "client.mjs"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"npm", "install", "--no-audit", "--no-fund", "@a2a-js/sdk@1.3"}, {"node", "client.mjs"}} {
		command := exec.CommandContext(t.Context(), words[0], words[1:]...)
		command.Dir, command.Env = folder, append(os.Environ(), "NO_PROXY=localhost,127.0.0.1")
		output, err := command.CombinedOutput()
		switch {
		case err != nil && words[0] == "npm":
			t.Skipf("SKIPPED: the SDK can't be had: %v: %s", err, output)
		case words[0] == "npm":
		case err != nil || !strings.Contains(string(output), "TASK_STATE_COMPLETED") || !strings.Contains(string(output), "sentences_in_text: 3"):
			t.Errorf("%v: it prints %s", err, output)
		}
	}
}
