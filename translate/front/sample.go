package front

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/schema"
)

// Bounds of example arguments. They are needed because the schemas are the provider's.
const (
	maxSampleDepth = 8
	maxSampleText  = 200
	maxSampleValue = 1000     // bytes of a value that the schema contains
	maxSampleSize  = 16 << 10 // bytes, about; above it, arrays and objects get no further elements
	leastSample    = 80       // bytes that each value counts at least
)

// SampleInputs returns a JSON object with an example of each required input.
func SampleInputs(inputs []document.Parameter) jsontext.Value {
	s := sampler{left: maxSampleSize}
	return Object(func(w *Writer) {
		for i := range inputs {
			input := &inputs[i]
			if !input.Required {
				continue
			}
			example := input.Default
			if len(example) == 0 {
				of, _ := jsonvalue.Read(input.Schema, schema.ArgumentBounds) // nothing is known of an invalid one
				example = s.value(of, input.Type, 0)
			}
			w.Key(input.Name)
			w.Buf = append(w.Buf, example...)
		}
	})
}

// sampler makes values for JSON Schemas. It supports common keywords, but not patterns and
// references, so that a value may not match its schema.
type sampler struct{ left int } // bytes that further values may have, about

// value returns a value for a schema. kind is the type where the schema names none.
func (s *sampler) value(of any, kind string, depth int) jsontext.Value {
	s.left -= leastSample
	f, _ := of.(map[string]any)
	if given, found := offered(f); found {
		s.left -= len(given)
		return given
	}
	if kind = kindOf(f, kind); kind == "" && depth < maxSampleDepth {
		if choices := slices.Concat(listIn(f, "anyOf"), listIn(f, "oneOf")); len(choices) > 0 {
			return s.value(choices[0], "", depth+1)
		}
	}
	deeper := depth < maxSampleDepth
	switch kind {
	case "object":
		properties, _ := f["properties"].(map[string]any)
		return Object(func(w *Writer) {
			seen := map[string]bool{}
			for _, item := range listIn(f, "required") {
				if name, ok := item.(string); ok && !seen[name] && deeper && s.left > 0 {
					seen[name] = true
					w.Key(name)
					w.Buf = append(w.Buf, s.value(properties[name], "", depth+1)...)
				}
			}
		})
	case "array":
		w := Writer{Buf: []byte{'['}}
		for n := 0.0; deeper && s.left > 0 && n < max(1, numberIn(f, "minItems", 1)); n++ {
			w.Next()
			w.Buf = append(w.Buf, s.value(f["items"], "", depth+1)...)
		}
		w.CloseArray()
		return w.Buf
	case "integer", "number":
		return number(f, kind == "integer")
	case "boolean":
		return jsontext.Value("true")
	case "null":
		return jsontext.Value("null")
	}
	text := sampleText(f)
	s.left -= len(text)
	return AppendText(nil, text)
}

// offered returns a value that the schema contains, if it is not too long.
func offered(f map[string]any) (jsontext.Value, bool) {
	var offers []any
	for _, name := range []string{"const", "default"} {
		if v, given := f[name]; given {
			offers = append(offers, v)
		}
	}
	for _, v := range slices.Concat(offers, listIn(f, "examples"), listIn(f, "enum")) {
		if jsonvalue.SizeOf(v).Bytes <= maxSampleValue {
			return jsonvalue.Marshal(v), true
		}
	}
	return nil, false
}

// kindOf returns the type of the value; empty: any type matches.
func kindOf(f map[string]any, otherwise string) string {
	for _, name := range append([]any{f["type"]}, listIn(f, "type")...) {
		if kind, ok := name.(string); ok {
			return kind
		}
	}
	switch {
	case otherwise != "":
		return otherwise
	case f["properties"] != nil || f["required"] != nil:
		return "object"
	case f["items"] != nil:
		return "array"
	}
	return ""
}

func listIn(f map[string]any, name string) []any {
	list, _ := f[name].([]any)
	return list
}

// numberIn returns the number in a keyword.
func numberIn(f map[string]any, name string, otherwise float64) float64 {
	if text, ok := f[name].(jsonvalue.Number); ok {
		otherwise, _ = text.Float64() // that of a schema is finite
	}
	return otherwise
}

// number returns a number that satisfies most schemas: between the bounds and a multiple of the
// step, if there is one between them.
func number(f map[string]any, whole bool) jsontext.Value {
	low := max(numberIn(f, "minimum", math.Inf(-1)), numberIn(f, "exclusiveMinimum", math.Inf(-1)))
	high := min(numberIn(f, "maximum", math.Inf(1)), numberIn(f, "exclusiveMaximum", math.Inf(1)))
	n := low/2 + high/2
	switch {
	case math.IsInf(high, 1):
		n = max(1, low+1)
	case math.IsInf(low, -1):
		n = min(1, high-1)
	}
	if step := numberIn(f, "multipleOf", 0); step > 0 {
		n = math.Round(n/step) * step
		n, _ = strconv.ParseFloat(strconv.FormatFloat(n, 'g', 15, 64), 64) // 3*0.1 is 0.30000000000000004
	} else if whole {
		n = math.Round(n)
	}
	if math.IsNaN(n) || math.Abs(n) > 1e18 { // it would take hundreds of digits
		n = 1
	}
	return strconv.AppendFloat(nil, n, 'f', -1, 64)
}

// formats has examples of common formats (JSON Schema 2020-12, Validation, section 7.3),
// with names that are reserved for documentation (RFC 2606).
var formats = map[any]string{
	"date":          "2025-07-01",
	"date-time":     "2025-07-01T12:00:00Z",
	"time":          "12:00:00Z",
	"duration":      "P1D",
	"email":         "someone@example.com",
	"hostname":      "example.com",
	"ipv4":          "192.0.2.1",
	"ipv6":          "2001:db8::1",
	"uri":           "https://example.com/",
	"uri-reference": "https://example.com/",
	"iri":           "https://example.com/",
	"uuid":          "3f2b8c1e-7c1d-4e0a-9b57-0d5e6a1f2c34",
}

// sampleText returns a string that matches the format or the length of the schema.
func sampleText(f map[string]any) string {
	if format, ok := f["format"].(string); ok && formats[format] != "" {
		return formats[format]
	}
	text := "text"
	if want := int(min(numberIn(f, "minLength", 0), maxSampleText)); want > len(text) {
		text = strings.Repeat(text, want/len(text)+1)[:want]
	}
	return text[:int(min(float64(len(text)), max(numberIn(f, "maxLength", math.Inf(1)), 0)))]
}
