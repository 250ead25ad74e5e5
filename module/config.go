package skillbridge

import (
	"cmp"
	"encoding/json" // Caddy's module loader and its Duration are made for encoding/json
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Provider is a service that offers skills and publishes an index of them
// under `/.well-known/skill-sharing` (Skill Sharing Protocol, section 4.3).
type Provider struct {
	// Where the provider is: scheme, host and, if it is not the scheme's
	// default, port. It has no path. `http` needs `allow_http`; secrets are sent
	// over plain HTTP only to a provider whose origin is written so.
	// Required. Example: `https://skills.example.com`.
	Origin string `json:"origin"`

	// The first part of the names of the provider's skills, and how the provider
	// is called in the log. Letters, digits, `.`, `-` and `_`; unique within the
	// handler. Default: the origin's host name in lower case.
	// Example: `acme`.
	Namespace string `json:"namespace,omitempty"`

	// Names of your own for skills of this provider. A name given here wins over
	// every other meaning of it, and makes a private skill known to every
	// caller. Default: none.
	Aliases []Alias `json:"aliases,omitempty"`

	// Further hosts that may receive the secrets configured here, each with an
	// optional port (default 443), an IPv6 address in brackets. `*.example.com`
	// names all subdomains of example.com, but not example.com itself; it is
	// refused for addresses, single labels and public suffixes. The provider's own
	// host, on the port of its origin, may receive them anyway, its subdomains only
	// if they are named. Each host named here gets your secrets. Default: none.
	// Example: `["api.example.net", "auth.example.com:8443", "*.skills.example.com"]`.
	Trust []string `json:"trust,omitempty"`

	// Namespaces of registries in this handler whose skills may use the secrets
	// configured here though the provider's own index does not list them. Without,
	// a skill that a registry lists uses them only if the index lists it, too, with
	// the same descriptor URL. In any case descriptor and endpoint have to be on
	// hosts that may receive them. Anyone who can put a file on such a host can have
	// a registry that is trusted so send your secrets to any path there. Default:
	// none. Example: `["community"]`.
	TrustRegistry []string `json:"trust_registry,omitempty"`

	// How to authenticate when invoking a skill and asking for its status and
	// result. It is sent to hosts that may receive it only, and only where a skill
	// asks for authentication of that type. Needs `require_principal`, here or in
	// the handler, or the handler's `allow_anonymous`. Default: none.
	// Example: `{"type": "api_key", "key": "{env.ACME_KEY}"}`.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// How to authenticate when reading the index and the descriptors. Private
	// skills found this way stay unknown to anonymous callers unless
	// `list_private` is set. Needs `require_principal` or `allow_anonymous`, as
	// `credentials` do. Default: none.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Use only skills of these types: `plugin`, `api`, `knowledge`, `task`.
	// Default: all. Example: `["api", "task"]`.
	CapabilityTypes []string `json:"capability_types,omitempty"`

	// Show private skills to anonymous callers, too. Default: false.
	ListPrivate bool `json:"list_private,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED, whatever they ask of
	// this provider, and leave its skills out of their lists. Other providers,
	// skills and registries of the handler may still be open to them, even with
	// the handler's `allow_anonymous`. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Ask the provider to hold its answers back for so long, in whole seconds, until
	// a run has ended (`Prefer: wait`, RFC 7240): its end is noticed at once then, with
	// fewer requests, each of which takes a connection as long as it is held (none of
	// its own with HTTP/2). Whoever answers three times without `Preference-Applied` is
	// not asked any more. Default: not asked. Example: `30s`.
	PreferWait caddy.Duration `json:"prefer_wait,omitempty"`

	// Transport for all requests to this provider, instead of the handler's. Its
	// client certificate, if it has one, is shown only to hosts that may receive
	// the provider's secrets.
	// Example: `{"protocol": "http", "tls": {"client_certificate_automate": "bridge.example.com"}}`.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// Alias is a name of the operator's own for a skill.
type Alias struct {
	// What agents call the skill. No spaces, no control characters, at most 256
	// bytes; unique within the handler. Required. Example: `weather`.
	Name string `json:"name"`

	// The id of the skill in the provider's index. Required.
	// Example: `com.example/forecast`.
	SkillID string `json:"skill_id"`
}

// Skill is a single skill whose descriptor's URL is known (Skill Sharing
// Protocol, section 4.2).
type Skill struct {
	// What agents call the skill; it has no other name. No spaces, no control
	// characters, at most 256 bytes; unique among the names and namespaces within
	// the handler. Required. Example: `translate`.
	Name string `json:"name"`

	// Where its descriptor is. `http` needs `allow_http`. Required.
	// Example: `https://example.com/skills/translate.json`.
	URL string `json:"url"`

	// Further hosts that may receive the secrets configured here, as in a
	// provider. The descriptor's own host may receive them anyway. Default: none.
	Trust []string `json:"trust,omitempty"`

	// How to authenticate when invoking the skill, as in a provider. Needs
	// `require_principal`, here or in the handler, or the handler's
	// `allow_anonymous`. Default: none.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Answer callers without a principal with AUTH_REQUIRED, as in a provider.
	// Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Ask the provider to hold its answers back for so long, as in a provider.
	// Default: not asked.
	PreferWait caddy.Duration `json:"prefer_wait,omitempty"`

	// Transport for all requests about this skill, instead of the handler's.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// Registry is a directory of skills of many providers, asked by capability
// type (Skill Sharing Protocol, section 4.2). Skills found in it are invoked
// with the credentials of the provider in this handler whose own index lists them
// with the same descriptor URL (or which says `trust_registry`) and whose hosts
// allow it, if there is one, else with none.
type Registry struct {
	// What `/skills` is appended to. `http` needs `allow_http`. Required.
	// Example: `https://registry.example.org/v1`.
	URL string `json:"url"`

	// The first part of the names of the registry's skills, as in a provider.
	// Default: the host name in lower case.
	Namespace string `json:"namespace,omitempty"`

	// Ask for skills of these types, with one request for each: `plugin`, `api`,
	// `knowledge`, `task`. Default: all, with one request.
	CapabilityTypes []string `json:"capability_types,omitempty"`

	// How to authenticate when asking the registry. Needs `require_principal`, here
	// or in the handler, or the handler's `allow_anonymous`. Default: none.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Answer callers without a principal with AUTH_REQUIRED, as in a provider. A
	// skill that is run with the credentials of a provider is closed to them if
	// either of the two is. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`
}

// Caller is how the bridge introduces itself to providers (Skill Sharing
// Protocol, section 5.3).
type Caller struct {
	// Identifies this bridge. Default: `skill-bridge`.
	ID string `json:"id,omitempty"`

	// What kind of caller it is. Default: `service`.
	Type string `json:"type,omitempty"`
}

// Poll is when the status of a run is asked for. Whatever it says, a provider is
// not asked earlier than it wants (Retry-After), not sooner than 20 ms after its last answer,
// and one last time just before the call's deadline.
type Poll struct {
	// `adaptive`: when a run is likely to have ended, by the execution times of
	// earlier runs of the same version of the skill; they survive reloads and
	// restarts. `fixed`: at equal intervals. `backoff`: at intervals that grow by
	// half each time. Default: `adaptive`.
	Mode string `json:"mode,omitempty"`

	// Of `adaptive`: how much later the end of a run may be noticed if that saves
	// one request. The longer, the fewer requests. In JSON, 0 means the default.
	// Default: `20ms`.
	Price caddy.Duration `json:"price,omitempty"`

	// Of `fixed`: the interval; of `backoff`: the first one. In JSON, 0 means the
	// default. Default: `500ms`.
	Interval caddy.Duration `json:"interval,omitempty"`

	// Of `backoff`: the longest interval. In JSON, 0 means the default.
	// Default: `5s`.
	MaxInterval caddy.Duration `json:"max_interval,omitempty"`
}

// Cache bounds what is kept of the documents that describe skills. Bridges
// with the same settings of cache, network and transport share one cache, which
// survives reloads of the configuration.
type Cache struct {
	// Memory for documents, in bytes. Their compiled schemas may take a sixth of
	// it besides, and at least 8 MiB. In JSON, 0 means the default.
	// Default: 67108864 (64 MiB).
	MaxSize int64 `json:"max_size,omitempty"`

	// How long a document is used without asking again where the provider does
	// not say; at most `max_ttl`. 0: ask every time. Default: `5m`, or `max_ttl` if
	// that is less.
	TTL *caddy.Duration `json:"ttl,omitempty"`

	// How long a document is used without asking again at most, whatever the
	// provider says. In JSON, 0 means the default. Default: `24h`.
	MaxTTL caddy.Duration `json:"max_ttl,omitempty"`

	// How long after that a document is still used while the provider is down.
	// 0: never. Default: `1h`.
	StaleIfError *caddy.Duration `json:"stale_if_error,omitempty"`

	// How long a failure to get a document is remembered, so that a provider in
	// trouble is left alone. 0: not at all. Default: `5s`.
	NegativeTTL *caddy.Duration `json:"negative_ttl,omitempty"`
}

// Limits bounds what is read of documents and answers, and how much may be in
// progress at a time. In JSON, 0 means the default everywhere. What is over a
// limit is answered with an error that names it; nothing is cut.
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

	// The largest JSON Schema of one input, in bytes; those of all inputs of a
	// skill may have four times as much together, and the descriptor twice that.
	// Default: 65536 (64 KiB).
	SchemaSize int64 `json:"schema_size,omitempty"`

	// How many subschemas of an input's JSON Schema may apply to one value. It also
	// bounds the time that it takes to compile the schemas of all inputs of a skill,
	// their regular expressions included, and the memory of these: by default 20 ms by
	// estimate, of which 500 inputs with an ordinary schema each take a quarter, one of
	// 400 ordinary properties a fifth, and one of 300 properties with unusual keywords
	// (such as unevaluatedProperties or $anchor) three quarters. Default: 2048.
	SchemaComplexity int `json:"schema_complexity,omitempty"`

	// What checking the arguments of one request against the schemas of inputs may
	// take, a batch counting as one, in steps of about 10 ns. An ordinary schema takes
	// 10 to 40 for each byte. Default: 100000000.
	ArgumentComplexity int `json:"argument_complexity,omitempty"`

	// The largest output of a run, in bytes of JSON. At most `max_response_size`.
	// Default: `max_response_size`.
	OutputSize int64 `json:"output_size,omitempty"`

	// The largest answer to a batch, in bytes, but for the ids in it. What does not
	// fit is answered RATE_LIMITED, with the run token by which the output can be had,
	// if the run was executed. As much is kept of a batch, at most, while its answers
	// wait for their turn. At least `output_size`. Default: twice `max_response_size`,
	// or 20971520 (20 MiB) if that is more.
	AnswerSize int64 `json:"answer_size,omitempty"`

	// How many bytes the answers of all calls may have together that are kept at a time,
	// until the agents have taken them; the first 64 KiB of each do not count, nor of each
	// batch (not of each call in it). What finds no room is answered RATE_LIMITED as with `answer_size`. While an answer is made, up
	// to twice as much memory is in use. At least `answer_size`. Default: a quarter of
	// GOMEMLIMIT, which Caddy takes from its container or system, or 1073741824 (1 GiB)
	// where there is none; never less than `answer_size`.
	Answers int64 `json:"answers,omitempty"`

	// How long the body of a provider's answer may stand still, and for how long an
	// agent may take nothing of its answer before it is left. (For connecting
	// and for TLS there are `dial_timeout` and `handshake_timeout` of the
	// transport, and `response_header_timeout` for what comes between; a call ends
	// with its deadline in any case. For agents there are the `timeouts` of Caddy's
	// servers, too.) Default: `30s`.
	BodyTimeout caddy.Duration `json:"body_timeout,omitempty"`

	// How much a provider may send on a connection of HTTP/2 beside the content of
	// its answers, in bytes, for each call that uses the connection (and a sixteenth
	// of that while none does): frames that mean nothing, pings, header fields, what
	// comes after an answer was cancelled. On more, the connection is closed. At
	// least 262144 (256 KiB). Default: 4194304 (4 MiB).
	ConnectionOverhead int64 `json:"connection_overhead,omitempty"`

	// How many calls may be in progress at a time. Further ones are answered
	// RATE_LIMITED at once. Default: 20000, or fewer where memory is limited: one
	// for each 64 KiB of half of GOMEMLIMIT, which Caddy takes from its container
	// or system.
	Runs int `json:"runs,omitempty"`

	// How many of them may concern one provider, skill or registry, so that none
	// can take the places of all; at most `runs`. (In the Caddyfile, the second
	// number after `runs`.) Default: half of `runs`.
	RunsPerProvider int `json:"runs_per_provider,omitempty"`

	// How many descriptors of one provider or registry are read at a time. Of one host,
	// and of one publisher (skills whose ids begin alike: up to the first slash, or by
	// their first two labels), at most a quarter are (but one in any case), and less the more
	// hosts and publishers there are; half of the places are for hosts and publishers of
	// which no other descriptor is being read. Calls that want more wait, and
	// are answered RATE_LIMITED if their time ends meanwhile. What is still being read
	// for a call that has ended counts, too, as does that call in `runs`; it gives way to
	// what is waited for. Default: 64.
	Reads int `json:"reads,omitempty"`

	// How many requests, at once and per minute, may be made for URLs whose last request
	// brought no document, at a host that is neither the provider's (or registry's) own
	// nor one of `trust`: its documents choose that host. A URL that fails again is left
	// alone for 1 s to 5 min. URLs that have not failed lately count apart: of these, four
	// times as many (or four times `reads`, if that is more) may fail at once, and as many
	// per minute as of the others. Each publisher of a registry (as in `reads`) has its
	// own, and all together twice as much. Requests count while they are under way. Over
	// that the host is not asked, and what it would have been asked for is answered
	// RATE_LIMITED, or stale; a document that is kept is renewed nevertheless. Default: 60.
	FailedReads int `json:"failed_reads,omitempty"`

	// How often one host may be asked about runs, in requests per second for all runs
	// together whose status URL (or result URL, if there is no other) is there. Over that
	// it is asked later, first about the runs that are likely to have ended; about runs
	// whose time is nearly up at the last moment, and no more of these than of the others. The skills of a host, whichever provider, skill or
	// registry leads to them and in whichever handler, share what it may be asked, and so
	// do the configurations before and after a reload. Skills that another host publishes
	// have a count of their own, so that they can't slow down these. So have handlers with
	// another number here. Default: `runs`, so that each may be asked about once a second,
	// and at least 1000.
	Polls int `json:"polls,omitempty"`

	// How many of them may have a run that was submitted and has not ended: what
	// they wait for goes on at providers. Default: `runs`.
	Waiting int `json:"waiting,omitempty"`
}

// CircuitBreaker decides when a host of a provider is left alone. Any answer
// proves a host alive, even that a run has failed or HTTP 429; failures are:
// no connection, no TLS, no answer in time, and HTTP 502, 503 and 504. While the
// breaker is open, calls are answered ENDPOINT_UNREACHABLE at once, and documents
// are served stale; the runs that were accepted go on to be asked about. After the
// cooldown one request at a time tries whether the host is back.
type CircuitBreaker struct {
	// How many failures in a row open the breaker. In JSON, 0 means the default.
	// Default: 20.
	Failures int `json:"failures,omitempty"`

	// How long it stays open before the host is tried again. In JSON, 0 means the
	// default. Default: `5s`.
	Cooldown caddy.Duration `json:"cooldown,omitempty"`

	// Never leave a host alone; the other two are left out then. (In the Caddyfile,
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

// orDefault returns a duration that an operator may leave out.
func orDefault(d caddy.Duration, standard time.Duration) time.Duration {
	return cmp.Or(time.Duration(d), standard)
}

// orDefaultPointer returns a duration that an operator may leave out, and for
// which zero has a meaning of its own.
func orDefaultPointer(d *caddy.Duration, standard time.Duration) time.Duration {
	if d == nil {
		return standard
	}
	return time.Duration(*d)
}
