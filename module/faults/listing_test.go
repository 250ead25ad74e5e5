package faults_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R57: an agent that lists the skills learns what each is good for, whatever detail it
// asks for, and from descriptions that are too long what fits a line.
func TestR57ListedSkillsAreDescribed(t *testing.T) {
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/one", EditEntry: func(e hostile.Object) { e["description"] = "Does one\nthing." }},
		hostile.Skill{ID: "acme/two", EditEntry: func(e hostile.Object) { e["description"] = strings.Repeat("long ", 1000) }})
	c := testbed.StartCaddy(t, testbed.Bridge("provider "+p.URL()+" {\n\tnamespace acme\n}"))
	for about, params := range map[string]hostile.Object{"names": {"detail": "names"}, "by default": {}, "summary": {"detail": "summary"}} {
		var list struct{ Skills []hostile.Object }
		if err := json.Unmarshal(c.Call("list_skills", params).Result, &list, json.MatchCaseInsensitiveNames(true)); err != nil || len(list.Skills) != 2 {
			t.Fatalf("%s: %v, %+v", about, err, list)
		}
		if members := len(list.Skills[0]); (members == 5) != (about != "summary") {
			t.Errorf("%s: %d members: %v", about, members, list.Skills[0])
		}
		if got := list.Skills[0]["description"]; got != "Does one thing." {
			t.Errorf("%s: %q", about, got)
		}
		if got, _ := list.Skills[1]["description"].(string); !strings.HasPrefix(got, "long long") || len(got) > 1100 {
			t.Errorf("%s: %d bytes", about, len(got))
		}
	}
}
