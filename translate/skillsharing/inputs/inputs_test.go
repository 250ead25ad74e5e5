package inputs_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

func parameters(tb testing.TB, text string) []document.Parameter {
	tb.Helper()
	var params []document.Parameter
	if err := json.Unmarshal([]byte(text), &params); err != nil {
		tb.Fatal(err)
	}
	return params
}

func compile(tb testing.TB, text string) *inputs.Inputs {
	tb.Helper()
	in, err := inputs.CompileInputs(standard(), parameters(tb, text))
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

const tripInputs = `[
	{"name":"location","type":"string","description":"","required":true},
	{"name":"days","type":"integer","required":true,"description":""},
	{"name":"units","type":"string","required":true,"default":null,"description":""},
	{"name":"limit","type":"number","required":false,"description":""},
	{"name":"exact","type":"boolean","required":false,"description":""},
	{"name":"filter","type":"object","required":false,"description":""},
	{"name":"tags","type":"array","required":false,"description":""},
	{"name":"nothing","type":"null","required":false,"description":""},
	{"name":"image","type":"file","required":false,"description":""},
	{"name":"a/b~c","type":"string","required":false,"description":""},
	{"name":"code","type":"string","required":false,"description":"","schema":{"pattern":"^[A-Z]{3}$"}},
	{"name":"unit","type":"string","required":false,"description":"","schema":{"type":["string","null"],"enum":["c","f",null]}},
	{"name":"numbers","type":"array","required":false,"description":"","schema":{"items":{"anyOf":[{"type":"number","maximum":0}]}}},
	{"name":"address","type":"object","required":false,"description":"","schema":{
		"required":["city"],
		"properties":{"city":{"type":"string","maxLength":5},"zip":{"anyOf":[{"type":"string"},{"type":"integer","minimum":1}]},"at":{"format":"date"}},
		"additionalProperties":false
	}}
]`

func TestCheck(t *testing.T) {
	in := compile(t, tripInputs)
	with := func(member string) string { return `{"location":"Berlin","days":3,` + member + `}` }
	for _, c := range []struct {
		args    string
		path    string
		reason  string // empty: fine
		message string
	}{
		{args: `{"location":"Berlin","days":3}`},
		{args: ` { "location" : "Berlin" , "days" : 3 } `},
		{args: with(`"other":[1,{"x":1,"x":2}]`)},
		{args: with(`"units":"metric","limit":1.5,"exact":false,"filter":{},"tags":[],"nothing":null,"image":7,"a/b~c":"x","code":"ABC","unit":"c"`)},
		{args: with(`"image":null`)},
		{args: with(`"unit":null`)},
		{args: with(`"filter":{"x":1,"x":2}`)}, // no schema: the provider's to judge
		{args: with(`"limit":1e400`)},
		{args: with(`"numbers":[0,0e500]`)},
		{args: `{"location":"Berlin","days":1.0}`},
		{args: `{"location":"Berlin","days":1e2}`},
		{args: `{"location":"Berlin","days":123456789012345678901234567890}`},
		{args: `{"\u006cocation":"Berlin","days":3}`},

		{``, "/location", "required", `argument "location" is required`},
		{`{}`, "/location", "required", `argument "location" is required`},
		{`{"location":"Berlin"}`, "/days", "required", `argument "days" is required`},
		{`{"limit":"x"}`, "/location", "required", `argument "location" is required`},
		{`{"days":null,"location":null}`, "/days", "type", `argument "days" must be an integer, not null`},
		{`{"Location":"Berlin","days":3}`, "/location", "required", `argument "location" is required`},

		{`{"location":42,"days":3}`, "/location", "type", `argument "location" must be a string, not a number`},
		{`{"location":"Berlin","days":"3"}`, "/days", "type", `argument "days" must be an integer, not a string`},
		{`{"location":"Berlin","days":1.5}`, "/days", "type", `argument "days" must be an integer, not 1.5`},
		{`{"location":"Berlin","days":5e-1}`, "/days", "type", `argument "days" must be an integer, not 5e-1`},
		{with(`"limit":"1"`), "/limit", "type", `argument "limit" must be a number, not a string`},
		{with(`"limit":null`), "/limit", "type", `argument "limit" must be a number, not null; leave it out if there is no value`},
		{with(`"exact":"true"`), "/exact", "type", `argument "exact" must be a boolean, not a string`},
		{with(`"filter":[]`), "/filter", "type", `argument "filter" must be an object, not an array`},
		{with(`"tags":{}`), "/tags", "type", `argument "tags" must be an array, not an object`},
		{with(`"nothing":false`), "/nothing", "type", `argument "nothing" must be null, not a boolean`},
		{with(`"a/b~c":1`), "/a~1b~0c", "type", `argument "a/b~c" must be a string, not a number`},
		{with(`"unit":1`), "/unit", "type", `argument "unit" must be null or a string, not a number`},
		{with(`"tags":1,"exact":1`), "/tags", "type", `argument "tags" must be an array, not a number`},
		{with(`"exact":1,"tags":1`), "/exact", "type", `argument "exact" must be a boolean, not a number`},
		{with(`"exact":true,"exact":1`), "/exact", "type", `argument "exact" must be a boolean, not a number`},
		{with(`"exact":1,"exact":true`), "/exact", "type", `argument "exact" must be a boolean, not a number`},

		{with(`"code":"abc"`), "/code", "schema", `argument "code" must match the pattern "^[A-Z]{3}$", not "abc"`},
		{with(`"unit":"k"`), "/unit", "schema", `argument "unit" must be equal to one of the allowed values (["c","f",null]), not "k"`},
		{with(`"address":{}`), "/address/city", "schema", `argument "address": /address/city is required`},
		{with(`"address":{"city":"Berlin"}`), "/address/city", "schema", `argument "address": /address/city must have at most 5 characters, not "Berlin"`},
		{with(`"address":{"city":"Bonn","zip":[]}`), "/address/zip", "schema", `argument "address": /address/zip must be an integer or a string, not an array`},
		{with(`"address":{"city":"Bonn","zip":0}`), "/address/zip", "schema", `argument "address": /address/zip must be at least 1, not 0`},
		{with(`"address":{"city":"Bonn","y":1,"x":1}`), "/address", "schema", `argument "address" must not have the member "x"`},
		{with(`"address":{"city":"Bonn","city":"Berlin"}`), "/address/city", "schema", `argument "address": /address/city must not appear twice in one object`},
		{args: with(`"address":{"city":"Bonn","at":"tomorrow"}`)}, // formats are not asserted

		{`[]`, "", "type", `the arguments must be an object, not an array`},
		{`"x"`, "", "type", `the arguments must be an object, not a string`},
		{`null`, "", "type", `the arguments must be an object, not null`},
		{`{"location":"Berlin",`, "", "type", `the arguments must be valid JSON: `},
		{`{"location":"Berlin","days":3}x`, "", "type", `the arguments must be valid JSON: `},
		{`tru`, "", "type", `the arguments must be `},
		{`]`, "", "type", `the arguments must be valid JSON: `},
		{"{\"location\":\"\xff\"}", "", "type", `the arguments must be valid JSON: `},
	} {
		e := check(in, jsontext.Value(c.args))
		if c.reason == "" || c.path != "" { // it is an object
			if again := in.Check(t.Context(), share.Line{}, jsonrpc.Object{Members: membersOf(t, c.args)}, new(inputs.Checks)); !reflect.DeepEqual(e, again) {
				t.Errorf("%s: %v, of its members: %v", c.args, e, again)
			}
		}
		if c.reason == "" {
			if e != nil {
				t.Errorf("%s: %v", c.args, e)
			}
			continue
		}
		if e == nil {
			t.Errorf("%s: no error", c.args)
			continue
		}
		if e.Kind != run.InvalidArguments || e.Phase != run.PhaseInvoke || e.By != run.Bridge || e.Executed != run.ExecutedNo || e.Lost {
			t.Errorf("%s: %+v", c.args, e)
		}
		param := "args"
		if c.path != "" {
			param = strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.Split(c.path, "/")[1])
		}
		if a := e.Argument; skillsprotocol.Param(a) != param || a.Pointer != c.path || string(a.Reason) != c.reason {
			t.Errorf("%s: got %+v, want %q at %q: %s", c.args, a, param, c.path, c.reason)
		}
		if e.Message != c.message && (!strings.HasSuffix(c.message, " ") || !strings.HasPrefix(e.Message, c.message)) {
			t.Errorf("%s: message %q, want %q", c.args, e.Message, c.message)
		}
	}
}

// An invalid argument is reported although others are missing, and these are named in the descriptor's order.
func TestCheckGiven(t *testing.T) {
	in := compile(t, tripInputs)
	for _, c := range []struct {
		args    string
		missing string
		invalid string // the message of it
	}{
		{`{"days":5,"location":"Tokyo"}`, "", ""},
		{``, "location days", ""},
		{`{"days":5}`, "location", ""},
		{`{"location":"Tokyo","units":"c"}`, "days", ""},
		{`{"days":"5"}`, "location", `argument "days" must be an integer, not a string`},
		{`{"code":"abc","days":"5"}`, "location", `argument "code" must match the pattern "^[A-Z]{3}$", not "abc"`},
		{`{"days":5,"location":"Tokyo","exact":1}`, "", `argument "exact" must be a boolean, not a number`},
		{`{"unknown":1}`, "location days", ""},
		{`[]`, "location days", "the arguments must be an object, not an array"},
		{`{"days":5,`, "location days", "the arguments must be valid JSON: "},
	} {
		objects := []jsonrpc.Object{{Text: jsontext.Value(c.args)}}
		if !strings.HasPrefix(c.invalid, "the arguments") {
			objects = append(objects, jsonrpc.Object{Text: jsontext.Value(c.args), Members: membersOf(t, c.args)})
		}
		for _, o := range objects {
			missing, e := in.CheckGiven(t.Context(), share.Line{}, o, new(inputs.Checks))
			message := ""
			if e != nil {
				message = e.Message
			}
			if got := strings.Join(missing, " "); got != c.missing || !strings.HasPrefix(message, c.invalid) || c.invalid == "" && message != "" {
				t.Errorf("%s: missing %q, %q", c.args, got, message)
			}
		}
	}
}

// membersOf takes an object apart, as whoever has read a request has done.
func membersOf(t *testing.T, args string) (members []jsonrpc.Member) {
	t.Helper()
	dec := jsontext.NewDecoder(strings.NewReader(cmp.Or(args, "{}")), jsontext.AllowDuplicateNames(true))
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() == '"' {
		var name, value jsontext.Value
		if name, err = dec.ReadValue(); err == nil {
			name = name.Clone()
			value, err = dec.ReadValue()
		}
		members = append(members, jsonrpc.Member{Name: name, Value: value.Clone()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func TestCheckIntegers(t *testing.T) {
	in := compile(t, `[{"name":"n","type":"integer","description":"","required":true}]`)
	for number, want := range map[string]bool{
		"0": true, "-0": true, "0.0": true, "0e5": true, "0e-5": true, "0.000e-999999999999": true, "1": true, "-1": true, "1.0": true, "1.00": true, "1e2": true, "1E+2": true,
		"1.5e1": true, "10e-1": true, "1200e-2": true, "-1.20e1": true, "1e999999999999999999999": true, "12345678901234567890": true, "0.05e2": true, "1e000000000000": true,
		"1.5": false, "-0.1": false, "1e-1": false, "1.25e1": false, "10e-2": false, "1e-999999999999999999999": false, "0.05e1": false, "1.5e000000000000": false,
	} {
		if got := check(in, jsontext.Value(`{"n":`+number+`}`)) == nil; got != want {
			t.Errorf("%s is an integer: %t", number, got)
		}
	}
}

func TestCheckOfManyInputs(t *testing.T) {
	var list []string
	for i := range 100 {
		list = append(list, fmt.Sprintf(`{"name":"p%d","type":"number","description":"","required":true}`, i))
	}
	in := compile(t, "["+strings.Join(list, ",")+"]")
	var args []string
	for i := range 99 {
		args = append(args, fmt.Sprintf(`"p%d":%d`, i, i))
	}
	e := check(in, jsontext.Value("{"+strings.Join(args, ",")+"}"))
	if e == nil || skillsprotocol.Param(e.Argument) != "p99" {
		t.Errorf("got %v", e)
	}
}

func schemaInput(schema string) string {
	return `[{"name":"v","type":"any","description":"","required":false,"schema":` + schema + `}]`
}

// nest puts a text n times into its place in another.
func nest(n int, outer, inner string) string {
	for range n {
		inner = strings.Replace(outer, "*", inner, 1)
	}
	return inner
}

func TestUnusableParameterSchemas(t *testing.T) {
	for _, c := range []struct{ name, schema, path, message string }{
		{"no type", `{"type":"strong"}`, "/type", "must be equal to one of the allowed values"},
		{"deep", `{"properties":{"a":{"items":{"minLength":-1}}}}`, "/properties/a/items/minLength", "must be at least 0"},
		{"keyword of the wrong type", `{"required":"a"}`, "/required", "must be an array"},
		{"no regular expression", `{"properties":{"a":{"pattern":"("}}}`, "/properties/a/pattern", "must be a regular expression: "},
		{"no regular expression for names", `{"patternProperties":{"[":true}}`, "", "must not have a member named \"[\""},
		{"a file", `{"$ref":"file:///etc/passwd"}`, "", "must not refer to anything outside of itself"},
		{"a relative file", `{"$ref":"schema.json"}`, "", "must not refer to anything outside of itself"},
		{"a file on the same host", `{"$ref":"/etc/passwd"}`, "", "must not refer to anything outside of itself"},
		{"a URL", `{"properties":{"a":{"$ref":"https://example.com/a.json"}}}`, "", "must not refer to anything outside of itself"},
		{"a metaschema", `{"items":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}`, "", "must not refer to anything outside of itself"},
		{"another dialect", `{"$schema":"https://example.com/dialect","type":"string"}`, "", "must be of a draft of JSON Schema that the bridge knows: $schema "},
		{"draft 3", `{"$schema":"http://json-schema.org/draft-03/schema#","type":"string"}`, "", "must be of a draft of JSON Schema that the bridge knows: $schema "},
		{"a dialect, and no type", `{"$schema":"http://json-schema.org/draft-07/hyper-schema#","items":{"type":"strong"}}`, "/items/type", "must be equal to one of the allowed values"},
		{"draft 4, and no type", `{"$schema":"http://json-schema.org/draft-04/schema#","definitions":{"a":{"type":"strong"}}}`, "/$defs/a/type", "must be equal to one of the allowed values (in the schema as it reads in Draft 2020-12)"},
		{"draft 4, and no limit", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":"yes"}`, "/exclusiveMinimum", "must be a number (in the schema as it reads in Draft 2020-12)"},
		{"draft 7, and no such definition", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}},"items":{"$ref":"#/definitions/b"}}`, "", `must be a JSON Schema: json-pointer in "#/$defs/b" not found (in the schema as it reads in Draft 2020-12)`},
		{"draft 7, and no type of an item", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"strong"}],"additionalItems":false}`, "/prefixItems/0/type", "must be equal to one of the allowed values"},
		{"an older draft that is not stated", `{"items":[{"type":"string"},{"pattern":"("}]}`, "/prefixItems/1/pattern", "must be a regular expression: missing closing ) (in the schema as it reads in Draft 2020-12)"},
		{"no such definition", `{"$ref":"#/$defs/a"}`, "", "must be a JSON Schema: "},
		{"no such anchor", `{"$ref":"#a"}`, "", "must be a JSON Schema: "},
		{"itself", `{"$ref":"#"}`, "", "must not refer to itself without end"},
		{"itself by way of others", `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#"}}}}`, "", "must not refer to itself without end"},
		{"dynamic reference", `{"$dynamicRef":"#a","$defs":{"x":{"$dynamicAnchor":"a"}}}`, "", "must not use $dynamicRef"},
		{"two of an id", `{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`, "", "must be a JSON Schema: "},
		{"too deep", nest(16, `{"not":{"items":*}}`, `{"type":"string"}`), "", "must not be nested more than 32 levels deep"},
		{"too long", `{"description":"` + strings.Repeat("x", 64<<10) + `"}`, "", "must have at most 65536 bytes"},
		{"doubling", sample.Doubling(30, `{"allOf":[*,*]}`), "", "must not apply so many subschemas to one value"},
		{"doubling by other means", sample.Doubling(30, `{"anyOf":[*],"oneOf":[*],"dependentSchemas":{"a":*},"if":*}`), "", "must not apply so many subschemas to one value"},
		{"pattern too long", `{"pattern":"` + strings.Repeat("a", 4097) + `"}`, "/pattern", "must be a regular expression: it has more than 4096 bytes"},
		{"pattern too complex", `{"pattern":"` + strings.Repeat(`\\p{L}`, 500) + `"}`, "", "must not take so much work to compile"},
		{"Go's own syntax", `{"pattern":"(?P<n>a)"}`, "/pattern", "must be a regular expression: (?P is not of ECMA-262"},
		{"id of the bridge's own", `{"$id":"https://parameter.invalid/other","$ref":"schema"}`, "", "must not refer to itself without end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := inputs.CompileInputs(standard(), parameters(t, schemaInput(c.schema)))
			e := problem(t, err)
			var found []run.Violation
			if err := json.Unmarshal(front.Details(e), &found); err != nil {
				t.Fatal(err)
			}
			if e.Kind != run.InvalidDocument || e.Phase != run.PhaseDescriptor || e.Executed != run.ExecutedNo {
				t.Errorf("got %+v", e)
			}
			if len(found) != 1 || found[0].Path != "/inputs/0/schema"+c.path || !strings.HasPrefix(found[0].Message, c.message) {
				t.Errorf("got %s, want %s: %s", front.Details(e), c.path, c.message)
			}
			if strings.Contains(e.Message, "parameter.invalid") && !strings.Contains(c.schema, "parameter.invalid") {
				t.Errorf("the message tells of the bridge: %s", e.Message)
			}
			// The same is found when the whole document is read.
			doc := strings.Replace(sample.Descriptor, `"name": "days"`, `"schema":`+c.schema+`,"name": "days"`, 1)
			_, err = document.ParseDescriptor([]byte(doc))
			if again := problem(t, err).Violations; len(again) != 1 || again[0].Path != "/inputs/1/schema"+c.path || !strings.HasPrefix(again[0].Message, c.message) {
				t.Errorf("descriptor: violations %+v", again)
			}
		})
	}
}

func TestCompileInputsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ params, path string }{
		"schema that is none": {`[{"name":"a","type":"","schema":true}]`, "/inputs/0/schema"},
		"member twice":        {`[{"name":"b","type":""},{"name":"a","type":"","schema":7}]`, "/inputs/1/schema"},
	} {
		_, err := inputs.CompileInputs(standard(), parameters(t, c.params))
		if e := problem(t, err); !strings.HasPrefix(string(front.Details(e)), `[{"path":"`+c.path+`"`) {
			t.Errorf("%s: %s", name, front.Details(e))
		}
	}
	_, err := inputs.CompileInputs(standard(), []document.Parameter{{Name: "a", Schema: jsontext.Value(`{"a":1,"a":2}`)}})
	if e := problem(t, err); !strings.HasPrefix(string(front.Details(e)), `[{"path":"/inputs/0/schema/a"`) {
		t.Errorf("member twice: %s", front.Details(e))
	}
	_, err = inputs.CompileInputs(standard(), []document.Parameter{{Name: "a", Schema: jsontext.Value(`{`)}})
	if e := problem(t, err); !strings.HasPrefix(string(front.Details(e)), `[{"path":"/inputs/0/schema"`) {
		t.Errorf("no JSON: %s", front.Details(e))
	}

	// Many small schemas are as much work as one large one.
	var list []string
	for i := range 20 {
		list = append(list, fmt.Sprintf(`{"name":"p%d","type":"","schema":{"enum":[%s0]}}`, i, strings.Repeat("0,", 15_000)))
	}
	_, err = inputs.CompileInputs(standard(), parameters(t, "["+strings.Join(list, ",")+"]"))
	if e := problem(t, err); !strings.Contains(e.Message, "/inputs/10/schema must not make the schemas of all inputs longer than 262144 bytes") {
		t.Errorf("many schemas: %s", e.Message)
	}
}

// Nothing of a file may be seen, not even that it is no schema.
func TestParameterSchemasReadNoFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(file, []byte(`{"type":7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := inputs.CompileInputs(standard(), parameters(t, schemaInput(`{"$ref":"file://`+filepath.ToSlash(file)+`"}`)))
	if e := problem(t, err); !strings.Contains(e.Message, "must not refer to anything outside of itself") {
		t.Errorf("got %v", e)
	}
}

// What providers really write must work.
func TestParameterSchemas(t *testing.T) {
	tree := `{"$defs":{"node":{"type":"object","required":["v"],"properties":{"v":{"type":"integer"},"left":{"$ref":"#/$defs/node"},"right":{"$ref":"#/$defs/node"}}}},"$ref":"#/$defs/node"}`
	filter := `{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`
	big := strings.Repeat(`"some text, ",`, 5000)
	for _, c := range []struct{ name, schema, good, bad string }{
		{"recursive", tree, `{"v":1,"left":{"v":2,"right":{"v":3}},"right":{"v":4}}`, `{"v":1,"left":{"v":2,"right":{}}}`},
		{"recursive alternatives", filter, nest(10, `{"and":[*,"b"]}`, `"a"`), nest(10, `{"and":[*,"b"]}`, `1`)},
		{"draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}},"items":[{"$ref":"#/definitions/a"}],"additionalItems":false}`, `["a"]`, `["a",1]`},
		{"draft 7 formats", `{"$schema":"http://json-schema.org/draft-07/schema#","format":"date","minLength":1}`, `"tomorrow"`, `""`},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":0,"exclusiveMinimum":true}`, `1`, `0`},
		{"anchors", `{"$ref":"#a","$defs":{"x":{"$anchor":"a","const":1}}}`, `1`, `2`},
		{"resources of its own", `{"$id":"https://acme.example/a","$ref":"b","$defs":{"x":{"$id":"b","const":1}}}`, `1.0`, `2`},
		{"conditions", `{"if":{"properties":{"k":{"const":1}}},"then":{"required":["a"]},"else":{"required":["b"]}}`, `{"k":2,"b":1}`, `{"k":1,"b":1}`},
		{"exact numbers", `{"const":12345678901234567890123}`, `12345678901234567890123`, `12345678901234567890124`},
		{"decimals", `{"multipleOf":0.01}`, `4.35`, `4.355`},
		{"property names", `{"propertyNames":{"pattern":"^a"}}`, `{"ab":1}`, `{"b":1}`},
		{"property names by the same rules", `{"propertyNames":{"$ref":"#"},"maxLength":2}`, `{"ab":{"c":1}}`, `{"abc":1}`},
		{"filters", `{"anyOf":[{"properties":{"and":{"items":{"$ref":"#"}}},"required":["and"]},{"properties":{"or":{"items":{"$ref":"#"}}},"required":["or"]},{"properties":{"not":{"$ref":"#"}},"required":["not"]},{"type":"string"}]}`, nest(10, `{"and":[{"not":*},"b"]}`, `"a"`), nest(10, `{"and":[{"not":*},"b"]}`, `{}`)},
		{"other members alike", `{"properties":{"a":{"$ref":"#"}},"additionalProperties":{"$ref":"#"},"type":"object"}`, nest(30, `{"a":*}`, `{}`), nest(29, `{"b":*}`, `1`)},
		{"pattern properties", `{"patternProperties":{"^a":{"type":"string"}},"additionalProperties":{"type":"number"}}`, `{"ab":"x","b":1}`, `{"ab":1}`},
		{"a class in many instructions", `{"pattern":"^\\p{L}{300}$"}`, `"` + strings.Repeat("é", 300) + `"`, `"` + strings.Repeat("é", 301) + `"`},
		{"unevaluated", `{"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false}`, `{"a":1}`, `{"b":1}`},
		{"unique", `{"uniqueItems":true}`, `[1,2,"1"]`, `[1,1.0]`},
		{"large array", `{"items":{"type":"string","maxLength":20}}`, "[" + big + `""]`, "[" + big + `1]`},
		{"large text", `{"pattern":"^[A-Za-z0-9+/]*=*$"}`, `"` + strings.Repeat("QUJD", 250_000) + `"`, `"` + strings.Repeat("QUJD", 250_000) + `!"`},
		{"empty", `{}`, `[1]`, ``},
		{"unknown keywords", `{"x-ui":{"type":7},"format":"weird","contentEncoding":"base64"}`, `"?"`, ``},
		// Valid by ECMA-262, but not for an engine of linear time: left to the provider.
		{"lookahead", `{"pattern":"^(?=.*[0-9]).+$"}`, `"x"`, ``},
		{"lookahead within not", `{"not":{"pattern":"^(?!a)"}}`, `"x"`, ``},
		{"lookbehind", `{"pattern":"^[a-z0-9-]{1,63}(?<!-)$"}`, `"x-"`, ``},
		{"lookbehind for names", `{"patternProperties":{"^[a-z]+(?<!x)$":{"type":"string"}}}`, `{"a":1}`, ``},
		{"back reference", `{"pattern":"(a)\\1"}`, `"x"`, ``},
		{"named back reference", `{"pattern":"(?<$>a)\\k<$>"}`, `"x"`, ``},
		{"many instructions", `{"pattern":"` + strings.Repeat("[ab]{999}", 100) + `"}`, `"x"`, ``},
		// Evaluated as ECMA-262 says.
		{"unicode escape", `{"pattern":"^[\\u4e00-\\u9fa5]+$"}`, `"中"`, `"x"`},
		{"spaces", `{"pattern":"^\\d+\\s€$"}`, `"10\u00a0€"`, `"10x€"`},
		{"names with spaces", `{"pattern":"^\\S+\\s\\S+$"}`, `"山田\u3000太郎"`, `"山田太郎"`},
		{"any character", `{"pattern":"^[^]$"}`, `"\n"`, `""`},
		{"no character", `{"pattern":"^a[]|b$"}`, `"b"`, `"a"`},
		{"name of a group", `{"pattern":"^(?<$>a)$"}`, `"a"`, `"b"`},
		{"all of that for names", `{"patternProperties":{"^(?<$>[^])\\s$":{"type":"string"}}}`, `{"a\u00a0":"","b":1}`, `{"a\u00a0":1}`},
		{"references to a schema with a URI", `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://acme.example/x","definitions":{"n":{"$id":"https://acme.example/n","definitions":{"t":{"type":"string"}}}},"properties":{"v":{"$ref":"https://acme.example/n#/definitions/t"}}}`, `{"v":"x"}`, `{"v":1}`},
		{"a format that is not checked", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"string","format":"regex"}`, `"("`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := compile(t, schemaInput(c.schema))
			if _, err := document.ParseDescriptor([]byte(strings.Replace(sample.Descriptor, `"name": "days"`, `"schema":`+c.schema+`,"name": "days"`, 1))); err != nil {
				t.Error(err)
			}
			if e := check(in, jsontext.Value(`{"v":`+c.good+`}`)); e != nil {
				t.Errorf("%.60s: %v", c.good, e)
			}
			if c.bad == "" {
				return
			}
			if e := check(in, jsontext.Value(`{"v":`+c.bad+`}`)); e == nil || e.Argument.Reason != "schema" || len(e.Message) > 1000 {
				t.Errorf("%.60s: %v", c.bad, e)
			}
		})
	}
}

// The values of a format are not checked, so that calls have nothing in common that they write.
func TestRegexAsAFormat(t *testing.T) {
	in := compile(t, schemaInput(`{"$schema":"http://json-schema.org/draft-04/schema#","format":"regex","maxLength":9}`))
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			for j := range 500 {
				if e := check(in, jsontext.Value(fmt.Sprintf(`{"v":"(%d-%d"}`, i, j))); e != nil {
					t.Error(e)
				}
			}
		})
	}
	calls.Wait()
}

// The type of a parameter stays checked when its schema can't be.
func TestTypeIsCheckedWithoutTheSchema(t *testing.T) {
	in := compile(t, `[{"name":"v","type":"string","description":"","required":false,"schema":{"pattern":"(?=a)"}}]`)
	if e := check(in, jsontext.Value(`{"v":1}`)); e == nil || e.Argument.Reason != "type" {
		t.Errorf("got %v", e)
	}
}

// Every one of these would take very long to check, or much memory.
func TestArgumentsThatAreTooMuch(t *testing.T) {
	var numbers []string
	for i := range 20_000 {
		numbers = append(numbers, strconv.Itoa(i))
	}
	list := "[" + strings.Join(numbers, ",") + "]"
	twice := `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`
	for _, c := range []struct{ name, schema, value string }{
		{"doubling with each level", twice, nest(31, `{"a":*}`, `1`)},
		{"alternatives with the same member", `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, nest(31, `{"a":*}`, `1`)},
		{"deeper than is followed", `{"items":{"$ref":"#"}}`, strings.Repeat("[", 40) + strings.Repeat("]", 40)},
		{"many subschemas for many items", `{"items":{"allOf":[` + strings.Repeat(`{"type":"number"},`, 100) + `{}]}}`, list},
		{"costly pattern on much text", `{"pattern":"([a-z]+[0-9]*){50,300}$"}`, `"` + strings.Repeat("a", 1<<20) + `"`},
		{"costly pattern for many names", `{"patternProperties":{"([a-z]+[0-9]*){50,300}$":{}}}`, `{"` + strings.Repeat("a", 1<<20) + `":1}`},
		{"many items to compare", `{"uniqueItems":true}`, list},
		{"number without end", `{"minimum":0}`, `1e99999999`},
		{"zero with an endless exponent", `{"minimum":1}`, `0e-99999999`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := compile(t, schemaInput(c.schema))
			e := check(in, jsontext.Value(`{"v":`+c.value+`}`))
			reason := run.WrongSchema
			if e != nil && e.Limit != nil {
				reason = run.OverLimit
			}
			if e == nil || e.Argument.Reason != reason || !strings.HasPrefix(e.Argument.Pointer, "/v") {
				t.Errorf("got %v", e)
			}
		})
	}
}

// The calls of a request share one budget: what exceeds it is refused by the name of the
// limit, and not as a wrong argument.
func TestChecksOfARequest(t *testing.T) {
	text := `{"v":"` + strings.Repeat("a", 12_000_000) + `"}` // reading it takes more than half of what a request may
	in, err := inputs.CompileInputs(standard(), parameters(t, schemaInput(`{"maxLength":20000000}`)))
	if err != nil {
		t.Fatal(err)
	}
	var checks inputs.Checks
	if e := in.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: jsontext.Value(text)}, &checks); e != nil {
		t.Fatalf("the first: %v", e)
	}
	e := in.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: jsontext.Value(text)}, &checks)
	if e == nil || e.Argument.Reason != run.OverLimit || string(front.Details(e)) != `{"limit":"argument_complexity","max":100000000}` ||
		e.Executed != run.ExecutedNo || !strings.HasSuffix(e.Text(), ": send smaller arguments") {
		t.Errorf("the second: %+v", e)
	}
	if e := in.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: jsontext.Value(text)}, new(inputs.Checks)); e != nil {
		t.Errorf("by itself: %v", e)
	}
}

// A check whose steps are within the limit takes at most a second: the steps of an expression grow with its classes, whose ranges are
// searched. Without that, each of these took more than 1.5 s.
func TestS120StepsOfClasses(t *testing.T) {
	var scattered strings.Builder
	for i := range 1200 {
		scattered.WriteRune(rune(0x100 + 3*i))
	}
	for _, c := range []struct {
		pattern string
		letters int // refused; 0: none
		honest  int // accepted
	}{
		{`^(?:[\p{L}\p{N}\p{P}\p{S}]*){0,900}$`, 67_107, 1000},
		{`^(\p{L}{1,1000})+$`, 90_000, 1000},
		{`^([^` + scattered.String() + `]{1,1000})+$`, 90_000, 1000},
		{`^(.{1,1000})+$`, 90_000, 1000},
		{`^(a{1,1000})+$`, 90_000, 1000},
		{`^(\S{1,1000})+$`, 90_000, 1000},
		{`^(?:(?:.*)){1,900}$`, 60_000, 1000},
		{`^(?:a?a){1,900}$`, 60_000, 1000},
		{`^a*` + strings.Repeat("a", 1000) + `$`, 90_000, 1000},
		{`^[\p{L}\p{N} .,'-]{1,200}$`, 0, 1_000_000}, // one way to match
		{`^\p{L}{2,1000}ab$`, 0, 1_000_000},
	} {
		in := compile(t, schemaInput(`{"pattern":`+string(jsonvalue.Quoted(c.pattern))+`}`))
		check := func(letters int) *run.Failure {
			var checks inputs.Checks
			return in.Check(t.Context(), share.Line{}, jsonrpc.Object{Text: jsontext.Value(`{"v":"` + strings.Repeat("a", letters) + `"}`)}, &checks)
		}
		if e := check(c.letters); c.letters > 0 && (e == nil || e.Argument.Reason != run.OverLimit) {
			t.Errorf("%.40s: %d letters: %v", c.pattern, c.letters, e)
		}
		if e := check(c.honest); e != nil && e.Argument.Reason == run.OverLimit {
			t.Errorf("%.40s: %d letters: %v", c.pattern, c.honest, e)
		}
	}
}

// A schema of draft 2019-09 with $recursiveRef, which may depend on the way that validation took, is for the provider.
func TestRecursiveReferences(t *testing.T) {
	const draft = `"$schema":"https://json-schema.org/draft/2019-09/schema"`
	for _, schema := range []string{
		`{` + draft + `,"type":"object","properties":{"kids":{"items":{"$recursiveRef":"#"}}}}`,
		`{` + draft + `,"$id":"https://acme.example/tree","$recursiveAnchor":true,"type":"object","properties":{"kids":{"items":{"$recursiveRef":"#"}}}}`,
		`{` + draft + `,"$recursiveAnchor":true,"type":"object","properties":{"kids":{"$id":"https://acme.example/kids","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}}}`,
	} {
		in := compile(t, schemaInput(schema))
		if e := check(in, jsontext.Value(`{"v":{"kids":[{"kids":[]}]}}`)); e != nil {
			t.Errorf("%s: %v", schema, e)
		}
		if e := check(in, jsontext.Value(`{"v":{"kids":[1]}}`)); e != nil {
			t.Errorf("%s: %v", schema, e)
		}
	}
}

func TestCheckIsDeterministic(t *testing.T) {
	in := compile(t, schemaInput(`{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},"required":["x","y"],"propertyNames":{"maxLength":1}}`))
	var first string
	for range 50 {
		e := check(in, jsontext.Value(`{"v":{"c":1,"b":1,"a":1,"long":1}}`))
		if e == nil {
			t.Fatal("no error")
		}
		if first == "" {
			first = e.Message
		}
		if e.Message != first {
			t.Fatalf("got %q, then %q", first, e.Message)
		}
	}
}

func TestInputsAreSafeForConcurrentUse(t *testing.T) {
	in := compile(t, tripInputs)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			args := jsontext.Value(fmt.Sprintf(`{"location":"Berlin","days":%d,"address":{"city":"City%d"}}`, i, i))
			for range 200 {
				if e := check(in, args); e != nil {
					t.Error(e)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct{ name, inputs, args string }{
		{"types", `[{"name":"location","type":"string","required":true},{"name":"days","type":"number","required":false}]`, `{"location":"Berlin","days":5}`},
		{"large text", `[{"name":"text","type":"string","required":true}]`, `{"text":"` + strings.Repeat("lorem ipsum ", 10_000) + `"}`},
		{"schema", tripInputs, `{"location":"Berlin","days":3,"address":{"city":"Bonn","zip":53111}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := compile(b, c.inputs)
			args := jsontext.Value(c.args)
			b.ReportAllocs()
			b.SetBytes(int64(len(args)))
			for b.Loop() {
				if e := check(in, args); e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}

func BenchmarkCompileInputs(b *testing.B) {
	params := parameters(b, tripInputs)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := inputs.CompileInputs(standard(), params); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseDescriptor(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := document.ParseDescriptor([]byte(sample.Descriptor)); err != nil {
			b.Fatal(err)
		}
	}
}

// standard are the limits that hold where the operator has set none.
func standard() *document.Limits {
	limits := document.DefaultLimits()
	return &limits
}

// check checks arguments by themselves.
func check(in *inputs.Inputs, args jsontext.Value) *run.Failure {
	return in.Check(context.Background(), share.Line{}, jsonrpc.Object{Text: args}, new(inputs.Checks))
}

// problem is the failure that an error is.
func problem(tb testing.TB, err error) *run.Failure {
	tb.Helper()
	e, ok := errors.AsType[*run.Failure](err)
	if !ok {
		tb.Fatalf("got %v, want a *run.Failure", err)
	}
	return e
}
