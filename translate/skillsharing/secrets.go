package skillsharing

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const redacted = "[redacted]"

// Bounds of what is passed on of a provider's own words, in bytes.
const (
	maxErrorMessage = 4 << 10
	maxErrorCode    = 200
)

// scrub removes configured secrets, and tokens obtained with them, from all that
// an answer or a log line is made of. Providers do echo them. Only then are texts
// cut to their length: half a secret would not be found.
func (e *Error) scrub(credentials ...Credentials) {
	cause := ""
	if e.Cause != nil {
		cause = e.Cause.Error()
	}
	for _, secret := range secretsOf(credentials, string(e.Code), e.Message, e.URL, string(e.Details), string(e.Retry), cause) {
		e.Code = ErrorCode(strings.ReplaceAll(string(e.Code), secret, redacted))
		e.Message = strings.ReplaceAll(e.Message, secret, redacted)
		e.URL = strings.ReplaceAll(e.URL, secret, redacted)
		e.Details = scrubJSON(e.Details, secret)
		e.Retry = scrubJSON(e.Retry, secret)
		if e.Cause != nil && strings.Contains(e.Cause.Error(), secret) {
			e.Cause = errors.New(strings.ReplaceAll(e.Cause.Error(), secret, redacted))
		}
	}
	e.Code = ErrorCode(clip(string(e.Code), maxErrorCode))
	e.Message = clip(e.Message, maxErrorMessage)
}

// scrubText removes configured secrets from a text.
func (c *Client) scrubText(text string) string {
	for _, secret := range secretsOf([]Credentials{c.Credentials, c.DiscoveryCredentials}, text) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// scrubbed is an error for the log: package net/http quotes what a provider sent.
func (c *Client) scrubbed(err error) error { return errors.New(c.scrubText(err.Error())) }

// secretsOf lists all secrets, and the signatures that stand in texts, longer ones
// first: one may be a part of another.
func secretsOf[T ~string | ~[]byte](credentials []Credentials, texts ...T) []string {
	var secrets []string
	for _, c := range credentials {
		if c != nil {
			secrets = append(secrets, c.Secrets()...)
		}
		if signer, ok := c.(Signer); ok {
			for _, text := range texts {
				secrets = append(secrets, signaturesIn([]byte(text), signer)...)
			}
		}
	}
	for _, s := range secrets {
		if quoted := strconv.Quote(s); quoted != `"`+s+`"` { // as package net/http quotes what it can't read
			secrets = append(secrets, quoted[1:len(quoted)-1])
		}
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return secrets
}

// signaturesIn lists what a signer has sent lately and stands in a text, which may be
// JSON.
func signaturesIn(text []byte, signer Signer) []string {
	found := signer.Sent(text)
	for s := range escapedStrings(text) {
		found = append(found, signer.Sent(s)...)
	}
	return found
}

// scrubJSON removes a secret as it stands in JSON text, where some of its
// characters may be escaped, or all be the digits of a number. A replacement never
// breaks the text's syntax: it happens within strings, instead of a number, or not at
// all.
func scrubJSON(v jsontext.Value, secret string) jsontext.Value {
	if v == nil || !mayContain(v, secret) {
		return v
	}
	return mapStrings(v, []string{secret})
}

// mayContain is a cheap test: a secret without any escape is there verbatim, and one
// that is a number may be written in several ways.
func mayContain(v jsontext.Value, secret string) bool {
	return bytes.Contains(v, []byte(secret)) || bytes.IndexByte(v, '\\') >= 0 || isDigits(secret)
}

// isDigits reports whether a secret may be taken for a number.
func isDigits(secret string) bool { return secret != "" && strings.Trim(secret, "0123456789") == "" }

// isSecret reports whether a number of a JSON text is one of the secrets, however it
// is written: one who reads a key of digits as a number loses leading zeros, and digits
// beyond those of a float. The digits of a longer secret may be a part of it.
func isSecret(number string, secrets []string) bool {
	value, _ := strconv.ParseFloat(number, 64) // infinite if it is too large
	for _, s := range secrets {
		if !isDigits(s) {
			continue
		}
		if len(s) >= minOutputSecret && strings.Contains(number, s) {
			return true
		}
		// A secret of zeros has the value of every 0, which tells nothing of it.
		if own, err := strconv.ParseFloat(s, 64); err == nil && own != 0 && (own == value || own == -value) {
			return true
		}
	}
	return false
}

// numberAny reports whether a number in JSON text is one of the secrets.
func numberAny(v jsontext.Value, secrets []string) bool {
	if !slices.ContainsFunc(secrets, isDigits) {
		return false
	}
	for dec := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true)); ; {
		token, err := dec.ReadToken()
		switch {
		case err != nil:
			return false
		case token.Kind() == '0' && isSecret(token.String(), secrets):
			return true
		}
	}
}

// minOutputSecret is the length of the shortest secret that is looked for in the
// outputs of runs, in bytes. A shorter one may well stand in innocent data, which
// replacing it would destroy.
const minOutputSecret = 6

// scrubOutput removes configured secrets from the output of a run, as [Error.scrub]
// does from the details of an error. An output without any stays as it is, byte
// for byte.
func (c *Client) scrubOutput(output jsontext.Value) jsontext.Value {
	if output == nil {
		return nil
	}
	secrets := c.longSecrets(output)
	if !repeatsAny(output, secrets) {
		return output
	}
	return mapStrings(output, secrets)
}

// repeatsSecret reports whether a document repeats a credential: it would be shown
// to whoever asks for it.
func (c *Client) repeatsSecret(document []byte) bool {
	return repeatsAny(document, c.longSecrets(document))
}

// longSecrets are those that do not stand in innocent data, with the signatures that
// stand in texts.
func (c *Client) longSecrets(texts ...[]byte) []string {
	secrets := secretsOf([]Credentials{c.Credentials, c.DiscoveryCredentials}, texts...)
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minOutputSecret })
}

// repeatsAny reports whether JSON text has one of the secrets in it.
func repeatsAny(v jsontext.Value, secrets []string) bool {
	return containsAny(v, secrets) || escapedAny(v, secrets) || numberAny(v, secrets)
}

func containsAny(text []byte, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool { return bytes.Contains(text, []byte(secret)) })
}

// escapedAny reports whether a string with escapes, in valid JSON, has a secret in
// it. Other strings are passed over: outputs can be large.
func escapedAny(v jsontext.Value, secrets []string) bool {
	if len(secrets) == 0 {
		return false
	}
	for s := range escapedStrings(v) {
		if containsAny(s, secrets) {
			return true
		}
	}
	return false
}

// escapedStrings are the strings with escapes, unquoted, of valid JSON. Each is good
// until the next.
func escapedStrings(v []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var unquoted []byte
		for {
			escape := bytes.IndexByte(v, '\\')
			if escape < 0 {
				return
			}
			// Only strings have escapes, and before its first one a string has no quotation mark but the one it begins with.
			start := bytes.LastIndexByte(v[:escape], '"')
			if start < 0 {
				return
			}
			end := stringEnd(v, escape)
			unquoted, _ = jsontext.AppendUnquote(unquoted[:0], v[start:end])
			if !yield(unquoted) {
				return
			}
			v = v[end:]
		}
	}
}

// stringEnd returns where a JSON string ends, after its quotation mark, one of
// whose escapes begins at i.
func stringEnd(v jsontext.Value, i int) int {
	for ; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(v)
}

// mapStrings replaces secrets in every string of a JSON value, member names included,
// and numbers that are secrets. A value that can't be rewritten, for example because two
// of its members would have the same name, is dropped.
func mapStrings(v jsontext.Value, secrets []string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out)
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes())
		}
		switch {
		case err != nil:
		case token.Kind() == '"':
			text := token.String()
			for _, secret := range secrets {
				text = strings.ReplaceAll(text, secret, redacted)
			}
			token = jsontext.String(text)
		case token.Kind() == '0' && isSecret(token.String(), secrets):
			token = jsontext.String(redacted)
		}
		if err == nil {
			err = enc.WriteToken(token)
		}
		if err != nil {
			return jsontext.Value("null")
		}
	}
}
