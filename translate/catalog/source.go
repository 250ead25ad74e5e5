package catalog

import (
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Source is one place where skills are found.
type Source struct {
	Kind SourceKind
	// Namespace of a provider or registry; of a single skill, its name. Unique among all sources.
	Namespace string
	// URL is a provider's origin, a skill's descriptor or a registry's base.
	URL *url.URL
	// Faults are what is known against its skills; nil: nothing yet.
	Faults *Faults
	// Aliases are names of the operator's own, each with the id it stands for.
	Aliases []Alias
	// Trust lists further hosts, with or without a port, that may receive the source's secrets.
	Trust []string
	// TrustRegistries are the namespaces of registries whose skills may use the provider's credentials though its own
	// index does not list them.
	TrustRegistries []string
	// Certificate tells that the transport may show a client certificate, which counts as a secret.
	Certificate bool
	// Credentials authenticate invocations; nil: none.
	Credentials credential.Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials credential.Credentials
	// CapabilityTypes restricts the source to skills of these types; empty: all.
	CapabilityTypes []document.CapabilityType
	// ListPrivate shows private skills to every caller.
	ListPrivate bool
	// RequirePrincipal refuses anonymous callers whatever they ask of the source.
	RequirePrincipal bool
	// PreferWait is for how long the provider is asked to hold answers back until a run has ended, in whole seconds; 0: it is
	// not.
	PreferWait time.Duration
	// Transport carries all requests to the source. It must refuse forbidden
	// addresses, follow no redirects, and end with the context of a request, also
	// while the body of its answer is read.
	Transport http.RoundTripper
	// Partition separates the source's documents from those read with other
	// credentials or over another transport. It is a hash: no secret can be read from it.
	Partition string
}

// Alias is a name of the operator's own for a skill.
type Alias struct {
	Name    string
	SkillID string
}

// SourceKind says how a [Source] publishes its skills.
type SourceKind uint8

// The kinds of sources, one for each discovery path of the Skill Sharing
// Protocol, section 4.2.
const (
	ProviderSource SourceKind = iota // an index under a well-known path
	SkillSource                      // the URL of one descriptor
	RegistrySource                   // a registry that is asked by capability type
)

// Section is a [Source] in use: what it lists, and how it is reached.
type Section struct {
	Source
	Client *skillsharing.Client
	// Place is its place in the order of the configuration.
	Place int

	table atomic.Pointer[nameTable]
	near  *nearIndex // of the names that the operator gave
}

// visible returns at most so many of the entries that a caller may learn of. Private ones
// that were read with the operator's credentials are kept from anonymous callers, unless the
// operator gave them a name or lists them.
func (s *Section) visible(entries []*entry, principal string, most int) []*entry {
	all := principal != "" || s.ListPrivate || s.DiscoveryCredentials == nil
	if len(entries) == 1 && (all || !entries[0].hidden()) {
		return entries
	}
	var visible []*entry
	for _, e := range entries {
		if len(visible) == most {
			break
		}
		if all || !e.hidden() {
			visible = append(visible, e)
		}
	}
	return visible
}

// Admits reports whether a caller may use the source at all.
func (s *Section) Admits(principal string) bool { return principal != "" || !s.RequirePrincipal }

// types are those that a registry is asked for; the empty one is all.
func (s *Section) types() []document.CapabilityType {
	if len(s.CapabilityTypes) == 0 {
		return []document.CapabilityType{""}
	}
	return s.CapabilityTypes
}

// wants reports whether the source is restricted to other types than t.
func (s *Section) wants(t document.CapabilityType) bool {
	return len(s.CapabilityTypes) == 0 || slices.Contains(s.CapabilityTypes, t)
}

// identifies reports whether a provider has credentials that show who calls the skill.
func (s *Section) identifies(skill *discovery.Skill) bool {
	return s.Certificate || skill.Auth.Type != document.AuthNone && s.Credentials != nil && s.Credentials.Supports(&skill.Auth)
}
