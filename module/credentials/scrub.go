package credentials

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// formsOf are the forms in which a secret is sent: as it is, and encoded for the
// body of a token request (RFC 6749, appendix B).
func formsOf(secret string) []string {
	if encoded := url.QueryEscape(secret); encoded != secret {
		return []string{secret, encoded}
	}
	return []string{secret}
}

// secrets are the configured secrets, in all the forms in which they are sent.
// In HTTP Basic authentication, both parts are encoded before they are joined
// (RFC 6749, section 2.3.1); not every server reads it so, and what one shows
// may have been joined otherwise.
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

// basic is the credential of HTTP Basic authentication (RFC 7617, section 2).
func basic(id, secret string) string {
	return base64.StdEncoding.EncodeToString([]byte(id + ":" + secret))
}

// scrubbed is err without the secrets that it repeats, which may be what a peer
// has sent back: net/http quotes answers that it cannot read. An error that
// repeats any keeps nothing but its text.
func scrubbed(err error, secrets []string) error {
	if err == nil {
		return nil
	}
	text := redacted(err.Error(), secrets)
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// redacted is a text without secrets, also as they are when they are quoted.
func redacted(text string, secrets []string) string {
	forms := slices.Clone(secrets)
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		forms = append(forms, quoted[1:len(quoted)-1])
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be a part of another
	for _, form := range forms {
		text = strings.ReplaceAll(text, form, "[redacted]")
	}
	return text
}
