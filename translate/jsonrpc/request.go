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
	batch   *batch   // that it is part of; nil: it came alone
	kept    int64    // bytes of the batch's answer that are for this one
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

// Reserve says that what the request keeps for its answer is now so many bytes long, and
// not what it was before. It reports whether there is room for that in the answer to the
// batch; if not, nothing is reserved any more. A request that came alone has all room.
//
// A method that reserves what it is about to keep, before it does, bounds what a batch
// keeps at a time. The length of the answer itself is reserved by the server.
func (r *Request) Reserve(size int64) bool { return r.batch == nil || r.batch.reserve(r, size) }

// AnswerLimit is how long the answer may be that Reserve found no room in.
func (r *Request) AnswerLimit() int64 {
	if r.batch == nil {
		return 0
	}
	return r.batch.server.MaxAnswerSize
}

// IsNotification reports whether the request came without an id and is
// therefore never answered (JSON-RPC 2.0, section 4.1).
func (r *Request) IsNotification() bool { return r.ID == nil }

// Handler runs methods.
type Handler interface {
	// ServeRPC answers one request, or handles one notification, whose return
	// values are dropped. The result must be one valid JSON value: an empty one
	// is answered as an internal error, others are trusted and copied as they
	// are. With an error the result is ignored. All elements of a batch are served at
	// the same time. req, Params and ID must not be kept after the return.
	ServeRPC(ctx context.Context, req *Request) (jsontext.Value, *Error)
}

// HandlerFunc is a function that is a [Handler].
type HandlerFunc func(ctx context.Context, req *Request) (jsontext.Value, *Error)

// ServeRPC calls f.
func (f HandlerFunc) ServeRPC(ctx context.Context, req *Request) (jsontext.Value, *Error) {
	return f(ctx, req)
}
