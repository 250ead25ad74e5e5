package bridge

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/fronts"
	"github.com/skill-bridge/caddy-skill-bridge/module/keeping"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/runtokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets agents use skills of other services. It serves the Skills Protocol
// (JSON-RPC 2.0 over HTTP POST) and A2A, and is a client of the Skill Sharing Protocol: it finds
// the skills of providers, validates an agent's arguments against their descriptors,
// authenticates, invokes a skill, follows the run to its end and answers with the result.
//
// All configured names of skills, and all namespaces, are unique within a handler.
// Without any provider, skill or registry it has no skills.
//
// By default it connects only to public addresses, only to ports 80 and 443 and those
// written in this configuration, and only over TLS; each option whose name begins with
// `allow_` lifts one of these restrictions.
type Handler struct {
	// A name for this bridge. Runs, run tokens and counts of quotas belong to the name together with
	// `principal`, on all instances, wherever the bridge is. In a configuration, bridges with different
	// options have different names, of which one may be the default; in JSON, those with the same options
	// and no name, too. In a Caddyfile, the default name has the matcher of the directive: `skill_bridge/rpc`. When a bridge gets another name, its earlier tokens become invalid, and its runs are
	// no longer found. No spaces, no control characters, no placeholders, at most 256 bytes. Default:
	// `skill_bridge`. Example: `agents`.
	Name string `json:"name,omitempty"`

	fronts.Mounts

	sources.Sources

	// The identity of the bridge in requests to providers. Default: `skill-bridge`, a
	// `service`.
	Caller *Caller `json:"caller,omitempty"`

	Callers

	// The highest priority of executions that callers may ask for: `low`, `normal` or `high`. A caller that
	// asks for none gets `normal`, or this one if it is lower. Default: `normal`.
	Priority string `json:"priority,omitempty"`

	// Serve browsers a page that shows the skills and can run them: it answers GET requests
	// that prefer `text/html` to JSON. A caller sees there what `list_skills` and
	// `describe_skill` return. Default: none; all methods but POST are refused. Example: `{}`.
	Browse *browse.Config `json:"browse,omitempty"`

	keeping.Options

	Timing

	// Bounds the cache of documents that describe skills.
	Cache *Cache `json:"cache,omitempty"`

	Bounds

	// Stops requests to hosts of providers that fail, so that calls are answered at once and
	// the provider can recover. Example: `{"failures": 10, "cooldown": "10s"}`.
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty"`

	// Log one line for each call (caller, skill, outcome), each secret that was withheld from
	// a host that a document named, and each refused caller. The logger is
	// `http.handlers.skill_bridge.audit`, so that these lines can be kept separately.
	// Default: false.
	Audit bool `json:"audit,omitempty"`

	Network

	endpoints
	logger *zap.Logger
	shared *shared
	usage  *lifetime.Usage
	tokens *runtokens.Tokens
}

// endpoints answer the requests of clients.
type endpoints struct {
	server  *jsonrpc.Server    // of the Skills Protocol
	agent   *fronts.Agent      // nil: A2A is not served
	tools   *fronts.ToolServer // nil: MCP is not served
	files   *fronts.SkillFiles // nil: files of Agent Skills are not served
	browser *browse.Handler    // nil: there is no page
}

// CaddyModule returns the Caddy module information.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.skill_bridge",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.CleanerUpper          = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
