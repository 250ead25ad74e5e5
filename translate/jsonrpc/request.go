package jsonrpc

import (
	"context"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
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
	Members []Member
	// ID is nil for a notification, else the exact text that was sent: a string,
	// a number or null.
	ID jsontext.Value

	message *Message // that the request alone is; nil: its memory is shared
	batch   *batch   // that it is part of; nil: it came alone
	server  *Server  // that answers it
	kept    int64    // bytes of the batch's answer that are for this one
	held    int64    // bytes of the batch that are for this one, among all answers of the server
	pooled  int64    // bytes of all answers of the server that are for this one, if it came alone
	full    Limit    // that Reserve found no room in
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
// not what it was before. It reports whether there is room for that in the answer to its
// batch, if it is part of one, and among all answers that the server keeps; if not, nothing
// is reserved any more.
//
// A method that reserves what it is about to keep, before it does, bounds what is kept at
// a time. The length of the answer itself is reserved by the server.
func (r *Request) Reserve(size int64) bool {
	if r.batch != nil && !r.batch.reserve(r, size) {
		r.full = Limit{r.server.Profile.LimitNames.Answer, r.server.MaxAnswerSize}
		r.hold(0)
		return false
	}
	if r.hold(size) {
		return true
	}
	r.full = Limit{r.server.Profile.LimitNames.Answers, r.server.MaxAnswers}
	if r.batch != nil {
		r.batch.reserve(r, 0)
	}
	return false
}

// AnswerLimit is the limit that Reserve found no room in.
func (r *Request) AnswerLimit() (name string, most int64) { return r.full.Name, r.full.Max }

// hold takes room for the answer among all that the server keeps, or gives it back. Of
// what one HTTP request is answered, the first 64 KiB take none: of a batch, those of all
// its elements together.
func (r *Request) hold(size int64) bool {
	s := r.server
	if s == nil || s.MaxAnswers <= 0 || r.batch == nil && size <= pieceSize && atomic.LoadInt64(&r.pooled) == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	others, pooled := int64(0), &r.pooled
	if r.batch != nil {
		others, pooled = r.batch.held-r.held, &r.batch.pooled
	}
	beside := s.answers - *pooled
	fits := max(others+size-pieceSize, 0) <= s.MaxAnswers-beside
	if !fits {
		size = 0
	}
	counted := max(others+size-pieceSize, 0)
	s.answers = beside + counted
	atomic.StoreInt64(pooled, counted)
	if r.batch != nil {
		r.held, r.batch.held = size, others+size
	}
	return fits
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
