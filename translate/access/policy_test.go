package access_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/access"
)

// owner is the namespace of names in these tests.
func owner(name string) string {
	namespace, _, found := strings.Cut(name, ".")
	if !found {
		return ""
	}
	return namespace
}

// allowed decides by reading the rules one after the other.
func allowed(rules *access.Rules, principal, namespace string, names ...string) bool {
	for _, r := range rules.List {
		members, isGroup := rules.Groups[r.Principal]
		if isGroup && !slices.Contains(members, principal) || !isGroup && r.Principal != access.Everyone && r.Principal != principal {
			continue
		}
		for _, pattern := range r.Skills {
			if pattern == access.Everyone || namespace != "" && pattern == namespace+".*" || slices.Contains(names, pattern) {
				return r.Allow
			}
		}
	}
	return false
}

// TestFirstMatchDecides compares policies of random rules with reading the rules.
func TestFirstMatchDecides(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	principals := []string{"alice", "bob", "carol", "staff", "*", ""}
	patterns := []string{"*", "a.*", "b.*", "a.one", "a.two", "b.one", "alone", "alias"}
	pick := func(from []string, n int) []string {
		var picked []string
		for range 1 + r.IntN(n) {
			picked = append(picked, from[r.IntN(len(from))])
		}
		return picked
	}
	for range 2000 {
		rules := &access.Rules{Groups: map[string][]string{"staff": pick(principals[:3], 3), "guests": pick(principals[:3], 2)}}
		for range 1 + r.IntN(6) {
			rules.List = append(rules.List, access.Rule{
				Allow: r.IntN(2) == 0, Principal: pick([]string{"alice", "bob", "staff", "guests", "*"}, 1)[0], Skills: pick(patterns, 3),
			})
		}
		p := access.New(rules, owner)
		for _, principal := range principals {
			role := p.Role(principal)
			for _, skill := range [][]string{{"a", "a.one"}, {"a", "a.two", "alias"}, {"a", "a.three"}, {"b", "b.one"}, {"c", "c.one"}, {"", "alone"}} {
				if got, want := role.Allows(skill[0], skill[1:]...), allowed(rules, principal, skill[0], skill[1:]...); got != want {
					t.Fatalf("%+v: %q, %v: %t", rules, principal, skill, got)
				}
				if role.Allows(skill[0], skill[1]) && !role.Reaches(skill[0]) && skill[0] != "" {
					t.Fatalf("%+v: %q may use %v, but not its source", rules, principal, skill)
				}
			}
			if role.Reaches("b") && !allowed(rules, principal, "b") && !allowed(rules, principal, "b", "b.one") {
				t.Fatalf("%+v: %q reaches b", rules, principal)
			}
			for _, other := range principals {
				same := role == p.Role(other)
				if same != (role.ID == p.Role(other).ID) {
					t.Fatalf("%q and %q have roles %d and %d", principal, other, role.ID, p.Role(other).ID)
				}
			}
		}
	}
}

// TestRoles: principals to whom the same rules apply share a role, and those whom no rule names have that of anonymous callers.
func TestRoles(t *testing.T) {
	p := access.New(&access.Rules{
		Groups: map[string][]string{"staff": {"alice", "bob"}},
		List:   []access.Rule{{Allow: true, Principal: "staff", Skills: []string{"a.*"}}, {Allow: true, Principal: "*", Skills: []string{"a.one", "alone"}}},
	}, owner)
	if !p.Distinguishes() || p.Role("alice") != p.Role("bob") || p.Role("alice") == p.Role("carol") {
		t.Error("alice and bob have a role, and carol has another")
	}
	for _, principal := range []string{"", "*", "staff", "unknown"} {
		if p.Role(principal) != p.Role("carol") {
			t.Errorf("%q has a role of its own", principal)
		}
	}
	if names := p.Names("a"); !slices.Equal(names, []string{"a.one"}) || !slices.Equal(p.Names(""), []string{"alone"}) {
		t.Errorf("names of a: %v", names)
	}
	same := access.New(&access.Rules{List: []access.Rule{{Principal: "*", Skills: []string{"*"}}}}, owner)
	if same.Distinguishes() {
		t.Error("the same rules apply to all")
	}
	var none *access.Role
	if !none.Allows("a", "a.one") || !none.Reaches("a") {
		t.Error("without a policy, all skills are allowed")
	}
}

// TestLargePolicy: 10,000 principals in a group share one role.
func TestLargePolicy(t *testing.T) {
	rules := &access.Rules{Groups: map[string][]string{}}
	for i := range 10_000 {
		rules.Groups["staff"] = append(rules.Groups["staff"], fmt.Sprintf("user%d", i))
	}
	for i := range 100 {
		rules.List = append(rules.List, access.Rule{Allow: true, Principal: "staff", Skills: []string{fmt.Sprintf("a.s%d", i)}})
	}
	p := access.New(rules, owner)
	if p.Role("user0") != p.Role("user9999") || !p.Role("user17").Allows("a", "a.s99") || p.Role("other").Reaches("a") {
		t.Error("the group has no role")
	}
}
