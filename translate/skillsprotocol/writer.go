package skillsprotocol

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// writer appends JSON. Members are in the order in which they are added. Raw values are copied.
type writer struct{ buf []byte }

// next appends a comma unless the buffer is empty or ends in an opening bracket, which no JSON
// value does.
func (w *writer) next() {
	if n := len(w.buf); n > 0 && w.buf[n-1] != '{' && w.buf[n-1] != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) open()       { w.next(); w.buf = append(w.buf, '{') }
func (w *writer) close()      { w.buf = append(w.buf, '}') }
func (w *writer) closeArray() { w.buf = append(w.buf, ']') }

// name adds a member's name. It does not escape it.
func (w *writer) name(name string) {
	w.next()
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
}

func (w *writer) openMember(name string) {
	w.name(name)
	w.buf = append(w.buf, '{')
}

func (w *writer) openArray(name string) {
	w.name(name)
	w.buf = append(w.buf, '[')
}

func (w *writer) text(name, value string) {
	w.name(name)
	w.buf = appendString(w.buf, value)
}

// optional adds a text unless it is empty.
func (w *writer) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

// texts adds an array of texts.
func (w *writer) texts(name string, values []string) {
	w.openArray(name)
	for _, v := range values {
		w.next()
		w.buf = appendString(w.buf, v)
	}
	w.closeArray()
}

// raw adds a value unless it is empty.
func (w *writer) raw(name string, value jsontext.Value) {
	if len(value) > 0 {
		w.name(name)
		w.buf = append(w.buf, value...)
	}
}

func (w *writer) integer(name string, n int64) {
	w.name(name)
	w.buf = strconv.AppendInt(w.buf, n, 10)
}

func appendString(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}
