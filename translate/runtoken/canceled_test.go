package runtoken_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
)

// store has room for one run.
type store struct {
	principal string
	ref       run.Ref
	at        time.Time
}

func (s *store) Add(_ context.Context, principal string, ref *run.Ref) *run.Limit {
	if !s.at.IsZero() {
		return &run.Limit{Name: "canceled runs", Max: 1}
	}
	s.principal, s.ref, s.at = principal, *ref, time.Now()
	return nil
}

func (s *store) When(_ context.Context, principal string, ref *run.Ref) time.Time {
	if s.principal != principal || s.ref != *ref {
		return time.Time{}
	}
	return s.at
}

// What the store has no room for is refused, and not forgotten.
func TestCanceledRunsWithoutRoom(t *testing.T) {
	c := runtoken.Canceled{Store: new(store)}
	first, further := &run.Ref{Source: "acme", ExecutionID: "1"}, &run.Ref{Source: "acme", ExecutionID: "2"}
	if ended, f := c.Cancel(t.Context(), "ada", first); ended || f != nil || c.When(t.Context(), "ada", first).IsZero() {
		t.Errorf("ended %t, failure %v", ended, f)
	}
	ended, f := c.Cancel(t.Context(), "ada", further)
	if ended || f == nil || f.Kind != run.RateLimited || f.Limit.Max != 1 || f.Executed != run.ExecutedYes || !c.When(t.Context(), "ada", further).IsZero() {
		t.Errorf("ended %t, failure %v", ended, f)
	}
}

// records are the runs with records, by execution id.
type records map[string]run.State

func (r records) State(_ context.Context, _ string, ref *run.Ref) (run.State, time.Time) {
	return r[ref.ExecutionID], time.Unix(1, 0)
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
	s, kept := new(store), records{"open": run.Working, "ended": run.Completed}
	c := runtoken.Canceled{Store: s, Kept: kept}
	for id, want := range map[string]bool{"open": true, "ended": false, "unknown": true} {
		ref := &run.Ref{Source: "acme", ExecutionID: id, Kept: "record"}
		ended, failure := c.Cancel(t.Context(), "ada", ref)
		other := runtoken.Canceled{Kept: kept}
		if ended == want || failure != nil || c.When(t.Context(), "ada", ref).IsZero() == want || id == "open" && other.When(t.Context(), "ada", ref).IsZero() {
			t.Errorf("%s: ended %t, failure %v", id, ended, failure)
		}
	}
	ref := &run.Ref{Source: "acme", ExecutionID: "unreadable", Kept: "record"}
	if _, f := c.Cancel(t.Context(), "ada", ref); f == nil || f.Kind != run.Internal || f.Retry == nil || !c.When(t.Context(), "ada", ref).IsZero() {
		t.Errorf("the database can't be used: %v", f)
	}
	if s.ref.ExecutionID != "unknown" {
		t.Errorf("%q is stored", s.ref.ExecutionID)
	}
}
