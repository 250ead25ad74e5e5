package jsonrpc

import (
	"bytes"
	"iter"
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

// Members returns an iterator over the members of an object. The object must be valid JSON; any other kind of value has none. Names
// have quotation marks and escapes. Names and values are slices of the object. It takes a fraction of the time of a parser, since it
// checks nothing.
func Members(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) { eachMember(object, yield) }
}

func eachMember(object jsontext.Value, each func(name, value jsontext.Value) bool) {
	if len(object) == 0 || object.Kind() != '{' {
		return
	}
	i := bytes.IndexByte(object, '{') + 1
	for i = skipSpace(object, i); i < len(object) && object[i] == '"'; i = skipSpace(object, i) {
		name := i
		i = strictjson.StringEnd(object, i+1) + 1
		nameEnd := min(i, len(object))
		i = skipSpace(object, skipSpace(object, i)+1) // the colon
		value := i
		i = valueEnd(object, i)
		if value >= i || !each(object[name:nameEnd:nameEnd], object[value:i:i]) {
			return
		}
		if i = skipSpace(object, i); i < len(object) && object[i] == ',' {
			i++
		}
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
	var few [8][]byte // most objects have no more members, and need no map
	seen, others := few[:0], map[string]bool(nil)
	for quoted := range object.All() {
		text := Unquote(quoted)
		switch {
		case others[string(text)] || slices.ContainsFunc(seen, func(known []byte) bool { return bytes.Equal(known, text) }):
			return string(text), true
		case len(seen) < len(few):
			seen = append(seen, text)
		case others == nil:
			others = map[string]bool{string(text): true}
		default:
			others[string(text)] = true
		}
	}
	return "", false
}

// Items returns an iterator over the elements of an array, as [Members] does for the members of an object.
func Items(array jsontext.Value) iter.Seq[jsontext.Value] {
	return func(yield func(item jsontext.Value) bool) { eachItem(array, yield) }
}

func eachItem(array jsontext.Value, each func(item jsontext.Value) bool) {
	if len(array) == 0 || array.Kind() != '[' {
		return
	}
	i := bytes.IndexByte(array, '[') + 1
	for i = skipSpace(array, i); i < len(array) && array[i] != ']'; i = skipSpace(array, i) {
		item := i
		i = valueEnd(array, i)
		if item >= i || !each(array[item:i:i]) {
			return
		}
		if i = skipSpace(array, i); i < len(array) && array[i] == ',' {
			i++
		}
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

func skipSpace(text []byte, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// valueEnd returns where the value that begins at i ends.
func valueEnd(text []byte, i int) int {
	depth := 0
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			if i = strictjson.StringEnd(text, i+1); depth == 0 {
				return min(i+1, len(text))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 { // the end of the object, after a number or a literal
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return min(i, len(text)) // a text that is cut in a string has its end after it
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
