package catalog

import (
	"cmp"
	"context"
	"slices"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/search"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Search returns the skills of views that have the words of a query in their names, tags, titles or descriptions, best first,
// at most limit (see [search.Find]). If only is not empty, it returns the skills of this type. Skills of equal rank are in the
// natural order of their names. It reads no descriptors: tags are those of descriptors that the cache has, and an index may have some, too.
func Search(ctx context.Context, views []*View, query string, limit int, only document.CapabilityType) []Entry {
	scopes := make([]search.Scope, len(views))
	for i, v := range views {
		if t := v.table; !t.words.Made() {
			v.table = nil // it is not kept while others are searched
			v.table = t.section.searchable(ctx)
		}
		scopes[i].Index, scopes[i].Visible = v.table.wordIndex(ctx), v.visible()
		if only != "" {
			scopes[i].Accept = func(i int) bool { return v.table.entries[i].CapabilityType == only }
		}
	}
	hits := search.Find(query, scopes, limit)
	entry := func(h search.Hit) *Listed { return views[h.Scope].table.entries[h.Skill] }
	slices.SortFunc(hits, func(a, b search.Hit) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), search.Natural(entry(a).Name, entry(b).Name))
	})
	entries := make([]Entry, min(len(hits), max(limit, 0)))
	for i := range entries {
		t := views[hits[i].Scope].table
		entries[i] = t.entry(ctx, entry(hits[i]))
		entries[i].Tool = onlyTool(ctx, views, t.toolNames(ctx).names[hits[i].Skill])
	}
	return entries
}

// searchable returns the newest table, with its words. It collects those of one table at a time, as [Section.tableOf] makes one.
func (s *Section) searchable(ctx context.Context) *nameTable {
	s.indexing.Lock()
	defer s.indexing.Unlock()
	t := s.table.Load()
	t.wordIndex(context.WithoutCancel(ctx))
	return t
}

// visible returns which skills of the view lists for the caller have; nil: all.
func (v *View) visible() []bool {
	if v.viewer.role == nil && (v.viewer.principal != "" || !v.table.hides) {
		return nil
	}
	visible := make([]bool, len(v.table.entries))
	for i, e := range v.table.entries {
		visible[i] = v.lists(e, "")
	}
	return visible
}

// onlyTool returns a tool name if it means one skill of the views, else an empty text.
func onlyTool(ctx context.Context, views []*View, tool string) string {
	count := 0
	for _, v := range views {
		count += len(v.table.visible(v.table.withTool(ctx, tool), v.viewer, 2))
	}
	if count != 1 {
		return ""
	}
	return tool
}

// wordIndex returns the words of the skills of a table, with the tags of the descriptors that were read.
func (t *nameTable) wordIndex(ctx context.Context) *search.Index {
	if edition := discovery.EditionOf(t.section.Guard); t.edition.Swap(edition) != edition {
		t.words.Renew()
	}
	return t.words.Index(len(t.entries), func(i int) search.Texts {
		e := t.entries[i]
		w, chosen := discovery.WordsOf(t.section.Guard, e.IndexEntry, e.names(ctx))
		texts := search.Texts{Name: e.Name, Title: w.Name, Description: w.Description}
		if t.direct != nil {
			texts.Tags = t.direct.Tags
			return texts
		} else if chosen {
			texts.Further = w.Tags
			return texts
		}
		texts.Tags = search.TagsIn(e.Unknown)
		if doc, _ := t.section.Client.Peek(ctx, e.descriptor, e.names(ctx)); doc != nil {
			texts.Further = doc.Value.(*discovery.Skill).Tags
		}
		return texts
	})
}
