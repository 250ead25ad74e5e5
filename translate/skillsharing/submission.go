package skillsharing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Stats counts the requests of a run and the time that they took.
type Stats struct {
	Attempts int // requests to the invocation endpoint
	Polls    int // requests to the status and result URLs

	Credentials time.Duration // time for adding credentials to requests
	Polling     time.Duration // time for polls
	Result      time.Duration // time for fetching the output
	// Overshoot is the time between the end of a run, by the provider's clock, and the answer that reported it; 0: not
	// known.
	Overshoot time.Duration
}

// renewalPatience is how long a call that has its answer waits for a credential that is renewed for later ones.
const renewalPatience = time.Second

// Submit invokes a skill and returns the provider's first answer, which may be
// the last. It repeats the request only if the skill can't have been executed,
// or if the provider consents to retries and the method permits them. It does
// not wait for the end of the run.
func (c *Client) Submit(ctx context.Context, s *discovery.Skill, inv *Invocation, stats *Stats) (*document.Response, *run.Failure) {
	if e := c.judgeURLs(ctx, s, s.URLs[1:]); e != nil { // the first one is judged with the request
		return nil, c.finish(s, e)
	}
	u, body, memory, err := c.invocation(s, inv)
	if err != nil {
		return nil, c.finish(s, run.WrongArgument(run.Argument{Reason: run.WrongSchema}, "The arguments can't be sent: "+err.Error()))
	}
	defer memory.Release()
	call := c.RetryBudget.begin()
	defer call.end()
	renewed, executed := false, run.ExecutedNo
	fail := func(e *run.Failure) (*document.Response, *run.Failure) {
		if executed == run.ExecutedMaybe { // an earlier attempt may have executed the skill
			e.Executed = run.ExecutedMaybe
		}
		c.askScopes(ctx, s, e)
		return nil, c.finish(s, e)
	}
	for attempt := 1; ; attempt++ {
		start := time.Now()
		req, e := c.skillRequest(ctx, s, run.PhaseInvoke, s.Endpoint.Method, u, body, inv.TraceParent)
		if s.NeedsCredential() {
			stats.Credentials += time.Since(start)
		}
		if e != nil {
			return fail(e)
		}
		req.ReadFrom(memory)
		preventReplay(&req.Request)
		stats.Attempts++
		r, failed := c.submitOnce(ctx, s, req)
		if again := int(req.Sent.Load()) - 1; again > 0 { // the transport has repeated the request
			call.repeat()
			stats.Attempts += again
			attempt += again
		}
		if failed == nil {
			if r.HTTPStatus == http.StatusUnauthorized { // this call has its answer, and is not repeated: the credential is renewed for later ones
				soon, cancel := context.WithTimeout(ctx, renewalPatience)
				_, _ = c.renew(soon, s, &req.Request, body)
				cancel()
			}
			return r, nil
		}
		if failed.Executed != run.ExecutedNo {
			executed = failed.Executed
		}
		if failed.HTTPStatus == http.StatusUnauthorized && failed.Executed == run.ExecutedNo && !renewed {
			renewed = true
			again, e := c.renew(ctx, s, &req.Request, body)
			if e != nil {
				return fail(e)
			}
			if again {
				attempt--
				continue
			}
		}
		delay, ok := retryDelay(s, failed, attempt)
		deadline, bounded := ctx.Deadline()
		tooLate := bounded && time.Until(deadline) <= delay
		if !ok || !failed.neverWritten() && !call.mayRepeat() || tooLate || !run.Sleep(ctx, delay) {
			return fail(failed.Failure)
		}
	}
}

// preventReplay prevents package net/http from repeating an invocation by itself
// if the connection is lost after the request was written. Only the provider's
// consent permits that. Package net/http repeats a GET, and any request with an
// Idempotency-Key or X-Idempotency-Key header, which a descriptor may choose for
// its API key. But it never repeats a request with a body that can't be read
// again, even if the body turns out to be empty and is not sent.
func preventReplay(req *http.Request) {
	switch {
	case req.Body == nil:
		req.Body = io.NopCloser(bytes.NewReader(nil))
	case req.Header["Idempotency-Key"] != nil, req.Header["X-Idempotency-Key"] != nil:
		req.GetBody = nil
	}
}

// submitOnce makes one attempt.
func (c *Client) submitOnce(ctx context.Context, s *discovery.Skill, req *exchange.Request) (*document.Response, *failedAttempt) {
	a, err := c.Send(run.PhaseInvoke, req)
	if err != nil {
		failed, ok := errors.AsType[*exchange.Error](err)
		written := ok && failed.Written
		if ctx.Err() != nil {
			executed := run.ExecutedNo
			if written {
				executed = run.ExecutedMaybe
			}
			return nil, &failedAttempt{Failure: exchange.Interrupted(ctx, run.PhaseInvoke, "", executed), written: written}
		}
		return nil, &failedAttempt{Failure: c.Unreachable(err, run.PhaseInvoke, req.URL, ""), dropped: true, written: written}
	}
	r, e := c.Judge(a, document.Asked{Phase: run.PhaseInvoke, Followable: s.Followable()})
	if e != nil {
		return nil, &failedAttempt{Failure: e, written: true, after: max(exchange.RetryAfter(a.Header), exchange.SuggestedDelay(e))}
	}
	if c.ScrubText(r.ExecutionID) != r.ExecutionID {
		return nil, &failedAttempt{written: true, Failure: &run.Failure{
			Kind: run.ProviderFault, Message: "The provider answered with an execution id that contains the bridge's credential.",
			Phase: run.PhaseInvoke, By: run.Bridge, HTTPStatus: a.Status, Executed: run.ExecutedMaybe,
		}}
	}
	if size := len(r.ExecutionID); size > document.MaxExecutionID { // it would be in lists and in the database
		if !r.State.Ended() || r.State == run.Completed && r.Output == nil && s.Endpoint.ResultURL != "" {
			reason := fmt.Sprintf("its execution id of %d bytes is longer than %d", size, document.MaxExecutionID)
			return nil, &failedAttempt{Failure: unfollowable(run.PhaseInvoke, r.ExecutionID, reason), written: true}
		}
		r.ExecutionID = safetext.Clip(r.ExecutionID, document.MaxExecutionID)
	}
	warn(ctx, c, s, r)
	if r.SkillID != "" && r.SkillID != s.ID {
		c.Observer.Notice(ctx, &exchange.Notice{
			Level: slog.LevelDebug, Source: c.Source, Message: "the provider answered an invocation under another skill_id",
			Attrs: []slog.Attr{slog.String("skill_id", s.ID), slog.String("answered", safetext.Clip(c.ScrubText(r.SkillID), 200))},
		})
	}
	return r, nil
}

// warn reports to the operator what is wrong with the JSON of an answer.
func warn(ctx context.Context, c *Client, s *discovery.Skill, r *document.Response) {
	for _, what := range r.Warnings {
		c.Observer.Notice(ctx, &exchange.Notice{
			Level: slog.LevelWarn, Source: c.Source, Message: "a provider's answer is not valid JSON, but was read",
			Attrs: []slog.Attr{slog.String("skill_id", s.ID), slog.String("error", what)},
		})
	}
}

// finish adds what is known of the skill to a failure, and removes secrets from it.
func (c *Client) finish(s *discovery.Skill, e *run.Failure) *run.Failure {
	e.SkillID = s.ID
	e.URL = cmp.Or(s.LoggedURL(e.Phase), e.URL)
	c.completeDemand(s, e)
	c.ScrubFailure(e)
	return e
}
