package jsonrpc

import (
	"context"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/share"
)

// Request is one valid Request object (JSON-RPC 2.0, section 4). Params and ID
// are slices of the body.
type Request struct {
	// Method is the decoded name; it may be empty.
	Method string
	// Params is nil when absent or null, else an object or an array exactly as sent.
	Params jsontext.Value
	// Members are the members of Params and of the objects in them; nil if Params is not an object or has too many
	// members.
	Members []Member
	// ID is nil for a notification, else the exact text that was sent: a string,
	// a number or null.
	ID jsontext.Value
	// HTTP is the HTTP request, whose body was read. The elements of a batch share it. It must not be changed, and
	// not be kept after the handler has returned.
	HTTP *http.Request

	message  *message // nil if the request is part of a batch, which shares the memory of the message
	stream   *Stream  // nil: Stream was not called
	batch    *batch   // nil: the request is no part of a batch
	server   *Server
	answer   share.Part // of MaxAnswers
	kept     int64      // bytes of MaxAnswerSize that are reserved beyond what the batch reserves for each
	shared   int64      // bytes of the answer that [Results] count
	exceeded Limit      // limit that the last failed Reserve exceeded
	answered []func()
}

// Param returns a member of Params; the zero value: it is absent, or null.
func (r *Request) Param(name string) Member {
	for _, m := range r.Members {
		if !IsNull(m.Value) && string(Unquote(m.Name)) == name {
			return m
		}
	}
	if r.Members == nil { // there are none or too many
		return Member{Value: ValueOf(r.Params, name)}
	}
	return Member{}
}

// Release frees the memory of Params and Members, which must not be used afterwards, for other
// requests. It is for methods that wait for long. ID stays valid.
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

// ResultBuffer returns an empty buffer that the result, of about so many bytes, may be appended to. It is reused once the
// request is answered. Further calls return nil.
func (r *Request) ResultBuffer(size int) []byte {
	if r.message == nil || r.message.result != nil {
		return nil
	}
	b := getBuffer()
	if size <= maxAnnounced {
		b = grown(b, size)
	}
	r.message.result = b
	return *b
}

// Reserve replaces the number of bytes that the request has reserved for its answer. It reports
// whether the number is within [Server.MaxAnswerSize], if the request is part of a batch, and
// [Server.MaxAnswers]. If it is not, nothing is reserved any more.
//
// A method should call Reserve before it reads or makes something long, so that the limits bound
// the memory of all answers. The server itself calls it with the length of the answer.
func (r *Request) Reserve(size int64) bool {
	if r.batch != nil && !r.batch.reserve(r, size) {
		r.exceeded = Limit{limitAnswer, r.server.MaxAnswerSize}
		r.hold(0)
		return false
	}
	if r.hold(size) {
		return true
	}
	r.exceeded = Limit{limitAnswers, r.server.MaxAnswers}
	if r.batch != nil {
		r.batch.reserve(r, 0)
	}
	return false
}

// AnswerLimit returns the limit that the last failed Reserve exceeded.
func (r *Request) AnswerLimit() (name string, most int64) { return r.exceeded.Name, r.exceeded.Max }

// hold replaces the number of bytes that the request has reserved of MaxAnswers. It reports whether
// it is within the limit. The first 64 KiB of the answer to an HTTP request, of which the elements of a batch have equal
// parts, do not count.
func (r *Request) hold(size int64) bool {
	uncounted := int64(pieceSize)
	if r.batch != nil {
		uncounted /= int64(len(r.batch.answers))
	}
	fits := r.answer.Set(max(size-r.shared-uncounted, 0))
	if !fits {
		r.answer.Set(0)
	}
	return fits
}

// OnAnswered makes the server call a function once the request is answered: its answer, or that of its batch, was written, or failed.
func (r *Request) OnAnswered(f func()) { r.answered = append(r.answered, f) }

// end is called once the request is answered.
func (r *Request) end() {
	r.hold(0)
	for _, f := range r.answered {
		f()
	}
}

// IsNotification reports whether the request has no id, so that it is not
// answered (JSON-RPC 2.0, section 4.1).
func (r *Request) IsNotification() bool { return r.ID == nil }

// InBatch reports whether the request is an element of a batch.
func (r *Request) InBatch() bool { return r.batch != nil }

// Handler answers one request, or handles one notification, for which the return values are ignored. The result must be one valid JSON
// value. This is not checked, except that an empty result is answered with an internal error. With an error, the result is ignored. The
// elements of a batch are served concurrently. The request, its Params and its ID must not be kept after the return.
type Handler func(ctx context.Context, req *Request) (jsontext.Value, *Error)
