package translate_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is wrong with skills takes a bounded room, however many there are and whatever
// they say; the newest are known.
func TestFaultsAreBounded(t *testing.T) {
	const skills = 1200
	p, s := weather(t, nil)
	s.Faults = new(translate.Faults)
	id := func(n int) string { return fmt.Sprintf("acme/%04d-%s", n, strings.Repeat("x", 200)) }
	var entries []any
	for n := range skills {
		entries = append(entries, object{
			"id": id(n), "name": "n", "capability_type": "api", "description": "d", "descriptor_url": fmt.Sprintf("%s/broken?n=%d", p.URL, n), "access": "public", "version": "1.0.0",
		})
	}
	p.on("GET /.well-known/skill-sharing", answerJSON(200, object{"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": entries}))
	p.on("GET /broken", answerJSON(http.StatusForbidden, object{"error": object{"code": "PERMISSION_DENIED", "message": strings.Repeat("no ", 1000), "details": object{"a": strings.Repeat("b", 900)}}}))
	bridge := newBridge(t, s)
	for n := range skills {
		c := call(`{"city":"x"}`)
		c.Name = id(n)
		if o := bridge.Start(t.Context(), c).Wait(); o.Failure == nil || o.Failure.Kind != run.PermissionDenied {
			t.Fatalf("%+v", o.Failure)
		}
	}
	faults, bytes := s.Faults.Size()
	if faults < 300 || bytes > 1<<20 {
		t.Errorf("%d faults in %d bytes", faults, bytes)
	}
	known := 0
	list, _ := bridge.Inventory(t.Context())
	for _, skill := range list {
		if skill.Fault != nil {
			known++
		}
		if skill.ID == id(skills-1) && (skill.Fault == nil || skill.Fault.Kind != run.PermissionDenied || len(skill.Fault.Message) > 600) {
			t.Errorf("the last one: %+v", skill.Fault)
		}
	}
	if known != faults {
		t.Errorf("%d are shown of %d", known, faults)
	}

	// What is gone is forgotten.
	p.publish()
	bridge.Purge(t.Context(), "acme", "")
	bridge.Inventory(t.Context())
	if faults, bytes := s.Faults.Size(); faults+bytes != 0 {
		t.Errorf("%d faults in %d bytes of skills that are gone", faults, bytes)
	}
}

// Runs of skills that a descriptor does not describe any more say nothing about the
// skill that it describes now.
func TestFaultsOfRuns(t *testing.T) {
	p, s := weather(t, nil)
	s.Kind, s.Namespace, s.URL = translate.SkillSource, "forecast", s.URL.JoinPath("skills/0.json")
	s.Faults = new(translate.Faults)
	p.publish(p.descriptor("acme/weather", nil))
	bridge := newBridge(t, s)
	for n := range 10 {
		o := bridge.Resume(t.Context(), run.Ref{Source: "forecast", SkillID: fmt.Sprintf("acme/old%d", n), ExecutionID: "e"}, translate.Call{}).Wait()
		if o.Failure == nil || !strings.Contains(o.Failure.Message, "describes another skill") {
			t.Fatalf("%+v", o.Failure)
		}
	}
	if faults, _ := s.Faults.Size(); faults != 0 {
		t.Errorf("%d faults", faults)
	}
}
