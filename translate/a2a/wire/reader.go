package wire

import (
	"bytes"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// reader reads the values of a JSON text. Readers are pooled, since making one costs more than reading a small text.
type reader struct {
	text    []byte
	source  bytes.Buffer
	decoder jsontext.Decoder
}

var readers = sync.Pool{New: func() any { return new(reader) }}

// readOptions are the options with which the server has checked the text.
var readOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

// read returns a reader of a text.
func read(text []byte) *reader {
	r := readers.Get().(*reader)
	r.reset(text)
	return r
}

// release puts the reader back into its pool without the text.
func (r *reader) release() {
	r.reset(nil)
	readers.Put(r)
}

func (r *reader) reset(text []byte) {
	r.text, r.source = text, *bytes.NewBuffer(text)
	r.decoder.Reset(&r.source, readOptions...)
}

// enter reads the bracket that opens an array or object. It returns false if the next value does not begin with that bracket.
func (r *reader) enter(bracket jsontext.Kind) bool {
	if r.decoder.PeekKind() != bracket {
		return false
	}
	_, err := r.decoder.ReadToken()
	return err == nil
}

// more reports whether the array or object has a further value. Otherwise it reads the closing bracket.
func (r *reader) more() bool {
	switch r.decoder.PeekKind() {
	case '}', ']':
		_, _ = r.decoder.ReadToken() // can't fail: PeekKind has seen it
		return false
	case jsontext.KindInvalid:
		return false
	}
	return true
}

// value reads a value and returns it as a slice of the text; nil: there is none. The decoder's own slice would be valid only
// until its next call.
func (r *reader) value() jsontext.Value {
	v, err := r.decoder.ReadValue()
	if err != nil {
		return nil
	}
	end := int(r.decoder.InputOffset())
	return r.text[end-len(v) : end : end]
}
