package run

import "time"

// Caller is who makes a call, when and how.
type Caller struct {
	// Principal is the authenticated user; empty: anonymous.
	Principal string
	// Ambiguous says why the principal that was sent could be mistaken for another; empty: it can't. Fronts refuse an ambiguous
	// caller. Its Principal is empty.
	Ambiguous string
	// TraceID is the trace id of the call (W3C Trace Context, 32 hexadecimal digits); empty: a new one is made.
	TraceID string
	// TraceParent is the traceparent header for requests to the provider; empty: none.
	TraceParent string
	// Arrived is when the call reached the bridge. Deadlines count from it. Zero: the time at which the bridge starts it.
	Arrived time.Time
	// Front and Method are the protocol and the method of the call, for reports.
	Front, Method string
}

// Reasons to refuse a caller, for the operator.
const (
	PrincipalRequired  = "require_principal is set and the principal is empty"
	AmbiguousPrincipal = "the principal begins or ends with a space or an invisible character, contains control characters, or is not valid UTF-8"
	KeyRequired        = "callers_file is set and the request has no key"
	TokenRequired      = "callers_jwt is set and the request has no token" //nolint:gosec // no credential
	UnknownKey         = "callers_file does not have the key of the request"
	SeveralPrincipals  = "the header that names the principal has several values"
)
