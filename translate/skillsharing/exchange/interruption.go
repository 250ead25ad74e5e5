package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// The suggested retry delays and attempts, as in the examples of section 8.3.
const (
	UnreachableDelay = 2 * time.Second
	TimeoutDelay     = time.Second
	RetryAttempts    = 3
)

// Interrupted returns the failure of a call whose context has ended.
func Interrupted(ctx context.Context, phase run.Phase, executionID string, e run.Executed) *run.Failure {
	end, kind, cause := "The deadline passed", run.DeadlineExceeded, run.CauseOf(ctx)
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
