package probes_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/skill-bridge/caddy-skill-bridge/module" // the tests run Caddy with the whole module
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// prober asks the probes of a Caddy.
type prober struct {
	*testing.T
	client *testbed.Client
	admin  string
}

// get returns the status and the body of an answer.
func (p prober) get(url string) string {
	p.Helper()
	a := p.client.With(testbed.Fresh()).Send(http.MethodGet, url, "")
	if a.Err != nil {
		return a.Err.Error()
	}
	if t := a.Header.Get("Content-Type"); t != "application/json" {
		p.Errorf("%s: Content-Type %q", url, t)
	}
	return http.StatusText(a.Status) + " " + strings.TrimSpace(string(a.Body))
}

// want waits until the probes for readiness answer so: that of the site, and that of the admin API. A text of the latter is a beginning.
func (p prober) want(site, admin string) {
	p.Helper()
	var gotSite, gotAdmin string
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		gotSite, gotAdmin = p.get(strings.TrimSuffix(p.client.URL, "/rpc")+"/readyz"), p.get(p.admin+"/skill_bridge/readyz")
		if gotSite == site && strings.HasPrefix(gotAdmin, admin) {
			return
		}
	}
	p.Errorf("the site says   %s\nwant            %s\nthe admin API says %s\nwant              %s", gotSite, site, gotAdmin, admin)
}

const ready = `OK {"status":"ready"}`

func bridge(lines ...string) string {
	return testbed.AdminAPI + testbed.Site("skill_bridge {\n\trpc\n\thealth\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tallow_anonymous\n\t"+strings.Join(lines, "\n\t")+"\n}")
}

// TestProbes: readiness knows the database and the sources, strangers learn no names and no reasons, and a probe sends nothing to a provider.
func TestProbes(t *testing.T) {
	dsn := postgrestest.Start(t)
	server, name := dsn[:strings.LastIndex(dsn, "/")+1], dsn[strings.LastIndex(dsn, "/")+1:]
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	provider := "provider " + p.URL() + " {\n\t\tnamespace acme\n\t\tcredentials api_key a-secret-of-the-provider\n\t}"
	config := bridge("store postgres "+dsn, provider, "cache {\n\t\tttl 1ms\n\t\tmax_ttl 1ms\n\t\tnegative_ttl 1ms\n\t}")
	c := testbed.StartCaddy(t, config)
	w := prober{t, c.Client, c.Admin()}
	w.want(ready, ready)
	site := strings.TrimSuffix(c.URL, "/rpc")
	for _, url := range []string{site + "/healthz", c.Admin() + "/skill_bridge/healthz"} {
		if got := w.get(url); got != `OK {"status":"ok"}` {
			t.Errorf("%s: %s", url, got)
		}
	}
	if a := c.Send(http.MethodHead, site+"/readyz", ""); a.Status != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD: %s", a)
	}
	if n := p.Count("", hostile.Index); n != 0 {
		t.Errorf("the probes have read the index %d times", n)
	}

	// The only source is down, and works again.
	p.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "0"))
	c.Execute("acme.echo", nil)
	w.want(`OK {"status":"degraded","problems":["sources"]}`, `OK {"status":"degraded","problems":["sources: none of bridge `)
	p.On("", hostile.Index, hostile.Usual())
	testbed.Eventually(t, 10*time.Second, func() bool { return c.Execute("acme.echo", nil).Outcome() == "completed" }, "the source works again")
	w.want(ready, ready)

	// The database is gone, so that calls without keys go on, and comes back.
	postgrestest.Exec(t, server+"postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	t.Cleanup(func() { postgrestest.Exec(t, server+"postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true") })
	postgrestest.Exec(t, server+"postgres", "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '"+name+"'")
	w.want(`OK {"status":"degraded","problems":["database"]}`, `OK {"status":"degraded","problems":["database: `)
	if answer := w.get(c.Admin() + "/skill_bridge/readyz"); strings.Contains(answer, postgrestest.Password) {
		t.Errorf("the answer has a secret: %s", answer)
	}
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Errorf("without the database: %s", a)
	}
	postgrestest.Exec(t, server+"postgres", "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
	w.want(ready, ready)

	// Reloads: to a database that can't be opened, to a configuration without a bridge, and back.
	reload := func(caddyfile string) {
		t.Helper()
		if err := c.Reload(caddyfile); err != nil {
			t.Fatal(err)
		}
	}
	reload(bridge("store sqlite /dev/null/bridge.db", provider))
	const unopened = "database: SQLite in /dev/null/bridge.db: mkdir /dev/null: not a directory"
	w.want(`Service Unavailable {"status":"unready","problems":["database"]}`, `Service Unavailable {"status":"unready","problems":["`+unopened+`"],"error":"not ready: `+unopened+`"}`)
	reload(testbed.AdminAPI + testbed.Site("header Content-Type application/json", "respond /readyz nothing"))
	w.want("OK nothing", `Service Unavailable {"status":"unready","problems":["configuration: it has no skill_bridge, and no skill_publish"],"error":"not ready: configuration: it has no skill_bridge, and no skill_publish"}`)
	reload(config)
	w.want(ready, ready)
}

// TestUnreadyBeforeTheEnd: while Caddy still takes calls, but is about to end (shutdown_delay), balancers learn it.
func TestUnreadyBeforeTheEnd(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	_, site, _ := strings.Cut(bridge("store memory", "provider "+p.URL()), testbed.AdminAPI)
	c := testbed.StartProcess(t, testbed.Limits{}, site, "shutdown_delay 3s", "grace_period 5s")
	w := prober{t, c.Client, c.Admin()}
	w.want(ready, ready)
	c.Signal(syscall.SIGTERM)
	w.want(`Service Unavailable {"status":"unready","problems":["process"]}`, `Service Unavailable {"status":"unready","problems":["process: Caddy stops"]`)
	if a := c.With(testbed.Fresh()).Call("list_skills", nil); a.Status != http.StatusOK {
		t.Errorf("a call before the end: %s", a)
	}
	if status := c.Wait(20 * time.Second); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestHealthElsewhere: the probes of a site are below the path of the option, and the next handler gets what they are not.
func TestHealthElsewhere(t *testing.T) {
	_, block, _ := strings.Cut(bridge("store memory"), "skill_bridge {")
	block = strings.Replace(strings.TrimSuffix(block, "}\n"), "\thealth\n", "\thealth /internal/\n", 1)
	c := testbed.StartCaddy(t, testbed.Site("route {", "skill_bridge {"+block, "respond next 418", "}"))
	site := strings.TrimSuffix(c.URL, "/rpc")
	testbed.Eventually(t, 10*time.Second, func() bool { return c.Send(http.MethodGet, site+"/internal/readyz", "").Status == http.StatusOK }, "the database is open")
	for path, status := range map[string]int{"/internal/healthz": 200, "/internal/readyz": 200, "/internal/": 418, "/healthz": 418, "/internal/readyz/x": 418, "/x/internal/readyz": 418} {
		if a := c.Send(http.MethodGet, site+path, ""); a.Status != status {
			t.Errorf("%s: %s, want %d", path, a, status)
		}
	}
	if c.Log.Has("do not reach it") {
		t.Errorf("a warning about paths: %s", c.Log.Text())
	}
}
