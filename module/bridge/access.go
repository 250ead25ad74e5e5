package bridge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
)

// Access says which callers may use which skills. The first rule that applies to the caller and to the skill decides; if none applies, the
// skill is denied. To a caller, a denied skill does not exist: no list, search, suggestion, card or page has it, and a call of it, or of its
// earlier runs, has the answer for a name that means no skill. A source whose skills are all denied does not exist, either.
type Access struct {
	// Groups of principals, by name. A group has no other groups. Default: none.
	// Example: `{"staff": ["alice", "bob"]}`.
	Groups map[string][]string `json:"groups,omitempty"`

	// The rules, in their order. At least one is needed.
	// Example: `[{"effect": "allow", "principal": "staff", "skills": ["acme.*"]}]`.
	Rules []AccessRule `json:"rules,omitempty"`
}

// AccessRule allows or denies skills to callers.
type AccessRule struct {
	// `allow` or `deny`. Required.
	Effect string `json:"effect"`

	// Whom the rule is for: the name of a group; or else a principal; or `*`, all callers,
	// anonymous ones included. A principal that has the name of a group is not a member of it
	// by that. Required. Example: `alice`.
	Principal string `json:"principal"`

	// Patterns of skills, at least one: the name of a skill, as lists show it, or the name that
	// it would have without an alias; a namespace with `.*`, for all skills of a provider, registry or
	// site, those with aliases included; or `*`, all skills. Example: `acme.*`.
	Skills []string `json:"skills"`
}

// The effects of a rule.
const (
	effectAllow = "allow"
	effectDeny  = "deny"
)

// Targets returns the options of the block access.
func (a *Access) Targets(p *options.Reader) options.Targets {
	rule := func() error {
		path := options.Element("access.rules", len(a.Rules))
		p.Mark(path)
		name, args := p.Val(), p.RemainingArgs()
		if len(args) < 2 {
			return p.Errf("%s takes a principal, a group or *, and at least one pattern of skills (arguments given: %d)", name, len(args))
		}
		a.Rules = append(a.Rules, AccessRule{Effect: name, Principal: args[0], Skills: args[1:]})
		return nil
	}
	return options.Targets{
		effectAllow: options.Repeatable(rule),
		effectDeny:  options.Repeatable(rule),
		"group": options.Repeatable(func() error {
			args := p.RemainingArgs()
			if len(args) < 2 {
				return p.Errf("group takes a name and at least one principal (arguments given: %d)", len(args))
			}
			if _, taken := a.Groups[args[0]]; taken {
				return p.Errf("group %q is given twice for access", args[0])
			}
			p.Mark(groupPath(args[0]))
			if a.Groups == nil {
				a.Groups = map[string][]string{}
			}
			a.Groups[args[0]] = args[1:]
			return nil
		}),
	}
}

func groupPath(name string) string { return "access.groups." + name }

// rules returns the rules for the core; nil: there are none.
func (a *Access) rules() *access.Rules {
	if a == nil {
		return nil
	}
	rules := &access.Rules{Groups: a.Groups}
	for _, r := range a.Rules {
		rules.List = append(rules.List, access.Rule{Allow: r.Effect == effectAllow, Principal: r.Principal, Skills: r.Skills})
	}
	return rules
}

// check checks the rules by the names in the configuration.
func (a *Access) check(c *options.Checker, names *sources.Names, quotas []Quota) {
	if a == nil {
		return
	}
	if len(a.Rules) == 0 {
		c.Check("access", errors.New("access has no rule, so that all skills would be denied to all callers: add allow or deny lines, or remove it"))
	}
	groups := slices.Sorted(maps.Keys(a.Groups))
	for _, name := range groups {
		c.Check(groupPath(name), a.checkGroup(name))
	}
	groupsOf := map[string][]string{} // by principal
	for _, name := range groups {
		for _, member := range a.Groups[name] {
			groupsOf[member] = append(groupsOf[member], name)
		}
	}
	covered := map[[2]string]string{} // by principal and pattern: the rules
	for i := range a.Rules {
		r, path := &a.Rules[i], options.Element("access.rules", i)
		if r.Effect != effectAllow && r.Effect != effectDeny {
			c.Check(path+".effect", fmt.Errorf("effect %q is neither allow nor deny", r.Effect))
		}
		if r.Principal != access.Everyone && a.Groups[r.Principal] == nil {
			c.Check(path+".principal", checkPrincipalName("principal", r.Principal))
		}
		if len(r.Skills) == 0 {
			c.Check(path+".skills", errors.New("the rule has no pattern of skills"))
		}
		for j, pattern := range r.Skills {
			at := options.Element(path+".skills", j)
			c.Check(at, checkPattern(pattern, names))
			if c.Fault == nil {
				c.Check(at, checkReached(covered, append([]string{r.Principal, access.Everyone}, groupsOf[r.Principal]...), pattern, names))
			}
			covered[[2]string{r.Principal, pattern}] = fmt.Sprintf("%s %s %s", r.Effect, r.Principal, pattern)
		}
	}
	for _, name := range groups {
		if !slices.ContainsFunc(a.Rules, func(r AccessRule) bool { return r.Principal == name }) && !slices.ContainsFunc(quotas, func(q Quota) bool { return q.Principal == name }) {
			c.Check(groupPath(name), fmt.Errorf("no rule or quota is for the group %q", name))
		}
	}
}

func (a *Access) checkGroup(name string) error {
	members := a.Groups[name]
	if err := checkPrincipalName("group", name); err != nil || name == access.Everyone {
		return fmt.Errorf("group name %q is not possible: it is not empty, not *, and has no braces, control characters or outer spaces", name)
	}
	if len(members) == 0 {
		return fmt.Errorf("group %q has no principals", name)
	}
	seen := map[string]bool{}
	for _, member := range members {
		_, isGroup := a.Groups[member]
		switch {
		case isGroup:
			return fmt.Errorf("group %q has the member %q, which is the name of a group: write its principals, since groups have no groups", name, member)
		case member == access.Everyone:
			return fmt.Errorf("group %q has the member *: write * in the rule instead", name)
		case seen[member]:
			return fmt.Errorf("group %q has the principal %q twice", name, member)
		}
		if err := checkPrincipalName("principal", member); err != nil {
			return err
		}
		seen[member] = true
	}
	return nil
}

// checkPrincipalName checks a name that a rule compares with principals.
func checkPrincipalName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s is empty; * includes anonymous callers", what)
	case !callers.CanBePrincipal(name):
		return fmt.Errorf("%s %q can't be one: it begins or ends with a space or an invisible character, has control characters, or is not valid UTF-8", what, name)
	}
	return options.CheckLiteral(what, name)
}

// checkPattern checks a pattern by the names in the configuration.
func checkPattern(pattern string, names *sources.Names) error {
	if pattern == access.Everyone {
		return nil
	}
	if namespace, ok := access.Source(pattern); ok {
		if owner, ok := names.Owner(namespace); ok && strings.HasPrefix(namespace, owner+".") && !names.HasNamespace(namespace) {
			return fmt.Errorf("pattern %q: only a whole namespace can have .*, as in %s.*; write the names of skills one by one", pattern, owner)
		}
		if !names.HasNamespace(namespace) {
			return fmt.Errorf("pattern %q: no provider, registry or site has the namespace %q%s", pattern, namespace, names.Similar(namespace))
		}
		return nil
	}
	if pattern == "" || strings.Contains(pattern, "*") {
		return fmt.Errorf("pattern %q is neither the name of a skill, nor a namespace with .*, nor *", pattern)
	}
	if _, ok := names.Owner(pattern); !ok {
		return fmt.Errorf("pattern %q can't be the name of a skill: these are the names of skill and alias lines, and begin otherwise with a namespace and a dot", pattern)
	}
	return nil
}

// checkReached checks that no earlier rule decides wherever a rule applies. The principals are those of rules that apply to all for whom the
// rule is.
func checkReached(covered map[[2]string]string, principals []string, pattern string, names *sources.Names) error {
	patterns := []string{pattern, access.Everyone}
	if _, of := access.Source(pattern); !of && pattern != access.Everyone {
		if namespace, _ := names.Owner(pattern); namespace != "" {
			patterns = append(patterns, namespace+".*")
		}
	}
	for _, principal := range principals {
		for _, p := range patterns {
			if rule := covered[[2]string{principal, p}]; rule != "" {
				return fmt.Errorf("the pattern %q has no effect here, since the earlier rule %q decides: put the more specific rule first", pattern, rule)
			}
		}
	}
	return nil
}
