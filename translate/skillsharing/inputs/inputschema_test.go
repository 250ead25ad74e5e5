package inputs_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

func TestInputSchema(t *testing.T) {
	for _, c := range []struct{ name, params, want string }{
		{"none", `[]`, `{"type":"object","properties":{}}`},
		{
			"declared order, defaults, required",
			`[{"name":"z","type":"string","description":"Last.","required":true},{"name":"a","type":"number","description":"First.","required":false,"default":7},{"name":"n","type":"null","description":"","required":true,"default":null}]`,
			`{"type":"object","properties":{"z":{"type":"string","description":"Last."},"a":{"type":"number","description":"First.","default":7},"n":{"type":"null","default":null}},"required":["z","n"]}`,
		},
		{"type that JSON Schema does not have", `[{"name":"f","type":"file","description":"A file.","required":false}]`, `{"type":"object","properties":{"f":{"description":"A file."}}}`},
		{"type of the schema", `[{"name":"f","type":"string","description":"","required":false,"schema":{"type":["string","null"]}}]`, `{"type":"object","properties":{"f":{"type":["string","null"]}}}`},
		{
			"members of both",
			`[{"name":"f","type":"string","description":"Ours.","required":false,"default":"a","schema":{"description":"Theirs.","default":"b","maxLength":5,"enum":["a","b"]}}]`,
			`{"type":"object","properties":{"f":{"type":"string","description":"Ours.","maxLength":5,"enum":["a","b"],"default":"a"}}}`,
		},
		{"description and default of the schema", `[{"name":"f","type":"string","description":"","required":false,"schema":{"description":"Theirs.","default":"b"}}]`, `{"type":"object","properties":{"f":{"type":"string","description":"Theirs.","default":"b"}}}`},
		{
			"references",
			`[{"name":"a/b c","type":"object","description":"","required":false,"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","$defs":{"x":{"items":{"$ref":"#"}}},"properties":{"$ref":{"$ref":"#/$defs/x"}},"anyOf":[{"$ref":"#/$defs/x"},true],"const":{"$ref":"#/a"},"default":{"$ref":"#/a"},"not":{"$ref":"#anchor"}}}]`,
			`{"type":"object","properties":{"a/b c":{"type":"object","$defs":{"x":{"items":{"$ref":"#/properties/a~1b%20c"}}},"properties":{"$ref":{"$ref":"#/properties/a~1b%20c/$defs/x"}},"anyOf":[{"$ref":"#/properties/a~1b%20c/$defs/x"},true],"const":{"$ref":"#/a"},"default":{"$ref":"#/a"},"not":{"$ref":"#anchor"}}}}`,
		},
		{
			"resources of their own",
			`[{"name":"a","type":"x","description":"","required":false,"schema":{"$id":"urn:a","$schema":"urn:s","$ref":"#/$defs/x"}},{"name":"b","type":"x","description":"","required":false,"schema":{"items":{"$id":"urn:b","$ref":"#/$defs/x"}}}]`,
			`{"type":"object","properties":{"a":{"$id":"urn:a","$schema":"urn:s","$ref":"#/$defs/x"},"b":{"items":{"$id":"urn:b","$ref":"#/$defs/x"}}}}`,
		},
		{"escapes", `[{"name":"\"\n","type":"string","description":"<é>","required":true}]`, `{"type":"object","properties":{"\"\n":{"type":"string","description":"<é>"}},"required":["\"\n"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inputs.InputSchema(parameters(t, c.params)); string(got) != c.want || !got.IsValid() {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What the schema of the whole accepts is what Check accepts.
func TestInputSchemaAgreesWithCheck(t *testing.T) {
	params := parameters(t, `[
		{"name":"tree/1","type":"object","description":"A tree.","required":true,"schema":{"$defs":{"node":{"type":"object","required":["v"],"properties":{"next":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}},
		{"name":"n","type":"integer","description":"","required":false}
	]`)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(inputs.InputSchema(params)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:tool", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("urn:tool")
	if err != nil {
		t.Fatal(err)
	}
	in, err := inputs.CompileInputs(standard(), params)
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]bool{
		`{"tree/1":{"v":1,"next":{"v":2}}}`:       true,
		`{"tree/1":{"v":1},"n":1e2}`:              true,
		`{"tree/1":{"v":1},"other":1}`:            true,
		`{"tree/1":{"v":1,"next":{}}}`:            false,
		`{"tree/1":7}`:                            false,
		`{"n":1}`:                                 false,
		`{"tree/1":{"v":1},"n":1.5}`:              false,
		`{"tree/1":{"v":1},"n":null}`:             false,
		`{"tree/1":{"v":1,"next":{"v":2}},"n":0}`: true,
	} {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(args)))
		if err != nil {
			t.Fatal(err)
		}
		if got := schema.Validate(value) == nil; got != want {
			t.Errorf("schema: %s: %t", args, got)
		}
		if got := check(in, jsontext.Value(args)) == nil; got != want {
			t.Errorf("Check: %s: %t", args, got)
		}
	}
}

// A long name is not repeated in each of hundreds of references.
func TestInputSchemaOfALongName(t *testing.T) {
	references := strings.Repeat(`{"$ref":"#/$defs/a"},`, 500)
	schema := `{"$defs":{"a":{}},"allOf":[` + strings.TrimSuffix(references, ",") + `]}`
	for name, kept := range map[string]bool{"x": true, strings.Repeat("x", 400): true, strings.Repeat("é", 100_000): false} {
		in := document.Parameter{Name: name, Type: "array", Description: "d", Required: true, Schema: jsontext.Value(schema)}
		got := inputs.InputSchema([]document.Parameter{in})
		if len(got) > 1_000_000 || !got.IsValid() || strings.Contains(string(got), "allOf") != kept || !strings.Contains(string(got), `"type":"array","description":"d"`) {
			t.Errorf("%d bytes for a name of %d", len(got), len(name))
		}
	}
}
