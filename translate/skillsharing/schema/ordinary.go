package schema

import (
	"errors"
	"math/big"
	"math/bits"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The library validates each schema against the metaschemas and looks for identifiers
// in it, which takes 20 times as long as to make what arguments are checked with, and
// can't be interrupted. Most schemas need neither: what is made here of the keywords
// that nearly all of them have is what the library would make. A schema with anything
// else in it, or anything wrong, is left to the library.

// ordinaryCompiler compiles one schema, if that is an ordinary one.
type ordinaryCompiler struct {
	patterns *patternEngine
	draft    int // 7, 2019 or 2020
	root     map[string]any
	objects  map[uintptr]*jsonschema.Schema // what has been made of an object, by its address
	targets  []target
	bounds   map[number]*big.Rat // which are the same in many places
	bytes    int                 // of memory, but for regular expressions
	steps    int                 // that it took, but for regular expressions
}

// target is a place that a schema refers to.
type target struct {
	from  *jsonschema.Schema
	place any
}

// errNotOrdinary: the library is to compile the schema.
var errNotOrdinary = errors.New("not an ordinary schema")

// What it takes, in steps.
const (
	stepsPerOrdinary = 100 // an object that is a schema
	stepsPerKeyword  = 15
	stepsPerItem     = 15  // of a list of names
	stepsPerBound    = 60  // a number
	stepsPerPlace    = 100 // a reference
	bytesPerStep     = 8   // of a value that is kept
)

// ordinaryDrafts are the values of $schema that mean a draft whose keywords are known here.
var ordinaryDrafts = map[any]int{
	nil: 2020, "https://json-schema.org/draft/2020-12/schema": 2020, "https://json-schema.org/draft/2019-09/schema": 2019,
	"http://json-schema.org/draft-07/schema#": 7, "http://json-schema.org/draft-07/schema": 7,
}

// compileOrdinary returns what a schema is compiled into, and the memory of that in bytes
// and but for its regular expressions. The error is errNotOrdinary or a rule for schemas.
func compileOrdinary(schema map[string]any, patterns *patternEngine, work *effort) (*jsonschema.Schema, int, error) {
	c := &ordinaryCompiler{patterns: patterns, root: schema, objects: map[uintptr]*jsonschema.Schema{}, bounds: map[number]*big.Rat{}}
	declared, isText := schema["$schema"].(string)
	if isText {
		c.draft = ordinaryDrafts[declared]
	} else if _, stated := schema["$schema"]; !stated {
		c.draft = ordinaryDrafts[nil]
	}
	if c.draft == 0 {
		return nil, 0, errNotOrdinary
	}
	if id, stated := schema["$id"]; stated && !isPlainURL(id) {
		return nil, 0, errNotOrdinary
	}
	compiled, err := c.schema(schema)
	for len(c.targets) > 0 && err == nil {
		last := len(c.targets) - 1
		t := c.targets[last]
		c.targets = c.targets[:last]
		t.from.Ref, err = c.schema(t.place)
	}
	if err != nil {
		return nil, 0, err
	}
	return compiled, c.bytes, work.spend(c.steps)
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
func newOrdinary(draft int) *jsonschema.Schema {
	return &jsonschema.Schema{Location: parameterSchemaURL + "#", DraftVersion: draft}
}

// Those that are the same wherever they stand.
var (
	anyValue = newBoolean(true)
	noValue  = newBoolean(false)
	ofType   = newTypes()
)

func newBoolean(v bool) *jsonschema.Schema {
	s := newOrdinary(2020)
	s.Bool = &v
	return s
}

// newTypes returns for each name of a type the schema that says no more, and for none the
// one that says nothing.
func newTypes() map[string]*jsonschema.Schema {
	all := map[string]*jsonschema.Schema{"": newOrdinary(2020)}
	for _, name := range typeNames {
		s := newOrdinary(2020)
		s.Types = new(jsonschema.Types)
		s.Types.Add(name)
		all[name] = s
	}
	return all
}

// ofAnyType is an enum that says that its values may be of all types; that can't be said
// from outside of the library.
var ofAnyType = func() jsonschema.Enum {
	c := NewLibraryCompiler()
	if err := c.AddResource(parameterSchemaURL, map[string]any{"enum": []any{nil, true, number("0"), "", []any{}, map[string]any{}}}); err != nil {
		panic(err)
	}
	return *c.MustCompile(parameterSchemaURL).Enum
}()

// schema compiles what stands where a schema is to be.
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
	if name, only := onlyType(object); only {
		return ofType[name], nil
	}
	s := newOrdinary(c.draft)
	c.objects[address] = s
	c.bytes += schemaBytes
	for name, value := range object {
		if err := c.keyword(s, object, name, value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// onlyType reports whether a schema says no more than what type a value has, and which;
// empty: not even that.
func onlyType(object map[string]any) (name string, only bool) {
	for keyword, v := range object {
		switch {
		case keyword == "type":
			text, ok := v.(string)
			if _, known := ofType[text]; !ok || !known || text == "" {
				return "", false
			}
			name = text
		case !isAnnotation(keyword, v):
			return "", false
		}
	}
	return name, true
}

// isAnnotation reports whether a member of a schema is a valid one that does not count
// when values are checked.
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

// isKeyword says of the keywords of all drafts whether they are more than annotations.
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

// keyword compiles a member of a schema.
func (c *ordinaryCompiler) keyword(s *jsonschema.Schema, object map[string]any, name string, v any) (err error) {
	switch name {
	case "$schema", "$id":
		if reflect.ValueOf(object).Pointer() != reflect.ValueOf(c.root).Pointer() {
			err = errNotOrdinary
		}
	case "$ref":
		err = c.reference(s, object, v)
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
		if c.draft >= 2020 {
			s.Items2020, err = c.schema(v)
		} else {
			s.Items, err = c.schema(v)
		}
	case "prefixItems":
		if c.draft < 2020 {
			return errNotOrdinary
		}
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
		if c.draft < 2019 {
			return errNotOrdinary
		}
		s.DependentSchemas, err = c.schemaMap(v)
	case "dependentRequired":
		err = c.dependentRequired(s, v)
	default:
		err = c.assertion(s, name, v)
	}
	return err
}

// assertion compiles a keyword that applies no other schema.
func (c *ordinaryCompiler) assertion(s *jsonschema.Schema, name string, v any) (err error) {
	switch name {
	case "type":
		s.Types, err = c.types(v)
	case "enum":
		err = c.enum(s, v)
	case "const":
		only := v
		s.Const = &only
		c.keep(v)
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return errNotOrdinary
		}
		s.Pattern, err = c.pattern(text)
	case "format":
		if text, ok := v.(string); !ok || text == "regex" && c.draft == 7 {
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

// reference compiles a reference to a place in the same schema.
func (c *ordinaryCompiler) reference(s *jsonschema.Schema, object map[string]any, v any) error {
	text, _ := v.(string)
	pointer, ok := strings.CutPrefix(text, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Trim(pointer, plainCharacters+"$") != "" {
		return errNotOrdinary
	}
	if c.draft < 2019 { // which ignores what stands beside a reference, or most of it
		for name, value := range object {
			if name != "$ref" && name != "definitions" && name != "$defs" && name != "$schema" && name != "$id" && !isAnnotation(name, value) {
				return errNotOrdinary
			}
		}
	}
	var place any = c.root
	if pointer != "" {
		for _, token := range tokens(pointer[1:]) {
			in, _ := place.(map[string]any)
			if place, ok = in[token]; !ok {
				return errNotOrdinary
			}
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
	c.bytes += 8 * len(list)
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
	c.bytes += mapBytes(len(object), 24)
	all := make(map[string]*jsonschema.Schema, len(object))
	for name, value := range object {
		c.bytes += textBytes(name)
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
	c.bytes += mapBytes(len(all), 64)
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
		return nil, errNotOrdinary // the library knows where it stands
	}
	c.bytes += patternHeadBytes
	return re, nil
}

// condition compiles if, then and else. Alone, then and else mean nothing.
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
	if !ok || c.draft < 2019 {
		return errNotOrdinary
	}
	c.bytes += mapBytes(len(object), 40)
	s.DependentRequired = make(map[string][]string, len(object))
	for name, value := range object {
		names, err := c.names(value)
		if err != nil {
			return err
		}
		c.bytes += textBytes(name)
		s.DependentRequired[name] = names
	}
	return nil
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
		if types.Add(text); !ok || *types == before { // unknown, or there already
			return nil, errNotOrdinary
		}
	}
	if types.IsEmpty() {
		return nil, errNotOrdinary
	}
	c.bytes += 8
	return types, nil
}

func (c *ordinaryCompiler) enum(s *jsonschema.Schema, v any) error {
	list, ok := v.([]any)
	if !ok {
		return errNotOrdinary
	}
	if c.draft < 2019 { // whose values must be unique
		if _, err := c.names(v); err != nil || len(list) == 0 {
			return errNotOrdinary
		}
	}
	enum := ofAnyType
	enum.Values = list
	s.Enum = &enum
	c.bytes += 32
	c.keep(list)
	return nil
}

// names returns a list of texts that are unique.
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
		c.bytes += textBytes(name) + 32
	}
	sorted := slices.Sorted(slices.Values(names))
	if len(slices.Compact(sorted)) < len(names) {
		return nil, errNotOrdinary
	}
	return names, nil
}

// count is a number that is at least 0.
func (c *ordinaryCompiler) count(v any) (*int, error) {
	text, _ := v.(number)
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return nil, errNotOrdinary
	}
	c.bytes += 8
	count := int(n)
	return &count, nil
}

func (c *ordinaryCompiler) bound(v any) (*big.Rat, error) {
	text, ok := v.(number)
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
	c.bytes += rationalBytes + 3*len(text)
	return bound, nil
}

// keep counts a value that is kept as it was read, and looked at when the schema is weighed.
func (c *ordinaryCompiler) keep(v any) {
	n := valueBytes(v)
	c.bytes += n + 16
	c.steps += n / bytesPerStep
}

// What compiled schemas take, in bytes, as memory is allocated.
const (
	schemaBytes      = 768
	rationalBytes    = 112
	patternHeadBytes = 64
)

func textBytes(s string) int { return (len(s) + 15) &^ 15 }

// mapBytes is the memory of a map that was made for some entries.
func mapBytes(entries, each int) int {
	slots := 8
	if entries > 8 {
		slots = 1 << bits.Len(uint(entries*8/7))
	}
	return 128 + slots*(each+8)
}

// valueBytes is the memory of a value that readJSON returned.
func valueBytes(v any) int {
	const interfaceBytes = 16
	n := 0
	switch v := v.(type) {
	case string:
		n = 16 + textBytes(v)
	case number:
		n = 16 + textBytes(string(v))
	case []any:
		n = 24 + 2*interfaceBytes*len(v) // as it grew
		for _, item := range v {
			n += valueBytes(item)
		}
	case map[string]any:
		n = 2 * mapBytes(len(v), 32) // as it grew
		for name, member := range v {
			n += textBytes(name) + valueBytes(member)
		}
	}
	return n
}
