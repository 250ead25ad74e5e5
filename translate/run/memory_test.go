package run_test

import (
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// TestRunsOfTwoSkills: a provider may give runs of two skills the same id. What is remembered about one is not told about the other.
func TestRunsOfTwoSkills(t *testing.T) {
	var runs run.Memory[string]
	one, other := run.Ref{Source: "acme", SkillID: "acme/a", ExecutionID: "1"}, run.Ref{Source: "acme", SkillID: "acme/b", ExecutionID: "1"}
	runs.Add(run.KeyOf("", &one), "the output of a", time.Hour)
	if v, ok := runs.Find(run.KeyOf("", &other)); ok {
		t.Errorf("the run of the other skill has %s", v)
	}
	if _, ok := runs.Find(run.KeyOf("", &one)); !ok {
		t.Error("the run is forgotten")
	}
}
