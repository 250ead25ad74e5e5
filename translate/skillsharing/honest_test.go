package skillsharing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/sample"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// record is a schema of an object with n properties, of which the first is the nth.
func record(first, n int, more string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"field_%d":%s`, i, sample.Property(first+i)))
	}
	return `{` + more + `"type":"object","properties":{` + strings.Join(all, ",") + `}}`
}

// honest are inputs of descriptors as providers publish them, up to what the limits of
// parameters and of the size of schemas allow.
var honest = []struct {
	name   string
	n      int // inputs
	schema func(i int) string
}{
	{"220 inputs of a type and a length", 220, func(i int) string { return fmt.Sprintf(`{"type":"string","maxLength":%d}`, i+1) }},
	{"500 inputs of a type and a length", 500, func(i int) string { return fmt.Sprintf(`{"type":"string","maxLength":%d}`, i+1) }},
	{"500 inputs of all kinds", 500, sample.Property},
	{"500 inputs of numbers", 500, func(i int) string { return sample.Property(12*i + 2) }},
	{"500 inputs of values", 500, func(i int) string { return sample.Property(12*i + 3) }},
	{"500 inputs of lists", 500, func(i int) string { return sample.Property(12*i + 11) }},
	{"500 inputs with patterns", 500, func(i int) string {
		return fmt.Sprintf(`{"type":"string","pattern":"^a%d-[a-z][a-z0-9_.-]{0,%d}$"}`, i, i%63+1)
	}},
	{"100 inputs of three fields with a pattern", 100, func(i int) string { return record(12*i, 3, "") }},
	{"100 inputs of five fields with patterns", 100, func(i int) string {
		var fields []string
		for f, pattern := range []string{`^[A-Z]{2}%d[0-9]{1,20}$`, `^[0-9]{4}-[0-9]{2}-[0-9]{2}T%d$`, `^%d(EUR|USD|GBP)[0-9]{1,12}$`, `^[a-zA-Z0-9._+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,63}%d$`, `^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-%d$`} {
			fields = append(fields, fmt.Sprintf(`"f%d":{"type":"string","pattern":"%s"}`, f, fmt.Sprintf(pattern, i+2)))
		}
		return `{"type":"object","required":["f0"],"properties":{` + strings.Join(fields, ",") + `}}`
	}},
	{"a schema of 300 properties", 1, func(int) string { return record(0, 300, "") }},
	{"a schema of 400 properties", 1, func(int) string { return record(0, 400, "") }},
	{"four schemas of 400 properties", 4, func(i int) string { return record(i, 400, "") }},
	{"a schema of 300 properties in an older draft", 1, func(int) string {
		return record(0, 300, `"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"id":{"type":"string"}},`)
	}},
	{"a schema of 300 properties with unusual keywords", 1, func(int) string {
		return record(0, 300, `"$id":"order","unevaluatedProperties":false,`)
	}},
	{"60 inputs with unusual keywords", 60, func(i int) string {
		return record(12*i, 3, `"unevaluatedProperties":false,`)
	}},
	{"a schema with references", 1, func(int) string {
		var defs []string
		for i := range 100 {
			defs = append(defs, fmt.Sprintf(`"type_%d":{"type":"object","properties":{"a":%s,"b":{"$ref":"#/$defs/type_%d"},"c":{"type":"array","items":{"$ref":"#/$defs/type_%d"}}},"required":["a"]}`, i, sample.Property(i), (i+1)%100, (i+7)%100))
		}
		return `{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/type_0","$defs":{` + strings.Join(defs, ",") + `}}`
	}},
	{"as from OpenAPI", 1, func(int) string {
		var schemas []string
		for i := range 80 {
			schemas = append(schemas, fmt.Sprintf(`"Model%d":{"type":"object","x-order":%d,"allOf":[{"$ref":"#/components/schemas/Base"}],"properties":{"p":%s,"q":%s,"next":{"$ref":"#/components/schemas/Model%d"}},"xml":{"name":"m"}}`, i, i, sample.Property(i), sample.Property(i+5), (i+1)%80))
		}
		return `{"$ref":"#/components/schemas/Model0","components":{"schemas":{"Base":{"type":"object","required":["p"],"discriminator":{"propertyName":"kind"}},` + strings.Join(schemas, ",") + `}}}`
	}},
	{"a list of 3,000 values", 1, func(int) string {
		return `{"enum":` + listOf(3000, func(i int) string { return quote(fmt.Sprint("EDD", i)) }) + `}`
	}},
	{"50 inputs of 250 values", 50, func(i int) string {
		return `{"type":"string","enum":` + listOf(250, func(n int) string { return quote(fmt.Sprint(i, "-", n)) }) + `}`
	}},
}

// The default limits refuse no descriptor that is made in good faith.
func TestHonestDescriptors(t *testing.T) {
	for _, c := range honest {
		t.Run(c.name, func(t *testing.T) {
			doc := []byte(withMember(t, forecast, "inputs", listOf(c.n, func(i int) string {
				return fmt.Sprintf(`{"name":"p%d","type":"any","description":"d","required":false,"schema":%s}`, i, c.schema(i))
			})))
			s, err := discovery.NewSkill(doc, parseURL(t, acme+"/skill.json"))
			if err != nil {
				t.Fatalf("%d KiB: %.600s", len(doc)>>10, err)
			}
			if e := s.CheckInputs(t.Context(), "", jsonrpc.Object{Text: []byte(`{"p0":[[]]}`)}, nil); e == nil {
				t.Error("it is accepted as an argument")
			}
		})
	}
}
