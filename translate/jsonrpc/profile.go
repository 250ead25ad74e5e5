package jsonrpc

import (
	"net/http"

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
	// BatchConcurrency is how many elements of a batch run at a time; values
	// below 1 mean 1.
	BatchConcurrency int
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
	// the body. The answer must be valid JSON. Nil, or a nil answer, means no data.
	// It is called from several goroutines at a time.
	ErrorData func(code int, reason string) jsontext.Value
	// ErrorStatus is the HTTP status of a single answered error; nil, or 0 from
	// it, means 200. It is not asked about parse errors (400), bodies that are too
	// large (413), panics (500) and errors inside a batch (200).
	ErrorStatus func(code int) int
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
		e.Data = p.ErrorData(code, reason)
	}
	return e
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
