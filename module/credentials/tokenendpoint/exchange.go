// Package tokenendpoint sends requests to OAuth 2.0 token endpoints (RFC 6749, section 3.2), and reads their answers as most clients do.
package tokenendpoint

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Basic is a client that authenticates with HTTP Basic authentication.
type Basic struct{ ID, Secret string }

// IsTemporary reports whether a status means that the token endpoint is overloaded or broken. Only
// with such a status is Retry-After obeyed.
func IsTemporary(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// Exchange sends one token request and records what has happened.
type Exchange struct {
	Transport http.RoundTripper
	Limit     int64         // size of the answer in bytes
	Status    int           // 0: no answer
	Err       error         // of the transport, or of reading the answer
	After     time.Duration // Retry-After; 0: none
}

// Send sends a form as a client and reads the answer. It follows no redirect, which could send the secret to another address.
func (e *Exchange) Send(ctx context.Context, endpoint string, basic *Basic, form url.Values) Answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		e.Err = err
		return Answer{}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic != nil {
		req.SetBasicAuth(url.QueryEscape(basic.ID), url.QueryEscape(basic.Secret)) // RFC 6749, section 2.3.1
	}
	resp, err := e.Transport.RoundTrip(req)
	if err != nil {
		e.Err = err
		return Answer{}
	}
	e.Status = resp.StatusCode
	if IsTemporary(e.Status) {
		e.After = exchange.RetryAfter(resp.Header)
	}
	if resp.StatusCode < http.StatusOK {
		// After 101, the body is the connection, which may never end.
		_ = resp.Body.Close() // its content is not needed
		return Answer{}
	}
	body := e.watch(ctx, http.MaxBytesReader(nil, resp.Body, e.Limit))
	defer body.Close()
	text, _ := io.ReadAll(body) // Err has the error
	return parse(text)
}

// TooLarge reports whether the response exceeded the limit.
func (e *Exchange) TooLarge() bool {
	_, ok := errors.AsType[*http.MaxBytesError](e.Err)
	return ok
}

// watch returns a body that is closed when ctx ends, so that a blocked Read returns.
func (e *Exchange) watch(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	stop := context.AfterFunc(ctx, func() {
		_ = body.Close() // only to end Read
	})
	return &watchedBody{ReadCloser: body, ctx: ctx, unwatch: stop, err: &e.Err}
}

// watchedBody records the error of reading a body.
type watchedBody struct {
	io.ReadCloser
	ctx     context.Context // of the exchange
	unwatch func() bool
	err     *error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if ended := b.ctx.Err(); ended != nil {
		err = ended // instead of the error of a closed body
	}
	*b.err = err
	return n, err
}

func (b *watchedBody) Close() error {
	b.unwatch()
	return b.ReadCloser.Close()
}
