package inputs

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// InputSchema returns a JSON Schema (Draft 2020-12) of the arguments that a skill
// takes: an object with a property per parameter, in the order of the descriptor,
// as the tools of a language model need it. A property is the schema of the
// parameter. To it are added the parameter's description and default, if there
// are any, and its type, if that is a type of JSON Schema and the schema has
// none. What the APIs of language models do not accept is replaced with what means the same: a name, which is the title
// then, with one that they do (see [Inputs.Restored]), and arrays get items.
//
// The parameters must be those of a valid descriptor.
func InputSchema(params []document.Parameter) jsontext.Value {
	names := ModelNames(params)
	nameOf := func(i int) string {
		if name, ok := names[i]; ok {
			return name
		}
		return params[i].Name
	}
	dst := []byte(`{"type":"object","properties":{`)
	for i := range params {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendName(dst, nameOf(i))
		dst = appendProperty(dst, &params[i], nameOf(i))
	}
	dst = append(dst, '}')
	separator := `,"required":[`
	for i := range params {
		if params[i].Required {
			dst = append(dst, separator...)
			dst = append(dst, jsonvalue.Quoted(nameOf(i))...)
			separator = ","
		}
	}
	if separator == "," {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendName(dst []byte, name string) []byte {
	return append(append(dst, jsonvalue.Quoted(name)...), ':')
}

func appendProperty(dst []byte, p *document.Parameter, name string) []byte {
	own := membersOf(p.Schema)
	stated := func(name string) bool {
		return slices.ContainsFunc(own, func(m member) bool { return m.name == name })
	}
	// An embedded schema without $id is not a resource of its own. So its
	// references start at the root of the whole schema, and $schema is not allowed
	// in it.
	isResource := stated("$id")
	r := rebaser{prefix: "#/properties/" + name, items: !bytes.Contains(p.Schema, []byte("unevaluatedItems"))}
	if isResource {
		r.prefix = ""
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
	if name != p.Name && !stated("title") {
		put("title", jsonvalue.Quoted(p.Name))
	}
	if p.Description != "" {
		put("description", jsonvalue.Quoted(p.Description))
	}
	for _, m := range own {
		switch {
		case m.name == "description" && p.Description != "", m.name == "default" && p.Default != nil, m.name == "$schema" && !isResource:
		default:
			put(m.name, r.keyword(m))
		}
	}
	if r.lacksItems(own) || r.items && p.Type == "array" && !stated("type") && !stated("items") {
		put("items", []byte("{}"))
	}
	if p.Default != nil {
		put("default", p.Default)
	}
	return append(dst, '}')
}

// rebaser changes the schema of a parameter for its place in the whole schema.
type rebaser struct {
	prefix string // of references: where the schema is; empty: it is a resource of its own
	items  bool   // arrays without items get such that permit all. With unevaluatedItems, that would mean something else
}

// keyword returns the value of a keyword.
func (r rebaser) keyword(m member) jsontext.Value {
	switch {
	case m.name == "$ref" && r.prefix != "":
		var ref string
		if unquoted, err := jsontext.AppendUnquote(nil, m.value); err == nil {
			ref = string(unquoted)
		}
		if ref == "#" || strings.HasPrefix(ref, "#/") {
			return jsonvalue.Quoted(r.prefix + ref[1:])
		}
	case slices.Contains(schema.SchemaKeywords, m.name):
		return r.schema(m.value)
	case slices.Contains(schema.SchemaMapKeywords, m.name) && m.value.Kind() == '{':
		dst := []byte{'{'}
		for _, m := range membersOf(m.value) {
			dst = appendMember(dst, m.name, r.schema(m.value))
		}
		return append(dst, '}')
	}
	return m.value
}

// schema returns a schema, or an array of schemas. The references in a schema with an $id, which is a resource of its own, are not changed.
func (r rebaser) schema(value jsontext.Value) jsontext.Value {
	switch value.Kind() {
	case '[':
		dst := []byte{'['}
		for _, item := range jsonrpc.Items(value) {
			if len(dst) > 1 {
				dst = append(dst, ',')
			}
			dst = append(dst, r.schema(item)...)
		}
		return append(dst, ']')
	case '{':
		own := membersOf(value)
		if slices.ContainsFunc(own, func(m member) bool { return m.name == "$id" }) {
			r.prefix = ""
		}
		dst := []byte{'{'}
		for _, m := range own {
			dst = appendMember(dst, m.name, r.keyword(m))
		}
		if r.lacksItems(own) {
			dst = appendMember(dst, "items", jsontext.Value("{}"))
		}
		return append(dst, '}')
	default:
		return value
	}
}

// lacksItems reports whether a schema permits arrays by its type and has no items.
func (r rebaser) lacksItems(own []member) bool {
	arrays := false
	for _, m := range own {
		switch {
		case m.name == "items":
			return false
		case m.name == "type" && m.value.Kind() == '[':
			for _, item := range jsonrpc.Items(m.value) {
				arrays = arrays || string(item) == `"array"`
			}
		case m.name == "type":
			arrays = string(m.value) == `"array"`
		}
	}
	return arrays && r.items
}

// appendMember adds a member to an object.
func appendMember(dst []byte, name string, value jsontext.Value) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendName(dst, name), value...)
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order. A value that is no object has none.
func membersOf(object jsontext.Value) (members []member) {
	jsonrpc.EachMember(object, func(name, value jsontext.Value) bool {
		members = append(members, member{string(jsonrpc.Unquote(name)), value})
		return true
	})
	return members
}
