package catalog

import (
	"context"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// viewer is a caller for whom skills are found or listed.
type viewer struct {
	catalog   *Catalog
	principal string
	role      *access.Role // nil: there are no access rules
}

// viewer returns the viewer for a principal.
func (c *Catalog) viewer(principal string) viewer {
	return viewer{c, principal, c.policy.Role(principal)}
}

// lists reports whether lists for the viewer have a skill.
func (v viewer) lists(t *nameTable, e *Listed) bool {
	return (v.principal != "" || !e.Hidden) && t.permits(v.role, e)
}

// Policy returns the access rules; nil: there are none.
func (c *Catalog) Policy() *access.Policy { return c.policy }

// ownerOf returns the namespace of the source that an access rule means by a name; empty: a directly configured skill, or no source.
func (n *namespaces) ownerOf(name string) string {
	s := n.operators[name].section
	if s == nil {
		s = n.namespaceOf(name)
	}
	if s == nil || s.Kind == SkillSource {
		return ""
	}
	return s.Namespace
}

// Knows reports whether the principal of a role may use skills of the source, if the source has them. To others, the source does not exist.
func (s *Section) Knows(role *access.Role) bool {
	if role != nil && s.Kind == SkillSource {
		return role.Allows("", s.Namespace)
	}
	return role.Reaches(s.Namespace)
}

// permits reports whether the access rules let the principal of a role use a skill of the table.
func (t *nameTable) permits(role *access.Role, e *Listed) bool {
	switch {
	case role == nil:
		return true
	case t.section.Kind == SkillSource:
		return t.section.Knows(role)
	}
	return role.AllowsSkill(t.section.Namespace, t.ruled[e.ID])
}

// Permits reports whether the access rules let a principal use the skill of a run. To a principal to whom rules apply, a skill that its source
// no longer lists does not exist, as a denied one. It reads nothing: while a list is not known, the configuration says it.
func (c *Catalog) Permits(ref *run.Ref, principal string) bool {
	role := c.policy.Role(principal)
	if role == nil {
		return true
	}
	for _, s := range c.sections {
		if s.Namespace != ref.Source {
			continue
		}
		if s.Kind == SkillSource || !s.Knows(role) {
			return s.Knows(role)
		}
		if t := s.table.Load(); t != nil {
			e := t.byID[ref.SkillID]
			return e != nil && t.permits(role, e)
		}
		return (&operatorName{section: s, id: ref.SkillID}).permits(role)
	}
	return false
}

// findRuled notes which skills of the table access rules name.
func (t *nameTable) findRuled(policy *access.Policy) {
	ruled := policy.Names(t.section.Namespace)
	if len(ruled) == 0 {
		return
	}
	t.ruled = map[string]access.Names{}
	for _, e := range t.entries {
		var names access.Names
		for _, name := range t.section.namesOf(e.ID) {
			if _, found := slices.BinarySearch(ruled, name); found && t.byName[name] != e {
				names.Claimed = append(names.Claimed, name)
			}
		}
		if len(names.Claimed) > 0 {
			t.ruled[e.ID] = names
		}
	}
	for _, name := range ruled {
		if e := t.byName[name]; e != nil {
			names := t.ruled[e.ID]
			names.Own = append(names.Own, name)
			t.ruled[e.ID] = names
		}
	}
}

// permits reports whether the access rules let the principal of a role use the skill of an operator's name, as far as the configuration says.
func (o *operatorName) permits(role *access.Role) bool {
	switch {
	case role == nil:
		return true
	case o.id == "":
		return o.section.Knows(role)
	}
	s := o.section
	names := s.namesOf(o.id)
	for _, a := range s.Aliases {
		if a.SkillID == o.id {
			names = append(names, a.Name)
		}
	}
	return role.Allows(s.Namespace, names...)
}

// named finds the skill of a name that the operator configured. It returns nothing if the viewer may not use the skill.
func (v viewer) named(ctx context.Context, o *operatorName, name string) (*Listed, *run.Failure) {
	if !o.section.Knows(v.role) {
		return nil, nil
	}
	if o.id == "" {
		return o.section.direct, nil
	}
	t, err := v.catalog.load(ctx, o.section)
	switch e := t.withID(o.id); {
	case e != nil && t.permits(v.role, e):
		return e, nil
	case e != nil || !o.permits(v.role):
		return nil, nil
	case err != nil:
		return &Listed{Section: o.section, Name: name}, err
	}
	return &Listed{Section: o.section, Name: name}, faults.NotFound(name, v.similar(name, t.near), nil)
}

// withID returns the entry with an id; nil: the table has none, or there is no table.
func (t *nameTable) withID(id string) *Listed {
	if t == nil {
		return nil
	}
	return t.byID[id]
}

// similar returns the names of indexes that are similar to a name and that the viewer may know.
func (v viewer) similar(name string, indexes ...*near.Index) []string {
	if v.role == nil {
		return near.FindSkill(nil, name, indexes...)
	}
	return near.FindSkill(v.mayKnow, name, indexes...)
}

// mayKnow reports whether the access rules let the viewer use the skill of a listed name.
func (v viewer) mayKnow(name string) bool {
	c := v.catalog
	s := c.namespaceOf(name)
	o, configured := c.operators[name]
	if configured {
		s = o.section
	}
	if s == nil {
		return false
	}
	if t := s.table.Load(); t != nil && t.byName[name] != nil {
		return t.permits(v.role, t.byName[name])
	}
	return configured && o.permits(v.role)
}
