// Package fronts connects the protocols that agents speak with Caddy: their options, the paths
// at which a handler serves them, and their well-known documents.
package fronts

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/skill-bridge/caddy-skill-bridge/module/consent"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/probes"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Mounts are the protocols that a handler serves, with their paths. If there is one, the handler answers the requests to
// these paths and passes all others on to the next handler. Without any, it serves the Skills Protocol at every path.
type Mounts struct {
	// Serve the Skills Protocol (`execute_skill`) at a path of its own. Default: at every path, if there is no other
	// protocol, and otherwise not at all. Example: `{"path": "/rpc"}`.
	RPC *RPC `json:"rpc,omitempty"`

	// Serve A2A (Agent2Agent) 1.0, 0.3 and 0.1 over JSON-RPC, so that each skill is a skill of an A2A agent. Default: none.
	// Example: `{"path": "/a2a"}`.
	A2A *A2A `json:"a2a,omitempty"`

	// Serve MCP (Model Context Protocol) over Streamable HTTP, so that each skill is a tool. Default: none. Example: `{"path": "/mcp"}`.
	MCP *MCP `json:"mcp,omitempty"`

	// How long a request of A2A or MCP waits for the end of its task or run. Then it is answered with the task, or with a run token, with which
	// the tool `get_run` follows the run. Most clients give up after 60 seconds. Default: `50s`.
	Wait caddy.Duration `json:"wait,omitempty"`

	// Serve `/.well-known/agent-skills/index.json` (Agent Skills Discovery 0.2.0) and a `SKILL.md` for each skill that the caller may see, so
	// that coding agents can install the skills, for example with `npx skills add <origin>`. Default: none. Example: `{}`.
	AgentSkills *AgentSkills `json:"agent_skills,omitempty"`

	// Let callers of the Skills Protocol and of A2A choose URLs to which the bridge sends the ends of runs and the states of tasks. Default: they
	// can't. Example: `{}`.
	Webhooks *Webhooks `json:"webhooks,omitempty"`

	// Serve the pages on which users connect accounts of their own at providers, at `/connect` and below it. Required if any credentials are
	// `oauth2_user`. Default: none. Example: `{"url": "https://agents.example.com/connect"}`.
	Connect *consent.Config `json:"connect,omitempty"`

	// Serve probes for programs that watch the bridge, to everybody: `/healthz` says whether the process answers, `/readyz` whether the bridge is ready for
	// calls. Default: none. Example: `{"path": "/internal"}`.
	Health *Health `json:"health,omitempty"`

	// ByToken says that the handler accepts access tokens itself, so that MCP has metadata that names their issuers.
	ByToken bool `json:"-"`
}

// RPC is the mount of the Skills Protocol.
type RPC struct {
	// The path of the endpoint. Default: `/rpc`.
	Path string `json:"path,omitempty" option:"-"`
}

// Health are the probes of a site.
type Health struct {
	// The path below which `healthz` and `readyz` are. Default: `/`. Example: `/internal`.
	Path string `json:"path,omitempty" option:"-"`
}

// Serves reports whether a request is for a probe.
func (h *Health) Serves(r *http.Request) bool {
	if h == nil {
		return false
	}
	probe, found := strings.CutPrefix(r.URL.Path, strings.TrimSuffix(h.Path, "/"))
	return found && (probe == probes.Health || probe == probes.Readiness)
}

const (
	defaultRPCPath = "/rpc"
	defaultA2APath = "/a2a"
	defaultWait    = 50 * time.Second // clients give up after 60 s
)

// Patience returns how long a request of A2A or MCP waits for the end of its run.
func (m *Mounts) Patience() time.Duration { return cmp.Or(time.Duration(m.Wait), defaultWait) }

// Any reports whether any protocol has a path of its own.
func (m *Mounts) Any() bool { return m.RPC != nil || m.A2A != nil || m.MCP != nil }

// servesRPC reports whether the Skills Protocol is served.
func (m *Mounts) servesRPC() bool { return m.RPC != nil || !m.Any() }

// IsRPC reports whether a path is that of the Skills Protocol.
func (m *Mounts) IsRPC(requestPath string) bool {
	return m.RPC != nil && strings.TrimSuffix(requestPath, "/") == strings.TrimSuffix(m.RPC.path(), "/")
}

// path returns the path of the mount; empty: there is none.
func (r *RPC) path() string {
	if r == nil {
		return ""
	}
	return cmp.Or(r.Path, defaultRPCPath)
}

// Elsewhere returns the protocols that the handler can serve, and where it does.
func (m *Mounts) Elsewhere() *front.Elsewhere {
	return &front.Elsewhere{
		Protocols: []front.Protocol{
			{Name: skillsprotocol.Name, Title: "the Skills Protocol", Methods: skillsprotocol.Methods(), Path: m.RPC.path()},
			{Name: mcp.Name, Title: "MCP", Methods: append(mcp.Methods(), mcp.OtherMethods...), Path: m.MCP.path()},
			{Name: a2a.Name, Title: "A2A", Methods: a2a.Methods(), Path: m.A2A.path()},
		},
		Base: func(r *http.Request) string {
			base := baseOf(r)
			return base.Path
		},
	}
}

// Read reads the option rpc.
func (r *RPC) Read(from *options.Reader) error {
	return from.BlockWith("rpc", "rpc", "optionally a path", 0, r, nil, &r.Path)
}

// Read reads the option health.
func (h *Health) Read(from *options.Reader) error {
	return from.BlockWith("health", "health", "optionally a path", 0, h, nil, &h.Path)
}

// Check checks the options.
func (m *Mounts) Check(c *options.Checker) {
	if m.RPC != nil {
		c.Check("rpc.path", checkPath(m.RPC.Path))
	}
	if m.A2A != nil {
		m.A2A.check(c)
	}
	if m.MCP != nil {
		m.MCP.check(c)
	}
	switch {
	case m.Wait < 0 || 0 < m.Wait && m.Wait < caddy.Duration(time.Millisecond):
		c.Check("wait", fmt.Errorf("wait %s is too short: the minimum is 1ms", time.Duration(m.Wait)))
	case m.Wait != 0 && m.A2A == nil && m.MCP == nil:
		c.Check("wait", errors.New("wait is for A2A and MCP, which are not served: add a2a or mcp, or remove wait"))
	}
	if m.AgentSkills != nil {
		m.AgentSkills.check(c, m)
	}
	if m.Webhooks != nil {
		m.Webhooks.check(c, m)
	}
	rpc, tools, agent := strings.TrimSuffix(m.RPC.path(), "/"), m.MCP.path(), m.A2A.path()
	covered := func(path string) bool { return m.A2A != nil && (path == agent || strings.HasPrefix(path, agent+"/")) }
	if m.RPC != nil && covered(rpc) {
		c.Check("a2a.path", fmt.Errorf("the path %s of a2a covers the path %s of rpc: give one of them another path", agent, rpc))
	}
	if m.MCP != nil && m.RPC != nil && tools == rpc {
		c.Check("mcp.path", fmt.Errorf("the path %s of mcp is that of rpc, too: give one of them another path", tools))
	}
	if m.MCP != nil && covered(tools) {
		c.Check("mcp.path", fmt.Errorf("the path %s of a2a covers the path %s of mcp: give one of them another path", agent, tools))
	}
	if m.Connect != nil {
		c.Check("connect.path", cmp.Or(checkPath(m.Connect.Path), m.checkConnect(covered)))
		m.Connect.Check(c)
	}
	if m.Health != nil {
		c.Check("health.path", checkPath(m.Health.Path))
		if !m.Any() {
			c.Check("health", errors.New("health needs the option rpc, a2a or mcp: write rpc <path> in the block instead of a matcher"))
		}
	}
}

// checkConnect checks that the pages of connect have their paths for themselves.
func (m *Mounts) checkConnect(covered func(path string) bool) error {
	own := m.Connect.At()
	for _, e := range m.endpoints() {
		if e.connect {
			continue
		}
		if own == "" || covered(own) || e.name == own || strings.HasPrefix(e.name, own+"/") {
			return fmt.Errorf("the path %s of connect is that of another mount, too (%s): give one of them another path", cmp.Or(own, "/"), e.name)
		}
	}
	if own == "" {
		return errors.New("the path of connect is all paths: give it one of its own")
	}
	return nil
}

// checkPath checks the path of a mount; empty: the default.
func checkPath(p string) error {
	switch {
	case p == "":
		return nil
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("path %q does not begin with a slash", p)
	case strings.ContainsAny(p, "{}*?#%\\ "):
		return fmt.Errorf("path %q has a character that is not allowed here: placeholders, wildcards, queries, escapes and spaces are not", p)
	case path.Clean(p) != strings.TrimSuffix(p, "/") && p != "/":
		return fmt.Errorf("path %q is not clean: write %q", p, path.Clean(p))
	}
	return nil
}

// baseOf returns the URL of the handler as the client of a request sees it: its path is what a handler in front has removed.
func baseOf(r *http.Request) url.URL {
	original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok {
		original = *r
	}
	u := url.URL{Scheme: "http", Host: r.Host}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		if scheme := r.Header.Get("X-Forwarded-Proto"); scheme == "http" || scheme == "https" {
			u.Scheme = scheme
		}
		if host := r.Header.Get("X-Forwarded-Host"); host != "" && !strings.ContainsAny(host, "/, @") {
			u.Host = host
		}
	}
	if original.URL != nil {
		if prefix, ok := strings.CutSuffix(original.URL.Path, r.URL.Path); ok {
			u.Path = prefix
		}
	}
	return u
}

// urlOf returns the URL of a path of the handler as the client of a request sees it.
func urlOf(r *http.Request, path string) string {
	u := baseOf(r)
	u.Path += path
	return u.String()
}

// URLOf returns the URL of a request as its client sees it, without the query.
func URLOf(r *http.Request) string { return urlOf(r, r.URL.Path) }

// ModuleVersion returns the version of the bridge.
var ModuleVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionIn(info)
	}
	return unreleased
})

// unreleased is the version of a bridge that was built from a working tree.
const unreleased = "(devel)"

// versionIn returns the version of the bridge in a program: that of the module, or of another one that replaces it. For the program's own working tree, Go
// makes one of the revision.
func versionIn(info *debug.BuildInfo) string {
	const path = "github.com/skill-bridge/caddy-skill-bridge"
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path != path {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		return cmp.Or(m.Version, unreleased)
	}
	return unreleased
}

// CaddyVersion returns the version of Caddy.
var CaddyVersion = sync.OnceValue(func() string {
	version, _ := caddy.Version()
	return version
})
