package credential

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

const redacted = "[redacted]"

// Bounds of a provider's texts in a failure, in bytes.
const (
	maxErrorMessage = 4 << 10
	maxErrorCode    = 200
)

// Scrub is [Group.ScrubText] for credentials, any of which may be nil.
func Scrub(text string, credentials ...Credentials) string {
	return NewGroup(credentials...).ScrubText(text)
}

// MinInWord is the length of the shortest secret that is also replaced within words, in bytes. A shorter one, such as a or 12, is in most texts: they could
// not be read, and what is missing in their words would tell the secret.
const MinInWord = 4

// inWord reports whether a part of a text is within a word or a number.
func inWord(text string, start, end int) bool {
	isWord := func(r rune, _ int) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	part := text[start:end]
	return isWord(utf8.DecodeLastRuneInString(text[:start])) && isWord(utf8.DecodeRuneInString(part)) ||
		isWord(utf8.DecodeLastRuneInString(part)) && isWord(utf8.DecodeRuneInString(text[end:]))
}

// replace replaces a secret in a text, a very short one only outside of words. If the secret is long, and fold is set, it ignores the case of letters.
func replace(text, secret string, fold bool) string {
	isVeryShort := len(secret) < MinInWord
	if !isVeryShort && (!fold || len(secret) < MinOutputSecret) {
		return strings.ReplaceAll(text, secret, redacted)
	}
	var b strings.Builder
	start := 0
	for i := 0; i+len(secret) <= len(text); {
		found := text[i : i+len(secret)]
		if isVeryShort && (found != secret || inWord(text, i, i+len(secret))) || !strings.EqualFold(found, secret) {
			i++
			continue
		}
		b.WriteString(text[start:i])
		b.WriteString(redacted)
		i += len(secret)
		start = i
	}
	if start == 0 {
		return text // without an allocation, since every call has such texts
	}
	b.WriteString(text[start:])
	return b.String()
}

// redactor removes secrets from what a provider sent.
type redactor struct {
	secrets    []string // longer ones first, because one may be a part of another
	signatures []string // those that occur in the texts; a provider may repeat many
	replacer   *strings.Replacer
}

// isQuoted reports whether strconv.Quote may change a character.
func isQuoted(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }

// text returns a text without secrets.
func (r *redactor) text(text string) string {
	for _, secret := range r.secrets {
		text = replace(text, secret, false)
	}
	if len(r.signatures) == 0 {
		return text
	}
	if r.replacer == nil {
		pairs := make([]string, 0, 2*len(r.signatures))
		for _, s := range r.signatures {
			pairs = append(pairs, s, redacted)
		}
		r.replacer = strings.NewReplacer(pairs...)
	}
	return r.replacer.Replace(text)
}

// json returns a JSON text without secrets. It also finds secrets with escaped characters, and numbers that are secrets. The result is valid
// JSON: only parts of strings, and whole numbers, are replaced. A text without secrets is returned unchanged.
func (r *redactor) json(v jsontext.Value) jsontext.Value {
	if len(v) == 0 || len(r.signatures) == 0 && !RepeatsAny(v, r.secrets) {
		return v
	}
	return r.mapStrings(v)
}

// isDigits reports whether a secret could be read as a number.
func isDigits(secret string) bool { return secret != "" && strings.Trim(secret, "0123456789") == "" }

// isSecret reports whether a number in a JSON text is one of the secrets, or contains one, in
// any spelling. A provider that reads a key of digits as a number loses its leading zeros, and
// the digits that a float has no room for.
func isSecret(number string, secrets []string) bool {
	exponent, isZero := strictjson.Magnitude(number)
	for _, s := range secrets {
		if !isDigits(s) {
			continue
		}
		if len(s) >= MinOutputSecret && strings.Contains(number, s) {
			return true
		}
		// A secret of zeros has the value 0. A 0 in the text does not reveal it. Numbers of very different sizes are not equal, and some of
		// them take strconv.ParseFloat 20 µs; rounding may add a digit.
		digits := len(strings.TrimLeft(s, "0"))
		if isZero || digits == 0 || exponent < digits-2 || exponent > digits {
			continue
		}
		value, _ := strconv.ParseFloat(number, 64) // infinite if it is too large
		if own, err := strconv.ParseFloat(s, 64); err == nil && (own == value || own == -value) {
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

// MinOutputSecret is the length of the shortest secret that is removed from the
// outputs of runs, in bytes. A shorter one may occur there by chance, and replacing
// it would destroy data.
const MinOutputSecret = 6

// RepeatsAny reports whether JSON text contains one of the secrets.
func RepeatsAny(v jsontext.Value, secrets []string) bool {
	if containsAny(v, secrets) {
		return true
	}
	if len(secrets) > 0 {
		for s := range escapedStrings(v) { // others were looked at, and outputs can be large
			if containsAny(s, secrets) {
				return true
			}
		}
	}
	return numberAny(v, secrets)
}

func containsAny(text []byte, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool { return bytes.Contains(text, []byte(secret)) })
}

// escapedStrings yields the strings with escapes in valid JSON, unquoted. Each is
// valid until the next one is yielded.
func escapedStrings(v []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var unquoted []byte
		for {
			escape := bytes.IndexByte(v, '\\')
			if escape < 0 {
				return
			}
			// Only strings have escapes, and the last quotation mark before the first escape of a string is the one that
			// begins it.
			start := bytes.LastIndexByte(v[:escape], '"')
			if start < 0 {
				return
			}
			end := min(strictjson.StringEnd(v, escape)+1, len(v))
			unquoted, _ = jsontext.AppendUnquote(unquoted[:0], v[start:end])
			if !yield(unquoted) {
				return
			}
			v = v[end:]
		}
	}
}

// mapStrings replaces secrets in every string of a JSON value, member names included,
// and numbers that are secrets. Members that would have the same name get numbers. A value that
// can't be rewritten is dropped.
func (r *redactor) mapStrings(v jsontext.Value) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out)
	numbers := make(map[string]int) // by name: the last number
	for {
		token, err := dec.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes())
		}
		var text string
		switch {
		case err != nil:
		case token.Kind() == '"':
			text = r.text(token.String())
			token = jsontext.String(text)
		case token.Kind() == '0' && isSecret(token.String(), r.secrets):
			token = jsontext.String(redacted)
		}
		if err == nil {
			err = enc.WriteToken(token)
		}
		for errors.Is(err, jsontext.ErrDuplicateName) && token.Kind() == '"' {
			numbers[text] = max(numbers[text], 1) + 1
			err = enc.WriteToken(jsontext.String(text + " " + strconv.Itoa(numbers[text])))
		}
		if err != nil {
			return jsontext.Value("null")
		}
	}
}
