package jsonvalue

import (
	"cmp"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// TypeSet is a set of the types of JSON Schema. The empty set stands for all types.
type TypeSet uint8

// The types, in the order of TypeNames.
const (
	TypeNull TypeSet = 1 << iota
	TypeBoolean
	TypeInteger
	TypeNumber
	TypeString
	TypeArray
	TypeObject

	Numbers   = TypeInteger | TypeNumber
	EveryType = TypeNull | TypeBoolean | Numbers | TypeString | TypeArray | TypeObject
)

// TypeNames are the names of the types, in the order of their bits.
var TypeNames = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// TypesNamed returns the set of the type with a name; empty: JSON Schema has no such type.
func TypesNamed(name string) TypeSet {
	if i := slices.Index(TypeNames, name); i >= 0 {
		return 1 << i
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
func TypeName(value jsontext.Value) string { return cmp.Or(typesOfKinds[value.Kind()], "object") }

var typesOfKinds = map[jsontext.Kind]string{'n': "null", 't': "boolean", 'f': "boolean", '0': "number", '"': "string", '[': "array", '{': "object"}

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
func isInteger(number string) bool {
	if !strings.ContainsAny(number, ".eE") {
		return true
	}
	exponent, isZero := strictjson.Magnitude(number)
	switch {
	case isZero, exponent > len(number): // it has fewer digits than the point moves
		return true
	case exponent < 0, len(number) > maxNumberLength:
		return false
	}
	exact, ok := new(big.Rat).SetString(number)
	return ok && exact.IsInt()
}
