package recent_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// store counts what is stored for each principal.
type store map[string]int

func (s store) Add(_ context.Context, principal string, _ *run.Ref) { s[principal]++ }
func (s store) Has(context.Context, string, *run.Ref) bool          { return false }

// One principal stores a bounded number of canceled runs, so that those of others keep their places; this instance knows the further ones.
func TestCanceledRunsOfOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c recent.Canceled
		s := store{}
		ref := func(i int) *run.Ref { return &run.Ref{Source: "acme", ExecutionID: fmt.Sprint(i)} }
		for i := range recent.MostStored + 50 {
			c.Add(t.Context(), s, "", ref(i))
		}
		c.Add(t.Context(), s, "ada", ref(0))
		if s[""] != recent.MostStored || s["ada"] != 1 {
			t.Errorf("%d of anonymous callers are stored, %d of ada", s[""], s["ada"])
		}
		if c.When(t.Context(), s, "", ref(recent.MostStored+49)).IsZero() || !c.When(t.Context(), s, "ada", ref(1)).IsZero() {
			t.Error("a run that was not stored is forgotten, or another one is known")
		}
		time.Sleep(runtoken.Lifetime)
		c.Add(t.Context(), s, "", ref(-1))
		if s[""] != recent.MostStored+1 {
			t.Error("after their time, the earlier ones still count")
		}
	})
}
