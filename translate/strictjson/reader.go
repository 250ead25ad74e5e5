package strictjson

import (
	"bytes"
	"errors"
	"io"
	"math"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads a text value by value. It refuses what is wrong: then all its methods report that. Where no object may have two members of one name, it
// also refuses names with escape sequences, and objects with very many names: [Fault] says whether the text is wrong.
type Reader struct {
	text  []byte
	at    int
	state state
	kind  byte // of the token at at, once it is known that it may be there
	depth int  // limit of the level
	// unique says that no object may have two members of one name.
	unique bool
	deeper bool // an object or array nests too deep

	level   int // of the objects and arrays that have begun
	objects [maxLevel/64 + 1]uint64
	names   names
}

// maxLevel is how deep the objects and arrays of a text may nest at most.
const maxLevel = 1023

// state is what may follow in a text.
type state uint8

const (
	atStart state = iota // of the text
	atFirst              // of an object or array
	atColon
	atComma // or the end of the object or array
	atEnd   // of the text
	refused
)

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Borrow returns a reader of a text whose objects and arrays nest at most so deep. If duplicates is false, it refuses objects in which a
// name appears twice.
func Borrow(text []byte, depth int, duplicates bool) *Reader {
	r := readers.Get().(*Reader)
	r.text, r.at, r.state, r.kind, r.level = text, 0, atStart, 0, 0
	r.depth, r.unique, r.deeper = min(depth, maxLevel), !duplicates, false
	r.names.list = r.names.list[:0]
	if len(text) > math.MaxInt32 {
		r.state = refused
	}
	return r
}

// GiveBack makes the reader available for reuse.
func (r *Reader) GiveBack() {
	r.text = nil
	readers.Put(r)
}

// Kind returns the first byte of the next name or value, or the bracket that ends the object or array; 0: there is none, or an error. If it is any
// other byte, Value refuses the text.
func (r *Reader) Kind() byte {
	if r.kind != 0 {
		return r.kind
	}
	t, i := r.text, Space(r.text, r.at)
	if i == len(t) || r.state >= atEnd {
		return r.refuse()
	}
	isFirst, canEnd := r.state == atFirst, r.state == atFirst || r.state == atComma
	c := t[i]
	if !isFirst && r.state != atStart && c == separators[r.state] {
		if i = Space(t, i+1); i == len(t) {
			return r.refuse()
		}
		c, isFirst, canEnd = t[i], true, false
	}
	isName := r.state != atColon && r.inObject()
	switch {
	case c == '}' && canEnd && isName, c == ']' && canEnd && !isName:
	case c == '}', c == ']', isName && c != '"', !isFirst && r.state != atStart:
		return r.refuse()
	}
	r.at, r.kind = i, c
	return c
}

// More reports whether the object or array has another name or value.
func (r *Reader) More() bool {
	kind := r.Kind()
	return kind != 0 && kind != '}' && kind != ']'
}

// separators stand before a value, by the state.
var separators = [...]byte{atColon: ':', atComma: ','}

func (r *Reader) refuse() byte {
	r.state, r.kind = refused, 0
	return 0
}

func (r *Reader) inObject() bool { return r.level > 0 && r.objects[r.level/64]>>(r.level%64)&1 == 1 }

// Bracket reads the beginning or the end of an object or array. It reports whether there is one.
func (r *Reader) Bracket() bool {
	switch c := r.Kind(); {
	case (c == '{' || c == '[') && r.begin(c == '{'):
		r.at++
		r.state, r.kind = atFirst, 0
		return true
	case (c == '}' || c == ']') && r.end():
		r.at++
		r.read()
		return true
	}
	r.refuse()
	return false
}

// read sets the state after a value.
func (r *Reader) read() {
	r.state, r.kind = atComma, 0
	if r.level == 0 {
		r.state = atEnd
	}
}

// begin begins an object or array. It reports whether it may nest so deep.
func (r *Reader) begin(isObject bool) bool {
	if r.deeper = r.level >= r.depth; r.deeper {
		return false
	}
	r.level++
	word, bit := &r.objects[r.level/64], uint64(1)<<(r.level%64)
	*word &^= bit
	if isObject {
		*word |= bit
		r.names.begin(r.level)
	}
	return true
}

// end ends an object or array. It reports whether its names are unique, if they have to be.
func (r *Reader) end() bool {
	isValid := !r.unique || !r.inObject() || r.names.end(r.text, r.level)
	r.level--
	return isValid
}

// Value reads the next name or value, and returns its place in the text; nil: there is an error. Names have quotation marks.
func (r *Reader) Value() []byte {
	c, start := r.Kind(), r.at
	isName := r.state != atColon && r.inObject()
	end := 0
	switch {
	case c == 0, c == '}', c == ']':
	case isName:
		end = r.name(start)
	default:
		end = r.value(start)
	}
	if end == 0 {
		r.refuse()
		return nil
	}
	r.at = end
	if isName {
		r.state, r.kind = atColon, 0
	} else {
		r.read()
	}
	return r.text[start:end:end]
}

// At returns the index after what was read last.
func (r *Reader) At() int { return r.at }

// End reports whether the whole text was read, without an error.
func (r *Reader) End() bool { return r.state == atEnd && Space(r.text, r.at) == len(r.text) }

// Deeper reports whether the text was refused because an object or array in it nests too deep.
func (r *Reader) Deeper() bool { return r.deeper }

// name reads the name at i, and returns the index after it; 0: it is refused.
func (r *Reader) name(i int) int {
	end, _, isPlain := String(r.text, i)
	if end > 0 && r.unique && (!isPlain || !r.names.add(r.text, r.level, i+1, end-1)) { // an escape sequence may stand for any character
		return 0
	}
	return end
}

// value reads the value at i, and returns the index after it; 0: it is refused.
func (r *Reader) value(i int) int {
	t, top := r.text, r.level
	for {
		switch c := t[i]; c {
		case '"':
			i, _, _ = String(t, i)
		case '{', '[':
			if !r.begin(c == '{') {
				return 0
			}
			if i = Space(t, i+1); i < len(t) && t[i] == c+2 {
				i++
				r.end()
				break
			}
			if c == '{' {
				i = r.named(i)
			}
			if i == 0 || i >= len(t) {
				return 0
			}
			continue
		case 't':
			i = Literal(t, i, "true")
		case 'f':
			i = Literal(t, i, "false")
		case 'n':
			i = Literal(t, i, "null")
		default:
			i, _, _ = Number(t, i)
		}
		if i == 0 {
			return 0
		}
		for r.level > top { // until there is another value
			if i = Space(t, i); i == len(t) {
				return 0
			}
			isObject := r.inObject()
			if t[i] == ',' {
				i = Space(t, i+1)
				if isObject {
					i = r.named(i)
				}
				if i == 0 || i == len(t) {
					return 0
				}
				break
			}
			if isObject && t[i] != '}' || !isObject && t[i] != ']' || !r.end() {
				return 0
			}
			i++
		}
		if r.level == top {
			return i
		}
	}
}

// named reads the name at i and the colon, and returns the index of the value; 0: the name is refused.
func (r *Reader) named(i int) int {
	t := r.text
	if i >= len(t) || t[i] != '"' {
		return 0
	}
	if i = r.name(i); i == 0 {
		return 0
	}
	if i = Space(t, i); i == len(t) || t[i] != ':' {
		return 0
	}
	return Space(t, i+1)
}

// errTrailing is the error, in a [jsontext.SyntacticError], of a text with more than one value.
var errTrailing = errors.New("data after the JSON text")

// Fault returns what package jsontext has against a text: [io.EOF] for an empty one, else a [jsontext.SyntacticError]; nil: it is the text of one value. It
// decides about what a [Reader] refuses.
func Fault(text []byte, duplicates bool) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(duplicates))
	if _, err := d.ReadValue(); err != nil {
		return err
	}
	offset := d.InputOffset()
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &jsontext.SyntacticError{ByteOffset: offset, Err: errTrailing}
	}
	return nil
}
