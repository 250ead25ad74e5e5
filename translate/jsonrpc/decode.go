package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/nesting"
)

// Message is a decoded body.
type Message struct {
	// Batch tells an array of one element from that element alone.
	Batch bool
	// Elements has one entry unless Batch is set, and is never empty.
	Elements []Element
}

// Element is one request of a body, or what is wrong with it.
type Element struct {
	// Request is valid if Err is nil. Otherwise only its ID matters: the id to
	// answer with, nil meaning null.
	Request Request
	// Err is an Invalid Request error, which is to be answered.
	Err *Error
}

// Decode reads a body. It returns the requests in it, or the one error (with id
// null) that answers the body as a whole: a parse error where it is not exactly
// one JSON text of valid UTF-8 within the allowed depth, an Invalid Request where
// it is an empty batch or one with too many elements. One leading byte order
// mark is skipped (RFC 8259, section 8.1).
//
// Everything raw in the message is a slice of body, which must not be changed
// while the message is in use. Decode does not change it either.
func Decode(body []byte, p *Profile) (Message, *Error) {
	text := bytes.TrimPrefix(body, []byte("\ufeff"))
	if nesting.Deeper(text, p.maxDepth()) {
		return Message{}, p.fault(CodeParseError, "nested deeper than "+strconv.Itoa(p.maxDepth())+" levels")
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.reset(text)
	msg, fault, err := s.message(p)
	if err != nil {
		return Message{}, p.fault(CodeParseError, syntaxReason(err, len(body)-len(text)))
	}
	return msg, fault
}

// syntaxReason describes a failed parse without repeating the text.
func syntaxReason(err error, skipped int) string {
	if errors.Is(err, io.EOF) {
		return "the body is empty"
	}
	syntactic, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return "not a JSON text"
	}
	what := "not a JSON text"
	switch {
	case errors.Is(syntactic.Err, io.ErrUnexpectedEOF):
		what = "the JSON text ends too early"
	case syntactic.Err != nil:
		what = syntactic.Err.Error()
	}
	return what + " at byte " + strconv.FormatInt(syntactic.ByteOffset+int64(skipped), 10)
}

// scanner is a parser and the text under it, kept together to be used again.
type scanner struct {
	text    []byte
	source  bytes.Buffer
	decoder jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanOptions leave duplicate names to the envelope and to the handler.
var scanOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

func (s *scanner) reset(text []byte) {
	s.text = text
	s.source = *bytes.NewBuffer(text)
	s.decoder.Reset(&s.source, scanOptions...)
}

// release gives the scanner back without its hold on the text.
func (s *scanner) release() {
	s.reset(nil)
	scanners.Put(s)
}

// message reads the whole text. err is a fault of syntax.
func (s *scanner) message(p *Profile) (msg Message, fault *Error, err error) {
	if s.decoder.PeekKind() == '[' {
		msg, fault, err = s.batch(p)
	} else {
		msg, err = s.single(p)
	}
	if err != nil {
		return Message{}, nil, err
	}
	return msg, fault, s.end()
}

func (s *scanner) single(p *Profile) (Message, error) {
	element, err := s.element(p)
	if err != nil {
		return Message{}, err
	}
	return Message{Elements: []Element{element}}, nil
}

// batch reads an array to its end even where it has too many elements: what is
// not JSON is a parse error first.
func (s *scanner) batch(p *Profile) (Message, *Error, error) {
	if _, err := s.decoder.ReadToken(); err != nil {
		return Message{}, nil, err
	}
	var elements []Element
	for s.decoder.PeekKind() != ']' {
		if len(elements) >= p.MaxBatch {
			return s.oversized(p)
		}
		element, err := s.element(p)
		if err != nil {
			return Message{}, nil, err
		}
		elements = append(elements, element)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return Message{}, nil, err
	}
	if len(elements) == 0 {
		return Message{}, p.fault(CodeInvalidRequest, "the batch is empty"), nil
	}
	return Message{Batch: true, Elements: elements}, nil, nil
}

// oversized reads what is left of an array that is refused.
func (s *scanner) oversized(p *Profile) (Message, *Error, error) {
	for s.decoder.PeekKind() != ']' {
		if _, err := s.value(); err != nil {
			return Message{}, nil, err
		}
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return Message{}, nil, err
	}
	reason := "batches are not supported here: send one request at a time"
	if p.MaxBatch > 0 {
		reason = "the batch has more than " + strconv.Itoa(p.MaxBatch) + " elements: send several smaller ones"
	}
	return Message{}, p.fault(CodeInvalidRequest, reason), nil
}

// element reads one value that should be a Request object.
func (s *scanner) element(p *Profile) (Element, error) {
	if s.decoder.PeekKind() != '{' {
		if _, err := s.value(); err != nil {
			return Element{}, err
		}
		return Element{Err: p.fault(CodeInvalidRequest, "a request must be an object")}, nil
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return Element{}, err
	}
	var members envelope
	for s.decoder.PeekKind() != '}' {
		name, err := s.value()
		if err != nil {
			return Element{}, err
		}
		value, err := s.value()
		if err != nil {
			return Element{}, err
		}
		members.add(memberOf(name), value)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return Element{}, err
	}
	return members.element(p), nil
}

// value reads the next value (or member name) as a slice of the text. The
// parser's own slice is good only until its next step, offsets are good for ever.
func (s *scanner) value() (jsontext.Value, error) {
	v, err := s.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(s.decoder.InputOffset())
	return s.text[end-len(v) : end : end], nil
}

var errTrailing = errors.New("data after the JSON text")

// end insists that nothing but white space is left.
func (s *scanner) end() error {
	offset := s.decoder.InputOffset()
	if _, err := s.decoder.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return &jsontext.SyntacticError{ByteOffset: offset, Err: errTrailing}
}
