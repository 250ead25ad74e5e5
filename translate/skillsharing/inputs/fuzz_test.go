package inputs_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/cost"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// FuzzInputs: whatever the schema, whatever the arguments, checking them neither
// panics nor takes long.
func FuzzInputs(f *testing.F) {
	for _, args := range []string{
		``, `{}`, `[]`, `{"v":null}`, `{"v":1}`, `{"v":"x","w":2}`, `{"v":{"a":{"a":[1,1.0,{}]}}}`, `{"v":1e400}`, `{"\u0076":0e-99999999}`, `{"v":1,"v":2}`, `{"v":`, "{\"v\":\"\xff\"}",
	} {
		for _, schema := range []string{
			`{}`, `true`, `{"type":"string"}`, `{"type":["integer","null"]}`, `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"^a":{"type":"object"}}}`, `{"items":{"enum":[1,"a"]},"uniqueItems":true}`,
			`{"propertyNames":{"$ref":"#"},"anyOf":[{"maxLength":1},{"minimum":0.5}]}`, `{"pattern":"(?=a)"}`, `{"$id":"x","$defs":{"a":{"$anchor":"b"}},"$ref":"#b"}`, `{"multipleOf":0.1,"const":1}`,
			`{"$schema":"http://json-schema.org/draft-04/schema#","id":"#a","minimum":0,"exclusiveMinimum":true}`, `{"unevaluatedProperties":false,"contains":{"type":"null"},"minContains":2}`,
			sample.Doubling(12, `{"allOf":[*,*]}`), `{"if":true,"then":{"$ref":"#/x"},"x":{"not":{}}}`,
		} {
			f.Add("v", "string", schema, []byte(args))
			f.Add("v", "integer", schema, []byte(args))
		}
	}
	f.Fuzz(func(t *testing.T, name, kind, schema string, args []byte) {
		params := []document.Parameter{{Name: name, Type: kind, Required: true, Schema: jsontext.Value(schema)}, {Name: "w", Type: "number", Required: true}}
		if jsontext.Value(schema).IsValid() {
			_ = inputs.InputSchema(params) // must not panic
		}
		var in *inputs.Inputs
		var err error
		cost.Cheap(t, "schema", func() { in, err = inputs.CompileInputs(standard(), params) })
		if err != nil {
			if e := problem(t, err); e.Kind != run.InvalidDocument || !front.Details(e).IsValid() {
				t.Errorf("error %+v", e)
			}
			return
		}
		var e *run.Failure
		cost.Cheap(t, "check", func() { e = check(in, args) })
		missing, invalid := in.CheckGiven(t.Context(), share.Line{}, jsonrpc.Object{Text: args}, new(inputs.Checks))
		if (e == nil) != (len(missing) == 0 && invalid == nil) {
			t.Errorf("%+v, but missing %q, invalid %+v", e, missing, invalid)
		}
		if e == nil {
			return
		}
		if e.Kind != run.InvalidArguments || e.Argument == nil || e.Executed != run.ExecutedNo || e.Message == "" || len(e.Message) > 4096 {
			t.Errorf("error %+v", e)
		}
		if again := check(in, args); again == nil || again.Message != e.Message {
			t.Errorf("got %v, then %v", e, again)
		}
	})
}
