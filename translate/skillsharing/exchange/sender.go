package exchange

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

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Sender sends requests to one source of skills, and reads the answers. It is safe for concurrent use, and must not be
// changed once it is in use.
type Sender struct {
	// Source is the namespace that log lines and notices name.
	Source string
	// Origin is the URL that the operator configured.
	Origin *url.URL
	// AllowedHosts decides where the credentials may go.
	AllowedHosts *credential.AllowedHosts
	// Credentials authenticate invocations, status and result requests; nil: none.
	Credentials credential.Credentials
	// DiscoveryCredentials authenticate requests for documents; nil: none.
	DiscoveryCredentials credential.Credentials
	// Transport carries every request. It must refuse forbidden addresses, with an
	// error that has a method Refused() string, and Passing() bool if that may be
	// otherwise the next time; follow no redirects; and end reading
	// a body with the request's context, as package net/http does but for an answer
	// 101 (Switching Protocols), which therefore must be refused, too. It should
	// serve [net/http/httptrace]: a request that fails without GetConn having been
	// called counts as one that may have reached the provider. A client certificate
	// may be shown only to a host of which [MayIdentify] says so.
	Transport http.RoundTripper
	// Partition separates the documents and circuit breakers of the source from those of others.
	Partition string
	// MaxResponseSize bounds every answer after decompression, in bytes.
	MaxResponseSize int64
	// Limits bounds the rest of what is read.
	Limits document.Limits
	// Breakers refuse requests to hosts that keep failing; nil: none is refused.
	Breakers *Breakers
	// AllowHTTP permits URLs without TLS.
	AllowHTTP bool
	// Observer gets a report of each request.
	Observer Observer
}

const userAgent = "caddy-skill-bridge"

// SharedHeader is what all requests have in common, but for a credential; not to be changed.
var SharedHeader = http.Header{"Accept": {"application/json"}, "Accept-Encoding": {coding}, "User-Agent": {userAgent}}

// Error says why a request has no usable answer.
type Error struct {
	err error
	// Written: the request may have reached the provider. That is known of invocations only.
	Written bool
	// status of an answer that is unusable; 0: there was none.
	status int
	// malformed says what is wrong with what came, if it is no HTTP answer, or its body is not what its header says.
	malformed string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Permanent reports whether the error is a judgement and no passing trouble, so
// that an old document must not be used instead.
func (e *Error) Permanent() bool {
	if _, refused := Refusal(e.err); refused {
		var passing interface{ Passing() bool }
		return !errors.As(e.err, &passing) || !passing.Passing()
	}
	return e.malformed != "" || errors.Is(e.err, errTooLarge)
}

// Request is a request and all that sending it needs, in one piece of memory.
type Request struct {
	http.Request
	purpose purpose
	url     url.URL // its own: the one that it was made of is shared by concurrent calls
	body    bytes.Reader

	// Of an invocation has to be known whether it may have been executed. A request
	// that never got a connection, or failed before its header was written on one,
	// certainly did not reach the provider. Of a transport that does not even report
	// that it wants a connection, nothing is certain. The transport reports from
	// goroutines of its own, which may outlive RoundTrip.
	trace  httptrace.ClientTrace
	traced atomic.Bool
	Sent   atomic.Int32 // how often: the transport repeats what was not processed
	Call   *Spending    // that the request is an invocation of; nil: it is none
	First  Spending     // the call, if it is its first request

	// AdmitLarge waits until a large document may be read; nil: it always may.
	AdmitLarge func(context.Context) error

	watched watchedBody
	answer  Answer
	room    [smallBody + 1]byte // for a small answer about a run
	report  Exchange
}

// purpose tells transports, in the context of a request, for whom it is sent.
type purpose struct {
	source   string
	identity Identity
}

type purposeKey struct{}

func purposeOf(ctx context.Context) purpose {
	if p, ok := ctx.Value(purposeKey{}).(*purpose); ok {
		return *p
	}
	return purpose{}
}

// SourceOf returns the source that a request with this context is for; empty: it is for none.
func SourceOf(ctx context.Context) string { return purposeOf(ctx).source }

func (o *Request) noteConnection(string) { o.traced.Store(true) }

func (o *Request) noteHeaders() {
	if o.Sent.Add(1) > 1 && o.Call != nil {
		o.Call.repeat()
	}
}

// blank is what requests are made of: only WithContext gives one a context, and what
// it returns is copied into the outgoing one, so that it takes no memory.
var blank = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// NewRequest makes a request with everything but a credential. The header may be
// shared: it is not changed.
func (s *Sender) NewRequest(ctx context.Context, phase run.Phase, method string, u *url.URL, who Identity, header http.Header, body []byte) *Request {
	o := &Request{url: *u, purpose: purpose{s.Source, who}}
	ctx = context.WithValue(ctx, purposeKey{}, &o.purpose)
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

// Send sends one request and reads its answer.
func (s *Sender) Send(phase run.Phase, o *Request) (a *Answer, err error) {
	ctx, start, withheld := o.Context(), time.Now(), false
	defer func() {
		o.report = Exchange{Source: s.Source, Phase: phase, Method: o.Method, URL: &o.url, Duration: time.Since(start), Withheld: withheld, sender: s}
		if a != nil {
			o.report.Status = a.Status
		}
		if err != nil {
			o.report.Err, o.report.Abandoned = s.scrubbed(err), errors.Is(ctx.Err(), context.Canceled)
		}
		s.Observer.Exchange(ctx, &o.report)
	}()
	if err := ctx.Err(); err != nil {
		return nil, &Error{err: err}
	}
	through, err := s.Breakers.enter(s.Source, s.Partition, &o.url, phase)
	if err != nil {
		withheld = true
		return nil, &Error{err: err}
	}
	defer func() {
		status := 0
		if a != nil {
			status = a.Status
			if s.isRun(a) {
				status = http.StatusOK
			}
		}
		if n := through.leave(ctx, status, err); n != nil {
			s.Observer.Notice(ctx, n)
		}
	}()
	resp, err := s.Transport.RoundTrip(&o.Request)
	if err != nil {
		failed := &Error{err: err, Written: o.Sent.Load() > 0 || !o.traced.Load() && !dialFailure(err)}
		failed.status, failed.malformed = malformedAnswer(err)
		failed.err = withoutQuotes(err)
		return nil, failed
	}
	defer resp.Body.Close()
	body, full, err := s.readBody(phase, o, resp)
	if err != nil {
		return nil, &Error{err: err, Written: true, status: resp.StatusCode, malformed: corruptBody(err)}
	}
	o.answer.Status, o.answer.Header, o.answer.Body = resp.StatusCode, resp.Header, bytes.TrimPrefix(body, []byte("\ufeff"))
	o.answer.withoutRoom = full
	return &o.answer, nil
}

// judging is implemented by transports that can tell before they dial, by the scheme,
// host and port of a URL, that they will refuse to. What a host name leads to is only
// known when it is dialed.
type judging interface {
	Judge(ctx context.Context, source string, u *url.URL) error
}

// Permitted says whether a URL may be requested at all, as far as that can be
// told without a connection.
func (s *Sender) Permitted(ctx context.Context, u *url.URL, phase run.Phase) *run.Failure {
	if u.Scheme != "https" && !s.AllowHTTP {
		return &run.Failure{
			Kind: run.Unreachable, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo, Refused: run.RulePlainHTTP, URL: BareURL(u),
			Message: "The provider's URL does not use TLS, which this bridge requires.",
			Reach:   &run.Reach{URL: BareURL(u), Reason: "plain http is not allowed"},
		}
	}
	if t, ok := s.Transport.(judging); ok {
		if err := t.Judge(ctx, s.Source, u); err != nil {
			return s.Unreachable(err, phase, u, "")
		}
	}
	return nil
}

// BareURL is a URL without what may be secret in it.
func BareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
