package inputs_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
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
			`{"type":"object","properties":{"a_b_c_0af99a":{"type":"object","title":"a/b c","$defs":{"x":{"items":{"$ref":"#/properties/a_b_c_0af99a"}}},"properties":{"$ref":{"$ref":"#/properties/a_b_c_0af99a/$defs/x"}},"anyOf":[{"$ref":"#/properties/a_b_c_0af99a/$defs/x"},true],"const":{"$ref":"#/a"},"default":{"$ref":"#/a"},"not":{"$ref":"#anchor"}}}}`,
		},
		{
			"resources of their own",
			`[{"name":"a","type":"x","description":"","required":false,"schema":{"$id":"urn:a","$schema":"urn:s","$ref":"#/$defs/x"}},{"name":"b","type":"x","description":"","required":false,"schema":{"items":{"$id":"urn:b","$ref":"#/$defs/x"}}}]`,
			`{"type":"object","properties":{"a":{"$id":"urn:a","$schema":"urn:s","$ref":"#/$defs/x"},"b":{"items":{"$id":"urn:b","$ref":"#/$defs/x"}}}}`,
		},
		{"escapes", `[{"name":"\"\n","type":"string","description":"<é>","required":true}]`, `{"type":"object","properties":{"___5c01cf":{"type":"string","title":"\"\n","description":"<é>"}},"required":["___5c01cf"]}`},
		{"own title", `[{"name":"größe","type":"number","description":"","required":false,"schema":{"title":"Size"}}]`, `{"type":"object","properties":{"gr__e_d353a2":{"type":"number","title":"Size"}}}`},
		{
			"arrays",
			`[{"name":"a","type":"array","description":"","required":false},{"name":"b","type":"object","description":"","required":false,"schema":{"properties":{"c":{"type":["array","null"]},"d":{"type":"array","items":{"type":"array"}},"type":{"type":"string"}},"anyOf":[{"type":"array","prefixItems":[true]}],"default":{"type":"array"}}},{"name":"c","type":"string","description":"","required":false,"schema":{"type":"array"}},{"name":"d","type":"array","description":"","required":false,"schema":{"unevaluatedItems":false}}]`,
			`{"type":"object","properties":{"a":{"type":"array","items":{}},"b":{"type":"object","properties":{"c":{"type":["array","null"],"items":{}},"d":{"type":"array","items":{"type":"array","items":{}}},"type":{"type":"string"}},"anyOf":[{"type":"array","prefixItems":[true],"items":{}}],"default":{"type":"array"}},"c":{"type":"array","items":{}},"d":{"type":"array","unevaluatedItems":false}}}`,
		},
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
		{"name":"tree.1","type":"object","description":"A tree.","required":true,"schema":{"$defs":{"node":{"type":"object","required":["v"],"properties":{"next":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}},
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
		`{"tree.1":{"v":1,"next":{"v":2}}}`:       true,
		`{"tree.1":{"v":1},"n":1e2}`:              true,
		`{"tree.1":{"v":1},"other":1}`:            true,
		`{"tree.1":{"v":1,"next":{}}}`:            false,
		`{"tree.1":7}`:                            false,
		`{"n":1}`:                                 false,
		`{"tree.1":{"v":1},"n":1.5}`:              false,
		`{"tree.1":{"v":1},"n":null}`:             false,
		`{"tree.1":{"v":1,"next":{"v":2}},"n":0}`: true,
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
	for _, name := range []string{"x", strings.Repeat("x", 400), strings.Repeat("é", 100_000)} {
		in := document.Parameter{Name: name, Type: "array", Description: "d", Required: true, Schema: jsontext.Value(schema)}
		got := inputs.InputSchema([]document.Parameter{in})
		if len(got) > 300_000 || !got.IsValid() || !strings.Contains(string(got), "allOf") || !strings.Contains(string(got), `"description":"d"`) {
			t.Errorf("%d bytes for a name of %d", len(got), len(name))
		}
	}
}

// Names that the APIs of language models refuse become others, which mean the same inputs in a call.
func TestModelNames(t *testing.T) {
	accepted := regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	long := strings.Repeat("settings__approved__", 4)
	names := []string{"plain.name-1", "größe", "grösse", "filter[id]", "filter(id)", "$top", "名前", "", " ", "a\"b", "\u202e", long + "a", long + "b"}
	var params []document.Parameter
	for _, name := range names {
		params = append(params, document.Parameter{Name: name, Type: "string", Required: true})
	}
	hashed := inputs.ModelNames(params)[1]
	params = append(params, document.Parameter{Name: hashed, Type: "string", Required: true}) // another input has the name that one would get
	all := inputs.ModelNames(params)
	seen := map[string]bool{}
	given, want := "{", "{"
	for i, p := range params {
		name, renamed := all[i]
		if !renamed {
			name = p.Name
		}
		if seen[name] || !accepted.MatchString(name) || renamed == accepted.MatchString(p.Name) {
			t.Errorf("%q has the name %q", p.Name, name)
		}
		seen[name] = true
		given += fmt.Sprintf("%s:\"v%d\",", jsonvalue.Quoted(name), i)
		want += fmt.Sprintf("%s:\"v%d\",", jsonvalue.Quoted(p.Name), i)
	}
	given, want = given+`"größe?":"x"}`, want+`"größe?":"x"}`
	in, err := inputs.CompileInputs(standard(), params)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{given, want} {
		if e := check(in, jsontext.Value(args)); e != nil {
			t.Errorf("%s: %v", args, e)
		}
		if restored, e := in.Restored(jsonrpc.Object{Text: jsontext.Value(args)}); e != nil || string(restored.Text) != want {
			t.Errorf("got  %s, %v\nwant %s", restored.Text, e, want)
		}
	}
	twice := jsonrpc.Object{Text: jsontext.Value(`{"$top":"1",` + string(jsonvalue.Quoted(all[5])) + `:"2"}`)}
	if _, e := in.Restored(twice); e == nil || e.Kind != run.InvalidArguments || e.Argument == nil || !strings.Contains(e.Message, "given twice") {
		t.Errorf("got %v", e)
	}
	alone := inputs.ModelNames(params[:2])
	if alone[1] != hashed {
		t.Errorf("got %q and %q: the name depends on other inputs", alone[1], hashed)
	}
}
