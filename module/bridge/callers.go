package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// Callers say who may call the bridge, and as which principal.
type Callers struct {
	// One placeholder with the identity of the caller; a caller for whom it is empty is
	// anonymous. Every run belongs to the principal that started it, so use nothing that a
	// client can set: with `forward_auth`, a header only if `copy_headers` sets it.
	// Default: `{http.auth.user.id}`, which Caddy's `basic_auth` sets.
	// Example: `{http.request.header.Remote-User}`.
	Principal string `json:"principal,omitempty"`

	// A file with the keys of callers, instead of `principal`. Each line has a principal and
	// the SHA-256 of a key in hexadecimal, separated by spaces; after `#` there may be a
	// comment. A principal may have several keys. A caller with a key, which is sent as
	// `Authorization: Bearer <key>`, is its principal; any other key, and a call without one
	// unless `allow_anonymous` is set, is answered with HTTP status 401. The file is read
	// again when it has changed, at most once a second; if it then has a wrong line, the
	// earlier keys remain valid and an error is logged. Anyone who can read the file can try
	// to guess keys, so keys have to be random; `caddy skill-bridge hash-key` makes them. Global
	// placeholders such as `{env.CREDENTIALS_DIRECTORY}` are resolved. Example: `/etc/caddy/callers`.
	CallersFile string `json:"callers_file,omitempty"`

	// Authorization servers whose access tokens callers may have, instead of `principal`. A caller sends its token as `Authorization: Bearer
	// <token>`; it has to be a JWT (RFC 9068) that one of these issuers has signed for one of the audiences, so no ID token. The claim
	// `sub` is then its principal. Any other token, and a call without one unless `allow_anonymous` is set, is answered with HTTP status
	// 401. The keys of an issuer are read with its first token and again each hour; if it can't be reached, they are used for 24 hours.
	// Beside `callers_file`, a caller has either a key or a token. Default: none.
	// Example: `[{"issuer": "https://login.example.com", "audience": ["https://agents.example.com/mcp"]}]`.
	CallersJWT []callers.Issuer `json:"callers_jwt,omitempty"`

	// Answer callers without a principal with AUTH_REQUIRED. Either this or
	// `allow_anonymous` is needed if any credentials are configured, except in providers,
	// skills, registries and sites with their own `require_principal`. Default: false.
	RequirePrincipal bool `json:"require_principal,omitempty"`

	// Let all callers use the credentials configured in the handler, except those of
	// providers, skills, registries and sites with `require_principal`. Use it only where something
	// else restricts who can reach the handler. Default: false.
	AllowAnonymous bool `json:"allow_anonymous,omitempty"`

	// Which callers may use which skills. Default: all callers may use all skills that lists
	// show them. Example: `{"rules": [{"effect": "allow", "principal": "alice", "skills": ["acme.*"]}]}`.
	Access *Access `json:"access,omitempty"`

	// How much each caller may use skills. All quotas that apply bind. Default: no bounds.
	// Example: `[{"principal": "*", "rate": {"count": 60, "per": "1m"}, "concurrent": 4}]`.
	Quotas []Quota `json:"quotas,omitempty"`

	keys    *callers.File                                                      // nil: there is no callers_file
	jwt     *callers.Tokens                                                    // nil: there is no callers_jwt
	refused func(ctx context.Context, caller run.Caller, why *callers.Refusal) // reports a caller without a valid key or token
}

const defaultPrincipal = callers.DefaultPrincipal

// check checks the options about callers. allowHTTP allows issuers without TLS.
func (c *Callers) check(k *options.Checker, allowHTTP bool) {
	if c.Principal != "" {
		k.Check("principal", callers.CheckPlaceholder("principal", c.Principal))
	}
	if c.CallersFile != "" && c.Principal != "" {
		k.Check("callers_file", errors.New("principal and callers_file exclude each other: the keys in the file say who the caller is"))
	}
	if len(c.CallersJWT) > 0 && c.Principal != "" {
		k.Check("callers_jwt", errors.New("principal and callers_jwt exclude each other: the tokens say who the caller is"))
	}
	callers.CheckIssuers(k, c.CallersJWT, allowHTTP, c.CallersFile != "")
	if c.RequirePrincipal && c.AllowAnonymous {
		k.Check("allow_anonymous", errors.New("require_principal and allow_anonymous exclude each other"))
	}
}

// byToken reports whether the handler itself authenticates callers, by what they send as a bearer token: keys or access tokens.
func (c *Callers) byToken() bool { return c.CallersFile != "" || len(c.CallersJWT) > 0 }

// requires reports whether callers without a principal are refused.
func (c *Callers) requires() bool {
	return c.RequirePrincipal || c.byToken() && !c.AllowAnonymous
}

// placeholder returns what says who the caller is, and so whose the principals are: the placeholder whose value is the principal, or callers_file, or
// the only issuer without a prefix. Neither the path of the file nor the order of issuers belongs to it: run tokens remain valid if they change.
func (c *Callers) placeholder() string {
	switch i := slices.IndexFunc(c.CallersJWT, func(i callers.Issuer) bool { return i.Prefix == "" }); {
	case c.CallersFile != "":
		return "callers_file"
	case i >= 0:
		return "callers_jwt " + c.CallersJWT[i].Realm()
	case len(c.CallersJWT) > 0:
		return "callers_jwt"
	}
	return cmp.Or(c.Principal, defaultPrincipal)
}

// identity returns the option, or the placeholder, that says who the caller is, for the operator.
func (c *Callers) identity() string {
	if len(c.CallersJWT) > 0 {
		return "callers_jwt"
	}
	return c.placeholder()
}

// principalOf returns the caller's principal, which an earlier handler has set; it is empty
// for an anonymous caller. For a value that could be mistaken for another principal,
// principalOf returns only the reason.
func (c *Callers) principalOf(r *http.Request) (principal, ambiguous string) {
	return callers.PrincipalBy(r, c.placeholder())
}

// told returns what a caller is told who is refused, and the error code of RFC 6750; an empty code: nothing was sent, or it can't be checked.
func told(why *callers.Refusal) (message, code string) {
	switch {
	case why.Reason == run.KeyRequired:
		return "This bridge answers callers with a key only: send it with each request in the header field Authorization: Bearer <key>. Its operator gives you the key.", ""
	case why.Reason == run.TokenRequired:
		return "This bridge answers callers with an access token only: send it with each request in the header field Authorization: Bearer <token>.", ""
	case why.Reason == run.UnknownKey:
		return front.UnknownKey, "invalid_token"
	case why.Status == http.StatusUnauthorized:
		return front.InvalidToken, "invalid_token"
	case why.Status == http.StatusForbidden:
		return "This bridge refuses the access token, since it lacks a scope: get one with the scopes that WWW-Authenticate names.", "insufficient_scope"
	}
	return "This bridge can't check access tokens at the moment, since it can't reach their issuer: try again.", ""
}

// openKeys reads callers_file, if there is one.
func (c *Callers) openKeys(logger *zap.Logger) error {
	if c.CallersFile == "" {
		return nil
	}
	path, err := credentials.Text(c.CallersFile)
	if err == nil {
		c.keys, err = callers.Open(path, logger, callers.Prefixes(c.CallersJWT)...)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make it with caddy skill-bridge hash-key", err)
	}
	if err != nil {
		return &options.ConfigError{Path: "callers_file", Err: err}
	}
	return nil
}

// challenge returns the WWW-Authenticate field for callers without a key or a token (RFC 6750, section 3); empty: something in front of the handler
// authenticates them.
func (c *Callers) challenge() string {
	if !c.byToken() {
		return ""
	}
	return `Bearer realm="skill-bridge"`
}

// authenticate returns the principal of a request by its key or token, or why the request is refused. Only POST requests need one: others are
// for documents that anyone may read, or for the page, which refuses callers itself.
func (c *Callers) authenticate(r *http.Request) (principal string, refused *callers.Refusal) {
	token, sent := callers.Token(r.Header)
	if c.keys != nil {
		if principal = c.keys.Principal(token); principal == "" {
			refused = &callers.Refusal{Status: http.StatusUnauthorized, Reason: run.UnknownKey}
		}
	}
	if c.jwt != nil && principal == "" && sent {
		principal, refused = c.jwt.Authenticate(r.Context(), token)
	}
	switch {
	case principal != "":
		if replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
			replacer.Set("http.auth.user.id", principal) // for the access log, as authentication handlers do
		}
		return principal, nil
	case sent:
		return "", refused
	case r.Method != http.MethodPost || !c.requires():
		return "", nil
	case c.jwt != nil:
		return "", &callers.Refusal{Status: http.StatusUnauthorized, Reason: run.TokenRequired}
	}
	return "", &callers.Refusal{Status: http.StatusUnauthorized, Reason: run.KeyRequired}
}

// refuse answers a request without a valid key or token. Its body is not read, so that its method is not known.
func (h *Handler) refuse(ctx context.Context, w http.ResponseWriter, r *http.Request, caller run.Caller, why *callers.Refusal, toAgent, toTools bool) {
	caller.Front = skillsprotocol.Name
	answer := h.server.Refuse
	switch {
	case toTools:
		caller.Front, answer = mcp.Name, h.tools.Refuse
	case toAgent:
		caller.Front, answer = a2a.Name, h.agent.Refuse
	}
	h.refused(ctx, caller, why)
	message, code := told(why)
	if why.Status == http.StatusServiceUnavailable {
		answer(ctx, w, r, why.Status, message, "Retry-After", "10")
		return
	}
	challenge := h.challenge()
	if code != "" {
		challenge += `, error="` + code + `"`
	}
	answer(ctx, w, r, why.Status, message, "WWW-Authenticate", challenge+h.authorization.Parameters(r, why.Scopes))
}
