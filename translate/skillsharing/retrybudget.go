package skillsharing

import "sync/atomic"

// RetryBudget bounds how many of the calls to a source may be repeating their
// invocation at a time: without it, a source in trouble gets the more requests
// the less it can serve. It is safe for concurrent use.
type RetryBudget struct {
	share     float64
	calls     atomic.Int64 // in progress
	repeating atomic.Int64 // of them
}

// minRepeating is how many calls may be repeating whatever the share, so that a
// single one can.
const minRepeating = 3

// NewRetryBudget returns a budget that is a share, from 0 to 1, of the calls in
// progress. With 0, nothing is ever repeated; else a few calls always may be.
func NewRetryBudget(share float64) *RetryBudget { return &RetryBudget{share: share} }

// begin counts a call, until its end.
func (b *RetryBudget) begin() spending {
	if b != nil {
		b.calls.Add(1)
	}
	return spending{budget: b}
}

// spending is what one call takes from a budget.
type spending struct {
	budget    *RetryBudget
	repeating bool
}

// mayRepeat reports whether the call may repeat its invocation.
func (s *spending) mayRepeat() bool {
	b := s.budget
	if s.repeating || b == nil {
		return true
	}
	n := b.repeating.Add(1)
	if b.share <= 0 || n > minRepeating && float64(n) > b.share*float64(b.calls.Load()) {
		b.repeating.Add(-1)
		return false
	}
	s.repeating = true
	return true
}

func (s *spending) end() {
	if s.repeating {
		s.budget.repeating.Add(-1)
	}
	if s.budget != nil {
		s.budget.calls.Add(-1)
	}
}
