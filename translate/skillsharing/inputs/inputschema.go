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
	properties := make([]member, len(params))
	var required []string
	for i := range params {
		name, renamed := names[i]
		if !renamed {
			name = params[i].Name
		}
		properties[i] = member{name, property(&params[i], name)}
		if params[i].Required {
			required = append(required, name)
		}
	}
	all := []member{{"type", jsontext.Value(`"object"`)}, {"properties", objectOf(properties)}}
	if required != nil {
		all = append(all, member{"required", jsonvalue.Marshal(required)})
	}
	return objectOf(all)
}

// property returns the property of a parameter, which has a name in the whole schema.
func property(p *document.Parameter, name string) jsontext.Value {
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
	var all []member
	if jsonvalue.TypesNamed(p.Type) != 0 && !stated("type") {
		all = append(all, member{"type", jsonvalue.Quoted(p.Type)})
	}
	if name != p.Name && !stated("title") {
		all = append(all, member{"title", jsonvalue.Quoted(p.Name)})
	}
	if p.Description != "" {
		all = append(all, member{"description", jsonvalue.Quoted(p.Description)})
	}
	for _, m := range own {
		switch {
		case m.name == "description" && p.Description != "", m.name == "default" && p.Default != nil, m.name == "$schema" && !isResource:
		default:
			all = append(all, r.keyword(m))
		}
	}
	if r.lacksItems(own) || r.items && p.Type == "array" && !stated("type") && !stated("items") {
		all = append(all, anyItems)
	}
	if p.Default != nil {
		all = append(all, member{"default", p.Default})
	}
	return objectOf(all)
}

// anyItems is the keyword that permits all items.
var anyItems = member{"items", jsontext.Value("{}")}

// rebaser changes the schema of a parameter for its place in the whole schema.
type rebaser struct {
	prefix string // of references: where the schema is; empty: it is a resource of its own
	items  bool   // arrays without items get such that permit all. With unevaluatedItems, that would mean something else
}

// keyword changes a keyword.
func (r rebaser) keyword(m member) member {
	switch {
	case m.name == "$ref" && r.prefix != "":
		if ref, _ := document.Text(m.value); ref == "#" || strings.HasPrefix(ref, "#/") {
			m.value = jsonvalue.Quoted(r.prefix + ref[1:])
		}
	case slices.Contains(schema.SchemaKeywords, m.name):
		m.value = r.schema(m.value)
	case slices.Contains(schema.SchemaMapKeywords, m.name) && m.value.Kind() == '{':
		own := membersOf(m.value)
		for i := range own {
			own[i].value = r.schema(own[i].value)
		}
		m.value = objectOf(own)
	}
	return m
}

// schema returns a schema, or an array of schemas. The references in a schema with an $id, which is a resource of its own, are not changed.
func (r rebaser) schema(value jsontext.Value) jsontext.Value {
	switch value.Kind() {
	case '[':
		items := slices.Collect(jsonrpc.Items(value))
		for i := range items {
			items[i] = r.schema(items[i])
		}
		return jsonvalue.Marshal(items)
	case '{':
		own := membersOf(value)
		if slices.ContainsFunc(own, func(m member) bool { return m.name == "$id" }) {
			r.prefix = ""
		}
		lacksItems := r.lacksItems(own)
		for i := range own {
			own[i] = r.keyword(own[i])
		}
		if lacksItems {
			own = append(own, anyItems)
		}
		return objectOf(own)
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
			for item := range jsonrpc.Items(m.value) {
				arrays = arrays || string(item) == `"array"`
			}
		case m.name == "type":
			arrays = string(m.value) == `"array"`
		}
	}
	return arrays && r.items
}

// member is a member of a JSON object.
type member struct {
	name  string
	value jsontext.Value
}

// membersOf returns the members of an object in their order. A value that is no object has none.
func membersOf(object jsontext.Value) (members []member) {
	for name, value := range jsonrpc.Members(object) {
		members = append(members, member{string(jsonrpc.Unquote(name)), value})
	}
	return members
}

// objectOf returns an object with members.
func objectOf(members []member) jsontext.Value {
	dst := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, jsonvalue.Quoted(m.name)...), ':'), m.value...)
	}
	return append(dst, '}')
}
