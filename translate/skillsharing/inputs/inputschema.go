package inputs

import (
	"bytes"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// InputSchema returns a JSON Schema (Draft 2020-12) of the arguments that a skill
// takes: an object with a property per parameter, in the order of the descriptor,
// as the tools of a language model need it. A property is the schema of the
// parameter. To it are added the parameter's description and default, if there
// are any, and its type, if that is a type of JSON Schema and the schema has
// none.
//
// The parameters must be those of a valid descriptor. The schema of one whose name is longer than any real one is left out.
func InputSchema(params []document.Parameter) jsontext.Value {
	dst := []byte(`{"type":"object","properties":{`)
	for i := range params {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendName(dst, params[i].Name)
		dst = appendProperty(dst, &params[i])
	}
	dst = append(dst, '}')
	separator := `,"required":[`
	for i := range params {
		if params[i].Required {
			dst = append(dst, separator...)
			dst = append(dst, jsonvalue.Quoted(params[i].Name)...)
			separator = ","
		}
	}
	if separator == "," {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// maxPrefix bounds what is put before each reference in the schema of a parameter, in bytes: hundreds of references to a name of 100 KB would take
// 100 MB.
const maxPrefix = 512

func appendName(dst []byte, name string) []byte {
	return append(append(dst, jsonvalue.Quoted(name)...), ':')
}

func appendProperty(dst []byte, p *document.Parameter) []byte {
	own := slices.Collect(membersOf(p.Schema))
	stated := func(name string) bool {
		return slices.ContainsFunc(own, func(m member) bool { return m.name == name })
	}
	// An embedded schema without $id is not a resource of its own. So its
	// references start at the root of the whole schema, and $schema is not allowed
	// in it.
	isResource := stated("$id")
	prefix := "#/properties/" + url.PathEscape(strings.TrimPrefix(jsonvalue.Pointer([]string{p.Name}), "/"))
	if !isResource && len(prefix) > maxPrefix {
		own = nil
	}

	dst = append(dst, '{')
	start := len(dst)
	put := func(name string, value []byte) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(appendName(dst, name), value...)
	}
	if jsonvalue.TypesNamed(p.Type) != 0 && !stated("type") {
		put("type", jsonvalue.Quoted(p.Type))
	}
	if p.Description != "" {
		put("description", jsonvalue.Quoted(p.Description))
	}
	for _, m := range own {
		switch {
		case m.name == "description" && p.Description != "", m.name == "default" && p.Default != nil, m.name == "$schema" && !isResource:
		case isResource:
			put(m.name, m.value)
		default:
			put(m.name, rebaseKeyword(m, prefix))
		}
	}
	if p.Default != nil {
		put("default", p.Default)
	}
	return append(dst, '}')
}

// rebaseKeyword returns the value of a keyword with each reference prefixed by
// prefix, which is where the parameter's schema is in the whole schema.
func rebaseKeyword(m member, prefix string) jsontext.Value {
	switch {
	case m.name == "$ref":
		var ref string
		if unquoted, err := jsontext.AppendUnquote(nil, m.value); err == nil {
			ref = string(unquoted)
		}
		if ref == "#" || strings.HasPrefix(ref, "#/") {
			return jsonvalue.Quoted(prefix + ref[1:])
		}
	case slices.Contains(schema.SchemaKeywords, m.name):
		return rebase(m.value, prefix)
	case slices.Contains(schema.SchemaMapKeywords, m.name):
		return rebaseMembers(m.value, func(m member) jsontext.Value { return rebase(m.value, prefix) })
	}
	return m.value
}

// rebase is rebaseKeyword for a schema, or an array of schemas. A schema with
// an $id is a resource of its own, and is not changed.
func rebase(value jsontext.Value, prefix string) jsontext.Value {
	switch value.Kind() {
	case '[':
		dst := []byte{'['}
		for item := range itemsOf(value) {
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = append(dst, rebase(item, prefix)...)
		}
		return append(dst, ']')
	case '{':
		for m := range membersOf(value) {
			if m.name == "$id" {
				return value
			}
		}
		return rebaseMembers(value, func(m member) jsontext.Value { return rebaseKeyword(m, prefix) })
	default:
		return value
	}
}

func rebaseMembers(object jsontext.Value, change func(member) jsontext.Value) jsontext.Value {
	dst := []byte{'{'}
	for m := range membersOf(object) {
		if len(dst) > 1 {
			dst = append(dst, ',')
		}
		dst = append(appendName(dst, m.name), change(m)...)
	}
	return append(dst, '}')
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf yields the members of an object in their order. If the value is no
// object, it yields nothing.
func membersOf(object jsontext.Value) func(yield func(member) bool) {
	return func(yield func(member) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(object))
		if object.Kind() != '{' {
			return
		}
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() == '"' {
			token, err := dec.ReadToken()
			if err != nil {
				return
			}
			name := token.String()
			value, err := dec.ReadValue()
			if err != nil || !yield(member{name, value.Clone()}) {
				return
			}
		}
	}
}

// itemsOf yields the items of an array.
func itemsOf(array jsontext.Value) func(yield func(jsontext.Value) bool) {
	return func(yield func(jsontext.Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(array))
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != ']' {
			item, err := dec.ReadValue()
			if err != nil || !yield(item.Clone()) {
				return
			}
		}
	}
}
