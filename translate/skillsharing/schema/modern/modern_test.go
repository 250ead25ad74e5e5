package modern_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/modern"
)

const (
	draft4 = `"$schema":"http://json-schema.org/draft-04/schema#"`
	draft6 = `"$schema":"http://json-schema.org/draft-06/schema#"`
	draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
)

func object(t *testing.T, text string) map[string]any {
	t.Helper()
	value, flaw := jsonvalue.Read([]byte(text), schema.ArgumentBounds)
	if flaw != nil {
		t.Fatalf("%s: %v", text, flaw)
	}
	return value.(map[string]any)
}

// TestModern: schemas of older drafts, and schemas that only look like such, are translated to Draft 2020-12.
func TestModern(t *testing.T) {
	for old, want := range map[string]string{
		`{` + draft4 + `,"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}`: `{"exclusiveMinimum":1,"maximum":9,"type":"integer"}`,
		`{"minimum":1,"exclusiveMinimum":true}`:                                                                                               `{"exclusiveMinimum":1}`,
		`{"maximum":1,"exclusiveMaximum":true,"properties":{"exclusiveMaximum":{}}}`:                                                          `{"exclusiveMaximum":1,"properties":{"exclusiveMaximum":{}}}`,
		`{"exclusiveMinimum":true}`:                                                                                                           `{}`,
		`{` + draft7 + `,"items":[{"type":"string"}],"additionalItems":false}`:                                                                `{"items":false,"prefixItems":[{"type":"string"}]}`,
		`{"items":[{"items":[true]}]}`:                                                                                                        `{"prefixItems":[{"prefixItems":[true]}]}`,
		`{` + draft7 + `,"items":{"type":"string"},"additionalItems":false}`:                                                                  `{"items":{"type":"string"}}`,
		`{"items":[],"additionalItems":{"type":"null"}}`:                                                                                      `{"items":{"type":"null"}}`,
		`{` + draft7 + `,"dependencies":{"a":["b"],"c":{"required":["d"]},"e":true}}`:                                                         `{"dependentRequired":{"a":["b"]},"dependentSchemas":{"c":{"required":["d"]},"e":true}}`,
		`{"definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a"},"definitions":{"type":"null"}}}`:                 `{"$defs":{"a":{"type":"string"}},"properties":{"definitions":{"type":"null"},"x":{"$ref":"#/$defs/a"}}}`,
		`{"items":[{"definitions":{"a/b%":{"dependencies":{"x":{"type":"null"}}}}},{"$ref":"#/items/0/definitions/a~1b%25/dependencies/x"}]}`: `{"prefixItems":[{"$defs":{"a/b%":{"dependentSchemas":{"x":{"type":"null"}}}}},{"$ref":"#/prefixItems/0/$defs/a~1b%25/dependentSchemas/x"}]}`,
		`{` + draft7 + `,"$id":"https://acme.example/s.json","not":{"$ref":"https://acme.example/s.json#/definitions/a","type":"string","description":"d"},"definitions":{"a":{}}}`: `{"$defs":{"a":{}},"$id":"https://acme.example/s.json","not":{"$ref":"https://acme.example/s.json#/$defs/a","description":"d"}}`,
		`{` + draft4 + `,"id":"https://acme.example/","properties":{"id":{"id":"#a","type":"string"},"b":{"$ref":"#a"}}}`:                                                           `{"$id":"https://acme.example/","properties":{"b":{"$ref":"#a"},"id":{"$anchor":"a","type":"string"}}}`,
		`{"id":"Address","type":"object","properties":{"id":{"type":"string"}}}`:                                                                                                    `{"properties":{"id":{"type":"string"}},"type":"object"}`,
		`{"type":"string","nullable":true,"enum":["a"]}`:                                                                                                                            `{"enum":["a",null],"type":["string","null"]}`,
		`{"type":["string","null"],"nullable":true,"x":{"nullable":true}}`:                                                                                                          `{"type":["string","null"],"x":{"nullable":true}}`,
		`{"$defs":{"a":{}},"$ref":"#/$defs/a","allOf":[{"required":["x"]}],"nullable":true}`:                                                                                        `{"$defs":{"a":{}},"$ref":"#/$defs/a","allOf":[{"required":["x"]}]}`,
		`{"type":"string","nullable":false}`:                                                                                                                                        `{"type":"string"}`,
		`{"$defs":{"a":{}},"properties":{"b":{"$ref":"#/$defs/a","nullable":true,"description":"d"}}}`:                                                                              `{"$defs":{"a":{}},"properties":{"b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"description":"d"}}}`,
		`{"$defs":{"a":{}},"properties":{"b":{"allOf":[{"$ref":"#/$defs/a"}],"nullable":true}}}`:                                                                                    `{"$defs":{"a":{}},"properties":{"b":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}}}`,
		`{"anyOf":[{"type":"string"}],"nullable":true}`:                                                                                                                             `{"anyOf":[{"type":"string"},{"type":"null"}]}`,
		`{` + draft6 + `,"const":1}`: `{"const":1}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[true],"additionalItems":{"$ref":"#/additionalItems"}}`: `{"items":{"$ref":"#/items"},"prefixItems":[true]}`,
		`{"$schema":"https://spec.openapis.org/oas/3.1/dialect/base","nullable":[],"type":"string"}`:                               `{"nullable":[],"type":"string"}`,
		`{"$schema":"https://spec.openapis.org/oas/3.2/dialect/2025-09-17","type":"string"}`:                                       `{"type":"string"}`,
		`{"$schema":"http://json-schema.org/draft-07/hyper-schema#","dependencies":{"a":["b"]}}`:                                   `{"dependentRequired":{"a":["b"]}}`,
		`{"$schema":"http://json-schema.org/draft-04/hyper-schema","minimum":1,"exclusiveMinimum":true}`:                           `{"exclusiveMinimum":1}`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"items":{"nullable":true}}`:             `{"items":{}}`,
		// Data stays as it is.
		`{"const":{"nullable":true,"$ref":"#/definitions/a"},"nullable":false,"enum":[{"definitions":{}}],"default":{"items":[1]}}`: `{"const":{"$ref":"#/definitions/a","nullable":true},"default":{"items":[1]},"enum":[{"definitions":{}}]}`,
	} {
		translated, ok := modern.Schema(object(t, old), "")
		if got := string(jsonvalue.Marshal(translated)); !ok || got != want {
			t.Errorf("%s\ngot  %s\nwant %s", old, got, want)
		}
		if _, ok := modern.Schema(translated, ""); ok {
			t.Errorf("%s is not modern", want)
		}
	}
	both := `{` + draft7 + `,"dependencies":{"a":["b"]},"dependentRequired":{"c":["d"]}}`
	for range 50 { // members have another order each time
		if got, _ := modern.Schema(object(t, both), ""); string(jsonvalue.Marshal(got)) != `{"dependencies":{"a":["b"]},"dependentRequired":{"c":["d"]}}` {
			t.Fatalf("%s becomes %s", both, jsonvalue.Marshal(got))
		}
	}
	for _, same := range []string{
		`{"type":"array","items":{"type":"string"}}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema","nullable":true,"definitions":{}}`, `{"$schema":"https://acme.example/dialect","items":[]}`, `{"$defs":{},"properties":{"nullable":{},"id":{}}}`, `{"exclusiveMinimum":1}`, `{"$schema":"https://json-schema.org/draft/2019-09/schema","items":{"$recursiveRef":"#"}}`,
	} {
		if got, ok := modern.Schema(object(t, same), ""); ok || string(modern.Text(jsontext.Value(same))) != same {
			t.Errorf("%s becomes %s", same, jsonvalue.Marshal(got))
		}
	}
	if got, _ := modern.Schema(object(t, `{"nullable":true}`), "string"); string(jsonvalue.Marshal(got)) != `{"type":["string","null"]}` {
		t.Errorf("got %s", jsonvalue.Marshal(got))
	}
	if got := modern.Text(jsontext.Value(`{"items": [true]}`)); string(got) != `{"prefixItems":[true]}` {
		t.Errorf("got %s", got)
	}
}

func compile(t *testing.T, s map[string]any) *jsonschema.Schema {
	t.Helper()
	c := schema.NewLibraryCompiler()
	if err := c.AddResource("https://parameter.invalid/schema", s); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("https://parameter.invalid/schema")
	if err != nil {
		t.Fatalf("%s: %v", jsonvalue.Marshal(s), err)
	}
	return compiled
}

// TestModernMeansTheSame: what the library makes of a schema by its draft, and of the translation, accepts the same values.
func TestModernMeansTheSame(t *testing.T) {
	for _, old := range []string{
		`{` + draft4 + `,"properties":{"a":{"type":"integer","minimum":1,"exclusiveMinimum":true},"v":{"maximum":1.5,"exclusiveMaximum":true}}}`,
		`{` + draft7 + `,"items":[{"type":"string"},{"type":"integer"}],"additionalItems":{"type":"boolean"}}`, `{` + draft4 + `,"items":[{"type":"string"}],"additionalItems":false}`, `{` + draft7 + `,"items":{"type":"integer"},"additionalItems":false}`,
		`{` + draft7 + `,"dependencies":{"a":["b"],"b":{"required":["c"]}}}`, `{` + draft6 + `,"definitions":{"k":{"properties":{"kids":{"items":{"$ref":"#/definitions/k"}}},"additionalProperties":false}},"$ref":"#/definitions/k","type":"string"}`,
		`{` + draft4 + `,"id":"https://acme.example/","properties":{"a":{"$ref":"#t"}},"definitions":{"t":{"id":"#t","type":"string"}}}`,
		`{` + draft7 + `,"properties":{"a":{"$id":"https://acme.example/y","allOf":[{"$ref":"#/definitions/t"}],"definitions":{"t":{"type":"string"}}}}}`,
	} {
		translated, _ := modern.Schema(object(t, old), "")
		before, after := compile(t, object(t, old)), compile(t, translated)
		for _, text := range []string{
			`null`, `"a"`, `[]`, `[1]`, `["a"]`, `["a",1]`, `["a",1,true]`, `["a",1,2]`, `["a","b"]`, `[1,2]`, `["a",1.5]`, `{}`, `{"a":1}`, `{"a":2}`, `{"a":"x"}`, `{"a":1,"b":2}`, `{"a":1,"b":2,"c":3}`, `{"b":1}`, `{"b":1,"c":2}`,
			`{"v":1.5}`, `{"v":1.4}`, `{"kids":[]}`, `{"kids":[{"kids":[{}]}]}`, `{"kids":[{"x":1}]}`, `{"x":1}`,
		} {
			value, _ := jsonvalue.Read([]byte(text), schema.ArgumentBounds)
			if got, want := after.Validate(value) == nil, before.Validate(value) == nil; got != want {
				t.Errorf("%s of %s: got %t", jsonvalue.Marshal(translated), text, got)
			}
		}
	}
}
