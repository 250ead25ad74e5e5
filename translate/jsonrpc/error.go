package jsonrpc

import (
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
}

// Error implements error. Data is left out, since it can be large.
func (e *Error) Error() string {
	return "JSON-RPC error " + strconv.Itoa(e.Code) + ": " + e.Message
}
