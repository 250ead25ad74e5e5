package jsonrpc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// defaultMaxRequestSize bounds a body where a server says nothing.
const defaultMaxRequestSize = 1 << 20

// Server answers JSON-RPC 2.0 over HTTP. Its fields must not change once it
// serves.
type Server struct {
	// Handler runs the methods. It is required.
	Handler Handler
	// Profile is the protocol's say in how the envelope is treated.
	Profile Profile
	// MaxRequestSize is the largest body, in bytes; 0 means 1 MiB.
	MaxRequestSize int64
	// OnPanic is told of a panic of the handler, on the goroutine where it
	// happened, with that goroutine's stack. It must not panic itself. May be nil.
	// It is not told of [http.ErrAbortHandler], which is passed on to the HTTP
	// server as usual.
	OnPanic func(ctx context.Context, value any, stack []byte)
}

// ServeHTTP answers one HTTP request: see the package documentation for the
// statuses.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Serve(r.Context(), w, r)
}

// Serve is ServeHTTP with another context than the request's.
func (s *Server) Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if refused := refuse(r); refused != nil {
		refused.write(w)
		return
	}
	limit := s.MaxRequestSize
	if limit <= 0 {
		limit = defaultMaxRequestSize
	}
	if r.ContentLength > limit {
		s.writeTooLarge(w, limit)
		return
	}
	buffer := takeBuffer()
	var err error
	body := r.Body
	if r.ContentLength < 0 { // the limit may be exceeded, and then the connection is not used again
		body = http.MaxBytesReader(w, body, limit)
	}
	*buffer, err = appendBody(*buffer, body, r.ContentLength, limit)
	if err != nil {
		s.writeUnreadable(w, err)
		giveBuffer(buffer)
		return
	}
	s.serveBody(ctx, w, buffer)
}

func (s *Server) serveBody(ctx context.Context, w http.ResponseWriter, body *[]byte) {
	msg := messages.Get().(*Message)
	msg.body, msg.noted = body, notes.Get().(*noted)
	fault := msg.decode(*body, &s.Profile)
	switch {
	case fault != nil:
		writeError(w, s.Profile.status(fault), nil, fault)
	case msg.Batch:
		s.serveBatch(ctx, w, msg.Elements)
	default:
		msg.Elements[0].Request.message = msg
		s.serveSingle(ctx, w, &msg.Elements[0])
	}
	// At the end rather than deferred: while a panic unwinds nobody knows who still
	// reads the body.
	msg.release()
}

func (s *Server) serveSingle(ctx context.Context, w http.ResponseWriter, element *Element) {
	req := &element.Request
	if element.Err != nil {
		writeError(w, s.Profile.status(element.Err), req.ID, element.Err)
		return
	}
	a := s.call(ctx, req)
	if a.aborted {
		panic(http.ErrAbortHandler)
	}
	if req.IsNotification() {
		writeNothing(w)
		return
	}
	fault := a.fault(&s.Profile)
	switch {
	case a.panicked:
		writeError(w, http.StatusInternalServerError, req.ID, fault)
	case fault != nil:
		writeError(w, s.Profile.status(fault), req.ID, fault)
	default:
		buffer := takeBuffer()
		*buffer = AppendResult(*buffer, req.ID, a.result)
		writeJSON(w, http.StatusOK, *buffer)
		giveBuffer(buffer)
	}
}

func (s *Server) serveBatch(ctx context.Context, w http.ResponseWriter, elements []Element) {
	answers := s.callBatch(ctx, elements)
	if slices.ContainsFunc(answers, func(a answer) bool { return a.aborted }) {
		panic(http.ErrAbortHandler)
	}
	buffer := takeBuffer()
	*buffer = s.appendBatch(*buffer, elements, answers)
	if len(*buffer) == 0 {
		writeNothing(w)
	} else {
		writeJSON(w, http.StatusOK, *buffer)
	}
	giveBuffer(buffer)
}

// appendBatch appends the array of answers, or nothing where none is owed: an
// empty array is never sent (JSON-RPC 2.0, section 6).
func (s *Server) appendBatch(dst []byte, elements []Element, answers []answer) []byte {
	opening := byte('[')
	for i := range elements {
		element := &elements[i]
		if element.Err == nil && element.Request.IsNotification() {
			continue
		}
		dst = append(dst, opening)
		opening = ','
		if fault := answers[i].fault(&s.Profile); fault != nil {
			dst = AppendError(dst, element.Request.ID, fault)
		} else {
			dst = AppendResult(dst, element.Request.ID, answers[i].result)
		}
	}
	if opening == '[' {
		return dst
	}
	return append(dst, ']')
}

// writeUnreadable answers a body that did not arrive. Handlers in front may have
// set a limit of their own, smaller than this server's.
func (s *Server) writeUnreadable(w http.ResponseWriter, err error) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		s.writeTooLarge(w, tooLarge.Limit)
		return
	}
	// The client is most likely gone, and its reason no business of anyone else.
	fault := s.Profile.fault(CodeParseError, "the body could not be read to its end")
	writeError(w, http.StatusBadRequest, nil, fault)
}

func (s *Server) writeTooLarge(w http.ResponseWriter, limit int64) {
	reason := "the body is larger than " + strconv.FormatInt(limit, 10) + " bytes"
	fault := s.Profile.fault(CodeInvalidRequest, reason)
	writeError(w, http.StatusRequestEntityTooLarge, nil, fault)
}

func writeError(w http.ResponseWriter, status int, id jsontext.Value, e *Error) {
	buffer := takeBuffer()
	*buffer = AppendError(*buffer, id, e)
	writeJSON(w, status, *buffer)
	giveBuffer(buffer)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	// In one piece, but not shared with other answers: handlers in front may write to them.
	values := [...]string{"application/json", strconv.Itoa(len(body)), "no-store", "nosniff"}
	h := w.Header()
	h["Content-Type"] = values[0:1:1]
	h["Content-Length"] = values[1:2:2]
	h["Cache-Control"] = values[2:3:3]
	h["X-Content-Type-Options"] = values[3:4:4]
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone can't be told
}

func writeNothing(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}
