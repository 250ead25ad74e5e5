package credential

import (
	"context"
	"net/http"
	"net/url"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Credentials authenticates requests towards a provider with a secret that the
// operator configured. Implementations are shared by concurrent requests.
//
// A secret travels nowhere by itself: the bridge asks an implementation to
// authenticate a request only after it has judged that the request's host may
// receive it, and for requests of its own (for example to a token endpoint) an
// implementation must ask [Authentication.MaySend] first and must use
// [Authentication.Transport], which cannot be led to forbidden addresses.
type Credentials interface {
	// Supports says whether this kind of credentials can satisfy auth. For
	// discovery requests, which no descriptor describes, auth is nil.
	Supports(auth *document.Auth) bool

	// Authenticate adds the credential to a.Request, usually as a header. It
	// may be called several times for one run: for the invocation, and for each
	// status and result request. A *run.Failure is answered as it is; any other error
	// becomes AUTH_REQUIRED, with the error's text.
	Authenticate(ctx context.Context, a *Authentication) error

	// Secrets lists the texts that only the provider may see, such as keys and
	// the tokens obtained with them. They are removed from messages, details and logs.
	Secrets() []string
}

// Renewer is implemented by credentials that can be exchanged for fresh ones
// when a provider has answered 401, such as OAuth 2.0 tokens.
type Renewer interface {
	// Renew replaces the credential that the rejected request of a carried. It
	// reports whether there is a new one to try; a concurrent call that has
	// renewed it already counts.
	Renew(ctx context.Context, a *Authentication) (bool, error)
}

// Signer is implemented by credentials that send something else with every request,
// which is not listed among their secrets.
type Signer interface {
	// Sent returns what was sent lately and stands in text. It is removed like a secret.
	Sent(text []byte) []string
}

// Authentication is one request that needs a credential, and what an
// implementation of [Credentials] may use to supply it.
type Authentication struct {
	// Request is finished but for the credential: URL, method and all other
	// headers are final.
	Request *http.Request
	// Body is the request's body, to be signed, not changed. It is nil when there is none.
	Body []byte
	// Auth is what the descriptor asks for; nil for discovery requests.
	Auth *document.Auth
	// Origin is the scheme, host and port of the provider as configured, for example
	// "https://skills.example.com". Tokens obtained for one origin are never used for another.
	Origin string
	// Transport carries requests of the implementation's own. It follows no redirects.
	Transport http.RoundTripper
	// MaySend says whether a long-lived secret (client secret, refresh token)
	// may go to a URL that a document names: nil or a *run.Failure that says why not.
	// URLs that the operator configured need not be asked about.
	MaySend func(u *url.URL) error
	// MaxResponseSize bounds the answer to such a request, in bytes.
	MaxResponseSize int64
}
