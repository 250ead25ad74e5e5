package skillsharing

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// failedAttempt is why one invocation request did not start a run, and whether
// the request may have reached the provider.
type failedAttempt struct { //nolint:errname // named like the failure in it
	*run.Failure
	dropped bool          // there was no answer
	written bool          // the request may have reached the provider
	after   time.Duration // the least delay that the provider asks for
}

// neverWritten reports whether no part of the request was sent. Repeating such a request
// costs the provider nothing.
func (f *failedAttempt) neverWritten() bool { return f.dropped && !f.written }

// Limits of what a descriptor can make the bridge do.
const (
	maxAttempts     = 10
	minRetryDelay   = 10 * time.Millisecond
	maxRetryDelay   = 30 * time.Second
	dialAttempts    = 3 // attempts with requests that were never written; no consent is needed
	dialRetryDelay  = 25 * time.Millisecond
	retryRandomness = 0.2 // share of a delay that is random, so that callers do not repeat at the same moment
)

// retryDelay returns how long to wait before the next attempt, and whether
// there may be one after so many attempts.
func retryDelay(s *discovery.Skill, f *failedAttempt, attempts int) (time.Duration, bool) {
	if f.Refused != "" || f.Expired() && f.By == run.Bridge {
		return 0, false
	}
	if _, open := errors.AsType[*exchange.CircuitOpenError](f.Cause); open {
		return 0, false
	}
	neverWritten := f.neverWritten()
	limit, initial := 1, dialRetryDelay
	if consent := s.Endpoint.Retry; consent != nil && (neverWritten || mayRepeat(s, f)) {
		limit = int(min(consent.MaxAttempts, maxAttempts))
		initial = max(document.Milliseconds(consent.BackoffMS), minRetryDelay)
	}
	if neverWritten {
		limit = max(limit, dialAttempts)
	}
	if attempts >= limit {
		return 0, false
	}
	delay := float64(min(min(initial, maxRetryDelay)<<(attempts-1), maxRetryDelay))
	return max(time.Duration(delay*(1+retryRandomness*(rand.Float64()-0.5))), f.after), true //nolint:gosec // no secret
}

// mayRepeat reports whether the provider's consent to retries applies to this
// failure: the answer said that the provider was too busy, or the method is
// idempotent (RFC 9110, section 9.2.2).
func mayRepeat(s *discovery.Skill, f *failedAttempt) bool {
	if slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}, f.HTTPStatus) {
		return f.Kind == run.RateLimited || f.Kind == run.Unreachable
	}
	if s.Endpoint.Method == http.MethodPost {
		return false
	}
	return f.dropped && f.Kind == run.Unreachable && (f.HTTPStatus/100 != 4 || f.HTTPStatus == http.StatusRequestTimeout) || // else it was refused
		f.Kind == run.DeadlineExceeded && (f.HTTPStatus == http.StatusRequestTimeout || f.HTTPStatus == http.StatusGatewayTimeout)
}

// RetryBudget bounds how many calls to a source repeat their invocation at a time. Without it, an overloaded source would get even more requests. It is
// safe for concurrent use.
type RetryBudget struct {
	share     float64
	calls     atomic.Int64 // in progress
	repeating atomic.Int64 // those calls in progress that repeat their invocation
}

// minRepeating is how many calls may repeat at a time whatever the share is, unless it is 0. So a single call may repeat.
const minRepeating = 3

// NewRetryBudget returns a budget that lets a share of the calls in progress, from 0 to 1, repeat. With 0, no call may repeat; otherwise at least
// minRepeating calls may.
func NewRetryBudget(share float64) *RetryBudget { return &RetryBudget{share: share} }

// spending is what one call uses of a budget.
type spending struct {
	budget  *RetryBudget
	repeats bool // the call counts as one that repeats its invocation
	may     bool // the budget has permitted it
}

// begin counts a call as in progress until its end.
func (b *RetryBudget) begin() spending {
	if b != nil {
		b.calls.Add(1)
	}
	return spending{budget: b}
}

// repeat counts the call as one that repeats its invocation, even if the budget does not permit it.
func (s *spending) repeat() {
	if s.budget != nil && !s.repeats {
		s.repeats = true
		s.budget.repeating.Add(1)
	}
}

// mayRepeat reports whether the budget permits the call to repeat its invocation.
func (s *spending) mayRepeat() bool {
	b, repeated := s.budget, s.repeats
	if s.may || b == nil {
		return true
	}
	s.repeat()
	n := b.repeating.Load()
	s.may = b.share > 0 && (n <= minRepeating || float64(n) <= b.share*float64(b.calls.Load()))
	if s.repeats = s.may || repeated; !s.repeats {
		b.repeating.Add(-1)
	}
	return s.may
}

// end ends the call.
func (s *spending) end() {
	if s.budget == nil {
		return
	}
	if s.repeats {
		s.budget.repeating.Add(-1)
	}
	s.budget.calls.Add(-1)
}
