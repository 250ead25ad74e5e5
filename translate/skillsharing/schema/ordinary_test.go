package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
)

// ordinarySchemas are compiled without the library's help, extraordinary ones not.
var (
	ordinarySchemas = []string{
		`{}`, `{"type":"string"}`, `{"type":["integer","null"],"description":"d"}`, `{"description":"d","default":1,"x-order":{"a":[]}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":1,"maxLength":2},"b":{"$ref":"#/$defs/b"},"c":true},"additionalProperties":false,"$defs":{"b":{"enum":["x",1,null,{"a":[1.0]}]}}}`,
		`{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"},"minItems":1,"maxItems":3,"uniqueItems":true}},"minProperties":1,"maxProperties":2}`,
		`{"$ref":"#/definitions/a","definitions":{"a":{"type":"object","properties":{"v":{"type":"number","minimum":0,"exclusiveMaximum":10,"multipleOf":0.5}},"additionalProperties":{"type":"string"}}}}`,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://acme.example/schemas/a.json","$comment":"c","type":"array","prefixItems":[{"type":"string"},{"const":1}],"items":{"type":"boolean"},"contains":{"const":true}}`,
		`{"items":{"maximum":3,"exclusiveMinimum":-1},"dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"required":["c"]}}}`,
		`{"patternProperties":{"^a":{"type":"integer"}},"propertyNames":{"maxLength":3,"pattern":"^[a-c]+$"}}`,
		`{"oneOf":[{"type":"string","format":"date-time"},{"type":"integer"},{"$ref":"#/$defs/o"}],"$defs":{"o":{"anyOf":[{"required":["a"]},{"required":["b"]}],"not":{"required":["c"]}}}}`,
		`{"if":{"required":["a"]},"then":{"required":["b"]},"else":{"required":["c"]}}`, `{"if":true,"then":{"type":"object"},"else":{"const":1}}`, `{"if":false,"then":{"type":"object"},"else":{"type":"array"}}`, `{"then":{"const":1},"else":{"const":1}}`,
		`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"minLength":2}}},false]}`, `{"const":null}`, `{"const":{"a":1}}`, `{"enum":[]}`, `{"$ref":"#/x/y","x":{"y":{"type":"string"}}}`,
		`{"enum":["a","b"],"contains":true,"$defs":{"a":{"type":"null"}}}`, `{"$ref":"#/default","default":{"type":"integer"}}`,
	}
	extraordinarySchemas = []string{
		`{"$id":"a"}`, `{"properties":{"a":{"$id":"https://acme.example/"}}}`, `{"$id":"https://acme.example/#a"}`, `{"$anchor":"a"}`, `{"$dynamicRef":"#a"}`, `{"unevaluatedProperties":false}`, `{"properties":{"a":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}}`,
		`{"$ref":"other"}`, `{"$ref":"#a"}`, `{"$ref":"#/nothing"}`, `{"allOf":[{}],"not":{"$ref":"#/allOf/0"}}`, `{"dependencies":{"a":["b"]}}`,
		`{"$schema":1}`, `{"$ref":"#/~2","~2":{}}`,
	}
	invalidSchemas = []string{
		`{"type":"strong"}`, `{"type":[]}`, `{"type":["string","string"]}`, `{"type":1}`, `{"enum":1}`, `{"required":["a","a"]}`, `{"required":[1]}`, `{"minLength":-1}`, `{"minLength":1.5}`, `{"minimum":"1"}`, `{"multipleOf":0}`, `{"pattern":"("}`, `{"patternProperties":{"(":true}}`, `{"patternProperties":[]}`,
		`{"properties":[]}`, `{"properties":{"a":1}}`, `{"allOf":[]}`, `{"allOf":{}}`, `{"not":[]}`, `{"uniqueItems":1}`, `{"title":1}`, `{"examples":1}`, `{"readOnly":"a"}`, `{"format":1}`, `{"$defs":{"a":{"type":"strong"}}}`, `{"$ref":1}`, `{"$ref":"#/x","x":1}`, `{"$ref":"#/x","x":{"type":1}}`,
		`{"items":[{}]}`, `{"additionalProperties":1}`, `{"dependentRequired":{"a":[1]}}`, `{"dependentSchemas":{"a":[]}}`, `{"if":1}`, `{"prefixItems":[]}`, `{"contains":null}`, `{"propertyNames":"a"}`,
	}
)

// values are such that most schemas accept some and reject some.
var valuesForSchemas = []string{
	`null`, `true`, `false`, `0`, `1`, `1.0`, `-1`, `2.5`, `0.25`, `10`, `""`, `"a"`, `"ab"`, `"abc"`, `"x"`, `[]`, `[1]`, `[1,1]`, `["a",1,true]`, `["a",1,2]`, `{}`, `{"a":1}`, `{"a":"x"}`, `{"a":[1]}`, `{"a":"ab","b":"x"}`, `{"b":1}`, `{"b":1,"c":2}`,
	`{"c":3}`, `{"v":1.5}`, `{"v":11}`, `{"v":0.3,"w":"x"}`, `{"kids":[{"kids":[]}]}`, `{"kids":[{"kids":[{"x":1}]},{"kids":[1]}]}`, `{"abcd":1}`, `{"b":{"a":[1]}}`, `{"z":0}`,
}

// both compiles a schema in both ways. The first is nil if it is not ordinary.
func both(t *testing.T, text string) (ordinary, library *jsonschema.Schema, unsupported bool, invalid error) {
	t.Helper()
	value, flaw := jsonvalue.Read([]byte(text), jsonvalue.Bounds{Depth: 100, Values: 10_000})
	object, ok := value.(map[string]any)
	if flaw != nil || !ok || !isLatest(object["$schema"]) || isForProvider(object) {
		t.Skip("no object, or of another draft")
	}
	engine := func() *patternEngine {
		return &patternEngine{effort: &effort{maxEffort}, known: map[string]compiledPattern{}}
	}
	one, two := engine(), engine()
	ordinary, err := compileOrdinary(object, one, one.effort)
	if err != nil && !errors.Is(err, errNotOrdinary) {
		t.Skip(err)
	}
	library, invalid = compileUntrusted(object, two)
	if err == nil && invalid == nil && one.unsupported != two.unsupported {
		t.Errorf("%s: only one of them does not know an expression", text)
	}
	return ordinary, library, two.unsupported, invalid
}

// told is what a schema says of a value.
func told(t *testing.T, s *jsonschema.Schema, value string) string {
	t.Helper()
	v, flaw := jsonvalue.Read([]byte(value), ArgumentBounds)
	if flaw != nil {
		t.Skip(flaw.Message)
	}
	err := s.Validate(v)
	var all []string
	for _, f := range findingsOf(err) {
		all = append(all, fmt.Sprintf("%s %T %s", jsonvalue.Pointer(f.Path), f.kind, f.Sentence(v)))
	}
	slices.Sort(all) // names of members come in any order
	return fmt.Sprintf("%t %s", err == nil, strings.Join(all, "\n"))
}

// costOf is what a schema costs to apply to a value.
func costOf(s *jsonschema.Schema, weights map[*jsonschema.Schema]*weight, value string) string {
	v, flaw := jsonvalue.Read([]byte(value), ArgumentBounds)
	if flaw != nil {
		return flaw.Message
	}
	c := counter{weights: weights}
	c.count(s, v)
	return fmt.Sprint(c.visits, c.steps)
}

// sameAs compares what two compiled schemas say, and cost.
func sameAs(t *testing.T, text string, ordinary, library *jsonschema.Schema, values []string) {
	t.Helper()
	work := effort{1 << 40}
	one, err1 := weigh(ordinary, &work)
	two, err2 := weigh(library, &work)
	if !errors.Is(err1, err2) {
		t.Fatalf("%s: %v, and %v", text, err1, err2)
	}
	if err1 != nil {
		return
	}
	for _, value := range values {
		if got, want := told(t, ordinary, value), told(t, library, value); got != want {
			t.Errorf("%s of %s: got %s\nwant %s", text, value, got, want)
		}
		if got, want := costOf(ordinary, one, value), costOf(library, two, value); got != want {
			t.Errorf("%s of %s costs %s, and %s", text, value, got, want)
		}
	}
}

// A schema of ordinary keywords is what the library makes of it; others are left to the library.
func TestOrdinarySchemas(t *testing.T) {
	for _, text := range ordinarySchemas {
		ordinary, library, _, err := both(t, text)
		if ordinary == nil || err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		sameAs(t, text, ordinary, library, valuesForSchemas)
	}
	for _, text := range extraordinarySchemas {
		if ordinary, _, _, _ := both(t, text); ordinary != nil {
			t.Errorf("%s is ordinary", text)
		}
	}
	for _, text := range invalidSchemas {
		if ordinary, _, _, err := both(t, text); ordinary != nil || err == nil {
			t.Errorf("%s is valid: %v", text, err)
		}
	}
}

// FuzzOrdinary: what is compiled without the library is what that makes of it.
func FuzzOrdinary(f *testing.F) {
	for i, text := range append(append(append([]string(nil), ordinarySchemas...), extraordinarySchemas...), invalidSchemas...) {
		f.Add(text, valuesForSchemas[i%len(valuesForSchemas)])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if len(schema) > 2000 || !jsontext.Value(value).IsValid() {
			return
		}
		ordinary, library, unsupported, err := both(t, schema)
		switch {
		case ordinary == nil || unsupported:
		case err != nil:
			t.Errorf("%s: %v", schema, err)
		default:
			sameAs(t, schema, ordinary, library, []string{value})
		}
	})
}
