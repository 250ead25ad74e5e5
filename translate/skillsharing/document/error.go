package document

import (
	"fmt"
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// ErrorCode is a code of the unified error (section 8.1), or one of the two
// further codes below.
type ErrorCode string

// The seven error categories of section 8.1.
const (
	ValidationError     ErrorCode = "VALIDATION_ERROR"
	AuthRequired        ErrorCode = "AUTH_REQUIRED"
	PermissionDenied    ErrorCode = "PERMISSION_DENIED"
	SkillNotFound       ErrorCode = "SKILL_NOT_FOUND"
	InvocationTimeout   ErrorCode = "INVOCATION_TIMEOUT"
	EndpointUnreachable ErrorCode = "ENDPOINT_UNREACHABLE"
	VersionIncompatible ErrorCode = "VERSION_INCOMPATIBLE"
)

// Two further codes, for failures that section 8.1 has no code for.
const (
	// InvalidProviderResponse: the provider's answer has no meaning in the protocol.
	InvalidProviderResponse ErrorCode = "INVALID_PROVIDER_RESPONSE"
	// RateLimited: too many requests (HTTP 429, RFC 6585, section 4).
	RateLimited ErrorCode = "RATE_LIMITED"
)

const (
	// ExecutionFailed is the code of a failed run whose provider named none.
	ExecutionFailed = "EXECUTION_FAILED"
	// ExecutionTimeout is the code for a timeout in other documents of the protocol.
	ExecutionTimeout = "EXECUTION_TIMEOUT"
)

// Kinds are the kinds of failures by the codes in providers' answers.
var Kinds = map[ErrorCode]run.Kind{
	ValidationError:     run.InvalidArguments,
	AuthRequired:        run.AuthRequired,
	PermissionDenied:    run.PermissionDenied,
	SkillNotFound:       run.SkillNotFound,
	InvocationTimeout:   run.DeadlineExceeded,
	ExecutionTimeout:    run.DeadlineExceeded,
	EndpointUnreachable: run.Unreachable,
	VersionIncompatible: run.VersionIncompatible,
	RateLimited:         run.RateLimited,
}

// KindOfStatus returns the kind of failure for the HTTP status of an answer whose body has no code (section
// 8.1).
func KindOfStatus(status int) run.Kind {
	if kind, ok := statusKinds[status]; ok {
		return kind
	}
	return run.ProviderFault
}

var statusKinds = map[int]run.Kind{
	http.StatusUnauthorized:        run.AuthRequired,
	http.StatusForbidden:           run.PermissionDenied,
	http.StatusNotFound:            run.SkillNotFound,
	http.StatusGone:                run.SkillNotFound,
	http.StatusRequestTimeout:      run.DeadlineExceeded,
	http.StatusGatewayTimeout:      run.DeadlineExceeded,
	http.StatusBadGateway:          run.Unreachable,
	http.StatusServiceUnavailable:  run.Unreachable,
	http.StatusUnprocessableEntity: run.VersionIncompatible,
	http.StatusTooManyRequests:     run.RateLimited,
}

// codes are the protocol's codes for the kinds of failures.
var codes = [...]ErrorCode{
	run.Internal:            "",
	run.InvalidArguments:    ValidationError,
	run.SkillNotFound:       SkillNotFound,
	run.AuthRequired:        AuthRequired,
	run.PermissionDenied:    PermissionDenied,
	run.DeadlineExceeded:    InvocationTimeout,
	run.Unreachable:         EndpointUnreachable,
	run.VersionIncompatible: VersionIncompatible,
	run.InvalidDocument:     ValidationError,
	run.NotSupported:        ValidationError,
	run.ProviderFault:       InvalidProviderResponse,
	run.RateLimited:         RateLimited,
	run.Stopped:             InvocationTimeout,
	run.CallerGone:          InvocationTimeout,
	run.CallerCanceled:      InvocationTimeout,
	run.RunFailed:           ExecutionFailed,
}

// CodeOf returns the protocol's code for a failure, or the code with which the
// provider ended the run; empty: there is none.
func CodeOf(f *run.Failure) ErrorCode {
	if code := f.ProviderSaid().Code; code != "" {
		return ErrorCode(code)
	}
	return codes[f.Kind]
}

// Invalid returns the failure of a document with at least one violation (section 8.3.1).
func Invalid(phase run.Phase, what string, found ...run.Violation) *run.Failure {
	place := found[0].Path
	if place == "" {
		place = "the document"
	}
	message := fmt.Sprintf("Invalid %s: %s %s", what, place, found[0].Message)
	switch more := len(found) - 1; {
	case more == 1:
		message += " (and 1 more violation)"
	case more > 1:
		message += fmt.Sprintf(" (and %d more violations)", more)
	}
	return Unusable(phase, message, found...)
}

// InvalidEntry returns the failure of a skill whose entry in an index can't be used.
func InvalidEntry(l *LeftOut) *run.Failure {
	f := Invalid(run.PhaseDiscovery, string(defSkillIndex)+" document", l.Fault)
	f.Cause = run.ErrEntry
	return f
}

// unreadable returns the violation of a document that is valid, but can't be decoded into its Go type.
// Only a mistake in the schema or the type can cause it.
func unreadable(err error) jsonvalue.Violations {
	return jsonvalue.Violations{{Message: safetext.Clip("can't be read: "+err.Error(), jsonvalue.MaxMessage)}}
}

// Unusable returns the failure of a document that can't be used (section 8.3.1).
func Unusable(phase run.Phase, message string, violations ...run.Violation) *run.Failure {
	f := run.NotExecuted(run.InvalidDocument, phase, message)
	f.Violations = violations
	return f
}

// IsDocument reports whether the answers of a phase are documents, which all calls share.
func IsDocument(phase run.Phase) bool {
	return phase == run.PhaseDiscovery || phase == run.PhaseDescriptor
}

// AnswerName returns the name of the answer of a phase, for messages.
func AnswerName(phase run.Phase) string {
	switch phase {
	case run.PhaseDiscovery:
		return "index"
	case run.PhaseDescriptor:
		return "descriptor"
	}
	return "answer"
}
