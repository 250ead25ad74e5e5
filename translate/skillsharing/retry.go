package skillsharing

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// failedAttempt is why one request did not start a run, and whether it can have
// reached the provider.
type failedAttempt struct { //nolint:errname // as the failure that it is made of
	*run.Failure
	dropped bool          // no answer came
	written bool          // the request may have arrived
	after   time.Duration // the provider asks not to try again before
}

// neverWritten reports whether nothing of the request has left: then the provider
// has nothing to do with it, and repeating it costs it nothing.
func (f *failedAttempt) neverWritten() bool { return f.dropped && !f.written }

// Limits of what a descriptor can make the bridge do.
const (
	maxAttempts     = 10
	minRetryDelay   = 10 * time.Millisecond
	maxRetryDelay   = 30 * time.Second
	dialAttempts    = 3 // a request that was never written is repeated twice in any case
	dialRetryDelay  = 25 * time.Millisecond
	retryRandomness = 0.2 // of a delay, so that callers do not come back together
)

// retryDelay says whether another attempt is in order after the given number of
// attempts, and how long to wait before.
func (s *Skill) retryDelay(f *failedAttempt, attempts int) (time.Duration, bool) {
	if f.Refused != "" || f.Expired() && f.By == run.Bridge {
		return 0, false
	}
	if _, open := errors.AsType[*circuitOpenError](f.Cause); open {
		return 0, false
	}
	neverWritten := f.neverWritten()
	limit, initial := 1, dialRetryDelay
	if consent := s.Endpoint.Retry; consent != nil && (neverWritten || s.mayRepeat(f)) {
		limit = int(min(consent.MaxAttempts, maxAttempts))
		initial = max(milliseconds(consent.BackoffMS), minRetryDelay)
	}
	if neverWritten {
		limit = max(limit, dialAttempts)
	}
	if attempts >= limit {
		return 0, false
	}
	delay := exponential(min(initial, maxRetryDelay), 2, maxRetryDelay)
	for range attempts - 1 {
		delay.NextBackOff()
	}
	return max(delay.NextBackOff(), f.after), true
}

// mayRepeat reports whether a provider's consent covers this failure: its answer
// said that it was too busy, or the method is idempotent (RFC 9110, section 9.2.2).
func (s *Skill) mayRepeat(f *failedAttempt) bool {
	if slices.Contains([]int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable}, f.HTTPStatus) {
		return f.Kind == run.RateLimited || f.Kind == run.Unreachable
	}
	if s.Endpoint.Method == http.MethodPost {
		return false
	}
	return f.dropped && f.Kind == run.Unreachable ||
		f.Kind == run.DeadlineExceeded && (f.HTTPStatus == http.StatusRequestTimeout || f.HTTPStatus == http.StatusGatewayTimeout)
}

// exponential is a randomised exponential back-off.
func exponential(initial time.Duration, multiplier float64, longest time.Duration) *backoff.ExponentialBackOff {
	b := &backoff.ExponentialBackOff{InitialInterval: initial, Multiplier: multiplier, MaxInterval: longest, RandomizationFactor: retryRandomness / 2}
	b.Reset()
	return b
}

// pause waits, unless the context would end before. It reports whether it waited.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	return sleep(ctx, d)
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

// milliseconds converts a document's number, which may be anything, to a
// duration that does not overflow.
func milliseconds(ms float64) time.Duration {
	if math.IsNaN(ms) || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, float64(math.MaxInt64/int64(time.Millisecond)/2)) * float64(time.Millisecond))
}

// suggestedDelay is when to try again at the earliest, by the provider or the bridge; 0:
// neither says.
func suggestedDelay(f *run.Failure) time.Duration {
	retry := f.Says().Retry
	switch {
	case retry == nil && f.Retry != nil:
		return f.Retry.After
	case retry.Kind() != '{':
		return 0
	}
	var r struct {
		Delay jsontext.Value `json:"suggested_delay_ms"`
	}
	if err := json.Unmarshal(retry, &r); err != nil || r.Delay.Kind() != '0' {
		return 0
	}
	ms, err := strconv.ParseFloat(string(r.Delay), 64)
	if err != nil {
		return 0
	}
	return min(milliseconds(ms), maxRetryAfter)
}

// maxRetryAfter bounds what a provider can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the field of RFC 9110, section 10.2.3: seconds or a date.
// 0 if there is none that makes sense.
func retryAfter(h http.Header) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, _ := strconv.ParseUint(value, 10, 32) // the largest there is if that is out of range
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	date, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(0, time.Until(date)), maxRetryAfter)
}

// RetryAfter reads the field of RFC 9110, section 10.2.3. It is 0 if there is none
// that makes sense.
func RetryAfter(h http.Header) time.Duration { return retryAfter(h) }
