package catalog

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// SkillStatus is what is known of one skill.
type SkillStatus struct {
	Name, Namespace, ID, Version string
	Access                       document.AccessPolicy
	// Cached tells that its descriptor is kept, FetchedAt since when, and ExpiresAt until when it is fresh.
	Cached               bool
	FetchedAt, ExpiresAt time.Time
	// Fault is why it can't be called: its descriptor can't be had at the moment, or there is no credential for it. nil:
	// nothing is known against it.
	Fault *run.Failure
}

// inventoryTimeout bounds what it takes to read the indexes that are not cached: who
// asks how things are does not want to wait for a provider that hangs.
const inventoryTimeout = 2 * time.Second

// Inventory returns what is known of all skills, private ones included, in the order
// of the sources and of the names in each; and the sources that can't be read. It
// reads indexes, if they are not cached, but no descriptors.
func (c *Catalog) Inventory(ctx context.Context) ([]SkillStatus, []Unavailable) {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	var skills []SkillStatus
	var unavailable []Unavailable
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			skills = append(skills, c.status(ctx, c.operators[s.Namespace].listed, SkillStatus{Name: s.Namespace}))
		}
	}
	loaded := c.loadAll(ctx, func(s *Section) bool { return s.Kind != SkillSource })
	for _, l := range loaded {
		if l.err != nil {
			unavailable = append(unavailable, Unavailable{l.section.Namespace, l.err})
			continue
		}
		for _, e := range l.table.entries {
			skills = append(skills, c.status(ctx, e.listed, SkillStatus{Name: e.name, ID: e.ID, Version: e.Version, Access: e.Access}))
		}
	}
	return skills, unavailable
}

// LeftOut is what a source's indexes have that is not listed, and what the operator wants
// of them that they do not have.
type LeftOut struct {
	Namespace string
	Count     int                // of entries that are not listed
	First     []document.LeftOut // the first of them
	Missing   []MissingAlias
}

// MissingAlias is an alias for a skill that its source does not list.
type MissingAlias struct {
	Alias
	Namespace string
	Near      []string // ids that may have been meant
}

// LeftOut returns what is left out of the indexes of sources, as far as these have been
// read: the sources of which something is, in order.
func (c *Catalog) LeftOut(ctx context.Context) []LeftOut {
	var list []LeftOut
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			continue
		}
		if t := c.known(ctx, s); t != nil && (t.left > 0 || len(t.missing) > 0) {
			list = append(list, LeftOut{Namespace: s.Namespace, Count: t.left, First: t.leftOut, Missing: t.missing})
		}
	}
	return list
}

func (c *Catalog) status(ctx context.Context, l *Listed, status SkillStatus) SkillStatus {
	status.Namespace = l.Section.Namespace
	doc, err := l.Section.Client.Peek(ctx, l.descriptor)
	if doc != nil {
		skill := doc.Value.(*discovery.Skill)
		f := Found{Listed: l, Skill: skill}
		f.Invoker, f.withheld, _ = c.invoker(ctx, l, skill, func(ctx context.Context, s *Section) (*nameTable, *run.Failure) {
			return c.known(ctx, s), nil
		})
		status.Fault = f.Denied()
		status.Cached, status.FetchedAt, status.ExpiresAt = true, doc.FetchedAt, doc.ExpiresAt
		status.ID, status.Version, status.Access = skill.ID, skill.Version, skill.Access
	}
	if err != nil {
		status.Fault = err
	} else if fault := l.Section.Faults.of(l.ID); fault != nil {
		status.Fault = fault
	}
	return status
}
