package translate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/skillsite"
)

// aboutRun turns a failure to find a skill into a failure to follow a run of that skill.
func aboutRun(f *run.Failure, executionID string) *run.Failure {
	if f.Kind == run.SkillNotFound {
		return &run.Failure{
			Kind: run.ProviderFault, Phase: f.Phase, By: run.Bridge, Ref: run.Ref{SkillID: f.SkillID, ExecutionID: executionID},
			Message:  "The run can't be followed: its skill is no longer offered.",
			Executed: run.ExecutedYes, Lost: true,
		}
	}
	about := *f // a copy, because other calls may share f
	about.Retry = f.RetryHint()
	about.ExecutionID, about.Executed = executionID, run.ExecutedYes
	return &about
}

// withoutTimeout replaces the deadline failure of a call that follows a run: failing
// to read the status in time does not mean that the run failed.
func withoutTimeout(ctx context.Context, f *run.Failure, executionID string) *run.Failure {
	if f == nil || f.Kind != run.DeadlineExceeded || f.By != run.Bridge || !errors.Is(ctx.Err(), context.DeadlineExceeded) && ctx.Err() != nil {
		return f
	}
	return &run.Failure{
		Kind: run.Unreachable, Phase: f.Phase, By: run.Bridge, Ref: run.Ref{SkillID: f.SkillID, ExecutionID: executionID}, URL: f.URL,
		Message: "The status of the run could not be read in time; the run may be continuing.",
		Reach:   &run.Reach{Reason: "it did not answer in time"}, Retry: f.Retry,
		Executed: run.ExecutedYes, Cause: f.Cause,
	}
}

// anonymous is the failure of a call without a principal to a source that requires one.
func anonymous() *run.Failure {
	return run.NeedsCredential(run.NoPrincipal(), "This bridge lets authenticated callers only use this provider: authenticate the HTTP request as its operator has told you.")
}

// slowDiscovery is the failure of a call that waited for documents until the discovery timeout, before its own
// deadline. The request for the documents fails at about the same time, and the cache remembers that failure for the
// time remembered, so a retry before its end would fail, too. source is that of the documents; empty: it is not known.
func slowDiscovery(e *run.Failure, source string, remembered time.Duration) *run.Failure {
	f := run.NotExecuted(run.Unreachable, e.Phase, fmt.Sprintf("The documents of %s could not be read within %s.", providerOf(source), discoveryTimeout))
	f.Reach, f.Timeout, f.URL = &run.Reach{Reason: "it did not answer in time"}, discoveryTimeout, e.URL
	f.Retry = run.RetryIn(max(2*time.Second, remembered+time.Second), 3)
	return f
}

// providerOf names the provider of a source, for a message.
func providerOf(source string) string {
	if source == "" {
		return "the provider"
	}
	return "the source '" + source + "'"
}

// mentionHeld adds to a failure of a request to a provider that the bridge used an earlier descriptor of the skill, which may be the cause.
func mentionHeld(f *run.Failure, found *catalog.Found) *run.Failure {
	if found == nil || found.Skill.Held == nil || f.Phase == run.PhaseDiscovery || f.Phase == run.PhaseDescriptor {
		return f
	}
	switch {
	case f.Kind == run.CallerGone, f.Kind == run.CallerCanceled, f.Kind == run.Stopped, f.By == run.Bridge && (f.Kind == run.InvalidArguments || f.Kind == run.RateLimited):
		return f
	}
	mentioned := *f // a copy, because other calls may share f
	mentioned.Message += fmt.Sprintf(" (The provider has changed this skill: %s. The bridge uses the earlier descriptor until its operator approves the change.)", strings.Join(found.Skill.Held.Parts, ", "))
	return &mentioned
}

// addTimeout adds the timeout to a failure that says that the deadline has passed. source is that of the skill; empty: it is not known.
func addTimeout(e *run.Failure, source string, timeout time.Duration) {
	if e.Kind != run.DeadlineExceeded || e.By != run.Bridge || !errors.Is(e.Cause, context.DeadlineExceeded) {
		return
	}
	after := fmt.Sprintf("time was up after %d ms.", timeout.Milliseconds())
	switch {
	case e.Executed == run.ExecutedYes:
		e.Message = "The skill had not finished when its " + after + " The run may still be going on: ask for its end before you start another one."
	case e.Phase == run.PhaseDiscovery || e.Phase == run.PhaseDescriptor:
		e.Message = fmt.Sprintf("The deadline passed before the %s of %s had been read: %s", document.AnswerName(e.Phase), providerOf(source), after)
	default:
		e.Message = "The provider had not accepted the run when its " + after
	}
	e.Timeout = timeout
}

// unexecutable is the failure of a call that executes a skill that can only be read. Each front adds how it is read there.
func unexecutable(f *catalog.Found) *run.Failure {
	failure := run.WrongArgument(run.Argument{Field: run.FieldSkill, Reason: run.OnlyRead, Value: f.Name},
		fmt.Sprintf("skill '%s' can't be executed: it consists of instructions, which you read in its file %s and follow yourself.", f.Name, skillsite.Main))
	failure.SkillID = f.Skill.ID
	return failure
}
