package jsonvalue

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// RawDecoder reads the raw values of a JSON text. Making a decoder costs more than
// reading a small text, so decoders are reused.
type RawDecoder struct {
	*jsontext.Decoder
	buffer bytes.Buffer
	size   int
}

var rawDecoders = sync.Pool{New: func() any { return &RawDecoder{Decoder: new(jsontext.Decoder)} }}

// maxReused is the size of the largest text, in bytes, after which a decoder is
// reused. A decoder keeps memory for the member names of the text.
const maxReused = 256 << 10

// BorrowDecoder returns a decoder of a text. If duplicates is true, it accepts a member name
// that appears twice in an object.
func BorrowDecoder(text []byte, duplicates bool) *RawDecoder {
	d := rawDecoders.Get().(*RawDecoder)
	d.buffer, d.size = *bytes.NewBuffer(text), len(text)
	d.Reset(&d.buffer, jsontext.AllowDuplicateNames(duplicates))
	return d
}

// GiveBack makes the decoder available for reuse, without the text.
func (d *RawDecoder) GiveBack() {
	if d.size > maxReused {
		return
	}
	d.buffer = bytes.Buffer{}
	d.Reset(&d.buffer)
	rawDecoders.Put(d)
}

// AtEnd reports whether the whole text was read.
func (d *RawDecoder) AtEnd() bool {
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}
