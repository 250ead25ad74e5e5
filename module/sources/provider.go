package sources

import (
	"encoding/json" // for Caddy's raw modules
)

// Provider is a service that offers skills and publishes an index of them
// under `/.well-known/skill-sharing` (Skill Sharing Protocol, section 4.3).
type Provider struct {
	// Where the provider is: scheme, host and, if it is not the scheme's default,
	// port, without a path. `http` needs `allow_http`; secrets are sent over plain HTTP
	// only to a provider whose origin is written with `http://`. Required.
	// Example: `https://skills.example.com`.
	Origin string `json:"origin" option:"-"`

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

	// How to authenticate when invoking a skill and when reading its status and result.
	// Secrets are sent only to hosts that may receive them, and only for skills that
	// require this type of authentication. Needs `require_principal`, here or in the
	// handler, or the handler's `allow_anonymous`. Default: none.
	// Example: `{"type": "api_key", "key": "{env.ACME_KEY}"}`.
	CredentialsRaw json.RawMessage `json:"credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// How to authenticate when reading the index and the descriptors. Private skills found
	// this way are hidden from anonymous callers unless they have an alias. Needs
	// `require_principal` or `allow_anonymous`, as `credentials` does. Default: none.
	DiscoveryCredentialsRaw json.RawMessage `json:"discovery_credentials,omitempty" caddy:"namespace=http.skill_bridge.credentials inline_key=type"`

	// Use only skills of these types: `plugin`, `api`, `knowledge`, `task`.
	// Default: all. Example: `["api", "task"]`.
	CapabilityTypes []string `json:"capability_types,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED for all skills of this
	// provider, and hide these skills from their lists, even if the handler has
	// `allow_anonymous`. Other providers, skills and registries are not affected.
	// Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// What to do when the provider changes what a skill asks for: its name or description, the
	// hosts of its endpoint, its inputs, or how it authenticates. `warn`: use the new
	// descriptor, and log a warning; changes are noticed while this configuration runs.
	// `hold`: use the descriptor that was seen first, until `caddy skill-bridge approve`
	// approves the new one; descriptors are kept in the database. `off`: use the new one.
	// Default: `warn`.
	OnChange string `json:"on_change,omitempty"`

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
	Name string `json:"name" option:"-"`

	// The URL of its descriptor. `http` needs `allow_http`. Required.
	// Example: `https://example.com/skills/translate.json`.
	URL string `json:"url" option:"-"`

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

	// What to do when a skill asks for something else than before, as in a provider: `warn`,
	// `hold` or `off`. Default: `warn`.
	OnChange string `json:"on_change,omitempty"`

	// Transport for all requests about this skill, instead of the handler's.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}

// Registry is a directory with the skills of many providers, queried by capability type
// (Skill Sharing Protocol, section 4.2). A skill found in it is invoked with the
// credentials of a provider in this handler if that provider's own index lists the skill
// with the same descriptor URL and its hosts allow it; otherwise without credentials.
type Registry struct {
	// The base URL, to which `/skills` is appended. `http` needs `allow_http`. Required.
	// Example: `https://registry.example.org/v1`.
	URL string `json:"url" option:"-"`

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

	// What to do when a skill asks for something else than before, as in a provider: `warn`,
	// `hold` or `off`. Default: `warn`.
	OnChange string `json:"on_change,omitempty"`
}
