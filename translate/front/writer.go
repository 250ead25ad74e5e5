package front

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
)

// Writer appends JSON. Members are in the order in which they are added. Raw values are copied.
type Writer struct{ Buf []byte }

// Next appends a comma unless the buffer is empty, or ends in an opening bracket or after the name of a member. No JSON value ends so.
func (w *Writer) Next() {
	if n := len(w.Buf); n > 0 && w.Buf[n-1] != '{' && w.Buf[n-1] != '[' && w.Buf[n-1] != ':' {
		w.Buf = append(w.Buf, ',')
	}
}

// Open opens an object as a value.
func (w *Writer) Open() { w.Next(); w.Buf = append(w.Buf, '{') }

// Close closes an object.
func (w *Writer) Close() { w.Buf = append(w.Buf, '}') }

// CloseArray closes an array.
func (w *Writer) CloseArray() { w.Buf = append(w.Buf, ']') }

// Name adds a member's name. It does not escape it.
func (w *Writer) Name(name string) {
	w.Next()
	w.Buf = append(w.Buf, '"')
	w.Buf = append(w.Buf, name...)
	w.Buf = append(w.Buf, '"', ':')
}

// Key begins a member, whatever its name; see [Writer.Name].
func (w *Writer) Key(name string) {
	w.Next()
	w.Buf = append(AppendText(w.Buf, name), ':')
}

// Error adds the member error with the error of an answer.
func (w *Writer) Error(e *jsonrpc.Error) {
	w.OpenMember("error")
	w.Integer("code", int64(e.Code))
	w.Text("message", e.Message)
	w.Raw("data", e.Data)
	w.Close()
}

// OpenMember adds a member and opens its object.
func (w *Writer) OpenMember(name string) {
	w.Name(name)
	w.Buf = append(w.Buf, '{')
}

// OpenArray adds a member and opens its array.
func (w *Writer) OpenArray(name string) {
	w.Name(name)
	w.Buf = append(w.Buf, '[')
}

// Text adds a text.
func (w *Writer) Text(name, value string) {
	w.Name(name)
	w.Buf = AppendText(w.Buf, value)
}

// Optional adds a text unless it is empty.
func (w *Writer) Optional(name, value string) {
	if value != "" {
		w.Text(name, value)
	}
}

// Texts adds an array of texts.
func (w *Writer) Texts(name string, values []string) {
	w.OpenArray(name)
	for _, v := range values {
		w.Next()
		w.Buf = AppendText(w.Buf, v)
	}
	w.CloseArray()
}

// Raw adds a value unless it is empty.
func (w *Writer) Raw(name string, value jsontext.Value) {
	if len(value) > 0 {
		w.Name(name)
		w.Buf = append(w.Buf, value...)
	}
}

// Integer adds a number.
func (w *Writer) Integer(name string, n int64) {
	w.Name(name)
	w.Buf = strconv.AppendInt(w.Buf, n, 10)
}

// Bool adds a boolean.
func (w *Writer) Bool(name string, is bool) {
	w.Name(name)
	w.Buf = strconv.AppendBool(w.Buf, is)
}

// Unsigned adds a number.
func (w *Writer) Unsigned(name string, n uint64) {
	w.Name(name)
	w.Buf = strconv.AppendUint(w.Buf, n, 10)
}

// AppendText appends a text as a JSON string.
func AppendText(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // the only error is bad UTF-8, which is replaced
	return b
}

// TextMap adds an object of texts, sorted by name. Unlike Name, it escapes their names.
func (w *Writer) TextMap(name string, texts map[string]string) {
	w.OpenMember(name)
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		w.Key(key)
		w.Buf = AppendText(w.Buf, texts[key])
	}
	w.Close()
}

// AnswerFaults adds warnings to an array: what was wrong with a provider's answer, and how it was read nevertheless.
func (w *Writer) AnswerFaults(faults []string) {
	for _, what := range faults {
		w.Open()
		w.Text("reason", "invalid_json")
		w.Text("message", "the provider's answer is not valid JSON: "+what)
		w.Close()
	}
}

// Object returns an object with the members that a function adds.
func Object(add func(*Writer)) jsontext.Value {
	w := Writer{Buf: []byte{'{'}}
	add(&w)
	w.Close()
	return w.Buf
}
