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
	// Caller and Priority travel in every invocation.
	Caller   Caller
	Priority Priority
	// Polling says when the state of a run is asked for.
	Polling Polling
	// PreferWait is for how long to ask the provider to hold answers back until a run has ended, in whole seconds
	// (RFC 7240, section 4.3); 0: not at all. It is not used any more after some answers without Preference-Applied.
	PreferWait time.Duration
	// RetryBudget bounds the share of calls that repeat their invocation at a time; nil: there is no bound.
	RetryBudget *exchange.RetryBudget

	preference preference
	followers  followers
}
