package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// buildCaddy builds Caddy with the bridge, unless -caddy names a binary.
func (b *bench) buildCaddy() error {
	if b.caddy != "" {
		return nil
	}
	b.say("building Caddy")
	b.caddy = filepath.Join(b.dir, "caddy")
	const program = "github.com/skill-bridge/caddy-skill-bridge/module/cmd/caddy"
	cmd := exec.CommandContext(b.ctx, "go", "build", "-o", b.caddy, program) //nolint:gosec // of this repository
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building Caddy with the bridge (-caddy names one that is built): %w\n%s", err, text)
	}
	return nil
}

// caddy is a running Caddy. Each site has its own port, so that routing takes little time.
type caddy struct {
	*process
	addresses map[string]string // by name of the site
	admin     *http.Client
}

// site is a site of the Caddyfile, with the lines in its block.
type site struct{ name, lines string }

// Paths of sites.
const (
	bridgePath = "/rpc"
	proxyPath  = "/run/now"
	holdPath   = "/hold"
)

// bridgeSite returns a site with the bridge and its defaults, except what it needs to connect to the
// upstream.
func (u *upstream) bridgeSite(name string, options ...string) site {
	scheme, namespace := "http://", "bench"
	lines := []string{"skill_bridge " + bridgePath + " {", "allow_http", "allow_networks 127.0.0.0/8"}
	if u.certificate != "" {
		scheme = "https://"
		lines = append(lines, "transport http {", "tls_trust_pool file "+u.certificate, "}")
	}
	for i, address := range append([]string{u.address}, u.others...) {
		if i > 0 {
			namespace = "bench" + strconv.Itoa(i)
		}
		lines = append(lines, "provider "+scheme+address+" {", "namespace "+namespace)
		if u.keyed {
			lines = append(lines, "credentials api_key key-0123456789abcdef")
		}
		lines = append(lines, "}")
	}
	if u.keyed {
		lines = append(lines, "allow_anonymous")
	}
	lines = append(lines, options...)
	return site{name, strings.Join(append(lines, "}"), "\n")}
}

// proxySite returns a site with reverse_proxy, with as many idle connections as the bridge.
func (u *upstream) proxySite(name, path, versions string) site {
	const lines = "reverse_proxy %s %s {\ntransport http {\nkeepalive_idle_conns_per_host 512\nversions %s\n}\n}"
	if u.certificate != "" {
		return site{name, fmt.Sprintf(lines, path, "https://"+u.address, versions+"\ntls_trust_pool file "+u.certificate)}
	}
	return site{name, fmt.Sprintf(lines, path, u.address, versions)}
}

// respondSite returns a site with a static answer.
func respondSite(name string) site {
	return site{name, "respond " + proxyPath + " `" + provider.NowAnswer + "`"}
}

// globalOptions are the global options of the Caddyfile. The log has the default level, with a line
// for each call of the bridge, but is written to /dev/null, because disks differ.
const globalOptions = `{
	admin unix/%s
	auto_https off
	persist_config off
	storage file_system %s
	grace_period 1s
	log default {
		output file /dev/null {
			roll_disabled
		}
		level %s
	}
	log errors {
		output stderr
		level ERROR
	}
	servers {
		protocols h1 h2c
	}
}
`

// startCaddy starts Caddy with these sites, and waits until it listens.
func (b *bench) startCaddy(sites ...site) *caddy { return b.startCaddyWith("INFO", nil, sites...) }

// startCaddyWith is startCaddy with a log level and further environment variables.
func (b *bench) startCaddyWith(logLevel string, environment []string, sites ...site) *caddy {
	dir := must(os.MkdirTemp(b.dir, "caddy-"))
	socket, file := filepath.Join(dir, "admin"), filepath.Join(dir, "Caddyfile")
	text := fmt.Appendf(nil, globalOptions, socket, filepath.Join(dir, "storage"), logLevel)
	addresses := map[string]string{}
	ports := freePorts(len(sites))
	for i, s := range sites {
		addresses[s.name] = "127.0.0.1:" + strconv.Itoa(ports[i])
		text = fmt.Appendf(text, "http://:%d {\nbind 127.0.0.1\n%s\n}\n", ports[i], s.lines)
	}
	check(os.WriteFile(file, text, 0o600))
	c := &caddy{
		process: b.start(environment, nil, "Caddy", b.caddy, "run", "--config", file, "--adapter", "caddyfile"), addresses: addresses,
		admin: &http.Client{Timeout: wire.Patience, Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}},
	}
	for _, address := range addresses {
		c.ready(b.ctx, address)
	}
	return c
}

// get sends a GET to Caddy's admin API.
func (c *caddy) get(path string) []byte {
	resp, err := c.admin.Get("http://localhost" + path)
	check(err)
	defer resp.Body.Close()
	text := must(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		check(fmt.Errorf("the admin endpoint of Caddy: HTTP %d %.300s", resp.StatusCode, text))
	}
	return text
}

// allocated has Caddy's memory statistics.
type allocated struct {
	Mallocs    float64 `json:"Mallocs"`
	TotalAlloc float64 `json:"TotalAlloc"`
	HeapAlloc  float64 `json:"HeapAlloc"` // without freed memory
}

func (c *caddy) allocated() allocated {
	var variables struct {
		Memory allocated `json:"memstats"`
	}
	check(json.Unmarshal(c.get("/debug/vars"), &variables))
	return variables.Memory
}

// goroutines returns the number of Caddy's goroutines.
func (c *caddy) goroutines() (n int) {
	must(fmt.Sscanf(string(c.get("/debug/pprof/goroutine?debug=1")), "goroutine profile: total %d", &n))
	return n
}

// settled returns Caddy's memory when it is idle: after garbage collections, and after a wait in which
// the runtime returns freed memory to the system.
func (b *bench) settled(c *caddy, wait time.Duration) (resident, heap float64) {
	for range 2 { // the second one frees objects with finalizers and in pools
		c.get("/debug/pprof/heap?gc=1")
	}
	heap = c.allocated().HeapAlloc
	b.sleep(wait)
	return c.residentMemory(), heap
}
