package exchange

import "sync/atomic"

// RetryBudget bounds how many calls to a source repeat their invocation at a
// time. Without it, an overloaded source would get even more requests. It is
// safe for concurrent use.
type RetryBudget struct {
	share     float64
	calls     atomic.Int64 // in progress
	repeating atomic.Int64 // those calls in progress that repeat their invocation
}

// minRepeating is how many calls may repeat at a time whatever the share is, unless it
// is 0. So a single call may repeat.
const minRepeating = 3

// NewRetryBudget returns a budget that lets a share of the calls in progress,
// from 0 to 1, repeat. With 0, no call may repeat; otherwise at least
// minRepeating calls may.
func NewRetryBudget(share float64) *RetryBudget { return &RetryBudget{share: share} }

// Begin counts a call as in progress until [Spending.End].
func (b *RetryBudget) Begin(call *Spending) {
	call.budget = b
	if b != nil {
		b.calls.Add(1)
	}
}

// Spending is what one call uses of a budget.
type Spending struct {
	budget *RetryBudget
	may    bool         // the budget has permitted the repetition
	state  atomic.Int32 // of the call; atomic because the transport may still write after the end of the call
}

// States of a call.
const (
	callOnce int32 = iota
	callRepeating
	callEnded
)

// repeat counts the call as one that repeats its invocation, even if the budget does
// not permit it. It returns false if the call is already counted, or has ended.
func (s *Spending) repeat() bool {
	if s.budget == nil || !s.state.CompareAndSwap(callOnce, callRepeating) {
		return false
	}
	s.budget.repeating.Add(1)
	return true
}

// MayRepeat reports whether the budget permits the call to repeat its invocation.
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
