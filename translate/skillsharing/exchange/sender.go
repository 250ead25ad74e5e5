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
	// Secrets removes the secrets of these credentials from what the source says, and those of other sources that may be sent to one of its
	// hosts; nil: only those of these credentials.
	Secrets *credential.Group
	// Transport sends all requests. It must:
	//   - refuse forbidden addresses, with a [RefusedError];
	//   - follow no redirects;
	//   - end reading a body with the request's context. Package net/http does, except for an answer 101 (Switching
	//     Protocols), which the transport must refuse;
	//   - show a client certificate only if [MayIdentify] returns true.
	//
	// It should support [net/http/httptrace]: a request that fails without a call of GetConn counts as one that
	// may have reached the provider.
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

// SharedHeader is the header that all requests have, without a credential; not to be changed.
var SharedHeader = http.Header{"Accept": {"application/json"}, "Accept-Encoding": {coding}, "User-Agent": {userAgent}}

// Error is the error of a request without a usable answer.
type Error struct {
	err error
	// Written means that the request may have reached the provider. It is reliable for invocations only.
	Written bool
	// status is the status of an unusable answer; 0: there was no answer.
	status int
	// malformed says what is wrong with an answer that is not valid HTTP, or whose body does not match its header.
	malformed string
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Permanent reports whether the error is not temporary, so that a stale document must not be used
// instead.
func (e *Error) Permanent() bool {
	refused := Refusal(e.err)
	return refused != nil && !refused.Passing
}

// Request is a request with everything that is needed to send it, in one allocation.
type Request struct {
	http.Request
	purpose purpose
	url     url.URL // a copy, since concurrent calls share the original
	body    bytes.Reader

	// The trace tells whether an invocation may have been executed. A request without a connection, or
	// that failed before its header was written, did not reach the provider. If the transport
	// does not call GetConn, the request may have reached it. The transport calls the trace from
	// its own goroutines, which may outlive RoundTrip.
	trace  httptrace.ClientTrace
	traced atomic.Bool
	Sent   atomic.Int32 // how often it was sent: the transport may repeat a request that was not processed

	memory  *Memory     // of the body; nil: it has memory of its own
	written atomic.Bool // the transport has written the request
	rewound atomic.Bool // the transport has got another reader of the body

	// Budget limits the memory of a document; nil: nothing does.
	Budget AnswerBudget

	watched watchedBody
	answer  Answer
	room    [smallBody + 1]byte // buffer for a small answer about a run
	report  Exchange
}

// purpose is a value of a request's context. It tells transports for which source the request is sent.
type purpose struct {
	source       string
	identifiedTo *credential.AllowedHosts // to which the client certificate of a transport may be shown; nil: none
}

type purposeKey struct{}

func purposeOf(ctx context.Context) purpose {
	if p, ok := ctx.Value(purposeKey{}).(*purpose); ok {
		return *p
	}
	return purpose{}
}

// SourceOf returns the source of a request with this context; empty: it has none.
func SourceOf(ctx context.Context) string { return purposeOf(ctx).source }

func (o *Request) noteConnection(string) { o.traced.Store(true) }

func (o *Request) noteHeaders() { o.Sent.Add(1) }

// blank is the template of requests. Only WithContext can set a request's context; its result is
// copied into the new request, which saves an allocation.
var blank = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

// NewRequest returns a request with everything but a credential, during which the client certificate of the transport may be shown to some hosts; nil: to none.
// It does not change the header, which may be shared.
func (s *Sender) NewRequest(ctx context.Context, phase run.Phase, method string, u *url.URL, identifiedTo *credential.AllowedHosts, header http.Header, body []byte) *Request {
	o := &Request{url: *u, purpose: purpose{s.Source, identifiedTo}}
	ctx = context.WithValue(ctx, purposeKey{}, &o.purpose)
	if phase == run.PhaseInvoke { // other requests execute nothing
		o.trace.GetConn, o.trace.WroteHeaders = o.noteConnection, o.noteHeaders
		ctx = httptrace.WithClientTrace(ctx, &o.trace)
	}
	o.Request = *blank.WithContext(ctx)
	o.Method, o.URL, o.Host, o.Header = method, &o.url, u.Host, header
	if body != nil {
		o.body.Reset(body)
		o.ContentLength = int64(len(body))
		o.Body = io.NopCloser(&o.body) // reading this type does not block, as package net/http knows
		// So the transport can repeat a request that it could not write on a stale connection.
		o.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return o
}

// Send sends one request and reads its answer.
func (s *Sender) Send(phase run.Phase, o *Request) (a *Answer, err error) {
	ctx, start, withheld := o.Context(), time.Now(), false
	defer func() {
		o.leaveMemory()
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
			if isRun(a) {
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
		o.watched.settle(0)
		return nil, &Error{err: err, Written: true, status: resp.StatusCode, malformed: corruptBody(err)}
	}
	o.answer.Status, o.answer.Header, o.answer.Body = resp.StatusCode, resp.Header, bytes.TrimPrefix(body, []byte("\ufeff"))
	o.answer.withoutRoom = full
	return &o.answer, nil
}

// judging is implemented by transports that can refuse a URL by its scheme, host and port
// before they dial. The addresses of a host name are known only when it is dialed.
type judging interface {
	Judge(ctx context.Context, source string, u *url.URL) error
}

// Permitted returns why a URL may not be requested, as far as this is known without a connection;
// nil: it may.
func (s *Sender) Permitted(ctx context.Context, u *url.URL, phase run.Phase) *run.Failure {
	if u.Scheme != "https" && !s.AllowHTTP {
		f := run.NotExecuted(run.Unreachable, phase, "The provider's URL does not use TLS, which this bridge requires.")
		f.Refused, f.URL, f.Reach = run.RulePlainHTTP, BareURL(u), &run.Reach{URL: BareURL(u), Reason: "plain http is not allowed"}
		return f
	}
	if t, ok := s.Transport.(judging); ok {
		if err := t.Judge(ctx, s.Source, u); err != nil {
			return s.Unreachable(err, phase, u, "")
		}
	}
	return nil
}

// BareURL returns a URL without userinfo, query and fragment, which may be secret.
func BareURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
