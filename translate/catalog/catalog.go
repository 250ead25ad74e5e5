package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Catalog finds skills by their names. It is safe for concurrent use.
type Catalog struct {
	namespaces
	sections []*Section
	observer exchange.Observer
	changes  changes
}

// Sections returns the sources, in the order in which they were configured.
func (c *Catalog) Sections() []*Section { return c.sections }

// New returns a catalog of sources, in the order of the configuration. Each needs Source, Client
// and Faults. New fails if two skills or two sources have the same name.
func New(sections []*Section, observer exchange.Observer) (*Catalog, error) {
	c := &Catalog{
		sections: sections, observer: observer,
		namespaces: namespaces{sources: map[string]*Section{}, operators: map[string]operatorName{}},
	}
	given := map[*Section][]string{}
	add := func(name string, n operatorName) error {
		if _, taken := c.operators[name]; taken {
			return fmt.Errorf("the name %q is given to two skills", name)
		}
		c.operators[name] = n
		given[n.section] = append(given[n.section], name)
		return nil
	}
	for _, s := range sections {
		if s.Kind == SkillSource {
			if err := add(s.Namespace, operatorName{section: s, listed: directSkill(s)}); err != nil {
				return nil, err
			}
			continue
		}
		if c.sources[s.Namespace] != nil {
			return nil, fmt.Errorf("the namespace %q is given to two sources", s.Namespace)
		}
		c.namespaces.add(s)
		for _, a := range s.Aliases {
			if err := add(a.Name, operatorName{section: s, id: a.SkillID}); err != nil {
				return nil, err
			}
		}
	}
	c.toolRules = newToolRules(c.sources, c.operators)
	for _, s := range sections {
		s.catalog = c
		s.near = near.NewIndex(slices.Sorted(slices.Values(given[s])))
	}
	return c, nil
}

// Resolve finds the skill of a name: by the names that the operator configured, else in the
// source whose namespace the name starts with. It fails if that source can't be read. A name
// without a namespace is found only if there is a single source. With several, its meaning
// could change when a source is added.
//
// A name may also be a tool name (see [Entry]). Names of the operator come first, then their tool names,
// then the ids of a single source. If several skills have the same tool name, it is ambiguous.
func (c *Catalog) Resolve(ctx context.Context, name, principal string) (*Listed, *run.Failure) {
	if o, ok := c.operatorOf(name); ok {
		if o.id == "" {
			return o.listed, nil
		}
		return c.lookUpID(ctx, o.section, name, o.id)
	}
	s := c.namespaceOf(name)
	if s == nil {
		s = c.onlySource()
	}
	if s != nil {
		return c.lookUp(ctx, s, name, principal)
	}
	if l, failure := c.lookUpTool(ctx, name, principal); l != nil {
		return l, failure
	}
	return nil, c.unqualified(ctx, name, principal)
}

// lookUp finds a name in one source. With a failure, it also returns a [Listed] that has only
// the source and the name.
func (c *Catalog) lookUp(ctx context.Context, s *Section, name, principal string) (*Listed, *run.Failure) {
	t, err := c.load(ctx, s)
	if err != nil {
		return &Listed{Section: s, Name: name}, err
	}
	found := s.visible(t.find(name), principal, maxAmbiguous)
	if len(found) == 0 && isToolName(name) {
		found = s.visible(t.withTool(ctx, name), principal, maxAmbiguous)
	}
	switch len(found) {
	case 0:
		return &Listed{Section: s, Name: name}, notFound(name, near.Find(name, t.near), nil)
	case 1:
		return found[0].listed, nil
	}
	return &Listed{Section: s, Name: name}, ambiguous(name, names(found))
}

// lookUpTool finds a tool name in the sources that could have it. It returns nil if none has it, and with a
// failure like lookUp.
func (c *Catalog) lookUpTool(ctx context.Context, name, principal string) (*Listed, *run.Failure) {
	owners := c.toolOwners(name)
	if len(owners) == 0 {
		return nil, nil
	}
	var found []*entry
	var failed *loaded
	for _, r := range c.loadAll(ctx, func(s *Section) bool { return slices.Contains(owners, s) && s.Admits(principal) }) {
		switch {
		case r.err == nil:
			found = append(found, r.section.visible(r.table.withTool(ctx, name), principal, maxAmbiguous)...)
		case failed == nil:
			failed = &r
		}
	}
	switch {
	case len(found) == 1:
		return found[0].listed, nil
	case len(found) > 1:
		return &Listed{Section: found[0].listed.Section, Name: name}, ambiguous(name, names(found[:min(len(found), maxAmbiguous)]))
	case failed != nil:
		return &Listed{Section: failed.section, Name: name}, failed.err
	}
	return nil, nil
}

// lookUpID is like lookUp, but finds the skill by its exact id. The name is only for failures.
func (c *Catalog) lookUpID(ctx context.Context, s *Section, name, id string) (*Listed, *run.Failure) {
	t, err := c.load(ctx, s)
	if err != nil {
		return &Listed{Section: s, Name: name}, err
	}
	e := t.byID[id]
	if e == nil {
		return &Listed{Section: s, Name: name}, notFound(name, near.Find(name, t.near), nil)
	}
	return e.listed, nil
}

// unqualified returns the failure for a name without a namespace if there are several
// sources: the name is ambiguous, or no source has such a skill.
func (c *Catalog) unqualified(ctx context.Context, name, principal string) *run.Failure {
	var found, unread []string
	var known []*near.Index
	loaded := c.loadAll(ctx, func(s *Section) bool { return s.Kind != SkillSource && s.Admits(principal) })
	for _, r := range loaded {
		if r.err != nil {
			unread = append(unread, r.section.Namespace)
			continue
		}
		found = append(found, names(r.section.visible(r.table.find(name), principal, max(1, maxAmbiguous/len(loaded))))...)
		known = append(known, r.table.near)
	}
	if len(found) > 0 {
		slices.Sort(found)
		return ambiguous(name, found[:min(len(found), maxAmbiguous)])
	}
	for _, s := range c.sections {
		if s.Admits(principal) {
			known = append(known, s.near)
		}
	}
	return notFound(name, near.Find(name, known...), unread)
}

// maxAmbiguous bounds the candidates for an ambiguous name. A provider can list thousands of
// ids that differ only in their separators.
const maxAmbiguous = 20

// ByRef finds the skill of a run, by its exact id.
func (c *Catalog) ByRef(ctx context.Context, ref run.Ref) (*Listed, *run.Failure) {
	for _, s := range c.sections {
		switch {
		case s.Namespace != ref.Source:
		case s.Kind == SkillSource:
			l := directSkill(s)
			l.ID = ref.SkillID
			return l, nil
		default:
			return c.lookUpID(ctx, s, ref.SkillID, ref.SkillID)
		}
	}
	return nil, notFound(ref.SkillID, nil, nil)
}

// Namespaces returns the namespaces of the providers and registries and the names of the
// directly configured skills, sorted.
func (c *Catalog) Namespaces() []string {
	list := slices.Collect(maps.Keys(c.sources))
	for _, s := range c.sections {
		if s.Kind == SkillSource {
			list = append(list, s.Namespace)
		}
	}
	slices.Sort(list)
	return list
}

// Purge removes the documents of a source from the cache: its indexes and descriptors or, if
// skillID is not empty, only the descriptor of the skill with this id or name. It reports
// whether the source and the skill exist.
func (c *Catalog) Purge(ctx context.Context, namespace, skillID string) bool {
	for _, s := range c.sections {
		switch {
		case s.Namespace != namespace:
		case skillID != "":
			return c.purgeSkill(ctx, s, skillID)
		default:
			c.purge(ctx, s)
			return true
		}
	}
	return false
}
