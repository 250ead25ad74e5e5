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
	// Anonymous keeps invocations, status and result requests from showing who calls, also by a client certificate of the
	// transport: those of a registry's skills that no provider lists.
	Anonymous bool
	// Caller and Priority travel in every invocation.
	Caller   Caller
	Priority Priority
	// Polling says when the state of a run is asked for.
	Polling Polling
	// PreferWait is for how long the provider is asked to hold answers back until a run has ended, in whole seconds
	// (RFC 7240, section 4.3); 0: it is not. A provider that does not say that it does is not asked for long.
	PreferWait time.Duration
	// RetryBudget bounds the share of calls that may be repeating their invocation; nil: all may.
	RetryBudget *exchange.RetryBudget

	preference preference
	followers  followers
}
