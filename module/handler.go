package skillbridge

import (
	"encoding/json" // Caddy's module loader is made for encoding/json

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	_ "github.com/skill-bridge/caddy-skill-bridge/module/credentials" // the guest modules that come with the bridge
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

func init() {
	caddy.RegisterModule(new(Handler))
}

// Handler lets agents use skills of other services. It answers the Skills
// Protocol (JSON-RPC 2.0 over HTTP POST) and speaks the Skill Sharing Protocol
// to providers: it finds their skills, checks what an agent sends against their
// descriptors, authenticates, invokes, follows the run to its end, and answers
// with the outcome.
//
// All configured names of skills, and all namespaces, are unique within a
// handler. Without any provider, skill or registry it knows no skill.
//
// What is reached over the network is bounded: only public addresses, only
// ports 80 and 443 and those written in this configuration, only over TLS; the
// options whose names begin with `allow_` widen this, each on its own.
type Handler struct {
	// A name of your own for this bridge. Run tokens are valid at all bridges of the
	// same name, wherever they are, that have the same source and `principal`; so give
	// one name to several only if they know the same callers by the same principals.
	// Without a name they are valid where the hosts and matchers of the routes are the
	// same. No spaces, no control characters, no placeholders, at most 256 bytes.
	// A bridge that gets a name, or another, loses the tokens it gave before.
	// Default: none. Example: `agents`.
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

	// How the bridge introduces itself to providers. Default: `skill-bridge`,
	// a `service`.
	Caller *Caller `json:"caller,omitempty"`

	// One placeholder that says who is asking. If it is empty, the caller is
	// anonymous. Every run belongs to the principal that started it, so name
	// nothing that a client can set by itself: with `forward_auth`, a header only
	// if `copy_headers` sets it. Default: `{http.auth.user.id}`, which Caddy's
	// `basic_auth` sets. Example: `{http.request.header.Remote-User}`.
	Principal string `json:"principal,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED. This or
	// `allow_anonymous` is needed as soon as any credentials are configured, but
	// for those of a provider, skill or registry with a `require_principal` of its
	// own. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Let everyone who reaches the handler use the credentials configured in it,
	// but for those of a provider, skill or registry with `require_principal`.
	// Use it only where something else decides who that is. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	// Priority of every execution: `low`, `normal` or `high`. Default: `normal`.
	Priority string `json:"priority,omitempty"`

	// Serve a page about the skills, and on which they can be tried, to browsers: to
	// GET requests that prefer `text/html` to JSON. It shows each caller what
	// `list_skills` and `describe_skill` do. Default: none; all but POST is refused.
	// Example: `{}`.
	Browse *Browse `json:"browse,omitempty"`

	// How long a call may take where neither the caller nor the skill's
	// descriptor says, from its arrival to its answer. In JSON, 0 means the
	// default. Default: `25s`.
	Timeout caddy.Duration `json:"timeout,omitempty"`

	// How long any call may take, whoever asks for more. In JSON, 0 means the
	// default. Default: `10m`.
	MaxTimeout caddy.Duration `json:"max_timeout,omitempty"`

	// When the status of a run is asked for. Default: when it is likely to have
	// ended, by what was learned of earlier runs of the skill.
	Poll *Poll `json:"poll,omitempty"`

	// Asks for a run's status at intervals that grow from this one, as
	// `{"mode": "backoff"}` of `poll` does. In JSON, 0 means that `poll` decides.
	PollInterval caddy.Duration `json:"poll_interval,omitempty"`

	// The longest of these intervals, unless the provider asks for more. In JSON, 0
	// means the default. Default: `5s`.
	MaxPollInterval caddy.Duration `json:"max_poll_interval,omitempty"`

	// What is kept of the documents that describe skills.
	Cache *Cache `json:"cache,omitempty"`

	// The largest request accepted from an agent, in bytes. In JSON, 0 means the
	// default. Default: 1048576 (1 MiB).
	MaxRequestSize int64 `json:"max_request_size,omitempty"`

	// The largest answer accepted from a provider, in bytes, after
	// decompression. In JSON, 0 means the default. Default: 10485760
	// (10 MiB).
	MaxResponseSize int64 `json:"max_response_size,omitempty"`

	// How many requests an agent may send in one batch. They all start at once. In
	// JSON, 0 means the default. Default: 50.
	MaxBatch int `json:"max_batch,omitempty"`

	// Bounds of what is read and of what may be in progress at a time, besides the
	// three above.
	// Example: `{"runs": 2000, "runs_per_provider": 500, "skills": 1000}`.
	Limits *Limits `json:"limits,omitempty"`

	// Keeps calls from hosts of providers that are in trouble, so that they are
	// answered at once and the provider can recover.
	// Example: `{"failures": 10, "cooldown": "10s"}`.
	CircuitBreaker *CircuitBreaker `json:"circuit_breaker,omitempty"`

	// The share of the calls to a provider, in percent, that may be repeating their
	// invocation at a time; three always may. An invocation is repeated only where
	// nothing can have been executed or the provider consents; where it has not even
	// been sent, for want of a connection, that does not count. 0: none may.
	// Default: 20.
	RetryBudget *int `json:"retry_budget,omitempty"`

	// Write a line for each call (who had what executed, and how it ended), each
	// secret that was not sent to where a document wanted it, and each caller that was
	// refused to the logger `http.handlers.skill_bridge.audit`, so that it can be kept
	// apart from the rest. Default: false.
	Audit bool `json:"audit,omitempty"`

	// Let providers be reached without TLS. Everything exchanged with them can
	// then be read and changed on the way; secrets are still sent over plain HTTP
	// only where the provider's own URL is written with `http://` here.
	// Default: false.
	AllowHTTP bool `json:"allow_http,omitempty"`

	// Addresses that are not public but may be called all the same: networks in
	// CIDR notation, or single addresses. Documents of providers choose which of
	// them are called, so name the smallest networks that will do. Metadata
	// addresses of clouds have to be named each by itself. Behind the prefix of a
	// translator (NAT64) or tunnel, the IPv4 address within has to be allowed, too.
	// (In the Caddyfile, `private_ranges` stands for all private IPv4 and IPv6 ranges.)
	// Default: none. Example: `["10.1.2.0/24", "fd00:1::7"]`.
	AllowNetworks []string `json:"allow_networks,omitempty"`

	// Ports that may be called beside 80, 443 and those written in the URLs and
	// hosts of this configuration. Default: none. Example: `[8443]`.
	AllowPorts []int `json:"allow_ports,omitempty"`

	// Transport for all outgoing requests. It is Caddy's own, as in
	// `reverse_proxy`, and only `http` is possible, since only there can it be
	// seen to that no forbidden address is called. Differences to `reverse_proxy`:
	// proxies in the environment are ignored (`network_proxy` is not; targets are
	// then judged by the addresses that their names have here); `dial_timeout`
	// and `handshake_timeout` are `5s`, `expect_continue_timeout` is `1s`,
	// `max_response_header_size` is 64 KiB, and 512 idle connections are kept per
	// host for `90s` unless written otherwise. A client certificate is shown only
	// where the secrets of a provider, skill or registry may go. HTTP/3, the PROXY protocol and
	// placeholders in the TLS server name are refused.
	// Example: `{"protocol": "http", "resolver": {"addresses": ["10.0.0.53"]}}`.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`

	logger    *zap.Logger
	principal string
	bridge    *translate.Bridge
	server    *jsonrpc.Server
	shared    *shared // what survives reloads
	health    health
	secrets   []skillsharing.Credentials // of all sources
	browser   *browser                   // nil: there is no page
	usage     *usage
	book      *book              // nil: nothing is learned
	storage   *certmagic.Storage // for what is learned; nil: none
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
