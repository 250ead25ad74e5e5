package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/skillnames"
	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
)

// largeCatalog returns a catalog of two sources with 10,000 skills together.
func largeCatalog(tb testing.TB) (*Catalog, []*View) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var first, second indexProvider
	first.namespace, second.namespace = "acme", "acme.more"
	for i, name := range skillnames.Names(r, 10_000) {
		if i%10 == 0 {
			second.ids = append(second.ids, strings.TrimPrefix(name, "acme."))
			continue
		}
		first.ids = append(first.ids, strings.TrimPrefix(name, "acme."))
	}
	c := catalogOf(tb, &first, &second)
	var views []*View
	for _, s := range c.Sections() {
		v, failure := s.View(tb.Context(), "")
		if failure != nil {
			tb.Fatal(failure)
		}
		views = append(views, v)
	}
	return c, views
}

// BenchmarkNameTable makes the table of names of 9,000 skills.
func BenchmarkNameTable(b *testing.B) {
	c, views := largeCatalog(b)
	t := views[0].table
	b.ReportAllocs()
	for b.Loop() {
		c.nameTable(b.Context(), t.section, t.indexes)
	}
}

// BenchmarkToolNames makes the tool names of 9,000 skills.
func BenchmarkToolNames(b *testing.B) {
	_, views := largeCatalog(b)
	b.ReportAllocs()
	for b.Loop() {
		views[0].table.makeTools(b.Context())
	}
}

// BenchmarkList lists 10,000 skills.
func BenchmarkList(b *testing.B) {
	c, _ := largeCatalog(b)
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range c.Sections() {
			if _, failure := c.List(b.Context(), s, ""); failure != nil {
				b.Fatal(failure)
			}
		}
	}
}

// BenchmarkPage lists 100 of 10,000 skills by their tool names.
func BenchmarkPage(b *testing.B) {
	_, views := largeCatalog(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if page, _ := Page(b.Context(), views, fmt.Sprintf("acme_m%c", 'a'+i%26), 100, ""); len(page) != 100 {
			b.Fatal(len(page))
		}
	}
}

// BenchmarkResolve10000 finds skills among 10,000 by names of all kinds.
func BenchmarkResolve10000(b *testing.B) {
	c, views := largeCatalog(b)
	page, _ := Page(b.Context(), views, "acme_m", 1, "")
	for kind, name := range map[string]string{"name": page[0].Name, "tool": page[0].Tool} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if l, failure := c.Resolve(b.Context(), name, ""); failure != nil || l.Name != page[0].Name {
					b.Fatal(failure)
				}
			}
		})
	}
}

// BenchmarkAccess lists, searches, finds and suggests skills among 10,000, of which access rules deny half.
func BenchmarkAccess(b *testing.B) {
	for _, restricted := range []bool{false, true} {
		c, views := largeCatalog(b)
		if restricted {
			rules := &access.Rules{List: []access.Rule{{Principal: access.Everyone}, {Allow: true, Principal: access.Everyone, Skills: []string{"acme.*", "acme.more.*"}}}}
			for _, v := range views {
				for i, e := range v.table.entries {
					if i%2 == 0 {
						rules.List[0].Skills = append(rules.List[0].Skills, e.Name)
					}
				}
			}
			c.policy = access.New(rules, c.ownerOf)
			for i, s := range c.Sections() {
				s.table.Store(c.nameTable(b.Context(), s, views[i].table.indexes))
				views[i] = &View{s.table.Load(), c.viewer("")}
			}
		}
		known := views[0].table.entries[5001].Name
		for what, do := range map[string]func(){
			"list":    func() { _, _ = c.List(b.Context(), c.Sections()[0], "") },
			"page":    func() { _, _ = PageByName(b.Context(), views, "acme.m", 100, "") },
			"search":  func() { _ = Search(b.Context(), views, "data report", 50, "") },
			"resolve": func() { _, _ = c.Resolve(b.Context(), known, "") },
			"suggest": func() { _, _ = c.Resolve(b.Context(), known+"x", "") },
		} {
			b.Run(fmt.Sprintf("%s/restricted=%t", what, restricted), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					do()
				}
			})
		}
	}
}
