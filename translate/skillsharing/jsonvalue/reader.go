package jsonvalue

import (
	"bytes"
	"encoding/json" //nolint:depguard // only for the exact number type of package jsonschema
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/safetext"
	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// Number is the text of a JSON number, in the type that package jsonschema
// expects.
type Number = json.Number

// Bounds limits what is read of an untrusted JSON text.
type Bounds struct {
	Depth  int // objects and arrays within each other
	Values int // values in all
}

// TooMany returns the violation of a list at a path that has more than most items; nil: it has not.
func TooMany(path string, list []any, most int) *run.Violation {
	if len(list) <= most {
		return nil
	}
	expected := fmt.Sprintf("at most %d entries", most)
	return &run.Violation{Path: path, Message: "must have " + expected, Expected: Quoted(expected), Actual: Marshal(len(list))}
}

// The largest exponent and length of a number. Exact arithmetic with larger
// ones could take very long. All finite IEEE 754 doubles are within these
// bounds (RFC 8259, section 6).
const (
	maxExponent     = 400
	maxNumberLength = 1024
)

// Read reads one JSON text into the types that package jsonschema works on:
// map[string]any, []any, string, Number, bool and nil. It refuses texts that
// other parsers may read differently: those with duplicate member names,
// invalid UTF-8, or numbers that are not finite doubles.
func Read(text []byte, b Bounds) (any, *run.Violation) {
	r := reader{jsontext.NewDecoder(bytes.NewBuffer(text)), b, 0}
	v, err := r.value(0)
	if err == nil {
		err = r.end()
	}
	if err == nil {
		return v, nil
	}
	if flaw, ok := errors.AsType[*flawError](err); ok {
		return nil, &flaw.Violation
	}
	return nil, syntaxViolation(text, err)
}

type reader struct {
	dec    *jsontext.Decoder
	bounds Bounds
	values int
}

// flawError is the violation of a text that is valid JSON.
type flawError struct{ run.Violation }

func (e *flawError) Error() string { return e.Path + " " + e.Message }

func (r *reader) flaw(format string, args ...any) error {
	return &flawError{run.Violation{Path: safetext.Clip(string(r.dec.StackPointer()), MaxPath), Message: fmt.Sprintf(format, args...)}}
}

func (r *reader) value(depth int) (any, error) {
	token, err := r.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if r.values++; r.values > r.bounds.Values {
		return nil, &flawError{run.Violation{Message: fmt.Sprintf("must have at most %d values in all", r.bounds.Values)}}
	}
	switch token.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return token.Bool(), nil
	case '"':
		return token.String(), nil
	case '0':
		n := token.String()
		switch _, isZero := strictjson.Magnitude(n); {
		case readableNumber(n):
			return Number(n), nil
		case isZero: // however it is written
			return Number("0"), nil
		}
		return nil, r.flaw("must be a number within the range of a double, written in at most %d characters", maxNumberLength)
	default:
		if depth == r.bounds.Depth {
			return nil, r.flaw("must not be nested more than %d levels deep", r.bounds.Depth)
		}
		if token.Kind() == '[' {
			return r.array(depth)
		}
		return r.object(depth)
	}
}

func (r *reader) array(depth int) (any, error) {
	array := []any{}
	for r.dec.PeekKind() != ']' {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		array = append(array, v)
	}
	_, err := r.dec.ReadToken()
	return array, err
}

func (r *reader) object(depth int) (any, error) {
	object := map[string]any{}
	for r.dec.PeekKind() != '}' {
		token, err := r.dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		if object[name], err = r.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err := r.dec.ReadToken()
	return object, err
}

func (r *reader) end() error {
	_, err := r.dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("there is more after the value")
	default:
		return err
	}
}

func readableNumber(s string) bool {
	exponent, _ := strictjson.Magnitude(s)
	return len(s) <= maxNumberLength && -maxExponent <= exponent && exponent <= maxExponent && strictjson.IsFinite(s)
}

// syntaxViolation returns the violation of a text that can't be read. The
// violation has a path only if the text is JSON that I-JSON (RFC 7493)
// forbids.
func syntaxViolation(text []byte, err error) *run.Violation {
	if len(bytes.TrimSpace(text)) == 0 {
		return &run.Violation{Message: "is empty"}
	}
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	lenient := jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	switch {
	case ok && !lenient:
		before := text[:min(int(syntax.ByteOffset), len(text))]
		line, column := 1+bytes.Count(before, []byte{'\n'}), 1+utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
		return &run.Violation{Message: safetext.Clip(fmt.Sprintf("is not JSON: line %d, column %d: %v", line, column, syntax.Err), MaxActual)}
	case !ok:
		return &run.Violation{Message: safetext.Clip("is not JSON: "+strings.TrimPrefix(err.Error(), "jsontext: "), MaxActual)}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &run.Violation{Path: safetext.Clip(string(syntax.JSONPointer), MaxPath), Message: "must not appear twice in one object"}
	default:
		return &run.Violation{Path: safetext.Clip(string(syntax.JSONPointer), MaxPath), Message: "must be valid UTF-8"}
	}
}
