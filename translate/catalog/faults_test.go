package catalog

import (
	"fmt"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// A failure of a run of an earlier skill of a descriptor is not stored for the skill that the
// descriptor has now.
func TestFaultsOfRuns(t *testing.T) {
	c := catalogOf(t, &indexProvider{namespace: "forecast"})
	s := c.sections[0]
	s.Kind, s.direct = SkillSource, &Listed{Section: s, Name: "forecast", descriptor: "https://forecast.example/d"}
	for n := range 10 {
		l, failure := c.ByRef(t.Context(), run.Ref{Source: "forecast", SkillID: fmt.Sprintf("acme/old%d", n)}, "")
		if failure != nil {
			t.Fatal(failure)
		}
		if _, failure = c.Read(t.Context(), l, ""); failure == nil || !IsSkillFault(failure) {
			t.Fatalf("%v", failure)
		}
	}
	if !s.Faults.Empty() {
		t.Error("the failure is stored")
	}
}
