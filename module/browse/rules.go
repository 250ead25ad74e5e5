package browse

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rules are the keywords of a schema that people can be told (JSON Schema 2020-12, Validation). Numbers are as the provider wrote them.
type rules struct {
	Enum             []jsontext.Value `json:"enum"`
	Const            jsontext.Value   `json:"const"`
	MinLength        jsontext.Value   `json:"minLength"`
	MaxLength        jsontext.Value   `json:"maxLength"`
	Minimum          jsontext.Value   `json:"minimum"`
	Maximum          jsontext.Value   `json:"maximum"`
	ExclusiveMinimum jsontext.Value   `json:"exclusiveMinimum"`
	ExclusiveMaximum jsontext.Value   `json:"exclusiveMaximum"`
	MultipleOf       jsontext.Value   `json:"multipleOf"`
	MinItems         jsontext.Value   `json:"minItems"`
	MaxItems         jsontext.Value   `json:"maxItems"`
	UniqueItems      bool             `json:"uniqueItems"`
	Pattern          string           `json:"pattern"`
	Format           string           `json:"format"`
}

// rulesOf reads the rules of a schema. If it is invalid, those that were read so far are used.
func rulesOf(schema jsontext.Value) (r rules) {
	if schema.Kind() == '{' && len(schema) <= maxShownSchema {
		_ = json.Unmarshal(schema, &r)
	}
	return r
}

// words returns the rules without the allowed values and the pattern in words.
func (r *rules) words() (list []string) {
	add := func(text string) {
		if text != "" {
			list = append(list, text)
		}
	}
	add(between(r.MinLength, r.MaxLength, "character"))
	add(between(r.Minimum, r.Maximum, ""))
	if n := numberOf(r.ExclusiveMinimum); n != "" {
		add("more than " + n)
	}
	if n := numberOf(r.ExclusiveMaximum); n != "" {
		add("less than " + n)
	}
	if n := numberOf(r.MultipleOf); n != "" {
		add("a multiple of " + n)
	}
	add(between(r.MinItems, r.MaxItems, "item"))
	if r.UniqueItems {
		add("no item twice")
	}
	if format := plain(r.Format, maxShownName); format != "" {
		add("format " + format)
	}
	if len(r.Const) > 0 {
		add("always " + plain(string(r.Const), maxShownName))
	}
	return list
}

// between returns a range in words, of numbers or of a number of units; empty: it has no bounds.
func between(least, most jsontext.Value, unit string) string {
	low, high := numberOf(least), numberOf(most)
	if unit != "" && low == "0" {
		low = ""
	}
	var text, last string
	switch {
	case low != "" && low == high:
		text, last = "exactly "+low, low
	case low != "" && high != "":
		text, last = low+" to "+high, high
	case low != "":
		text, last = "at least "+low, low
	case high != "":
		text, last = "at most "+high, high
	default:
		return ""
	}
	if unit == "" {
		return text
	}
	if last != "1" {
		unit += "s"
	}
	return text + " " + unit
}

// maxDigits bounds a shown number.
const maxDigits = 30

// numberOf returns a number as it is written; empty: it is none, or too long.
func numberOf(v jsontext.Value) string {
	if v.Kind() != '0' || len(v) > maxDigits {
		return ""
	}
	return strings.TrimSpace(string(v))
}
