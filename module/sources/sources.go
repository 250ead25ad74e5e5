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
	all := make([]source, 0, len(from.Providers)+len(from.Skills)+len(from.Registries)+len(from.Sites))
	for i, p := range from.Providers {
		s := source{
			path: options.Element("providers", i), name: p.Origin, field: ".origin",
			module: p, credentials: p.CredentialsRaw, discovery: p.DiscoveryCredentialsRaw, transport: p.TransportRaw, onChange: p.OnChange,
			Source: catalog.Source{
				Kind: catalog.ProviderSource, Trust: p.Trust,
				CapabilityTypes:  capabilityTypes(p.CapabilityTypes),
				RequirePrincipal: p.RequirePrincipal,
			},
		}
		for _, a := range p.Aliases {
			s.Aliases = append(s.Aliases, catalog.Alias(a))
		}
		s.URL, s.err = parseOrigin("provider origin", "/.well-known/skill-sharing", p.Origin)
		s.Namespace = namespaceOf(p.Namespace, s.URL)
		all = append(all, s)
	}
	for i, skill := range from.Skills {
		s := source{
			path: options.Element("skills", i), name: skill.Name, field: ".url",
			module: skill, credentials: skill.CredentialsRaw, transport: skill.TransportRaw, onChange: skill.OnChange,
			Source: catalog.Source{
				Kind: catalog.SkillSource, Namespace: skill.Name, Trust: skill.Trust,
				RequirePrincipal: skill.RequirePrincipal,
			},
		}
		s.URL, s.err = parseURL("descriptor URL", skill.URL)
		all = append(all, s)
	}
	for i, r := range from.Registries {
		s := source{
			path: options.Element("registries", i), name: r.URL, field: ".url",
			module: r, discovery: r.DiscoveryCredentialsRaw, onChange: r.OnChange,
			Source: catalog.Source{
				Kind: catalog.RegistrySource, CapabilityTypes: capabilityTypes(r.CapabilityTypes), RequirePrincipal: r.RequirePrincipal,
			},
		}
		s.URL, s.err = parseRegistry(r.URL)
		s.Namespace = namespaceOf(r.Namespace, s.URL)
		all = append(all, s)
	}
	for i, v := range from.Sites {
		all = append(all, v.source(options.Element("sites", i)))
	}
	for i := range all {
		all[i].personal = isPersonal(all[i].credentials)
		all[i].RequirePrincipal = all[i].RequirePrincipal || all[i].personal
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
