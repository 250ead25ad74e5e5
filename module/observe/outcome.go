package observe

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Outcomes of calls in logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
	// outcomeAnonymous is the outcome of a call without a required principal.
	outcomeAnonymous = "unauthenticated"
)

// asksForRun reports whether a call is about a run: others describe skills, or list them.
func asksForRun(s *translate.Statistics) bool {
	return s.Operation != translate.OperationDescribe && s.Operation != translate.OperationList
}

// outcomeOf returns the outcome of a call. A call about a run that has neither a
// run nor a failure was ended by a panic.
func outcomeOf(o *run.Run, s *translate.Statistics) string {
	switch {
	case o.Failure == nil && !asksForRun(s):
		return outcomeCompleted
	case o.Failure != nil && o.Failure.Next() == run.NextAuthenticate:
		return outcomeAnonymous
	case o.Failure != nil:
		return o.Failure.Kind.String()
	case o.State == 0:
		return run.Internal.String()
	case o.State.Ended():
		return outcomeCompleted
	}
	return outcomeRunning
}
