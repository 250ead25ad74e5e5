package catalog

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Source is a configured source of skills.
type Source struct {
	Kind SourceKind
	// Namespace of a provider or registry; of a single skill, its name. Unique among all sources.
	Namespace string
	// URL is a provider's origin, a skill's descriptor or a registry's base.
	URL *url.URL
	// Faults holds the failures of its skills; nil: the bridge makes one.
	Faults *faults.Faults
	Guard  discovery.Guard // decides about changed descriptors; nil: the newest one is used
	// Aliases are names that the operator gives to skills.
	Aliases []Alias
	// Trust lists further hosts, with or without a port, that may receive the source's secrets.
	Trust []string
	// Certificate says that the transport may show a client certificate, which counts as a secret.
	Certificate bool
	// Credentials authenticate invocations; nil: none.
	Credentials credential.Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials credential.Credentials
	// CapabilityTypes restricts the source to skills of these types; empty: all.
	CapabilityTypes []document.CapabilityType
	// RequirePrincipal refuses all calls of anonymous callers.
	RequirePrincipal bool
	// Transport carries all requests to the source. It must refuse forbidden
	// addresses, follow no redirects, and end with the context of a request, also
	// while the body of its answer is read.
	Transport http.RoundTripper
	// Partition separates the source's documents from those read with other
	// credentials or over another transport. It is a hash: no secret can be read from it.
	Partition string
}

// Alias is a name that the operator gives to a skill.
type Alias struct {
	Name    string
	SkillID string
}

// SourceKind says how a [Source] publishes its skills.
type SourceKind uint8

// The kinds of sources: one for each discovery path of the Skill Sharing Protocol, section 4.2, and sites that publish
// skills in the Agent Skills format.
const (
	ProviderSource SourceKind = iota // an index under a well-known path
	SkillSource                      // the URL of one descriptor
	RegistrySource                   // a registry, queried by capability type
	SiteSource                       // an index of Agent Skills under a well-known path
)

// String returns the name of the kind for operators.
func (k SourceKind) String() string { return []string{"provider", "skill", "registry", "site"}[k] }

// Section is a [Source] with its client and its names.
type Section struct {
	Source
	Client *skillsharing.Client
	// Index is the index of the source in the order of the configuration.
	Index  int
	Stalls discovery.Stalls

	catalog  *Catalog
	direct   *Listed       // the skill of a [SkillSource]
	refusals faults.Faults // of credentials for single skills, by calls with this configuration
	refused  faults.Faults // of the credential of the source, by principals
	table    atomic.Pointer[nameTable]
	naming   sync.Mutex                        // held while a table is made
	newest   atomic.Pointer[[]*document.Index] // of which one is made, or will be
	indexing sync.Mutex                        // held while the words of a table are collected
	near     *near.Index                       // of the names in the configuration
}

// visible returns the first entries that a caller may see; most is their largest number. Anonymous callers do not see private skills of an index that
// was read with credentials, unless the operator gave the skill an alias. No caller sees skills that the access rules deny.
func (t *nameTable) visible(entries []*Listed, v viewer, most int) []*Listed {
	all := v.principal != "" || t.section.DiscoveryCredentials == nil
	if len(entries) == 1 && (all || !entries[0].Hidden) && t.permits(v.role, entries[0]) {
		return entries
	}
	var visible []*Listed
	for _, e := range entries {
		if len(visible) == most {
			break
		}
		if (all || !e.Hidden) && t.permits(v.role, e) {
			visible = append(visible, e)
		}
	}
	return visible
}

// Admits reports whether a caller may use the source at all.
func (s *Section) Admits(principal string) bool { return principal != "" || !s.RequirePrincipal }

// admits reports whether a caller may use the source at all, and know of it.
func (s *Section) admits(v viewer) bool { return s.Admits(v.principal) && s.Knows(v.role) }

// Hides reports whether lists of the source's skills depend on the principal: those for anonymous callers do not have all skills. It is
// about the list that was read last.
func (s *Section) Hides() bool {
	t := s.table.Load()
	return t != nil && t.hides
}

// Ready reports whether the list of the source's skills was read, and is shown without waiting as long as it is fresh.
func (s *Section) Ready() bool {
	t := s.table.Load()
	return t != nil && t.learned.Load()
}

// FreshUntil returns the time until which the list of the source's skills is fresh. It reads nothing; zero: the list is not
// in the cache, or it is stale and can't be renewed because of the failure.
func (s *Section) FreshUntil(ctx context.Context) (first time.Time, stale *run.Failure) {
	if s.Kind != SkillSource {
		return s.Client.FreshUntil()
	}
	if doc, _ := s.Client.Peek(ctx, s.direct.descriptor, discovery.Names{}); doc != nil {
		return discovery.FreshUntil(doc)
	}
	return first, stale
}

// accepts reports whether skills of a type are listed.
func (s *Section) accepts(t document.CapabilityType) bool {
	return len(s.CapabilityTypes) == 0 || slices.Contains(s.CapabilityTypes, t)
}

// isPersonal reports whether each principal has a credential of its own for the source.
func (s *Section) isPersonal() bool {
	_, personal := s.Credentials.(credential.Personal)
	return personal
}

// hasCredentials reports whether the source has a client certificate, or credentials that suit the skill.
func (s *Section) hasCredentials(skill *discovery.Skill) bool {
	return s.Certificate || skill.Auth.Type != document.AuthNone && s.Credentials != nil && s.Credentials.Supports(&skill.Auth)
}

// IsSkillFault reports whether the skill or its provider is the cause of a failure to read a
// descriptor. For a deadline, a stop and a limit of the bridge, it is not.
func IsSkillFault(f *run.Failure) bool {
	switch f.Kind {
	case run.DeadlineExceeded, run.Stopped:
		return false
	case run.RateLimited:
		return f.By == run.Provider
	}
	return true
}

// MayPass reports whether a descriptor may be readable a moment later: its host can't be reached or is busy, or a limit or a stop of the
// bridge prevented the reading. An HTTP status 500 is a fault of the one document, if others can be read.
func MayPass(f *run.Failure) bool {
	switch f.Kind {
	case run.DeadlineExceeded, run.Stopped, run.RateLimited:
		return true
	case run.Unreachable:
		return f.Refused == "" && f.HTTPStatus != http.StatusInternalServerError
	}
	return false
}

// IsOfDescriptor reports whether a descriptor can't be used as it is: it is invalid, it asks for what the bridge can't
// do, or there is none.
func IsOfDescriptor(f *run.Failure) bool {
	return f.Kind == run.InvalidDocument || f.Kind == run.VersionIncompatible || f.Kind == run.NotSupported || f.Kind == run.SkillNotFound
}

// otherVersion returns the failure for a version that the provider does not offer.
func otherVersion(s *discovery.Skill, wanted string) *run.Failure {
	f := run.NotExecuted(run.SkillNotFound, run.PhaseDescriptor, fmt.Sprintf("skill '%s' has version %s, not %s.", s.ID, s.Version, wanted))
	f.SkillID, f.Argument = s.ID, &run.Argument{Field: run.FieldVersion, Reason: run.NotFound}
	return f
}
