package schema

import (
	"errors"
	"math/big"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// ordinaryCompiler compiles one schema, if it is an ordinary one.
//
// The library validates each schema against the metaschemas and searches it for identifiers. That
// takes 20 times as long as compiling it, and can't be interrupted. Most schemas have only the
// usual keywords. For these, ordinaryCompiler returns the same as the library would. It leaves
// schemas with other keywords, or with mistakes, to the library.
type ordinaryCompiler struct {
	patterns *patternEngine
	root     map[string]any
	objects  map[uintptr]*jsonschema.Schema // compiled objects, by their addresses
	targets  []target
	bounds   map[jsonvalue.Number]*big.Rat // numbers by their texts, since many keywords have equal ones
	steps    int                           // taken so far, without regular expressions
}

// target is a place to which a schema refers.
type target struct {
	from  *jsonschema.Schema
	place any
}

// errNotOrdinary says that the library must compile the schema.
var errNotOrdinary = errors.New("not an ordinary schema")

// The work of the ordinaryCompiler, in steps.
const (
	stepsPerOrdinary = 100 // an object that is a schema
	stepsPerKeyword  = 15
	stepsPerItem     = 15  // of a list of names
	stepsPerBound    = 60  // a number
	stepsPerPlace    = 100 // a reference
	stepsPerKept     = 8   // a value that the compiled schema contains unchanged, or one in it
)

// compileOrdinary compiles a schema of Draft 2020-12. The error is errNotOrdinary or a rule for schemas.
func compileOrdinary(schema map[string]any, patterns *patternEngine, work *effort) (*jsonschema.Schema, error) {
	declared, isDeclared := schema["$schema"]
	id, hasID := schema["$id"]
	if isDeclared && DraftName(declared) == "" || hasID && !isPlainURL(id) {
		return nil, errNotOrdinary
	}
	c := &ordinaryCompiler{patterns: patterns, root: schema, objects: map[uintptr]*jsonschema.Schema{}, bounds: map[jsonvalue.Number]*big.Rat{}}
	compiled, err := c.schema(schema)
	for len(c.targets) > 0 && err == nil {
		last := len(c.targets) - 1
		t := c.targets[last]
		c.targets = c.targets[:last]
		t.from.Ref, err = c.schema(t.place)
	}
	if err != nil {
		return nil, err
	}
	return compiled, work.spend(c.steps)
}

// isPlainURL reports whether a value is an http(s) URL of plain characters.
func isPlainURL(v any) bool {
	text, _ := v.(string)
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") || strings.Trim(text, plainCharacters) != "" {
		return false
	}
	u, err := url.Parse(text)
	return err == nil && u.Host != ""
}

const plainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/:"

// newOrdinary returns a schema without keywords.
func newOrdinary() *jsonschema.Schema {
	return &jsonschema.Schema{Location: parameterSchemaURL + "#", DraftVersion: 2020}
}

// Schemas that all others share.
var (
	anyValue = newBoolean(true)
	noValue  = newBoolean(false)
)

func newBoolean(v bool) *jsonschema.Schema {
	s := newOrdinary()
	s.Bool = &v
	return s
}

// ofAnyType is an enum whose values may be of all types. Only the library can
// make one.
var ofAnyType = func() jsonschema.Enum {
	c := NewLibraryCompiler()
	if err := c.AddResource(parameterSchemaURL, map[string]any{"enum": []any{nil, true, jsonvalue.Number("0"), "", []any{}, map[string]any{}}}); err != nil {
		panic(err)
	}
	return *c.MustCompile(parameterSchemaURL).Enum
}()

// schema compiles a value that should be a schema.
func (c *ordinaryCompiler) schema(v any) (*jsonschema.Schema, error) {
	object, ok := v.(map[string]any)
	switch {
	case !ok && v == true, ok && len(object) == 0:
		return anyValue, nil
	case !ok && v == false:
		return noValue, nil
	case !ok:
		return nil, errNotOrdinary
	}
	address := reflect.ValueOf(object).Pointer()
	if known := c.objects[address]; known != nil {
		return known, nil
	}
	c.steps += stepsPerOrdinary + stepsPerKeyword*len(object)
	s := newOrdinary()
	c.objects[address] = s
	for name, value := range object {
		if err := c.keyword(s, object, name, value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// keyword compiles a member of a schema.
func (c *ordinaryCompiler) keyword(s *jsonschema.Schema, object map[string]any, name string, v any) (err error) {
	switch name {
	case "$schema", "$id":
		if reflect.ValueOf(object).Pointer() != reflect.ValueOf(c.root).Pointer() {
			err = errNotOrdinary
		}
	case "$ref":
		err = c.reference(s, v)
	case "$defs", "definitions":
		_, err = c.schemaMap(v)
	case "properties":
		s.Properties, err = c.schemaMap(v)
	case "patternProperties":
		err = c.patternProperties(s, v)
	case "additionalProperties":
		if allowed, ok := v.(bool); ok {
			s.AdditionalProperties = allowed
		} else if s.AdditionalProperties, err = c.schema(v); err != nil {
			s.AdditionalProperties = nil
		}
	case "propertyNames":
		s.PropertyNames, err = c.schema(v)
	case "contains":
		s.Contains, err = c.schema(v)
	case "items":
		s.Items2020, err = c.schema(v)
	case "prefixItems":
		s.PrefixItems, err = c.schemaList(v)
	case "allOf":
		s.AllOf, err = c.schemaList(v)
	case "anyOf":
		s.AnyOf, err = c.schemaList(v)
	case "oneOf":
		s.OneOf, err = c.schemaList(v)
	case "not":
		s.Not, err = c.schema(v)
	case "if", "then", "else":
		err = c.condition(s, object, name, v)
	case "dependentSchemas":
		s.DependentSchemas, err = c.schemaMap(v)
	case "dependentRequired":
		err = c.dependentRequired(s, v)
	default:
		err = c.assertion(s, name, v)
	}
	return err
}

// reference compiles a reference to a place in the same schema.
func (c *ordinaryCompiler) reference(s *jsonschema.Schema, v any) error {
	text, _ := v.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Trim(pointer, plainCharacters+"$") != "" {
		return errNotOrdinary
	}
	var place any = c.root
	for token := range jsontext.Pointer(pointer).Tokens() {
		in, _ := place.(map[string]any)
		if place, ok = in[token]; !ok {
			return errNotOrdinary
		}
	}
	c.steps += stepsPerPlace + len(text)
	c.targets = append(c.targets, target{s, place})
	return nil
}

func (c *ordinaryCompiler) schemaList(v any) ([]*jsonschema.Schema, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errNotOrdinary
	}
	c.steps += stepsPerItem * len(list)
	all := make([]*jsonschema.Schema, len(list))
	for i, item := range list {
		var err error
		if all[i], err = c.schema(item); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *ordinaryCompiler) schemaMap(v any) (map[string]*jsonschema.Schema, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errNotOrdinary
	}
	c.steps += stepsPerItem * len(object)
	all := make(map[string]*jsonschema.Schema, len(object))
	for name, value := range object {
		s, err := c.schema(value)
		if err != nil {
			return nil, err
		}
		all[name] = s
	}
	return all, nil
}

func (c *ordinaryCompiler) patternProperties(s *jsonschema.Schema, v any) error {
	all, err := c.schemaMap(v)
	if err != nil {
		return err
	}
	s.PatternProperties = make(map[jsonschema.Regexp]*jsonschema.Schema, len(all))
	for expression, sub := range all {
		re, err := c.pattern(expression)
		if err != nil {
			return err
		}
		s.PatternProperties[re] = sub
	}
	return nil
}

// pattern compiles a regular expression.
func (c *ordinaryCompiler) pattern(expression string) (jsonschema.Regexp, error) {
	re, err := c.patterns.Compile(expression)
	if err != nil {
		return nil, errNotOrdinary // the error of the library says where the expression is
	}
	return re, nil
}

// condition compiles if, then and else. Without if, then and else have no effect.
func (c *ordinaryCompiler) condition(s *jsonschema.Schema, object map[string]any, name string, v any) error {
	sub, err := c.schema(v)
	if err != nil {
		return err
	}
	condition, conditional := object["if"]
	always, constant := condition.(bool)
	switch {
	case name == "if":
		s.If = sub
	case name == "then" && conditional && (!constant || always):
		s.Then = sub
	case name == "else" && conditional && (!constant || !always):
		s.Else = sub
	}
	return nil
}

func (c *ordinaryCompiler) dependentRequired(s *jsonschema.Schema, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return errNotOrdinary
	}
	s.DependentRequired = make(map[string][]string, len(object))
	for name, value := range object {
		names, err := c.names(value)
		if err != nil {
			return err
		}
		s.DependentRequired[name] = names
	}
	return nil
}
