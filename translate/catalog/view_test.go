package catalog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPagesMerge: pages of any size have all skills of all views in order, each once, also where the names of sources are mixed.
func TestPagesMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var sources []*indexProvider
	for i, namespace := range []string{"a", "a.b", "a-b", "a_b", "b", "c"} {
		s := &indexProvider{namespace: namespace, private: map[string]bool{}, credentials: true}
		if i == 0 {
			s.aliases = []Alias{{Name: "bb", SkillID: "x0"}, {Name: "z", SkillID: "x1"}}
		}
		for j := range i * 7 {
			id := fmt.Sprintf("x%d", j)
			s.private[id] = r.IntN(3) == 0
			s.ids = append(s.ids, id, fmt.Sprintf("%c.y%d", 'a'+r.IntN(3), r.IntN(1000)*100+j))
		}
		s.ids = append(s.ids, "x0", "x1")
		slices.Sort(s.ids)
		s.ids = slices.Compact(s.ids)
		sources = append(sources, s)
	}
	c := catalogOf(t, sources...)
	for _, principal := range []string{"", "alice"} {
		var views []*View
		var all []string
		tools := map[string]bool{}
		for _, s := range c.Sections() {
			v, failure := s.View(t.Context(), principal)
			entries, other := c.List(t.Context(), s, principal)
			if failure != nil || other != nil {
				t.Fatal(failure, other)
			}
			views = append(views, v)
			for i := range entries {
				all = append(all, entries[i].Name)
				tools[entries[i].ToolName(t.Context(), principal)] = true
			}
		}
		slices.Sort(all)
		delete(tools, "")
		for _, limit := range []int{1, 2, 7, 1000} {
			var names, byTool []string
			for after, more := "", true; more; after = names[len(names)-1] {
				var page []Entry
				page, more = PageByName(t.Context(), views, after, limit, "")
				for i := range page {
					names = append(names, page[i].Name)
				}
			}
			if !slices.Equal(names, all) {
				t.Errorf("%q, %d: %q, want %q", principal, limit, names, all)
			}
			for after, more := "", true; more; after = byTool[len(byTool)-1] {
				var page []Entry
				page, more = Page(t.Context(), views, after, limit, "")
				for i := range page {
					byTool = append(byTool, page[i].Tool)
				}
			}
			if !slices.Equal(byTool, slices.Sorted(maps.Keys(tools))) {
				t.Errorf("%q, %d: the tools %q, want %v", principal, limit, byTool, tools)
			}
		}
	}
}
