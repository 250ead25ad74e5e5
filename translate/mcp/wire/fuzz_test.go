package wire_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/mcp/wire"
)

// FuzzCursor: a cursor is that of one name in one list, and no other text stands for it.
func FuzzCursor(f *testing.F) {
	for _, cursor := range []string{wire.NewCursor("t", "acme_echo"), wire.NewCursor("r", "acme_echo"), "", "dDE6", "dDE6YQ", "dDE6YQ=", "dDE6YR", "\n", strings.Repeat("A", 1000)} {
		f.Add(cursor)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		after, ok := wire.ParseCursor("t", cursor)
		if !ok {
			return
		}
		if wire.NewCursor("t", after) != cursor || len(after) > 64 || after == "" {
			t.Errorf("%q is the cursor after %q", cursor, after)
		}
		if _, other := wire.ParseCursor("r", cursor); other {
			t.Errorf("%q is a cursor of two lists", cursor)
		}
	})
}

// FuzzEachParam: what a schema demands and an argument needs no trust in either.
func FuzzEachParam(f *testing.F) {
	f.Add("eu", `{"x-mcp-header":"Region"}`, `"eu"`)
	f.Add("=?base64?ZXU=?=", `{"x-mcp-header":"Region"}`, `"eu"`)
	f.Add("=?base64?", `{"x-mcp-header":"Region","properties":{"a":{"x-mcp-header":"A"}}}`, `{"a":1}`)
	f.Add("1", `{"x-mcp-header":1,"properties":1}`, `{"a":{"b":null}}`)
	f.Fuzz(func(t *testing.T, said, schema, value string) {
		s, v := jsontext.Value(schema), jsontext.Value(value)
		if !s.IsValid() || !v.IsValid() {
			return
		}
		h := http.Header{"Mcp-Param-Region": {said}}
		var first string
		wire.EachParam(s, v, func(name, value string) bool { first = name + "=" + value; return false })
		if name := wire.Text(wire.Member(s, front.HeaderKeyword)); name != "" && first != name+"="+text(v) {
			t.Errorf("%s with %s: %q", schema, value, first)
		}
		if decoded, ok := wire.DecodeField(wire.Trim(said)); ok && !strings.HasPrefix(decoded, "=?") && wire.Repeats(h, "Mcp-Param-Region", decoded) != ok {
			t.Errorf("%q does not repeat %q", said, decoded)
		}
	})
}

func text(v jsontext.Value) string {
	if v.Kind() == '"' {
		return wire.Text(v)
	}
	return string(v)
}
