package schema

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// parameterSchemaURL is the base URI of every parameter's schema. Its host does not exist (RFC
// 2606).
const parameterSchemaURL = "https://parameter.invalid/schema"

// parameterURLs removes the base URI from messages.
var parameterURLs = strings.NewReplacer(parameterSchemaURL, "", "https://parameter.invalid", "")

// Compiler compiles the schemas of one descriptor.
type Compiler struct {
	limits Limits
	bytes  int // of the schemas so far
	effort effort
}

// NewCompiler returns a compiler for the schemas of one descriptor.
func NewCompiler(l Limits) *Compiler {
	return &Compiler{limits: l, effort: effort{maxEffort}}
}

// Compile returns the compiled schema, or violations. It returns neither for a
// schema with regular expressions that can't be evaluated in linear time, with parts of another draft, or with $recursiveRef: the schema
// may be valid, but only the provider can apply it.
func (c *Compiler) Compile(text jsontext.Value, schema map[string]any, path string) (*Schema, []run.Violation) {
	if problem := c.reserve(schema); problem != "" {
		return nil, []run.Violation{{Path: safetext.Clip(path, jsonvalue.MaxPath), Message: problem}}
	}
	before := c.effort.left
	compiled, err := compileSchema(schema, &c.effort)
	if err != nil {
		return nil, schemaViolations(schema, err, path)
	}
	if compiled == nil || text == nil {
		return nil, nil
	}
	return cmp.Or(c.limits.Pool, compiledSchemas).add(c.limits.Owner, text, before-c.effort.left, compiled), nil
}

// compileSchema compiles a schema, unless that takes more steps than work has
// left. It returns nil for a schema that only the provider can apply.
func compileSchema(schema map[string]any, work *effort) (*Compiled, error) {
	if isForProvider(schema) {
		return nil, nil
	}
	if declared := schema["$schema"]; !isLatest(declared) {
		return nil, errDialect
	}
	patterns := patternEngine{effort: work, known: map[string]compiledPattern{}}
	compiled, err := compileOrdinary(schema, &patterns, work)
	size, pointers := jsonvalue.SizeOf(schema), 0
	if errors.Is(err, errNotOrdinary) {
		if pointers, err = work.estimate(schema); err != nil {
			return nil, err
		}
		compiled, err = compileUntrusted(schema, &patterns)
		size.Objects += size.Booleans // for the library, each of them is a schema
	}
	if err != nil || patterns.unsupported {
		return nil, err
	}
	weights, err := weigh(compiled, work)
	if err != nil {
		return nil, err
	}
	const own, object, value, pointer = 512, 1000, 40, 8 // bytes of memory
	return &Compiled{
		schema: compiled, weights: weights, unevaluated: Uses(schema, "unevaluatedItems", "unevaluatedProperties"),
		bytes: own + object*size.Objects + value*size.Values + size.Bytes + pointer*pointers + patterns.bytes(),
	}, nil
}

// reserve adds the size of a schema to the sizes so far. It returns what is wrong if the sum
// exceeds the limits; empty: nothing.
func (c *Compiler) reserve(schema map[string]any) string {
	size := jsonvalue.SizeOf(schema)
	c.bytes += size.Bytes
	const limit = "(limits schema_size)"
	switch l := c.limits; {
	case size.Levels > maxSchemaDepth:
		return fmt.Sprintf("must not be nested more than %d levels deep", maxSchemaDepth)
	case size.Bytes > l.Size:
		return fmt.Sprintf("must have at most %d bytes %s", l.Size, limit)
	case c.bytes > l.BytesOfAll():
		return fmt.Sprintf("must not make the schemas of all inputs longer than %d bytes %s", l.BytesOfAll(), limit)
	}
	return ""
}

// compileUntrusted compiles a schema with the library. A panic of the library on an unforeseen
// schema becomes an error.
func compileUntrusted(schema map[string]any, patterns *patternEngine) (compiled *jsonschema.Schema, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the schema makes the compiler fail: %v", cause)
		}
	}()
	c := NewLibraryCompiler()
	c.UseRegexpEngine(patterns.Compile)
	if err := c.AddResource(parameterSchemaURL, schema); err != nil {
		return nil, err
	}
	return c.Compile(parameterSchemaURL)
}

// schemaViolations returns why a schema can't be compiled.
func schemaViolations(schema map[string]any, err error, path string) []run.Violation {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		base := path + fragment(invalid.URL)
		if found := ViolationsOf(invalid.Err, schema, base); len(found) > 0 {
			return found
		}
	}
	v := run.Violation{Path: safetext.Clip(path, jsonvalue.MaxPath)}
	if rule, ok := errors.AsType[ruleError](err); ok {
		v.Message = rule.Error()
		return []run.Violation{v}
	}
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		v.Message = errOutside.Error()
		return []run.Violation{v}
	}
	v.Message = safetext.Clip("must be a JSON Schema: "+parameterURLs.Replace(err.Error()), jsonvalue.MaxMessage)
	return []run.Violation{v}
}

// fragment returns the JSON Pointer in a URL of the schema.
func fragment(location string) string {
	_, encoded, _ := strings.Cut(location, "#")
	decoded, err := url.PathUnescape(encoded)
	if err != nil {
		return ""
	}
	return decoded
}

// Uses reports whether one of the keywords occurs anywhere in a schema.
func Uses(schema map[string]any, keywords ...string) bool {
	for at := range jsonvalue.Within(schema) {
		if slices.Contains(keywords, at.Name) {
			return true
		}
	}
	return false
}

// DraftName returns a value of $schema without an empty fragment and the scheme.
func DraftName(declared any) string {
	text, _ := declared.(string)
	return strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(text, "#"), "http:"), "https:")
}

// isLatest reports whether a value of $schema does not name another draft than 2020-12.
func isLatest(declared any) bool {
	name := DraftName(declared)
	return name == "" || name == "//json-schema.org/draft/2020-12/schema" || name == "//json-schema.org/schema"
}

// isForProvider reports whether only the provider can apply a schema: a part of it declares another draft than 2020-12, or it has the recursion of
// draft 2019-09, in which a reference may lead to another resource by the way that validation took.
func isForProvider(schema map[string]any) bool {
	for at, member := range jsonvalue.Within(schema) {
		if _, isText := member.(string); at.Name == "$recursiveRef" && isText || at.Name == "$schema" && at.Depth > 1 && !isLatest(member) {
			return true
		}
	}
	return false
}

// NewLibraryCompiler returns a compiler for Draft 2020-12 that loads neither files nor URLs.
func NewLibraryCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	return c
}

// noLoader loads nothing. The library's default opens file URLs.
type noLoader struct{}

var errNotLoaded = errors.New("schemas are not loaded from URLs")

func (noLoader) Load(string) (any, error) { return nil, errNotLoaded }
