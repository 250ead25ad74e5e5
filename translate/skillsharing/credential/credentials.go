package credential

import (
	"context"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Credentials authenticates requests to a provider with a secret that the
// operator configured. Implementations are shared by concurrent requests.
//
// The bridge calls Authenticate for a request only after it has checked that the request's host may
// receive the secret. For its own requests, for example to a token endpoint, an
// implementation must call [Authentication.MaySend] first and must use
// [Authentication.Transport], which refuses forbidden addresses.
type Credentials interface {
	// Supports reports whether this kind of credentials can do what auth
	// demands. For discovery requests, for which there is no descriptor, auth
	// is nil.
	Supports(auth *document.Auth) bool

	// Authenticate adds the credential to a.Request, usually as a header. It may be called
	// several times for one run: for the invocation, and for each status and result
	// request. If the error is a *run.Failure, the caller gets it unchanged; any other
	// error becomes AUTH_REQUIRED with its text.
	Authenticate(ctx context.Context, a *Authentication) error

	// Secrets lists the texts that only the provider may see, such as keys and
	// the tokens obtained with them. They are removed from messages, details and logs. The
	// list is not changed afterwards, by the credentials or their user.
	Secrets() []string
}

// Renewer is implemented by credentials that can be exchanged for fresh ones
// when a provider has answered 401, such as OAuth 2.0 tokens, or secrets in files.
type Renewer interface {
	// Renew replaces the credential of the rejected request a.Request. It reports
	// whether there is a new credential to try, even if it was a concurrent call that
	// renewed it.
	Renew(ctx context.Context, a *Authentication) (bool, error)
}

// Obtainer is implemented by credentials for which Authenticate asks a server, such as OAuth 2.0 tokens, so that it shows whether the server
// accepts the configured secret.
type Obtainer interface {
	// Obtains reports whether Authenticate asks a server.
	Obtains() bool
}

// Signer is implemented by credentials that send a different value with each request,
// such as a signature. These values are not listed in Secrets.
type Signer interface {
	// Sent returns the values that were sent lately and occur in text. They are removed like secrets.
	Sent(text []byte) []string
}

// Advisor is implemented by credentials that say what the operator should do when a provider refuses them.
type Advisor interface {
	// Advice follows "Ask the operator of the bridge to": for example "check client_id and client_secret".
	Advice() string
}

// AdviceFor returns the sentence about credentials that a provider has refused.
func AdviceFor(c Credentials) string {
	advice := "check the credentials"
	if own, ok := c.(Advisor); ok {
		advice = own.Advice()
	}
	return run.AskOperator + " to " + advice + " for this provider."
}

// Personal is implemented by credentials of which each principal has one of its own, such as the tokens that users grant (OAuth 2.0 authorization
// codes). A failure of such credentials says nothing about other principals.
type Personal interface {
	// Missing returns the failure, with the link where the user can act, of a call of a principal for a skill with this authentication; nil: the
	// principal has granted what the skill needs, and the scopes for whose lack the provider has refused it, or it is not known. It sends no request.
	// Others returns the authentications of other skills with the same credentials; nil: they are not known.
	Missing(ctx context.Context, owner string, auth *document.Auth, scopes []string, others func(context.Context) []*document.Auth) *run.Failure
}

// OwnerKey is the key of the context's value with the principal whose call or run a request belongs to.
type OwnerKey struct{}

// WithOwner returns a context for requests that belong to a principal, outside of a call.
func WithOwner(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, OwnerKey{}, principal)
}

// Authentication is one request that needs a credential, with what an
// implementation of [Credentials] may use to add it.
type Authentication struct {
	// Request is complete except for the credential: URL, method and all other
	// headers are final.
	Request *http.Request
	// Body is the request's body, for signatures. It must not be changed. nil: there is none.
	Body []byte
	// Auth is the authentication in the descriptor; nil for discovery requests.
	Auth *document.Auth
	// Origin is the scheme, host and port of the provider as configured, for example
	// "https://skills.example.com". Tokens obtained for one origin are never used for another.
	Origin string
	// Owner is the principal whose call or run the request belongs to; empty: an anonymous caller's, or that of no call, such as a discovery request.
	Owner string
	// Transport sends the implementation's own requests. It follows no redirects.
	Transport http.RoundTripper
	// MaySend returns why a long-lived secret (client secret, refresh token) may not
	// be sent to a URL that a document names, as a *run.Failure; nil: it may.
	// URLs that the operator configured need no check.
	MaySend func(u *url.URL) error
	// MaxResponseSize limits the answer to such a request, in bytes.
	MaxResponseSize int64
}
