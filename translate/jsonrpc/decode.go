package jsonrpc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/strictjson"
)

// message is a decoded body.
type message struct {
	// Batch says that the body is an array, possibly of one element.
	Batch bool
	// Elements has at least one element, and exactly one unless Batch is set.
	Elements []element

	single  [1]element
	request *http.Request // that has the body
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
	reader := strictjson.Borrow(text, maxDepth, true)
	defer reader.GiveBack()
	fault, ok := m.read(text, p, reader)
	if !ok {
		if reader.Deeper() {
			m.Elements = nil
			return p.exceeded(CodeParseError, "nested deeper than "+strconv.Itoa(maxDepth)+" levels", &Limit{limitDepth, maxDepth})
		}
		fault = p.fault(CodeParseError, syntaxReason(strictjson.Fault(text, true), len(body)-len(text)))
	}
	if fault != nil {
		m.Elements = nil
	}
	return fault
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

// scanner reads a text into a message. Names may appear twice in an object: the envelope and the handler check them.
type scanner struct {
	*strictjson.Reader

	text    []byte
	message *message
}

// read reads the whole text. It reports whether the reader has accepted it.
func (m *message) read(text []byte, p *Profile, reader *strictjson.Reader) (fault *Error, ok bool) {
	s := scanner{reader, text, m}
	m.Batch, m.members.outer, m.members.inner = s.Kind() == '[', m.members.outer[:0], m.members.inner[:0]
	if m.Batch {
		m.Elements = nil
		fault = s.batch(p, p.maxBatch(m.request))
	} else {
		m.Elements = m.single[:]
		m.single[0] = s.element(p)
	}
	return fault, s.End()
}

// batch reads an array to its end, even if it has too many elements, since a syntax error
// takes precedence.
func (s *scanner) batch(p *Profile, most int) *Error {
	s.Bracket()
	for s.More() {
		if len(s.message.Elements) >= most {
			return s.oversized(p, most)
		}
		s.message.Elements = append(s.message.Elements, s.element(p))
	}
	s.Bracket()
	if len(s.message.Elements) == 0 {
		return p.fault(CodeInvalidRequest, "the batch is empty")
	}
	return nil
}

// oversized reads the rest of an array with too many elements.
func (s *scanner) oversized(p *Profile, most int) *Error {
	for s.More() {
		s.Value()
	}
	s.Bracket()
	if most <= 0 {
		return p.fault(CodeInvalidRequest, "batches are not supported here: send one request at a time")
	}
	reason := fmt.Sprintf("the batch has more than %d elements: send several smaller ones (%s: %d)", most, limitBatch, most)
	return p.exceeded(CodeInvalidRequest, reason, &Limit{limitBatch, int64(most)})
}

// element reads one element, which should be a Request object.
func (s *scanner) element(p *Profile) element {
	if s.Kind() != '{' {
		s.Value()
		return element{Err: p.fault(CodeInvalidRequest, "a request must be an object")}
	}
	s.Bracket()
	var found envelope
	for s.More() {
		name := s.Value()
		if name == nil {
			break
		}
		var value jsontext.Value
		to := found.member(name)
		if to == &found.params && s.Kind() == '{' {
			value, found.members = s.object(&s.message.members.outer, true)
		} else {
			value = s.Value()
		}
		if to != nil {
			if *to != nil && (found.repeated == "" || found.repeated != "id" && to != &found.outcome) {
				found.repeated = string(Unquote(name))
			}
			*to = value
		}
	}
	if !s.Bracket() {
		return element{}
	}
	return found.element(p)
}

// object reads an object and appends its members to a buffer. If nested is true, it also
// collects the members of members that are objects. It returns nil members if there are too many.
func (s *scanner) object(to *[]Member, nested bool) (jsontext.Value, []Member) {
	s.Bracket()
	start, first := s.At()-1, len(*to)
	for s.More() {
		m := Member{Name: s.Value()}
		if nested && s.Kind() == '{' {
			m.Value, m.Members = s.object(&s.message.members.inner, false)
		} else {
			m.Value = s.Value()
		}
		if m.Value != nil && !s.message.members.full() {
			*to = append(*to, m)
		}
	}
	if !s.Bracket() {
		return nil, nil
	}
	end := s.At()
	members := (*to)[first:len(*to):len(*to)]
	if s.message.members.full() { // too many members: the list may be incomplete
		members = nil
	}
	return s.text[start:end:end], members
}

// Unquote returns the text of a valid JSON string. It shares the memory of quoted, if that has no escapes.
func Unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	// A valid string can't fail here.
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// Text returns the text of a JSON string; empty: the value is not a string.
func Text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return string(Unquote(v))
}

// Word returns the text of a JSON string, and any other value as it is written, which is then no word that a front knows; empty: it is absent or null.
func Word(v jsontext.Value) string {
	if v.Kind() == 'n' {
		return ""
	}
	return cmp.Or(Text(v), string(v))
}

// envelope holds the members of one Request or Response object while it is read.
type envelope struct {
	version, method, params, id, outcome jsontext.Value

	members  []Member // of params
	repeated string   // a member that is there twice; empty: none is. An id comes first, an outcome last
}

// member returns the member with a quoted name; nil: the specification does not define it. Names are case-sensitive and may have
// escapes.
func (e *envelope) member(quoted []byte) *jsontext.Value {
	switch string(Unquote(quoted)) {
	case "jsonrpc":
		return &e.version
	case "method":
		return &e.method
	case "params":
		return &e.params
	case "id":
		return &e.id
	case "result", "error":
		return &e.outcome
	}
	return nil
}

// element returns the request, or an error if the object is invalid (JSON-RPC 2.0, section 4).
func (e *envelope) element(p *Profile) element {
	if p.TakesResponse != nil && e.isResponse() {
		return element{response: true, Request: Request{ID: e.id}, Err: p.fault(CodeInvalidRequest, "this is a response, and a request is expected")}
	}
	if IsNull(e.params) {
		e.params = nil
	}
	reason := e.fault(p)
	if reason == "" {
		return element{Request: Request{Method: string(Unquote(e.method)), Params: e.params, Members: e.members, ID: e.id}}
	}
	if e.repeated == "id" || !p.isID(e.id) {
		e.id = nil
	}
	return element{Request: Request{ID: e.id}, Err: p.fault(CodeInvalidRequest, reason)}
}

// fault returns why the object is not a valid Request object; empty: it is.
func (e *envelope) fault(p *Profile) string {
	switch {
	case e.repeated != "" && e.repeated != "result" && e.repeated != "error":
		return e.repeated + " must not stand there twice"
	case e.version.Kind() != '"' || string(Unquote(e.version)) != "2.0":
		return `jsonrpc must be the string "2.0"`
	case e.method.Kind() != '"':
		return "method must be a string"
	case e.params != nil && e.params.Kind() != '{' && e.params.Kind() != '[':
		return "params must be an object or an array, or be left out"
	case e.id == nil:
		return ""
	case e.id.Kind() == 'n' && !p.NullID:
		return "id must not be null"
	case e.id.Kind() == '0' && !p.isID(e.id):
		return "id must be a string or a whole number"
	case !p.isID(e.id):
		return "id must be a string or a number"
	}
	return ""
}

// isResponse reports whether the object is a Response object with an id (JSON-RPC 2.0, section 5).
func (e *envelope) isResponse() bool {
	return e.outcome != nil && e.method == nil && e.id != nil && e.repeated == ""
}

// isID reports whether v can be the id of an answer.
func (p *Profile) isID(v jsontext.Value) bool {
	switch v.Kind() {
	case '"':
		return true
	case '0':
		return !p.WholeIDs || !bytes.ContainsAny(v, ".eE")
	case 'n':
		return p.NullID
	}
	return false
}
