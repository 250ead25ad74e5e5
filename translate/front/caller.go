package front

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Tokens makes and opens run tokens, with which a caller follows a run by further calls. A token is valid for one principal only.
// Implementations must be safe for concurrent use.
type Tokens interface {
	// Ready returns an error if no token can be made at the moment.
	Ready(ctx context.Context) error
	// Seal makes the token of a run for a principal, which is valid for Lifetime.
	Seal(ctx context.Context, ref run.Ref, principal string) (string, error)
	// Open returns the run of a token. The error is [runtoken.ErrInvalid] unless the token was made by this bridge for
	// this principal and has not expired. Any other error means that the keys can't be read at the moment.
	Open(ctx context.Context, token, principal string) (run.Ref, error)
	// Lifetime is how long a token is valid.
	Lifetime() time.Duration
}

// TokenOf returns the token of a run for a principal; empty: no run was accepted, or the token can't be made. The context may have ended with the call.
func TokenOf(ctx context.Context, tokens Tokens, r *run.Run, principal string) string {
	if r.ExecutionID == "" || r.Source == "" {
		return ""
	}
	token, err := tokens.Seal(context.WithoutCancel(ctx), r.Ref, principal)
	if err != nil { // the implementation logs it
		return ""
	}
	return token
}

// Quiet returns a caller without a front. The bridge does not report lists and descriptions for such a caller: they are parts of another call.
func Quiet(c run.Caller) run.Caller {
	c.Front, c.Method = "", ""
	return c
}

// CodeError is the cause of a failure that a front has found: the code of the JSON-RPC error in its answer.
type CodeError int

// Error implements error.
func (e CodeError) Error() string { return "the answer is the JSON-RPC error " + strconv.Itoa(int(e)) }

// FailureOf returns the failure for the report of a call that a front answers with an error of its own; nil: there is none.
func FailureOf(e *jsonrpc.Error) *run.Failure {
	if e == nil {
		return nil
	}
	failure := run.WrongArgument(run.Argument{Field: run.FieldOther, Reason: run.Unsupported}, e.Message)
	failure.Cause = CodeError(e.Code)
	if e.Code == jsonrpc.CodeInternalError {
		failure.Kind, failure.Argument = run.Internal, nil
	}
	return failure
}

// Admit decides whether a front answers a caller of a method. A nil failure admits the caller; otherwise refused, which may be nil, is called with the
// reason for the operator. require refuses anonymous callers.
func Admit(ctx context.Context, require bool, c *run.Caller, refused func(ctx context.Context, method, reason string)) *run.Failure {
	reason, failure := admit(require, c)
	if failure != nil && refused != nil {
		refused(ctx, c.Method, reason)
	}
	return failure
}

func admit(require bool, c *run.Caller) (reason string, refused *run.Failure) {
	switch {
	case c.Ambiguous != "":
		return c.Ambiguous, run.NeedsCredential(&run.Demand{By: run.Bridge, Reason: c.Ambiguous},
			"This bridge refuses callers whose identity is ambiguous: "+c.Ambiguous+"; ask its operator")
	case require && c.Principal == "":
		return run.PrincipalRequired, run.NeedsCredential(run.NoPrincipal(),
			"This bridge answers authenticated callers only: authenticate the HTTP request as its operator has told you")
	}
	return "", nil
}

// UnknownKey is the message for callers with a key that the bridge does not have.
const UnknownKey = "This bridge does not know the key in the header field Authorization: check it, or ask its operator for another one."

// InvalidToken is the message for callers with an access token that the bridge does not accept.
const InvalidToken = "This bridge does not accept the access token in the header field Authorization: it has expired, or is not for this bridge. Get a new one, or ask its operator."

// Unauthenticated returns the failure of a caller that has to authenticate, which says how.
func Unauthenticated(message string) *run.Failure {
	demand := run.NoPrincipal()
	if message == UnknownKey || message == InvalidToken {
		demand.Reason = "the credential of the request is unknown"
	}
	return run.NeedsCredential(demand, message)
}

// RefusedCaller returns the failure of a caller whose HTTP request is refused unread with a status, because of how it authenticates; nil: the
// status means something else.
func RefusedCaller(status int, message string) *run.Failure {
	switch status {
	case http.StatusUnauthorized:
		return Unauthenticated(message)
	case http.StatusForbidden:
		return run.NeedsCredential(&run.Demand{By: run.Bridge, CallerActs: true, Reason: "the token lacks a scope"}, message)
	case http.StatusServiceUnavailable:
		failure := run.NotExecuted(run.Unreachable, run.PhaseAuth, message)
		failure.Retry = run.RetryIn(10*time.Second, 3)
		return failure
	}
	return nil
}
