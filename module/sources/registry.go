package sources

import "encoding/json" // for Caddy's raw modules

// Registry is a directory with the skills of many providers, queried by capability type
// (Skill Sharing Protocol, section 4.2). A skill found in it is invoked with the
// credentials of a provider in this handler if that provider's own index lists the skill
// with the same descriptor URL and its hosts allow it; otherwise without credentials.
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

	// What to do when a skill asks for something else than before, as in a provider: `warn`,
	// `hold` or `off`. Default: `warn`.
	OnChange string `json:"on_change,omitempty"`
}
