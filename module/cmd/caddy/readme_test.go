package main_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// published replaces what an example or a block with skill_publish needs: the site has an address of this machine, at which a bridge finds it, and the API is a
// server that answers with the method and the URL.
func published(t *testing.T, e *example) (site string) {
	t.Helper()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `["`+r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("X-Pets-Key")+r.Header.Get("Authorization")+`"]`)
	}))
	t.Cleanup(api.Close)
	site = "http://127.0.0.1:" + testbed.FreePort(t)
	e.replace("api.example.com {", site+" {")
	e.replace("localhost:3000", strings.TrimPrefix(api.URL, "http://"))
	e.text = regexp.MustCompile(`\bopenapi \S+ \{`).ReplaceAllLiteralString(e.text, "openapi "+filepath.ToSlash(filepath.Join(repository, "caddyfile-examples/publish.openapi.yaml"))+" {")
	e.text += "http://localhost:8080 {\n\tskill_bridge /rpc {\n\t\tallow_anonymous\n\t\tprovider " + site + " {\n\t\t\tnamespace pets\n\t\t\tcredentials api_key key-of-the-api\n\t\t}\n\t}\n}\n"
	e.onLoopback()
	return site
}

// TestREADMEPublishes: a bridge executes the skills of the README's publisher.
func TestREADMEPublishes(t *testing.T) {
	blocks := manuals.In(t, "caddyfile", manuals.README)
	e := newExample(t, blocks[slices.IndexFunc(blocks, func(b manuals.Block) bool { return strings.Contains(b.Text, "skill_publish") })].Text)
	published(t, e)
	e.replace("\t\t\tnamespace pets\n", "") // both have the default
	b := e.start()
	if o := b.call("execute_skill", `{"name":"127.0.0.1.get-pet","args":{"petId":"a/b"}}`); !strings.Contains(string(o.Result), `"GET /pets/a%2Fb "`) {
		t.Errorf("it is answered %s, %+v", o.Result, o.Error)
	}
}

// TestA2AClient runs the program to which the A2A manual refers with the official SDK, from npm.
func TestA2AClient(t *testing.T) {
	const gate = "SKILL_BRIDGE_CLIENT_TESTS"
	if os.Getenv(gate) == "" {
		t.Skipf("it needs Node and npm's registry: set %s=1 to run it", gate)
	}
	b := startQuickstart(open(t, "quickstart"))
	folder := t.TempDir()
	text := strings.Replace(manuals.Read(t, "translate/a2a/examples/client.mjs"), "http://localhost:8080", strings.TrimSuffix(b.endpoint, "/rpc"), 1)
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

func exercisePublish(e *example) {
	t := e.t
	e.replace(writtenHash, quickHash)
	site := published(t, e)
	b := e.start()
	if o := b.call("execute_skill", `{"name":"pets.create-order","args":{"petId":"1"}}`); !strings.Contains(string(o.Result), `"POST /orders [redacted]"`) {
		t.Errorf("%s, %+v", o.Result, o.Error)
	}
	for password, n := range map[string]int{"": 3, rightPassword: 4} {
		if a := b.send(http.MethodGet, site+"/.well-known/skill-sharing", "", authorization, password); strings.Count(a.body, "descriptor_url") != n {
			t.Errorf("with %q: %d %s", password, a.status, a.body)
		}
	}
	if a := b.send(http.MethodGet, site+"/.well-known/skill-sharing", "", authorization, wrongPassword); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
}
