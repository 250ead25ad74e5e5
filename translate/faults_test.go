package translate_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Of what is wrong with skills, the newest is known.
func TestFaultsAreBounded(t *testing.T) {
	const skills = 1200
	p, s := weather(t, nil)
	s.Faults = new(faults.Faults)
	id := func(n int) string { return fmt.Sprintf("acme/%04d-%s", n, strings.Repeat("x", 200)) }
	var entries []any
	for n := range skills {
		entries = append(entries, object{
			"id": id(n), "name": "n", "capability_type": "api", "description": "d", "descriptor_url": fmt.Sprintf("%s/broken?n=%d", p.URL, n), "access": "public", "version": "1.0.0",
		})
	}
	p.On("GET /.well-known/skill-sharing", providertest.Answer(200, object{"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": entries}))
	p.On("GET /broken", providertest.Answer(http.StatusForbidden, object{"error": object{"code": "PERMISSION_DENIED", "message": strings.Repeat("no ", 1000), "details": object{"a": strings.Repeat("b", 900)}}}))
	bridge := newBridge(t, s)
	for n := range skills {
		c := call(`{"city":"x"}`)
		c.Name = id(n)
		if o := bridge.Start(t.Context(), c).Wait(); o.Failure == nil || o.Failure.Kind != run.PermissionDenied {
			t.Fatalf("%+v", o.Failure)
		}
	}
	known := 0
	list, _ := bridge.Catalog().Inventory(t.Context())
	for _, skill := range list {
		if skill.Fault != nil {
			known++
		}
		if skill.ID == id(skills-1) && (skill.Fault == nil || skill.Fault.Kind != run.PermissionDenied || len(skill.Fault.Message) > 600) {
			t.Errorf("the last one: %+v", skill.Fault)
		}
	}
	if known < 300 || known == skills {
		t.Errorf("%d are known", known)
	}
}
