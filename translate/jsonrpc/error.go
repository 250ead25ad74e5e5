package jsonrpc

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

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
