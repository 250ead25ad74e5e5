// Package modern translates JSON Schemas of older drafts to Draft 2020-12.
package modern

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// drafts are the drafts before 2020-12, and those that other values of $schema extend with keywords that are no assertions, by their [schema.DraftName].
var drafts = map[string]int{
	"//json-schema.org/draft-04/schema": 4, "//json-schema.org/draft-06/schema": 6, "//json-schema.org/draft-07/schema": 7, "//json-schema.org/draft/2019-09/schema": 2019,
	"//json-schema.org/draft-04/hyper-schema": 4, "//json-schema.org/draft-06/hyper-schema": 6, "//json-schema.org/draft-07/hyper-schema": 7,
	"//json-schema.org/draft/2019-09/hyper-schema": 2019, "//json-schema.org/draft/2020-12/hyper-schema": latest,
}

// openAPI begins the dialects of OpenAPI 3.1 and later, which extend Draft 2020-12.
const openAPI = "//spec.openapis.org/oas/3."

const latest = 2020

// oldWords are the keywords that a schema of an older draft has if there is something to translate.
var oldWords = []string{"$schema", "id", "definitions", "items", "additionalItems", "dependencies", "exclusiveMinimum", "exclusiveMaximum", "nullable"}

// draftOf returns the draft that a value of $schema names, or that the dialect in it extends, if it has to be translated; 0: it does not.
func draftOf(declared any) int {
	name := schema.DraftName(declared)
	if strings.HasPrefix(name, openAPI) && strings.Contains(name, "/dialect/") {
		return latest
	}
	return drafts[name]
}

// Schema translates a schema to Draft 2020-12: one that says in $schema that it is of an
// older draft, or of a dialect of a draft, or one without $schema that has keywords that Draft 2020-12 does not know or that have other values there. kind is the type of the
// values, as a parameter has one outside of its schema; empty: any. ok is false if the schema needs no translation.
func Schema(old map[string]any, kind string) (modern map[string]any, ok bool) {
	declared, stated := old["$schema"]
	m := modernizer{draft: draftOf(declared)}
	if stated && m.draft == 0 || !schema.Uses(old, oldWords...) || schema.Uses(old, "$recursiveRef") {
		return old, false
	}
	if m.draft == latest {
		modern = maps.Clone(old)
		delete(modern, "$schema")
		return modern, true
	}
	m.resources = map[string]map[string]any{}
	for _, value := range jsonvalue.Within(old) {
		if object, isObject := value.(map[string]any); isObject && m.idOf(object) != "" {
			m.resources[m.idOf(object)] = object
		}
	}
	modern = m.object(old, old)
	if old["nullable"] == true && jsonvalue.TypesNamed(kind) != 0 && !hasAny(old, "type", "$ref", "enum", "anyOf", "oneOf", "allOf") {
		modern["type"] = []any{kind, "null"}
	}
	if !m.changed {
		return old, false
	}
	return modern, true
}

// Text is [Schema] for the text of a schema. It returns other texts as they are.
func Text(text jsontext.Value) jsontext.Value {
	if !slices.ContainsFunc(oldWords, func(word string) bool { return bytes.Contains(text, []byte(word)) }) {
		return text
	}
	value, _ := jsonvalue.Read(text, schema.ArgumentBounds)
	if object, isObject := value.(map[string]any); isObject {
		if modern, ok := Schema(object, ""); ok {
			return jsonvalue.Marshal(modern)
		}
	}
	return text
}

// besideReferences are the keywords that have an effect beside $ref in the drafts before 2019-09, or are translated in their own way.
var besideReferences = []string{
	"$ref", "$schema", "definitions", "$defs", "nullable", "title", "description", "$comment", "default", "examples", "readOnly", "writeOnly", "deprecated",
}

// modernizer translates a schema.
type modernizer struct {
	draft     int                       // 0: not stated
	resources map[string]map[string]any // schemas with a URI, in which references may begin
	changed   bool
}

func hasAny(object map[string]any, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, has := object[name]; return has })
}

// schema translates a value that should be a schema, or a list of schemas. resource is the schema around it in which its references begin.
func (m *modernizer) schema(v any, resource map[string]any) any {
	switch v := v.(type) {
	case []any:
		all := make([]any, len(v))
		for i, item := range v {
			all[i] = m.schema(item, resource)
		}
		return all
	case map[string]any:
		return m.object(v, resource)
	}
	return v
}

func (m *modernizer) object(old, resource map[string]any) map[string]any {
	_, refers := old["$ref"]
	alone := refers && m.draft != 0 && m.draft < 2019 // a reference, for which these drafts ignore all but texts for people
	if m.idOf(old) != "" && !alone {
		resource = old
	}
	s := make(map[string]any, len(old))
	for name, value := range old {
		if alone && !slices.Contains(besideReferences, name) {
			m.changed = true
			continue
		}
		word := newWord(old, name)
		m.changed = m.changed || word != name
		switch {
		case word == "": // it has no effect
		case name == "dependencies":
			m.dependencies(s, old, resource)
		case slices.Contains(schema.SchemaMapKeywords, name):
			s[word] = m.schemas(value, resource)
		case slices.Contains(schema.SchemaKeywords, name):
			s[word] = m.schema(value, resource)
		case name == "$ref":
			s[word] = m.reference(value, resource)
		default:
			s[word] = value
		}
	}
	m.identity(s)
	m.bound(s, "minimum", "exclusiveMinimum")
	m.bound(s, "maximum", "exclusiveMaximum")
	m.nullable(s)
	return s
}

func (m *modernizer) schemas(v any, resource map[string]any) any {
	object, ok := v.(map[string]any)
	if !ok {
		return v
	}
	all := make(map[string]any, len(object))
	for name, value := range object {
		all[name] = m.schema(value, resource)
	}
	return all
}

// newWord returns the keyword of Draft 2020-12 for one in an object; empty: it has no effect.
func newWord(object map[string]any, name string) string {
	list, isList := object["items"].([]any)
	switch name {
	case "definitions":
		if !hasAny(object, "$defs") {
			return "$defs"
		}
	case "items":
		if isList && len(list) == 0 {
			return ""
		}
		if isList && !hasAny(object, "prefixItems") {
			return "prefixItems"
		}
	case "additionalItems":
		if isList && !hasAny(object, "prefixItems") {
			return "items"
		}
		return ""
	case "dependencies":
		if hasAny(object, "dependentRequired", "dependentSchemas") {
			break
		}
		return "dependentSchemas"
	}
	return name
}

// dependencies adds dependencies on names and on schemas.
func (m *modernizer) dependencies(s, old, resource map[string]any) {
	object, ok := old["dependencies"].(map[string]any)
	if !ok || hasAny(old, "dependentRequired", "dependentSchemas") {
		s["dependencies"] = old["dependencies"]
		return
	}
	required, schemas := map[string]any{}, map[string]any{}
	for name, value := range object {
		if names, isList := value.([]any); isList {
			required[name] = names
		} else {
			schemas[name] = m.schema(value, resource)
		}
	}
	if len(required) > 0 {
		s["dependentRequired"] = required
	}
	if len(schemas) > 0 {
		s["dependentSchemas"] = schemas
	}
}

// idWord is the keyword for the URI of a schema.
func (m *modernizer) idWord() string {
	if m.draft == 4 {
		return "id"
	}
	return "$id"
}

// idOf returns the URI of a schema without an empty fragment; empty: it has none, or only an anchor.
func (m *modernizer) idOf(object map[string]any) string {
	id, _ := object[m.idWord()].(string)
	if strings.HasPrefix(id, "#") {
		return ""
	}
	return strings.TrimSuffix(id, "#")
}

// identity translates the URI of a schema, and removes that of the draft.
func (m *modernizer) identity(s map[string]any) {
	if draftOf(s["$schema"]) != 0 {
		delete(s, "$schema")
		m.changed = true
	}
	if _, isBool := s["$recursiveAnchor"].(bool); isBool { // of draft 2019-09: no reference uses it
		delete(s, "$recursiveAnchor")
		m.changed = true
	}
	id, isText := s[m.idWord()].(string)
	_, isOld := s["id"].(string)
	if isOld {
		delete(s, "id")
		m.changed = true
	}
	if !isText || m.draft == 0 {
		return
	}
	delete(s, "$id")
	if anchor, isAnchor := strings.CutPrefix(id, "#"); isAnchor && anchor != "" {
		s["$anchor"] = anchor
		m.changed = true
	} else if !isAnchor {
		s["$id"] = id
	}
}

// bound translates a limit that another keyword makes exclusive.
func (m *modernizer) bound(s map[string]any, inclusive, exclusive string) {
	only, isBool := s[exclusive].(bool)
	if !isBool {
		return
	}
	m.changed = true
	delete(s, exclusive)
	if limit, has := s[inclusive]; has && only {
		s[exclusive] = limit
		delete(s, inclusive)
	}
}

// nullable translates the keyword of OpenAPI 3.0 that allows null besides.
func (m *modernizer) nullable(s map[string]any) {
	allowed, isBool := s["nullable"].(bool)
	if !isBool {
		return
	}
	m.changed = true
	delete(s, "nullable")
	if !allowed {
		return
	}
	null := map[string]any{"type": "null"}
	switch types := s["type"].(type) {
	case string:
		if types != "null" {
			s["type"] = []any{types, "null"}
		}
	case []any:
		if !slices.Contains(types, any("null")) {
			s["type"] = append(slices.Clone(types), "null")
		}
	}
	if values, isList := s["enum"].([]any); isList && !slices.Contains(values, nil) {
		s["enum"] = append(slices.Clone(values), nil)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list, isList := s[word].([]any); isList && !hasAny(s, "type") {
			s[word] = append(slices.Clone(list), null)
		}
	}
	all, _ := s["allOf"].([]any)
	if only, isOnly := s["$ref"]; isOnly {
		all = append(slices.Clone(all), map[string]any{"$ref": only})
	}
	if len(all) == 1 && !hasAny(s, "type", "anyOf", "oneOf", "enum") {
		delete(s, "$ref")
		delete(s, "allOf")
		s["anyOf"] = []any{all[0], null}
	}
}

// reference translates the words in a reference to a place in the resource.
func (m *modernizer) reference(v any, resource map[string]any) any {
	text, _ := v.(string)
	base, pointer, found := strings.Cut(text, "#/")
	if base != "" {
		resource = m.resources[base]
	}
	if !found || resource == nil {
		return v
	}
	words := strings.Split(pointer, "/")
	var at any = resource
	for i := 0; i < len(words); i++ {
		object, ok := at.(map[string]any)
		name := decoded(words[i])
		if !ok || !slices.Contains(schema.SchemaKeywords, name) && !slices.Contains(schema.SchemaMapKeywords, name) {
			break
		}
		words[i] = newWord(object, name)
		at = object[name]
		if list, isList := at.([]any); isList || slices.Contains(schema.SchemaMapKeywords, name) {
			if i++; i == len(words) {
				break
			}
			of, _ := at.(map[string]any)
			if at = of[decoded(words[i])]; isList {
				at = jsonvalue.Lookup(list, words[i:i+1])
			}
		}
	}
	translated := base + "#/" + strings.Join(words, "/")
	m.changed = m.changed || translated != text
	return translated
}

var unescaper = strings.NewReplacer("~1", "/", "~0", "~")

// decoded returns a token of a JSON Pointer in a URI.
func decoded(token string) string {
	if text, err := url.PathUnescape(token); err == nil {
		token = text
	}
	return unescaper.Replace(token)
}

// ofTranslation ends the violations of a schema that was translated: their paths and rules are those of the translation.
const ofTranslation = " (in the schema as it reads in Draft 2020-12)"

// Compile compiles a schema as [schema.Compiler.Compile] does. If it is of an older draft, the translation replaces its text and object.
func Compile(c *schema.Compiler, text *jsontext.Value, object *map[string]any, kind, path string) (*schema.Schema, []run.Violation) {
	translated, ok := Schema(*object, kind)
	if !ok {
		return c.Compile(*text, *object, path)
	}
	*object = translated
	if *text != nil {
		*text = jsonvalue.Marshal(translated)
	}
	compiled, flaws := c.Compile(*text, translated, path)
	for i := range flaws {
		flaws[i].Message = safetext.Clip(flaws[i].Message, jsonvalue.MaxMessage-len(ofTranslation)) + ofTranslation
	}
	return compiled, flaws
}
