package command_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestPublishUsage: an error names the flag that is missing.
func TestPublishUsage(t *testing.T) {
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"publish", "--openapi", "a.yaml", "--include", "*"}, "--to without --print"},
		{[]string{"publish", "--to", "http://localhost:1", "--include", "*"}, "--openapi and --include are required"},
		{[]string{"publish", "--to", "localhost:1", "--openapi", "a.yaml", "--include", "*"}, `--to "localhost:1" is not the origin`},
		{[]string{"publish", "--to", "http://localhost:1", "--openapi", "http://localhost:1/a", "--include", "*", "--allow-http"}, "write its address in --allow-networks"},
		{[]string{"nonsense", "--help"}, "status, runs, purge"},
	} {
		command := exec.CommandContext(t.Context(), "caddy", append([]string{"skill-bridge"}, c.words...)...)
		command.Env = append(os.Environ(), "XDG_DATA_HOME="+t.TempDir())
		if out, _ := command.CombinedOutput(); !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %s", c.words, out)
		}
	}
}

// TestPublish: the command publishes an API, prints URLs that work, lets nothing else of the API be reached, and ends at SIGINT.
func TestPublish(t *testing.T) {
	caddy, err := exec.LookPath("caddy")
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"host":"`+r.Host+`","path":"`+r.URL.Path+`"}`)
	}))
	t.Cleanup(api.Close)
	folder, port := t.TempDir(), testbed.UnusedPort(t)
	file := filepath.Join(folder, "api.yaml")
	text := `{"openapi":"3.1.0","info":{"title":"Pets","version":"1.0.0"},"paths":{"/pets/{id}":{"get":{"operationId":"getPet","parameters":[
		{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"The pet.","content":{"application/json":{}}}}}}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), caddy, "skill-bridge", "publish", "--openapi", file, "--include", "*", "--to", api.URL, "--listen", "127.0.0.1:"+port)
	command.Env = append(os.Environ(), "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	origin := "http://127.0.0.1:" + port
	lines := bufio.NewReader(stdout)
	for _, want := range []string{"/.well-known/skill-sharing", "/skill-sharing/127.0.0.1/get-pet.json"} {
		line, err := lines.ReadString('\n')
		if err != nil || line != origin+want+"\n" {
			t.Fatalf("%q instead of %s: %v", line, want, err)
		}
	}
	send := func(method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, origin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Body.Close()
		text, _ := io.ReadAll(w.Body)
		return w.StatusCode, string(text)
	}
	if status, text := send("GET", "/skill-sharing/127.0.0.1/get-pet.json", ""); status != http.StatusOK || !strings.Contains(text, `"url":"`+origin+`/skill-sharing/127.0.0.1/get-pet"`) {
		t.Errorf("%d %s", status, text)
	}
	answer := `"output":{"host":"` + strings.TrimPrefix(api.URL, "http://") + `","path":"/pets/7"}`
	invocation := `{"caller":{"id":"a","type":"b"},"skill_id":"127.0.0.1/get-pet","inputs":{"id":"7"}}`
	if status, text := send("POST", "/skill-sharing/127.0.0.1/get-pet", invocation); status != http.StatusOK || !strings.Contains(text, answer) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send("GET", "/pets/7", ""); status != http.StatusNotFound || text != "" {
		t.Errorf("the API can be reached: %d %s", status, text)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("stopping: %v", err)
	}
}
