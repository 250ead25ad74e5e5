package exchange

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
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Unreachable returns the failure for the error of an exchange.
func (s *Sender) Unreachable(err error, phase run.Phase, u *url.URL, executionID string) *run.Failure {
	e := &run.Failure{Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: executionID}, Executed: run.ExecutedNo, URL: BareURL(u), Cause: err}
	reason, rule := ReasonOf(err)
	refused := rule != ""
	failed, ok := errors.AsType[*Error](err)
	if ok && failed.Written && !refused && phase == run.PhaseInvoke {
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
		limit, option := s.answerSize(phase)
		e.Message = fmt.Sprintf("The provider's %s is larger than the %s that are accepted (%s).", document.AnswerName(phase), document.Bytes(limit.Max), option)
		e.Limit = &limit
		return e
	case ok && failed.malformed != "":
		e.Kind = run.ProviderFault
		e.Message = fmt.Sprintf("The provider's answer is not valid HTTP: %s.", failed.malformed)
		return e
	}
	e.Kind = run.Unreachable
	if open, ok := errors.AsType[*CircuitOpenError](err); ok {
		open.complete(e, BareURL(u))
		return e
	}
	e.Message = fmt.Sprintf("The provider can't be reached: %s.", reason)
	e.Reach = &run.Reach{URL: BareURL(u), Reason: reason}
	if exact := ExactReason(err); exact != reason {
		e.Reach.ForOperator = fmt.Sprintf("The provider can't be reached: %s.", exact)
	}
	if e.Refused = rule; !refused {
		e.Retry = run.RetryIn(UnreachableDelay, RetryAttempts)
	}
	return e
}

// ReasonOf returns why there is no answer, without addresses, and the rule of the bridge that forbids the request; empty: a later
// request may succeed. A host that does not exist and an invalid certificate are refused: only an operator can change them.
func ReasonOf(err error) (reason string, rule run.Rule) {
	if refused := Refusal(err); refused != nil {
		return refused.Reason, refused.Rule
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "its host name does not exist", run.RuleNoSuchHost
		}
		return "its host name can't be resolved", ""
	}
	if reason := certificateFault(err); reason != "" {
		return reason, run.RuleCertificate
	}
	if withoutTLS(err) {
		return noHandshake, run.RuleNotTLS
	}
	return temporaryReason(err), ""
}

// ExactReason is the reason of [ReasonOf] for the operator: it says what callers must not learn, since it tells which hosts and servers there are.
func ExactReason(err error) string {
	switch refused := Refusal(err); {
	case refused != nil:
		return refused.Exact
	case withoutTLS(err):
		return "the server does not speak TLS"
	}
	reason, _ := ReasonOf(err)
	return reason
}

// noHandshake is the reason for failures of TLS.
const noHandshake = "the TLS handshake failed"

// withoutTLS reports whether a server has answered the first record of a TLS handshake with something else.
func withoutTLS(err error) bool {
	_, other := errors.AsType[tls.RecordHeaderError](err)
	return other || errors.Is(err, http.ErrSchemeMismatch)
}

// temporaryReason is [ReasonOf] for errors that may end.
func temporaryReason(err error) string {
	if own, ok := errors.AsType[ConnectionError](err); ok {
		return string(own)
	}
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	var netErr net.Error
	switch {
	case errors.As(err, &netErr) && netErr.Timeout():
		return "it did not answer in time"
	case strings.Contains(err.Error(), "tls: "): // package crypto/tls exports types for only a few of these errors
		return noHandshake
	}
	return "the connection failed"
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

// RefusedError is the error of a connection that a rule of the operator forbids. Its text may reach an agent, so it does not contain the address.
type RefusedError struct {
	Reason  string
	Exact   string   // the reason, for the operator only
	Rule    run.Rule // for the operator only
	Passing bool     // it may end because name servers return other addresses
}

func (e *RefusedError) Error() string { return "refused: " + e.Reason }

// MalformedError is the error of a transport about an answer, or a connection, that is not as HTTP says.
type MalformedError struct {
	Status int    // of the answer; 0: there was none
	Reason string // for callers
}

func (e *MalformedError) Error() string { return e.Reason }

// ConnectionError is the error of a transport about a request without an answer. Its text is for callers.
type ConnectionError string

func (e ConnectionError) Error() string { return string(e) }

// Refusal returns the refusal that is the cause of an error; nil: it is a failure of the network.
func Refusal(err error) *RefusedError {
	refused, _ := errors.AsType[*RefusedError](err)
	return refused
}

// malformedAnswer returns what is wrong with an answer that package net/http could not
// parse, and its status, if there was one; empty: nothing is wrong.
func malformedAnswer(err error) (status int, reason string) {
	if own, ok := errors.AsType[*MalformedError](err); ok {
		return own.Status, own.Reason
	}
	text := err.Error()
	if size := headerTooLarge.FindStringSubmatch(text); size != nil {
		return 0, fmt.Sprintf("its header fields are larger than the %s bytes that are accepted (max_response_header of the transport)", size[1])
	}
	for _, t := range malformedTexts {
		if strings.Contains(text, t.text) {
			return 0, t.reason
		}
	}
	return 0, ""
}

// headerTooLarge matches the error of package net/http about a header that is too large, which
// has no type.
var headerTooLarge = regexp.MustCompile(`response headers exceeded (\d+) bytes`)

// malformedTexts are parts of the errors of package net/http about malformed answers. These errors have
// no types. The reasons quote nothing of the answer.
var malformedTexts = []struct{ text, reason string }{
	{`malformed HTTP response "\x15\x03`, "it speaks TLS, but its URL begins with http://"},
	{"response header list larger than", "its header fields are larger than is accepted (max_response_header of the transport)"}, // HTTP/2
	{"malformed HTTP", "its status line can't be read"},
	{"too many 1xx", "it has too many interim answers (1xx)"},
	{"Content-Length", "its Content-Length is invalid"},
	{"unsupported transfer encoding", "its Transfer-Encoding is not chunked"},
	{"too many transfer encodings", "it has more than one Transfer-Encoding"},
}

// errQuoting replaces errors of package net/http that quote the provider's answer, which must not be
// logged.
var errQuoting = errors.New("the answer is malformed HTTP")

// withoutQuotes returns an error that can be logged.
func withoutQuotes(err error) error {
	text := err.Error()
	if slices.ContainsFunc(quotingTexts, func(t string) bool { return strings.Contains(text, t) }) {
		return errQuoting
	}
	return err
}

// quotingTexts are parts of the errors of package net/http that quote the answer. These errors have no
// types.
var quotingTexts = []string{
	"malformed HTTP", "malformed MIME header", "malformed chunked encoding", "Content-Length",
	"unsupported transfer encoding", "too many transfer encodings",
}

// corruptBody returns what is wrong with a body that does not match its Content-Encoding,
// or is larger than its content; empty: nothing is wrong.
func corruptBody(err error) string {
	if own, ok := errors.AsType[*MalformedError](err); ok {
		return own.Reason
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

// dialFailure reports whether an error occurred before a connection was used.
func dialFailure(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// certificateFault returns what is wrong with the certificate that is the cause of an error; empty: it has another cause. A retry does not help.
func certificateFault(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the issuer of its TLS certificate is not trusted"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its TLS certificate is for another host name"
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case ok && invalid.Reason == x509.Expired:
		return "its TLS certificate has expired, or is not valid yet"
	case ok:
		return "its TLS certificate is not valid"
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its TLS certificate is not valid"
	}
	return ""
}

// The suggested retry delays and attempts, as in the examples of section 8.3.
const (
	UnreachableDelay = 2 * time.Second
	TimeoutDelay     = time.Second
	RetryAttempts    = 3
)

// Interrupted returns the failure of a call whose context has ended.
func Interrupted(ctx context.Context, phase run.Phase, executionID string, e run.Executed) *run.Failure {
	end, kind, cause := "The deadline passed", run.DeadlineExceeded, context.Cause(ctx)
	switch {
	case errors.Is(cause, run.ErrStopping):
		end, kind = "The bridge was stopped", run.Stopped
	case errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, context.DeadlineExceeded):
		end = "The caller went away"
	}
	awaited := "the skill had ended"
	if document.IsDocument(phase) {
		awaited = "the provider's " + document.AnswerName(phase) + " had been read"
	}
	advice := "" // for callers: what to do after a stop of the bridge
	switch {
	case kind != run.Stopped:
	case executionID != "":
		advice = "; the run goes on: follow it"
	case e == run.ExecutedNo:
		advice = "; try again"
	default:
		advice = "; the skill may have been executed: find that out before you try again"
	}
	return &run.Failure{
		Kind: kind, Message: end + " before " + awaited + advice + ".", Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: executionID},
		Executed: e, Retry: run.RetryIn(TimeoutDelay, RetryAttempts), Cause: cause,
	}
}
