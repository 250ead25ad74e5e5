package document

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// How long callers are asked to wait before they try again, as in the examples of
// section 8.3.
const (
	UnreachableDelay = 2 * time.Second
	TimeoutDelay     = time.Second
	RetryAttempts    = 3
)

// Invalid is the failure of a document with violations, at least one (section 8.3.1).
func Invalid(phase run.Phase, what string, found []run.Violation) *run.Failure {
	place := found[0].Path
	if place == "" {
		place = "the document"
	}
	message := fmt.Sprintf("Invalid %s document: %s %s", what, place, found[0].Message)
	switch more := len(found) - 1; {
	case more == 1:
		message += " (and 1 more violation)"
	case more > 1:
		message += fmt.Sprintf(" (and %d more violations)", more)
	}
	return &run.Failure{
		Kind:       run.InvalidDocument,
		Message:    message,
		Phase:      phase,
		By:         run.Bridge,
		Executed:   run.ExecutedNo,
		Violations: found,
	}
}

// unreadable is the failure of a document that is valid, but does not fit its Go type. Only a mistake in
// the schema or the type can cause it.
func unreadable(phase run.Phase, what string, err error) *run.Failure {
	e := Invalid(phase, what, []run.Violation{{Message: safetext.Clip("can't be read: "+err.Error(), jsonvalue.MaxMessage)}})
	e.Cause = err
	return e
}

// InvalidDescriptor is the failure of an invalid descriptor (section 8.3.1).
func InvalidDescriptor(message string, violations ...run.Violation) *run.Failure {
	return &run.Failure{
		Kind: run.InvalidDocument, Message: message, Phase: run.PhaseDescriptor, By: run.Bridge,
		Executed: run.ExecutedNo, Violations: violations,
	}
}

// Interrupted is the failure of a call whose context has ended.
func Interrupted(ctx context.Context, phase run.Phase, executionID string, e run.Executed) *run.Failure {
	end, kind, cause := "The deadline passed", run.DeadlineExceeded, run.CauseOf(ctx)
	switch {
	case errors.Is(cause, run.ErrStopping):
		end, kind = "The bridge was stopped", run.Stopped
	case errors.Is(ctx.Err(), context.Canceled):
		end = "The caller went away"
	}
	awaited := "the skill had ended"
	if name := AnswerName(phase); phase == run.PhaseDiscovery || phase == run.PhaseDescriptor {
		awaited = "the provider's " + name + " had been read"
	}
	advice := ""
	if kind == run.Stopped {
		advice = adviceOnStop(executionID, e)
	}
	return &run.Failure{
		Kind: kind, Message: end + " before " + awaited + advice + ".", Phase: phase, By: run.Bridge, Ref: run.Ref{ExecutionID: executionID},
		Executed: e, Retry: run.RetryIn(TimeoutDelay, RetryAttempts), Cause: cause,
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

// BusyError is the failure of a call whose deadline passed while the bridge was busy.
func BusyError(phase run.Phase, message string) *run.Failure {
	return &run.Failure{
		Kind: run.RateLimited, Phase: phase, By: run.Bridge, Executed: run.ExecutedNo, Message: message,
		Reach: &run.Reach{Reason: "the bridge is busy"}, Retry: run.RetryIn(TimeoutDelay, RetryAttempts),
	}
}

// IsDocument reports whether the answers of a phase are documents, which all calls share.
func IsDocument(phase run.Phase) bool {
	return phase == run.PhaseDiscovery || phase == run.PhaseDescriptor
}

// AnswerName is what the answer of a phase is called.
func AnswerName(phase run.Phase) string {
	switch phase {
	case run.PhaseDiscovery:
		return "index"
	case run.PhaseDescriptor:
		return "descriptor"
	}
	return "answer"
}
