package recent_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/recent"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// store counts what is stored for each principal.
type store map[string]int

func (s store) Add(_ context.Context, principal string, _ *run.Ref) *run.Limit {
	s[principal]++
	return nil
}

func (s store) Has(context.Context, string, *run.Ref) bool { return false }

// One principal cancels a bounded number of runs, so that those of others keep their places. A further one is refused, and not forgotten.
func TestCanceledRunsOfOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store{}
		c := recent.Canceled{Store: s}
		ref := func(i int) *run.Ref { return &run.Ref{Source: "acme", ExecutionID: fmt.Sprint(i)} }
		cancel := func(principal string, i int) *run.Failure {
			t.Helper()
			ended, failure := c.Cancel(t.Context(), principal, ref(i))
			if ended || (failure == nil) == c.When(t.Context(), principal, ref(i)).IsZero() {
				t.Errorf("run %d of %q: ended %t, failure %v", i, principal, ended, failure)
			}
			return failure
		}
		for i := range recent.MostStored + 50 {
			f := cancel("", i)
			if refused := i >= recent.MostStored; refused != (f != nil) || refused && (f.Kind != run.RateLimited || f.Limit.Max != recent.MostStored || f.Executed != run.ExecutedYes) {
				t.Fatalf("run %d: %v", i, f)
			}
		}
		if f := cancel("ada", 0); f != nil || s[""] != recent.MostStored || s["ada"] != 1 {
			t.Errorf("%d of anonymous callers are stored, %d of ada; %v", s[""], s["ada"], f)
		}
		time.Sleep(runtoken.Lifetime)
		if f := cancel("", -1); f != nil {
			t.Errorf("after their time, the earlier ones still count: %v", f)
		}
	})
}

// records are the runs with records, by execution id.
type records map[string]run.State

func (r records) State(_ context.Context, _ string, ref *run.Ref) run.State {
	return r[ref.ExecutionID]
}

func (r records) Cancel(_ context.Context, _ string, ref *run.Ref) (run.State, error) {
	if ref.ExecutionID == "unreadable" {
		return 0, errors.New("the database can't be used")
	}
	if state := r[ref.ExecutionID]; state != 0 && !state.Ended() {
		r[ref.ExecutionID] = run.Canceled
	}
	return r[ref.ExecutionID], nil
}

// The record of a run decides whether it is canceled, and takes no place in the store.
func TestCanceledRunsWithRecords(t *testing.T) {
	s, kept := store{}, records{"open": run.Working, "ended": run.Completed}
	c := recent.Canceled{Store: s, Kept: kept}
	for id, want := range map[string]bool{"open": true, "ended": false, "unknown": true} {
		ref := &run.Ref{Source: "acme", ExecutionID: id, Kept: "record"}
		ended, failure := c.Cancel(t.Context(), "ada", ref)
		other := recent.Canceled{Kept: kept}
		if ended == want || failure != nil || c.When(t.Context(), "ada", ref).IsZero() == want || id == "open" && other.When(t.Context(), "ada", ref).IsZero() {
			t.Errorf("%s: ended %t, failure %v", id, ended, failure)
		}
	}
	ref := &run.Ref{Source: "acme", ExecutionID: "unreadable", Kept: "record"}
	if _, f := c.Cancel(t.Context(), "ada", ref); f == nil || f.Kind != run.Internal || f.Retry == nil || !c.When(t.Context(), "ada", ref).IsZero() {
		t.Errorf("the database can't be used: %v", f)
	}
	if s["ada"] != 1 {
		t.Errorf("%d are stored", s["ada"])
	}
}
