package observe

import (
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// How calls ended, in the words of logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
	// outcomeAnonymous is that of callers without the principal that is required.
	outcomeAnonymous = "unauthenticated"
)

// asksForRun reports whether a call is about a run: others describe skills, or list them.
func asksForRun(s *translate.Statistics) bool {
	return s.Operation != translate.OperationDescribe && s.Operation != translate.OperationList
}

// outcomeOf says in one word how a call ended. If it is about a run and has
// neither that nor a failure, it was ended by a panic.
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
