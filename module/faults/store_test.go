package faults_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestDatabaseCannotBeOpened: with a database that can't be opened, calls go on, those that need a run token are refused before anything is sent, and the
// operator learns what to do. Another handler of the same configuration has another database, which works.
func TestDatabaseCannotBeOpened(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/quick"})
	p.On("acme/slow", hostile.Invoke, hostile.Accept(1<<30))
	handler := func(path, store string) string {
		return "skill_bridge " + path + " {\n\tname " + path[1:] + "\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tstore " + store + "\n\tprovider " + p.URL() + " {\n\t\tnamespace acme\n\t}\n}"
	}
	c := testbed.StartCaddy(t, testbed.AdminAPI+testbed.Site(handler("/rpc", "sqlite /dev/null/bridge.db"), handler("/other", "memory")))
	if a := c.Execute("acme.quick", nil); a.Outcome() != "completed" {
		t.Errorf("a call that needs no database: %s", a)
	}
	a := c.With(wait(0)).Execute("acme.slow", nil)
	if a.Code != -32603 || a.Data.Executed != "no" || a.Data.Next != "ask_operator" || p.Posts(a.Call) != 0 {
		t.Errorf("a call that needs a run token: %s, %d posts", a, p.Posts(a.Call))
	}
	if lines := c.Log.Lines(`"level":"error"`, "the database can't be used", "/dev/null", "store sqlite <file>"); len(lines) != 1 {
		t.Errorf("the log says %q", lines)
	}
	other := testbed.NewClient(t, strings.Replace(c.URL, "/rpc", "/other", 1))
	if a := other.With(wait(0)).Execute("acme.slow", nil); a.Outcome() != "running" || runToken(a) == "" {
		t.Errorf("at the other handler: %s", a)
	}
	// The other database has been opened for that call: it may take a while.
	stores := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/stores", "").Body)
	for _, text := range []string{`"kind":"sqlite","place":"SQLite in /dev/null/bridge.db","state":"unusable","error":"`, "store sqlite \\u003cfile\\u003e", `"kind":"memory","place":"SQLite in memory","state":"open"}`} {
		if !strings.Contains(stores, text) {
			t.Errorf("the admin API does not say %q: %s", text, stores)
		}
	}
}
