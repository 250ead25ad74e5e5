package callers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/module/options"
)

// Issuer is an authorization server (RFC 6749) whose access tokens (RFC 9068) the bridge accepts.
type Issuer struct {
	// The issuer, exactly as in the claim `iss` of its tokens: with a slash at the end if there is one. Its metadata (OpenID Connect
	// Discovery, else RFC 8414) names its keys; the connections are those that the options about the network allow.
	// Example: `https://login.example.com/realms/main`.
	URL string `json:"issuer" option:"-"`

	// What the claim `aud` has to be, or to have, so that tokens for other services are refused: one of these texts. It is usually the URL
	// of the endpoint, which clients name when they ask for a token (RFC 8707). Required. Example: `["https://agents.example.com/mcp"]`.
	Audience []string `json:"audience"`

	// The claim whose text is the principal. Use one that the issuer never gives to another user: names and e-mail addresses may be.
	// Default: `sub`.
	Claim string `json:"principal,omitempty"`

	// Begins the principals of this issuer, so that no other issuer, and no key, has the same: with the prefix `acme:`, the user 7 is
	// `acme:7`. Required for all issuers but one, and for all beside `callers_file`. No prefix begins with another. Default: none.
	Prefix string `json:"prefix,omitempty"`

	// Scopes that each token must have, in its claim `scope` or `scp`. A token without them is answered with HTTP status 403. Default: none.
	Scopes []string `json:"scopes,omitempty"`
}

// Realm says whose the principals are that have no prefix: those of another issuer, or of another claim, are others.
func (i *Issuer) Realm() string { return i.URL + " " + i.claim() }

func (i *Issuer) claim() string { return cmp.Or(i.Claim, "sub") }

// Read reads the option callers_jwt. Path is its place in the JSON config.
func (i *Issuer) Read(r *options.Reader, path string) error {
	r.Mark(path)
	return r.BlockWith("callers_jwt", path, "an issuer", 1, i, nil, &i.URL)
}

// CheckIssuers checks issuers. allowHTTP allows them to have no TLS, and keys says that there are callers with keys, too.
func CheckIssuers(c *options.Checker, issuers []Issuer, allowHTTP, keys bool) {
	for n, i := range issuers {
		path := options.Element("callers_jwt", n)
		c.Check(path+".issuer", options.CheckIssuer("issuer", i.URL))
		if strings.HasPrefix(i.URL, "http:") && !allowHTTP {
			c.Check(path+".issuer", fmt.Errorf("issuer %q is without TLS, so that anyone on the network path could replace its keys; the option allow_http allows it", i.URL))
		}
		if len(i.Audience) == 0 || slices.Contains(i.Audience, "") {
			c.Check(path+".audience", errors.New("callers_jwt needs an audience that is not empty: otherwise tokens for other services would be accepted"))
		}
		if i.Prefix != "" {
			c.Check(path+".prefix", options.CheckName("prefix", i.Prefix))
			c.Check(path+".prefix", checkPrincipal(i.Prefix))
		} else if keys {
			c.Check(path+".prefix", errors.New("callers_jwt beside callers_file needs a prefix: otherwise a user of the issuer could be the principal of a key"))
		}
		for m, scope := range i.Scopes {
			c.Check(options.Element(path+".scopes", m), options.CheckScope(scope))
		}
		for _, other := range issuers[:n] {
			switch {
			case other.URL == i.URL:
				c.Check(path+".issuer", fmt.Errorf("two callers_jwt have the issuer %q", i.URL))
			case i.Prefix == "" && other.Prefix == "":
				c.Check(path+".prefix", errors.New("two callers_jwt have no prefix: users of one issuer could be the principals of the other"))
			case i.Prefix != "" && strings.HasPrefix(other.Prefix, i.Prefix), other.Prefix != "" && strings.HasPrefix(i.Prefix, other.Prefix):
				c.Check(path+".prefix", fmt.Errorf("of the prefixes %q and %q of callers_jwt, one begins with the other, so that two users could be one principal", other.Prefix, i.Prefix))
			}
		}
	}
}

// Prefixes returns the prefixes of issuers.
func Prefixes(issuers []Issuer) (all []string) {
	for _, i := range issuers {
		if i.Prefix != "" {
			all = append(all, i.Prefix)
		}
	}
	return all
}
