package jsonvalue

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// TypeSet is a set of the types of JSON Schema. The empty set stands for all types.
type TypeSet uint8

// The types, in the order of TypeNames.
const (
	typeNull TypeSet = 1 << iota
	typeBoolean
	TypeInteger
	TypeNumber
	typeString
	typeArray
	typeObject
)

// TypeNames are the names of the types, in the order of their bits.
var TypeNames = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// TypesNamed returns the set of the type with a name; empty: JSON Schema has no such type.
func TypesNamed(name string) TypeSet {
	for i, n := range TypeNames {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

// TypesOf returns the types in the keyword "type" of a schema that [Read] returned.
func TypesOf(keyword any) TypeSet {
	switch keyword := keyword.(type) {
	case string:
		return TypesNamed(keyword)
	case []any:
		var set TypeSet
		for _, name := range keyword {
			if name, ok := name.(string); ok {
				set |= TypesNamed(name)
			}
		}
		return set
	default:
		return 0
	}
}

// Common returns the types that both sets have. Each integer is a number.
func (t TypeSet) Common(other TypeSet) TypeSet {
	wide := func(s TypeSet) TypeSet {
		if s&TypeNumber != 0 {
			s |= TypeInteger
		}
		return s
	}
	return wide(t) & wide(other)
}

// Names returns the names of the types in the set.
func (t TypeSet) Names() []string {
	var names []string
	for i, n := range TypeNames {
		if t&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return names
}

// Include reports whether a raw value has one of the types.
func (t TypeSet) Include(value jsontext.Value) bool {
	if t&TypesNamed(TypeName(value)) != 0 {
		return true
	}
	return t&TypeInteger != 0 && value.Kind() == '0' && isInteger(string(value))
}

// TypeName returns the JSON type of a raw value.
func TypeName(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '0':
		return "number"
	case '"':
		return "string"
	case '[':
		return "array"
	default:
		return "object"
	}
}

// WithArticle lists JSON types as in a sentence: "a string, an array or null".
func WithArticle(types ...string) string {
	named := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "null":
			named[i] = t
		case "array", "object", "integer":
			named[i] = "an " + t
		default:
			named[i] = "a " + t
		}
	}
	if len(named) < 2 {
		return strings.Join(named, "")
	}
	return strings.Join(named[:len(named)-1], ", ") + " or " + named[len(named)-1]
}

// isInteger reports whether a JSON number of any size is an integer, as 1.0 and
// 1e2 are (JSON Schema 2020-12 Core, section 4.2.3).
func isInteger(Number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(Number, "-")), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	if digits == "" {
		return true // zero
	}
	// The value is digits * 10^(exponent + zeros). It is an integer if exponent + zeros is
	// not negative.
	zeros := len(whole) - len(digits)
	negative := strings.HasPrefix(exponent, "-")
	shift := strings.TrimLeft(strings.TrimLeft(exponent, "+-"), "0")
	if len(shift) > 9 { // more than the number of digits can be
		return !negative
	}
	n := 0
	for i := range len(shift) {
		n = n*10 + int(shift[i]-'0')
	}
	if negative {
		n = -n
	}
	return n+zeros >= 0
}
