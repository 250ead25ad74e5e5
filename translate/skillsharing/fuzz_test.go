package skillsharing_test

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// FuzzDescriptor: whatever a provider serves, reading it neither panics nor takes
// much, and what was read survives being serialized.
func FuzzDescriptor(f *testing.F) {
	for _, c := range descriptorCases() {
		f.Add(edited(f, forecast, c.edits...))
	}
	for _, c := range indexCases() {
		f.Add(edited(f, acmeIndex, c.edits...))
	}
	for _, schema := range []string{`{"$ref":"#"}`, `{"items":{"$ref":"#"},"pattern":"a+"}`, doubling(5, `{"allOf":[*,*]}`), `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`} {
		f.Add(edited(f, forecast, `/inputs/0/schema=`+schema, `/inputs/1/default=null`, `/x={"y":[1]}`))
	}
	for i := range 12 {
		f.Add(edited(f, forecast, `/inputs/0/schema=`+property(i)))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		cheap(t, "index", func() {
			_, _ = document.ParseIndex(doc)             // must not panic
			_, _ = document.Standard.ParseRegistry(doc) // must not panic
		})
		cheap(t, "skill", func() { _, _ = discovery.NewSkill(doc, nil) }) // must not panic
		d, err := document.ParseDescriptor(doc)
		if err != nil {
			if e := problem(t, err); !front.Details(e).IsValid() || e.Message == "" || len(front.Details(e)) > 1<<20 {
				t.Errorf("error %+v", e)
			}
			return
		}
		text, err := d.Serialize()
		if err != nil {
			t.Fatalf("serialize: %v", err)
		}
		again, err := document.ParseDescriptor(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if !reflect.DeepEqual(again, d) {
			t.Errorf("got  %+v\nwant %+v", again, d)
		}
		if schema := inputs.InputSchema(d.Inputs); !schema.IsValid() {
			t.Errorf("input schema %s", schema)
		}
		in, err := inputs.CompileInputs(standard(), d.Inputs)
		if err != nil {
			t.Fatalf("inputs of a valid descriptor: %v", err)
		}
		_ = check(in, jsontext.Value(doc)) // must not panic
	})
}

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
			doubling(12, `{"allOf":[*,*]}`), `{"if":true,"then":{"$ref":"#/x"},"x":{"not":{}}}`,
		} {
			f.Add("v", "string", schema, []byte(args))
			f.Add("v", "integer", schema, []byte(args))
		}
	}
	f.Fuzz(func(t *testing.T, name, kind, schema string, args []byte) {
		params := []document.Parameter{{Name: name, Type: kind, Required: true, Schema: jsontext.Value(schema)}, {Name: "w", Type: "number", Required: true}}
		_ = inputs.InputSchema(params) // must not panic
		var in *inputs.Inputs
		var err error
		cheap(t, "schema", func() { in, err = inputs.CompileInputs(standard(), params) })
		if err != nil {
			if e := problem(t, err); e.Kind != run.InvalidDocument || !front.Details(e).IsValid() {
				t.Errorf("error %+v", e)
			}
			return
		}
		var e *run.Failure
		cheap(t, "check", func() { e = check(in, args) })
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

// FuzzOutputSecrets: however an output spells a secret, it is found, and nothing
// else is touched.
func FuzzOutputSecrets(f *testing.F) {
	for _, output := range []string{
		`"k-12345"`, `{"k-12345":["x k-12345 y",1.0]}`, `["\u006b-12345","\n"]`, `{"a":"\\","b":"k\u002D12345"}`, `["\"","k-12345\""]`, ` [ "\u006b-1234" , "5" ] `, `{"k-12345":1,"[redacted]":2}`, `[12345,"\/"]`,
	} {
		f.Add([]byte(output), "k-12345")
		f.Add([]byte(output), "\"12345\\")
	}
	f.Fuzz(func(t *testing.T, output []byte, secret string) {
		if !jsontext.Value(output).IsValid() || len(secret) < 6 || strings.Contains("[redacted]", secret) {
			return
		}
		quoted := strconv.Quote(secret) // secrets are looked for in this form, too
		forms := []string{secret, quoted[1 : len(quoted)-1]}
		in := func(text string) bool {
			return slices.ContainsFunc(forms, func(form string) bool { return strings.Contains(text, form) })
		}
		contained := false
		for dec := jsontext.NewDecoder(bytes.NewReader(output)); ; {
			token, err := dec.ReadToken()
			if err != nil {
				break
			}
			contained = contained || token.Kind() == '"' && in(token.String())
		}
		got := skillsharing.ScrubOutput(output, secret)
		switch {
		case !got.IsValid():
			t.Errorf("%q of %q is no JSON", got, output)
		case contained && bytes.Equal(got, output):
			t.Errorf("%q stays in %q", secret, output)
		case !contained && !in(string(output)) && !bytes.Equal(got, output):
			t.Errorf("%q became %q without %q in it", output, got, secret)
		}
	})
}
