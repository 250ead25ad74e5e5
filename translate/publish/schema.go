package publish

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/ecma"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/modern"
)

// annotations are the keywords beside a reference that change nothing but texts.
var annotations = []string{"title", "description", "nullable", "deprecated", "default", "examples"}

// schemas translates the schema of an input or output to JSON Schema 2020-12, with references to $defs only.
type schemas struct {
	docs  *documents
	old   bool   // a dialect before OpenAPI 3.1: what is beside a reference has no effect, but for annotations
	omit  string // readOnly or writeOnly: properties that are so are left out
	left  int    // values that may still be visited
	terse bool   // without texts and examples within

	inline bool               // what is referred to once is put in place of the reference
	uses   map[uintptr]int    // of schemas that are referred to
	names  map[uintptr]string // of those in $defs
	defs   map[string]any
	err    error
}

// root translates a whole schema, which then names its types. kind is the first of them that is not null.
func (s *schemas) root(v any) (schema map[string]any, kind string, err error) {
	limits := document.Standard.OfSchemas()
	for _, s.terse = range []bool{false, true} { // a schema that is too large is translated without texts
		s.left, s.uses = maxVisits, map[uintptr]int{}
		for _, s.inline = range []bool{false, true} {
			s.names, s.defs = map[uintptr]string{}, map[string]any{}
			schema, _ = s.schema(v).(map[string]any)
		}
		if s.err != nil {
			return nil, "", s.err
		}
		if schema = maps.Clone(schema); schema == nil {
			schema = map[string]any{}
		}
		if len(s.defs) > 0 {
			schema["$defs"] = s.defs
		}
		if translated, ok := modern.Schema(schema, ""); ok {
			schema = translated
		}
		if size := jsonvalue.SizeOf(schema); size.Bytes <= limits.Size && size.Values <= limits.Values() {
			break
		}
	}
	s.defs, _ = schema["$defs"].(map[string]any)
	of := s.typesOf(schema, 0)
	if len(of) == 0 {
		of = []any{"string", "number", "boolean", "array", "object", "null"}
	}
	if schema["type"] = of; len(of) == 1 {
		schema["type"] = of[0]
	}
	kind, _ = of[0].(string)
	if kind == "null" && len(of) > 1 {
		kind, _ = of[1].(string)
	}
	return schema, kind, nil
}

// typesOf returns the types that the values of a translated schema have; none: they are not known.
func (s *schemas) typesOf(v any, depth int) []any {
	schema, _ := v.(map[string]any)
	all := func(list any) (types []any) {
		items, _ := list.([]any)
		for _, item := range items {
			of := s.typesOf(item, depth+1)
			if len(of) == 0 {
				return nil
			}
			for _, kind := range of {
				if !slices.Contains(types, kind) {
					types = append(types, kind)
				}
			}
		}
		return types
	}
	if depth > maxLevels {
		return nil
	}
	switch kind := schema["type"].(type) {
	case string:
		return []any{kind}
	case []any:
		return kind
	}
	if name, ok := schema["$ref"].(string); ok {
		return s.typesOf(s.defs[strings.TrimPrefix(name, defs)], depth+1)
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		if of := all(schema[name]); of != nil {
			return of
		}
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		if of := s.typesOf(part, depth+1); of != nil {
			return of
		}
	}
	if schema["properties"] != nil {
		return []any{"object"}
	}
	return nil
}

const defs = "#/$defs/"

// target returns the schema to which a reference leads, its identity, and what stands beside the reference. isRef is false for what is none.
func (s *schemas) target(v any) (target map[string]any, id uintptr, beside map[string]any, isRef bool) {
	object, _ := v.(map[string]any)
	r, isRef := object["$ref"].(reference)
	if !isRef {
		return nil, 0, nil, false
	}
	found, err := s.docs.at(r)
	if err == nil {
		found, err = s.docs.follow(found)
	}
	if err != nil && s.err == nil {
		s.err = err
	}
	target, _ = found.(map[string]any)
	beside = make(map[string]any, len(object)-1)
	for name, value := range object {
		if name != "$ref" && (!s.old || slices.Contains(annotations, name)) {
			beside[name] = value
		}
	}
	return target, reflect.ValueOf(target).Pointer(), beside, true
}

// spend counts a visit. It reports false if there were too many, or if there is an error.
func (s *schemas) spend() bool {
	if s.left--; s.left < 0 && s.err == nil {
		s.err = fmt.Errorf("has more than %d values", maxVisits)
	}
	if err := s.docs.ctx.Err(); err != nil && s.err == nil {
		s.err = err
	}
	return s.err == nil
}

// schema translates a schema. What is referred to several times is in $defs, and so is what refers to itself.
func (s *schemas) schema(v any) any {
	object, ok := v.(map[string]any)
	if !s.spend() || !ok {
		return v != false
	}
	target, id, beside, isRef := s.target(object)
	if isRef && !s.inline {
		s.uses[id]++
	}
	switch {
	case !isRef:
		return s.body(object)
	case s.inline && s.uses[id] == 1:
		object = s.body(target)
	default:
		if s.names[id] == "" {
			s.names[id] = s.nameOf(v)
			s.defs[s.names[id]] = true // until it is known
			s.defs[s.names[id]] = s.body(target)
		}
		object = map[string]any{"$ref": defs + s.names[id]}
	}
	own := s.body(beside)
	for name := range own {
		if !slices.Contains(annotations, name) {
			return map[string]any{"allOf": []any{object, own}}
		}
	}
	object = maps.Clone(object)
	maps.Copy(object, own)
	return object
}

// nameOf returns a name in $defs for what a reference leads to: the last part of the reference, made unique.
func (s *schemas) nameOf(v any) string {
	r, _ := v.(map[string]any)["$ref"].(reference)
	name := odd.ReplaceAllString(r.text[strings.LastIndex(r.text, "/")+1:], "_")
	for unique, i := name, 2; ; i++ {
		if s.defs[unique] == nil {
			return unique
		}
		unique = name + "_" + strconv.Itoa(i)
	}
}

// odd are the characters that names in $defs do not have, so that references to them need no escapes.
var odd = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// body translates a schema that is no reference.
func (s *schemas) body(old map[string]any) map[string]any {
	schema := make(map[string]any, len(old))
	for name, value := range old {
		if value = s.keyword(name, value); value != nil {
			schema[name] = value
		}
	}
	if example, ok := old["example"]; ok && schema["examples"] == nil && !s.terse {
		schema["examples"] = []any{example}
	}
	if schema["format"] == "byte" {
		schema["contentEncoding"] = "base64"
	}
	required, _ := schema["required"].([]any)
	properties, _ := old["properties"].(map[string]any)
	required = slices.DeleteFunc(required, func(name any) bool { return s.omitted(properties[text(name)]) })
	if schema["required"] = required; len(required) == 0 {
		delete(schema, "required")
	}
	if s.omit == "writeOnly" && schema["additionalProperties"] == false { // of an output, which may have more than the document says
		delete(schema, "additionalProperties")
	}
	return schema
}

// omitted reports whether a property is left out.
func (s *schemas) omitted(v any) bool {
	target, _, _, _ := s.target(v) //nolint:dogsled // for now
	object, _ := v.(map[string]any)
	return object[s.omit] == true || target[s.omit] == true
}

// keyword translates the value of a keyword; nil: the keyword is left out, because descriptors do not have it, or because the value is of another kind.
func (s *schemas) keyword(name string, v any) any {
	object, _ := v.(map[string]any)
	list, _ := v.([]any)
	n, _ := v.(jsonvalue.Number)
	b, isBool := v.(bool)
	switch name {
	case "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties":
		return s.schema(v)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return each(list, s.schema)
	case "dependentSchemas", "patternProperties", "properties":
		all := make(map[string]any, len(object))
		for member, value := range object {
			if !s.omitted(value) && (name != "patternProperties" || applicable(member)) {
				all[member] = s.schema(value)
			}
		}
		return all
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		if f, err := n.Float64(); err == nil && f <= 1<<53 && f >= -1<<53 && (f > 0 || name != "multipleOf") { // others are rounded by many readers
			return n
		}
		if strings.HasPrefix(name, "exclusive") && isBool {
			return b
		}
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		if i, err := n.Int64(); err == nil && i >= 0 && i <= 1<<53 {
			return n
		}
	case "title", "description", "format", "contentEncoding", "contentMediaType":
		if s.terse && (name == "title" || name == "description") {
			return nil
		}
		if line := strings.TrimSpace(safetext.Lines(text(v))); line != "" {
			return line
		}
	case "nullable", "uniqueItems", "deprecated":
		if isBool {
			return b
		}
	case "pattern":
		if applicable(text(v)) {
			return v
		}
	case "required":
		return unique(list)
	case "dependentRequired":
		all := make(map[string]any, len(object))
		for member, value := range object {
			list, _ := value.([]any)
			if required := unique(list); required != nil {
				all[member] = required
			}
		}
		return all
	case "type":
		if v == "file" {
			return "string"
		}
		if _, isText := v.(string); isText {
			list = []any{v}
		}
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool { return jsonvalue.TypesNamed(text(v)) == 0 })
		if len(list) == 1 {
			return list[0]
		}
		return unique(list)
	case "enum", "examples":
		if s.terse && name == "examples" {
			return nil
		}
		return each(list, func(v any) any { return v })
	case "const", "default":
		return v
	}
	return nil
}

// applicable reports whether a regular expression is one that bridges apply.
func applicable(expression string) bool {
	x, err := ecma.Translate(expression)
	return err == nil && x.Obstacle == "" && !x.Lenient && expression != ""
}

// each translates the items of a list; nil: there are none.
func each(list []any, translate func(any) any) any {
	var all []any
	for _, item := range list {
		all = append(all, translate(item))
	}
	if all == nil {
		return nil
	}
	return all
}

// unique returns the texts in a list, without repetitions; nil: there are none.
func unique(list []any) any {
	var all []any
	for _, item := range list {
		if _, isText := item.(string); isText && !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return each(all, func(v any) any { return v })
}
