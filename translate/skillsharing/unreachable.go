package skillsharing

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// unreachable turns the failure of an exchange into a failure.
func (c *Client) unreachable(err error, phase run.Phase, u *url.URL, executionID string) *run.Failure {
	e := &run.Failure{Phase: phase, By: run.Bridge, ExecutionID: executionID, Executed: run.ExecutedNo, URL: bareURL(u), Cause: err}
	reason, refused := reasonOf(err)
	failed, ok := errors.AsType[*exchangeError](err)
	if ok && failed.written && !refused && phase == run.PhaseInvoke {
		e.Executed = run.ExecutedMaybe
	}
	if executionID != "" {
		e.Executed = run.ExecutedYes
	}
	if ok && failed.status != 0 {
		e.HTTPStatus, e.Executed = failed.status, executed(failed.status, phase)
	}
	switch {
	case ok && errors.Is(err, errTooLarge):
		e.Kind = run.ProviderFault
		size, limit := c.answerSize(phase)
		e.Message = fmt.Sprintf("The provider's %s is larger than the %d bytes that are accepted (%s).", answerName(phase), size, limit)
		e.Limit = limitOf(limit, size)
		return e
	case ok && failed.malformed != "":
		e.Kind = run.ProviderFault
		e.Message = fmt.Sprintf("The provider answered something that is not HTTP as it should be: %s.", failed.malformed)
		return e
	}
	e.Kind = run.Unreachable
	if open, ok := errors.AsType[*circuitOpenError](err); ok {
		open.complete(e, bareURL(u))
		return e
	}
	e.Message = fmt.Sprintf("The provider can't be reached: %s.", reason)
	e.Reach = &run.Reach{URL: bareURL(u), Reason: reason}
	if refused {
		e.Refused = RuleOf(err)
	} else {
		e.Retry = run.Again(unreachableDelay, retryAttempts)
	}
	return e
}

// What callers are told to wait before they try again, as in the examples of
// section 8.3.
const (
	unreachableDelay = 2 * time.Second
	timeoutDelay     = time.Second
	retryAttempts    = 3
)

// StopKey is the key of a value that the context of a call may have. The value has a
// method Stopping() bool, which tells, once the context is cancelled, whether that is
// because the bridge stops and can't wait for the call any longer.
type StopKey struct{}

// ErrStopping is the cause of the errors of such calls.
var ErrStopping = errors.New("the bridge is being stopped")

// causeOf says why a context has ended.
func causeOf(ctx context.Context) error {
	if s, ok := ctx.Value(StopKey{}).(interface{ Stopping() bool }); ok && s.Stopping() {
		return ErrStopping
	}
	return context.Cause(ctx)
}

// interrupted is the failure of a call whose context has ended.
func interrupted(ctx context.Context, phase run.Phase, executionID string, e run.Executed) *run.Failure {
	end, kind, cause := "The deadline passed", run.DeadlineExceeded, causeOf(ctx)
	switch {
	case errors.Is(cause, ErrStopping):
		end, kind = "The bridge was stopped", run.Stopped
	case errors.Is(ctx.Err(), context.Canceled):
		end = "The caller went away"
	}
	awaited := "the skill had ended"
	if name := answerName(phase); phase == run.PhaseDiscovery || phase == run.PhaseDescriptor {
		awaited = "the provider's " + name + " had been read"
	}
	advice := ""
	if kind == run.Stopped {
		advice = adviceOnStop(executionID, e)
	}
	return &run.Failure{
		Kind: kind, Message: end + " before " + awaited + advice + ".", Phase: phase, By: run.Bridge, ExecutionID: executionID,
		Executed: e, Retry: run.Again(timeoutDelay, retryAttempts), Cause: cause,
	}
}

// adviceOnStop says what to do about a call that ended because the bridge was stopped.
func adviceOnStop(executionID string, e run.Executed) string {
	switch {
	case executionID != "":
		return "; the run goes on: follow it"
	case e == run.ExecutedNo:
		return "; try again"
	}
	return "; the skill may have been executed: find that out before you try again"
}

// reasonOf names why there is no answer, in words that tell nothing about
// addresses, and whether it was the bridge that refused to ask.
func reasonOf(err error) (reason string, refused bool) {
	if rule, refused := refusal(err); refused {
		return rule, true
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
	var own interface{ Reason() string }
	if errors.As(err, &own) {
		return own.Reason(), false
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
	case strings.Contains(text, "server gave HTTP response to HTTPS client"):
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
	{errStalled, errStalled.Error()},
	{context.DeadlineExceeded, "it did not answer in time"},
	{io.ErrUnexpectedEOF, "the connection was dropped"},
	{io.EOF, "the connection was dropped"},
}

// refusal returns the rule of the bridge's own that an error is about.
func refusal(err error) (rule string, refused bool) {
	var r interface{ Refused() string }
	if errors.As(err, &r) {
		return r.Refused(), true
	}
	return "", false
}

// RuleOf is the rule of the bridge's own that an error is about, as the operator learns it.
func RuleOf(err error) run.Rule {
	var r interface{ Rule() run.Rule }
	switch {
	case errors.As(err, &r):
		return r.Rule()
	case certificateError(err):
		return run.RuleCertificate
	}
	return run.RuleOther
}

// malformedAnswer says what is wrong with an answer that package net/http could not
// use, with its status if there was one; empty: nothing is.
func malformedAnswer(err error) (status int, reason string) {
	var s interface{ StatusCode() int }
	if errors.As(err, &s) {
		status = s.StatusCode()
	}
	var m interface{ Malformed() string }
	if errors.As(err, &m) {
		return status, m.Malformed()
	}
	text := err.Error()
	if size := headerTooLarge.FindStringSubmatch(text); size != nil {
		return status, fmt.Sprintf("its header fields are larger than the %s bytes that are accepted (max_response_header of the transport)", size[1])
	}
	for _, t := range malformedTexts {
		if strings.Contains(text, t.text) {
			return status, t.reason
		}
	}
	return status, ""
}

// headerTooLarge is what package net/http says of too large a header.
var headerTooLarge = regexp.MustCompile(`response headers exceeded (\d+) bytes`)

// malformedTexts are what package net/http says of such answers, for which it has no
// types. What it quotes of them is not repeated.
var malformedTexts = []struct{ text, reason string }{
	{"response header list larger than", "its header fields are larger than is accepted (max_response_header of the transport)"}, // HTTP/2
	{"malformed HTTP", "its status line can't be read"},
	{"too many 1xx", "it has too many interim answers (1xx)"},
	{"Content-Length", "its Content-Length can't be right"},
	{"unsupported transfer encoding", "its Transfer-Encoding is not chunked"},
	{"too many transfer encodings", "it has more than one Transfer-Encoding"},
}

// errQuoting stands for an error of package net/http that quotes the answer which
// it is about: that is no business of the log.
var errQuoting = errors.New("the answer is malformed HTTP")

// withoutQuotes is an error for the log.
func withoutQuotes(err error) error {
	text := err.Error()
	if slices.ContainsFunc(quotingTexts, func(t string) bool { return strings.Contains(text, t) }) {
		return errQuoting
	}
	return err
}

// quotingTexts are what package net/http says in such errors, for which it has no types.
var quotingTexts = []string{
	"malformed HTTP", "malformed MIME header", "malformed chunked encoding", "Content-Length",
	"unsupported transfer encoding", "too many transfer encodings",
}

// corruptBody says what is wrong with a body that its Content-Encoding does not fit,
// or that brought too much besides itself; empty: nothing is.
func corruptBody(err error) string {
	var m interface{ Malformed() string }
	if errors.As(err, &m) {
		return m.Malformed()
	}
	if errors.Is(err, errHollow) {
		return errHollow.Error()
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return "its body is not gzip, as its Content-Encoding says"
	}
	return ""
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
