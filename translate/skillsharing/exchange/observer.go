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

// Identity says to which hosts the client certificate of a transport may be shown. The zero value includes no host.
type Identity struct {
	Hosts *credential.AllowedHosts
	// Descriptor is the document that names the request's URL; nil: the operator configured the URL.
	Descriptor publication
}

// publication is where a descriptor came from.
type publication interface {
	// Stranger returns a URL that the descriptor came from, or was redirected by, and that a does not include; nil: there
	// is none.
	Stranger(a *credential.AllowedHosts) *url.URL
}

// MayIdentify reports whether the bridge may show its client certificate to the host of a request. The certificate is a
// secret of the source that the request is for: only hosts that may receive the source's other secrets may see it, and only
// if the descriptor came from such a host. A transport must call MayIdentify for each request. If it returns false, the
// transport must not send the request on a connection that was made with the certificate.
func MayIdentify(r *http.Request) bool {
	who := purposeOf(r.Context()).identity
	return who.Hosts != nil && (who.Descriptor == nil || who.Descriptor.Stranger(who.Hosts) == nil) && who.Hosts.Includes(r.URL)
}

// CertificateWithheld returns the notice about a host that asked for a client certificate which it may not
// have.
func CertificateWithheld(ctx context.Context, u *url.URL) *Notice {
	n := &Notice{
		Level: slog.LevelWarn, Source: SourceOf(ctx), SecretDenied: true,
		Message: "the client certificate was not presented to a host that asked for one, because the document that names the host may not use it",
		Attrs:   []slog.Attr{slog.String("host", u.Host), slog.String("scheme", u.Scheme)},
	}
	who := purposeOf(ctx).identity
	if who.Hosts == nil {
		return n
	}
	if !who.Hosts.Includes(u) {
		n.Message = "the client certificate was not presented to a host that asked for one, because the host may not receive the provider's secrets; if you trust that host, add the line below to the provider"
		n.Attrs = append(n.Attrs, who.Hosts.Lines(u)...)
	}
	return n
}
