package publish

import (
	"cmp"
	"errors"
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

// maxVisits bounds the work for the schema of one input or output, in values.
const maxVisits = 50_000

var errTooLarge = errors.New("has too many values")

// schemas translates the schema of an input or output to JSON Schema 2020-12, with references to $defs only.
type schemas struct {
	docs   *documents
	old    bool   // a dialect before OpenAPI 3.1: what is beside a reference has no effect, but for annotations
	omit   string // readOnly or writeOnly: properties that are so are left out
	terse  bool   // without texts and examples
	inline bool   // what is referred to once is put in place of the reference

	left  int                // values that may still be visited
	uses  map[uintptr]int    // of schemas that are referred to
	names map[uintptr]string // of those in $defs
	same  map[string]int     // how many numbers were given to a name
	defs  map[string]any
	gone  map[string]bool // properties that are left out somewhere: schemas beside that may require them
	loose bool            // what it stands for is not all known, so that it takes more values: keywords that refuse what others take are left out
}

const defs = "#/$defs/"

// annotations are the keywords that have an effect beside a reference in old dialects, too.
var annotations = []string{"title", "description", "nullable", "x-nullable", "deprecated", "default", "examples"}

// root translates a whole schema, which then names its types. kind is one of them.
func (s *schemas) root(v any) (schema map[string]any, kind string, err error) {
	s.gone = map[string]bool{}
	for _, s.terse = range []bool{false, true} { // those of pods in Kubernetes fit only without texts
		s.left, s.uses, s.inline = maxVisits, map[uintptr]int{}, false
		s.whole(v) // counts the uses
		var size jsonvalue.Size
		for _, s.inline = range []bool{true, false} { // what is in place of references may nest too deep
			schema, _ = modern.Schema(s.whole(v), "")
			if size = jsonvalue.SizeOf(schema); size.Levels <= maxNesting {
				break
			}
		}
		if size.Bytes <= document.Standard.OfSchemas().Size {
			break
		}
	}
	if s.defs, _ = schema["$defs"].(map[string]any); s.left < 0 {
		err = errTooLarge
	}
	kinds := s.typesOf(schema).Names()
	if len(kinds) == 0 {
		kinds = []string{"null", "boolean", "number", "array", "object", "string"}
	}
	if schema["type"] = kinds; len(kinds) == 1 {
		schema["type"] = kinds[0]
	}
	return schema, kinds[len(kinds)-1], err // null is the first
}

// whole translates a whole schema, with what it refers to in $defs.
func (s *schemas) whole(v any) map[string]any {
	s.names, s.same, s.defs = map[uintptr]string{}, map[string]int{}, map[string]any{}
	schema := map[string]any{}
	maps.Copy(schema, objectIn(s.schema(v)))
	if len(s.defs) > 0 {
		schema["$defs"] = s.defs
	}
	return schema
}

// typesOf returns the types that a translated schema, or its parts, name.
func (s *schemas) typesOf(v any) (kinds jsonvalue.TypeSet) {
	schema := s.defined(v)
	switch s.left--; {
	case schema["type"] != nil || s.left < 0:
		return jsonvalue.TypesOf(schema["type"])
	case schema["properties"] != nil:
		return jsonvalue.TypesNamed("object")
	}
	for _, part := range listIn(schema["allOf"]) {
		kinds = cmp.Or(kinds, s.typesOf(part))
	}
	for _, part := range slices.Concat(listIn(schema["anyOf"]), listIn(schema["oneOf"])) {
		of := s.typesOf(part)
		if kinds |= of; of == 0 {
			return 0
		}
	}
	return kinds
}

// defined returns a translated schema, or that in $defs to which it refers.
func (s *schemas) defined(v any) map[string]any {
	schema := objectIn(v)
	if name, ok := strings.CutPrefix(text(schema["$ref"]), defs); ok {
		return objectIn(s.defs[name])
	}
	return schema
}

// target returns the schema to which a reference leads, and its identity; nil: it leads to none. isRef is false for what is none.
func (s *schemas) target(v any) (target map[string]any, id uintptr, isRef bool) {
	if _, isRef = objectIn(v)["$ref"].(reference); isRef {
		target = objectIn(s.docs.part(v))
		s.loose = s.loose || target == nil
	}
	return target, reflect.ValueOf(target).Pointer(), isRef
}

// schema translates a schema. What is referred to several times is in $defs, and so is what refers to itself.
func (s *schemas) schema(v any) any {
	old, ok := v.(map[string]any)
	if s.left--; s.left < 0 || !ok {
		return v != false
	}
	target, id, isRef := s.target(old)
	if !isRef {
		return s.body(old)
	}
	if !s.inline {
		s.uses[id]++
	}
	schema := map[string]any{}
	switch {
	case target == nil: // anything
	case s.inline && s.uses[id] == 1:
		schema = s.body(target)
	default:
		if s.names[id] == "" {
			s.names[id] = s.nameOf(old)
			s.defs[s.names[id]] = true // until it is known
			s.defs[s.names[id]] = s.body(target)
		}
		schema["$ref"] = defs + s.names[id]
	}
	beside := maps.Clone(old)
	maps.DeleteFunc(beside, func(name string, _ any) bool { return s.old && !slices.Contains(annotations, name) })
	own := s.body(beside)
	for name := range own {
		if !slices.Contains(annotations, name) {
			return map[string]any{"allOf": []any{schema, own}}
		}
	}
	maps.Copy(schema, own)
	return schema
}

// nameOf returns a name in $defs for what a reference leads to: the last part of the reference, made unique.
func (s *schemas) nameOf(old map[string]any) string {
	r, _ := old["$ref"].(reference)
	name := odd.ReplaceAllString(r.text[strings.LastIndex(r.text, "/")+1:], "_")
	unique := name
	for s.defs[unique] != nil { // a number is tried once: many may have one name
		s.same[name]++
		unique = name + "_" + strconv.Itoa(s.same[name]+1)
	}
	return unique
}

// odd are the characters that names in $defs do not have, so that references to them need no escapes.
var odd = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// body translates the keywords of a schema.
func (s *schemas) body(old map[string]any) map[string]any {
	schema := make(map[string]any, len(old))
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if value := s.keyword(name, old[name]); value != nil {
			schema[name] = value
		}
	}
	if example, ok := old["example"]; ok && schema["examples"] == nil && !s.terse {
		schema["examples"] = []any{example}
	}
	if one := schema["oneOf"]; one != nil && (old["discriminator"] != nil || s.loose) { // a member says which one is meant, so that others may match, too
		schema["anyOf"] = cmp.Or(schema["anyOf"], one)
		delete(schema, "oneOf")
	}
	if old["x-nullable"] == true { // of Swagger 2.0
		schema["nullable"] = true
	}
	if schema["format"] == "byte" {
		schema["contentEncoding"] = "base64"
	}
	properties := objectIn(old["properties"])
	required := slices.DeleteFunc(listIn(schema["required"]), func(name any) bool {
		own, isOwn := properties[text(name)]
		return s.omitted(own) || !isOwn && s.gone[text(name)]
	})
	if schema["required"] = required; len(required) == 0 {
		delete(schema, "required")
	}
	// An output may have more than the document says. Without a pattern, additionalProperties would refuse what matches it.
	fewer := len(objectIn(schema["patternProperties"])) < len(objectIn(old["patternProperties"]))
	maps.DeleteFunc(schema, func(name string, v any) bool {
		return s.omit == "writeOnly" && v == false && (name == "additionalProperties" || name == "unevaluatedProperties") || fewer && name == "additionalProperties"
	})
	return schema
}

// omitted reports whether a property is left out.
func (s *schemas) omitted(v any) bool {
	target, _, _ := s.target(v)
	return objectIn(v)[s.omit] == true || target[s.omit] == true
}

// keyword translates the value of a keyword; nil: the keyword is left out, because descriptors do not have it, or because the value is of another kind.
func (s *schemas) keyword(name string, v any) any {
	object, list := objectIn(v), listIn(v)
	_, isBool := v.(bool)
	var kept bool
	switch name {
	case "contains", "if", "not", "unevaluatedItems", "unevaluatedProperties":
		if !s.loose {
			return s.schema(v)
		}
	case "additionalProperties", "contentSchema", "else", "items", "propertyNames", "then":
		return s.schema(v)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		all := make([]any, len(list))
		for i, item := range list {
			all[i] = s.schema(item)
		}
		v, kept = all, len(all) > 0
	case "dependentSchemas", "patternProperties", "properties":
		all := make(map[string]any, len(object))
		for _, member := range slices.Sorted(maps.Keys(object)) {
			if s.omitted(object[member]) {
				s.gone[member] = true
			} else if name != "patternProperties" || s.applicable(member) {
				all[member] = s.schema(object[member])
			}
		}
		v, kept = all, object != nil
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
		"minProperties", "maxProperties", "minContains", "maxContains":
		n, _ := v.(jsonvalue.Number)
		f, err := n.Float64()
		kept = err == nil && f < 1<<53 && f > -1<<53 || isBool && strings.HasPrefix(name, "exclusive") // many readers round others
		s.loose = s.loose || !kept
	case "title", "description", "format", "contentEncoding", "contentMediaType":
		v = strings.TrimSpace(safetext.Lines(text(v)))
		kept = v != "" && (!s.terse || name != "title" && name != "description")
	case "nullable", "uniqueItems", "deprecated":
		kept = isBool
	case "pattern":
		kept = s.applicable(text(v))
	case "required":
		seen := map[string]bool{"": true}
		v, kept = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
			repeated := seen[text(v)]
			seen[text(v)] = true
			return repeated
		}), true
	case "type":
		if v == "file" {
			v = "string"
		}
		kept = jsonvalue.TypesOf(v) != 0
		s.loose = s.loose || !kept
	case "enum", "examples":
		kept = len(list) > 0 && (!s.terse || name == "enum")
	case "const", "default":
		kept = true
	}
	if !kept {
		return nil
	}
	return v
}

// applicable reports whether a regular expression is one that bridges apply.
func (s *schemas) applicable(expression string) bool {
	if x, err := ecma.Translate(expression); err == nil && !x.Lenient && expression != "" {
		if tree, _ := x.Parse(); tree != nil {
			return true
		}
	}
	s.loose = true
	return false
}
