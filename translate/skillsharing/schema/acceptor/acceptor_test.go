package acceptor_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema/acceptor"
)

// compile returns the schema as the library compiles it; nil: it is invalid.
func compile(text string) *jsonschema.Schema {
	value, flaw := jsonvalue.Read([]byte(text), jsonvalue.Bounds{Depth: 32, Values: 1000})
	if flaw != nil {
		return nil
	}
	c := schema.NewLibraryCompiler()
	if err := c.AddResource("https://schema.invalid/", value); err != nil {
		return nil
	}
	s, err := c.Compile("https://schema.invalid/")
	if err != nil {
		return nil
	}
	return s
}

// isValid reports whether a text can be read, and is the text of a valid value.
func isValid(s *jsonschema.Schema, text string) bool {
	value, flaw := jsonvalue.Read([]byte(text), schema.ArgumentBounds)
	return flaw == nil && s.Validate(value) == nil
}

func accepts(s *jsonschema.Schema, text string) bool {
	return acceptor.New(s).Accepts([]byte(text), schema.ArgumentBounds.Values, schema.ArgumentBounds.Depth)
}

const point = `{"type":"object","properties":{"lat":{"type":"number","minimum":-90,"maximum":90},"lon":{"type":"number","minimum":-180,"maximum":180},"label":{"type":"string","maxLength":5},"tags":{"type":"array","items":{"type":"string"},"maxItems":2}},"required":["lat","lon"],"additionalProperties":false}`

// usual has schemas, each with values that it accepts without the library.
var usual = map[string][]string{
	`true`: {`1`, `{"a":[{"b":null},"x"]}`}, `{}`: {` [ 1 , -0.5e3 , "a\u00e9\n" , true , null , { } ] `, `""`},
	`{"type":"string","minLength":2,"maxLength":4}`: {`"ab"`, `"äöü€"`, `"a\"\\b"`, `"😀😀"`, `"\ud83d\ude00\u20ac\t"`},
	`{"type":"integer","minimum":0,"maximum":14}`:   {`0`, `14`, `7`, `-0`}, `{"type":["null","number"],"exclusiveMinimum":0.5,"exclusiveMaximum":10}`: {`0.75`, `9.99`, `1e0`, `null`, `5`},
	`{"type":"integer","multipleOf":5}`: {`10`, `-15`, `0`}, `{"enum":["metric","imperial",3,null,true]}`: {`"metric"`, `3`, `null`, `true`}, `{"const":"a"}`: {`"a"`},
	`{"type":"array","items":` + point + `}`: {`[]`, `[{"lat":1.5,"lon":-180},{"lon":180,"lat":-90,"label":"abc","tags":["a","b"]}]`},
	`{"items":{"properties":{"a":{"properties":{"x":true,"y":{"type":"null"}}},"b\"\n":{"properties":{"z":{"type":"integer"}},"required":["z"],"additionalProperties":false}}}}`: {
		`[{"a":{"x":1,"y":null},"c":{"x":1}},{"a":{"y":null,"x":1}},{"a":{"x":{"z":"z"}}},{"c":1,"a":{}},{"a":{"y":null}}]`,
	}, `{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1,"maxProperties":2}`: {`{"a":1}`, `{"a":1,"b":2}`}, `{"required":["a"],"properties":{"b":{"type":"null"}}}`: {`{"a":1,"b":null,"c":2}`},
	`{"prefixItems":[{"type":"string"},true],"items":{"type":"boolean"},"minItems":1}`:          {`["a"]`, `["a",1,true,false]`},
	`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`: {`2`}, `{"title":"t","description":"d","default":1,"examples":[1],"$comment":"c","deprecated":true,"x-order":1}`: {`1`},
}

// others has schemas with keywords that only the library applies.
var others = []string{
	`{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `{"allOf":[{"minimum":2},{"maximum":3}]}`, `{"anyOf":[{"type":"string"},{"minimum":2}]}`, `{"oneOf":[{"type":"string"},{"minimum":2}]}`, `{"not":{"type":"string"}}`,
	`{"if":{"type":"string"},"then":{"minLength":2},"else":{"minimum":2}}`, `{"pattern":"^a"}`, `{"uniqueItems":true}`, `{"contains":{"type":"string"}}`, `{"propertyNames":{"maxLength":1}}`, `{"patternProperties":{"^a":{"type":"string"}}}`,
	`{"dependentRequired":{"a":["b"]}}`, `{"dependentSchemas":{"a":{"required":["b"]}}}`, `{"unevaluatedProperties":false}`, `{"unevaluatedItems":false}`, `{"multipleOf":0.5}`, `{"enum":[[1],{"a":1},1.5,1e2]}`, `{"const":{"a":1}}`, `{"const":1,"enum":[1,2]}`, `false`, `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]}}`,
	`{"$schema":"http://json-schema.org/draft-07/schema#","additionalItems":false}`, `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `{"$dynamicRef":"#a","$defs":{"a":{"$dynamicAnchor":"a","type":"string"}}}`, `{"minimum":0.1,"maximum":123456789012345678901234567890}`, `{"minimum":9007199254740993}`, `{"required":["a","b"],"properties":{"a":false}}`,
}

// questions are texts that some schemas accept, and texts that nobody may accept.
var questions = []string{
	`null`, `true`, `false`, `0`, `1`, `-1`, `2`, `3`, `1.0`, `1.5`, `0.1`, `0.10000000000000001`, `100`, `1e2`, `1E+2`, `9007199254740992`, `9007199254740993`, `123456789012345678901234567890`, `1e400`, `1e-400`, `""`, `"a"`, `"ab"`, `"\u0061"`, `"abc"`, `[]`, `[1]`, `[1,1]`, `["a"]`, `["a",1]`, `[[1]]`,
	`{}`, `{"a":1}`, `{"a":1,"a":1}`, `{"\u0061":1}`, `{"a":1,"b":"x"}`, `{"b":2}`, `{"lat":1,"lon":2}`, `[{"lat":1,"lon":2}]`, `[{"lat":91,"lon":2}]`, `[{"lat":1}]`, `[{"lat":1,"lon":2,"x":0}]`, `[{"lat":1,"lat":1,"lon":2}]`, `[{"lat":1,"lon":2,"tags":["a","b","c"]}]`,
	`[{"lat":1,"lon":2},{"lat":1,"lat":1}]`, `[{"lat":1,"lon":2},{"lon":1,"lon":2}]`, `[{"lat":1,"lon":2},{"lat":1}]`, `[{"lat":1,"lon":2},{"lat" :1,"lon" : 2}]`, `[{"lat":1,"lon":2},{"lat":1,"lon"`, `[{"lat":1,"lon":2},{"lat":1,"lon":`, `[{"lat":1,"lon":2},{"lat":}]`,
	`[{"lat":1,"lon":2,"label":"a","tags":[]},{"lat":1,"lon":2,"tags":[],"tags":[]}]`,
	``, ` `, `-`, `+1`, `01`, `-01`, `1.`, `.5`, `1e`, `1e+`, `0x1`, `NaN`, `nul`, `nulll`, `tru`, `"`, `"\`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\ud800"`, `"\ud83d\ude00"`, `"\uDBFF"`, "\"\x01\"", "\"\x7f\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xc3\"", `[`, `[1`, `[1,`, `[1,]`, `[,1]`, `[1 2]`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a" 1}`, `{"a":1]`, `[1}`, `1 2`, `[] []`, "\ufeff1", "1\x00", "\u00a01",
}

// Usual values are accepted without the library.
func TestUsual(t *testing.T) {
	for text, values := range usual {
		s := compile(text)
		for _, value := range values {
			if !isValid(s, value) || !accepts(s, value) {
				t.Errorf("%s: %s", text, value)
			}
		}
	}
}

// What is accepted is valid, whatever the keywords.
func TestAcceptsOnlyValid(t *testing.T) {
	all := slices.Clone(questions)
	for _, values := range usual {
		all = append(all, values...)
	}
	schemas := slices.Clone(others)
	for text := range usual {
		schemas = append(schemas, text)
	}
	for _, text := range schemas {
		s := compile(text)
		if s == nil {
			t.Fatal(text)
		}
		for _, value := range all {
			if accepts(s, value) && !isValid(s, value) {
				t.Errorf("%s accepts %s", text, value)
			}
		}
	}
}

// The bounds of reading are those of the library's way: values, nesting, names that occur twice among many.
func TestBounds(t *testing.T) {
	s := compile(`{}`)
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]" }
	names := func(n int, more string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(`"` + strconv.Itoa(i) + `":1,`)
		}
		return "{" + b.String() + more + "}"
	}
	for text, want := range map[string]bool{
		nested(32): true, nested(33): false, list(schema.MaxVisits - 1): true, list(schema.MaxVisits): false, names(15, `"x":1`): true, names(15, `"3":1`): false, names(15, `"x":{"3":1}`): true,
		"[" + names(15, `"x":1`) + "," + names(15, `"x":1`) + "]": true, names(40, `"x":1`): false, `"` + strings.Repeat("x", 1<<20) + `"`: true, strings.Repeat("1", 33): false,
	} {
		if got := accepts(s, text); got != want {
			t.Errorf("%.60s… (%d bytes): %t", text, len(text), got)
		} else if got && !isValid(s, text) {
			t.Errorf("%.60s… is invalid", text)
		}
	}
	many := compile(`{"properties":{` + strings.Trim(strings.ReplaceAll(names(65, ""), ":1", ":true"), "{,}") + `}}`)
	if accepts(many, `{}`) || !accepts(many, `1`) {
		t.Error("65 names have no bits")
	}
}

// A keyword that this package does not know is left to the library: each field of a compiled schema is known here.
func TestKnowsAllKeywords(t *testing.T) {
	annotations := strings.Fields("DraftVersion Location ID Anchor RecursiveAnchor DynamicAnchor Title Description Default Comment ReadOnly WriteOnly Examples Deprecated MinContains MaxContains")
	applied := strings.Fields("Bool Types Enum Const MaxProperties MinProperties Required Properties AdditionalProperties MinItems MaxItems Items AdditionalItems PrefixItems Items2020 MinLength MaxLength Maximum Minimum ExclusiveMaximum ExclusiveMinimum MultipleOf")
	library := strings.Fields("Ref RecursiveRef DynamicRef Not AllOf AnyOf OneOf If Then Else Format PropertyNames PatternProperties Dependencies DependentRequired DependentSchemas UnevaluatedProperties UniqueItems Contains UnevaluatedItems Pattern ContentEncoding ContentMediaType ContentSchema Extensions")
	values := []string{`null`, `true`, `1`, `1.5`, `"a"`, `[]`, `{}`}
	of := reflect.TypeFor[jsonschema.Schema]()
	for i := range of.NumField() {
		field := of.Field(i)
		switch {
		case !field.IsExported() || slices.Contains(annotations, field.Name) || slices.Contains(applied, field.Name):
		case slices.Contains(library, field.Name):
			s := &jsonschema.Schema{DraftVersion: 2020}
			set(reflect.ValueOf(s).Elem().Field(i))
			accepted := 0
			for _, value := range values {
				if accepts(s, value) {
					accepted++
				}
			}
			if accepted == len(values) {
				t.Errorf("%s has no effect", field.Name)
			}
		default:
			t.Errorf("the library has the keyword %s, which is not known here", field.Name)
		}
	}
}

// set sets a field to a value other than zero.
func set(field reflect.Value) {
	switch field.Kind() {
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.Zero(field.Type().Elem()))
	case reflect.Interface: // a regular expression
		field.Set(reflect.ValueOf(anyText{}))
	}
}

type anyText struct{}

func (anyText) MatchString(string) bool { return true }
func (anyText) String() string          { return "" }

// FuzzAccepts: what is accepted can be read, and the library accepts it.
func FuzzAccepts(f *testing.F) {
	i := 0
	for text, values := range usual {
		for _, value := range values {
			f.Add(text, value)
		}
		f.Add(text, questions[i%len(questions)])
		i++
	}
	for i, value := range questions {
		f.Add(others[i%len(others)], value)
	}
	var last string // most inputs change only one of the two
	var compiled *jsonschema.Schema
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > 1000 || len(value) > 1000 {
			return
		}
		if text != last {
			last, compiled = text, compile(text)
		}
		if compiled == nil {
			return
		}
		if accepts(compiled, value) && !isValid(compiled, value) {
			t.Errorf("%s accepts %s", text, value)
		}
	})
}

func BenchmarkAccepts(b *testing.B) {
	one := `{"lat":35.6897,"lon":139.6922,"label":"Tokyo","tags":["a","b"]},`
	for _, size := range []int{1 << 10, 64 << 10} {
		text := []byte("[" + strings.TrimSuffix(strings.Repeat(one, size/len(one)), ",") + "]")
		a := acceptor.New(compile(`{"type":"array","items":` + point + `}`))
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if !a.Accepts(text, schema.ArgumentBounds.Values, schema.ArgumentBounds.Depth) {
					b.Fatal("not accepted")
				}
			}
		})
	}
}
