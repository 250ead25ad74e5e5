package schema

import (
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// assertion compiles a keyword that applies no other schema.
func (c *ordinaryCompiler) assertion(s *jsonschema.Schema, name string, v any) (err error) {
	switch name {
	case "type":
		s.Types, err = c.types(v)
	case "enum":
		err = c.enum(s, v)
	case "const":
		s.Const = new(v)
		c.keep(v)
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return errNotOrdinary
		}
		s.Pattern, err = c.pattern(text)
	case "format":
		if _, ok := v.(string); !ok {
			return errNotOrdinary
		}
	case "required":
		s.Required, err = c.names(v)
	case "uniqueItems":
		unique, ok := v.(bool)
		if !ok {
			return errNotOrdinary
		}
		s.UniqueItems = unique
	case "minLength":
		s.MinLength, err = c.count(v)
	case "maxLength":
		s.MaxLength, err = c.count(v)
	case "minItems":
		s.MinItems, err = c.count(v)
	case "maxItems":
		s.MaxItems, err = c.count(v)
	case "minProperties":
		s.MinProperties, err = c.count(v)
	case "maxProperties":
		s.MaxProperties, err = c.count(v)
	case "minimum":
		s.Minimum, err = c.bound(v)
	case "maximum":
		s.Maximum, err = c.bound(v)
	case "exclusiveMinimum":
		s.ExclusiveMinimum, err = c.bound(v)
	case "exclusiveMaximum":
		s.ExclusiveMaximum, err = c.bound(v)
	case "multipleOf":
		if s.MultipleOf, err = c.bound(v); err == nil && s.MultipleOf.Sign() <= 0 {
			err = errNotOrdinary
		}
	default:
		if !isAnnotation(name, v) {
			err = errNotOrdinary
		}
	}
	return err
}

func (c *ordinaryCompiler) types(v any) (*jsonschema.Types, error) {
	names := []any{v}
	if list, ok := v.([]any); ok {
		names = list
	}
	types := new(jsonschema.Types)
	for _, name := range names {
		text, ok := name.(string)
		before := *types
		if types.Add(text); !ok || *types == before { // an unknown type, or one that occurs twice
			return nil, errNotOrdinary
		}
	}
	if types.IsEmpty() {
		return nil, errNotOrdinary
	}
	return types, nil
}

func (c *ordinaryCompiler) enum(s *jsonschema.Schema, v any) error {
	list, ok := v.([]any)
	if !ok {
		return errNotOrdinary
	}
	enum := ofAnyType
	enum.Values = list
	s.Enum = &enum
	c.keep(list)
	return nil
}

// names reads a list of unique strings.
func (c *ordinaryCompiler) names(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errNotOrdinary
	}
	c.steps += stepsPerItem * (1 + bits.Len(uint(len(list)))) * len(list)
	var names []string
	for _, item := range list {
		name, ok := item.(string)
		if !ok {
			return nil, errNotOrdinary
		}
		names = append(names, name)
	}
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return nil, errNotOrdinary
	}
	return names, nil
}

// count reads a non-negative integer.
func (c *ordinaryCompiler) count(v any) (*int, error) {
	text, _ := v.(jsonvalue.Number)
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return nil, errNotOrdinary
	}
	return new(int(n)), nil
}

func (c *ordinaryCompiler) bound(v any) (*big.Rat, error) {
	text, ok := v.(jsonvalue.Number)
	if !ok || len(text) > 40 || strings.ContainsAny(string(text), "eE") {
		return nil, errNotOrdinary
	}
	c.steps += stepsPerBound
	if known := c.bounds[text]; known != nil {
		return known, nil
	}
	bound, ok := new(big.Rat).SetString(string(text))
	if !ok {
		return nil, errNotOrdinary
	}
	c.bounds[text] = bound
	return bound, nil
}

// keep counts the steps for a value that the compiled schema contains unchanged.
func (c *ordinaryCompiler) keep(v any) { c.steps += stepsPerKept * jsonvalue.SizeOf(v).Values }

// isAnnotation reports whether a member of a schema is valid and has no effect on
// which values are valid.
func isAnnotation(name string, v any) bool {
	switch name {
	case "title", "description", "$comment", "contentEncoding", "contentMediaType":
		_, ok := v.(string)
		return ok
	case "readOnly", "writeOnly", "deprecated":
		_, ok := v.(bool)
		return ok
	case "examples":
		_, ok := v.([]any)
		return ok
	case "default":
		return true
	}
	return !isKeyword[name]
}

// isKeyword has the keywords of all drafts that are not annotations.
var isKeyword = func() map[string]bool {
	all := map[string]bool{}
	for _, names := range [][]string{SchemaKeywords, SchemaMapKeywords, {
		"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$ref", "$schema", "$vocabulary", "id",
		"const", "dependentRequired", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains", "maxItems", "maxLength",
		"maxProperties", "maximum", "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required", "type", "uniqueItems",
	}} {
		for _, name := range names {
			all[name] = true
		}
	}
	return all
}()
