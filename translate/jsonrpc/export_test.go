package jsonrpc

import "github.com/go-json-experiment/json/jsontext"

// What a body is decoded into.
type (
	Message = message
	Element = element
)

// Decode parses a body.
func Decode(body []byte, p *Profile) (*Message, *Error) {
	msg := &message{members: new(memberBuffers)}
	return msg, msg.decode(body, p)
}

// AppendResult appends an answer with a result.
func AppendResult(dst []byte, id, result jsontext.Value) []byte { return appendResult(dst, id, result) }

// AppendError appends an answer with an error.
func AppendError(dst []byte, id jsontext.Value, e *Error) []byte {
	return new(Profile).appendError(dst, id, e)
}

// DecodePooled parses a body with pooled memory, as a server does.
func DecodePooled(body []byte, p *Profile) *Error {
	msg := messagePool.Get().(*message)
	msg.members = memberPool.Get().(*memberBuffers)
	defer msg.release()
	return msg.decode(body, p)
}
