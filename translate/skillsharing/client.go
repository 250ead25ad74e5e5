package skillsharing

import (
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// Client talks to one source of skills. It is safe for concurrent use, and must
// not be changed once it is in use.
type Client struct {
	discovery.Reader
	// Anonymous keeps the transport's client certificate from invocations, status and result requests. It is set for the skills
	// of a registry that no provider lists.
	Anonymous bool
	// Caller and Priority are sent in every invocation.
	Caller   Caller
	Priority Priority
	// Polling says when the client asks for the state of a run.
	Polling Polling
	// PreferWait is how long the client asks the provider to wait for the end of a run before it answers, in whole
	// seconds (Prefer: wait; RFC 7240, section 4.3); 0: it does not ask. After some answers without
	// Preference-Applied, it stops asking.
	PreferWait time.Duration
	// RetryBudget bounds the share of calls that repeat their invocation at a time; nil: there is no bound.
	RetryBudget *exchange.RetryBudget

	preference preference
	followers  followers
}
