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
)

// buildCaddy builds Caddy with the bridge, unless there is one to use.
func (b *bench) buildCaddy(ctx context.Context) error {
	if b.caddy != "" {
		return nil
	}
	b.say("building Caddy")
	b.caddy = filepath.Join(b.dir, "caddy")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", b.caddy, "github.com/skill-bridge/caddy-skill-bridge/module/cmd/caddy") //nolint:gosec // of this repository
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building Caddy with the bridge (-caddy names one that is built): %w\n%s", err, text)
	}
	return nil
}

// caddy is one that runs. Each of its sites listens at an address of its own, so
// that a request finds its handler with as little as it can.
type caddy struct {
	*process
	addresses map[string]string // by the names of the sites
	admin     *http.Client
}

// site is one of Caddy's: the lines that are in its block of the Caddyfile.
type site struct{ name, lines string }

// Paths of sites.
const (
	bridgePath = "/rpc"
	proxyPath  = "/run/now"
	holdPath   = "/hold"
)

// bridgeSite is one with the bridge, as restrictive as it comes: what is allowed here
// is what the upstream needs to be reached.
func (u *upstream) bridgeSite(name string, options ...string) site {
	lines := []string{
		"skill_bridge " + bridgePath + " {",
		"provider http://" + u.address + " {", "namespace bench", "}",
		"allow_http", "allow_networks 127.0.0.0/8",
	}
	lines = append(lines, options...)
	return site{name, strings.Join(append(lines, "}"), "\n")}
}

// proxySite is one with reverse_proxy, which keeps as many idle connections as the
// bridge does.
func (u *upstream) proxySite(name, path, versions string) site {
	return site{name, fmt.Sprintf("reverse_proxy %s %s {\ntransport http {\nkeepalive_idle_conns_per_host 512\nversions %s\n}\n}", path, u.address, versions)}
}

// respondSite is one that answers by itself.
func respondSite(name string) site {
	return site{name, "respond " + proxyPath + " `" + nowAnswer + "`"}
}

// caddyfile writes everything that Caddy is told. Its log is as detailed as it is
// by default, with a line for each call of the bridge, but goes nowhere: disks differ.
func caddyfile(dir, admin, logLevel string, ports []int, sites []site) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{
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
`, admin, filepath.Join(dir, "storage"), logLevel)
	for i, s := range sites {
		fmt.Fprintf(&b, "http://:%d {\nbind 127.0.0.1\n%s\n}\n", ports[i], s.lines)
	}
	return b.String()
}

// startCaddy starts one with some sites, and waits until it can be used.
func (b *bench) startCaddy(ctx context.Context, sites ...site) (*caddy, error) {
	return b.startCaddyWith(ctx, b.logLevel, nil, sites...)
}

// startCaddyWith starts one with a level of its log and an environment of its own.
func (b *bench) startCaddyWith(ctx context.Context, logLevel string, environment []string, sites ...site) (*caddy, error) {
	dir, err := os.MkdirTemp(b.dir, "caddy-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(len(sites))
	if err != nil {
		return nil, err
	}
	socket, config := filepath.Join(dir, "admin"), filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile(dir, socket, logLevel, ports, sites)), 0o600); err != nil {
		return nil, fmt.Errorf("writing the Caddyfile: %w", err)
	}
	p, err := b.startWith(ctx, environment, nil, "Caddy", b.caddy, "run", "--config", config, "--adapter", "caddyfile")
	if err != nil {
		return nil, err
	}
	c := &caddy{process: p, addresses: map[string]string{}, admin: &http.Client{Timeout: patience, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
	for i, s := range sites {
		c.addresses[s.name] = "127.0.0.1:" + strconv.Itoa(ports[i])
		if err := p.ready(ctx, "tcp", c.addresses[s.name]); err != nil {
			p.stop()
			return nil, err
		}
	}
	return c, nil
}

// get asks Caddy's admin endpoint.
func (c *caddy) get(path string) ([]byte, error) {
	resp, err := c.admin.Get("http://localhost" + path)
	if err != nil {
		return nil, fmt.Errorf("asking Caddy's admin endpoint: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("asking Caddy's admin endpoint: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking Caddy's admin endpoint: HTTP %d %.300s", resp.StatusCode, text)
	}
	return text, nil
}

// allocated is what Caddy has allocated so far.
type allocated struct {
	Mallocs    float64 `json:"Mallocs"`
	TotalAlloc float64 `json:"TotalAlloc"`
	HeapAlloc  float64 `json:"HeapAlloc"` // less what was freed
}

func (c *caddy) allocated() (a allocated, err error) {
	text, err := c.get("/debug/vars")
	if err != nil {
		return a, err
	}
	variables := struct {
		Memory *allocated `json:"memstats"`
	}{&a}
	return a, json.Unmarshal(text, &variables)
}

// goroutines is how many Caddy has.
func (c *caddy) goroutines() (int, error) {
	text, err := c.get("/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	var n int
	if _, err := fmt.Sscanf(string(text), "goroutine profile: total %d", &n); err != nil {
		return 0, fmt.Errorf("counting Caddy's goroutines: %w", err)
	}
	return n, nil
}

// collect has Caddy collect its garbage.
func (c *caddy) collect() error {
	_, err := c.get("/debug/pprof/heap?gc=1")
	return err
}

// settled is Caddy's memory when it has nothing more to do: its garbage is collected,
// and what that freed had time to go back to the system.
func (c *caddy) settled(ctx context.Context, wait time.Duration) (resident, heap float64, err error) {
	for range 2 { // what has a finalizer or is in a pool goes with the second
		if err := c.collect(); err != nil {
			return 0, 0, err
		}
	}
	a, err := c.allocated()
	if err != nil {
		return 0, 0, err
	}
	if err := sleep(ctx, wait); err != nil {
		return 0, 0, err
	}
	resident, err = residentMemory(c.pid())
	return resident, a.HeapAlloc, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// startNginx starts one that does what reverse_proxy does, if it is installed.
func (b *bench) startNginx(ctx context.Context, u *upstream) (p *process, address string, pids []int, err error) {
	file, err := exec.LookPath("nginx")
	if err != nil {
		return nil, "", nil, nil //nolint:nilerr // then it isn't
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", nil, err
	}
	address = "127.0.0.1:" + strconv.Itoa(ports[0])
	config := filepath.Join(b.dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 4096; }
http {
	access_log off; keepalive_requests 1000000000;
	client_body_temp_path %[1]s/nginx-body; proxy_temp_path %[1]s/nginx-proxy; fastcgi_temp_path %[1]s/nginx-f; uwsgi_temp_path %[1]s/nginx-u; scgi_temp_path %[1]s/nginx-s;
	client_max_body_size 2m; client_body_buffer_size 256k;
	upstream provider { server %[2]s; keepalive 512; keepalive_requests 1000000000; }
	server {
		listen %[3]s;
		location %[4]s { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; }
	}
}
`, b.dir, u.address, address, proxyPath)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, "", nil, fmt.Errorf("writing the configuration of nginx: %w", err)
	}
	if p, err = b.start(ctx, nil, "nginx", file, "-c", config, "-p", b.dir, "-e", "stderr"); err != nil {
		return nil, "", nil, err
	}
	err = p.ready(ctx, "tcp", address)
	if err == nil {
		if _, err = once(http.MethodPost, address, proxyPath, []byte("{}")); err == nil { // by now its workers run
			pids, err = children(p.pid())
		}
	}
	if err != nil {
		p.stop()
		return nil, "", nil, err
	}
	return p, address, append(pids, p.pid()), nil
}
