package jsonrpc

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// defaultMaxDepth bounds nesting where a profile says nothing. Real documents
// stay below 100; parsers recurse, so a bound has to exist.
const defaultMaxDepth = 512

// Profile is what differs between the protocols that ride on JSON-RPC.
type Profile struct {
	// MaxBatch is the largest number of elements in a batch. A larger batch is
	// one Invalid Request; with 0 every batch is.
	MaxBatch int
	// NullID makes "id":null a request that is answered with id null; otherwise
	// it is an Invalid Request.
	NullID bool
	// MaxDepth is how deep arrays and objects may nest, the outermost counting as
	// 1; a deeper body is a parse error. 0 means 512; the parser itself stops at
	// 10,000.
	MaxDepth int
	// Methods are names of methods that need not be copied from each request: those
	// that exist, all or some.
	Methods []string
	// ErrorData supplies the data member of the errors found here rather than by
	// the handler (-32700, -32600, -32603). reason is one short English phrase
	// that says what was wrong and where; it quotes at most a few characters of
	// the body. limit is the one that was exceeded, if that was wrong, else nil. The
	// answer must be valid JSON. Nil, or a nil answer, means no data.
	// It is called from several goroutines at a time.
	ErrorData func(code int, reason string, limit *Limit) jsontext.Value
	// LimitNames say in errors which limit was exceeded.
	LimitNames LimitNames
	// TooLarge supplies the answer to an element for whose own there is no room left
	// in the answer to its batch; fault is the error that would have been its answer,
	// nil for a result. What it returns is answered in any case, so it must be short.
	// Nil means an internal error. It is called from several goroutines at a time.
	TooLarge func(req *Request, fault *Error) *Error
	// ErrorStatus is the HTTP status of a single answered error; nil, or 0 from
	// it, means 200. It is not asked about parse errors (400), bodies that are too
	// large (413), panics (500) and errors inside a batch (200).
	ErrorStatus func(code int) int
}

// Limit is a bound that a request exceeded.
type Limit struct {
	Name string // of the option that sets it; empty: it has no name
	Max  int64
}

// LimitNames are the names of the options that set the limits of requests.
type LimitNames struct {
	Depth   string // MaxDepth
	Batch   string // MaxBatch
	Request string // MaxRequestSize
	Answer  string // MaxAnswerSize
	Answers string // MaxAnswers
}

func (p *Profile) maxDepth() int {
	if p.MaxDepth <= 0 {
		return defaultMaxDepth
	}
	return p.MaxDepth
}

// method is the name of a method, which takes no memory if it is known.
func (p *Profile) method(name []byte) string {
	for _, known := range p.Methods {
		if known == string(name) {
			return known
		}
	}
	return string(name)
}

// fault makes an error of the envelope. The message is the specification's; the
// reason goes where the profile wants it.
func (p *Profile) fault(code int, reason string) *Error {
	e := &Error{Code: code, Message: faultMessages[code]}
	if p.ErrorData != nil {
		e.Data = p.ErrorData(code, reason, nil)
	}
	return e
}

// exceeded makes an error of a request that exceeds a limit. The message says which
// one it is, too: for many clients that is all they show.
func (p *Profile) exceeded(code int, reason string, limit Limit) *Error {
	e := &Error{Code: code, Message: faultMessages[code]}
	if limit.Name != "" {
		reason += " (" + limit.Name + ": " + strconv.FormatInt(limit.Max, 10) + ")"
		e.Message += ": " + reason
	}
	if p.ErrorData != nil {
		e.Data = p.ErrorData(code, reason, &limit)
	}
	return e
}

// tooLarge is the answer to an element for whose own there is no room.
func (p *Profile) tooLarge(req *Request, fault *Error) *Error {
	if p.TooLarge == nil {
		return p.fault(CodeInternalError, "the answer to the batch is too large")
	}
	return p.TooLarge(req, fault)
}

var faultMessages = map[int]string{
	CodeParseError:     "Parse error",
	CodeInvalidRequest: "Invalid Request",
	CodeInternalError:  "Internal error",
}

func (p *Profile) status(e *Error) int {
	if e.Code == CodeParseError {
		return http.StatusBadRequest
	}
	if p.ErrorStatus != nil {
		if status := p.ErrorStatus(e.Code); status != 0 {
			return status
		}
	}
	return http.StatusOK
}
