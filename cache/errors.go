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

// FailureError is a failure that is remembered: until RetryAt the origin is not
// asked again. It unwraps to the failure.
type FailureError struct {
	Err      error
	RetryAt  time.Time // from then on the origin is asked again
	Repeated bool      // it happened before, and the origin was not asked this time
}

// Error is the failure's text and, if the origin was not asked, until when it is
// remembered.
func (e *FailureError) Error() string {
	if !e.Repeated {
		return e.Err.Error()
	}
	return fmt.Sprintf("%v (remembered; the origin is asked again from %s)", e.Err, e.RetryAt.UTC().Format(time.RFC3339))
}

// Unwrap returns the failure.
func (e *FailureError) Unwrap() error { return e.Err }

// OwnError is an error of [Request.Fetch] about the client that asks, and not about the
// document: rules or a circuit breaker of its own refuse the request. No other
// [Request.Owner] gets it, and what is known of the document stays known.
type OwnError struct {
	Err error
	// Passing errors are not remembered: finding out anew costs the origin nothing.
	Passing bool
}

// Error is the text of the error.
func (e *OwnError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *OwnError) Unwrap() error { return e.Err }

// QueuedError says that the context of a caller has ended while its flight waited for
// others of its [Request.Group] to land. It unwraps to the context's error.
type QueuedError struct {
	Err    error
	AtOnce int // how many flights of the group may be in the air
}

// Error says what was waited for.
func (e *QueuedError) Error() string {
	return fmt.Sprintf("%v while %d other documents were being read", e.Err, e.AtOnce)
}

// Unwrap returns the context's error.
func (e *QueuedError) Unwrap() error { return e.Err }

// ParsingError says that the context of a caller has ended when the answer was there, and
// [Request.Parse] had not returned. It unwraps to the context's error.
type ParsingError struct{ Err error }

// Error says what was waited for.
func (e *ParsingError) Error() string { return e.Err.Error() + " while the document was being parsed" }

// Unwrap returns the context's error.
func (e *ParsingError) Unwrap() error { return e.Err }

// PanicError is a panic of [Request.Fetch] or [Request.Parse]. Its text leaves
// the stack out, since errors travel further than logs should.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the goroutine that panicked
}

// Error names the value of the panic.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// redacted is a URL fit for an error's text: user information and queries may hold
// secrets.
func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
