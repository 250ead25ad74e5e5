package task

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Quoted returns a text of a client or provider for a message, cleaned and bounded.
func Quoted(s string) string { return safetext.Line(s, 200) }

// maxText bounds the text of a failure, in characters.
const maxText = 1000

// Text returns the text of a failure, cleaned and bounded.
func Text(f *run.Failure) string {
	return cmp.Or(strings.TrimSpace(safetext.Line(f.Text(), maxText)), "The call failed.")
}

// failed returns the text and the data of the status message for a failure.
func failed(failure *run.Failure) (text string, data jsontext.Value) {
	text = Text(failure)
	var w front.Writer
	w.Open()
	w.Text("code", cmp.Or(Quoted(string(document.CodeOf(failure))), "INTERNAL_ERROR"))
	w.Text("message", text)
	w.Text("executed", string(cmp.Or(failure.Executed, run.ExecutedMaybe)))
	w.Text("next", string(nextOf(failure)))
	w.Text("source", string(cmp.Or(failure.By, run.Bridge)))
	w.Raw("details", front.Details(failure))
	w.Raw("retry", front.Retry(failure))
	w.Close()
	return text, w.Buf
}

// nextOf returns the next step after a run that is not followed any more.
func nextOf(f *run.Failure) run.Next {
	next := f.Next()
	switch {
	case next != run.NextFollowRun:
		return next
	case f.Kind == run.AuthRequired, f.Kind == run.PermissionDenied:
		return run.NextAskOperator
	}
	return run.NextNone
}

// Abandoned returns the text and the data of the status message of a task that is canceled although its run was submitted. accepted
// says that the provider has accepted the run.
func Abandoned(accepted bool) (text string, data jsontext.Value) {
	executed := run.ExecutedMaybe
	if accepted {
		executed = run.ExecutedYes
	}
	return "The bridge no longer follows the run. The provider's protocol has no cancellation: the run goes on there, and what it does is done.",
		jsontext.Value(`{"code":"ABANDONED","executed":"` + string(executed) + `","next":"none","source":"bridge"}`)
}

// TimeIsUp is the failure of a run that has not ended at the deadline of its task. unknown says why its state can't be read; nil: the
// run goes on.
func TimeIsUp(t *Task, unknown *run.Failure) *run.Failure {
	f := &run.Failure{
		Kind: run.DeadlineExceeded, Phase: run.PhasePoll, By: run.Bridge, Executed: run.ExecutedYes, Ref: t.Ref,
		Message: "The skill had not finished when its time was up. The run may still be going on, but the bridge no longer follows it. A new message may state a longer timeoutMs.",
	}
	switch {
	case unknown == nil:
	case unknown.Kind == run.DeadlineExceeded:
		f.Timeout = unknown.Timeout
	default:
		f.Phase, f.Reach, f.HTTPStatus, f.URL, f.Cause = unknown.Phase, unknown.Reach, unknown.HTTPStatus, unknown.URL, unknown.Cause
		f.Message = "The time of the run is up, and its state can't be read: " + unknown.Message
	}
	return f
}
