package exchange

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

// Observer gets reports of what happens between the bridge and providers. Its methods
// must be quick, and safe for concurrent use.
type Observer interface {
	// Exchange reports an HTTP exchange that has ended, well or not.
	Exchange(ctx context.Context, e *Exchange)
	// Notice reports something an operator should know of.
	Notice(ctx context.Context, n *Notice)
}

// Exchange is one HTTP request to a provider and how it ended.
type Exchange struct {
	Source   string // namespace of the source
	Phase    run.Phase
	Method   string
	URL      *url.URL // some of which may be secret: see [Exchange.Address]
	Status   int      // 0: no answer
	Duration time.Duration
	Err      error // why there is no usable answer
	// Abandoned says that the caller went away, or that the bridge stops: then a missing answer says nothing about the
	// provider.
	Abandoned bool
	Withheld  bool // nothing was sent, since the host's circuit breaker is open

	sender *Sender
}

// Address is the URL without what may be secret in it, for logs.
func (e *Exchange) Address() string {
	if e.sender == nil {
		return BareURL(e.URL)
	}
	return e.sender.ScrubText(BareURL(e.URL))
}

// Notice is something an operator should know of.
type Notice struct {
	Level   slog.Level
	Source  string // namespace of the source it concerns
	Message string
	// Attrs may repeat what a document says, even if that is a secret: see [Scrub].
	Attrs []slog.Attr
	// SecretDenied tells that a credential was not sent, since its receiver may not have it.
	SecretDenied bool
	// Unusable is why the source can't be used, if it can't.
	Unusable *run.Failure
}
