package catalog

import (
	"slices"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
)

// TestDenyHoldsForSharedNames: a rule that denies a name also applies to skills that the bridge lists under other names because their source lists
// several that could have the name. A rule that allows the name does not.
func TestDenyHoldsForSharedNames(t *testing.T) {
	for _, tc := range []struct {
		ids, denied []string
		rules       []access.Rule
	}{
		{ids: []string{"p/x/y"}, denied: []string{"p.x.y"}},
		{ids: []string{"x/y"}, denied: []string{"p.x.y"}},
		{ids: []string{"p/x/y", "p/x.y"}, denied: []string{"p.p/x.y", "p.p/x/y"}},
		{ids: []string{"x/y", "x.y", "z"}, denied: []string{"p.x.y", "p.x/y"}},
		{ids: []string{"x/y", "p/x/y", "x.y"}, denied: []string{"p.p/x/y", "p.x.y", "p.x/y"}},
		{ids: []string{"xy", "z"}},
		// A rule for the longer name holds when the skill has the shorter one again.
		{ids: []string{"p/x/y"}, denied: []string{"p.x.y"}, rules: []access.Rule{{Principal: "bob", Skills: []string{"p.p/x/y"}}, {Allow: true, Principal: "*", Skills: []string{"p.*"}}}},
		{ids: []string{"p/x/y", "p/x.y"}, denied: []string{"p.p/x.y", "p.p/x/y"}, rules: []access.Rule{{Allow: true, Principal: "*", Skills: []string{"p.x.y"}}}},
		{ids: []string{"x/y", "x.y"}, denied: []string{"p.x/y"}, rules: []access.Rule{{Allow: true, Principal: "*", Skills: []string{"p.x.y"}}}},
	} {
		if tc.rules == nil {
			tc.rules = []access.Rule{{Principal: "bob", Skills: []string{"p.x.y"}}, {Allow: true, Principal: "*", Skills: []string{"p.*"}}}
		}
		c := catalogOf(t, &indexProvider{namespace: "p", ids: tc.ids})
		all, failure := c.List(t.Context(), c.Sections()[0], "bob")
		if failure != nil {
			t.Fatal(failure)
		}
		c.policy = access.New(&access.Rules{List: tc.rules}, c.ownerOf)
		s := c.Sections()[0]
		s.table.Store(c.nameTable(t.Context(), s, s.table.Load().indexes))
		permitted, failure := c.List(t.Context(), s, "bob")
		if failure != nil {
			t.Fatal(failure)
		}
		var denied []string
		for _, e := range all {
			if !slices.ContainsFunc(permitted, func(p Entry) bool { return p.Name == e.Name }) {
				denied = append(denied, e.Name)
			}
			if l, failure := c.Resolve(t.Context(), e.Name, "bob"); failure == nil && l.Name == e.Name && slices.Contains(tc.denied, e.Name) {
				t.Errorf("%v: bob may call %s", tc.ids, e.Name)
			}
		}
		if !slices.Equal(denied, tc.denied) {
			t.Errorf("%v: denied are %v, want %v", tc.ids, denied, tc.denied)
		}
	}
}
