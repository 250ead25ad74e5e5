package catalog

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// SkillStatus is the status of one skill.
type SkillStatus struct {
	Name, Namespace, ID, Version string
	Access                       document.AccessPolicy
	// Cached reports whether the descriptor is in the cache, FetchedAt when it was read, and ExpiresAt until when it is
	// fresh.
	Cached               bool
	FetchedAt, ExpiresAt time.Time
	// Fault says why the skill can't be called: its descriptor can't be read, there is no credential for it, or the provider has
	// refused the credential. nil: no reason is known.
	Fault *run.Failure
	// Stale says why the cached descriptor, which is used, could not be renewed; nil: it could.
	Stale *run.Failure
	// Skill is the cached descriptor; nil: it is not cached. It must not be changed.
	Skill *discovery.Skill
	// Since is when the Fault was first found, or when the descriptor was read; zero: that is not known.
	Since time.Time
}

// inventoryTimeout bounds the reading of indexes that are not cached, so that the status of
// all sources is shown soon even if one provider does not answer.
const inventoryTimeout = 2 * time.Second

// Inventory returns the status of all skills, private ones included, and the sources that can't be read. Directly configured skills come first, then
// the others by source and name. It reads indexes that are not cached, but no descriptors.
func (c *Catalog) Inventory(ctx context.Context) ([]SkillStatus, []Unavailable) {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	var skills []SkillStatus
	var unavailable []Unavailable
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			skills = append(skills, c.status(ctx, s.direct, anyone, SkillStatus{Name: s.Namespace}))
		}
	}
	loaded := c.loadAll(ctx, func(s *Section) bool { return s.Kind != SkillSource })
	for _, l := range loaded {
		if l.err != nil {
			unavailable = append(unavailable, Unavailable{l.section.Namespace, l.err})
			continue
		}
		for _, e := range l.table.entries {
			skills = append(skills, c.status(ctx, e, anyone, SkillStatus{Name: e.Name, ID: e.ID, Version: e.Version, Access: e.Access}))
		}
	}
	return skills, unavailable
}

// Stale returns the sources whose lists are those of before, since they could not be renewed. It reads nothing.
func Stale(ctx context.Context, c *Catalog) (list []Unavailable) {
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			continue
		}
		if _, stale := s.FreshUntil(ctx); stale != nil {
			list = append(list, Unavailable{s.Namespace, stale})
		}
	}
	return list
}

// LeftOut says which entries of a source's indexes are not listed, and which aliases stand for
// skills that the source does not have.
type LeftOut struct {
	Namespace string
	Count     int                // of the entries that are not listed
	First     []document.LeftOut // the first of these entries
	Missing   []MissingAlias
}

// MissingAlias is an alias for a skill that its source does not list.
type MissingAlias struct {
	Alias
	Namespace string
	Near      []string // similar ids
}

// LeftOut returns the sources that have entries that are not listed or aliases without a skill,
// in the order of the configuration. It reads nothing: sources that were not read yet are left out.
func (c *Catalog) LeftOut(ctx context.Context) []LeftOut {
	var list []LeftOut
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			continue
		}
		if t := c.peek(ctx, s); t != nil && (t.omittedCount > 0 || len(t.missing) > 0) {
			list = append(list, LeftOut{Namespace: s.Namespace, Count: t.omittedCount, First: t.omitted, Missing: t.missing})
		}
	}
	return list
}

// All returns all skills that the source lists, private ones included, in the order of their names.
func (s *Section) All(ctx context.Context) ([]*Listed, *run.Failure) {
	if s.Kind == SkillSource {
		return []*Listed{s.direct}, nil
	}
	t, failure := s.catalog.load(ctx, s)
	if failure != nil {
		return nil, failure
	}
	return slices.Clone(t.entries), nil
}

// known returns the skills of the source as far as its list is in memory.
func (s *Section) known(ctx context.Context) []*Listed {
	if s.Kind == SkillSource {
		return []*Listed{s.direct}
	}
	if t := s.catalog.peek(ctx, s); t != nil {
		return t.entries
	}
	return nil
}

// Auths returns how the skills of the source authenticate with OAuth 2.0 to which its credentials may be sent, as far as their descriptors are in the
// cache. It reads nothing.
func (s *Section) Auths(ctx context.Context) (all []*document.Auth) {
	for _, l := range s.known(ctx) {
		if doc, _ := s.Client.Peek(ctx, l.descriptor, l.names(ctx)); doc != nil {
			skill := doc.Value.(*discovery.Skill)
			if skill.Auth.OAuth2 == nil || s.Client.WithoutCredential(skill) != nil {
				continue
			}
			if u, err := url.Parse(skill.Auth.OAuth2.TokenURL); err == nil && s.Client.AllowedHosts.Includes(u) {
				all = append(all, &skill.Auth)
			}
		}
	}
	return all
}

// status returns what is known about a skill. It counts the calls of one principal that were refused, or those of anyone.
func (c *Catalog) status(ctx context.Context, l *Listed, principal string, status SkillStatus) SkillStatus {
	status.Namespace = l.Section.Namespace
	doc, err := l.Section.Client.Peek(ctx, l.descriptor, l.names(ctx))
	if doc != nil {
		skill := doc.Value.(*discovery.Skill)
		status.Cached, status.FetchedAt, status.ExpiresAt = true, doc.FetchedAt, doc.ExpiresAt
		status.Since, status.Skill = doc.FetchedAt, skill
		_, status.Stale = discovery.FreshUntil(doc)
		if denied, since := l.denied(ctx, skill, principal); denied != nil {
			status.Fault = denied
			if !since.IsZero() {
				status.Since = since
			}
		}
		status.ID, status.Version, status.Access = skill.ID, skill.Version, skill.Access
	}
	fault, since := l.Section.Faults.Get(l.ID)
	if err != nil {
		status.Fault, status.Since = err, since
	} else if fault != nil {
		status.Fault, status.Since = fault, since
	}
	return status
}

// denied returns why calls of a skill fail: the bridge can't send them, there is no credential that it may use, or the provider has refused it in
// calls of the principal, since a time. nil: no reason is known.
func (l *Listed) denied(ctx context.Context, skill *discovery.Skill, principal string) (*run.Failure, time.Time) {
	f, c := Found{Listed: l, Skill: skill}, l.Section.catalog
	f.Invoker, f.unlistedBy, _ = c.invoker(ctx, l, skill, func(ctx context.Context, s *Section) (*nameTable, *run.Failure) {
		return c.peek(ctx, s), nil
	})
	if denied := f.Denied(ctx, principal); denied != nil {
		return denied, time.Time{}
	}
	if skill.Auth.Type != document.AuthNone {
		if refused, since := f.Invoker.refused.Recent(refusedBy("", principal), refusalTTL); refused != nil {
			return refused, since
		}
	}
	return l.Section.refusals.Recent(refusedBy(l.ID, principal), refusalTTL)
}
