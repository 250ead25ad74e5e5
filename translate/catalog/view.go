package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// View is what a caller may see of one source. [Page] and [Search] make lists of several views.
type View struct {
	table     *nameTable
	principal string
}

// View reads the list of the skills of a source: its indexes, or the descriptor of a [SkillSource].
func (s *Section) View(ctx context.Context, principal string) (*View, *run.Failure) {
	var t *nameTable
	var err *run.Failure
	if s.Kind == SkillSource {
		t, err = s.directTable(ctx)
	} else {
		t, err = s.catalog.load(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	return &View{t, principal}, nil
}

// directTable returns the table of the only skill of a source.
func (s *Section) directTable(ctx context.Context) (*nameTable, *run.Failure) {
	listed := s.catalog.operators[s.Namespace].listed
	skill, err := s.Client.Skill(ctx, listed.descriptor)
	if err != nil {
		return nil, err
	}
	if known := s.table.Load(); known != nil && known.direct == skill {
		return known, nil
	}
	e := &entry{
		IndexEntry: &document.IndexEntry{
			ID: skill.ID, Name: skill.Name, Version: skill.Version, Description: skill.Description,
			CapabilityType: skill.CapabilityType, Access: skill.Access,
		},
		name: s.Namespace, aliased: true, listed: listed,
	}
	t := &nameTable{section: s, direct: skill, entries: []*entry{e}}
	s.catalog.changes.compare(s.table.Swap(t), t)
	return t, nil
}

// entry returns what lists say about a skill.
func (t *nameTable) entry(e *entry) Entry {
	return Entry{
		Name: e.name, Title: e.Name, Namespace: t.section.Namespace, Version: e.Version, Description: e.Description,
		CapabilityType: e.CapabilityType, Access: e.Access, Hidden: e.listed.Hidden, listed: e.listed,
	}
}

// Page returns the first skills of views whose tool names are after a name, in the byte order of these, at most
// limit, and whether there are more. If only is not empty, it returns the skills of this type. It leaves out skills
// whose tool names mean several skills, and logs them.
func Page(ctx context.Context, views []*View, after string, limit int, only document.CapabilityType) (page []Entry, more bool) {
	cursors := make([]toolCursor, len(views))
	for i, v := range views {
		tools := v.table.toolNames(ctx)
		_, next := tools.find(after)
		cursors[i] = toolCursor{v, tools, tools.sorted[next:]}
	}
	var same []*entry
	for {
		tool := ""
		for i := range cursors {
			if head := cursors[i].head(); tool == "" || head != "" && head < tool {
				tool = head
			}
		}
		if tool == "" {
			return page, false
		}
		var view *View
		same = same[:0]
		for i := range cursors {
			for cursors[i].head() == tool {
				if e := cursors[i].next(); len(e) > 0 {
					same, view = append(same, e...), cursors[i].view
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
			e := view.table.entry(same[0])
			e.Tool = tool
			page = append(page, e)
		}
	}
}

// PageByName is [Page] in the byte order of the skills' names. It has all skills that the caller may see.
func PageByName(views []*View, after string, limit int) (page []Entry, more bool) {
	rest := make([][]*entry, len(views))
	for i, v := range views {
		at, found := slices.BinarySearchFunc(v.table.entries, after, func(e *entry, name string) int { return strings.Compare(e.name, name) })
		if found {
			at++
		}
		rest[i] = v.table.entries[at:]
	}
	for {
		least := -1
		for i := range rest {
			if len(rest[i]) > 0 && (least < 0 || rest[i][0].name < rest[least][0].name) {
				least = i
			}
		}
		if least < 0 {
			return page, false
		}
		e, v := rest[least][0], views[least]
		rest[least] = rest[least][1:]
		switch {
		case !v.lists(e, ""):
		case len(page) == limit:
			return page, true
		default:
			page = append(page, v.table.entry(e))
		}
	}
}

// lists reports whether lists for the caller have a skill. If only is not empty, they have skills of this type.
func (v *View) lists(e *entry, only document.CapabilityType) bool {
	return (v.principal != "" || !e.listed.Hidden) && (only == "" || e.CapabilityType == only)
}

// toolCursor walks through the skills of a view by their tool names.
type toolCursor struct {
	view  *View
	tools *toolTable
	rest  []int32 // of toolTable.sorted
}

// head returns the next tool name; empty: there is none.
func (c *toolCursor) head() string {
	if len(c.rest) == 0 {
		return ""
	}
	return c.tools.names[c.rest[0]]
}

// next returns the next skill, or none if the caller may not see it.
func (c *toolCursor) next() []*entry {
	t, at := c.view.table, c.rest[0]
	c.rest = c.rest[1:]
	return t.section.visible(t.entries[at:at+1], c.view.principal, 1)
}
