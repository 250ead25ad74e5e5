package tokens

import (
	"maps"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// KeyOf returns the key of the token for a request.
func (c *Client) KeyOf(endpoint string, a *credential.Authentication) Key {
	scopes := c.Scopes
	if len(scopes) == 0 && c.RefreshToken == "" { // a refresh token may be for less than all that a descriptor names
		scopes = ScopesOf(a.Auth)
	}
	return Key{Client: c.Key, TokenURL: endpoint, Origin: a.Origin, Scopes: strings.Join(scopes, " ")}
}

// MaxScopes bounds the scopes of a descriptor that are asked for.
const MaxScopes = 64

// ScopesOf returns the scopes of a descriptor that can be asked for; nil auth: none.
func ScopesOf(auth *document.Auth) (scopes []string) {
	if auth == nil || auth.OAuth2 == nil {
		return nil
	}
	for _, scope := range slices.Sorted(maps.Keys(auth.OAuth2.Scopes)) {
		if options.CheckScope(scope) == nil && len(scopes) < MaxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// Endpoint returns the token endpoint of a request. It fails if the secret may not be sent there.
func (c *Client) Endpoint(a *credential.Authentication) (string, error) {
	named := ""
	if a.Auth != nil && a.Auth.OAuth2 != nil {
		named = a.Auth.OAuth2.TokenURL
	}
	return Address(a, "token_url", c.TokenURL, named)
}

// Address returns the configured address of an authorization server for a request, or else the one that the descriptor names, if a secret may be sent there. A
// configured one without TLS is refused, unless the provider's origin is without TLS, too.
func Address(a *credential.Authentication, option, configured, named string) (string, error) {
	what := map[string]string{"token_url": "token endpoint", "authorization_url": "authorization endpoint"}[option]
	isPlain := func(address string) bool { return strings.HasPrefix(strings.ToLower(address), "http://") }
	switch u, err := ParseURL(named); {
	case configured != "" && isPlain(configured) && !isPlain(a.Origin):
		return configured, refused(configured, Refusal{
			option + "_insecure",
			"The configured " + option + " is an http:// address, which is allowed only for providers whose origin begins with http://.",
			"configure an https:// address as " + option,
		})
	case configured != "":
		return configured, nil
	case named == "":
		return "", refused("", Refusal{option + "_missing", "The descriptor names no " + what + ".", "configure " + option})
	case err != nil:
		return "", refused("", Refusal{option + "_invalid", "The descriptor's " + what + " is not usable.", "configure " + option})
	default:
		return u.String(), a.MaySend(u)
	}
}

// refused returns the error of a token request that is not sent.
func refused(tokenURL string, r Refusal) *run.Failure {
	e := AuthRequired(run.Bridge, tokenURL, r)
	e.Refused = run.RuleCredential
	return e
}
