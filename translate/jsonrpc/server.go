package jsonrpc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
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
	// MaxAnswerSize is how long the answer to a batch may be, in bytes, but for the ids in it. An element for which there is
	// no room left is answered with an error. 0: as long as it gets.
	MaxAnswerSize int64
	// MaxAnswers is how many bytes all answers may have that are kept at a time, for as long as they are being made and
	// written, but for the first 64 KiB of each, a batch's being one. A request for whose answer there is no room left is answered with an error.
	// 0: as many as there are.
	MaxAnswers int64
	// WriteTimeout is how long a client may take nothing of its answer before it is left. Short answers over HTTP/1.1, which
	// never wait for the client, and the HTTP server's own WriteTimeout are as they are without it. 0: there is no such bound.
	WriteTimeout time.Duration
	// OnUnread is called when a client did not read its answer and was disconnected, with how many bytes had been written
	// of that. May be nil.
	OnUnread func(ctx context.Context, written int64)
	// OnPanic is told of a panic of the handler, on the goroutine where it
	// happened, with that goroutine's stack. It must not panic itself. May be nil.
	// It is not told of [http.ErrAbortHandler], which is passed on to the HTTP
	// server as usual.
	OnPanic func(ctx context.Context, value any, stack []byte)

	mu      sync.Mutex
	answers int64 // of MaxAnswers, those that are kept
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
	o := output{server: s, ctx: ctx, w: w, request: r, arrived: time.Now()}
	limit := s.MaxRequestSize
	if limit <= 0 {
		limit = defaultMaxRequestSize
	}
	if r.ContentLength > limit {
		o.tooLarge(limit, true)
		return
	}
	buffer := takeBuffer()
	var err error
	body := r.Body
	if r.ContentLength < 0 { // the limit may be exceeded, and then the connection should not be used again
		body = http.MaxBytesReader(w, body, limit)
	}
	*buffer, err = appendBody(*buffer, body, r.ContentLength, limit)
	if err != nil {
		o.unreadable(err, limit)
		giveBuffer(buffer)
		return
	}
	s.serveBody(&o, buffer)
}

func (s *Server) serveBody(o *output, body *[]byte) {
	msg := messages.Get().(*Message)
	msg.body, msg.noted = body, notes.Get().(*noted)
	fault := msg.decode(*body, &s.Profile)
	switch {
	case fault != nil:
		o.error(s.Profile.status(fault), nil, fault)
	case msg.Batch:
		s.serveBatch(o, msg.Elements)
	default:
		msg.Elements[0].Request.message = msg
		s.serveSingle(o, &msg.Elements[0])
	}
	// At the end rather than deferred: while a panic unwinds nobody knows who still
	// reads the body.
	msg.release()
}

func (s *Server) serveSingle(o *output, element *Element) {
	req := &element.Request
	if element.Err != nil {
		o.error(s.Profile.status(element.Err), req.ID, element.Err)
		return
	}
	req.server = s
	defer req.hold(0)
	a := s.call(o.ctx, req)
	if a.aborted {
		panic(http.ErrAbortHandler)
	}
	if req.IsNotification() {
		o.nothing()
		return
	}
	fault := a.fault(&s.Profile)
	if !a.panicked && !req.Reserve(a.size(req, fault)) {
		a = answer{}
		fault = s.Profile.tooLarge(req, fault)
	}
	switch {
	case a.panicked:
		o.error(http.StatusInternalServerError, req.ID, fault)
	case fault != nil:
		o.error(s.Profile.status(fault), req.ID, fault)
	case len(a.result) >= pieceSize: // need not be copied
		buffer := takeBuffer()
		*buffer = append(appendHead(*buffer, req.ID), `,"result":`...)
		o.header(http.StatusOK, strconv.Itoa(len(*buffer)+len(a.result)+1))
		o.write(*buffer)
		o.write(a.result)
		o.write([]byte{'}'})
		giveBuffer(buffer)
	default:
		buffer := takeBuffer()
		*buffer = AppendResult(*buffer, req.ID, a.result)
		o.whole(http.StatusOK, *buffer)
		giveBuffer(buffer)
	}
}

// unreadable answers a body that did not arrive. Handlers in front may have
// set a limit of their own, smaller than this server's.
func (o *output) unreadable(err error, limit int64) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		o.tooLarge(tooLarge.Limit, tooLarge.Limit == limit)
		return
	}
	// The client is most likely gone, and its reason no business of anyone else.
	o.error(http.StatusBadRequest, nil, o.server.Profile.fault(CodeParseError, "the body could not be read to its end"))
}

// tooLarge answers a body that is larger than a limit, which is this server's own or not.
func (o *output) tooLarge(limit int64, own bool) {
	p, name := &o.server.Profile, ""
	if own {
		name = p.LimitNames.Request
	}
	reason := "the body is larger than " + strconv.FormatInt(limit, 10) + " bytes"
	o.error(http.StatusRequestEntityTooLarge, nil, p.exceeded(CodeInvalidRequest, reason, Limit{name, limit}))
}
