package skillsharing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
	// Anonymous keeps invocations, status and result requests from showing who calls, also by a client certificate of the
	// transport: those of a registry's skills that no provider lists.
	Anonymous bool
	// Credentials authenticate invocations, status and result requests; nil: none.
	Credentials Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials Credentials
	// Transport carries every request. It must refuse forbidden addresses, with an
	// error that has a method Refused() string, and Passing() bool if that may be
	// otherwise the next time; follow no redirects; and end reading
	// a body with the request's context, as package net/http does but for an answer
	// 101 (Switching Protocols), which therefore must be refused, too. It should
	// serve [net/http/httptrace]: a request that fails without GetConn having been
	// called counts as one that may have reached the provider. A client certificate
	// may be shown only to a host of which [MayIdentify] says so.
	Transport http.RoundTripper
	// Cache keeps documents, apart from those of other partitions.
	Cache     *cache.Cache
	Partition string
	// Caller and Priority travel in every invocation.
	Caller   Caller
	Priority Priority
	// Polling says when the state of a run is asked for.
	Polling Polling
	// PreferWait is for how long the provider is asked to hold answers back until a run has ended, in whole seconds
	// (RFC 7240, section 4.3); 0: it is not. A provider that does not say that it does is not asked for long.
	PreferWait time.Duration
	// MaxResponseSize bounds every answer after decompression, in bytes.
	MaxResponseSize int64
	// Limits bounds the rest of what is read.
	Limits Limits
	// Breakers keep requests from hosts that are in trouble; nil: none is kept.
	Breakers *Breakers
	// RetryBudget bounds the share of calls that may be repeating their invocation; nil: all may.
	RetryBudget *RetryBudget
	// AllowHTTP permits URLs without TLS.
	AllowHTTP bool
	// Observer is told what happens.
	Observer Observer

	constants  atomic.Pointer[constant]
	preference preference
	followers  followers
}

const userAgent = "caddy-skill-bridge"

// exchangeError says why a request has no usable answer.
type exchangeError struct {
	err error
	// written: the request may have reached the provider. That is known of invocations only.
	written bool
	// status of an answer that is unusable; 0: there was none.
	status int
	// malformed says what is wrong with what came, if it is no HTTP answer, or its body is not what its header says.
	malformed string
}

func (e *exchangeError) Error() string { return e.err.Error() }
func (e *exchangeError) Unwrap() error { return e.err }

// Permanent reports whether the error is a judgement and no passing trouble, so
// that an old document must not be used instead.
func (e *exchangeError) Permanent() bool {
	if _, refused := refusal(e.err); refused {
		var passing interface{ Passing() bool }
		return !errors.As(e.err, &passing) || !passing.Passing()
	}
	return e.malformed != "" || errors.Is(e.err, errTooLarge)
}

// outgoing is a request on its way and what is known of it. All that takes memory
// is made in one piece.
type outgoing struct {
	http.Request
	context requestContext
	url     url.URL // its own: the one that it was made of is shared by concurrent calls
	body    bytes.Reader

	// Of an invocation has to be known whether it may have been executed. A request
	// that never got a connection, or failed before its header was written on one,
	// certainly did not reach the provider. Of a transport that does not even report
	// that it wants a connection, nothing is certain. The transport reports from
	// goroutines of its own, which may outlive RoundTrip.
	trace  httptrace.ClientTrace
	traced atomic.Bool
	sent   atomic.Int32 // how often: the transport repeats what was not processed
	call   *spending    // that the request is an invocation of; nil: it is none
	first  spending     // the call, if it is its first request

	watched watchedBody
	answer  answer
	room    [smallBody + 1]byte // for a small answer about a run
	report  Exchange
}

// requestContext is the context of a request, which tells transports whose it is.
type requestContext struct {
	context.Context
	source   string
	identity identity
}

type sourceKey struct{}

// Value implements [context.Context].
func (c *requestContext) Value(key any) any {
	switch key {
	case sourceKey{}:
		return c.source
	case identityKey{}:
		return &c.identity
	}
	return c.Context.Value(key)
}

// SourceOf returns the source that a request with this context is for; empty: it is for none.
func SourceOf(ctx context.Context) string {
	source, _ := ctx.Value(sourceKey{}).(string)
	return source
}

func (o *outgoing) noteConnection(string) { o.traced.Store(true) }

func (o *outgoing) noteHeaders() {
	if o.sent.Add(1) > 1 && o.call != nil {
		o.call.repeat()
	}
}

// blank is what requests are made of: only WithContext gives one a context, and what
// it returns is copied into the outgoing one, so that it takes no memory.
var blank = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// request makes a request with everything but a credential. The header may be
// shared: it is not changed.
func (c *Client) request(ctx context.Context, phase run.Phase, method string, u *url.URL, who identity, header http.Header, body []byte) *outgoing {
	o := &outgoing{url: *u, context: requestContext{ctx, c.Source, who}}
	ctx = &o.context
	if phase == run.PhaseInvoke { // nothing else is executed, and so need not be traced
		o.trace.GetConn, o.trace.WroteHeaders = o.noteConnection, o.noteHeaders
		ctx = httptrace.WithClientTrace(ctx, &o.trace)
	}
	o.Request = *blank.WithContext(ctx)
	o.Method, o.URL, o.Host, o.Header = method, &o.url, u.Host, header
	if body != nil {
		o.body.Reset(body)
		o.ContentLength = int64(len(body))
		o.Body = io.NopCloser(&o.body) // package net/http knows that this need not be waited for
		// Lets the transport repeat a request that it could not write on a stale connection.
		o.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return o
}

// exchange sends one request and reads its answer.
func (c *Client) exchange(phase run.Phase, o *outgoing) (a *answer, err error) {
	ctx, start, withheld := o.Context(), time.Now(), false
	defer func() {
		o.report = Exchange{Source: c.Source, Phase: phase, Method: o.Method, URL: &o.url, Duration: time.Since(start), Withheld: withheld, client: c}
		if a != nil {
			o.report.Status = a.status
		}
		if err != nil {
			o.report.Err, o.report.Abandoned = c.scrubbed(err), errors.Is(ctx.Err(), context.Canceled)
		}
		c.Observer.Exchange(ctx, &o.report)
	}()
	if err := ctx.Err(); err != nil {
		return nil, &exchangeError{err: err}
	}
	through, err := c.Breakers.enter(c.Source, c.Partition, &o.url, phase)
	if err != nil {
		withheld = true
		return nil, &exchangeError{err: err}
	}
	defer func() {
		status := 0
		if a != nil {
			status = a.status
			if c.isRun(a) {
				status = http.StatusOK
			}
		}
		if n := through.leave(ctx, status, err); n != nil {
			c.Observer.Notice(ctx, n)
		}
	}()
	resp, err := c.Transport.RoundTrip(&o.Request)
	if err != nil {
		failed := &exchangeError{err: err, written: o.sent.Load() > 0 || !o.traced.Load() && !dialFailure(err)}
		failed.status, failed.malformed = malformedAnswer(err)
		failed.err = withoutQuotes(err)
		return nil, failed
	}
	defer resp.Body.Close()
	body, full, err := c.readBody(phase, o, resp)
	if err != nil {
		return nil, &exchangeError{err: err, written: true, status: resp.StatusCode, malformed: corruptBody(err)}
	}
	o.answer.status, o.answer.header, o.answer.body = resp.StatusCode, resp.Header, bytes.TrimPrefix(body, []byte("\ufeff"))
	o.answer.withoutRoom = full
	return &o.answer, nil
}

// judging is implemented by transports that can tell before they dial, by the scheme,
// host and port of a URL, that they will refuse to. What a host name leads to is only
// known when it is dialed.
type judging interface {
	Judge(ctx context.Context, source string, u *url.URL) error
}

// permitted says whether a URL may be requested at all, as far as that can be
// told without a connection.
func (c *Client) permitted(ctx context.Context, u *url.URL, phase run.Phase) *run.Failure {
	if u.Scheme != "https" && !c.AllowHTTP {
		return &run.Failure{
			Kind: run.Unreachable, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo, Refused: run.RulePlainHTTP, URL: bareURL(u),
			Message: "The provider's URL is without TLS, which this bridge does not allow.",
			Reach:   &run.Reach{URL: bareURL(u), Reason: "plain http is not allowed"},
		}
	}
	if t, ok := c.Transport.(judging); ok {
		if err := t.Judge(ctx, c.Source, u); err != nil {
			return c.unreachable(err, phase, u, "")
		}
	}
	return nil
}

// bareURL is a URL without what may be secret in it.
func bareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
