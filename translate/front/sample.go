package front

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// Bounds of example arguments. They are needed because the schemas are the provider's.
const (
	maxSampleDepth = 8
	maxSampleNodes = 200
	maxSampleText  = 200
	maxSampleValue = 1000      // bytes of a value that the schema contains
	maxSampleSize  = 16 << 10  // bytes; above it, arrays and objects get no further elements
	maxSampleRead  = 256 << 10 // bytes of schemas that are parsed; nested schemas count for each level
)

// SampleInputs returns a JSON object with an example of each required input.
func SampleInputs(inputs []document.Parameter) jsontext.Value {
	s := sampler{nodes: maxSampleNodes, unread: maxSampleRead}
	s.Open()
	for i := range inputs {
		input := &inputs[i]
		if !input.Required {
			continue
		}
		s.Next()
		s.Buf = append(AppendText(s.Buf, input.Name), ':')
		if len(input.Default) > 0 {
			s.Buf = append(s.Buf, input.Default...)
			continue
		}
		s.value(input.Schema, input.Type, 0)
	}
	s.Close()
	return s.Buf
}

// sampler makes values for JSON Schemas. It supports common keywords, but not patterns and
// references, so that a value may not match its schema.
type sampler struct {
	Writer
	nodes  int // values that may still be made
	unread int // bytes of schemas that may still be read
}

// full reports whether the example has reached a bound.
func (s *sampler) full() bool { return s.nodes <= 0 || len(s.Buf) > maxSampleSize }

// shape has the keywords of a schema that a sampler supports (JSON Schema 2020-12, Validation).
type shape struct {
	Const            jsontext.Value            `json:"const"`
	Default          jsontext.Value            `json:"default"`
	Examples         []jsontext.Value          `json:"examples"`
	Enum             []jsontext.Value          `json:"enum"`
	Type             jsontext.Value            `json:"type"`
	Format           string                    `json:"format"`
	MinLength        float64                   `json:"minLength"`
	MaxLength        *float64                  `json:"maxLength"`
	Minimum          *float64                  `json:"minimum"`
	ExclusiveMinimum *float64                  `json:"exclusiveMinimum"`
	Maximum          *float64                  `json:"maximum"`
	ExclusiveMaximum *float64                  `json:"exclusiveMaximum"`
	MultipleOf       float64                   `json:"multipleOf"`
	Items            jsontext.Value            `json:"items"`
	MinItems         float64                   `json:"minItems"`
	Properties       map[string]jsontext.Value `json:"properties"`
	Required         []string                  `json:"required"`
	AnyOf            []jsontext.Value          `json:"anyOf"`
	OneOf            []jsontext.Value          `json:"oneOf"`
}

// value appends a value for a schema. kind is the type where the schema names none.
func (s *sampler) value(schema jsontext.Value, kind string, depth int) {
	s.nodes--
	var f shape
	if schema.Kind() == '{' && len(schema) <= s.unread {
		s.unread -= len(schema)
		// If the schema is invalid, the fields read so far are used.
		_ = json.Unmarshal(schema, &f)
	}
	if fixed := f.fixed(); len(fixed) > 0 {
		s.Buf = append(s.Buf, fixed...)
		return
	}
	kind = f.kind(kind)
	if kind == "" && depth < maxSampleDepth {
		if choices := slices.Concat(f.AnyOf, f.OneOf); len(choices) > 0 {
			s.value(choices[0], "", depth+1)
			return
		}
	}
	deeper := depth < maxSampleDepth && !s.full()
	switch kind {
	case "object":
		s.object(&f, deeper, depth)
	case "array":
		s.array(&f, deeper, depth)
	case "integer":
		s.Buf = append(s.Buf, f.number(true)...)
	case "number":
		s.Buf = append(s.Buf, f.number(false)...)
	case "boolean":
		s.Buf = append(s.Buf, "true"...)
	case "null":
		s.Buf = append(s.Buf, "null"...)
	default:
		s.Buf = AppendText(s.Buf, f.text())
	}
}

func (s *sampler) object(f *shape, deeper bool, depth int) {
	s.Buf = append(s.Buf, '{')
	for i, name := range f.Required[:min(len(f.Required), maxSampleNodes)] {
		if !deeper || s.full() {
			break
		}
		if slices.Contains(f.Required[:i], name) {
			continue
		}
		s.Next()
		s.Buf = append(AppendText(s.Buf, name), ':')
		s.value(f.Properties[name], "", depth+1)
	}
	s.Close()
}

// array appends an array of minItems equal items, or of one.
func (s *sampler) array(f *shape, deeper bool, depth int) {
	s.Buf = append(s.Buf, '[')
	if deeper {
		start, nodes := len(s.Buf), s.nodes
		s.value(f.Items, "", depth+1)
		item := s.Buf[start:]
		nodes -= s.nodes
		for n := 1.0; n < f.MinItems && s.nodes >= nodes && !s.full(); n++ {
			s.nodes -= nodes
			s.Buf = append(append(s.Buf, ','), item...)
		}
	}
	s.CloseArray()
}

// fixed returns a value that the schema contains, if it is not too long.
func (f *shape) fixed() jsontext.Value {
	for _, offer := range slices.Concat([]jsontext.Value{f.Const, f.Default}, f.Examples, f.Enum) {
		if 0 < len(offer) && len(offer) <= maxSampleValue {
			return offer
		}
	}
	return nil
}

// kind returns the type of the value, "" if any type matches.
func (f *shape) kind(otherwise string) string {
	var one string
	if json.Unmarshal(f.Type, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(f.Type, &several) == nil && len(several) > 0 {
		return several[0]
	}
	switch {
	case otherwise != "":
		return otherwise
	case len(f.Properties)+len(f.Required) > 0:
		return "object"
	case len(f.Items) > 0:
		return "array"
	}
	return ""
}

// number returns a number that satisfies most schemas: between the bounds and a multiple of the
// step, if there is one between them.
func (f *shape) number(whole bool) string {
	low, high := math.Inf(-1), math.Inf(1)
	for _, n := range []*float64{f.Minimum, f.ExclusiveMinimum} {
		if n != nil {
			low = max(low, *n)
		}
	}
	for _, n := range []*float64{f.Maximum, f.ExclusiveMaximum} {
		if n != nil {
			high = min(high, *n)
		}
	}
	n := low/2 + high/2
	switch {
	case math.IsInf(high, 1):
		n = max(1, low+1)
	case math.IsInf(low, -1):
		n = min(1, high-1)
	}
	if step := f.MultipleOf; step > 0 {
		n = math.Round(n/step) * step
		n, _ = strconv.ParseFloat(strconv.FormatFloat(n, 'g', 15, 64), 64) // 3*0.1 is 0.30000000000000004
	} else if whole {
		n = math.Round(n)
	}
	if math.IsNaN(n) || math.Abs(n) > 1e18 { // it would take hundreds of digits
		n = 1
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// formats has examples of common formats (JSON Schema 2020-12, Validation, section 7.3),
// with names that are reserved for documentation (RFC 2606).
var formats = map[string]string{
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

// text returns a string that matches the format or the length of the schema.
func (f *shape) text() string {
	if example, ok := formats[f.Format]; ok {
		return example
	}
	text := "text"
	if want := int(min(f.MinLength, maxSampleText)); want > len(text) {
		text = strings.Repeat(text, want/len(text)+1)[:want]
	}
	if f.MaxLength != nil && float64(len(text)) > *f.MaxLength {
		text = text[:int(max(*f.MaxLength, 0))]
	}
	return text
}
