package document

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxRepaired is the size of the largest JSON text of which a repaired copy is made, in bytes: the names of an object are in memory meanwhile, and
// U+FFFD has three bytes.
const maxRepaired = 1 << 20

// Repaired returns a copy of a JSON text without bytes that are not UTF-8 and halves of surrogate pairs, in whose places is U+FFFD, and with the last of
// several members of one name. It returns nil if the text has other faults, or does not say clearly which run it is about, or its state.
func Repaired(text []byte) []byte {
	if len(text) > maxRepaired {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	whole := repaired(d)
	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // which the decoder returns as it is
		return nil
	}
	return whole
}

// repaired reads the next value and returns it repaired; nil: that is not possible.
func repaired(d *jsontext.Decoder) jsontext.Value {
	kind := d.PeekKind()
	if kind != '{' && kind != '[' {
		value, err := d.ReadValue()
		if err != nil {
			return nil
		}
		if value = value.Clone(); !value.IsValid() {
			value, _ = jsontext.AppendQuote(nil, unquoted(value))
		}
		return value
	}
	_, _ = d.ReadToken()
	var names, values []jsontext.Value
	last := map[string]int{}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		if kind == '{' {
			names = append(names, repaired(d))
		}
		value := repaired(d)
		if value == nil {
			return nil
		}
		if values = append(values, value); kind == '[' {
			continue
		}
		name := unquoted(names[len(names)-1])
		before, again := last[name]
		if d.StackDepth() == 1 && (name == "status" || name == "execution_id") &&
			(strings.ContainsRune(unquoted(value), utf8.RuneError) || again && unquoted(values[before]) != unquoted(value)) {
			return nil
		}
		if last[name] = len(values) - 1; again {
			values[before] = nil
		}
	}
	end, err := d.ReadToken()
	if err != nil {
		return nil
	}
	whole := jsontext.Value(kind.String())
	for i, value := range values {
		if value == nil {
			continue
		}
		if len(whole) > 1 {
			whole = append(whole, ',')
		}
		if kind == '{' {
			whole = append(append(whole, names[i]...), ':')
		}
		whole = append(whole, value...)
	}
	return append(whole, end.Kind().String()...)
}

// unquoted returns the text of a JSON string, with U+FFFD for what is not valid.
func unquoted(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}
