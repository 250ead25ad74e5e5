package skillsharing

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
)

// Client talks to one source of skills. It is safe for concurrent use, and must
// not be changed once it is in use.
type Client struct {
	// Source is the namespace that log lines and notices name.
	Source string
	// Origin is the URL that the operator configured.
	Origin *url.URL
	// Audience decides where the credentials may go.
	Audience *Audience
	// Credentials authenticate invocations, status and result requests; nil: none.
	Credentials Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials Credentials
	// Transport carries every request. It must refuse forbidden addresses, with an
	// error that has a method Refused() string, and follow no redirects. It should
	// serve [net/http/httptrace]: a request that fails without GetConn having been
	// called counts as one that may have reached the provider.
	Transport http.RoundTripper
	// Cache keeps documents, apart from those of other partitions.
	Cache     *cache.Cache
	Partition string
	// Caller and Priority travel in every invocation.
	Caller   Caller
	Priority Priority
	// PollInitial is the delay before the first status request, PollMax the longest between two.
	PollInitial, PollMax time.Duration
	// MaxResponseSize bounds every answer after decompression, in bytes.
	MaxResponseSize int64
	// AllowHTTP permits URLs without TLS.
	AllowHTTP bool
	// Observer is told what happens.
	Observer Observer
}

const userAgent = "caddy-skill-bridge"

// exchangeError says why a request has no usable answer.
type exchangeError struct {
	err error
	// written: the request may have reached the provider.
	written bool
	// status of an answer whose body is unusable; 0: there was none.
	status int
}

func (e *exchangeError) Error() string { return e.err.Error() }
func (e *exchangeError) Unwrap() error { return e.err }

var errTooLarge = errors.New("the answer is too large")

// exchange sends one request and reads its answer.
func (c *Client) exchange(phase Phase, req *http.Request) (a *answer, err error) {
	start := time.Now()
	defer func() {
		x := Exchange{Source: c.Source, Phase: phase, Method: req.Method, URL: bareURL(req.URL), Duration: time.Since(start), Err: err}
		if a != nil {
			x.Status = a.status
		}
		c.Observer.Exchange(req.Context(), &x)
	}()
	if err := req.Context().Err(); err != nil {
		return nil, &exchangeError{err: err}
	}
	// A request that never got a connection, or failed before its header was
	// written on one, certainly did not reach the provider. Of a transport that
	// does not even report that it wants a connection, nothing is certain. The
	// transport reports from goroutines of its own, which may outlive RoundTrip.
	var traced, written atomic.Bool
	trace := &httptrace.ClientTrace{
		GetConn:      func(string) { traced.Store(true) },
		WroteHeaders: func() { written.Store(true) },
	}
	resp, err := c.Transport.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err != nil {
		return nil, &exchangeError{err: err, written: written.Load() || !traced.Load() && !dialFailure(err)}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.MaxResponseSize+1))
	if int64(len(body)) > c.MaxResponseSize {
		return nil, &exchangeError{fmt.Errorf("%w: more than %d bytes", errTooLarge, c.MaxResponseSize), true, resp.StatusCode}
	}
	if err != nil {
		return nil, &exchangeError{err: err, written: true}
	}
	return &answer{resp.StatusCode, resp.Header, body}, nil
}

// request makes a request with everything but a credential.
func (c *Client) request(ctx context.Context, method string, u *url.URL, header http.Header, body []byte) *http.Request {
	own := *u // the URL is shared by concurrent calls; whoever gets the request may write to its own
	req := (&http.Request{
		Method: method, URL: &own, Host: u.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if body != nil {
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		// Lets the transport repeat a request that it could not write on a stale connection.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return req
}

// permitted says whether a URL may be requested at all; where its host may lie
// is for the transport to judge when it dials.
func (c *Client) permitted(u *url.URL, phase Phase) *Error {
	if u.Scheme == "https" || c.AllowHTTP {
		return nil
	}
	return &Error{
		Code: EndpointUnreachable, Phase: phase, Source: SourceBridge, Executed: ExecutedNo, Hint: HintRefused,
		Message: "The provider's URL is without TLS, which this bridge does not allow.",
		Details: mustMarshal(map[string]any{"url": bareURL(u), "reason": "plain http is not allowed"}),
	}
}

// unreachable turns the failure of an exchange into an Error.
func (c *Client) unreachable(err error, phase Phase, u *url.URL, executionID string) *Error {
	e := &Error{Phase: phase, Source: SourceBridge, ExecutionID: executionID, Executed: ExecutedNo, URL: bareURL(u), Cause: err}
	reason, refused := reasonOf(err)
	failed, ok := errors.AsType[*exchangeError](err)
	if ok && failed.written && !refused && phase == PhaseInvoke {
		e.Executed = ExecutedMaybe
	}
	if executionID != "" {
		e.Executed = ExecutedYes
	}
	if ok && errors.Is(err, errTooLarge) {
		e.Code, e.HTTPStatus, e.Executed = InvalidProviderResponse, failed.status, executed(failed.status, phase)
		e.Message = fmt.Sprintf("The provider's answer is larger than the %d bytes that are accepted.", c.MaxResponseSize)
		return e
	}
	e.Code = EndpointUnreachable
	e.Message = fmt.Sprintf("The provider can't be reached: %s.", reason)
	e.Details = mustMarshal(map[string]any{"url": bareURL(u), "reason": reason})
	if refused {
		e.Hint = HintRefused
	} else {
		e.Retry = suggestRetry(unreachableDelay, 3)
	}
	return e
}

// What callers are told to wait before they try again, as in the examples of
// section 8.3.
const (
	unreachableDelay = 2 * time.Second
	timeoutDelay     = time.Second
)

// interrupted is the Error of a call whose context has ended.
func interrupted(ctx context.Context, phase Phase, executionID string, e Executed) *Error {
	message := "The deadline passed before the skill had finished."
	if errors.Is(ctx.Err(), context.Canceled) {
		message = "The caller went away before the skill had finished."
	}
	return &Error{
		Code: InvocationTimeout, Message: message, Phase: phase, Source: SourceBridge, ExecutionID: executionID,
		Executed: e, Retry: suggestRetry(timeoutDelay, 3), Cause: ctx.Err(),
	}
}

// reasonOf names why there is no answer, in words that tell nothing about
// addresses, and whether it was the bridge that refused to ask.
func reasonOf(err error) (reason string, refused bool) {
	var rule interface{ Refused() string }
	if errors.As(err, &rule) {
		return rule.Refused(), true
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "its host name does not exist", false
		}
		return "its host name can't be resolved", false
	}
	if certificateError(err) {
		return "its TLS certificate is not valid", true
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.reason, false
		}
	}
	var netErr net.Error
	switch text := err.Error(); {
	case errors.As(err, &netErr) && netErr.Timeout():
		return "it did not answer in time", false
	case strings.Contains(text, "tls: "):
		return "the TLS handshake failed", false
	case strings.Contains(text, "malformed HTTP"), strings.Contains(text, "server gave HTTP response to HTTPS client"):
		return "it does not speak HTTP as expected", false
	}
	return "the connection failed", false
}

var reasons = []struct {
	err    error
	reason string
}{
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.ECONNRESET, "connection reset"},
	{syscall.EPIPE, "connection reset"},
	{syscall.EHOSTUNREACH, "no route to its host"},
	{syscall.ENETUNREACH, "no route to its network"},
	{context.DeadlineExceeded, "it did not answer in time"},
	{io.ErrUnexpectedEOF, "the connection was dropped"},
	{io.EOF, "the connection was dropped"},
}

// dialFailure reports an error that there can be only before a connection is used.
func dialFailure(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// certificateError reports a certificate that no repetition will make valid.
func certificateError(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}

// bareURL is a URL without what may be secret in it.
func bareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
