package skillbridge

import "github.com/skill-bridge/caddy-skill-bridge/translate"

// What became of calls, in the words of logs, metrics and traces.
const (
	outcomeCompleted = "completed"
	outcomeRunning   = "running"
)

// kindNames are the outcomes of calls that failed.
var kindNames = [...]string{
	translate.Internal:            "internal_error",
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

// outcomeOf says in one word what became of a call.
func outcomeOf(o *translate.Outcome) string {
	switch {
	case o.Failure != nil:
		return kindNames[o.Failure.Kind]
	case o.Run != nil && !o.Run.Status.Final():
		return outcomeRunning
	}
	return outcomeCompleted
}
