package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R47: a registry lists the skills of many, so what one of them gets wrong costs only
// its own entry: invalid ones and second ones are left out, with a warning that names
// them, and the admin API, which is what the command status asks, shows them.
func TestR47RegistryWithBadEntries(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/one"}, hostile.Skill{ID: "acme/two"})
	entry := func(id, more string) string {
		return fmt.Sprintf(`{"id":%q,"name":"n","description":"d","version":"1.0.0","capability_type":"api","access":"public","descriptor_url":%q%s}`, id, p.URLOf(id, hostile.Descriptor), more)
	}
	bad := []string{
		`7`, `null`, `{}`, `{"id":"acme/lone"}`, strings.Replace(entry("acme/url", ""), "http://", "file://", 1),
		strings.Replace(entry("acme/version", ""), `"1.0.0"`, `1`, 1), entry(strings.Repeat("x", 600), ""),
		entry("acme/one", ""), strings.Replace(entry("acme/one", ""), "descriptors", "elsewhere", 1),
	}
	p.On("", hostile.Registry, hostile.Respond(http.StatusOK, `{"skills":[`+entry("acme/one", "")+","+strings.Join(bad, ",")+","+entry("acme/two", "")+`]}`))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("registry "+p.URLOf("", hostile.Registry)+" {", "\tnamespace all", "}"))
	if names := c.Names(); !slices.Equal(names, []string{"all.acme.one", "all.acme.two"}) {
		t.Errorf("the names are %q", names)
	}
	for _, name := range []string{"all.acme.one", "all.acme.two"} {
		a := c.Execute(name, nil)
		want{outcome: "completed"}.check(t, a)
	}
	if lines := c.Log.Lines("entries of a registry are ignored", fmt.Sprintf(`"count":%d`, len(bad)), "/skills/1 must be an object", "must be"); len(lines) != 1 {
		t.Errorf("%d warnings", len(lines))
	}
	status := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/skills", "").Body)
	for _, text := range []string{
		fmt.Sprintf(`"left_out":[{"bridge":1,"namespace":"all","count":%d,"entries":[{"path":"/skills/1","message":"must be an object"}`, len(bad)),
		`{"id":"acme/one","path":"/skills/8/id","message":"must be unique, but /skills/0/id is the same"}`,
	} {
		if !strings.Contains(status, text) {
			t.Errorf("the status has no %s: %s", text, status)
		}
	}
}
