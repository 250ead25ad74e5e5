package skillsharing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Invocation is what is asked of a skill (section 5.3).
type Invocation struct {
	// Inputs is a JSON object, sent as it is; nil is an empty one.
	Inputs jsontext.Value
	// TraceID is sent as context.trace_id.
	TraceID string
	// Timeout is sent as context.timeout_ms. The deadline itself is the context's.
	Timeout time.Duration
}

// Effort counts the requests that a run takes.
type Effort struct {
	Attempts int // to the invocation endpoint
	Polls    int // to the status and result URLs
}

// Submit invokes a skill and returns the provider's first answer, which may be
// the last. It repeats the request only where nothing can have been executed,
// or where the provider consents and the method allows it. It does not wait for
// the run.
func (c *Client) Submit(ctx context.Context, s *Skill, inv *Invocation, effort *Effort) (*Response, *Error) {
	if e := c.judgeURLs(ctx, s); e != nil {
		return nil, c.finish(s, e)
	}
	u, body, err := c.invocation(s, inv)
	if err != nil {
		return nil, c.finish(s, &Error{
			Code: ValidationError, Message: "The arguments can't be sent: " + err.Error(), Phase: PhaseInvoke, Source: SourceBridge,
			Executed: ExecutedNo, Arguments: &ArgumentError{Param: "args", Reason: "schema"},
		})
	}
	renewed, executed := false, ExecutedNo
	fail := func(e *Error) (*Response, *Error) {
		if executed == ExecutedMaybe { // by an earlier attempt
			e.Executed = ExecutedMaybe
		}
		return nil, c.finish(s, e)
	}
	for attempt := 1; ; attempt++ {
		req, e := c.skillRequest(ctx, s, s.Endpoint.Method, u, body)
		if e != nil {
			return fail(e)
		}
		preventReplay(req)
		effort.Attempts++
		r, failed := c.submitOnce(ctx, s, req)
		if failed == nil {
			return r, nil
		}
		if failed.Executed != ExecutedNo {
			executed = ExecutedMaybe
		}
		if failed.HTTPStatus == http.StatusUnauthorized && !renewed {
			renewed = true
			again, e := c.renew(ctx, s, req)
			if e != nil {
				return fail(e)
			}
			if again {
				attempt--
				continue
			}
		}
		delay, ok := s.retryDelay(failed, attempt)
		if !ok || !pause(ctx, delay) {
			return fail(failed.Error)
		}
	}
}

// preventReplay keeps net/http from repeating a request by itself when a
// connection is dropped after it was written: an invocation is repeated by the
// provider's consent only. Package net/http repeats a GET, and whatever has one
// of two headers, which a descriptor may choose for its API key; but nothing with
// a body that can't be read again, even if that is found empty and so is not sent.
func preventReplay(req *http.Request) {
	switch {
	case req.Body == nil:
		req.Body = io.NopCloser(bytes.NewReader(nil))
	case req.Header["Idempotency-Key"] != nil, req.Header["X-Idempotency-Key"] != nil:
		req.GetBody = nil
	}
}

// failedAttempt is why one request did not start a run, and whether it can have
// reached the provider.
type failedAttempt struct {
	*Error
	dropped bool          // no answer came
	written bool          // the request may have arrived
	after   time.Duration // the provider asks not to try again before
}

// submitOnce makes one attempt.
func (c *Client) submitOnce(ctx context.Context, s *Skill, req *http.Request) (*Response, *failedAttempt) {
	a, err := c.exchange(PhaseInvoke, req)
	if err != nil {
		failed, ok := errors.AsType[*exchangeError](err)
		written := ok && failed.written
		if ctx.Err() != nil {
			executed := ExecutedNo
			if written {
				executed = ExecutedMaybe
			}
			return nil, &failedAttempt{Error: interrupted(ctx, PhaseInvoke, "", executed), written: written}
		}
		return nil, &failedAttempt{Error: c.unreachable(err, PhaseInvoke, req.URL, ""), dropped: true, written: written}
	}
	r, e := judge(a, PhaseInvoke, "")
	if e != nil {
		return nil, &failedAttempt{Error: e, written: true, after: max(retryAfter(a.header), suggestedDelay(e.Retry))}
	}
	if r.SkillID != "" && r.SkillID != s.ID {
		c.Observer.Notice(ctx, &Notice{
			Level: slog.LevelDebug, Source: c.Source, Message: "the provider answered an invocation under another skill_id",
			Attrs: []slog.Attr{slog.String("skill_id", s.ID), slog.String("answered", clip(c.scrubText(r.SkillID), 200))},
		})
	}
	return r, nil
}

// finish completes an error with what is known of the skill, and removes secrets.
func (c *Client) finish(s *Skill, e *Error) *Error {
	e.SkillID = s.ID
	s.completeAuthDetails(e)
	e.scrub(c.Credentials, c.DiscoveryCredentials)
	return e
}

// skillRequest makes an authenticated request to one of a skill's URLs.
func (c *Client) skillRequest(ctx context.Context, s *Skill, method string, u *url.URL, body []byte) (*http.Request, *Error) {
	header := http.Header{"Accept": {"application/json"}, "User-Agent": {userAgent}}
	if body != nil {
		contentType := s.Endpoint.ContentType
		if contentType == "" {
			contentType = "application/json"
		}
		header["Content-Type"] = []string{contentType}
	}
	req := c.request(ctx, method, u, header, body)
	if e := c.permitted(u, PhaseInvoke); e != nil {
		return nil, e
	}
	return req, c.authenticate(ctx, s, req, body)
}

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
	if f.Hint == HintRefused || f.Code == InvocationTimeout && f.Source == SourceBridge {
		return 0, false
	}
	neverWritten := f.dropped && !f.written
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
		return f.Code == RateLimited || f.Code == EndpointUnreachable
	}
	if s.Endpoint.Method == http.MethodPost {
		return false
	}
	return f.dropped && f.Code == EndpointUnreachable ||
		f.Code == InvocationTimeout && (f.HTTPStatus == http.StatusRequestTimeout || f.HTTPStatus == http.StatusGatewayTimeout)
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

// suggestedDelay reads suggested_delay_ms of a retry member.
func suggestedDelay(retry jsontext.Value) time.Duration {
	if retry.Kind() != '{' {
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

// invocation builds the URL and body of an invocation: an InvocationRequest, or
// the inputs in the query where the method has no body.
func (c *Client) invocation(s *Skill, inv *Invocation) (*url.URL, []byte, error) {
	inputs := inv.Inputs
	if inputs == nil {
		inputs = jsontext.Value("{}")
	}
	if !s.sendsBody() {
		u, err := withQuery(s.endpoint, inputs)
		return u, nil, err
	}
	body := make([]byte, 0, len(inputs)+len(s.ID)+len(c.Caller.ID)+256)
	body = append(body, `{"caller":{"id":`...)
	body = appendString(body, c.Caller.ID)
	body = append(body, `,"type":`...)
	body = appendString(body, c.Caller.Type)
	body = append(body, `},"skill_id":`...)
	body = appendString(body, s.ID)
	body = append(body, `,"inputs":`...)
	body = append(body, inputs...)
	body = append(body, `,"context":{"trace_id":`...)
	body = appendString(body, inv.TraceID)
	body = append(body, `,"priority":`...)
	body = appendString(body, string(c.Priority))
	body = append(body, `,"timeout_ms":`...)
	body = strconv.AppendInt(body, max(1, inv.Timeout.Milliseconds()), 10)
	return s.endpoint, append(body, "}}"...), nil
}

// appendString appends a JSON string. What can't be encoded is replaced.
func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}

// withQuery adds inputs to a URL's query: strings as they are, other values as
// compact JSON.
func withQuery(u *url.URL, inputs jsontext.Value) (*url.URL, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(inputs), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	query := u.RawQuery
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := url.QueryEscape(name.String())
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		plain, ok := text(value)
		if !ok {
			value = value.Clone()
			if err := value.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
				return nil, err
			}
			plain = string(value)
		}
		if query != "" {
			query += "&"
		}
		query += key + "=" + url.QueryEscape(plain)
	}
	extended := *u
	extended.RawQuery = query
	return &extended, nil
}
