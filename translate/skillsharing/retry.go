package skillsharing

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
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
	return f.dropped && f.Kind == run.Unreachable ||
		f.Kind == run.DeadlineExceeded && (f.HTTPStatus == http.StatusRequestTimeout || f.HTTPStatus == http.StatusGatewayTimeout)
}

// sleep waits for d or until the context ends. It reports whether it waited for d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
