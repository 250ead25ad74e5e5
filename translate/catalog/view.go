package catalog

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// View is what a caller may see of one source. [Page] and [Search] make lists of several views.
type View struct {
	table  *nameTable
	viewer viewer
}

// View reads the list of the skills of a source: its indexes, or the descriptor of a [SkillSource].
func (s *Section) View(ctx context.Context, principal string) (*View, *run.Failure) {
	var t *nameTable
	var err *run.Failure
	if s.Kind == SkillSource {
		t, err = s.directTable(ctx)
	} else {
		t, err = list(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return &View{t, s.catalog.viewer(principal)}, nil
}

// directTable returns the table of the only skill of a source.
func (s *Section) directTable(ctx context.Context) (*nameTable, *run.Failure) {
	skill, err := s.Client.Skill(ctx, s.direct.descriptor)
	if err != nil {
		return nil, err
	}
	if known := s.table.Load(); known != nil && known.direct == skill {
		return known, nil
	}
	e := *s.direct
	e.aliased, e.IndexEntry = true, &document.IndexEntry{
		ID: skill.ID, Name: skill.Name, Version: skill.Version, Description: skill.Description,
		CapabilityType: skill.CapabilityType, Access: skill.Access,
	}
	t := &nameTable{section: s, direct: skill, entries: []*Listed{&e}}
	compare(s.catalog, s.table.Swap(t), t)
	return t, nil
}

// entry returns what lists say about a skill.
func (t *nameTable) entry(ctx context.Context, e *Listed) Entry {
	w, _ := discovery.WordsOf(t.section.Guard, e.IndexEntry, e.names(ctx))
	return Entry{
		Name: e.Name, Title: w.Name, Namespace: t.section.Namespace, Version: w.Version, Description: w.Description,
		CapabilityType: e.CapabilityType, Access: e.Access, Hidden: e.Hidden, listed: e,
	}
}

// Entry returns what lists have of the skill; nil: it is not known, or the guard of the source does not know yet which words it may have.
func (l *Listed) Entry(ctx context.Context) *Entry {
	t := l.Section.table.Load()
	e := t.withID(l.ID)
	if e == nil || l.Section.Guard != nil && !t.learned.Load() {
		return nil
	}
	return new(t.entry(ctx, e))
}

// Page returns the first skills of views whose tool names are after a name, in the byte order of these, at most
// limit, and whether there are more. If only is not empty, it returns the skills of this type. It leaves out skills
// whose tool names mean several skills, and logs them.
func Page(ctx context.Context, views []*View, after string, limit int, only document.CapabilityType) (page []Entry, more bool) {
	all := make(cursors, len(views))
	for i, v := range views {
		tools := v.table.toolNames(ctx)
		_, next := tools.find(after)
		all[i] = cursor{view: v, tools: tools, at: next}
	}
	return all.page(ctx, limit, only)
}

// PageByName is [Page] in the byte order of the skills' names. Skills need no tool names.
func PageByName(ctx context.Context, views []*View, after string, limit int, only document.CapabilityType) (page []Entry, more bool) {
	all := make(cursors, len(views))
	for i, v := range views {
		all[i] = cursor{view: v, at: sort.Search(len(v.table.entries), func(i int) bool { return v.table.entries[i].Name > after })}
	}
	return all.page(ctx, limit, only)
}

// page returns the skills from the cursors on.
func (all cursors) page(ctx context.Context, limit int, only document.CapabilityType) (page []Entry, more bool) {
	var same []*Listed
	for {
		all = slices.DeleteFunc(all, func(c cursor) bool { return c.head() == "" })
		if len(all) == 0 {
			return page, false
		}
		first := slices.MinFunc(all, func(a, b cursor) int { return strings.Compare(a.head(), b.head()) })
		name, byTool := first.head(), first.tools != nil
		var view *View
		same = same[:0]
		for i := range all {
			for c := &all[i]; c.head() == name; c.at++ {
				v, at := c.view, c.entry().at
				if e := v.table.visible(v.table.entries[at:at+1], v.viewer, 1); len(e) > 0 {
					same, view = append(same, e...), v
				}
			}
		}
		switch {
		case len(same) > 1:
			view.table.section.warnOfTools(ctx, names(same))
		case len(same) == 0 || !view.lists(same[0], only):
		case len(page) == limit:
			return page, true
		default:
			e := view.table.entry(ctx, same[0])
			if byTool {
				e.Tool = name
			}
			page = append(page, e)
		}
	}
}

// lists reports whether lists for the caller have a skill. If only is not empty, they have skills of this type.
func (v *View) lists(e *Listed, only document.CapabilityType) bool {
	return (only == "" || e.CapabilityType == only) && v.viewer.lists(v.table, e)
}

// cursor walks through the skills of a view by their names or, if tools is not nil, their tool names.
type cursor struct {
	view  *View
	tools *toolTable
	at    int // in nameTable.entries or toolTable.sorted
}

// entry returns the skill at the cursor.
func (c *cursor) entry() *Listed {
	if c.tools != nil {
		return c.view.table.entries[c.tools.sorted[c.at]]
	}
	return c.view.table.entries[c.at]
}

// head returns the name of the skill at the cursor; empty: it is past the last one.
func (c *cursor) head() string {
	switch {
	case c.tools == nil && c.at < len(c.view.table.entries):
		return c.view.table.entries[c.at].Name
	case c.tools != nil && c.at < len(c.tools.sorted):
		return c.tools.names[c.tools.sorted[c.at]]
	}
	return ""
}

// cursors are those of several views.
type cursors []cursor

// Entry is a skill as its source lists it. Entries can be compared: two that are equal describe the same skill with the
// same documents.
type Entry struct {
	Name string // for calls
	// Tool is the name for language models: at most 64 letters, digits, hyphens and underscores. It is unique, and a
	// name for calls, too. Only pages and results of searches have it. Empty: there is none, or the skill has none.
	Tool           string
	Title          string // for people
	Namespace      string
	Version        string
	Description    string
	CapabilityType document.CapabilityType
	Access         document.AccessPolicy
	// Hidden says that lists for anonymous callers do not have the skill.
	Hidden bool
	// Connects says that calls ask the user of the principal to connect an account first. It belongs to the principal.
	Connects bool
	// Descriptor is set by [ReadDescriptors]; nil: it was not read, or can't be read.
	Descriptor *document.Descriptor
	Files      *skillsite.Files // of a skill that can only be read, with the Descriptor; only SKILL.md has its content

	listed *Listed
	skill  *discovery.Skill // with the Descriptor; nil: the skill can only be read
}

// OutputSchema returns the JSON Schema of the output; nil: the descriptor was not read, or has none that the bridge can apply.
func (e *Entry) OutputSchema() jsontext.Value { return e.skill.OutputSchema() }

// Document returns the descriptor as published; nil: it was not read, or the skill can only be read.
func (e *Entry) Document() jsontext.Value {
	if e.skill == nil {
		return nil
	}
	return e.skill.Document
}

// Own returns the name without an alias. It is a name for calls, too, and no other skill of the source has it.
func (e *Entry) Own() string { return cmp.Or(e.listed.plain, e.Name) }

// Section returns the source that lists the skill.
func (e *Entry) Section() *Section { return e.listed.Section }

// Unavailable is a source of skills that could not be read.
type Unavailable struct {
	Namespace string
	Failure   *run.Failure
}
