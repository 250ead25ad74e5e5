package strictjson

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Parser reads a text value by value: a [Reader] or a [Decoder]. After an error, all its methods report that.
type Parser interface {
	// Kind returns the first byte of the next name or value, or the bracket that ends the object or array; 0: there is none, or an error.
	// For numbers, it is any byte that no other value begins with.
	Kind() byte
	// More reports whether the object or array has another name or value.
	More() bool
	// Bracket reads the beginning or the end of an object or array. It reports whether there is one.
	Bracket() bool
	// Value reads the next name or value, and returns its place in the text; nil: there is an error. Names have quotation marks.
	Value() []byte
	// At returns the index after what was read last.
	At() int
	// End reports whether the whole text was read, without an error.
	End() bool
	// GiveBack makes the parser available for reuse.
	GiveBack()
}

// Decoder is the [Parser] that decides: it reads with package jsontext, and knows why it refuses a text.
type Decoder struct {
	text    []byte
	source  bytes.Buffer
	decoder jsontext.Decoder
	err     error
}

var decoders = sync.Pool{New: func() any { return new(Decoder) }}

// maxReused is the size of the largest text, in bytes, after which a decoder that refuses duplicates is reused: it keeps memory for names.
const maxReused = 256 << 10

// ErrTrailing is the error, in a [jsontext.SyntacticError], of a text with more than one value.
var ErrTrailing = errors.New("data after the JSON text")

// BorrowDecoder returns a decoder of a text.
func BorrowDecoder(text []byte, duplicates bool) *Decoder {
	d := decoders.Get().(*Decoder)
	d.reset(text, jsontext.AllowDuplicateNames(duplicates))
	return d
}

func (d *Decoder) reset(text []byte, options ...jsontext.Options) {
	d.text, d.err = text, nil
	d.source = *bytes.NewBuffer(text)
	d.decoder.Reset(&d.source, options...)
}

// GiveBack implements [Parser].
func (d *Decoder) GiveBack() {
	if len(d.text) <= maxReused {
		d.reset(nil)
		decoders.Put(d)
	}
}

// Err returns the first error; nil: there was none.
func (d *Decoder) Err() error { return d.err }

// Kind implements [Parser].
func (d *Decoder) Kind() byte {
	if d.err != nil {
		return 0
	}
	return byte(d.decoder.PeekKind())
}

// More implements [Parser].
func (d *Decoder) More() bool { return d.err == nil && hasMore(d.Kind()) }

// Bracket implements [Parser].
func (d *Decoder) Bracket() bool {
	if d.err == nil {
		_, d.err = d.decoder.ReadToken()
	}
	return d.err == nil
}

// Value implements [Parser].
func (d *Decoder) Value() []byte {
	if d.err != nil {
		return nil
	}
	var value jsontext.Value
	if value, d.err = d.decoder.ReadValue(); d.err != nil {
		return nil
	}
	end := d.At()
	return d.text[end-len(value) : end : end]
}

// At implements [Parser].
func (d *Decoder) At() int { return int(d.decoder.InputOffset()) }

// End implements [Parser].
func (d *Decoder) End() bool {
	if d.err == nil {
		offset := d.decoder.InputOffset()
		if _, err := d.decoder.ReadToken(); !errors.Is(err, io.EOF) {
			d.err = &jsontext.SyntacticError{ByteOffset: offset, Err: ErrTrailing}
		}
	}
	return d.err == nil
}
