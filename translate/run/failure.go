package run

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
)

// Failure is all that is known about why a skill could not be found, read, invoked
// or followed, or how a run failed.
type Failure struct {
	Kind    Kind
	Phase   Phase
	By      Party  // whose finding it is
	Message string // for people; carries no secret
	// SkillID is the id of the skill's descriptor, once known.
	SkillID string
	// ExecutionID is set once the provider had accepted the run.
	ExecutionID string
	Executed    Executed
	// HTTPStatus is the provider's, 0 when it did not answer.
	HTTPStatus int
	// URL is that of the document or endpoint at fault, without userinfo and query, if there is one. It is for logs.
	URL string

	// Argument is what the caller's request has to be corrected in; nil: in nothing.
	Argument *Argument
	// Demand is the credential that is missing or was refused; nil: it is about none.
	Demand *Demand
	// Refused is the bridge's own rule that forbids the request, which only its operator can change; empty: none does.
	Refused string
	// Lost tells that the run was accepted, but can't be followed to its end.
	Lost bool

	// Code is the provider's own, of a run that it reported as failed.
	Code string
	// Details is error.details of the provider, or local ones in the shapes of section 8.3. May be nil.
	Details jsontext.Value
	// DetailsSource is [Provider] when Details hold links, instructions or other text of the provider's.
	DetailsSource Party
	// Retry is the provider's suggestion verbatim, or ours. May be nil.
	Retry jsontext.Value

	// Cause is for logs, never for answers.
	Cause error
}

// Argument tells what is at fault in a caller's request.
type Argument struct {
	Param  string // name of the input
	Path   string // JSON Pointer into the arguments
	Reason string // "required", "type", "schema", [OverLimit], "rejected_by_provider", "not_found" or "ambiguous"
	// Candidates are names that may have been meant. May be nil.
	Candidates []string
}

// Reasons that say more than what to correct.
const (
	// OverLimit is that of arguments that may well be right, but exceed a limit of the operator's.
	OverLimit = "limit"
	// Unsupported is that of a request which no correction helps.
	Unsupported = "not_supported_by_bridge"
)

// Demand is a credential that is asked for.
type Demand struct {
	// OfCaller tells that the bridge asks its caller for it, and not a provider the bridge.
	OfCaller bool
	// Withheld tells that the bridge has it, but may not send it where it is wanted.
	Withheld bool
}

// Violation is one reason why a document is invalid.
type Violation struct {
	// Path is a JSON Pointer to the member at fault. For a required member that
	// is missing it is the pointer that the member would have.
	Path    string `json:"path"`
	Message string `json:"message"`
	// Expected is the expected value, type or form. May be nil.
	Expected jsontext.Value `json:"expected,omitzero"`
	// Actual is what was found: a scalar, or the name of its type. Long strings are cut and end in an ellipsis. May be nil.
	Actual jsontext.Value `json:"actual,omitzero"`
}

// Error implements error.
func (f *Failure) Error() string { return f.Kind.String() + ": " + f.Message }

// Unwrap gives access to the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Gone reports whether the provider says that there is no such document or skill any more.
func (f *Failure) Gone() bool { return f.Kind == SkillNotFound && f.By == Provider }

// Expired reports whether the time of the call was up, or it can't be waited for any longer.
func (f *Failure) Expired() bool {
	return f.Kind == DeadlineExceeded || f.Kind == Stopped || f.Kind == ClientGone
}

// Permanent reports whether the failure is a judgement and no passing trouble: what
// was known before must not be used instead.
func (f *Failure) Permanent() bool {
	if f.Expired() || f.Kind == Unreachable || f.Kind == RateLimited {
		return f.Refused != ""
	}
	return true
}

// OutOfTime reports whether it was the call's own deadline that passed.
func (f *Failure) OutOfTime() bool {
	return f.Kind == DeadlineExceeded && f.By == Bridge && errors.Is(f.Cause, context.DeadlineExceeded)
}
