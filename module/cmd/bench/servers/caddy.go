package servers

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/failure"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/provider"
	"github.com/skill-bridge/caddy-skill-bridge/module/cmd/bench/wire"
)

// BuildCaddy builds Caddy with the bridge, unless there is one.
func (s *Starter) BuildCaddy() error {
	if s.Caddy != "" {
		return nil
	}
	s.Caddy = filepath.Join(s.Dir, "caddy")
	cmd := exec.CommandContext(s.Context, "go", "build", "-C", s.root(), "-o", s.Caddy, "./module/cmd/caddy") //nolint:gosec // of this repository
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building Caddy with the bridge (-caddy names one that is built): %w\n%s", err, text)
	}
	return nil
}

// Caddy is a running Caddy. Each site has its own port, so that routing takes little time.
type Caddy struct {
	*Process
	Addresses map[string]string // by name of the site
	admin     *http.Client
}

// Site is a site of the Caddyfile, with the lines in its block.
type Site struct{ Name, Lines string }

// Paths of sites.
const (
	BridgePath = "/rpc"
	ProxyPath  = "/run/now"
	HoldPath   = "/hold"

	// AgentPath and ToolsPath are the paths of A2A and MCP in sites with all protocols.
	AgentPath = "/a2a"
	ToolsPath = "/mcp"
)

// BridgeSite returns a site with the bridge and its defaults, except what it needs to connect to the
// upstream.
func (u *Upstream) BridgeSite(name string, options ...string) Site {
	scheme, namespace := "http://", "bench"
	// No file: how long the disk takes to make one does not belong to a figure.
	lines := []string{"skill_bridge " + BridgePath + " {", "allow_http", "allow_networks 127.0.0.0/8", "store memory"}
	if !slices.ContainsFunc(options, func(line string) bool { return strings.HasPrefix(line, "name ") }) {
		lines = append(lines, "name "+strings.ReplaceAll(name, " ", "-"))
	}
	if u.Certificate != "" {
		scheme = "https://"
		lines = append(lines, "transport http {", "tls_trust_pool file "+u.Certificate, "}")
	}
	for i, address := range append([]string{u.Address}, u.Others...) {
		if i > 0 {
			namespace = "bench" + strconv.Itoa(i)
		}
		lines = append(lines, "provider "+scheme+address+" {", "namespace "+namespace)
		if u.Keyed {
			lines = append(lines, "credentials api_key key-0123456789abcdef")
		}
		lines = append(lines, "}")
	}
	if u.Keyed {
		lines = append(lines, "allow_anonymous")
	}
	lines = append(lines, options...)
	return Site{name, strings.Join(append(lines, "}"), "\n")}
}

// ProxySite returns a site with reverse_proxy, with as many idle connections as the bridge.
func (u *Upstream) ProxySite(name, path, versions string) Site {
	const lines = "reverse_proxy %s %s {\ntransport http {\nkeepalive_idle_conns_per_host 512\nversions %s\n}\n}"
	if u.Certificate != "" {
		return Site{name, fmt.Sprintf(lines, path, "https://"+u.Address, versions+"\ntls_trust_pool file "+u.Certificate)}
	}
	return Site{name, fmt.Sprintf(lines, path, u.Address, versions)}
}

// ProtocolsSite returns a site, named site, with each protocol of the bridge at its own path.
func (u *Upstream) ProtocolsSite(options ...string) Site {
	s := u.BridgeSite("site", options...)
	s.Lines = "skill_bridge {\nrpc\na2a\nmcp\n" + s.Lines[len("skill_bridge "+BridgePath+" {\n"):]
	return s
}

// RespondSite returns a site with a static answer.
func RespondSite(name string) Site {
	return Site{name, "respond " + ProxyPath + " `" + provider.NowAnswer + "`"}
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

// StartCaddy starts Caddy with these sites, and waits until it listens.
func (s *Starter) StartCaddy(sites ...Site) *Caddy { return s.StartCaddyWith("INFO", nil, sites...) }

// StartCaddyWith is StartCaddy with a log level and further environment variables.
func (s *Starter) StartCaddyWith(logLevel string, environment []string, sites ...Site) *Caddy {
	dir := failure.Must(os.MkdirTemp(s.Dir, "caddy-"))
	socket, file := filepath.Join(dir, "admin"), filepath.Join(dir, "Caddyfile")
	text := fmt.Appendf(nil, globalOptions, socket, filepath.Join(dir, "storage"), logLevel)
	addresses := map[string]string{}
	ports := freePorts(len(sites))
	for i, to := range sites {
		addresses[to.Name] = "127.0.0.1:" + strconv.Itoa(ports[i])
		text = fmt.Appendf(text, "http://:%d {\nbind 127.0.0.1\n%s\n}\n", ports[i], to.Lines)
	}
	failure.Check(os.WriteFile(file, text, 0o600))
	c := &Caddy{
		Process: s.start(environment, nil, "Caddy", s.Caddy, "run", "--config", file, "--adapter", "caddyfile"), Addresses: addresses,
		admin: &http.Client{Timeout: wire.Patience, Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}},
	}
	for _, address := range addresses {
		c.ready(s.Context, address)
	}
	return c
}

// Get sends a GET to Caddy's admin API.
func (c *Caddy) Get(path string) []byte {
	resp, err := c.admin.Get("http://localhost" + path)
	failure.Check(err)
	defer resp.Body.Close()
	text := failure.Must(io.ReadAll(resp.Body))
	if resp.StatusCode != http.StatusOK {
		failure.Check(fmt.Errorf("the admin endpoint of Caddy: HTTP %d %.300s", resp.StatusCode, text))
	}
	return text
}

// Allocated has Caddy's memory statistics.
type Allocated struct {
	Mallocs    float64 `json:"Mallocs"`
	TotalAlloc float64 `json:"TotalAlloc"`
	HeapAlloc  float64 `json:"HeapAlloc"` // without freed memory
	StackInuse float64 `json:"StackInuse"`
}

// Allocated returns Caddy's memory statistics.
func (c *Caddy) Allocated() Allocated {
	var variables struct {
		Memory Allocated `json:"memstats"`
	}
	failure.Check(json.Unmarshal(c.Get("/debug/vars"), &variables))
	return variables.Memory
}

// Goroutines returns the number of Caddy's goroutines.
func (c *Caddy) Goroutines() (n int) {
	failure.Must(fmt.Sscanf(string(c.Get("/debug/pprof/goroutine?debug=1")), "goroutine profile: total %d", &n))
	return n
}
