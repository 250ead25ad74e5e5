package recent_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// What is known of the end of a run is known for as long as the longest token of it is valid.
func TestEndedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e recent.Ended[int]
		key := recent.KeyOf("ada", &run.Ref{Source: "acme", SkillID: "acme/sum", ExecutionID: "e1"})
		began := e.Since(key)
		e.Add(key, 3)
		time.Sleep(89 * 24 * time.Hour)
		if said, ok := e.Find(key); !ok || said != 3 || !e.Has(key) || !e.Since(key).Equal(began) {
			t.Errorf("after 89 days: %d, %t, since %s", said, ok, e.Since(key))
		}
	})
}
