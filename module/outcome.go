package skillbridge

import "github.com/skill-bridge/caddy-skill-bridge/translate"

// What became of calls, in the words of logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
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
	translate.RunFailed:           "failed",
}

// outcomeOf says in one word what became of a call. A call without either a run or a
// failure was ended by a panic.
func outcomeOf(o *translate.Outcome) string {
	switch {
	case o.Failure != nil && int(o.Failure.Kind) < len(kindNames):
		return kindNames[o.Failure.Kind]
	case o.Failure != nil, o.Run == nil:
		return kindNames[translate.Internal]
	case o.Run.Status.Final():
		return outcomeCompleted
	}
	return outcomeRunning
}
