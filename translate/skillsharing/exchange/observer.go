package exchange

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// Observer gets reports of requests to providers. Its methods
// must return quickly, and be safe for concurrent use.
type Observer interface {
	// Exchange reports an HTTP exchange that has ended, with an answer or an error.
	Exchange(ctx context.Context, e *Exchange)
	// Notice reports a message for the operator.
	Notice(ctx context.Context, n *Notice)
}

// Exchange is one HTTP request to a provider and how it ended.
type Exchange struct {
	Source   string // namespace of the source
	Phase    run.Phase
	Method   string
	URL      *url.URL // parts may be secret: see [Exchange.Address]
	Status   int      // 0: no answer
	Duration time.Duration
	Err      error // why there is no usable answer
	// Abandoned means that the caller disconnected or the bridge is being stopped. Then the provider is not the cause of a
	// missing answer.
	Abandoned bool
	Withheld  bool // nothing was sent because the host's circuit breaker is open

	sender *Sender
}

// enoughPatience is how long a request has to last until a deadline of its call says something about the provider.
const enoughPatience = 5 * time.Second

// SaysNothing reports whether the exchange with its context says nothing about the provider: it was not sent, the caller ended it or gave
// it little time, or what was refused is the token or the grant of one user.
func (e *Exchange) SaysNothing(ctx context.Context) bool {
	return e.Withheld || e.Abandoned || e.Err != nil && ctx.Err() != nil && e.Duration < enoughPatience || e.refusesUser()
}

// refusesUser reports whether the provider, or a token endpoint with invalid_grant (RFC 6749, section 5.2), may have refused one user only.
func (e *Exchange) refusesUser() bool {
	switch {
	case e.Phase == run.PhaseAuth && e.Status != http.StatusBadRequest, e.Phase != run.PhaseAuth && e.Status != http.StatusUnauthorized,
		e.Phase == run.PhaseDiscovery, e.Phase == run.PhaseDescriptor, e.sender == nil:
		return false
	}
	_, personal := e.sender.Credentials.(credential.Personal)
	return personal
}

// Address returns the URL without secrets, for logs.
func (e *Exchange) Address() string {
	if e.sender == nil {
		return BareURL(e.URL)
	}
	return e.sender.ScrubText(BareURL(e.URL))
}

// Notice is a message for the operator.
type Notice struct {
	Level   slog.Level
	Source  string // namespace of the source it concerns
	Message string
	// Attrs may repeat parts of a document, which may be secrets: see [credential.Scrub].
	Attrs []slog.Attr
	// SecretDenied means that a credential was not sent because the host may not receive it.
	SecretDenied bool
	// Unusable says why the source can't be used; nil: it can.
	Unusable *run.Failure
}
