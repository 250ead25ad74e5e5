package catalog

import (
	"fmt"
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// IsSkillFault reports whether the skill or its provider is the cause of a failure to read a
// descriptor. For a deadline, a stop and a limit of the bridge, it is not.
func IsSkillFault(f *run.Failure) bool {
	switch f.Kind {
	case run.DeadlineExceeded, run.Stopped:
		return false
	case run.RateLimited:
		return f.By == run.Provider
	}
	return true
}

// MayPass reports whether a descriptor may be readable a moment later: its host can't be reached or is busy, or a limit or a stop of the
// bridge prevented the reading. An HTTP status 500 is a fault of the one document, if others can be read.
func MayPass(f *run.Failure) bool {
	switch f.Kind {
	case run.DeadlineExceeded, run.Stopped, run.RateLimited:
		return true
	case run.Unreachable:
		return f.Refused == "" && f.HTTPStatus != http.StatusInternalServerError
	}
	return false
}

// IsOfDescriptor reports whether a descriptor can't be used as it is: it is invalid, it asks for what the bridge can't
// do, or there is none.
func IsOfDescriptor(f *run.Failure) bool {
	return f.Kind == run.InvalidDocument || f.Kind == run.VersionIncompatible || f.Kind == run.NotSupported || f.Kind == run.SkillNotFound
}

// otherVersion returns the failure for a version that the provider does not offer.
func otherVersion(s *discovery.Skill, wanted string) *run.Failure {
	f := run.NotExecuted(run.SkillNotFound, run.PhaseDescriptor, fmt.Sprintf("skill '%s' has version %s, not %s.", s.ID, s.Version, wanted))
	f.SkillID, f.Argument = s.ID, &run.Argument{Field: run.FieldVersion, Reason: run.NotFound}
	return f
}
