package acceptor

import (
	"math"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/jsonvalue"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// reader reads a JSON text. It accepts no text that [jsonvalue.Read] refuses: it leaves all that is unusual to the library.
type reader struct {
	text   []byte
	at     int
	values int // which may still be read
	depth  int // objects and arrays that may still be nested
	// names are those of members without a bit, of the objects that have begun.
	names [4 * maxOthers]name
	known int // names
	// order has the indexes of the named members of the object that was last read at each depth: most objects of an array have the same order.
	order [32][8]uint8
}

// name is the place of a name in the text.
type name struct{ start, end int32 }

// maxOthers is the largest number of members without a bit that one object may have: each is compared with all before. All objects that
// have begun may have four times as many.
const maxOthers = 16

// Accepts reports whether a text is certainly the text of a value that the schema accepts, with at most so many values, and so many
// objects and arrays within each other. It takes a few nanoseconds a byte and allocates nothing for usual texts.
func (a *Acceptor) Accepts(text []byte, values, depth int) bool {
	if a.kinds == 0 || len(text) > math.MaxInt32 {
		return false
	}
	r := reader{text: text, values: values, depth: depth}
	if !a.value(&r) {
		return false
	}
	r.space()
	return r.at == len(r.text)
}

// value reads a value. It reports whether the schema certainly accepts it.
func (a *Acceptor) value(r *reader) bool {
	r.space()
	if r.at == len(r.text) || r.values == 0 {
		return false
	}
	r.values--
	start := r.at
	var isAccepted bool
	switch c := r.text[r.at]; c {
	case '{':
		return a.kinds&jsonvalue.TypeObject != 0 && a.acceptsObject(r)
	case '[':
		return a.kinds&jsonvalue.TypeArray != 0 && a.acceptsArray(r)
	case '"':
		isAccepted = a.kinds&jsonvalue.TypeString != 0 && a.acceptsText(r)
	case 't':
		isAccepted = a.kinds&jsonvalue.TypeBoolean != 0 && r.literal("true")
	case 'f':
		isAccepted = a.kinds&jsonvalue.TypeBoolean != 0 && r.literal("false")
	case 'n':
		isAccepted = a.kinds&jsonvalue.TypeNull != 0 && r.literal("null")
	default:
		isAccepted = a.kinds&jsonvalue.Numbers != 0 && a.acceptsNumber(r)
	}
	if isAccepted && a.only != nil {
		_, isAccepted = a.only[string(r.text[start:r.at])]
	}
	return isAccepted
}

func (a *Acceptor) acceptsText(r *reader) bool {
	_, characters, _ := r.string()
	return characters >= 0 && (a.text == nil || a.text.least <= characters && characters <= a.text.most)
}

func (a *Acceptor) acceptsNumber(r *reader) bool {
	raw, kind := r.number()
	return kind&a.kinds != 0 && (a.number == nil || a.number.accept(raw))
}

func (a *Acceptor) acceptsArray(r *reader) bool {
	if r.depth == 0 {
		return false
	}
	r.depth--
	r.at++
	n := 0
	for r.next(']', n == 0) {
		of := anything
		if a.array != nil {
			if of = a.array.rest; n < len(a.array.first) {
				of = a.array.first[n]
			}
		}
		if !of.value(r) {
			return false
		}
		n++
	}
	if !r.ended(']') {
		return false
	}
	r.depth++
	return a.array == nil || a.array.least <= n && n <= a.array.most
}

func (a *Acceptor) acceptsObject(r *reader) bool {
	if r.depth == 0 {
		return false
	}
	r.depth--
	r.at++
	n, seen, others := 0, uint64(0), r.known
	for r.next('}', n == 0) {
		of, bit, isNew := anything, uint64(0), true
		i := r.usual(a.object, n)
		if i < 0 {
			called, isPlain := r.member()
			if !isPlain {
				return false
			}
			if a.object != nil {
				of = a.object.others
				if i = a.object.index(r.text[called.start:called.end]); i >= 0 {
					r.note(n, i)
				}
			}
			if i < 0 {
				isNew = r.isNew(called, others)
			}
		}
		if i >= 0 {
			of, bit = a.object.named[i].value, 1<<i
			isNew = bit&seen == 0
		}
		seen |= bit
		if !isNew || !of.value(r) {
			return false
		}
		n++
	}
	if !r.ended('}') {
		return false
	}
	r.depth++
	r.known = others
	return a.object == nil || seen&a.object.required == a.object.required && a.object.least <= n && n <= a.object.most
}

// usual reads the name of the n-th member and the colon, if they are those of the object before. It returns the index of the member; -1: they
// are not.
func (r *reader) usual(m *members, n int) int {
	if m == nil || r.depth >= len(r.order) || n >= len(r.order[0]) || len(m.named) == 0 {
		return -1
	}
	i := int(r.order[r.depth][n])
	if i >= len(m.named) {
		return -1
	}
	before := m.named[i].before
	if end := r.at + len(before); before != "" && end <= len(r.text) && string(r.text[r.at:end]) == before {
		r.at = end
		return i
	}
	return -1
}

// note notes that the n-th member of the object has an index.
func (r *reader) note(n, i int) {
	if r.depth < len(r.order) && n < len(r.order[0]) {
		r.order[r.depth][n] = uint8(i) //nolint:gosec // at most maxNamed
	}
}

// isNew keeps the name of a member. It reports whether the object, whose names begin at first, has certainly no other member with this name.
func (r *reader) isNew(called name, first int) bool {
	if r.known-first == maxOthers || r.known == len(r.names) {
		return false
	}
	for _, other := range r.names[first:r.known] {
		if string(r.text[other.start:other.end]) == string(r.text[called.start:called.end]) {
			return false
		}
	}
	r.names[r.known] = called
	r.known++
	return true
}

// space skips white space.
func (r *reader) space() { r.at = strictjson.Space(r.text, r.at) }

// next reads up to the next item of an array or object, and reports whether there is one. If there is none, the text is at the end of
// the array or object, or has a mistake.
func (r *reader) next(end byte, isFirst bool) bool {
	r.space()
	if r.at == len(r.text) || r.text[r.at] == end {
		return false
	}
	if isFirst {
		return true
	}
	if r.text[r.at] != ',' {
		return false
	}
	r.at++
	r.space()
	if r.at < len(r.text) && r.text[r.at] == end { // a comma too many
		r.at = len(r.text)
	}
	return r.at < len(r.text)
}

// ended reads the end of an array or object.
func (r *reader) ended(end byte) bool {
	if r.at == len(r.text) || r.text[r.at] != end {
		return false
	}
	r.at++
	return true
}

func (r *reader) literal(word string) bool {
	end := strictjson.Literal(r.text, r.at, word)
	r.at = max(r.at, end)
	return end > 0
}

// member reads the name of a member and the colon. It reports whether there is a name without escape sequences; others are left to the library.
func (r *reader) member() (called name, isPlain bool) {
	if r.at == len(r.text) || r.text[r.at] != '"' {
		return name{}, false
	}
	raw, characters, isPlain := r.string()
	if characters < 0 || !isPlain {
		return name{}, false
	}
	end := r.at - 1                                  // without the quote
	called = name{int32(end - len(raw)), int32(end)} //nolint:gosec // the text is at most MaxInt32 bytes long
	r.space()
	if r.at == len(r.text) || r.text[r.at] != ':' {
		return name{}, false
	}
	r.at++
	return called, true
}

// number reads a number. The kind is 0 if it is not a number, or is left to the library.
func (r *reader) number() (raw []byte, kind jsonvalue.TypeSet) {
	end, exponent, isInteger := strictjson.Number(r.text, r.at)
	if end == 0 || end-r.at > maxNumber || exponent > 2 { // a larger exponent may be beyond the doubles
		return nil, 0
	}
	raw, r.at = r.text[r.at:end], end
	if isInteger {
		return raw, jsonvalue.TypeInteger
	}
	return raw, jsonvalue.TypeNumber
}

// string reads a string. It returns what is between the quotes, and the number of characters; negative: the string is invalid. The string
// is plain if it has no escape sequence.
func (r *reader) string() (raw []byte, characters int, isPlain bool) {
	end, excess, isPlain := strictjson.String(r.text, r.at)
	if end == 0 {
		return nil, -1, false
	}
	raw = r.text[r.at+1 : end-1]
	r.at = end
	return raw, len(raw) - excess, isPlain
}
