package wire

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
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

// HeaderParam begins the names of the fields that repeat arguments.
const HeaderParam = "Mcp-Param-"

// EachParam calls a function with each field that repeats an argument, or a part of it, as its schema demands: its name without
// [HeaderParam], and what it says. It ends, and returns false, once the function returns false.
func EachParam(schema, value jsontext.Value, do func(name, said string) bool) bool {
	if name := Text(Member(schema, front.HeaderKeyword)); name != "" {
		said := string(value)
		if value.Kind() == '"' {
			said = Text(value)
		}
		if !do(name, said) {
			return false
		}
	}
	goOn := true
	if value.Kind() == '{' {
		jsonrpc.EachMember(Member(schema, "properties"), func(of, part jsontext.Value) bool {
			if inner := Member(value, string(jsonrpc.Unquote(of))); inner != nil {
				goOn = EachParam(part, inner, do)
			}
			return goOn
		})
	}
	return goOn
}

// Trim removes the white space that HTTP permits around a field's value (RFC 9110, section 5.5).
func Trim(s string) string { return strings.Trim(s, " \t") }
