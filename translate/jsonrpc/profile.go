package jsonrpc

import (
	"cmp"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep arrays and objects may nest in a body; the outermost has the depth 1. A deeper one is a parse error.
// Real documents stay below 100. A bound is needed because parsers recurse.
const maxDepth = 512

// Profile has the differences between protocols that use JSON-RPC. Its functions are called
// from several goroutines at a time.
type Profile struct {
	// MaxBatch is the largest number of elements in a batch. A larger batch is
	// answered with one Invalid Request error. 0: there are no batches.
	MaxBatch int
	// TakesBatch reports whether an HTTP request may have a batch, if there are any. Nil: each may.
	TakesBatch func(r *http.Request) bool
	// NullID permits "id":null as an id; otherwise it is an Invalid Request.
	NullID bool
	// WholeIDs refuses numbers as ids that are written with a fraction or an exponent.
	WholeIDs bool
	// TakesResponse reports whether a Response object is accepted for an HTTP request, as the answer to a request of the server.
	// It is answered like a notification, also in a batch, without a call of the handler. Nil: it is an Invalid Request.
	TakesResponse func(r *http.Request) bool
	// OmitNullID leaves the id out of errors for requests without a readable one; otherwise it is null.
	OmitNullID bool
	// ErrorData returns the data member of errors of this package (-32700, -32600,
	// -32603). reason is a short English phrase that says what is wrong and where; it
	// quotes at most a few characters of the body. limit is the limit that was
	// exceeded, or nil. The value must be valid JSON; nil means no data. ErrorData may
	// be nil.
	ErrorData func(code int, reason string, limit *Limit) jsontext.Value
	// ErrorForm returns an error with ErrorData, or of Refuse, in the form for the client of an HTTP request, which is another
	// for each version of some protocols. It must not change the error. May be nil.
	ErrorForm func(r *http.Request, e *Error) *Error
	// TooLarge returns the error for a request whose answer exceeds MaxAnswerSize or
	// MaxAnswers; fault is the error that would have been the answer; nil: the answer
	// would have been a result. The error must be short, since no limit applies to
	// it. Nil: an internal error.
	TooLarge func(req *Request, fault *Error) *Error
	// ErrorStatus returns the HTTP status of an error outside of a batch. Nil or 0: 200.
	// It is not called for errors with a Status, parse errors, bodies that are too
	// large (413) and panics (500).
	ErrorStatus func(code int) int
	// ParseStatus is the HTTP status of parse errors. 0: 400.
	ParseStatus int
	// NotificationStatus is the HTTP status of the answer to notifications. 0: 204.
	NotificationStatus int
	// Messages are the messages of the errors of this package, by code. A code that is
	// not in it has the message of the specification.
	Messages map[int]string
	// MediaTypes are the accepted media types, in lower case. If there are any, a request
	// needs one of them. None: application/json, application/json-rpc, and no media type
	// from clients that are not browsers. Types that a web page of another origin can post
	// without a CORS preflight must not be in it: text/plain, multipart/form-data and
	// application/x-www-form-urlencoded.
	MediaTypes []string
	// Allow is the Allow field of the answer to other HTTP methods than POST, if a handler
	// in front answers some. Empty: POST.
	Allow string
	// Refuse returns the error for an HTTP request with another media type or a
	// Content-Encoding (415), whose body is too large (413), or that [Server.Refuse]
	// refuses. reason is short English text that quotes nothing of the request. Nil, or if
	// it returns nil: a text, or an Invalid Request (413).
	Refuse func(status int, reason string) *Error
}

// Limit is a limit that a request exceeded.
type Limit struct {
	Name string // empty: it is not one of this package
	Max  int64
}

// The names of limits. Operators can set those that begin with max.
const (
	limitDepth   = "depth"            // [maxDepth]
	limitBatch   = "max_batch"        // [Profile.MaxBatch]
	limitRequest = "max_request_size" // [Server.MaxRequestSize]
	limitAnswer  = "answer_size"      // [Server.MaxAnswerSize]
	limitAnswers = "answers"          // [Server.MaxAnswers]
)

// maxBatch returns the largest number of elements of a batch of an HTTP request, which may be nil.
func (p *Profile) maxBatch(r *http.Request) int {
	if p.TakesBatch != nil && r != nil && !p.TakesBatch(r) {
		return 0
	}
	return p.MaxBatch
}

// fault returns an error with the message of its code, and the data that the profile makes of
// the reason.
func (p *Profile) fault(code int, reason string) *Error { return p.exceeded(code, reason, nil) }

// exceeded is fault for a request that exceeds a limit, unless that is nil. The message names the limit, too, since many clients show only
// the message.
func (p *Profile) exceeded(code int, reason string, limit *Limit) *Error {
	e := &Error{Code: code, Message: cmp.Or(p.Messages[code], faultMessages[code]), general: true}
	if limit != nil && limit.Name != "" {
		e.Message += ": " + reason
	}
	if p.ErrorData != nil {
		e.Data = p.ErrorData(code, reason, limit)
	}
	return e
}

// form returns an error as a client reads it.
func (p *Profile) form(r *http.Request, e *Error) *Error {
	if !e.general || p.ErrorForm == nil {
		return e
	}
	return p.ErrorForm(r, e)
}

// tooLarge returns the error for a request whose answer exceeds a limit.
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
	if e.Status != 0 {
		return e.Status
	}
	if e.Code == CodeParseError {
		return cmp.Or(p.ParseStatus, http.StatusBadRequest)
	}
	if p.ErrorStatus != nil {
		if status := p.ErrorStatus(e.Code); status != 0 {
			return status
		}
	}
	return http.StatusOK
}

// The pre-defined error codes (JSON-RPC 2.0, section 5.1).
const (
	// CodeParseError: the body is not one JSON text.
	CodeParseError = -32700
	// CodeInvalidRequest: the JSON is not a Request object.
	CodeInvalidRequest = -32600
	// CodeMethodNotFound: there is no such method.
	CodeMethodNotFound = -32601
	// CodeInvalidParams: the method can't work with these params.
	CodeInvalidParams = -32602
	// CodeInternalError: the server failed.
	CodeInternalError = -32603
)

// Error is the error object of an answer (JSON-RPC 2.0, section 5.1).
type Error struct {
	Code    int
	Message string
	// Data is any valid JSON value, or nil for no data member.
	Data jsontext.Value

	// Status is the HTTP status of the answer, if the error is the whole of it: not in a batch (unless all its answers have 401), in a stream that has
	// begun, or for a notification. 0: the status that the profile has for the code.
	Status int
	// Header has fields of that answer, such as Retry-After. The server's own fields replace those of the same name.
	Header http.Header

	general bool // the error is one of this package, which knows no version of a protocol
}

// Error implements error. Data is left out, since it can be large.
func (e *Error) Error() string {
	return "JSON-RPC error " + strconv.Itoa(e.Code) + ": " + e.Message
}
