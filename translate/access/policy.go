// Package access decides which callers may use which skills, by rules of the operator.
//
// A [Policy] is made of [Rules]. [Policy.Role] returns what a principal may use. Of the rules that apply to the principal and to a
// skill, the first decides; if none applies, the skill is denied. A rule applies to a principal by name, by a group that has the
// principal, or because it is for [Everyone], which includes anonymous callers.
package access

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// Everyone stands for all callers in the place of a principal, and for all skills as a pattern.
const Everyone = "*"

// ofSource is the end of the patterns for all skills of a source.
const ofSource = ".*"

// Rules are the rules of an operator.
type Rules struct {
	// Groups are principals by the name of their group. Groups do not nest.
	Groups map[string][]string
	// List has the rules in their order.
	List []Rule
}

// Rule allows or denies skills to callers.
type Rule struct {
	Allow bool
	// Principal is the name of a group, or else a principal, or [Everyone].
	Principal string
	// Skills are patterns: names, namespaces followed by ".*", or [Everyone].
	Skills []string
}

// Source returns the namespace of a pattern for all skills of a source.
func Source(pattern string) (namespace string, ok bool) {
	namespace, ok = strings.CutSuffix(pattern, ofSource)
	return namespace, ok && namespace != ""
}

// IsName reports whether a pattern is the name of one skill.
func IsName(pattern string) bool {
	_, of := Source(pattern)
	return !of && pattern != Everyone
}

// Policy says which skills each principal may use. Nil permits all. It is immutable.
type Policy struct {
	roles  map[string]*Role // by principal
	others *Role            // of principals that are in no rule and no group, and of anonymous callers
	names  map[string][]string
	count  int // of the roles
}

// New makes a policy. Owner returns the namespace of the source that a name belongs to.
func New(rules *Rules, owner func(name string) string) *Policy {
	p := &Policy{roles: map[string]*Role{}, names: map[string][]string{}}
	for i := range rules.List {
		for _, pattern := range rules.List[i].Skills {
			if !IsName(pattern) {
				continue
			}
			namespace := owner(pattern)
			p.names[namespace] = append(p.names[namespace], pattern)
		}
	}
	for namespace, names := range p.names {
		slices.Sort(names)
		p.names[namespace] = slices.Compact(names)
	}
	principals := make([]string, len(rules.List))
	for i := range rules.List {
		principals[i] = rules.List[i].Principal
	}
	byRules := map[string]*Role{} // by the rules that apply
	roleOf := func(indexes []int) *Role {
		var key []byte
		for _, i := range indexes {
			key = binary.AppendUvarint(key, uint64(i)) //nolint:gosec // an index
		}
		if byRules[string(key)] == nil {
			byRules[string(key)] = newRole(len(byRules), rules.List, indexes, owner)
		}
		return byRules[string(key)]
	}
	byPrincipal, others := Applying(rules.Groups, principals)
	delete(byPrincipal, "") // of anonymous callers
	for principal, indexes := range byPrincipal {
		p.roles[principal] = roleOf(indexes)
	}
	p.others = roleOf(others)
	p.count = len(byRules)
	return p
}

// Applying returns the indexes of the rules that apply to each principal that a rule or a group names, and to all others. Of each rule it gets
// whom it is for, as in [Rule].
func Applying(groups map[string][]string, rules []string) (byPrincipal map[string][]int, others []int) {
	byPrincipal = map[string][]int{}
	for _, name := range rules {
		if _, isGroup := groups[name]; !isGroup && name != Everyone {
			byPrincipal[name] = nil
		}
	}
	for _, members := range groups {
		for _, name := range members {
			byPrincipal[name] = nil
		}
	}
	for i, name := range rules {
		members, isGroup := groups[name]
		switch {
		case name == Everyone:
			members = slices.Collect(maps.Keys(byPrincipal))
			others = append(others, i)
		case !isGroup:
			members = []string{name}
		}
		for _, member := range members {
			byPrincipal[member] = append(byPrincipal[member], i)
		}
	}
	return byPrincipal, others
}

// Role returns what a principal may use; an empty one is anonymous. Principals with the same role may use the same skills.
func (p *Policy) Role(principal string) *Role {
	if p == nil {
		return nil
	}
	if r := p.roles[principal]; r != nil {
		return r
	}
	return p.others
}

// Distinguishes reports whether some callers may use skills that others may not.
func (p *Policy) Distinguishes() bool { return p != nil && p.count > 1 }

// Names returns the names in patterns that belong to the source with a namespace.
func (p *Policy) Names(namespace string) []string {
	if p == nil {
		return nil
	}
	return p.names[namespace]
}

// Role says which skills its principals may use. Nil is the role of callers to whom no policy applies: they may use all.
type Role struct {
	// ID is different for each role of a policy, and at least 1.
	ID      int
	all     verdict
	sources map[string]verdict // by namespace
	skills  map[string]verdict // by name
	reached map[string]bool    // sources of skills that are allowed by name
}

// verdict is what the first rule with a pattern says; the zero value: there is none.
type verdict struct {
	order int // of the pattern among those of the role, from 1
	allow bool
}

// before returns the verdict that comes first.
func (v verdict) before(other verdict) verdict {
	if v.order == 0 || other.order != 0 && other.order < v.order {
		return other
	}
	return v
}

// newRole makes the role of principals to whom some rules apply, in their order.
func newRole(index int, rules []Rule, applying []int, owner func(string) string) *Role {
	role := &Role{ID: index + 1, sources: map[string]verdict{}, skills: map[string]verdict{}, reached: map[string]bool{}}
	order := 0
	for _, i := range applying {
		for _, pattern := range rules[i].Skills {
			order++
			v := verdict{order, rules[i].Allow}
			if pattern == Everyone {
				role.all = role.all.before(v)
			} else if namespace, ok := Source(pattern); ok {
				role.sources[namespace] = role.sources[namespace].before(v)
			} else {
				role.skills[pattern] = role.skills[pattern].before(v)
			}
		}
	}
	for name := range role.skills {
		if namespace := owner(name); role.Allows(namespace, name) {
			role.reached[namespace] = true
		}
	}
	return role
}

// Allows reports whether a skill may be used. Namespace is that of its source; empty: it has none. Names are those of its names
// that patterns may have.
func (r *Role) Allows(namespace string, names ...string) bool {
	return r.AllowsSkill(namespace, Names{Own: names})
}

// Names are the names by which rules mean a skill.
type Names struct {
	// Own are those that mean no other skill.
	Own []string
	// Claimed are those that it could have, or that it shares with others. Rules that allow them do not apply to it; rules that deny them do, so that a
	// source that lists another skill with such a name does not end what the operator denied.
	Claimed []string
}

// AllowsSkill reports whether a skill of a source may be used.
func (r *Role) AllowsSkill(namespace string, names Names) bool {
	if r == nil {
		return true
	}
	first := r.all.before(r.sources[namespace])
	for _, name := range names.Own {
		first = first.before(r.skills[name])
	}
	for _, name := range names.Claimed {
		if v := r.skills[name]; !v.allow {
			first = first.before(v)
		}
	}
	return first.allow
}

// Reaches reports whether some skill of a source may be used, if the source has it.
func (r *Role) Reaches(namespace string) bool {
	return r == nil || r.Allows(namespace) || r.reached[namespace]
}
