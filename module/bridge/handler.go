package bridge

import (
	"encoding/json" // Caddy's module loader is made for encoding/json

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/browse"
	"github.com/skill-bridge/caddy-skill-bridge/module/lifetime"
	"github.com/skill-bridge/caddy-skill-bridge/module/storage"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets agents use skills of other services. It serves the Skills Protocol
// (JSON-RPC 2.0 over HTTP POST) and is a client of the Skill Sharing Protocol: it finds
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
	// A name for this bridge. Run tokens are valid at all bridges with the same name, on any
	// instance, that have the same source and `principal`; so give several bridges one name
	// only if a principal is the same caller at all of them. Without a name, run tokens are
	// valid where the hosts and matchers of the routes are the same. No spaces, no control
	// characters, no placeholders, at most 256 bytes. When a bridge gets its first or another
	// name, its earlier tokens become invalid. Default: none. Example: `agents`.
	Name string `json:"name,omitempty"`

	// Services whose skills are offered. Default: none.
	// Example: `[{"origin": "https://skills.example.com"}]`.
	Providers []*Provider `json:"providers,omitempty"`

	// Single skills that are offered. Default: none.
	// Example: `[{"name": "translate", "url": "https://example.com/skills/translate.json"}]`.
	Skills []*Skill `json:"skills,omitempty"`

	// Directories whose skills are offered. Default: none.
	// Example: `[{"url": "https://registry.example.org/v1", "capability_types": ["api"]}]`.
	Registries []*Registry `json:"registries,omitempty"`

	// The identity of the bridge in requests to providers. Default: `skill-bridge`, a
	// `service`.
	Caller *Caller `json:"caller,omitempty"`

	// One placeholder with the identity of the caller; a caller for whom it is empty is
	// anonymous. Every run belongs to the principal that started it, so use nothing that a
	// client can set: with `forward_auth`, a header only if `copy_headers` sets it.
	// Default: `{http.auth.user.id}`, which Caddy's `basic_auth` sets.
	// Example: `{http.request.header.Remote-User}`.
	Principal string `json:"principal,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED. Either this or
	// `allow_anonymous` is needed if any credentials are configured, except in providers,
	// skills and registries with their own `require_principal`. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Let all callers use the credentials configured in the handler, except those of
	// providers, skills and registries with `require_principal`. Use it only where something
	// else restricts who can reach the handler. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	// Priority of every execution: `low`, `normal` or `high`. Default: `normal`.
	Priority string `json:"priority,omitempty"`

	// Serve browsers a page that shows the skills and can run them: it answers GET requests
	// that prefer `text/html` to JSON. A caller sees there what `list_skills` and
	// `describe_skill` return. Default: none; all methods but POST are refused. Example: `{}`.
	Browse *browse.Config `json:"browse,omitempty"`

	// How long a call may take, from its arrival to its answer, if neither the caller nor
	// the skill's descriptor says. In JSON, 0 means the default. Default: `25s`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How long any call may take, whatever the caller or the descriptor asks for. In JSON, 0
	// means the default. Default: `10m`.
	MaxTimeout caddy.Duration `json:"max_timeout,omitempty"`

	// When the bridge asks for the status of a run. Default: when the run is likely to have
	// ended, judged by earlier runs of the skill.
	Poll *Poll `json:"poll,omitempty"`

	// Poll at intervals that grow from this one; the same as `{"mode": "backoff"}` of `poll`.
	// In JSON, 0 means that `poll` decides.
	PollInterval caddy.Duration `json:"poll_interval,omitempty"`

	// The longest of these intervals, unless the provider asks for more. In JSON, 0
	// means the default. Default: `5s`.
	MaxPollInterval caddy.Duration `json:"max_poll_interval,omitempty"`

	// Bounds the cache of documents that describe skills.
	Cache *Cache `json:"cache,omitempty"`

	// The largest request accepted from an agent, in bytes. In JSON, 0 means the
	// default. Default: 1048576 (1 MiB).
	MaxRequestSize int64 `json:"max_request_size,omitempty"`

	// The largest answer accepted from a provider, in bytes, after
	// decompression. In JSON, 0 means the default. Default: 10485760
	// (10 MiB).
	MaxResponseSize int64 `json:"max_response_size,omitempty"`

	// How many requests a batch may have. They all start at once. In JSON, 0 means the
	// default. Default: 50.
	MaxBatch int `json:"max_batch,omitempty"`

	// Further bounds of what the bridge reads and of how much it does at a time.
	// Example: `{"runs": 2000, "runs_per_provider": 500, "skills": 1000}`.
	Limits *Limits `json:"limits,omitempty"`

	// Stops requests to hosts of providers that fail, so that calls are answered at once and
	// the provider can recover. Example: `{"failures": 10, "cooldown": "10s"}`.
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty"`

	// The share of the calls to a provider, in percent, that may be retrying at a time; three
	// always may. An invocation is retried only if it cannot have been executed or the
	// provider permits it. Retries after a failed connection, when nothing was sent, do not
	// count. 0: no other retries. Default: 20.
	RetryBudget *int `json:"retry_budget,omitempty"`

	// Log one line for each call (caller, skill, outcome), each secret that was withheld from
	// a host that a document named, and each refused caller. The logger is
	// `http.handlers.skill_bridge.audit`, so that these lines can be kept separately.
	// Default: false.
	Audit bool `json:"audit,omitempty"`

	// Allow connections to providers without TLS. Anyone on the network path can then read
	// and change what is exchanged; secrets are still sent over plain HTTP only if the
	// provider's own URL is written with `http://` here. Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that are not public and may be connected to: networks in CIDR notation, or
	// single addresses. Documents of providers choose among them, so allow the smallest
	// networks possible. Metadata addresses of clouds have to be listed individually. For an
	// address behind the prefix of a translator (NAT64) or tunnel, the IPv4 address in it has
	// to be allowed, too. (In the Caddyfile, `private_ranges` stands for all private IPv4 and
	// IPv6 ranges.) Default: none. Example: `["10.1.2.0/24", "fd00:1::7"]`.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// Ports that may be connected to besides 80, 443 and those in the URLs and hosts of this
	// configuration. Default: none. Example: `[8443]`.
	AllowPorts []int `json:"allow_ports,omitempty"`

	// Transport for all outgoing requests: Caddy's own, as in `reverse_proxy`. Only `http` is
	// possible, because the bridge can check the addresses of its connections. Differences to
	// `reverse_proxy`: proxies of the environment are ignored (with `network_proxy`, the
	// target's addresses are resolved and checked here); `dial_timeout` and
	// `handshake_timeout` are `5s`, `expect_continue_timeout` is `1s`,
	// `max_response_header_size` is 64 KiB, and 512 idle connections are kept per host for
	// `90s`, unless configured otherwise. A client certificate is presented only to hosts
	// that may receive the secrets of a provider, skill or registry. HTTP/3, the PROXY
	// protocol and placeholders in the TLS server name are refused.
	// Example: `{"protocol": "http", "resolver": {"addresses": ["10.0.0.53"]}}`.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`

	logger    *zap.Logger
	principal string
	server    *jsonrpc.Server
	browser   *browse.Handler // nil: there is no page
	shared    *shared
	usage     *lifetime.Usage
	timings   *storage.Timings // nil: nothing is learned
	tokens    *tokens
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
