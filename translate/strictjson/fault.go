package strictjson

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

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
