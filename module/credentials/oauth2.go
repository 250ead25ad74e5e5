package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(OAuth2{}) }

// OAuth2 obtains access tokens from an OAuth 2.0 token endpoint (RFC 6749) and
// sends them as bearer tokens (RFC 6750). It supports skills whose `auth.type` is
// `oauth2` (Skill Sharing Protocol, section 7.2.2), and requests for indexes
// and descriptors if `token_url` is configured.
//
// The grant is client credentials (RFC 6749, section 4.4), or the configured
// refresh token (section 6). Grants of users are those of `oauth2_user`.
//
// Tokens are kept in memory until shortly before they expire, also across
// reloads, separately for each provider. After a provider has answered 401, one
// new token is fetched. After a refusal, secrets are read again from their files,
// and used if they have changed. If a token endpoint replaces the refresh token, the new
// one is kept in the database, encrypted, for restarts and for other instances with the
// same database. If another `refresh_token` is configured later, the stored one
// is ignored.
type OAuth2 struct {
	// The client's identifier at the token endpoint. May contain placeholders
	// such as `{env.NAME}`, which are replaced when the configuration loads.
	ClientID string `json:"client_id"`

	// The client's secret. Placeholders such as `{env.NAME}` and
	// `{file./path}` are replaced when the configuration loads; a secret
	// without a placeholder causes a warning. It is optional if there is a
	// `refresh_token`, for public clients: they send `client_id` in the body.
	ClientSecret string `json:"client_secret,omitempty"`

	// The token endpoint. By default it is the one that the skill's
	// descriptor names, if that is at the provider's host or a trusted one. An
	// endpoint without TLS is used only for providers whose origin begins with
	// `http://`. May contain placeholders.
	TokenURL string `json:"token_url,omitempty"`

	// The requested scopes. By default, they are those of the called skill's
	// descriptor, and requests for documents and with a `refresh_token` have none,
	// so that the token endpoint decides. Tokens of different scopes are different
	// tokens.
	Scopes []string `json:"scopes,omitempty"`

	// How the client authenticates at the token endpoint (RFC 6749, section
	// 2.3.1): `header` (HTTP Basic authentication, the default) or `params`
	// (in the request's body).
	AuthStyle string `json:"auth_style,omitempty"`

	// A refresh token. If it is set, its grant replaces client credentials.
	// Placeholders are replaced as in `client_secret`.
	RefreshToken string `json:"refresh_token,omitempty"`

	// Further parameters of token requests, for example `audience` or
	// `resource` (RFC 8707), each with one or several values. Values may
	// contain placeholders. The values of placeholders are redacted in logs and
	// answers, except in `audience` and `resource`.
	Params map[string][]string `json:"params,omitempty"`

	obtaining[*tokens.Client] `json:"-"`

	kept tokens.Keeping
}

// obtaining is what credentials have that obtain tokens.
type obtaining[C comparable] struct {
	client  *rereadable[C]
	ask     tokenOf[C]
	store   *tokens.Store
	sent    *tokens.Sent
	logger  *zap.Logger
	release func() // gives the store back
}

// Cleanup releases the tokens. Requests of the replaced configuration may still use them.
func (o *obtaining[C]) Cleanup() error {
	if o.release != nil { // nil: Provision failed
		o.release()
	}
	return nil
}

// Secrets returns the client secrets and the configured refresh token, in all forms in which they are sent. Other tokens are found by Sent.
func (o *obtaining[C]) Secrets() []string { return o.client.secrets() }

// Sent implements [credential.Signer].
func (o *obtaining[C]) Sent(text []byte) []string { return o.sent.Find(text) }

// Advice implements [credential.Advisor].
func (*obtaining[C]) Advice() string { return tokens.CheckClient }

// reservedParams are the parameters of token requests that params can't set: there are options for
// them, or the module sets them.
var reservedParams = []string{"client_id", "client_secret", "code", "grant_type", "refresh_token", "scope"}

// CaddyModule returns the Caddy module information.
func (OAuth2) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.oauth2", New: func() caddy.Module { return new(OAuth2) }}
}

// Provision resolves the settings and takes the tokens of the same settings from the pool.
func (o *OAuth2) Provision(ctx caddy.Context) error {
	o.logger = logger(ctx)
	c, err := newRereadable(ctx, o.check, o.resolve)
	if err != nil {
		return err
	}
	o.client, o.sent, o.ask = c, new(tokens.Sent), o.token
	o.store, o.release = tokens.HoldStore(c.get())
	return nil
}

// check checks the options before placeholders are replaced.
func (o *OAuth2) check(c *options.Checker) {
	o.checkClient(c)
	checkParams(c, o.Params, reservedParams)
	c.Check("client_secret", checkPresent(o.ClientSecret+o.RefreshToken))
	c.Check("refresh_token", checkShell(o.RefreshToken))
}

// checkClient checks the options that grants of users have, too.
func (o *OAuth2) checkClient(c *options.Checker) {
	for _, scope := range o.Scopes {
		c.Check("scopes", options.CheckScope(scope))
	}
	c.Check("auth_style", checkOneOf(o.AuthStyle, "header", "params"))
	c.Check("client_id", CheckSecret(o.ClientID))
	c.Check("client_secret", checkShell(o.ClientSecret))
	checkLiteral(c, "token_url", o.TokenURL)
}

// checkLiteral checks an address of an authorization server that is written without placeholders.
func checkLiteral(c *options.Checker, option, address string) {
	if !strings.Contains(address, "{") {
		c.Check(option, checkAddress(option, address))
	}
}

// resolve replaces the placeholders of the options.
func (o *OAuth2) resolve(r *resolver) (*tokens.Client, error) {
	c := &tokens.Client{Scopes: o.Scopes, InBody: o.AuthStyle == "params", Params: make(url.Values, len(o.Params))}
	for _, setting := range []struct {
		option, text string
		read         func(option, text string) (string, error)
		target       *string
	}{
		{"client_id", o.ClientID, r.text, &c.ID},
		{"client_secret", o.ClientSecret, r.secret, &c.Secret},
		{"token_url", o.TokenURL, r.text, &c.TokenURL},
		{"refresh_token", o.RefreshToken, r.secret, &c.RefreshToken},
	} {
		value, err := setting.read(setting.option, setting.text)
		if err != nil {
			return nil, err
		}
		*setting.target = value
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		for _, text := range o.Params[name] {
			read := r.mixed
			if name == "audience" || name == "resource" {
				read = r.text
			}
			value, err := read("params "+name, text)
			if err != nil {
				return nil, err
			}
			c.Params.Add(name, value)
		}
	}
	if err := checkAddress("token_url", c.TokenURL); err != nil {
		return nil, &options.ConfigError{Path: "token_url", Err: err}
	}
	c.Parts = slices.DeleteFunc(r.secrets, func(s string) bool { return s == c.Secret || s == c.RefreshToken })
	if c.Secret == "" {
		c.InBody = true // RFC 6749, section 3.2.1: public clients name themselves in the body
	}
	r.secrets = c.Secrets()
	c.Key = tokens.Digest(fmt.Sprintf("%#v", *c)) // it sorts maps
	return c, nil
}

// checkParams checks the names of further parameters of requests.
func checkParams(c *options.Checker, params map[string][]string, reserved []string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		switch {
		case name == "":
			c.Check("params", errors.New("a name is missing"))
		case slices.Contains(reserved, name):
			c.Check("params."+name, errors.New("cannot be set"))
		}
	}
}

// Supports implements [credential.Credentials].
func (o *OAuth2) Supports(auth *document.Auth) bool {
	if auth == nil {
		return o.client.get().TokenURL != ""
	}
	return auth.Type == document.AuthOAuth2
}

// token returns an access token of a client, which is not the rejected one.
func (o *OAuth2) token(ctx context.Context, c *tokens.Client, a *credential.Authentication, rejected string) (string, error) {
	endpoint, err := c.Endpoint(a)
	if err != nil {
		return "", err
	}
	key := c.KeyOf(endpoint, a)
	token, err := o.store.Get(ctx, key, rejected, o.fetcher(c, key, a))
	o.sent.AddTokens(token)
	return token, err
}

// bearer is the prefix of a token in the header (RFC 6750, section 2.1).
const bearer = "Bearer "

// tokenOf is a function that returns an access token of a client: another one than the rejected one, if there is another; rejected is empty if none was.
type tokenOf[C any] func(ctx context.Context, c C, a *credential.Authentication, rejected string) (string, error)

// Authenticate adds an access token as a bearer token, and fetches one if there is none, or the known one has expired. It asks again if the token endpoint
// refuses the client, and the secret in a file was replaced. It fails with AUTH_REQUIRED if the token endpoint may not be used, refuses, or answers with
// something other than a token, or if a user has no grant; with ENDPOINT_UNREACHABLE if it does not answer or answers with a temporary error; and with
// INVOCATION_TIMEOUT if ctx ends first.
func (o *obtaining[C]) Authenticate(ctx context.Context, a *credential.Authentication) error {
	c := o.client.get()
	token, err := o.ask(ctx, c, a, "")
	if e, ok := errors.AsType[*run.Failure](err); ok && e.Kind == run.AuthRequired && e.By == run.Provider { // by the token endpoint
		o.client.reread(ctx)
		if newest := o.client.get(); newest != c {
			token, err = o.ask(ctx, newest, a, "")
		}
	}
	if err != nil {
		return describe(err, a.Auth)
	}
	a.Request.Header.Set("Authorization", bearer+token)
	return nil
}

// Renew implements [credential.Renewer]. It reports whether there is another token than that of the request, which was rejected: it fetches one, unless that was
// replaced already. Its errors are those of Authenticate.
func (o *obtaining[C]) Renew(ctx context.Context, a *credential.Authentication) (bool, error) {
	o.client.reread(ctx)
	rejected := strings.TrimPrefix(a.Request.Header.Get("Authorization"), bearer)
	token, err := o.ask(ctx, o.client.get(), a, rejected)
	if err != nil {
		return false, describe(err, a.Auth)
	}
	return token != rejected, nil
}

// Keep implements [Keeper].
func (o *OAuth2) Keep(k tokens.Keeping) { o.kept = k }

// Obtains implements [credential.Obtainer].
func (o *OAuth2) Obtains() bool { return !o.kept.Trial || o.RefreshToken == "" }

// describe adds the descriptor's authorization URL and scopes to the failure of a token request.
// Calls of skills with different descriptors share such failures.
func describe(err error, auth *document.Auth) error {
	e, ok := errors.AsType[*run.Failure](err)
	if !ok || e.Demand == nil || e.Demand.ConnectURL != "" || auth == nil || auth.OAuth2 == nil {
		return err
	}
	d := *e.Demand
	d.AuthorizationURL, d.Scopes, d.FromProvider = auth.OAuth2.AuthorizationURL, auth.OAuth2.Scopes, true
	e.Demand = &d
	return e
}

// fetcher returns the function that obtains a token for an authentication. The function may run
// longer than the call, so it holds only what a token request needs.
func (o *OAuth2) fetcher(c *tokens.Client, key tokens.Key, a *credential.Authentication) tokens.Fetch {
	f := tokens.Request{
		Client: c, Endpoint: key.TokenURL, Transport: a.Transport, Limit: a.MaxResponseSize, Scopes: strings.Fields(key.Scopes), Credentials: o,
	}
	return func(ctx context.Context, newest tokens.Refresh) (tokens.Granted, *run.Failure) {
		granted, err := o.obtain(ctx, f, newest)
		o.sent.AddTokens(granted.Access.Value, granted.Refresh.Value)
		if err != nil {
			if c.TokenURL == "" && err.Demand != nil {
				err.Demand.FromProvider = true
			}
			if c.TokenURL == "" && err.Reach != nil {
				err.Reach.FromProvider = true
			}
		}
		return granted, err
	}
}

// obtain sends the token request of the configured grant.
func (o *OAuth2) obtain(ctx context.Context, f tokens.Request, newest tokens.Refresh) (tokens.Granted, *run.Failure) {
	if f.Client.RefreshToken == "" {
		return f.Do(ctx, tokens.ClientCredentials())
	}
	if o.kept.Trial {
		return tokens.Granted{Refresh: newest}, tokens.AuthRequired(run.Bridge, f.Endpoint, tokens.Refusal{
			Reason:  "refresh_token_untried",
			Message: "The refresh token was not used: its endpoint may replace it, and the bridge's database does not exist yet, which has to keep the new one.",
			Advice:  "start Caddy",
		})
	}
	r := tokens.Rotation{
		Keeping:    o.kept,
		Logger:     o.logger,
		Endpoint:   f.Endpoint,
		Kind:       tokens.RefreshKind,
		Name:       tokens.Digest(f.Client.ID, f.Endpoint, f.Client.RefreshToken),
		Keep:       tokens.RefreshKept,
		Configured: f.Client.RefreshToken,
	}
	return r.Do(ctx, newest, func(ctx context.Context, token string) (tokens.Granted, *run.Failure) {
		o.sent.AddTokens(token)
		return f.Do(ctx, tokens.Refreshing(token))
	})
}
