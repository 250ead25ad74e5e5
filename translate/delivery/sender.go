package delivery

import (
	"context"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/webhook"
)

// Sender sends the events of the runs of one front and realm in one configuration. Its fields must not be changed while it is used, and are required unless
// they say otherwise.
type Sender struct {
	Served
	// Client sends the requests.
	Client *webhook.Client
	// Hears reports whether a version of a run may be an event for a receiver. It is called for each version of each run, and must be quick.
	Hears func(e *ledger.Entry) bool
	// Event makes the next event of a version for a receiver, after as many of the same version as part says; nil: there is none. If part is [Whole], earlier
	// versions were missed, or it is not known which events the receiver has got, and the event has the whole state. After an error, Event is called again in some
	// seconds.
	Event func(ctx context.Context, d *Delivery, e *ledger.Entry, part int) (*Event, error)
	// Attempted is called after each request, and when a delivery is given up without one, from several goroutines at a time.
	Attempted func(a *Attempt)
	// Panicked is called after a panic, with its stack.
	Panicked func(ctx context.Context, value any, stack []byte)
}

// Whole is the part of an event that has the whole state.
const Whole = -1

// Event is what a receiver gets.
type Event struct {
	webhook.Request
	// More says that the version has another event.
	More bool
	// Last says that the receiver gets nothing more. Otherwise this is so when the run has ended.
	Last bool
	// Never is why nothing can be sent, so that the delivery is given up.
	Never string
}

// Attempt is a request, or that a delivery is given up, for the operator. It has no secrets. Without a request, it has no Outcome.
type Attempt struct {
	webhook.Answer

	Delivery *Delivery     // its Target may have sealed secrets
	Entry    *ledger.Entry // nil: the run is gone
	Try      int           // the number of the request for this event, from 1
	Retry    time.Duration // until the next request for it; 0: it is the last one
	Lost     bool          // the event is not sent again
	GivenUp  bool          // nothing more is sent to the receiver
}
