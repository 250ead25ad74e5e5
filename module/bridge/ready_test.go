package bridge_test

import (
	"encoding/json" // reads a line of Caddy's log
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// readyLine waits for the line that says that a bridge of this name is ready, and returns its URLs, sources, callers and database.
func readyLine(t *testing.T, c *testbed.Caddy, name string) string {
	t.Helper()
	text := ""
	testbed.Eventually(t, 10*time.Second, func() bool {
		text = strings.Join(c.Log.Lines(`"level":"info"`, `"msg":"bridge ready"`, `"bridge":"`+name+`"`), "\n")
		return text != ""
	}, "the bridge says that it is ready")
	var line struct {
		URLs, Sources, Callers []string
		Store                  string
	}
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return fmt.Sprint(line.URLs, line.Sources, line.Callers) + " " + filepath.Base(line.Store)
}

// One line of each bridge says where it is, when the configuration runs: as clients see it, without what does not get there.
func TestReady(t *testing.T) {
	const three = "skill_bridge {\nname b\nrpc\na2a\nmcp\n"
	for about, tc := range map[string]struct{ site, want string }{
		"of the site":    {"http://127.0.0.1:{$PORT}, http://agents.localhost:{$PORT} {\n" + three + "}\n}", "[http://127.0.0.1:PORT/rpc http://127.0.0.1:PORT/a2a http://127.0.0.1:PORT/mcp http://agents.localhost:PORT/rpc http://agents.localhost:PORT/a2a http://agents.localhost:PORT/mcp] [] [everyone] skill_bridge.db"},
		"with TLS":       {"https://agents.localhost:{$PORT} {\ntls internal\nskill_bridge /tools {\nname b\nprovider https://skills.example.com\nprovider https://b.example.com {\nnamespace acme\n}\nstore memory\n}\n}", "[https://agents.localhost:PORT/tools] [skills.example.com acme] [everyone] SQLite in memory"},
		"with users":     {"http://127.0.0.1:{$PORT} {\n" + testbed.Accounts("alice") + "\nskill_bridge /tools {\nname b\nstore memory\n}\n}", "[http://127.0.0.1:PORT/tools] [] [principal {http.auth.user.id} anonymous] SQLite in memory"},
		"of no site":     {":{$PORT} {\n@a path /mcp\nrespond @a 404\nhandle_path /x/* {\n" + three + "require_principal\nprincipal {http.request.header.Remote-User}\n}\n}\n}", "[http://localhost:PORT/x/rpc http://localhost:PORT/x/a2a http://localhost:PORT/x/mcp] [] [principal {http.request.header.Remote-User}] skill_bridge.db"},
		"without hidden": {"http://127.0.0.1:{$PORT} {\nrespond /mcp 404\n" + three + "callers_jwt https://login.example.com {\naudience a\n}\n}\n}", "[http://127.0.0.1:PORT/rpc http://127.0.0.1:PORT/a2a] [] [callers_jwt https://login.example.com] skill_bridge.db"},
	} {
		t.Run(about, func(t *testing.T) {
			c := testbed.StartCaddy(t, "{\nskip_install_trust\n}\n"+tc.site)
			defer c.Stop()
			if got, want := readyLine(t, c, "b"), strings.ReplaceAll(tc.want, "PORT", c.Port("PORT")); got != want {
				t.Errorf("ready:\n%s, want\n%s", got, want)
			}
		})
	}
}

// A bridge whose servers can't listen is not ready.
func TestNotReady(t *testing.T) {
	bridge := func(name string) string {
		return "http://127.0.0.1:{$PORT} {\nskill_bridge {\nname " + name + "\nrpc\n}\n}\n"
	}
	c := testbed.StartCaddy(t, bridge("a"))
	readyLine(t, c, "a")
	if err := c.Reload(bridge("b") + "http://192.0.2.1:{$PORT} {\nbind 192.0.2.1\n}"); err == nil { // an address for documentation (RFC 5737)
		t.Fatal("it listens at an address that no machine has")
	}
	if err := c.Reload(bridge("c")); err != nil {
		t.Fatal(err)
	}
	readyLine(t, c, "c")
	if lines := c.Log.Lines(`"msg":"bridge ready"`, `"bridge":"b"`); len(lines) > 0 {
		t.Errorf("%s", lines)
	}
}

// A bridge whose database is not open yet, which probes call unready, only says that it listens; and that it is ready when the database is open.
func TestListening(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, "http://127.0.0.1:{$PORT} {\nskill_bridge {\nname b\nrpc\nhealth\nstore sqlite "+folder+"/skill_bridge.db\n}\n}")
	testbed.Eventually(t, 10*time.Second, func() bool { return len(c.Log.Lines(`"msg":"bridge listening"`, `not open yet"`)) == 1 }, "the bridge says that it listens")
	if a := c.Send(http.MethodGet, "http://127.0.0.1:"+c.Port("PORT")+"/readyz", ""); a.Status != http.StatusServiceUnavailable {
		t.Errorf("%s", a)
	}
	if lines := c.Log.Lines(`"msg":"bridge ready"`); len(lines) > 0 {
		t.Errorf("%s", lines)
	}
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
	if got, want := readyLine(t, c, "b"), "[http://127.0.0.1:"+c.Port("PORT")+"/rpc] [] [everyone] skill_bridge.db"; got != want {
		t.Errorf("ready:\n%s, want\n%s", got, want)
	}
}
