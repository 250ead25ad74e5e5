package command_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestRunsGoOn: if few runs of many fit, pages have fewer than their limit, or none. The command goes on until it has as many as wanted, or all.
func TestRunsGoOn(t *testing.T) {
	pages := map[string]string{
		"":   `{"kept":9,"open":{},"runs":[],"next":"p1"}`,
		"p1": `{"kept":9,"open":{},"runs":[{"id":"r1","state":"lost"}],"next":"p2"}`,
		"p2": `{"kept":9,"open":{},"runs":[{"id":"r2","state":"lost"},{"id":"r3","state":"lost"}],"next":"p3"}`,
		"p3": `{"kept":9,"open":{},"runs":[],"next":"p4"}`,
		"p4": `{"kept":9,"open":{},"runs":[{"id":"r4","state":"lost"}]}`,
	}
	var mu sync.Mutex
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, q.Get("before")+" "+q.Get("limit")+" "+q.Get("state"))
		fmt.Fprint(w, pages[q.Get("before")])
	}))
	defer api.Close()
	runs := func(args ...string) string {
		t.Helper()
		args = append([]string{"skill-bridge", "runs", "--address", strings.TrimPrefix(api.URL, "http://"), "--state", "lost"}, args...)
		shown, err := exec.CommandContext(t.Context(), "caddy", args...).Output()
		if err != nil {
			t.Fatalf("%s, %v", shown, err)
		}
		return string(shown)
	}
	shown := runs("--limit", "3")
	if !strings.Contains(shown, "r1 ") || !strings.Contains(shown, "r3 ") || strings.Contains(shown, "r4 ") || !strings.Contains(shown, "--before p3") {
		t.Error(shown)
	}
	mu.Lock()
	got := strings.Join(asked, ", ")
	mu.Unlock()
	if want := " 3 lost, p1 3 lost, p2 2 lost"; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
	var all struct {
		Kept int
		Runs []struct{ ID string }
		Next string
	}
	shown = runs("--json")
	if err := json.Unmarshal([]byte(shown), &all, json.MatchCaseInsensitiveNames(true)); err != nil || len(all.Runs) != 4 || all.Runs[3].ID != "r4" || all.Next != "" || all.Kept != 9 {
		t.Errorf("%s, %v", shown, err)
	}
}

// TestRunsOfMCP: MCP keeps no runs, which the command says instead of an empty list.
func TestRunsOfMCP(t *testing.T) {
	said, err := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "runs", "--front", "mcp").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "tasks of MCP are sealed tokens, which are in no database") {
		t.Errorf("%s, %v", said, err)
	}
}

// TestUnreadDatabase: runs that can't be read are not none.
func TestUnreadDatabase(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Site("skill_bridge /rpc {\n\tstore sqlite /dev/null/bridge.db\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprovider "+
		p.URL()+" {\n\t\tnamespace acme\n\t}\n}"))
	for _, command := range []string{"runs", "status"} {
		cmd := exec.CommandContext(t.Context(), "caddy", "skill-bridge", command, "--address", "127.0.0.1:"+c.Port("ADMIN"))
		text, _ := cmd.Output()
		if status := cmd.ProcessState.ExitCode(); status == 0 && command == "runs" || status != 0 && command == "status" {
			t.Errorf("%s: exit status %d", command, status)
		}
		for _, want := range []string{"kept: not known\n", "Not read: SQLite in /dev/null/bridge.db: "} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is not in %s", command, want, text)
			}
		}
		if strings.Contains(string(text), "bridge.db: SQLite") && command == "runs" || strings.Contains(string(text), "yet: not known of SQLite") != (command == "status") {
			t.Errorf("%s: %s", command, text)
		}
	}
}
