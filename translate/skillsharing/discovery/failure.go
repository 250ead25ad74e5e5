package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/turns"
)

// documentFailure is the error of a call that needs a document which can't be read. It advises to
// try again when the cache has forgotten the failure.
func (c *Reader) documentFailure(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	e := c.documentError(ctx, phase, u, err)
	e.URL = exchange.BareURL(u)
	if failed, ok := errors.AsType[*cache.FailureError](err); ok {
		raiseRetry(e, max(time.Until(failed.RetryAt), c.Breakers.Pause(c.Source, c.Partition, u)))
	}
	credential.ScrubFailure(e, c.Credentials, c.DiscoveryCredentials)
	return e
}

// raiseRetry has callers wait at least for so long before they try again, if trying
// again may help at all.
func raiseRetry(e *run.Failure, delay time.Duration) {
	temporary := (e.Kind == run.Unreachable || e.Kind == run.RateLimited) && e.Refused == ""
	said := e.ProviderSaid()
	if (temporary || e.Retry != nil || said.Retry != nil) && exchange.SuggestedDelay(e) < delay {
		e.Retry = run.RetryIn(delay.Truncate(time.Millisecond)+time.Millisecond, exchange.RetryAttempts)
		said.Retry = nil
		e.Provider = &said
	}
}

// documentError says why a document could not be read.
func (c *Reader) documentError(ctx context.Context, phase run.Phase, u *url.URL, err error) *run.Failure {
	if e, ok := errors.AsType[*run.Failure](err); ok {
		copied := *e // it may be shared by concurrent calls, or remembered
		return &copied
	}
	if status, ok := errors.AsType[*cache.StatusError](err); ok {
		return statusError(phase, status, c.Limits.MaxDepth())
	}
	if errors.Is(err, cache.ErrQueued) && errors.Is(err, context.DeadlineExceeded) {
		return tooManyReads(phase, c.Limits.Reads)
	}
	if errors.Is(err, cache.ErrParsing) && errors.Is(err, context.DeadlineExceeded) {
		return turns.BusyError(phase, fmt.Sprintf("The provider's %s was read, but the bridge was too busy to check it in time; try again later.", document.AnswerName(phase)))
	}
	if ctx.Err() != nil {
		return exchange.Interrupted(ctx, phase, "", run.ExecutedNo)
	}
	return c.Unreachable(err, phase, u, "")
}

// tooManyReads is the error of a call whose time was up while others had their
// documents read.
func tooManyReads(phase run.Phase, most int) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message: fmt.Sprintf("Too many descriptors of the provider, or of one host or publisher, are being read here (limits reads: %d); try again later.", most),
		Limit:   &run.Limit{Name: "reads", Max: int64(most)},
		Retry:   run.RetryIn(exchange.TimeoutDelay, exchange.RetryAttempts),
	}
}

// statusError judges an HTTP status that a document was answered with. A body that nests
// deeper than depth is not read.
func statusError(phase run.Phase, s *cache.StatusError, depth int) *run.Failure {
	a := &exchange.Answer{Status: s.StatusCode, Header: s.Header, Body: s.Body}
	said := new(document.Members)
	if !jsonrpc.Deeper(a.Body, depth) {
		*said = document.ParseMembers(a.Body)
	}
	e := exchange.JudgeError(a, said, phase, "")
	switch {
	case e.Kind == run.AuthRequired:
		e.Demand = exchange.DemandOf(nil, run.Provider, fmt.Sprintf("the provider's %s needs authentication", document.AnswerName(phase)))
	case e.Kind == run.DeadlineExceeded, s.StatusCode >= 500:
		e.Kind = run.Unreachable
	case e.Kind == run.InvalidArguments, e.Kind == run.VersionIncompatible:
		e.Kind, e.Argument = run.ProviderFault, nil
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

// ownError marks an error that is about this reader, so that the cache gives it to no
// other one: what the guard, the rules for URLs and the discovery credentials refuse,
// and, for as long as they do, a circuit breaker and the limits.
func ownError(err error) error {
	if _, open := errors.AsType[*exchange.CircuitOpenError](err); open {
		return &cache.OwnError{Err: err, Passing: true}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Kind == run.RateLimited && e.By == run.Bridge {
		return &cache.OwnError{Err: err, Passing: true}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Phase == run.PhaseAuth {
		return &cache.OwnError{Err: err}
	}
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Refused != "" {
		return &cache.OwnError{Err: err}
	}
	if _, refused := exchange.Refusal(err); refused {
		return &cache.OwnError{Err: err}
	}
	return err
}

// warnOfStale tells the operator why a document is used that is not fresh any more.
// Of all the documents of a kind it says the same, so that it is said once.
func (c *Reader) warnOfStale(ctx context.Context, phase run.Phase, u *url.URL, err error) {
	e := c.documentError(ctx, phase, u, err)
	credential.ScrubFailure(e, c.DiscoveryCredentials)
	c.Observer.Notice(ctx, &exchange.Notice{
		Level: slog.LevelWarn, Source: c.Source,
		Message: "the bridge uses stale documents of a source, because its " + document.AnswerName(phase) + " can't be renewed; calls fail when stale_if_error has passed",
		Attrs:   []slog.Attr{slog.String("code", string(document.CodeOf(e))), slog.String("error", e.Message)},
	})
}

// secretError is the error of a document that repeats a credential.
func secretError(phase run.Phase) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidDocument, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo,
		Message:    fmt.Sprintf("The provider's %s is not used, because it contains a credential of the bridge.", document.AnswerName(phase)),
		Violations: []run.Violation{{Message: "must not contain the bridge's credential"}},
	}
}
