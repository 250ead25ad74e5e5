package document

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxCopied is the size of the largest JSON text of which a repaired copy is made, in bytes: names of an object are in memory meanwhile, and
// U+FFFD has three bytes.
const maxCopied = 1 << 20

// span is a part of a text.
type span struct{ from, to int }

// LastMembers returns a JSON text of which objects have several members of one name without all but the last of them. It returns nil if that is
// not possible: the syntax of the text is wrong, or it is too large, or it says two different things about which run it is about, or its state.
func LastMembers(text []byte) []byte {
	if len(text) > maxCopied {
		return nil
	}
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

// ReplaceHalfPairs replaces each escape of half a surrogate pair in a JSON text, without a copy, by that of U+FFFD.
func ReplaceHalfPairs(text []byte) {
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); {
		step := 2
		if half := surrogate(text[i:]); half != 0 {
			if step = 6; half == high && surrogate(text[i+6:]) == low {
				step = 12
			} else {
				copy(text[i+2:], "fffd")
			}
		}
		next := bytes.IndexByte(text[min(i+step, len(text)):], '\\')
		if next < 0 {
			return
		}
		i += step + next
	}
}

// ReplaceBytes returns a copy of a JSON text in which each byte that is not UTF-8 is replaced by U+FFFD; nil: the text is too large.
func ReplaceBytes(text []byte) []byte {
	if len(text) > maxCopied {
		return nil
	}
	valid := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range string(text) { // U+FFFD for each such byte
		valid = utf8.AppendRune(valid, r)
	}
	return valid
}

// Replaced reports whether a member that identifies the run, or says its state, has U+FFFD.
func (m *Members) Replaced() bool {
	for _, value := range []jsontext.Value{m.executionID, m.Status} {
		if bytes.Contains(value, []byte(`\ufffd`)) || bytes.ContainsRune(value, utf8.RuneError) {
			return true
		}
	}
	return false
}

// Halves of surrogate pairs.
const (
	high = 1 + iota
	low
)

// surrogate returns which half of a surrogate pair a text begins with the escape of; 0: none.
func surrogate(text []byte) int {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	switch {
	case err != nil || code < 0xd800 || code > 0xdfff:
		return 0
	case code < 0xdc00:
		return high
	}
	return low
}
