package document

import (
	"net/http"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
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
