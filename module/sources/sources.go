package sources

import (
	"encoding/json" // for Caddy's raw modules
	"net/url"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Sources are where skills come from.
type Sources struct {
	// Services whose skills are offered. Default: none.
	// Example: `[{"origin": "https://skills.example.com"}]`.
	Providers []*Provider `json:"providers,omitempty"`

	// Single skills that are offered. Default: none.
	// Example: `[{"name": "translate", "url": "https://example.com/skills/translate.json"}]`.
	Skills []*Skill `json:"skills,omitempty"`

	// Directories whose skills are offered. Default: none.
	// Example: `[{"url": "https://registry.example.org/v1", "capability_types": ["api"]}]`.
	Registries []*Registry `json:"registries,omitempty"`

	// Web sites whose skills, published in the Agent Skills format, are offered for reading. Default: none.
	// Example: `[{"origin": "https://docs.example.com"}]`.
	Sites []*Site `json:"sites,omitempty"`
}

// source is a provider, skill, registry or site in the configuration.
type source struct {
	catalog.Source // without transport and credentials until load

	path  string // in the JSON config
	name  string // in errors
	field string // path of the URL below path
	err   error  // why the URL is invalid; Source.URL is nil then

	module                            any // the *Provider, *Skill, *Registry or *Site with these guest modules
	credentials, discovery, transport json.RawMessage
	onChange                          string
	personal                          bool // each principal has credentials of its own
}

// sources returns the providers, skills, registries and sites. None of them may be nil.
func (from *Sources) sources() []source {
	var all []source
	add := func(list string, i int, kind catalog.SourceKind, namespace string, aliases []Alias, s source) {
		s.path, s.Kind, s.Namespace, s.personal = options.Element(list, i), kind, namespaceOf(namespace, s.URL), isPersonal(s.credentials)
		s.RequirePrincipal = s.RequirePrincipal || s.personal
		for _, a := range aliases {
			s.Aliases = append(s.Aliases, catalog.Alias(a))
		}
		all = append(all, s)
	}
	for i, p := range from.Providers {
		u, err := parseOrigin("provider origin", "/.well-known/skill-sharing", p.Origin)
		add("providers", i, catalog.ProviderSource, p.Namespace, p.Aliases, source{
			name: p.Origin, field: ".origin", err: err, module: p, credentials: p.CredentialsRaw, discovery: p.DiscoveryCredentialsRaw, transport: p.TransportRaw, onChange: p.OnChange,
			Source: catalog.Source{URL: u, Trust: p.Trust, CapabilityTypes: capabilityTypes(p.CapabilityTypes), RequirePrincipal: p.RequirePrincipal},
		})
	}
	for i, v := range from.Skills {
		u, err := parseURL("descriptor URL", v.URL)
		add("skills", i, catalog.SkillSource, v.Name, nil, source{
			name: v.Name, field: ".url", err: err, module: v, credentials: v.CredentialsRaw, transport: v.TransportRaw, onChange: v.OnChange,
			Source: catalog.Source{URL: u, Trust: v.Trust, RequirePrincipal: v.RequirePrincipal},
		})
	}
	for i, r := range from.Registries {
		u, err := parseRegistry(r.URL)
		add("registries", i, catalog.RegistrySource, r.Namespace, nil, source{
			name: r.URL, field: ".url", err: err, module: r, discovery: r.DiscoveryCredentialsRaw, onChange: r.OnChange,
			Source: catalog.Source{URL: u, CapabilityTypes: capabilityTypes(r.CapabilityTypes), RequirePrincipal: r.RequirePrincipal},
		})
	}
	for i, v := range from.Sites {
		u, err := parseOrigin("site origin", "/.well-known/agent-skills/index.json", v.Origin)
		add("sites", i, catalog.SiteSource, v.Namespace, v.Aliases, source{
			name: v.Origin, field: ".origin", err: err, module: v, discovery: v.DiscoveryCredentialsRaw, transport: v.TransportRaw,
			Source: catalog.Source{URL: u, Trust: v.Trust, RequirePrincipal: v.RequirePrincipal},
		})
	}
	return all
}

// Personal returns the JSON paths of the credentials of which each principal has its own. None of the sources may be nil.
func (from *Sources) Personal() (paths []string) {
	for _, s := range from.sources() {
		if s.personal {
			paths = append(paths, s.path+".credentials")
		}
	}
	return paths
}

// namespaceOf returns the configured namespace, or the host name in lower case by default.
func namespaceOf(namespace string, u *url.URL) string {
	if namespace == "" && u != nil {
		return strings.ToLower(u.Hostname())
	}
	return namespace
}

func capabilityTypes(texts []string) []document.CapabilityType {
	types := make([]document.CapabilityType, len(texts))
	for i, text := range texts {
		types[i] = document.CapabilityType(text)
	}
	return types
}

// fault returns an error about a field of a source; the empty field stands for the source.
func (s *source) fault(field string, err error) error {
	return &options.ConfigError{Path: s.path + field, Owner: s.name, Err: err}
}
