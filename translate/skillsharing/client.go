package skillsharing

import "github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"

// Client talks to one source of skills. It is safe for concurrent use, and must
// not be changed once it is in use.
type Client struct {
	discovery.Reader
	// Anonymous keeps the transport's client certificate from invocations, status and result requests. It is set for the skills
	// of a registry that no provider lists.
	Anonymous bool
	// Caller is sent in the invocations that have no other one.
	Caller Caller
	// Polling says when the client asks for the state of a run.
	Polling Polling
	// RetryBudget bounds the share of calls that repeat their invocation at a time; nil: there is no bound.
	RetryBudget *RetryBudget

	followers followers
}
