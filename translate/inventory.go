package translate

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// SkillStatus is what is known of one skill.
type SkillStatus struct {
	Name, Namespace, ID, Version string
	Access                       skillsharing.AccessPolicy
	// Cached tells that its descriptor is kept, FetchedAt since when, and ExpiresAt until when it is fresh.
	Cached               bool
	FetchedAt, ExpiresAt time.Time
	// Fault is why it can't be called: its descriptor can't be had at the moment, or there is no credential for it. nil:
	// nothing is known against it.
	Fault *Failure
}

// inventoryTimeout bounds what it takes to read the indexes that are not cached: who
// asks how things are does not want to wait for a provider that hangs.
const inventoryTimeout = 2 * time.Second

// Inventory returns what is known of all skills, private ones included, in the order
// of the sources and of the names in each; and the sources that can't be read. It
// reads indexes, if they are not cached, but no descriptors.
func (b *Bridge) Inventory(ctx context.Context) ([]SkillStatus, []Unavailable) {
	ctx, cancel := context.WithTimeout(ctx, inventoryTimeout)
	defer cancel()
	var skills []SkillStatus
	var unavailable []Unavailable
	for _, s := range b.catalog.sources {
		if s.Kind == SkillSource {
			skills = append(skills, b.status(ctx, b.catalog.operators[s.Namespace].listed, SkillStatus{Name: s.Namespace}))
		}
	}
	loaded := b.catalog.loadAll(ctx, func(s *source) bool { return s.Kind != SkillSource })
	for _, l := range loaded {
		if l.err != nil {
			unavailable = append(unavailable, Unavailable{l.source.Namespace, failed(l.err)})
			continue
		}
		for _, e := range l.table.entries {
			skills = append(skills, b.status(ctx, e.listed, SkillStatus{Name: e.name, ID: e.ID, Version: e.Version, Access: e.Access}))
		}
	}
	return skills, unavailable
}

// RegistryFaults are entries of a registry that can't be used.
type RegistryFaults struct {
	Namespace string
	Count     int
	First     []skillsharing.LeftOut
}

// RegistryFaults returns what is left out of the answers of registries, as far as these
// have been read: the registries of which something is, in order.
func (b *Bridge) RegistryFaults(ctx context.Context) []RegistryFaults {
	var list []RegistryFaults
	for _, s := range b.catalog.sources {
		if s.Kind != RegistrySource {
			continue
		}
		f := RegistryFaults{Namespace: s.Namespace}
		if t := b.catalog.known(ctx, s); t != nil {
			for _, index := range t.indexes {
				f.Count += index.LeftOutCount
				f.First = append(f.First, index.LeftOut...)
			}
		}
		if f.Count > 0 {
			list = append(list, f)
		}
	}
	return list
}

func (b *Bridge) status(ctx context.Context, l *listed, status SkillStatus) SkillStatus {
	status.Namespace = l.source.Namespace
	doc, err := l.source.client.Peek(ctx, l.descriptor)
	if doc != nil {
		skill := doc.Value.(*skillsharing.Skill)
		f := found{listed: l, skill: skill}
		f.invoker, f.withheld, _ = b.invoker(ctx, l, skill, func(ctx context.Context, s *source) (*nameTable, *skillsharing.Error) {
			return b.catalog.known(ctx, s), nil
		})
		status.Fault = f.denied()
		status.Cached, status.FetchedAt, status.ExpiresAt = true, doc.FetchedAt, doc.ExpiresAt
		status.ID, status.Version, status.Access = skill.ID, skill.Version, skill.Access
	}
	if err != nil {
		status.Fault = failed(err)
	} else if fault := l.source.Faults.of(l.id); fault != nil {
		status.Fault = fault
	}
	return status
}
