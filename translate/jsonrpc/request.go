package jsonrpc

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/rawobject"
)

// Request is one valid Request object (JSON-RPC 2.0, section 4). Params and ID
// are slices of the body it was decoded from.
type Request struct {
	// Method is the decoded name; it may be empty.
	Method string
	// Params is nil when absent, else an object or an array exactly as sent.
	Params jsontext.Value
	// Members are those of Params, and theirs of those that are objects; nil where Params is no object, or has so many
	// that they were not noted.
	Members []rawobject.Member
	// ID is nil for a notification, else the exact text that was sent: a string,
	// a number or null.
	ID jsontext.Value

	message *Message // that the request alone is; nil: its memory is shared
}

// Release tells that nobody uses Params and Members any more. What they take is
// then free for other requests while a method waits. ID stays.
func (r *Request) Release() {
	if r.message == nil {
		return
	}
	r.Params, r.Members = nil, nil
	if r.ID != nil { // else it is a notification
		r.ID = append(r.message.id[:0], r.ID...)
	}
	r.message.releaseText()
}

// Room returns memory that the result may be appended to, once. It is used again when
// the request has been answered.
func (r *Request) Room() []byte {
	if r.message == nil || r.message.room != nil {
		return nil
	}
	r.message.room = takeBuffer()
	return *r.message.room
}

// IsNotification reports whether the request came without an id and is
// therefore never answered (JSON-RPC 2.0, section 4.1).
func (r *Request) IsNotification() bool { return r.ID == nil }

// Handler runs methods.
type Handler interface {
	// ServeRPC answers one request, or handles one notification, whose return
	// values are dropped. The result must be one valid JSON value: an empty one
	// is answered as an internal error, others are trusted and copied as they
	// are. With an error the result is ignored. Elements of a batch are served at
	// the same time. req, Params and ID must not be kept after the return.
	ServeRPC(ctx context.Context, req *Request) (jsontext.Value, *Error)
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, req *Request) (jsontext.Value, *Error)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, req *Request) (jsontext.Value, *Error) {
	return f(ctx, req)
}
