package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// message is a decoded body.
type message struct {
	// Batch says that the body is an array, possibly of one element.
	Batch bool
	// Elements has at least one element, and exactly one unless Batch is set.
	Elements []element

	single  [1]element
	members *memberBuffers
	body    *[]byte  // from the pool; nil: it was put back
	result  *[]byte  // from the pool, for ResultBuffer; nil: it was not called
	id      [64]byte // holds the id of a request after releaseText
	output  output   // of the answer, for Stream, unless Batch is set
}

// memberBuffers hold the members of all params (outer) and of the objects in them (inner).
type memberBuffers struct {
	outer, inner []Member
}

// maxMembers bounds the members of a message that are collected, since they take more memory than
// their text. If there are more, the handler has to parse the params.
const maxMembers = 2048

func (n *memberBuffers) full() bool { return len(n.outer)+len(n.inner) >= maxMembers }

// The pools of messages and member buffers.
var (
	messagePool = sync.Pool{New: func() any { return new(message) }}
	memberPool  = sync.Pool{New: func() any { return new(memberBuffers) }}
)

// release puts a message and its buffers back into their pools.
func (m *message) release() {
	m.releaseText()
	if m.result != nil {
		putBuffer(m.result)
	}
	*m = message{}
	messagePool.Put(m)
}

// releaseText puts the buffers of the text and of its members back into their pools.
func (m *message) releaseText() {
	if n := m.members; n != nil {
		m.members = nil
		clear(n.outer)
		clear(n.inner)
		*n = memberBuffers{n.outer[:0], n.inner[:0]}
		memberPool.Put(n)
	}
	if m.body != nil {
		putBuffer(m.body)
		m.body = nil
	}
}

// element is one request of a body, or the error that answers it.
type element struct {
	// Request is valid if Err is nil. Otherwise only its ID is set: the id of the
	// error; nil means null.
	Request Request
	// Err is an Invalid Request error.
	Err *Error
	// response says that the object is a Response object.
	response bool
}

// decode parses a body. It returns the error (with id null) that answers the whole
// body: a parse error if the body is not exactly one JSON text of valid UTF-8 within
// the allowed depth, an Invalid Request if it is an empty batch or has too many
// elements. One leading byte order mark is skipped (RFC 8259, section 8.1).
//
// The raw values of the message are slices of body, which must not be changed while
// the message is in use.
func (m *message) decode(body []byte, p *Profile) *Error {
	text := bytes.TrimPrefix(body, []byte("\ufeff"))
	if Deeper(text, p.maxDepth()) {
		depth := p.maxDepth()
		return p.exceeded(CodeParseError, "nested deeper than "+strconv.Itoa(depth)+" levels", Limit{p.LimitNames.Depth, int64(depth)})
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.reset(text, m)
	fault, err := s.read(p)
	if err != nil {
		m.Elements = nil
		return p.fault(CodeParseError, syntaxReason(err, len(body)-len(text)))
	}
	if fault != nil {
		m.Elements = nil
		return fault
	}
	return nil
}

// syntaxReason describes a syntax error without quoting the text.
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

// scanner is a parser with its text. Scanners are pooled.
type scanner struct {
	text    []byte
	message *message
	source  bytes.Buffer
	decoder jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanOptions allow duplicate names, which the envelope and the handler check.
var scanOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

func (s *scanner) reset(text []byte, m *message) {
	s.text, s.message = text, m
	s.source = *bytes.NewBuffer(text)
	s.decoder.Reset(&s.source, scanOptions...)
}

// release puts the scanner back into its pool without the text.
func (s *scanner) release() {
	s.reset(nil, nil)
	scanners.Put(s)
}

// read reads the whole text. err is a syntax error.
func (s *scanner) read(p *Profile) (fault *Error, err error) {
	if s.decoder.PeekKind() == '[' {
		s.message.Batch = true
		fault, err = s.batch(p)
	} else {
		s.message.Elements = s.message.single[:]
		s.message.single[0], err = s.element(p)
	}
	if err != nil {
		return nil, err
	}
	return fault, s.end()
}

// batch reads an array to its end, even if it has too many elements, since a syntax error
// takes precedence.
func (s *scanner) batch(p *Profile) (*Error, error) {
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, err
	}
	for s.decoder.PeekKind() != ']' {
		if len(s.message.Elements) >= p.MaxBatch {
			return s.oversized(p)
		}
		element, err := s.element(p)
		if err != nil {
			return nil, err
		}
		s.message.Elements = append(s.message.Elements, element)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, err
	}
	if len(s.message.Elements) == 0 {
		return p.fault(CodeInvalidRequest, "the batch is empty"), nil
	}
	return nil, nil
}

// oversized reads the rest of an array with too many elements.
func (s *scanner) oversized(p *Profile) (*Error, error) {
	for s.decoder.PeekKind() != ']' {
		if _, err := s.value(); err != nil {
			return nil, err
		}
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, err
	}
	if p.MaxBatch <= 0 {
		return p.fault(CodeInvalidRequest, "batches are not supported here: send one request at a time"), nil
	}
	reason := "the batch has more than " + strconv.Itoa(p.MaxBatch) + " elements: send several smaller ones"
	return p.exceeded(CodeInvalidRequest, reason, Limit{p.LimitNames.Batch, int64(p.MaxBatch)}), nil
}

// element reads one element, which should be a Request object.
func (s *scanner) element(p *Profile) (element, error) {
	if s.decoder.PeekKind() != '{' {
		if _, err := s.value(); err != nil {
			return element{}, err
		}
		return element{Err: p.fault(CodeInvalidRequest, "a request must be an object")}, nil
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return element{}, err
	}
	var found envelope
	for s.decoder.PeekKind() != '}' {
		name, err := s.value()
		if err != nil {
			return element{}, err
		}
		var value jsontext.Value
		member := memberOf(name)
		if member == memberParams && s.decoder.PeekKind() == '{' {
			value, found.members, err = s.object(&s.message.members.outer, true)
		} else {
			value, err = s.value()
		}
		if err != nil {
			return element{}, err
		}
		found.add(member, value)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return element{}, err
	}
	return found.element(p), nil
}

// object reads an object and appends its members to a buffer. If nested is true, it also
// collects the members of members that are objects. It returns nil members if there are too many.
func (s *scanner) object(to *[]Member, nested bool) (jsontext.Value, []Member, error) {
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, nil, err
	}
	start, first := s.decoder.InputOffset()-1, len(*to)
	for s.decoder.PeekKind() != '}' {
		var m Member
		var err error
		if m.Name, err = s.value(); err != nil {
			return nil, nil, err
		}
		if nested && s.decoder.PeekKind() == '{' {
			m.Value, m.Members, err = s.object(&s.message.members.inner, false)
		} else {
			m.Value, err = s.value()
		}
		if err != nil {
			return nil, nil, err
		}
		if !s.message.members.full() {
			*to = append(*to, m)
		}
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, nil, err
	}
	end := s.decoder.InputOffset()
	members := (*to)[first:len(*to):len(*to)]
	if s.message.members.full() { // too many members: the list may be incomplete
		members = nil
	}
	return s.text[start:end:end], members, nil
}

// value reads the next value or member name and returns a slice of the text. The slice that
// the parser returns is only valid until its next call.
func (s *scanner) value() (jsontext.Value, error) {
	v, err := s.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := int(s.decoder.InputOffset())
	return s.text[end-len(v) : end : end], nil
}

var errTrailing = errors.New("data after the JSON text")

// end returns an error unless only white space is left.
func (s *scanner) end() error {
	offset := s.decoder.InputOffset()
	if _, err := s.decoder.ReadToken(); errors.Is(err, io.EOF) {
		return nil
	}
	return &jsontext.SyntacticError{ByteOffset: offset, Err: errTrailing}
}
