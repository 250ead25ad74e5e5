package jsonrpc

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Message is a decoded body.
type Message struct {
	// Batch tells an array of one element from that element alone.
	Batch bool
	// Elements has one entry unless Batch is set, and is never empty.
	Elements []Element

	single [1]Element
	noted  *noted
	body   *[]byte  // from the pool; nil: none, or given back already
	room   *[]byte  // from the pool, for the result; nil: none was wanted
	id     [64]byte // room for the id of a single request, when its text is given back before it is answered
}

// noted are the members of all params, and those of the objects in them.
type noted struct {
	outer, inner []Member
}

// maxNoted bounds how many members are noted of a message: they take more memory
// than the text that they stand for, and who sends more can be read again.
const maxNoted = 2048

func (n *noted) full() bool { return len(n.outer)+len(n.inner) >= maxNoted }

// messages and notes are kept to be used again: a large request has many members.
var (
	messages = sync.Pool{New: func() any { return new(Message) }}
	notes    = sync.Pool{New: func() any { return new(noted) }}
)

// release gives a message back without its hold on the text.
func (m *Message) release() {
	m.releaseText()
	if m.room != nil {
		giveBuffer(m.room)
	}
	*m = Message{}
	messages.Put(m)
}

// releaseText gives back the text and what was noted of it.
func (m *Message) releaseText() {
	if n := m.noted; n != nil {
		m.noted = nil
		clear(n.outer)
		clear(n.inner)
		*n = noted{n.outer[:0], n.inner[:0]}
		notes.Put(n)
	}
	if m.body != nil {
		giveBuffer(m.body)
		m.body = nil
	}
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
func Decode(body []byte, p *Profile) (*Message, *Error) {
	msg := &Message{noted: new(noted)}
	return msg, msg.decode(body, p)
}

func (m *Message) decode(body []byte, p *Profile) *Error {
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
	message *Message
	source  bytes.Buffer
	decoder jsontext.Decoder
}

var scanners = sync.Pool{New: func() any { return new(scanner) }}

// scanOptions leave duplicate names to the envelope and to the handler.
var scanOptions = []jsontext.Options{jsontext.AllowDuplicateNames(true)}

func (s *scanner) reset(text []byte, m *Message) {
	s.text, s.message = text, m
	s.source = *bytes.NewBuffer(text)
	s.decoder.Reset(&s.source, scanOptions...)
}

// release gives the scanner back without its hold on the text.
func (s *scanner) release() {
	s.reset(nil, nil)
	scanners.Put(s)
}

// read reads the whole text. err is a fault of syntax.
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

// batch reads an array to its end even where it has too many elements: what is
// not JSON is a parse error first.
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

// oversized reads what is left of an array that is refused.
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
	var found envelope
	for s.decoder.PeekKind() != '}' {
		name, err := s.value()
		if err != nil {
			return Element{}, err
		}
		var value jsontext.Value
		member := memberOf(name)
		if member == memberParams && s.decoder.PeekKind() == '{' {
			value, found.members, err = s.object(&s.message.noted.outer, true)
		} else {
			value, err = s.value()
		}
		if err != nil {
			return Element{}, err
		}
		found.add(member, value)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return Element{}, err
	}
	return found.element(p), nil
}

// object reads an object and notes its members, and theirs of those that are
// objects if that is wanted. It returns no members if there were too many.
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
			m.Value, m.Members, err = s.object(&s.message.noted.inner, false)
		} else {
			m.Value, err = s.value()
		}
		if err != nil {
			return nil, nil, err
		}
		if !s.message.noted.full() {
			*to = append(*to, m)
		}
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, nil, err
	}
	end := s.decoder.InputOffset()
	members := (*to)[first:len(*to):len(*to)]
	if s.message.noted.full() { // some may be missing
		members = nil
	}
	return s.text[start:end:end], members, nil
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
