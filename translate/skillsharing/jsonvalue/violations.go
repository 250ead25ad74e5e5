package jsonvalue

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
)

// Bounds of a violation, in bytes, and of the violations of one document.
const (
	MaxPath       = 1024
	MaxMessage    = 512
	MaxActual     = 256
	MaxViolations = 50
)

// Shown returns the form of a value in a violation: a long string is cut and
// ends in an ellipsis; for an array or object, it is only the type.
func Shown(v any) jsontext.Value {
	switch v := v.(type) {
	case string:
		return Quoted(safetext.Clip(v, MaxActual))
	case Number:
		if len(v) > MaxActual {
			return Quoted("number")
		}
		return jsontext.Value(v)
	case []any:
		return Quoted("array")
	case map[string]any:
		return Quoted("object")
	default:
		return Marshal(v)
	}
}

// Quoted returns a text as a JSON string.
func Quoted(s string) jsontext.Value { return Marshal(s) }

// Pointer returns the JSON Pointer (RFC 6901) of a path.
func Pointer(path []string) string {
	var p jsontext.Pointer
	for _, token := range path {
		p = p.AppendToken(token)
	}
	return string(p)
}

// Lookup returns the value at a path; nil: there is none.
func Lookup(v any, path []string) any {
	for _, token := range path {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			v = parent[i]
		default:
			return nil
		}
	}
	return v
}

// Violations collects what is wrong with a document.
type Violations []run.Violation

// Add adds a violation: found, the value at path, is not what is expected.
func (v *Violations) Add(path, message, expected string, found any) {
	*v = append(*v, run.Violation{Path: safetext.Clip(path, MaxPath), Message: message, Expected: Quoted(expected), Actual: Shown(found)})
}

// Tidy returns the violations sorted, without duplicates, and at most
// [MaxViolations]; nil: there are none.
func (v *Violations) Tidy() []run.Violation {
	if len(*v) == 0 {
		return nil
	}
	slices.SortStableFunc(*v, func(a, b run.Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	list := slices.CompactFunc(*v, func(a, b run.Violation) bool { return a.Path == b.Path && a.Message == b.Message })
	return list[:min(len(list), MaxViolations)]
}

// numbersAsTheyAre writes a [Number] as its text. Otherwise it would be a string.
var numbersAsTheyAre = json.WithMarshalers(json.MarshalToFunc(func(e *jsontext.Encoder, n Number) error { return e.WriteValue(jsontext.Value(n)) }))

// Marshal returns the JSON of a value that consists of strings, numbers, lists and maps.
// Encoding such a value can't fail.
func Marshal(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), numbersAsTheyAre)
	if err != nil {
		return jsontext.Value("null")
	}
	return b
}
