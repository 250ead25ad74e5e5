package tokens

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
)

// Client is how the bridge authenticates at token endpoints, and what it asks for.
type Client struct {
	ID           string
	Secret       string
	TokenURL     string   // "": the descriptor's
	Scopes       []string // none: the descriptor's
	OfUsers      bool     // its grants are those of users
	InBody       bool     // id and secret are sent in the body, not with HTTP Basic authentication
	RefreshToken string
	Params       url.Values
	Parts        []string // parts of secrets and parameters that are redacted separately
	Key          string   // a hash of all of it
}

// Digest returns a hash of texts.
func Digest(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:])
}

// FormsOf returns the forms in which a secret is sent: unchanged, and encoded for the body of a token
// request (RFC 6749, appendix B).
func FormsOf(secret string) []string {
	if encoded := url.QueryEscape(secret); encoded != secret {
		return []string{secret, encoded}
	}
	return []string{secret}
}

// Secrets returns the configured secrets, in all forms in which they are sent. In HTTP Basic
// authentication, id and secret are encoded before they are joined (RFC 6749, section 2.3.1). The
// form without encoding is included, because a server may show it.
func (c *Client) Secrets() []string {
	var secrets []string
	if c.Secret != "" {
		secrets = append(secrets, FormsOf(c.Secret)...)
		secrets = append(secrets, basic(url.QueryEscape(c.ID), url.QueryEscape(c.Secret)))
		if plain := basic(c.ID, c.Secret); !slices.Contains(secrets, plain) {
			secrets = append(secrets, plain)
		}
	}
	if c.RefreshToken != "" {
		secrets = append(secrets, FormsOf(c.RefreshToken)...)
	}
	for _, part := range c.Parts {
		secrets = append(secrets, FormsOf(part)...)
	}
	return secrets
}

// basic returns the credentials of HTTP Basic authentication (RFC 7617, section 2).
func basic(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(id + ":" + secret))
}

// ParseURL parses the address of a token endpoint (RFC 6749, section 3.2). The error does not
// contain the address.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Hostname() == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return nil, errors.New("must be a valid https:// or http:// address with a host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errors.New("must have a port from 1 to 65535, or none")
		}
	}
	if u.User != nil || u.Fragment != "" {
		return nil, errors.New("must have neither a user name nor a fragment")
	}
	return u, nil
}

// RedactURL returns the address without its query, which may contain secrets.
func RedactURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}
