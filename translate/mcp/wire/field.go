package wire

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Field returns the value of a header field, trimmed, and whether there is exactly one.
func Field(h http.Header, name string) (value string, ok bool) {
	values := h[name]
	if len(values) != 1 {
		return "", false
	}
	return Trim(values[0]), true
}

// DecodeField returns the text of a field's value, which clients encode if it has other characters than visible ASCII.
func DecodeField(value string) (decoded string, ok bool) {
	const prefix, suffix = "=?base64?", "?="
	coded, found := strings.CutPrefix(value, prefix)
	if !found {
		return value, true
	}
	if coded, found = strings.CutSuffix(coded, suffix); !found {
		return "", false
	}
	raw, err := base64.StdEncoding.DecodeString(coded)
	return string(raw), err == nil && utf8.Valid(raw)
}

// Repeats reports whether the header has one field that says a value.
func Repeats(h http.Header, name, value string) bool {
	said, ok := Field(h, name)
	if ok {
		said, ok = DecodeField(said)
	}
	return ok && said == value
}

// Trim removes the white space that HTTP permits around a field's value (RFC 9110, section 5.5).
func Trim(s string) string { return strings.Trim(s, " \t") }
