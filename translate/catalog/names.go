package catalog

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/near"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/search"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// nameTable holds the names of the skills that a source lists. It is immutable: if an index
// changes, a new one replaces it. It does not depend on the indexes of other sources.
//
// Names are compared byte by byte. Spellings that differ in case or in Unicode normalization
// are different names.
type nameTable struct {
	section      *Section
	indexes      []*document.Index
	entries      []*Listed // by name
	byName       map[string]*Listed
	byID         map[string]*Listed
	byDotted     map[string][]*Listed // by the id with dots for slashes, with and without the namespace; without keys of byName
	near         *near.Index          // names of public skills, which may be suggested to any caller
	omitted      []document.LeftOut   // the first skills of the indexes that are not listed
	omittedCount int                  // how many skills are not listed
	missing      []MissingAlias
	tools        toolTable
	words        search.Renewed
	edition      atomic.Uint64           // of the words of the guard that words has
	direct       *discovery.Skill        // of a SkillSource
	ruled        map[string]access.Names // the names in access rules of skills, by their ids
	hides        bool                    // lists for anonymous callers do not have all entries
	learned      atomic.Bool             // the guard of the source knows the words for lists
}

// omit adds skills that are not listed to t.omitted, up to maxOmitted.
func (t *nameTable) omit(left ...document.LeftOut) {
	t.omitted = append(t.omitted, left[:min(len(left), max(maxOmitted-len(t.omitted), 0))]...)
}

// maxOmitted bounds nameTable.omitted.
const maxOmitted = 100

// nameTable builds the name table of a source from its indexes.
func (c *Catalog) nameTable(ctx context.Context, s *Section, indexes []*document.Index) *nameTable {
	t := &nameTable{section: s, indexes: indexes, byName: map[string]*Listed{}, byID: map[string]*Listed{}, byDotted: map[string][]*Listed{}}
	omitted := map[string]int{} // by reason
	for _, index := range indexes {
		if index.LeftOutCount > 0 {
			s.warnOfOmitted(ctx, index)
			t.omittedCount += index.LeftOutCount
			t.omit(index.LeftOut...)
		}
		for i := range index.Skills {
			e := &Listed{IndexEntry: &index.Skills[i], Section: s, ID: index.Skills[i].ID, descriptor: discovery.NewLocation(index.Skills[i].DescriptorURL)}
			if t.byID[e.ID] != nil || !s.accepts(e.CapabilityType) {
				continue
			}
			if why, owner := c.unusable(s, e.ID); why != "" {
				omitted[why]++
				t.omitSkill(ctx, why, e.ID, owner, omitted[why] <= maxLogged)
				continue
			}
			t.byID[e.ID] = e
			t.entries = append(t.entries, e)
		}
	}
	for _, why := range []string{document.SpacedID, document.InvisibleID, claims, imitates} {
		if more := omitted[why] - maxLogged; more > 0 {
			s.warn(ctx, "further skills are not listed for a reason that others of the source have been logged for: "+why, slog.Int("more", more))
		}
	}
	c.nameEntries(t)
	for _, e := range t.entries {
		e.plain = e.Name
	}
	var missing []Alias
	for _, a := range slices.Backward(s.Aliases) { // backward, because lists show the first alias of a skill
		e := t.byID[a.SkillID]
		if e == nil {
			missing = append(missing, a)
			continue
		}
		e.Name, e.aliased = a.Name, true // byName still has the name without the alias
		t.byName[e.Name] = e
	}
	t.entries = slices.DeleteFunc(t.entries, func(e *Listed) bool {
		if e.Name == "" {
			t.omitSkill(ctx, "all names that it could have are names of other skills; give it an alias", e.ID, nil, true)
		}
		return e.Name == ""
	})
	slices.SortFunc(t.entries, func(a, b *Listed) int { return strings.Compare(a.Name, b.Name) })
	var public []string
	for i, e := range t.entries {
		e.at, e.Hidden = i, e.Access == document.Private && !e.aliased
		t.hides = t.hides || e.Hidden
		dotted, plain := dot(e.ID), s.nameOf(e.ID)
		if t.byName[dotted] == nil {
			t.byDotted[dotted] = append(t.byDotted[dotted], e)
		}
		if plain != dotted && t.byName[plain] == nil {
			t.byDotted[plain] = append(t.byDotted[plain], e)
		}
		if e.Access != document.Private {
			public = append(public, e.Name, e.plain) // the plain name is accepted beside the alias
		}
	}
	slices.Sort(public)
	t.near = near.NewIndex(slices.Compact(public))
	t.findRuled(c.policy)
	t.warnOfRules(ctx, "access rules", c.policy.Names(s.Namespace))
	t.warnOfRules(ctx, "quotas", c.quotas[s])
	t.warnOfAliases(ctx, missing)
	return t
}

// warnOfRules logs the names in some kind of rules that no skill of the source has, with similar ones.
func (t *nameTable) warnOfRules(ctx context.Context, rules string, names []string) {
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return t.byName[name] != nil })
	if len(missing) == 0 {
		return
	}
	first, similar := missing[:min(len(missing), maxLogged)], []string{}
	for _, name := range first {
		found := near.Find(name, t.near)
		similar = append(similar, found[:min(len(found), 1)]...)
	}
	t.section.warn(ctx, rules+" name skills that the source does not list", slog.Int("count", len(missing)), slog.Any("first", first), slog.Any("near", similar))
}

// warn logs a warning about the source.
func (s *Section) warn(ctx context.Context, message string, attrs ...slog.Attr) {
	s.catalog.observer.Notice(ctx, &exchange.Notice{Level: slog.LevelWarn, Source: s.Namespace, Message: message, Attrs: attrs})
}

// warnOfAliases logs the aliases for skills that the source does not list, with similar ids.
func (t *nameTable) warnOfAliases(ctx context.Context, missing []Alias) {
	if len(missing) == 0 {
		return
	}
	all := near.NewIndex(names(t.entries)) // private ones, too
	for _, a := range missing {
		ids := near.Find(t.section.nameOf(a.SkillID), all)
		for i, name := range ids {
			ids[i] = t.byName[name].ID
		}
		t.missing = append(t.missing, MissingAlias{a, t.section.Namespace, ids})
		t.section.warn(ctx, "an alias is for a skill that the source does not list", slog.String("alias", a.Name), slog.String("skill_id", a.SkillID), slog.Any("near", ids))
	}
}

// nameOf returns the plain name of an id: the namespace, a dot and the id with / as a dot. If the
// id already begins with the namespace, the namespace is not repeated.
func (s *Section) nameOf(id string) string {
	name := dot(id)
	if rest, ok := strings.CutPrefix(name, s.Namespace); ok && strings.HasPrefix(rest, ".") {
		return name
	}
	return s.Namespace + "." + name
}

// namesOf returns the names that the skill with an id can have without an alias (see nameEntries).
func (s *Section) namesOf(id string) []string {
	return []string{s.nameOf(id), s.Namespace + "." + id, s.Namespace + "/" + id}
}

func dot(id string) string { return strings.ReplaceAll(id, "/", ".") }

// find returns the entries that a name matches: the entry with this name, else the one with
// this exact id, with or without the namespace, else all whose ids equal the name if / is
// replaced by a dot in both.
func (t *nameTable) find(name string) []*Listed {
	e := cmp.Or(t.byName[name], t.byID[name])
	if rest, ok := strings.CutPrefix(name, t.section.Namespace); e == nil && ok && rest != "" && (rest[0] == '.' || rest[0] == '/') {
		e = t.byID[rest[1:]]
	}
	if e == nil {
		dotted := dot(name)
		if e = t.byName[dotted]; e == nil {
			return t.byDotted[dotted]
		}
	}
	if e.Name == "" {
		return nil
	}
	return t.entries[e.at : e.at+1 : e.at+1]
}

func names(entries []*Listed) []string {
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name
	}
	slices.Sort(list)
	return list
}

// maxLogged bounds the skills that the log names for one reason.
const maxLogged = 10

// omitSkill adds a skill that is not listed to t.omitted, and logs it if logs is true.
func (t *nameTable) omitSkill(ctx context.Context, why, id string, owner *Section, logs bool) {
	fault := run.Violation{Message: why}
	attrs := []slog.Attr{slog.String("skill_id", quoteID(id))}
	if owner != nil {
		fault.Message += ": " + owner.Namespace
		attrs = append(attrs, slog.String("namespace", owner.Namespace))
	}
	t.omittedCount++
	t.omit(document.LeftOut{ID: quoteID(id), Fault: fault})
	if !logs {
		return
	}
	t.section.warn(ctx, "a skill is not listed: "+why, attrs...)
}

// quoteID quotes an id for the operator, with escapes for what is not ASCII. A plain ASCII id
// without spaces at its ends stays as it is.
func quoteID(id string) string {
	text := strconv.QuoteToASCII(id)
	if text[1:len(text)-1] == id && strings.TrimSpace(id) == id {
		return id
	}
	return text
}

// warnOfOmitted logs the invalid entries of an index.
func (s *Section) warnOfOmitted(ctx context.Context, index *document.Index) {
	const shown = 5
	first := make([]string, 0, shown)
	for _, l := range index.LeftOut[:min(len(index.LeftOut), shown)] {
		first = append(first, strings.TrimSpace(quoteID(l.ID)+" "+l.Fault.Path+" "+l.Fault.Message))
	}
	what := "entries of a registry are ignored because they are invalid or duplicates"
	switch s.Kind {
	case ProviderSource:
		what = "entries of a provider's index are ignored because they are invalid or duplicates"
	case SiteSource:
		what = "entries of a site's index of Agent Skills are ignored because they are invalid, duplicates or of an unknown type"
	}
	s.warn(ctx, what+"; caddy skill-bridge status shows them", slog.Int("count", index.LeftOutCount), slog.Any("first", first))
}
