package exchange

import "sync/atomic"

// RetryBudget bounds how many calls to a source repeat their
// invocation at a time: without it, an overloaded source gets even more
// requests. It is safe for concurrent use.
type RetryBudget struct {
	share     float64
	calls     atomic.Int64 // in progress
	repeating atomic.Int64 // of them
}

// minRepeating is how many calls may repeat at a time if the share is not 0, so that a
// single call can.
const minRepeating = 3

// NewRetryBudget returns a budget of a share, from 0 to 1, of the calls in
// progress. With 0, no call repeats; else a few calls always may.
func NewRetryBudget(share float64) *RetryBudget { return &RetryBudget{share: share} }

// Begin counts a call, until its end.
func (b *RetryBudget) Begin(call *Spending) {
	call.budget = b
	if b != nil {
		b.calls.Add(1)
	}
}

// Spending is the part of one call in a budget.
type Spending struct {
	budget *RetryBudget
	may    bool         // repeat its invocation
	state  atomic.Int32 // of the call; the transport may still write when it has ended
}

// States of a call.
const (
	callOnce int32 = iota
	callRepeating
	callEnded
)

// repeat notes that the call repeats its invocation, whether it may or not. It reports
// whether it had not noted that before.
func (s *Spending) repeat() bool {
	if s.budget == nil || !s.state.CompareAndSwap(callOnce, callRepeating) {
		return false
	}
	s.budget.repeating.Add(1)
	return true
}

// MayRepeat reports whether the call may repeat its invocation.
func (s *Spending) MayRepeat() bool {
	b := s.budget
	if s.may || b == nil {
		return true
	}
	noted := s.repeat()
	n := b.repeating.Load()
	s.may = b.share > 0 && (n <= minRepeating || float64(n) <= b.share*float64(b.calls.Load()))
	if noted && !s.may {
		s.state.Store(callOnce)
		b.repeating.Add(-1)
	}
	return s.may
}

// End ends a call, if it has begun.
func (s *Spending) End() {
	if s == nil || s.budget == nil {
		return
	}
	if s.state.Swap(callEnded) == callRepeating {
		s.budget.repeating.Add(-1)
	}
	s.budget.calls.Add(-1)
}
