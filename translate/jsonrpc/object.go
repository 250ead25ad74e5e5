package jsonrpc

import (
	"bytes"
	"iter"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Object is a JSON object as it was sent, with its members if they were collected, so that
// a large object does not have to be parsed again.
type Object struct {
	Text jsontext.Value // nil: there is none
	// Members are the members of Text, in order; nil: Text was not parsed, or is empty or not an object.
	Members []Member
}

// Member is a member of an [Object]. Names and values are slices of the object's text.
type Member struct {
	Name  jsontext.Value // with quotation marks and escapes
	Value jsontext.Value
	// Members are the members of Value, as in Object.
	Members []Member
}

// All returns an iterator over the members of the object, as [Members] does. Members that were collected are not looked for again.
func (o Object) All() iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) {
		if o.Members == nil {
			eachMember(o.Text, yield)
		}
		for _, m := range o.Members {
			if !yield(m.Name, m.Value) {
				return
			}
		}
	}
}

// IsNull reports whether a value is null. The fronts treat an optional member that is null as an absent one, since clients send null for
// what they leave out. The values that a skill gets are not changed: null may mean something to it.
func IsNull(v jsontext.Value) bool { return v.Kind() == 'n' }

// Members returns an iterator over the members of an object. The object must be valid JSON, of which the end may be cut off; any other kind of value has none.
// Names have quotation marks and escapes. Names and values are slices of the object.
func Members(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) { eachMember(object, yield) }
}

func eachMember(object jsontext.Value, each func(name, value jsontext.Value) bool) {
	within(object, '{', func(r *strictjson.Reader) bool {
		name := r.Value()
		value := r.Value()
		return value != nil && each(name, value)
	})
}

// within calls next for each member or item of a text that begins with a bracket, until it returns false.
func within(text []byte, bracket byte, next func(*strictjson.Reader) bool) {
	r := strictjson.Borrow(text, math.MaxInt, true)
	defer r.GiveBack()
	for more := r.Kind() == bracket && r.Bracket(); more; {
		more = r.More() && next(r)
	}
}

// MembersOf returns the members of an object in their order; see [Members].
func MembersOf(object jsontext.Value) (members []Member) {
	for name, value := range Members(object) {
		members = append(members, Member{Name: name, Value: value})
	}
	return members
}

// ValueOf returns the value of a member of an object; nil: it is absent, or null.
func ValueOf(object jsontext.Value, name string) jsontext.Value {
	for quoted, value := range Members(object) {
		if !IsNull(value) && string(Unquote(quoted)) == name {
			return value
		}
	}
	return nil
}

// Repeated returns a name that an object has more than once.
func Repeated(object Object) (name string, twice bool) {
	names := make([][]byte, 0, 8) // few objects have more members
	for quoted := range object.All() {
		names = append(names, Unquote(quoted))
	}
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return string(names[i]), true
		}
	}
	return "", false
}

// Items returns an iterator over the elements of an array, as [Members] does for the members of an object.
func Items(array jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(item jsontext.Value) bool) {
		within(array, '[', func(r *strictjson.Reader) bool {
			item := jsontext.Value(r.Value())
			return item != nil && yield(item)
		})
	}
}

// Flatten replaces the line ends of a JSON text, so that it is one line. A valid text has them only as white space between tokens.
func Flatten(text []byte) {
	for _, end := range []byte("\r\n") {
		rest := text
		for i := bytes.IndexByte(rest, end); i >= 0; i = bytes.IndexByte(rest, end) {
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}

// Deeper reports whether arrays and objects nest deeper than limit; the outermost has the
// depth 1. For text that is not JSON, the result is right for the part before the first syntax error,
// where a parser stops.
func Deeper(text []byte, limit int) bool {
	r := strictjson.Borrow(text, limit, true)
	defer r.GiveBack()
	r.Value()
	return r.Deeper()
}
