package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Catalog finds skills by their names. It is safe for concurrent use.
type Catalog struct {
	namespaces
	sections []*Section
	listeners
	// Personal says that a source has credentials of which each principal has one of its own.
	Personal bool
	observer exchange.Observer
	policy   *access.Policy                        // nil: all callers may use all skills
	quotas   map[*Section][]string                 // names in quotas
	counted  func(ctx context.Context, skills int) // nil: skills are not counted
}

// Sections returns the sources, in the order in which they were configured.
func (c *Catalog) Sections() []*Section { return c.sections }

// New returns a catalog of sources, in the order of the configuration. Each needs Source, Client
// and Faults. Rules say which skills callers may use; nil: all. Quotas are the names of skills in quotas. New fails if two skills or two sources have the same name.
func New(sections []*Section, observer exchange.Observer, rules *access.Rules, quotas ...string) (*Catalog, error) {
	c := &Catalog{
		sections: sections, observer: observer, quotas: map[*Section][]string{},
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
			s.direct = &Listed{Section: s, Name: s.Namespace, descriptor: discovery.NewLocation(s.URL.String())}
			if err := add(s.Namespace, operatorName{section: s}); err != nil {
				return nil, err
			}
			continue
		}
		if c.sources[s.Namespace] != nil {
			return nil, fmt.Errorf("the namespace %q is given to two sources", s.Namespace)
		}
		c.sources[s.Namespace] = s
		c.longest = max(c.longest, len(s.Namespace))
		c.lookAlikes.Add(s.Namespace)
		for _, a := range s.Aliases {
			if err := add(a.Name, operatorName{section: s, id: a.SkillID}); err != nil {
				return nil, err
			}
		}
	}
	c.toolRules = newToolRules(c.sources, c.operators)
	if rules != nil {
		c.policy = access.New(rules, c.ownerOf)
	}
	for _, name := range quotas {
		s := cmp.Or(c.operators[name].section, c.namespaceOf(name))
		c.quotas[s] = append(c.quotas[s], name)
	}
	for _, s := range sections {
		c.Personal = c.Personal || s.isPersonal()
		s.catalog = c
		s.near = near.NewIndex(slices.Sorted(slices.Values(given[s])))
	}
	return c, nil
}

// Resolve finds the skill of a name: by the names that the operator configured, else in the source whose namespace the name starts with. It fails if
// that source can't be read. A name without a namespace is found only if there is a single source. With several, its meaning could change when a
// source is added.
//
// A name may also be a tool name (see [Entry]). Names of the operator come first, then their tool names,
// then the ids of a single source. If several skills have the same tool name, it is ambiguous.
//
// A skill that the access rules deny to the principal is not found, as if its source did not list it, and a source whose skills they all
// deny is not found, as if it were not configured.
func (c *Catalog) Resolve(ctx context.Context, name, principal string) (*Listed, *run.Failure) {
	v := c.viewer(principal)
	if o, ok := c.operatorOf(name); ok {
		if l, failure := v.named(ctx, &o, name); l != nil {
			return l, failure
		}
	}
	s := c.namespaceOf(name)
	if s == nil {
		s = c.onlySource()
	}
	if s != nil && s.Knows(v.role) {
		return v.lookUp(ctx, s, name)
	}
	if l, failure := v.lookUpTool(ctx, name); l != nil {
		return l, failure
	}
	return nil, v.unqualified(ctx, name)
}

// ByRef finds the skill of a run of a principal, by its exact id.
func (c *Catalog) ByRef(ctx context.Context, ref run.Ref, principal string) (*Listed, *run.Failure) {
	v := c.viewer(principal)
	for _, s := range c.sections {
		switch {
		case s.Namespace != ref.Source || !s.Knows(v.role):
		case s.Kind == SkillSource:
			l := *s.direct
			l.ID = ref.SkillID
			return &l, nil
		default:
			if l, failure := v.named(ctx, &operatorName{section: s, id: ref.SkillID}, ref.SkillID); l != nil {
				return l, failure
			}
		}
	}
	return nil, faults.NotFound(ref.SkillID, nil, nil)
}

// Namespaces returns the namespaces of the providers and registries and the names of the
// directly configured skills that a principal may know, sorted.
func (c *Catalog) Namespaces(principal string) []string {
	v := c.viewer(principal)
	list := make([]string, 0, len(c.sections))
	for _, s := range c.sections {
		if s.Knows(v.role) {
			list = append(list, s.Namespace)
		}
	}
	slices.Sort(list)
	return list
}

// Purge removes the documents of a source from the cache: its indexes and descriptors or, if skillID is not empty, only the descriptor of the skill
// with this id or name. It reports whether the source and the skill exist.
func (c *Catalog) Purge(ctx context.Context, namespace, skillID string) bool {
	for _, s := range c.sections {
		switch {
		case s.Namespace != namespace:
		case skillID != "":
			return c.purgeSkill(ctx, s, skillID)
		default:
			s.purge(ctx)
			return true
		}
	}
	return false
}
