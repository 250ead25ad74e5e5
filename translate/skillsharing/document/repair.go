package document

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDuplicates is the size of the largest JSON text from which members are removed, in bytes: the names of an object are in memory meanwhile.
const maxDuplicates = 1 << 20

// span is a part of a text.
type span struct{ from, to int }

// LastMembers returns a JSON text of which objects have several members of one name without all but the last of them. It returns nil if that is
// not possible: the text is wrong for other reasons, too, or too large, or the object is the text itself. Two states of a run are none.
func LastMembers(text []byte) []byte {
	if len(text) > maxDuplicates {
		return nil
	}
	type object struct {
		starts []int          // of members
		last   map[string]int // index of the member with a name
	}
	var open []*object // nil: an array
	var cut []span
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		before := int(d.InputOffset())
		kind, length := d.StackIndex(d.StackDepth())
		isName := kind == '{' && length%2 == 0
		token, err := d.ReadToken()
		if err != nil {
			return nil
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
			if i, again := o.last[name]; again {
				if len(open) == 1 {
					return nil
				}
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

// Replaced reports whether a member that identifies the run, or says its state, has the escape of U+FFFD.
func (m *Members) Replaced() bool {
	return bytes.Contains(m.executionID, []byte(`\ufffd`)) || bytes.Contains(m.Status, []byte(`\ufffd`))
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
