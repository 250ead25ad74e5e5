package cache

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// StatusError is an answer whose status is neither 200 nor, where a condition
// was sent, 304.
type StatusError struct {
	StatusCode int
	Header     http.Header
	URL        string // after redirects
	Body       []byte
}

// Error names the URL, without a password in it, and the status.
func (e *StatusError) Error() string {
	if e.StatusCode == http.StatusNotModified {
		return fmt.Sprintf("GET %s was answered with status 304 Not Modified although the request had no condition", redacted(e.URL))
	}
	return fmt.Sprintf("GET %s was answered with status %d %s", redacted(e.URL), e.StatusCode, http.StatusText(e.StatusCode))
}

// trouble reports whether the status says that the origin, rather than the
// document, is in a bad way.
func (e *StatusError) trouble() bool {
	return e.StatusCode >= 500 || e.StatusCode == http.StatusTooManyRequests
}

// NegativeHitError is a failure that happened before and is remembered: the origin
// was not asked. It unwraps to that failure.
type NegativeHitError struct {
	Err     error     // the failure, as it was first returned
	RetryAt time.Time // from then on the origin is asked again
}

// Error is the failure's text and until when it is remembered.
func (e *NegativeHitError) Error() string {
	return fmt.Sprintf("%v (remembered; the origin is asked again from %s)", e.Err, e.RetryAt.UTC().Format(time.RFC3339))
}

// Unwrap returns the failure.
func (e *NegativeHitError) Unwrap() error { return e.Err }

// PanicError is a panic of [Request.Fetch] or [Request.Parse]. Its text leaves
// the stack out, since errors travel further than logs should.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error names the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// redacted is a URL fit for an error's text.
func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	return u.Redacted()
}
