package document

import (
	"bytes"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRepaired is the size of the largest JSON text of which a repaired copy is made, in bytes: names of an object are in memory meanwhile, and
// U+FFFD has three bytes.
const MaxRepaired = 1 << 20

// span is a part of a text.
type span struct{ from, to int }

// LastMembers returns a JSON text of which objects have several members of one name without all but the last of them. It returns nil if that is
// not possible: the syntax of the text is wrong, or it says two different things about which run it is about, or its state.
func LastMembers(text []byte) []byte {
	type object struct {
		starts []int          // of members
		last   map[string]int // index of the member with a name
	}
	var open []*object // nil: an array
	var cut []span
	member, states := "", map[string]string{} // of the text itself: the latest name, and the values that must be one
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		before := int(d.InputOffset())
		kind, length := d.StackIndex(d.StackDepth())
		isName := kind == '{' && length%2 == 0
		token, err := d.ReadToken()
		if err != nil {
			return nil
		}
		if len(open) == 1 && !isName && (member == "status" || member == "execution_id") {
			value := token.Kind().String() + token.String()
			if earlier, again := states[member]; again && earlier != value {
				return nil
			}
			states[member] = value
		}
		switch token.Kind() {
		case '{':
			open = append(open, &object{last: map[string]int{}})
		case '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			if !isName {
				break
			}
			o, name := open[len(open)-1], token.String()
			o.starts = append(o.starts, before+bytes.IndexByte(text[before:], '"'))
			if len(open) == 1 {
				member = name
			}
			if i, again := o.last[name]; again {
				cut = append(cut, span{o.starts[i], o.starts[i+1]})
			}
			o.last[name] = len(o.starts) - 1
		}
		if len(open) == 0 {
			return without(text, cut)
		}
	}
}

// without returns a copy of a text without some parts, which may be parts of each other.
func without(text []byte, cut []span) []byte {
	slices.SortFunc(cut, func(a, b span) int { return a.from - b.from })
	rest, at := make([]byte, 0, len(text)), 0
	for _, c := range cut {
		if c.to > at {
			rest = append(rest, text[at:max(at, c.from)]...)
			at = c.to
		}
	}
	return append(rest, text[at:]...)
}

// escape matches an escape in a JSON text. That of a surrogate pair is one.
var escape = regexp.MustCompile(`\\(?:u[dD][89abAB][[:xdigit:]]{2}\\u[dD][c-fC-F][[:xdigit:]]{2}|u[[:xdigit:]]{4}|.)`)

// ReplaceHalfPairs returns a copy of a JSON text in which each escape of half a surrogate pair is replaced by that of U+FFFD.
func ReplaceHalfPairs(text []byte) []byte {
	return escape.ReplaceAllFunc(text, func(found []byte) []byte {
		if len(found) == len(`\ud800`) && (found[2] == 'd' || found[2] == 'D') && found[3] >= '8' {
			return []byte(`\ufffd`)
		}
		return found
	})
}

// ReplaceBytes returns a copy of a JSON text in which each byte that is not UTF-8 is replaced by U+FFFD.
func ReplaceBytes(text []byte) []byte { return []byte(string([]rune(string(text)))) }

// Replaced reports whether a member that identifies the run, or says its state, has U+FFFD.
func (m *Members) Replaced() bool {
	for _, value := range []jsontext.Value{m.executionID, m.Status} {
		if bytes.Contains(value, []byte(`\ufffd`)) || bytes.ContainsRune(value, utf8.RuneError) {
			return true
		}
	}
	return false
}
