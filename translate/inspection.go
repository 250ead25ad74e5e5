package translate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// SourceInspection is what [Inspect] has found out about a source.
type SourceInspection struct {
	Namespace string
	Kind      catalog.SourceKind
	URL       string // without userinfo, query and fragment
	// Failure says why the source can't be read; nil: it was read.
	Failure *run.Failure
	// Skills are all that the source lists, in the order of their names.
	Skills []SkillInspection
	// LeftOut are entries that are not listed, and aliases for none.
	LeftOut catalog.LeftOut
	// Credentials says that there are credentials for invocations.
	Credentials bool
	// Unused says that no skill that could be read needs them. Then they got a token if they can without a descriptor (TokenTried), and TokenFailure
	// says why they got none.
	Unused, TokenTried bool
	TokenFailure       *run.Failure
}

// SkillInspection is what [Inspect] has found out about a skill.
type SkillInspection struct {
	Name string
	Tool string // empty: it has none, since several skills would have the same
	// Failure says why the skill can't be called; nil: no reason is known without a call.
	Failure *run.Failure
	// Notice names the setting that lets a host receive the credential, if the Failure is that it may not; else nil.
	Notice *exchange.Notice
	// CredentialsOf is the namespace of the source whose credentials a call of the skill sends; empty: it sends none.
	CredentialsOf string
	// Changed are the parts that the provider has changed since its earlier descriptor, which is used until the change is approved.
	Changed []string
}

// inspectedAtOnce is how many skills of a source are inspected at a time.
const inspectedAtOnce = 8

// Inspect finds out whether each source of a catalog can be read and each skill can be called, as far as that is possible without a call. It reads
// all documents, and applies the credentials to requests that it does not send; to do so, they may get tokens. It neither counts as
// a call nor has limits: it is for an operator who checks a configuration.
func Inspect(ctx context.Context, c *catalog.Catalog) []SourceInspection {
	sections := c.Sections()
	list := make([]SourceInspection, len(sections))
	var wg sync.WaitGroup
	for i, s := range sections {
		wg.Go(func() { list[i] = inspectSource(ctx, c, s) })
	}
	wg.Wait()
	used := map[string]bool{}
	for i := range list {
		for j := range list[i].Skills {
			used[list[i].Skills[j].CredentialsOf] = true
		}
	}
	for i, s := range sections {
		if list[i].Unused = list[i].Credentials && !used[s.Namespace]; list[i].Unused {
			wg.Go(func() {
				reading, cancel := context.WithTimeout(ctx, discoveryTimeout)
				defer cancel()
				list[i].TokenTried, list[i].TokenFailure = s.Client.RehearseToken(reading)
			})
		}
	}
	wg.Wait()
	for _, l := range c.LeftOut(ctx) {
		for i := range list {
			if list[i].Namespace == l.Namespace {
				list[i].LeftOut = l
			}
		}
	}
	return list
}

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
// requests can have. If these are not known (nil), it returns the principals that are similar to the name of a group. It says nothing of names of
// sources that can't be read.
func UnknownNames(ctx context.Context, b *Bridge, principals func() []string) []UnknownName {
	rules := cmp.Or(b.config.Access, new(access.Rules))
	quotas := b.config.Quotas.Rules()
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
	reading, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	var names []string
	for _, s := range b.catalog.Sections() {
		listed, failure := s.All(reading)
		if failure != nil {
			x.unread = append(x.unread, s.Namespace+".", s.Namespace+"/")
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
		if isName(name) && !slices.ContainsFunc(x.skills, func(l *catalog.Listed) bool { return l.Named(name) }) &&
			!slices.ContainsFunc(x.unread, func(beginning string) bool { return strings.HasPrefix(name, beginning) }) {
			x.found = append(x.found, UnknownName{Kind: kind, Rule: rule, Pattern: i, Name: name, Similar: near.Find(name, x.names)})
		}
	}
}

func inspectSource(ctx context.Context, c *catalog.Catalog, s *catalog.Section) SourceInspection {
	source := SourceInspection{Namespace: s.Namespace, Kind: s.Kind, URL: exchange.BareURL(s.URL), Credentials: s.Credentials != nil}
	reading, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	var listed []*catalog.Listed
	if listed, source.Failure = s.All(reading); source.Failure != nil {
		return source
	}
	source.Skills = make([]SkillInspection, len(listed))
	var g errgroup.Group
	g.SetLimit(inspectedAtOnce)
	for i, l := range listed {
		g.Go(func() error {
			source.Skills[i] = inspectSkill(ctx, c, l)
			return nil
		})
	}
	_ = g.Wait() // there are no errors
	return source
}

func inspectSkill(ctx context.Context, c *catalog.Catalog, l *catalog.Listed) SkillInspection {
	skill := SkillInspection{Name: l.Name, Tool: l.Tool(ctx, "")}
	reading, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	found, failure := c.Read(reading, l, "")
	if failure != nil {
		skill.Failure = failure
		return skill
	}
	if found.Skill.Held != nil {
		skill.Changed = found.Skill.Held.Parts
	}
	if skill.Failure, skill.Notice = found.Withhold(); skill.Failure != nil {
		return skill
	}
	if found.Skill.NeedsCredential() {
		skill.CredentialsOf = found.Invoker.Namespace
	}
	skill.Failure, skill.Notice = found.Invoker.Client.Rehearse(ctx, found.Skill)
	return skill
}
