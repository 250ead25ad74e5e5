package inspection

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/quota"
)

// RuleKind says where an operator has written a rule.
type RuleKind string

// The kinds of rules.
const (
	AccessRule RuleKind = "access"
	GroupRule  RuleKind = "group"
	QuotaRule  RuleKind = "quota"
)

// UnknownName is a name in a rule that means nothing, as far as that is known.
type UnknownName struct {
	Kind RuleKind
	// Rule is the index of the rule.
	Rule int
	// Group is the name of the group, for [GroupRule].
	Group string
	// Pattern is the index of the name among the skills of the rule; negative: it is the principal of the rule, or one of the group.
	Pattern int
	Name    string
	// Similar are the names of skills, or of groups and principals, that are similar.
	Similar []string
	// Callers says that all principals that requests can have are known.
	Callers bool
}

// UnknownNames returns the names in access rules and quotas that no skill has, and the principals that are neither a group nor one of those that
// requests can have. The rules may be nil. If the principals are not known (nil), it returns the principals that are similar to the name of a group. It says nothing of names of
// sources that can't be read.
func UnknownNames(ctx context.Context, c *catalog.Catalog, rules *access.Rules, quotas []quota.Rule, principals func() []string) []UnknownName {
	rules = cmp.Or(rules, new(access.Rules))
	if len(rules.List)+len(quotas) == 0 {
		return nil
	}
	x := unknownNames{rules: rules, complete: principals != nil}
	callers := slices.Collect(maps.Keys(rules.Groups))
	if x.complete {
		x.principals = principals()
		callers = append(callers, x.principals...)
	}
	slices.Sort(callers)
	x.callers = near.NewIndex(slices.Compact(callers))
	reading, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var names []string
	for _, s := range c.Sections() {
		listed, failure := s.All(reading)
		if failure != nil {
			x.unread = append(x.unread, s.Namespace+".", s.Namespace+"/")
			for _, a := range s.Aliases {
				x.aliases = append(x.aliases, a.Name)
			}
		}
		for _, l := range listed {
			names = append(names, l.Name)
		}
		x.skills = append(x.skills, listed...)
	}
	slices.Sort(names)
	x.names = near.NewIndex(names)
	for i, r := range rules.List {
		x.look(AccessRule, i, r.Principal, r.Skills...)
	}
	for i, r := range quotas {
		x.look(QuotaRule, i, r.Principal, r.Skills)
	}
	if x.complete {
		for _, group := range slices.Sorted(maps.Keys(rules.Groups)) {
			for _, member := range rules.Groups[group] {
				if !slices.Contains(x.principals, member) {
					x.found = append(x.found, UnknownName{Kind: GroupRule, Group: group, Pattern: -1, Name: member, Similar: near.Find(member, x.callers), Callers: true})
				}
			}
		}
	}
	return x.found
}

// unknownNames collects the names of [UnknownNames].
type unknownNames struct {
	skills     []*catalog.Listed
	names      *near.Index
	rules      *access.Rules
	principals []string    // that requests can have
	complete   bool        // there are no others
	callers    *near.Index // the groups, and these principals
	unread     []string    // beginnings of the names of skills of sources that can't be read
	aliases    []string    // of these sources
	found      []UnknownName
}

func (x *unknownNames) look(kind RuleKind, rule int, principal string, skills ...string) {
	_, known := x.rules.Groups[principal]
	known = known || slices.Contains(x.principals, principal)
	for _, members := range x.rules.Groups {
		known = known || !x.complete && slices.Contains(members, principal)
	}
	if !known && principal != access.Everyone {
		if similar := near.Find(principal, x.callers); x.complete || len(similar) > 0 {
			x.found = append(x.found, UnknownName{Kind: kind, Rule: rule, Pattern: -1, Name: principal, Similar: similar, Callers: x.complete})
		}
	}
	for i, name := range skills {
		if access.IsName(name) && !slices.Contains(x.aliases, name) && !slices.ContainsFunc(x.skills, func(l *catalog.Listed) bool { return l.Named(name) }) &&
			!slices.ContainsFunc(x.unread, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			x.found = append(x.found, UnknownName{Kind: kind, Rule: rule, Pattern: i, Name: name, Similar: near.Find(name, x.names)})
		}
	}
}
