package findings_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/command/findings"
	"github.com/skill-bridge/caddy-skill-bridge/translate/inspection"
)

// TestHeldChange: a change that waits for approval is a warning with what has changed, and how to approve it.
func TestHeldChange(t *testing.T) {
	found := findings.Of(1, []inspection.Source{{
		Namespace: "acme", Skills: []inspection.Skill{{Name: "acme.a", Tool: "acme_a"}, {Name: "acme.b", Tool: "acme_b", Changed: []string{"description", "endpoint"}}},
	}})
	last := found[len(found)-1]
	if len(found) != 2 || last.Result != findings.Warning || last.Skill != "acme.b" || !strings.Contains(last.What, "(description, endpoint)") || !strings.HasSuffix(last.Fix, "caddy skill-bridge approve") {
		t.Errorf("%+v", found)
	}
}

// TestNoToolName: a skill that fronts can't name is a warning.
func TestNoToolName(t *testing.T) {
	found := findings.Of(1, []inspection.Source{{Namespace: "acme", Skills: []inspection.Skill{{Name: "acme.a"}}}})
	if last := found[len(found)-1]; last.Result != findings.Warning || last.Skill != "acme.a" || !strings.Contains(last.What, "no tool name") || last.Fix != "give it an alias" {
		t.Errorf("%+v", found)
	}
}
