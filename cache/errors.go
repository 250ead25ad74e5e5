package cache

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// These errors say how far a flight had come when the context of a caller ended.
var (
	// ErrQueued: it had not started, since AtOnce flights of its group were running.
	ErrQueued = errors.New("other documents were being read")
	// ErrParsing: the answer had arrived, and Parse had not returned.
	ErrParsing = errors.New("the document was being parsed")
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

// FailureError is a failure that is remembered: until RetryAt the origin is not
// asked again.
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
// document: the client's own rules or circuit breaker refuse the request. It is returned
// to requests of the same [Request.Owner] only, and the document stays known.
type OwnError struct {
	Err error
	// Passing errors are not remembered, since trying again costs the origin nothing.
	Passing bool
}

// Error is the text of the error.
func (e *OwnError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *OwnError) Unwrap() error { return e.Err }

// redacted is a URL without its user information and its query, which may hold
// secrets.
func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "(a URL that cannot be parsed)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
