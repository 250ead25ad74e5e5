package credentials

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
)

// client is the resolved configuration of an [OAuth2].
type client struct {
	id           string
	secret       string
	tokenURL     string   // "": the descriptor's
	scopes       []string // none: the descriptor's
	ofUsers      bool     // its grants are those of users
	inBody       bool     // id and secret are sent in the body, not with HTTP Basic authentication
	refreshToken string
	params       url.Values
	parts        []string // parts of secrets and parameters that are redacted separately
	key          string   // a hash of all of it
}

// resolve replaces the placeholders of the options.
func (o *OAuth2) resolve(r *resolver) (*client, error) {
	c := &client{scopes: o.Scopes, inBody: o.AuthStyle == "params", params: make(url.Values, len(o.Params))}
	for _, setting := range []struct {
		option, text string
		read         func(option, text string) (string, error)
		target       *string
	}{
		{"client_id", o.ClientID, r.text, &c.id},
		{"client_secret", o.ClientSecret, r.secret, &c.secret},
		{"token_url", o.TokenURL, r.text, &c.tokenURL},
		{"refresh_token", o.RefreshToken, r.secret, &c.refreshToken},
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
			c.params.Add(name, value)
		}
	}
	if c.tokenURL != "" {
		if _, err := parseTokenURL(c.tokenURL); err != nil {
			return nil, fault("token_url", err)
		}
	}
	c.parts = slices.DeleteFunc(r.secrets, func(s string) bool { return s == c.secret || s == c.refreshToken })
	if c.secret == "" {
		c.inBody = true // RFC 6749, section 3.2.1: public clients name themselves in the body
	}
	r.secrets = c.secrets()
	c.key = digest(fmt.Sprintf("%#v", *c)) // it sorts maps
	return c, nil
}

// rotationName returns the name of the record of this client's refresh token at a token endpoint.
func (c *client) rotationName(endpoint string) string {
	return digest(c.id, endpoint, c.refreshToken)
}

// digest returns a hash of texts.
func digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:])
}

// formsOf returns the forms in which a secret is sent: unchanged, and encoded for the body of a token
// request (RFC 6749, appendix B).
func formsOf(secret string) []string {
	if encoded := url.QueryEscape(secret); encoded != secret {
		return []string{secret, encoded}
	}
	return []string{secret}
}

// secrets returns the configured secrets, in all forms in which they are sent. In HTTP Basic
// authentication, id and secret are encoded before they are joined (RFC 6749, section 2.3.1). The
// form without encoding is included, because a server may show it.
func (c *client) secrets() []string {
	var secrets []string
	if c.secret != "" {
		secrets = append(secrets, formsOf(c.secret)...)
		secrets = append(secrets, basic(url.QueryEscape(c.id), url.QueryEscape(c.secret)))
		if plain := basic(c.id, c.secret); !slices.Contains(secrets, plain) {
			secrets = append(secrets, plain)
		}
	}
	if c.refreshToken != "" {
		secrets = append(secrets, formsOf(c.refreshToken)...)
	}
	for _, part := range c.parts {
		secrets = append(secrets, formsOf(part)...)
	}
	return secrets
}

// basic returns the credentials of HTTP Basic authentication (RFC 7617, section 2).
func basic(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(id + ":" + secret))
}
