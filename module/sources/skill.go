package sources

import (
	"encoding/json" // for Caddy's raw modules
)

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

	// What to do when a skill asks for something else than before, as in a provider: `warn`,
	// `hold` or `off`. Default: `warn`.
	OnChange string `json:"on_change,omitempty"`

	// Transport for all requests about this skill, instead of the handler's.
	TransportRaw json.RawMessage `json:"transport,omitempty" caddy:"namespace=http.reverse_proxy.transport inline_key=protocol"`
}
