package skillsharing

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrorCode is a code of the unified error (section 8.1), or one of the two
// that the protocol has no word for.
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

// Two further codes, for what section 8.1 does not name.
const (
	// InvalidProviderResponse: the provider answered something that means nothing.
	InvalidProviderResponse ErrorCode = "INVALID_PROVIDER_RESPONSE"
	// RateLimited: too many requests (HTTP 429, RFC 6585, section 4).
	RateLimited ErrorCode = "RATE_LIMITED"
)

// Phase is the step of a call in which an error arose.
type Phase string

// The phases of a call, in order.
const (
	PhaseDiscovery  Phase = "discovery"  // reading an index
	PhaseDescriptor Phase = "descriptor" // reading a descriptor
	PhaseAuth       Phase = "auth"       // obtaining or applying a credential
	PhaseInvoke     Phase = "invoke"     // submitting the run
	PhasePoll       Phase = "poll"       // asking for its status
	PhaseResult     Phase = "result"     // fetching its output
)

// Source says whose finding an error is.
type Source string

// The sources of an error.
const (
	SourceBridge   Source = "bridge"
	SourceProvider Source = "provider"
)

// Executed says whether the skill may have run.
type Executed string

// The degrees of certainty about an execution.
const (
	ExecutedNo    Executed = "no"    // nothing reached the endpoint, or it refused outright
	ExecutedMaybe Executed = "maybe" // the request was written; whether the skill was executed is unknown
	ExecutedYes   Executed = "yes"   // the provider accepted the run
)

// Retry is a suggestion to try again (section 8.2).
type Retry struct {
	SuggestedDelayMS float64 `json:"suggested_delay_ms"` // milliseconds
	MaxAttempts      float64 `json:"max_attempts"`
}

// Error is everything known about why a skill could not be found, read,
// invoked or followed.
type Error struct {
	Code    ErrorCode
	Message string // for people; carries no secret
	Phase   Phase
	Source  Source
	// SkillID is the id of the skill's descriptor, once known.
	SkillID string
	// HTTPStatus is the provider's, 0 when it did not answer.
	HTTPStatus int
	// ExecutionID is set once the provider had accepted the run.
	ExecutionID string
	Executed    Executed
	// Details is error.details of the provider, or local ones in the shapes of section 8.3. May be nil.
	Details jsontext.Value
	// DetailsSource is SourceProvider when Details hold links, instructions or other text of the provider's.
	DetailsSource Source
	// Retry is the provider's suggestion verbatim, or ours. May be nil.
	Retry jsontext.Value
	// Hint classifies errors whose code alone does not say what would help.
	Hint Hint
	// Arguments is set when the caller's own arguments are at fault.
	Arguments *ArgumentError
	// URL is that of the document or endpoint at fault, without userinfo and query, if there is one. It is for logs.
	URL string
	// Cause is for logs, never for answers.
	Cause error
}

// Hint refines an [Error] whose code alone does not say what would help.
type Hint uint8

// The hints.
const (
	HintNone         Hint = iota
	HintDocument          // a document of the provider's is invalid
	HintRefused           // the bridge's own rules forbid the request; only its operator can change that
	HintGone              // what was asked for existed and is no more
	HintRunLost           // the run was accepted but can't be followed
	HintStopping          // the bridge is being stopped
	HintSecretDenied      // a credential may not be sent where it is wanted
	HintAnonymous         // the caller has to prove who he is
)

// ArgumentError tells which argument of a call is unusable.
type ArgumentError struct {
	Param  string // name of the input
	Path   string // JSON Pointer into the arguments
	Reason string // "required", "type", "schema", [ReasonLimit], "rejected_by_provider", "not_found" or "ambiguous"
	// Candidates are names that may have been meant. May be nil.
	Candidates []string
}

// ReasonLimit is the reason of arguments that may well be right, but exceed a limit of the operator's, which the details name.
const ReasonLimit = "limit"

// limitDetails are the details of an error because of a limit of the operator's, by the
// name of its option.
func limitDetails(limit string, most int64) jsontext.Value {
	return fmt.Appendf(nil, `{"limit":%q,"max":%d}`, strings.TrimPrefix(limit, "limits "), most)
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Permanent reports whether the error is a judgement and no passing trouble: what
// was known before must not be used instead.
func (e *Error) Permanent() bool {
	switch e.Code {
	case EndpointUnreachable, InvocationTimeout, RateLimited:
		return e.Hint == HintRefused
	}
	return true
}

// Unwrap gives access to the cause.
func (e *Error) Unwrap() error { return e.Cause }
