package bridge

import (
	"cmp"
	"encoding/json" // Caddy's module loader and its Duration are made for encoding/json
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Provider is a service that offers skills and publishes an index of them
// under `/.well-known/skill-sharing` (Skill Sharing Protocol, section 4.3).
type Provider struct {
	// Where the provider is: scheme, host and, if it is not the scheme's default,
	// port, without a path. `http` needs `allow_http`; secrets are sent over plain HTTP
	// only to a provider whose origin is written with `http://`. Required.
	// Example: `https://skills.example.com`.
	Origin string `json:"origin"`

	// The first part of the names of the provider's skills, and the provider's name in
	// the log. Letters, digits, `.`, `-` and `_`; unique within the handler.
	// Default: the origin's host name in lower case. Example: `acme`.
	Namespace string `json:"namespace,omitempty"`

	// Your own names for skills of this provider. An alias takes precedence over all
	// other skills of that name, and makes a private skill known to every caller.
	// Default: none.
	Aliases []Alias `json:"aliases,omitempty"`

	// Further hosts that may receive the secrets configured here, each with an optional
	// port (default 443), an IPv6 address in brackets. `*.example.com` means all
	// subdomains of example.com, but not example.com itself; it is refused for addresses,
	// single labels and public suffixes. The provider's own host, on the port of its
	// origin, may always receive them; its subdomains only if they are listed. Every host
	// listed here can read your secrets. Default: none.
	// Example: `["api.example.net", "auth.example.com:8443", "*.skills.example.com"]`.
	Trust []string `json:"trust,omitempty"`

	// Namespaces of registries in this handler. Their skills may use the secrets configured
	// here even if the provider's own index does not list them. Without it, a skill from a
	// registry uses them only if the index lists the skill with the same descriptor URL. In
	// both cases the descriptor and the endpoint have to be on hosts that may receive the
	// secrets. Anyone who can put a file on such a host can make a trusted registry send
	// your secrets to any path there. Default: none. Example: `["community"]`.
	TrustRegistry []string `json:"trust_registry,omitempty"`

	// How to authenticate when invoking a skill and when reading its status and result.
	// Secrets are sent only to hosts that may receive them, and only for skills that
	// require this type of authentication. Needs `require_principal`, here or in the
	// handler, or the handler's `allow_anonymous`. Default: none.
	// Example: `{"type": "api_key", "key": "{env.ACME_KEY}"}`.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// How to authenticate when reading the index and the descriptors. Private skills found
	// this way are hidden from anonymous callers unless `list_private` is set. Needs
	// `require_principal` or `allow_anonymous`, as `credentials` does. Default: none.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Use only skills of these types: `plugin`, `api`, `knowledge`, `task`.
	// Default: all. Example: `["api", "task"]`.
	CapabilityTypes []string `json:"capability_types,omitempty"`

	// Show private skills to anonymous callers, too. Default: false.
	ListPrivate bool `json:"list_private,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED for all skills of this
	// provider, and hide these skills from their lists, even if the handler has
	// `allow_anonymous`. Other providers, skills and registries are not affected.
	// Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Ask the provider to hold its answers back for up to this time, in whole seconds,
	// until a run has ended (`Prefer: wait`, RFC 7240). The bridge then learns of the end
	// at once and sends fewer requests, but each request occupies a connection for that
	// time (a stream with HTTP/2). A provider that answers three times without
	// `Preference-Applied` is not asked again. Default: not asked. Example: `30s`.
	PreferWait caddy.Duration `json:"prefer_wait,omitempty"`

	// Transport for all requests to this provider, instead of the handler's. A client
	// certificate is presented only to hosts that may receive the provider's secrets.
	// Example: `{"protocol": "http", "tls": {"client_certificate_automate": "bridge.example.com"}}`.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// Alias is the operator's own name for a skill.
type Alias struct {
	// What agents call the skill. No spaces, no control characters, at most 256
	// bytes; unique within the handler. Required. Example: `weather`.
	Name string `json:"name"`

	// The id of the skill in the provider's index. Required.
	// Example: `com.example/forecast`.
	SkillID string `json:"skill_id"`
}

// Skill is a single skill with a known descriptor URL (Skill Sharing Protocol,
// section 4.2).
type Skill struct {
	// What agents call the skill; it has no other name. No spaces, no control
	// characters, at most 256 bytes; unique among the names and namespaces within
	// the handler. Required. Example: `translate`.
	Name string `json:"name"`

	// The URL of its descriptor. `http` needs `allow_http`. Required.
	// Example: `https://example.com/skills/translate.json`.
	URL string `json:"url"`

	// Further hosts that may receive the secrets configured here, as in a provider. The
	// descriptor's own host may always receive them. Default: none.
	Trust []string `json:"trust,omitempty"`

	// How to authenticate when invoking the skill, as in a provider. Needs
	// `require_principal`, here or in the handler, or the handler's
	// `allow_anonymous`. Default: none.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Answer callers without a principal with AUTH_REQUIRED, as in a provider.
	// Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Ask the provider to hold its answers back for up to this time, as in a provider.
	// Default: not asked.
	PreferWait caddy.Duration `json:"prefer_wait,omitempty"`

	// Transport for all requests about this skill, instead of the handler's.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// Registry is a directory with the skills of many providers, queried by capability type
// (Skill Sharing Protocol, section 4.2). A skill found in it is invoked with the
// credentials of a provider in this handler if that provider's own index lists the skill
// with the same descriptor URL (or the provider has `trust_registry`) and its hosts
// allow it; otherwise without credentials.
type Registry struct {
	// The base URL, to which `/skills` is appended. `http` needs `allow_http`. Required.
	// Example: `https://registry.example.org/v1`.
	URL string `json:"url"`

	// The first part of the names of the registry's skills, as in a provider.
	// Default: the host name in lower case.
	Namespace string `json:"namespace,omitempty"`

	// Request skills of these types, with one request for each: `plugin`, `api`,
	// `knowledge`, `task`. Default: all, with one request.
	CapabilityTypes []string `json:"capability_types,omitempty"`

	// How to authenticate to the registry. Needs `require_principal`, here or in the
	// handler, or the handler's `allow_anonymous`. Default: none.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Answer callers without a principal with AUTH_REQUIRED, as in a provider. A skill
	// that runs with a provider's credentials requires a principal if the registry or the
	// provider does. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`
}

// Caller is the identity of the bridge in requests to providers (Skill Sharing
// Protocol, section 5.3).
type Caller struct {
	// Identifies this bridge. Default: `skill-bridge`.
	ID string `json:"id,omitempty"`

	// What kind of caller it is. Default: `service`.
	Type string `json:"type,omitempty"`
}

// Poll is when the bridge asks for the status of a run. In every mode it waits as long
// as the provider's Retry-After says and at least 20 ms after the last answer, and it
// asks one last time just before the call's deadline.
type Poll struct {
	// `adaptive`: when the run is likely to have ended, judged by the execution times of
	// earlier runs of the same version of the skill, which survive reloads and restarts.
	// `fixed`: at equal intervals. `backoff`: at intervals that grow by half each time.
	// Default: `adaptive`.
	Mode string `json:"mode,omitempty"`

	// For `adaptive`: by how much the bridge may learn later of a run's end to save one
	// request. A longer time means fewer requests. In JSON, 0 means the default.
	// Default: `20ms`.
	Price caddy.Duration `json:"price,omitempty"`

	// For `fixed`: the interval; for `backoff`: the first one. In JSON, 0 means the
	// default. Default: `500ms`.
	Interval caddy.Duration `json:"interval,omitempty"`

	// For `backoff`: the longest interval. In JSON, 0 means the default. Default: `5s`.
	MaxInterval caddy.Duration `json:"max_interval,omitempty"`
}

// Cache bounds the cache of documents that describe skills. Bridges with the same
// settings of cache, network and transport share one cache, which survives reloads of
// the configuration.
type Cache struct {
	// Memory for documents, in bytes. Their compiled schemas may take another sixth of it,
	// and at least 8 MiB. In JSON, 0 means the default. Default: 67108864 (64 MiB).
	MaxSize int64 `json:"max_size,omitempty"`

	// How long a document is fresh if the provider does not say; at most `max_ttl`. 0: it
	// is revalidated every time. Default: `5m`, or `max_ttl` if that is less.
	TTL *caddy.Duration `json:"ttl,omitempty"`

	// How long a document is fresh at most, whatever the provider says. In JSON, 0 means
	// the default. Default: `24h`.
	MaxTTL caddy.Duration `json:"max_ttl,omitempty"`

	// How long after that a stale document is still used while the provider is down. 0:
	// never. Default: `1h`.
	StaleIfError *caddy.Duration `json:"stale_if_error,omitempty"`

	// How long the bridge waits after a document could not be read before it tries again.
	// 0: it tries again at once. Default: `5s`.
	NegativeTTL *caddy.Duration `json:"negative_ttl,omitempty"`
}

// Limits bounds what the bridge reads and how much it does at a time. In JSON, 0 means
// the default everywhere. What exceeds a limit is answered with an error that names the
// limit; nothing is truncated.
type Limits struct {
	// How deep arrays and objects may nest in requests and in answers of
	// providers (in documents at most 100 levels), from 2 to 10000. Default: 512.
	Depth int `json:"depth,omitempty"`

	// The largest index or descriptor accepted, in bytes after decompression.
	// At most `max_response_size`. Default: 4194304 (4 MiB), or `max_response_size` if that is less.
	DocumentSize int64 `json:"document_size,omitempty"`

	// How many skills an index, or a registry's answer, may list. Default: 10000.
	Skills int `json:"skills,omitempty"`

	// How many inputs a skill may have. Default: 500.
	Parameters int `json:"parameters,omitempty"`

	// The largest JSON Schema of one input, in bytes. All inputs of a skill together may
	// have four times as much, and its descriptor twice that. Default: 65536 (64 KiB).
	SchemaSize int64 `json:"schema_size,omitempty"`

	// How many subschemas of an input's JSON Schema may apply to one value. It also bounds
	// the estimated time and memory for compiling all schemas of a skill, regular
	// expressions included: the default allows about 20 ms. 500 inputs with ordinary
	// schemas need a quarter of that, an input with 400 ordinary properties a fifth, and
	// one with 300 properties with unusual keywords (such as unevaluatedProperties or
	// $anchor) three quarters. Default: 2048.
	SchemaComplexity int `json:"schema_complexity,omitempty"`

	// How much work one request (a batch is one) may cause when its arguments are checked
	// against schemas, in steps of about 10 ns. An ordinary schema takes 10 to 40 steps for
	// each byte. Default: 100000000.
	ArgumentComplexity int `json:"argument_complexity,omitempty"`

	// The largest output of a run, in bytes of JSON. At most `max_response_size`.
	// Default: `max_response_size`.
	OutputSize int64 `json:"output_size,omitempty"`

	// The largest answer to a batch, in bytes, not counting ids. Calls whose output does not
	// fit are answered RATE_LIMITED; if the run was executed, with a run token for reading
	// the output later. Answers of a batch that wait for others are bounded by it, too. At
	// least `output_size`. Default: twice `max_response_size`, or 20971520 (20 MiB) if that
	// is more.
	AnswerSize int64 `json:"answer_size,omitempty"`

	// How many bytes all answers may have together that agents have not read yet. The first
	// 64 KiB of each answer do not count; a batch is one answer. Calls whose output does not
	// fit are answered RATE_LIMITED, as with `answer_size`. While an answer is written, up to
	// twice as much memory is in use. At least `answer_size`. Default: a quarter of
	// GOMEMLIMIT, which Caddy takes from its container or system, or 1073741824 (1 GiB)
	// where there is none; never less than `answer_size`.
	Answers int64 `json:"answers,omitempty"`

	// How long reading the body of a provider's answer, or writing an answer to an agent,
	// may go on without progress before the connection is closed. (For connecting and
	// TLS there are `dial_timeout` and `handshake_timeout` of the transport, and for waiting
	// for the header `response_header_timeout`; every call ends at its deadline. For agents
	// there are also the `timeouts` of Caddy's servers.) Default: `30s`.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How many bytes a provider may send on an HTTP/2 connection besides the content of its
	// answers, for each call that uses the connection (and a sixteenth of that while no call
	// does): empty frames, pings, header fields, data of cancelled requests. If it sends
	// more, the connection is closed. At least 262144 (256 KiB). Default: 4194304 (4 MiB).
	ConnectionOverhead int64 `json:"connection_overhead,omitempty"`

	// How many calls may be in progress at a time. Further calls are answered RATE_LIMITED
	// at once. Default: 20000, or one for each 64 KiB of half of GOMEMLIMIT if that is fewer
	// (Caddy takes GOMEMLIMIT from its container or system).
	Runs int `json:"runs,omitempty"`

	// How many of these calls may be for one provider, skill or registry, so that none can
	// use up all `runs`. (In the Caddyfile, the second number after `runs`.) Default: half
	// of `runs`.
	RunsPerProvider int `json:"runs_per_provider,omitempty"`

	// How many descriptors of one provider or registry are read at a time. One host and one
	// publisher (skills whose ids begin alike: up to the first slash, or with the same first
	// two labels) get at most a quarter of them, at least one, and fewer the more hosts and
	// publishers there are; half are reserved for hosts and publishers of which no other
	// descriptor is being read. Further reads wait; a call whose time ends meanwhile is
	// answered RATE_LIMITED. A read continues after its call has ended, and counts here and
	// in `runs`; it is cancelled if another call would exceed the limit. Default: 64.
	Reads int `json:"reads,omitempty"`

	// How many requests, at once and per minute, may be sent to URLs whose last request
	// brought no document, at hosts that only the provider's documents name (not its own
	// host, nor one in `trust`). A failed URL is not requested again for 1 s to 5 min. URLs
	// without a recent failure have a limit of their own: four times as many (or four times
	// `reads`, if that is more) may fail at once, and as many per minute. Each publisher of a
	// registry (as in `reads`) has these limits, and all together twice as much. Beyond them
	// the host is not requested: the answer is RATE_LIMITED, or a stale document; cached
	// documents are still revalidated. Default: 60.
	FailedReads int `json:"failed_reads,omitempty"`

	// How many status requests per second one host may get for all runs together. The host
	// is that of the status URL, or of the result URL if there is no other. Beyond that,
	// requests are delayed: runs that have probably ended are asked about first, and runs
	// near their deadline just before it, these at most as often as all others. All
	// providers, skills, registries and handlers with the same number here share a host's
	// limit, also across a reload; skills that another host publishes have a limit of their
	// own. Default: `runs`, which is one request per second for each run, and at least 1000.
	Polls int `json:"polls,omitempty"`

	// How many of the calls in progress may wait for a run that was submitted and has not
	// ended. Default: `runs`.
	Waiting int `json:"waiting,omitempty"`
}

// CircuitBreaker decides when the bridge stops sending requests to a provider's host.
// Failures are: no connection, no TLS, no answer in time, and HTTP 502, 503 and 504; any
// other answer is a success, even a failed run or HTTP 429. While the breaker is open,
// calls are answered ENDPOINT_UNREACHABLE at once and documents are served stale; accepted
// runs are still polled. After the cooldown, one request at a time tests the host.
type CircuitBreaker struct {
	// How many failures in a row open the breaker. In JSON, 0 means the default. Default: 20.
	Failures int `json:"failures,omitempty"`

	// How long the breaker stays open before the host is tried again. In JSON, 0 means the
	// default. Default: `5s`.
	Cooldown caddy.Duration `json:"cooldown,omitempty"`

	// Never open the breaker; excludes the two others. (In the Caddyfile,
	// `circuit_breaker off`.) Default: false.
	Off bool `json:"off,omitempty"`
}

// Defaults of the options, as documented at each.
const (
	defaultCallerID        = "skill-bridge"
	defaultCallerType      = "service"
	defaultPrincipal       = "{http.auth.user.id}"
	defaultTimeout         = 25 * time.Second
	defaultMaxTimeout      = 10 * time.Minute
	defaultPollInterval    = 500 * time.Millisecond
	defaultMaxPollInterval = 5 * time.Second
	defaultCacheSize       = 64 << 20
	defaultTTL             = 5 * time.Minute
	defaultMaxTTL          = 24 * time.Hour
	defaultStaleIfError    = time.Hour
	defaultNegativeTTL     = 5 * time.Second
	defaultMaxRequestSize  = 1 << 20

	defaultConnectionOverhead = 4 << 20
	minConnectionOverhead     = 256 << 10
	defaultMaxResponseSize    = 10 << 20
	defaultMaxBatch           = 50
	defaultAnswerSize         = 20 << 20
	defaultAnswers            = 1 << 30
	defaultMaxRuns            = 20_000
	defaultPolls              = 1000
	defaultFailures           = 20
	defaultCooldown           = 5 * time.Second
	defaultRetryBudget        = 20
)

// orDefault returns a duration, or the default where it is 0.
func orDefault(d caddy.Duration, standard time.Duration) time.Duration {
	return cmp.Or(time.Duration(d), standard)
}

// orDefaultPointer returns a duration of which 0 is not the default.
func orDefaultPointer(d *caddy.Duration, standard time.Duration) time.Duration {
	if d == nil {
		return standard
	}
	return time.Duration(*d)
}
