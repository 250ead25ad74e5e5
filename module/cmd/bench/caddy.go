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

// bridgeSite is one with the bridge and its defaults. It allows only what it needs to
// reach the upstream.
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
	const lines = "reverse_proxy %s %s {\ntransport http {\nkeepalive_idle_conns_per_host 512\nversions %s\n}\n}"
	return site{name, fmt.Sprintf(lines, path, u.address, versions)}
}

// respondSite is one that answers by itself.
func respondSite(name string) site {
	return site{name, "respond " + proxyPath + " `" + nowAnswer + "`"}
}

// globalOptions are those of a Caddyfile. The log is as detailed as it is by default,
// with a line for each call of the bridge, but goes nowhere: disks differ.
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

// startCaddy starts one with some sites, and waits until it can be used.
func (b *bench) startCaddy(sites ...site) *caddy { return b.startCaddyWith("INFO", nil, sites...) }

// startCaddyWith starts one with a level of its log and an environment of its own.
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
		admin: &http.Client{Timeout: patience, Transport: &http.Transport{
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

// get asks Caddy's admin endpoint.
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

// allocated is what Caddy has allocated so far.
type allocated struct {
	Mallocs    float64 `json:"Mallocs"`
	TotalAlloc float64 `json:"TotalAlloc"`
	HeapAlloc  float64 `json:"HeapAlloc"` // less what was freed
}

func (c *caddy) allocated() allocated {
	var variables struct {
		Memory allocated `json:"memstats"`
	}
	check(json.Unmarshal(c.get("/debug/vars"), &variables))
	return variables.Memory
}

// goroutines is how many Caddy has.
func (c *caddy) goroutines() (n int) {
	must(fmt.Sscanf(string(c.get("/debug/pprof/goroutine?debug=1")), "goroutine profile: total %d", &n))
	return n
}

// settled is Caddy's memory when it has nothing more to do: its garbage is collected,
// and what that freed had time to go back to the system.
func (b *bench) settled(c *caddy, wait time.Duration) (resident, heap float64) {
	for range 2 { // what has a finalizer or is in a pool goes with the second
		c.get("/debug/pprof/heap?gc=1")
	}
	heap = c.allocated().HeapAlloc
	b.sleep(wait)
	return c.residentMemory(), heap
}

// startNginx starts one that does what reverse_proxy does, if it is installed. It
// returns its address and its processes.
func (b *bench) startNginx(u *upstream) (address string, pids []int) {
	file, err := exec.LookPath("nginx")
	if err != nil {
		return "", nil
	}
	address = "127.0.0.1:" + strconv.Itoa(freePorts(1)[0])
	config := filepath.Join(b.dir, "nginx.conf")
	check(os.WriteFile(config, fmt.Appendf(nil, `daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 4096; }
http {
	access_log off; keepalive_requests 1000000000;
	client_body_temp_path %[1]s/nginx-body; proxy_temp_path %[1]s/nginx-proxy; fastcgi_temp_path %[1]s/nginx-f;
	uwsgi_temp_path %[1]s/nginx-u; scgi_temp_path %[1]s/nginx-s;
	client_max_body_size 2m; client_body_buffer_size 256k;
	upstream provider { server %[2]s; keepalive 512; keepalive_requests 1000000000; }
	server {
		listen %[3]s;
		location %[4]s { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; }
	}
}
`, b.dir, u.address, address, proxyPath), 0o600))
	p := b.start(nil, nil, "nginx", file, "-c", config, "-p", b.dir, "-e", "stderr")
	p.ready(b.ctx, address)
	must(once(http.MethodPost, address, proxyPath, []byte("{}"))) // by now its workers run
	return address, append(p.children(), p.pid())
}
