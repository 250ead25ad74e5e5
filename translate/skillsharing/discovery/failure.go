package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// documentFailure returns the failure of a call that needs a document which can't be read. If the cache remembers
// the failure, the retry delay is at least until the cache forgets it.
func (r *Reader) documentFailure(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	e := r.documentError(ctx, phase, u, err)
	e.URL = exchange.BareURL(u)
	if failed, ok := errors.AsType[*cache.FailureError](err); ok {
		raiseRetry(e, time.Until(failed.RetryAt))
	}
	r.ScrubFailure(e)
	return e
}

// raiseRetry raises the suggested retry delay of a failure to at least delay, if a retry may
// help.
func raiseRetry(e *run.Failure, delay time.Duration) {
	temporary := (e.Kind == run.Unreachable || e.Kind == run.RateLimited) && e.Refused == ""
	said := e.ProviderSaid()
	if (temporary || e.Retry != nil || said.Retry != nil) && exchange.SuggestedDelay(e) < delay {
		e.Retry = run.RetryIn(delay.Truncate(time.Millisecond)+time.Millisecond, exchange.RetryAttempts)
		said.Retry = nil
		e.Provider = &said
	}
}

// documentError returns why a document could not be read.
func (r *Reader) documentError(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	if e, ok := errors.AsType[*run.Failure](err); ok {
		return new(*e) // it may be shared by concurrent calls, or remembered
	}
	if status, ok := errors.AsType[*cache.StatusError](err); ok {
		e := statusError(r, phase, status)
		if r.DiscoveryCredentials != nil && (e.Kind == run.AuthRequired || e.Kind == run.PermissionDenied) {
			e.Advice = credential.AdviceFor(r.DiscoveryCredentials)
		}
		return e
	}
	if errors.Is(err, cache.ErrQueued) && timeIsUp(ctx) {
		message := fmt.Sprintf("Too many descriptors of the provider, or of one host or publisher, are being read here (the limit is %d at a time); try again later.", r.Limits.Reads)
		return run.TooMuch(phase, message, run.Limit{Name: "reads", Max: int64(r.Limits.Reads)}, run.RetryIn(exchange.TimeoutDelay, exchange.RetryAttempts))
	}
	if errors.Is(err, cache.ErrParsing) && timeIsUp(ctx) {
		return run.Busy(phase, fmt.Sprintf("The provider's %s was read, but the bridge was too busy to check it in time; try again later.", document.AnswerName(phase)))
	}
	if ctx.Err() != nil {
		return exchange.Interrupted(ctx, phase, "", run.ExecutedNo)
	}
	return r.Unreachable(err, phase, u, "")
}

// late is why a stale document is used although its origin has not failed yet.
func late(phase run.Phase) *run.Failure {
	f := run.NotExecuted(run.Unreachable, phase, fmt.Sprintf("The provider's %s was not read in time.", document.AnswerName(phase)))
	f.Reach, f.Retry = &run.Reach{Reason: "it did not answer in time"}, run.RetryIn(exchange.TimeoutDelay, exchange.RetryAttempts)
	return f
}

// statusError returns the failure for the HTTP status of an answer that is not a document. It does not parse a body that
// nests too deep.
func statusError(r *Reader, phase run.Phase, s *cache.StatusError) *run.Failure {
	a := &exchange.Answer{Status: s.StatusCode, Header: s.Header, Body: s.Body}
	said := document.ParseMembers(a.Body, document.MaxDepth)
	e := r.JudgeError(a, &said, phase, "")
	switch {
	case e.Kind == run.AuthRequired:
		e.Demand = exchange.DemandOf(nil, run.Provider, fmt.Sprintf("the provider's %s needs authentication", document.AnswerName(phase)))
	case e.Kind == run.DeadlineExceeded, s.StatusCode >= 500:
		e.Kind = run.Unreachable
	case e.Kind == run.InvalidArguments, e.Kind == run.VersionIncompatible, e.Kind == run.SkillNotFound && phase == run.PhaseDiscovery:
		e.Kind, e.Argument = run.ProviderFault, nil // an index that does not exist says nothing about a skill
	}
	if e.Kind == run.Unreachable && e.Retry == nil && e.ProviderSaid().Retry == nil {
		e.Retry = run.RetryIn(exchange.UnreachableDelay, exchange.RetryAttempts)
	}
	if e.Kind == run.ProviderFault && s.StatusCode < http.StatusBadRequest {
		e.Message = "the answer contains no document."
	}
	e.Message = fmt.Sprintf("The provider's %s could not be read (HTTP %d): %s", document.AnswerName(phase), s.StatusCode, e.Message)
	return e
}

// passingError is the error of an answer that is no valid document, or leads to none. It is likely to be a page about maintenance, or half of
// the document, so that the last valid one is used instead.
type passingError struct{ error }

// Permanent says to the cache that the document of before may be used.
func (passingError) Permanent() bool { return false }

// Unwrap returns the error.
func (e passingError) Unwrap() error { return e.error }

// passing marks an error that says nothing about the document of before. A document of a newer MAJOR version replaces it. The error names
// the content coding if that may be why the document is invalid.
func passing(err error, answer http.Header) error {
	e, ok := errors.AsType[*run.Failure](err)
	if !ok || e.Kind != run.InvalidDocument {
		return err
	}
	if coding := exchange.UnknownCoding(answer); coding != "" {
		named := *e
		named.Message += " (" + coding + ")"
		err = &named
	}
	return passingError{err}
}

// WrongID returns the failure for a descriptor whose id differs from the id in its index
// entry.
func WrongID(s *Skill, listed string) *run.Failure {
	e := document.Unusable(
		run.PhaseDescriptor, fmt.Sprintf("The descriptor of skill %s describes another skill, %s.", listed, s.ID),
		run.Violation{
			Path: "/id", Message: "must be the id of the index entry",
			Expected: jsonvalue.Quoted(listed), Actual: jsonvalue.Quoted(s.ID),
		})
	e.SkillID = listed
	return e
}

// ownError marks an error that concerns only this reader, so that the cache does not return it to
// others: a refusal by the guard, by the rules for URLs, by a circuit breaker or by a limit, or an
// error of the discovery credentials. Refusals by a circuit breaker or a limit are temporary, so the
// cache does not remember them.
func ownError(err error) error {
	e, isFailure := errors.AsType[*run.Failure](err)
	_, open := errors.AsType[*exchange.CircuitOpenError](err)
	switch {
	case open, isFailure && e.Kind == run.RateLimited && e.By == run.Bridge:
		return &cache.OwnError{Err: err, Passing: true}
	case isFailure && (e.Phase == run.PhaseAuth || e.Refused != ""), exchange.Refusal(err) != nil:
		return &cache.OwnError{Err: err}
	}
	return err
}

// warnOfStale reports to the operator why a stale document is used. The message is the same for
// all documents of a kind, so that it is logged once.
func (r *Reader) warnOfStale(ctx context.Context, phase run.Phase, u *url.URL, err error) {
	e := r.documentError(ctx, phase, u, err)
	e.URL = exchange.BareURL(u)
	r.ScrubFailure(e)
	var unusable *run.Failure
	if e.Kind == run.InvalidDocument || e.Kind == run.ProviderFault && e.HTTPStatus < http.StatusBadRequest { // the exchange itself was good
		unusable = e
	}
	r.Observer.Notice(ctx, &exchange.Notice{
		Level: slog.LevelWarn, Source: r.Source, Unusable: unusable,
		Message: "the bridge uses stale documents of a source, because its " + document.AnswerName(phase) + " can't be renewed; calls fail when stale_if_error has passed",
		Attrs:   []slog.Attr{slog.String("code", string(document.CodeOf(e))), slog.String("error", e.Message)},
	})
}

// secretError returns the failure for a document that repeats a credential.
func secretError(phase run.Phase) *run.Failure {
	message := fmt.Sprintf("The provider's %s is not used, because it contains a credential of the bridge.", document.AnswerName(phase))
	return document.Unusable(phase, message, run.Violation{Message: "must not contain the bridge's credential"})
}

// CheckMediaType checks that the media type of a document is JSON (section 4.3.1). So a file that
// users may upload to a provider's host, such as an image, can't be a descriptor. Some hosts serve
// such files without a type, so a descriptor must have one. An index may have none: only its host can
// publish something at its URL.
func CheckMediaType(phase run.Phase, h http.Header) *run.Failure {
	value := h.Get("Content-Type")
	if value == "" && phase == run.PhaseDiscovery {
		return nil
	}
	if mediaType, _, err := mime.ParseMediaType(value); err == nil && (mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")) {
		return nil
	}
	served := "without a media type"
	if value != "" {
		served = fmt.Sprintf("as %q", safetext.Clip(value, 100))
	}
	return document.Unusable(phase, fmt.Sprintf("The provider's %s is served %s, not as application/json.", document.AnswerName(phase), served), run.Violation{
		Message: "must be served as application/json", Expected: jsonvalue.Quoted("application/json"), Actual: jsonvalue.Quoted(safetext.Clip(value, 100)),
	})
}
