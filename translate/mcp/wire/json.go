package wire

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Member returns the first member of an object that has one of the names; nil: it has none, or it is null.
func Member(object jsontext.Value, names ...string) jsontext.Value {
	_, found := Given(object, names...)
	return found
}

// Given is [Member] with the name of the member.
func Given(object jsontext.Value, names ...string) (name string, found jsontext.Value) {
	jsonrpc.EachMember(object, func(n, value jsontext.Value) bool {
		if !jsonrpc.IsNull(value) && slices.Contains(names, string(jsonrpc.Unquote(n))) {
			name, found = string(jsonrpc.Unquote(n)), value
		}
		return found == nil
	})
	return name, found
}

// Text returns the text of a JSON string; empty: it is none.
func Text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return string(jsonrpc.Unquote(v))
}
