package credentials

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(OAuth2User{}) }

// OAuth2User sends the access tokens of users: each connects an account of their own at the provider, in
// a browser, on the pages of the handler's option `connect` (authorization codes of OAuth 2.0, RFC 6749,
// section 4.1, with PKCE, RFC 7636). It supports skills whose `auth.type` is `oauth2`. Calls of a user who
// has not connected an account fail with AUTH_REQUIRED and the link of the page.
//
// A provider with these credentials requires a principal. The handler needs the options `connect`, and
// `seal_key`, with which the tokens are encrypted in the database. Tokens are refreshed before they
// expire and after the provider has answered 401, by one instance at a time. A grant that is not used for 90
// days is revoked and deleted.
type OAuth2User struct {
	// The client's identifier at the authorization server. Its redirect URI is the URL of `connect`, followed by the namespace of the provider
	// and `/callback`, as `caddy skill-bridge check` prints it. May contain placeholders such as `{env.NAME}`, which are replaced when the
	// configuration loads.
	ClientID string `json:"client_id"`

	// The client's secret. Placeholders such as `{env.NAME}` and `{file./path}` are replaced when the
	// configuration loads; a secret without a placeholder causes a warning. Default: none, for public clients.
	ClientSecret string `json:"client_secret,omitempty"`

	// How the client authenticates at the token and the revocation endpoint: `header` (HTTP Basic authentication, the default) or `params` (in the
	// request's body).
	AuthStyle string `json:"auth_style,omitempty"`

	// The authorization endpoint, where users consent. A query in it is kept. By default it is the one that the skill's descriptor names, if
	// that is at the provider's host or a trusted one. May contain placeholders.
	AuthorizationURL string `json:"authorization_url,omitempty"`

	// The token endpoint. By default it is the descriptor's, as above. May contain placeholders.
	TokenURL string `json:"token_url,omitempty"`

	// Where tokens are revoked (RFC 7009) when a grant ends. By default it is the one in the metadata of the `issuer`; without one, tokens are
	// only deleted. May contain placeholders.
	RevocationURL string `json:"revocation_url,omitempty"`

	// The issuer that the authorization server names in its answers (RFC 9207): an answer with another one is refused, and one without an issuer if
	// the server's metadata says that it sends one. The metadata is read when a user begins to connect an account, and kept for a day. Default: none.
	Issuer string `json:"issuer,omitempty"`

	// The scopes that users are asked for. By default, they are those of the called skill's descriptor. If the first one
	// begins with `+`, they are added to those, for example `+offline_access`.
	Scopes []string `json:"scopes,omitempty"`

	// Further parameters of the authorization request, for example `prompt` or `audience`, each with one or several values. Values may contain
	// placeholders; browsers see them.
	Params map[string][]string `json:"params,omitempty"`

	// The resource that the tokens are for (RFC 8707), in authorization and token requests. Default: none.
	Resource string `json:"resource,omitempty"`

	obtaining[*userClient] `json:"-"`

	issuer *tokens.Kept[*tokens.Metadata]
	grants *grants // nil: there is no database
	named  *namedEndpoints
}

// userClient is the resolved configuration of an [OAuth2User].
type userClient struct {
	tokens.Client

	authorizationURL, revocationURL, issuer string
	authorization                           url.Values // further parameters of authorization requests
	added                                   bool       // the scopes are added to those of the descriptor
}

// reservedAuthorizationParams are the parameters of authorization requests that params can't set.
var reservedAuthorizationParams = []string{
	"client_id", "client_secret", "code", "code_challenge", "code_challenge_method", "redirect_uri", "request", "request_uri", "resource", "response_mode",
	"response_type", "scope", "state",
}

// CaddyModule returns the Caddy module information.
func (OAuth2User) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.oauth2_user", New: func() caddy.Module { return new(OAuth2User) }}
}

// Provision resolves the settings.
func (o *OAuth2User) Provision(ctx caddy.Context) error {
	o.logger = logger(ctx)
	c, err := newRereadable(ctx, o.check, o.resolve)
	if err != nil {
		return err
	}
	o.client, o.sent, o.issuer, o.named, o.ask = c, new(tokens.Sent), new(tokens.Kept[*tokens.Metadata]), new(namedEndpoints), o.token
	o.store, o.release = tokens.HoldStore(&c.get().Client)
	return nil
}

// base returns the options that [OAuth2] has, too, but for those of authorization requests.
func (o *OAuth2User) base() *OAuth2 {
	base := &OAuth2{ClientID: o.ClientID, ClientSecret: o.ClientSecret, TokenURL: o.TokenURL, AuthStyle: o.AuthStyle, Scopes: slices.Clone(o.Scopes)}
	if len(base.Scopes) > 0 {
		base.Scopes[0] = strings.TrimPrefix(base.Scopes[0], "+")
	}
	if o.Resource != "" {
		base.Params = map[string][]string{"resource": {o.Resource}}
	}
	return base
}

// check checks the options before placeholders are replaced.
func (o *OAuth2User) check(c *options.Checker) {
	o.base().checkClient(c)
	if slices.ContainsFunc(o.Scopes[min(1, len(o.Scopes)):], func(scope string) bool { return strings.HasPrefix(scope, "+") }) {
		c.Check("scopes", errors.New("only the first scope can begin with +, which adds all of them to the descriptor's"))
	}
	checkParams(c, o.Params, reservedAuthorizationParams)
	checkLiteral(c, "authorization_url", o.AuthorizationURL)
	checkLiteral(c, "revocation_url", o.RevocationURL)
	checkLiteral(c, "issuer", o.Issuer)
	checkLiteral(c, "resource", o.Resource)
}

// checkAddress checks an address of an authorization server, or a resource. A descriptor's would be the default of an empty one.
func checkAddress(option, address string) error {
	switch u, err := url.Parse(address); {
	case option == "resource" && address != "" && (err != nil || !u.IsAbs() || strings.Contains(address, "#")):
		return errors.New("must be an absolute URI without a fragment, such as https://api.example.com (RFC 8707)")
	case option == "resource", address == "":
		return nil
	}
	u, err := tokens.ParseURL(address)
	if err == nil && option == "issuer" && (u.RawQuery != "" || u.ForceQuery) {
		err = errors.New("must have no query")
	}
	return err
}

// resolve replaces the placeholders of the options.
func (o *OAuth2User) resolve(r *resolver) (*userClient, error) {
	resolved, err := o.base().resolve(r)
	if err != nil {
		return nil, err
	}
	c := &userClient{Client: *resolved, authorization: maps.Clone(resolved.Params)}
	c.OfUsers, c.added = true, len(o.Scopes) > 0 && strings.HasPrefix(o.Scopes[0], "+")
	var resource string // base has it
	for _, address := range []struct {
		option, text string
		target       *string
	}{{"resource", o.Resource, &resource}, {"authorization_url", o.AuthorizationURL, &c.authorizationURL}, {"revocation_url", o.RevocationURL, &c.revocationURL}, {"issuer", o.Issuer, &c.issuer}} {
		if *address.target, err = r.text(address.option, address.text); err != nil {
			return nil, err
		}
		if err := checkAddress(address.option, *address.target); err != nil {
			return nil, &options.ConfigError{Path: address.option, Err: err}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Params)) {
		for _, text := range o.Params[name] {
			value, err := r.text("params "+name, text)
			if err != nil {
				return nil, err
			}
			c.authorization.Add(name, value)
		}
	}
	c.Client.Key = tokens.Digest(fmt.Sprintf("%#v", *c)) // it sorts maps
	return c, nil
}

// Supports implements [credential.Credentials].
func (*OAuth2User) Supports(auth *document.Auth) bool {
	return auth != nil && auth.Type == document.AuthOAuth2
}

// rejectable is the age from which the rejection of a token that can't be refreshed ends its grant: the provider has accepted it before. A younger one is a matter
// for the operator, since users would consent in circles.
const rejectable = 5 * time.Minute

// token returns the access token of the user of a request (see [tokenOf]). A 401 counts only for the token that was sent: the stored one may be another. Without a
// grant, it fails with AUTH_REQUIRED and the link where the user can connect an account.
func (o *OAuth2User) token(ctx context.Context, c *userClient, a *credential.Authentication, rejected string) (string, error) {
	if a.Owner == "" || o.grants == nil {
		return "", run.NeedsCredential(&run.Demand{By: run.Bridge, Type: string(document.AuthOAuth2), Reason: "the request has no principal"},
			"Each user connects an account of their own at this provider, and the request belongs to none.")
	}
	endpoint, err := c.Endpoint(a)
	if err != nil {
		return "", err
	}
	ages := []time.Duration{rowFresh, 0}
	if rejected != "" {
		ages = ages[1:]
	}
	g, missing, failure := o.look(ctx, c, a.Owner, a.Auth, nil, ages...)
	if failure != nil {
		return "", failure
	}
	row := g.row
	switch {
	case row != nil && row.ended(time.Now()):
		o.grants.end(ctx, g, "expired")
		return "", o.missing(c, &held{}, a.Auth, nil)
	case missing != nil:
		return "", missing
	case rejected != "" && rejected == row.Access && row.Refresh == "":
		if time.Since(row.Obtained) < rejectable {
			return rejected, nil
		}
		o.grants.end(ctx, g, "rejected")
		return "", o.missing(c, &held{}, a.Auth, nil)
	}
	o.sent.AddTokens(row.Access, row.Refresh)
	key := tokens.Key{Client: c.Key, TokenURL: endpoint, Origin: a.Origin, Scopes: row.Flow, Owner: g.thing.Name}
	o.store.Adopt(key, row.token())
	token, err := o.store.Get(ctx, key, rejected, o.refresher(c, key, a))
	if errors.Is(err, errGrantEnded) {
		return "", o.missing(c, &held{}, a.Auth, nil)
	}
	if err == nil {
		o.grants.touch(ctx, g)
	}
	return token, err
}

// metadataFresh is how long the metadata of an issuer is not read again.
const metadataFresh = 24 * time.Hour

// metadata returns the metadata of the issuer, as it was read in the last day; without an issuer, it is empty.
func (o *OAuth2User) metadata(ctx context.Context, issuer string, a *credential.Authentication) (*tokens.Metadata, error) {
	if issuer == "" {
		return new(tokens.Metadata), nil
	}
	isOf := func(m *tokens.Metadata, age time.Duration) bool { return age < metadataFresh && m.Issuer == issuer }
	found, _, err := o.issuer.Get(ctx, metadataFresh, isOf, func(ctx context.Context) (*tokens.Metadata, error) {
		return tokens.ReadMetadata(ctx, a.Transport, issuer)
	})
	if err == nil && found.Issuer == issuer {
		return found, nil
	}
	e := run.NotExecuted(run.Unreachable, run.PhaseAuth, "The metadata of the authorization server can't be read.")
	e.Cause, e.Reach, e.Retry = err, &run.Reach{URL: tokens.RedactURL(issuer), Reason: "metadata"}, run.RetryIn(2*time.Second, 3)
	e.Reach.ForOperator = fmt.Sprintf("The metadata of the authorization server can't be read: %v.", err)
	return nil, e
}
