package catalog

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/search"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Search returns the skills of views that have words of a query in their names, tags, titles or descriptions, best first,
// at most limit (see [search.Find]). If only is not empty, it returns the skills of this type. Skills of equal rank are in the
// order of their names. It reads no descriptors: an index may have tags, too.
func Search(ctx context.Context, views []*View, query string, limit int, only document.CapabilityType) []Entry {
	scopes := make([]search.Scope, len(views))
	for i, v := range views {
		words := v.table.wordIndex()
		scopes[i].Index = words.Index
		if v.principal == "" {
			scopes[i].Visible = words.visible
		}
		if only != "" {
			scopes[i].Accept = func(i int) bool { return v.table.entries[i].CapabilityType == only }
		}
	}
	hits := search.Find(query, scopes, limit)
	entry := func(h search.Hit) *entry { return views[h.Scope].table.entries[h.Skill] }
	slices.SortFunc(hits, func(a, b search.Hit) int {
		return cmp.Or(cmp.Compare(b.Rank, a.Rank), strings.Compare(entry(a).name, entry(b).name))
	})
	entries := make([]Entry, min(len(hits), max(limit, 0)))
	for i := range entries {
		t := views[hits[i].Scope].table
		entries[i] = t.entry(entry(hits[i]))
		entries[i].Tool = onlyTool(ctx, views, t.toolNames(ctx).names[hits[i].Skill])
	}
	return entries
}

// onlyTool returns a tool name if it means one skill of the views, else an empty text.
func onlyTool(ctx context.Context, views []*View, tool string) string {
	count := 0
	for _, v := range views {
		from, to := v.table.toolNames(ctx).find(tool)
		count += to - from
	}
	if count != 1 {
		return ""
	}
	return tool
}

// wordIndex has the words of the skills of a [nameTable]. It is made when it is first used.
type wordIndex struct {
	once sync.Once
	*search.Index
	visible []bool // skills that lists for anonymous callers have; nil: all
}

// wordIndex returns the words of a table.
func (t *nameTable) wordIndex() *wordIndex {
	t.words.once.Do(func() {
		t.words.Index = search.NewIndex(len(t.entries), func(i int) search.Texts {
			e := t.entries[i]
			texts := search.Texts{Name: e.name, Tags: tagsOf(e.IndexEntry), Title: e.Name, Description: e.Description}
			if t.direct != nil {
				texts.Tags = t.direct.Tags
			}
			return texts
		})
		if slices.ContainsFunc(t.entries, func(e *entry) bool { return e.listed.Hidden }) {
			t.words.visible = make([]bool, len(t.entries))
			for i, e := range t.entries {
				t.words.visible[i] = !e.listed.Hidden
			}
		}
	})
	return &t.words
}

// tagsOf returns the tags of an index entry, which the protocol does not define.
func tagsOf(e *document.IndexEntry) []string {
	if !bytes.Contains(e.Unknown, []byte(`"tags"`)) {
		return nil
	}
	var more struct {
		Tags []string `json:"tags"`
	}
	if json.Unmarshal(e.Unknown, &more) != nil {
		return nil
	}
	return more.Tags
}
