package catalog

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/internal/samples"
)

// largeCatalog returns a catalog of two sources with 10,000 skills together.
func largeCatalog(tb testing.TB) (*Catalog, []*View) {
	tb.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var first, second indexProvider
	first.namespace, second.namespace = "acme", "acme.more"
	for i, name := range samples.Names(r, 10_000) {
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
