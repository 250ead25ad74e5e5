package skillsharing

import (
	"bytes"
	"cmp"
	"errors"
	"io"
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
	for _, secret := range secretsOf(credentials) {
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
	for _, secret := range secretsOf([]Credentials{c.Credentials, c.DiscoveryCredentials}) {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

// scrubbed is an error for the log: package net/http quotes what a provider sent.
func (c *Client) scrubbed(err error) error { return errors.New(c.scrubText(err.Error())) }

// secretsOf lists all secrets, longer ones first: one may be a part of another.
func secretsOf(credentials []Credentials) []string {
	var secrets []string
	for _, c := range credentials {
		if c != nil {
			secrets = append(secrets, c.Secrets()...)
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

// scrubJSON removes a secret as it stands in JSON text, where some of its
// characters may be escaped. A replacement never breaks the text's syntax: it
// happens within strings only, or not at all.
func scrubJSON(v jsontext.Value, secret string) jsontext.Value {
	if v == nil || !mayContain(v, secret) {
		return v
	}
	return mapStrings(v, func(s string) string { return strings.ReplaceAll(s, secret, redacted) })
}

// mayContain is a cheap test: a secret without any escape is there verbatim.
func mayContain(v jsontext.Value, secret string) bool {
	return bytes.Contains(v, []byte(secret)) || bytes.IndexByte(v, '\\') >= 0
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
	secrets := c.longSecrets()
	if !containsAny(output, secrets) && !escapedAny(output, secrets) {
		return output
	}
	return mapStrings(output, func(s string) string {
		for _, secret := range secrets {
			s = strings.ReplaceAll(s, secret, redacted)
		}
		return s
	})
}

// repeatsSecret reports whether a document repeats a credential: it would be shown
// to whoever asks for it.
func (c *Client) repeatsSecret(document []byte) bool { return repeatsAny(document, c.longSecrets()) }

// longSecrets are those that do not stand in innocent data.
func (c *Client) longSecrets() []string {
	secrets := secretsOf([]Credentials{c.Credentials, c.DiscoveryCredentials})
	return slices.DeleteFunc(secrets, func(s string) bool { return len(s) < minOutputSecret })
}

// repeatsAny reports whether JSON text has one of the secrets in it.
func repeatsAny(v jsontext.Value, secrets []string) bool {
	return containsAny(v, secrets) || escapedAny(v, secrets)
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
	var unquoted []byte
	for {
		escape := bytes.IndexByte(v, '\\')
		if escape < 0 {
			return false
		}
		// Only strings have escapes, and before its first one a string has no quotation mark but the one it begins with.
		start := bytes.LastIndexByte(v[:escape], '"')
		if start < 0 {
			return false
		}
		end := stringEnd(v, escape)
		unquoted, _ = jsontext.AppendUnquote(unquoted[:0], v[start:end])
		if containsAny(unquoted, secrets) {
			return true
		}
		v = v[end:]
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

// mapStrings rewrites every string of a JSON value, member names included. A
// value that can't be rewritten, for example because two of its members would
// have the same name, is dropped.
func mapStrings(v jsontext.Value, change func(string) string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out)
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes())
		}
		if err == nil && token.Kind() == '"' {
			token = jsontext.String(change(token.String()))
		}
		if err == nil {
			err = enc.WriteToken(token)
		}
		if err != nil {
			return jsontext.Value("null")
		}
	}
}
