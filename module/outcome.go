package skillbridge

import "github.com/skill-bridge/caddy-skill-bridge/translate"

// How calls ended, in the words of logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
	// outcomeAnonymous is that of callers without the principal that is required.
	outcomeAnonymous = "unauthenticated"
)

// kindNames are the outcomes of calls that failed.
var kindNames = [...]string{
	translate.Internal:            "internal",
	translate.InvalidArguments:    "invalid_arguments",
	translate.SkillNotFound:       "skill_not_found",
	translate.AuthRequired:        "auth_required",
	translate.PermissionDenied:    "permission_denied",
	translate.TimedOut:            "timed_out",
	translate.Unreachable:         "unreachable",
	translate.VersionIncompatible: "version_incompatible",
	translate.InvalidDocument:     "invalid_document",
	translate.ProviderFault:       "provider_fault",
	translate.RateLimited:         "rate_limited",
	translate.Stopped:             "stopped",
	translate.ClientGone:          "client_gone",
	translate.RunFailed:           "failed",
}

// asksForRun reports whether a call is about a run: others describe skills, or list them.
func asksForRun(s *translate.Statistics) bool {
	return s.Operation != translate.OperationDescribe && s.Operation != translate.OperationList
}

// outcomeOf says in one word how a call ended. If it is about a run and has
// neither that nor a failure, it was ended by a panic.
func outcomeOf(o *translate.Outcome, s *translate.Statistics) string {
	switch {
	case o.Failure == nil && !asksForRun(s):
		return outcomeCompleted
	case o.Failure != nil && o.Failure.Next == translate.NextAuthenticate:
		return outcomeAnonymous
	case o.Failure != nil && int(o.Failure.Kind) < len(kindNames):
		return kindNames[o.Failure.Kind]
	case o.Failure != nil, o.Run == nil:
		return kindNames[translate.Internal]
	case o.Run.State.Ended():
		return outcomeCompleted
	}
	return outcomeRunning
}
