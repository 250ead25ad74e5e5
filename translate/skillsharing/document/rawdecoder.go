package document

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// rawDecoder reads JSON of which the raw values are of interest. Making one costs
// more than reading a small text, so they are used again.
type rawDecoder struct {
	*jsontext.Decoder
	buffer bytes.Buffer
	size   int
}

var rawDecoders = sync.Pool{New: func() any { return &rawDecoder{Decoder: new(jsontext.Decoder)} }}

// maxReused is the largest text after whose reading a decoder is worth keeping, in
// bytes: it remembers as many member names.
const maxReused = 256 << 10

// BorrowDecoder returns a decoder of a text. Where member names may appear twice,
// somebody else is to judge that.
func BorrowDecoder(text []byte, duplicates bool) *rawDecoder {
	d := rawDecoders.Get().(*rawDecoder)
	d.buffer, d.size = *bytes.NewBuffer(text), len(text)
	d.Reset(&d.buffer, jsontext.AllowDuplicateNames(duplicates))
	return d
}

// GiveBack keeps the decoder for another call, but not the text.
func (d *rawDecoder) GiveBack() {
	if d.size > maxReused {
		return
	}
	d.buffer = bytes.Buffer{}
	d.Reset(&d.buffer)
	rawDecoders.Put(d)
}

// atEnd reports whether there is nothing more.
func (d *rawDecoder) atEnd() bool {
	_, err := d.ReadToken()
	return errors.Is(err, io.EOF)
}
