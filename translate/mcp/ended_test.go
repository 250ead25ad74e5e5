package mcp

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is known of the end of a run is known for as long as the longest token of it is valid.
func TestEndedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e endedRuns
		key := run.KeyOf("ada", &run.Ref{Source: "acme", SkillID: "acme/sum", ExecutionID: "e1"})
		began := e.sinceWhen(key)
		e.add(key, endedRun{outcome: run.Run{State: run.Completed}})
		time.Sleep(89 * 24 * time.Hour)
		if said, ok := e.said.Find(key); !ok || said.outcome.State != run.Completed || !e.sinceWhen(key).Equal(began) {
			t.Errorf("after 89 days: %+v, %t, since %s", said, ok, e.sinceWhen(key))
		}
	})
}
