package wire

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Member returns a member of an object; nil: it has none.
func Member(object jsontext.Value, name string) (found jsontext.Value) {
	jsonrpc.EachMember(object, func(n, value jsontext.Value) bool {
		if string(jsonrpc.Unquote(n)) == name {
			found = value
		}
		return found == nil
	})
	return found
}

// Items returns the elements of an array.
func Items(array jsontext.Value) []jsontext.Value {
	var list []jsontext.Value
	d := jsontext.NewDecoder(bytes.NewBuffer(array), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return list
		}
		end := int(d.InputOffset()) // the decoder reuses the memory of value
		list = append(list, array[end-len(value):end:end])
	}
	return list
}

// Text returns the text of a JSON string; empty: it is none.
func Text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return string(jsonrpc.Unquote(v))
}
