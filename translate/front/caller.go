package front

import "github.com/skill-bridge/caddy-skill-bridge/translate/run"

// Admit decides whether a front answers a caller. A nil failure admits the caller; otherwise reason is for the operator,
// and the failure for the caller. require refuses anonymous callers.
func Admit(require bool, c *run.Caller) (reason string, refused *run.Failure) {
	switch {
	case c.Ambiguous != "":
		return c.Ambiguous, principalFailure(&run.Demand{By: run.Bridge, Reason: c.Ambiguous},
			"This bridge refuses callers whose identity is ambiguous: "+c.Ambiguous+"; ask its operator")
	case require && c.Principal == "":
		return run.PrincipalRequired, principalFailure(run.NoPrincipal(),
			"This bridge answers authenticated callers only: authenticate the HTTP request as its operator has told you")
	}
	return "", nil
}

// UnknownKey is the message for callers with a key that the bridge does not have.
const UnknownKey = "This bridge does not know the key in the header field Authorization: check it, or ask its operator for another one."

// Unauthenticated returns the failure of a caller that has to authenticate, and is told how.
func Unauthenticated(message string) *run.Failure {
	demand := run.NoPrincipal()
	if message == UnknownKey {
		demand.Reason = "the credential of the request is unknown"
	}
	return principalFailure(demand, message)
}

// principalFailure returns the failure of a caller that is refused because of its principal.
func principalFailure(demand *run.Demand, message string) *run.Failure {
	return &run.Failure{
		Kind: run.AuthRequired, Message: message, Phase: run.PhaseAuth, By: run.Bridge, Executed: run.ExecutedNo, Demand: demand,
	}
}
