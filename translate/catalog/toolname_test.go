package catalog

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// toolsOf returns the skills that a caller sees as tools, by tool names, as "namespace id", and reads them in pages.
func toolsOf(tb testing.TB, c *Catalog, principal string, limit int) map[string]Entry {
	tb.Helper()
	var views []*View
	for _, s := range c.Sections() {
		v, failure := s.View(tb.Context(), principal)
		if failure != nil {
			tb.Fatalf("%+v", failure)
		}
		views = append(views, v)
	}
	tools := map[string]Entry{}
	last, more := "", true
	for more {
		var page []Entry
		page, more = Page(tb.Context(), views, last, limit, "")
		if len(page) > limit || more && len(page) < limit {
			tb.Fatalf("a page of %d, limit %d, more %v", len(page), limit, more)
		}
		for _, e := range page {
			if e.Tool <= last {
				tb.Fatalf("%s after %s", e.Tool, last)
			}
			last = e.Tool
			e.listed = nil // it differs between catalogs
			tools[e.Tool] = e
		}
	}
	return tools
}

var toolForm = regexp.MustCompile("^[a-zA-Z0-9_-]{1,64}$")

// checkTools checks the guarantees of tool names for one caller, and returns the tools.
func checkTools(tb testing.TB, c *Catalog, principal string) map[string]Entry {
	tb.Helper()
	tools := toolsOf(tb, c, principal, 7)
	if all := toolsOf(tb, c, principal, 1000); !maps.Equal(all, tools) {
		tb.Errorf("in pages %v, else %v", tools, all)
	}
	listed := map[string]bool{}
	for _, s := range c.Sections() {
		entries, failure := c.List(tb.Context(), s, principal)
		if failure != nil {
			tb.Fatal(failure)
		}
		for _, e := range entries {
			listed[e.Name] = true
		}
	}
	for tool, e := range tools {
		if !toolForm.MatchString(tool) || builtInTools[tool] {
			tb.Errorf("%q is no tool name", tool)
		}
		l, failure := c.Resolve(tb.Context(), tool, principal)
		if failure != nil {
			tb.Errorf("%q, %s: %v", principal, tool, failure)
		} else if got := l.Section.Namespace + " " + l.ID; got != e.Description {
			tb.Errorf("%q, %s is the tool of %s, but leads to %s", principal, tool, e.Description, got)
		}
		if owner := c.Owner(tool, principal); owner != nil && owner.Namespace != e.Namespace {
			tb.Errorf("%s of %s belongs to %s", tool, e.Namespace, owner.Namespace)
		}
		if !listed[e.Name] {
			tb.Errorf("%s is a tool, but not listed", e.Name)
		}
		delete(listed, e.Name)
	}
	for name := range listed {
		if t := c.sections[0].table.Load(); len(c.sections) > 1 || t.byID[hashedTool(name, plainTool(name))] == nil { // a source may harm itself
			tb.Errorf("no tool: %s", name)
		}
	}
	return tools
}

// checkAllTools checks what holds for any sources. Their tool names depend neither on the order of ids nor on the ids of
// other sources.
func checkAllTools(t *testing.T, r *rand.Rand, shelves []*indexProvider) {
	t.Helper()
	c := catalogOf(t, shelves...)
	all, few := checkTools(t, c, "alice"), checkTools(t, c, "")
	for tool, e := range all {
		if f, ok := few[tool]; ok && f != e {
			t.Errorf("%s is %+v, and %+v for anonymous callers", tool, e, f)
		}
		byName, failure1 := c.Resolve(t.Context(), e.Name, "")
		byTool, failure2 := c.Resolve(t.Context(), tool, "")
		if (failure1 == nil) != (failure2 == nil) || failure1 == nil && byName != byTool || failure1 != nil && (failure1.Kind != run.SkillNotFound || slices.Contains(failure2.Argument.Candidates, e.Name)) {
			t.Errorf("anonymous: %s leads to %v, %v, and %s to %v, %v", e.Name, byName, failure1, tool, byTool, failure2)
		}
	}
	changed := rand.IntN(len(shelves))
	others := slices.Clone(shelves)
	for i, s := range shelves {
		other := *s
		if i == changed {
			other.ids = other.ids[:r.IntN(len(other.ids)+1)]
		} else {
			other.ids = slices.Clone(s.ids)
			r.Shuffle(len(s.ids), func(i, j int) { other.ids[i], other.ids[j] = other.ids[j], other.ids[i] })
		}
		others[i] = &other
	}
	after := toolsOf(t, catalogOf(t, others...), "alice", 1000)
	of := func(tools map[string]Entry) map[string]string {
		list := map[string]string{}
		for tool, e := range tools {
			if e.Namespace != shelves[changed].namespace {
				list[e.Name] = tool
			}
		}
		return list
	}
	if before, after := of(all), of(after); !maps.Equal(before, after) {
		t.Errorf("other ids of %s change tool names from %v to %v", shelves[changed].namespace, before, after)
	}
	if t.Failed() {
		for _, s := range shelves {
			t.Logf("%+v", *s)
		}
		t.FailNow()
	}
}

func TestToolNamesOfAnySources(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	long := strings.Repeat("l", 57)
	segments := []string{"a", "b", "c", "a", "get", "run", "é", "日本", "x-y", "x_y", "A", "a_b", "0a1b2c", long, strings.Repeat("m", 30), strings.Repeat("é", 20)}
	text := func() string {
		var b strings.Builder
		for i := range 1 + r.IntN(4) {
			if i > 0 {
				b.WriteByte("./_-"[r.IntN(4)])
			}
			b.WriteString(segments[r.IntN(len(segments))])
		}
		return b.String()
	}
	namespaces := []string{"a", "a.b", "a-b", "a_b", "a.b.c", "get", "x", long, long + ".a", long + "_b", long[:56], long[:55] + "-", "A"}
	rounds := 40
	if longtest.Runs(longtest.Long) {
		rounds = 100
	}
	for range rounds {
		var shelves []*indexProvider
		given := map[string]bool{}
		for _, namespace := range namespaces {
			if r.IntN(3) > 0 {
				continue
			}
			s := &indexProvider{namespace: namespace, private: map[string]bool{}, credentials: r.IntN(2) == 0}
			for range 15 {
				if id := text(); !slices.Contains(s.ids, id) {
					s.ids = append(s.ids, id)
					s.private[id] = r.IntN(4) == 0
				}
			}
			for _, id := range s.ids { // ids that sources would choose to take the hashed names of others
				name := namespaces[r.IntN(len(namespaces))] + "." + id
				if h := hashedTool(name, plainTool(name)); len(h) < 64 && !slices.Contains(s.ids, h) && r.IntN(3) == 0 {
					s.ids = append(s.ids, h)
				}
				if h, ok := strings.CutPrefix(hashedTool(namespace+"."+id, plainTool(namespace+"."+id)), plainTool(namespace)+"_"); ok && h != "" && !slices.Contains(s.ids, h) && r.IntN(3) == 0 {
					s.ids = append(s.ids, h)
				}
			}
			for range r.IntN(3) {
				if name := text(); !given[name] {
					given[name] = true
					s.aliases = append(s.aliases, Alias{Name: name, SkillID: s.ids[r.IntN(len(s.ids))]})
				}
			}
			shelves = append(shelves, s)
		}
		if len(shelves) > 0 {
			checkAllTools(t, r, shelves)
		}
	}
}

// FuzzToolNames checks the guarantees of tool names for two sources with any ids, one to a line.
func FuzzToolNames(f *testing.F) {
	f.Add("weather\nweather_x\na\nA", "x\nx_0a1b2c\n日", "a.b", "a.b.c", uint64(1))
	f.Add("b/x\nb_x\nb.x", "x\nx/y\nx_y", "aa", "aa.b", uint64(2))
	f.Add("x\na_x", "", "aa", "bb", uint64(3))
	f.Fuzz(func(t *testing.T, first, second, one, other string, seed uint64) {
		namespace := regexp.MustCompile(`^([a-z0-9]{1,40}[._-]?){1,3}[a-z0-9]{1,40}$`)
		if !namespace.MatchString(one) || !namespace.MatchString(other) || one == other {
			t.Skip()
		}
		shelves := []*indexProvider{{namespace: one}, {namespace: other}}
		for i, text := range []string{first, second} {
			for id := range strings.SplitSeq(text, "\n") {
				if id != "" && len(id) <= 512 && utf8.ValidString(id) && !slices.Contains(shelves[i].ids, id) && len(shelves[i].ids) < 50 {
					shelves[i].ids = append(shelves[i].ids, id)
				}
			}
		}
		checkAllTools(t, rand.New(rand.NewPCG(seed, 1)), shelves[:1+seed%2])
	})
}

func hashOf(name string) string { return fmt.Sprintf("_%x", sha256.Sum256([]byte(name)))[:7] }

func TestToolNames(t *testing.T) {
	long := strings.Repeat("w", 60)
	alone := []*indexProvider{{namespace: "demo", ids: []string{
		"summarize", "x/y", "x_y", "Ünï.日本", long, long + "x", "get_run", "demo_summarize_not", "colour_" + hashOf("demo.blue")[1:], "blue", "blue_" + hashOf("demo.demo_x")[1:], "taken", "demo_taken",
	}}}
	get := []*indexProvider{{namespace: "get", ids: []string{"run"}}, {namespace: "describe", ids: []string{"skill"}, aliases: []Alias{{Name: "call.skill", SkillID: "skill"}}}}
	related := []*indexProvider{
		{namespace: "acme", ids: []string{"news", "weather_x", "weather/y"}, aliases: []Alias{{Name: "acme.weather.q", SkillID: "other"}}},
		{namespace: "acme.weather", ids: []string{"x", "today", "x_0a1b2c", "q", "z_0a1b2"}},
		{namespace: "acme_weather_", ids: []string{"x"}},
	}
	equal := []*indexProvider{{namespace: "a.b", ids: []string{"x"}}, {namespace: "a-b", ids: []string{"x"}}, {namespace: "a_b", ids: []string{"y"}}}
	operators := []*indexProvider{
		{namespace: "p", ids: []string{"one", "two", "three", "four", "free"}, aliases: []Alias{{Name: "q.one", SkillID: "one"}, {Name: "the-two", SkillID: "two"}, {Name: "t/h", SkillID: "three"}, {Name: "t.h", SkillID: "four"}}},
		{namespace: "q", ids: []string{"one", "two"}},
		{namespace: "t", ids: []string{"h", "h_" + hashOf("t/h")[1:], "i"}},
	}
	for _, tc := range []struct {
		shelves []*indexProvider
		want    map[string]string
	}{
		{alone, map[string]string{
			"demo.summarize": "demo_summarize", "demo.x.y": "demo_x_y" + hashOf("demo.x.y"), "demo.x_y": "demo_x_y" + hashOf("demo.x_y"), "demo.Ünï.日本": "demo__n____",
			"demo." + long: "demo_" + long[:52] + hashOf("demo."+long), "demo." + long + "x": "demo_" + long[:52] + hashOf("demo."+long+"x"), "demo.get_run": "demo_get_run",
			"demo.demo_summarize_not": "demo_demo_summarize_not", "demo.colour" + hashOf("demo.blue"): "demo_colour" + hashOf("demo.blue"),
			"demo.blue": "demo_blue", "demo.blue" + hashOf("demo.demo_x"): "demo_blue" + hashOf("demo.demo_x"),
			"demo.taken": "demo_taken" + hashOf("demo.taken"), "demo.demo_taken": "demo_demo_taken", // demo_taken is an id of the only source
		}},
		{get, map[string]string{"get.run": "get_run" + hashOf("get.run"), "call.skill": "call_skill" + hashOf("call.skill")}},
		{related, map[string]string{
			"acme.news": "acme_news", "acme.weather_x": "acme_weather_x" + hashOf("acme.weather_x"), "acme/weather/y": "acme_weather_y" + hashOf("acme/weather/y"),
			"acme.weather.x": "acme_weather_x", "acme.weather.today": "acme_weather_today", "acme.weather.x_0a1b2c": "acme_weather_x_0a1b2c" + hashOf("acme.weather.x_0a1b2c"),
			"acme.weather/q": "acme_weather_q" + hashOf("acme.weather/q"), "acme.weather.z_0a1b2": "acme_weather_z_0a1b2", "acme_weather_.x": "acme_weather__x",
		}},
		{equal, map[string]string{"a.b.x": "a_b_x" + hashOf("a.b.x"), "a-b.x": "a-b_x", "a_b.y": "a_b_y" + hashOf("a_b.y")}},
		{operators, map[string]string{
			"q.one": "q_one", "the-two": "the-two", "t/h": "t_h" + hashOf("t/h"), "t.h": "t_h" + hashOf("t.h"), "p.free": "p_free",
			"q/one": "q_one" + hashOf("q/one"), "q.two": "q_two", "t.h" + hashOf("t/h"): "t_h" + hashOf("t/h") + hashOf("t.h"+hashOf("t/h")), "t.i": "t_i",
		}},
	} {
		got := map[string]string{}
		for tool, e := range checkTools(t, catalogOf(t, tc.shelves...), "") {
			got[e.Name] = tool
		}
		if !maps.Equal(got, tc.want) {
			t.Errorf("got  %v\nwant %v", got, tc.want)
		}
	}
}

// collidingNames returns ids of two sources with related namespaces whose hashed tool names are equal. Both are
// readable as the same plain name.
func collidingNames(tb testing.TB, one, other string) (id, otherID string) {
	tb.Helper()
	variant := func(n int) string {
		return strings.Map(func(r rune) rune { return 'é' + (r - '0') }, fmt.Sprintf("%014b", n))
	}
	ids := map[string]string{}
	for n := range 1 << 14 {
		name := one + "." + variant(n)
		ids[hashedTool(name, plainTool(name))] = variant(n)
	}
	for n := range 1 << 14 {
		name := other + "." + variant(n)
		if id := ids[hashedTool(name, plainTool(name))]; id != "" {
			return id, variant(n)
		}
	}
	tb.Fatal("there are none")
	return "", ""
}

// Skills whose hashed tool names are equal have only their names: the tool name is ambiguous, and lists leave it out.
func TestToolNamesThatCollide(t *testing.T) {
	id, other := collidingNames(t, "a.b", "a_b")
	name, otherName := "a.b."+id, "a_b."+other
	tool := hashedTool(name, plainTool(name))
	for _, hidden := range []bool{false, true} {
		private := map[string]bool{other: hidden}
		c := catalogOf(t, &indexProvider{namespace: "a.b", ids: []string{"x", id}}, &indexProvider{namespace: "a_b", ids: []string{"y", other}, private: private, credentials: true})
		l, failure := c.Resolve(t.Context(), tool, "alice")
		if failure == nil || failure.Argument.Reason != run.Ambiguous || !slices.Equal(failure.Argument.Candidates, []string{name, otherName}) {
			t.Errorf("%s: %+v, %+v", tool, l, failure)
		}
		if tools := toolsOf(t, c, "alice", 10); len(tools) != 2 || tools[tool].Name != "" {
			t.Errorf("%v", tools)
		}
		l, failure = c.Resolve(t.Context(), tool, "")
		if tools := toolsOf(t, c, "", 10); hidden && (failure != nil || l.Name != name || tools[tool].Name != name) || !hidden && (failure == nil || tools[tool].Name != "") {
			t.Errorf("%s, hidden %v: %+v, %v, %v", tool, hidden, l, failure, tools)
		}
		for _, n := range []string{name, otherName} {
			if l, failure := c.Resolve(t.Context(), n, "alice"); failure != nil || l.Name != n {
				t.Errorf("%s: %v", n, failure)
			}
		}
	}
}

// The candidates for a plain tool name that several skills would have are all of these that the caller may see, and no others.
func TestCandidatesOfPlainToolNames(t *testing.T) {
	long, longest := strings.Repeat("l", 55), strings.Repeat("mo", 40)
	ids := []string{"a.c", "a_c", "a.b", "a_b", "a-b", "a b", "ab", "a_b_123abc", long + ".b", long + "_b", longest, longest + "z"}
	private := map[string]bool{"a b": true}
	one := catalogOf(t, &indexProvider{namespace: "acme", ids: ids, private: private, credentials: true})
	two := catalogOf(t,
		&indexProvider{namespace: "acme", ids: ids, private: private, credentials: true},
		&indexProvider{namespace: "acme.a", ids: []string{"b", "x.y", "x_y"}})
	deep := catalogOf(t, &indexProvider{namespace: "ex", ids: []string{"example/shout"}}, &indexProvider{namespace: "acme", ids: ids})
	for _, v := range []struct {
		of              *Catalog
		name, principal string
		candidates      []string
	}{
		{of: one, name: "acme_a_b", candidates: []string{"acme.a.b", "acme.a_b"}},
		{of: one, name: "acme_a_b", principal: "ada", candidates: []string{"acme.a b", "acme.a.b", "acme.a_b"}},
		{of: one, name: "acme_" + long + "_b", candidates: []string{"acme." + long + ".b", "acme." + long + "_b"}},
		{of: one, name: ("acme_" + longest)[:64], candidates: []string{"acme." + longest, "acme." + longest + "z"}}, // cut to the length of tool names
		{of: one, name: ("acme_" + longest)[:63]},
		{of: two, name: "acme_a_c", candidates: []string{"acme.a_c", "acme/a.c"}},
		{of: deep, name: "ex_shout", candidates: []string{"ex.example.shout"}}, // made up of parts of the name
		{of: two, name: "acme_a_x_y", candidates: []string{"acme.a.x.y", "acme.a.x_y"}},
	} {
		_, failure := v.of.Resolve(t.Context(), v.name, v.principal)
		if failure == nil || failure.Kind != run.SkillNotFound || !slices.Equal(failure.Argument.Candidates, v.candidates) {
			t.Errorf("%s for %q: %+v", v.name, v.principal, failure)
		}
	}
	many := make([]string, 200)
	for i := range many {
		many[i] = strings.Map(func(r rune) rune { return []rune("._")[r-'0'] }, fmt.Sprintf("%08b", i)) + "x"
	}
	c := catalogOf(t, &indexProvider{namespace: "acme", ids: many})
	if _, failure := c.Resolve(t.Context(), "acme_"+strings.Repeat("_", 8)+"x", ""); failure == nil || len(failure.Argument.Candidates) != maxAmbiguous {
		t.Errorf("%+v", failure)
	}
}
