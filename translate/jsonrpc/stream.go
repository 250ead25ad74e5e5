package jsonrpc

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// errStreamEnded is the error of a [Stream] after the end of its handler.
var errStreamEnded = errors.New("jsonrpc: the handler of the stream has returned")

// Stream answers one request with server-sent events (HTML Standard, section 9.2). Its first event or comment begins
// the HTTP answer, which ends when the handler returns. What the handler returns is then ignored, and a panic of the
// handler ends the connection. A handler that sends nothing is answered as without a stream.
//
// Each event has one JSON-RPC answer with the id of the request, or a notification. The methods return when it was passed on to the
// client. If the client does not read it within [Server.WriteTimeout], it is disconnected. After an error, all
// methods return that error.
//
// The methods must not be called concurrently, nor after the handler has returned.
type Stream struct {
	request *Request
	output  output
	begun   bool
}

// MaxStreamID is the length of the longest id of a request with a stream, in bytes. A stream keeps the id as long as it lasts, while
// no limit counts it.
const MaxStreamID = 1 << 10

// StreamFault returns the error for a request that can't have a stream because its id is too long; nil: it is not. It is for methods
// that need a stream.
func (r *Request) StreamFault() *Error {
	if len(r.ID) <= MaxStreamID {
		return nil
	}
	reason := "the id of a request that is answered with a stream must not be longer than " + strconv.Itoa(MaxStreamID) + " bytes"
	fault := r.server.Profile.fault(CodeInvalidRequest, reason)
	fault.Message += ": " + reason
	return fault
}

// Stream returns the stream of the request; nil if it has none, because it is an element of a batch or a notification, or its id is
// longer than [MaxStreamID]. A method that waits between events should call Release before.
func (r *Request) Stream() *Stream {
	if r.message == nil || r.IsNotification() || len(r.ID) > MaxStreamID {
		return nil
	}
	if r.stream == nil {
		r.stream = &Stream{request: r, output: r.message.output}
	}
	return r.stream
}

// Result sends an event with a result, which must be one valid JSON value. number is the event's id; 0: it has none.
//
// The length of the result counts towards [Server.MaxAnswers] while it is written, instead of what the request had
// reserved. If it exceeds the limit, or is empty, an error is sent instead. It is the last event, and is returned.
func (s *Stream) Result(number uint64, result jsontext.Value) error {
	return s.send(number, answer{result: result})
}

// Error sends an event with an error. Its Status and Header are not sent.
func (s *Stream) Error(e *Error) error {
	return s.send(0, answer{err: e})
}

// Notify sends an event with a notification of the server, whose params must be one valid JSON value.
func (s *Stream) Notify(method string, params jsontext.Value) error {
	if s.output.err != nil {
		return s.output.err
	}
	if !s.request.Reserve(int64(len(params))) {
		s.output.err = s.request.server.Profile.tooLarge(s.request, nil)
		return s.output.err
	}
	defer s.request.Reserve(0)
	return s.NotifyCounted(method, params)
}

// NotifyCounted is like Notify, but does not count the params: their owner has counted them, as with a [Room].
func (s *Stream) NotifyCounted(method string, params jsontext.Value) error {
	if s.output.err != nil {
		return s.output.err
	}
	s.event(0, func(head []byte) []byte {
		head, _ = jsontext.AppendQuote(append(head, `{"jsonrpc":"2.0","method":`...), method) // an error would say that bad UTF-8 was replaced
		return append(head, `,"params":`...)
	}, params, "}")
	return s.output.err
}

// EndBy sets the time at which the client is disconnected, also if it is reading an event: one that reads a little at a time would
// otherwise keep the stream, and the text that it reads, for any time.
func (s *Stream) EndBy(at time.Time) { s.output.until = at }

// KeepAlive sends a comment, so that clients and proxies do not close the connection as idle.
func (s *Stream) KeepAlive() error {
	if s.output.err == nil {
		s.begin()
		s.output.write([]byte(": \n\n"))
		s.output.pause()
	}
	return s.output.err
}

// send sends an answer as one event.
func (s *Stream) send(number uint64, a answer) error {
	if s.output.err != nil {
		return s.output.err
	}
	profile := &s.request.server.Profile
	fault := a.fault(profile)
	if !s.request.Reserve(a.size(s.request, fault)) {
		fault = profile.tooLarge(s.request, fault)
	}
	defer s.request.Reserve(0)
	return s.answer(number, a, fault)
}

// answer sends a result, or an error instead of it, as one event. It is the last event if it is an error instead of a result.
func (s *Stream) answer(number uint64, a answer, fault *Error) error {
	o, req := &s.output, s.request
	if fault == nil {
		s.event(number, func(head []byte) []byte { return append(appendHead(head, req.ID), `,"result":`...) }, a.result, "}")
		return o.err
	}
	profile := &req.server.Profile
	s.event(number, func(head []byte) []byte { return head }, profile.appendError(nil, req.ID, profile.form(req.HTTP, fault)), "")
	if a.err == nil && o.err == nil {
		o.err = fault // instead of the result
	}
	return o.err
}

// event writes and flushes one event. Its data is what appendHead appends, which is short, a JSON text, and the rest. A long text is
// not copied, so that a client that reads slowly takes no memory for it.
func (s *Stream) event(number uint64, appendHead func([]byte) []byte, text []byte, rest string) {
	s.begin()
	o, buffer := &s.output, getBuffer()
	head := *buffer
	if number != 0 {
		head = append(strconv.AppendUint(append(head, "id: "...), number, 10), '\n')
	}
	head = appendHead(append(head, "data: "...))
	if len(head)+len(text) < minBuffer {
		start := len(head)
		head = append(head, text...)
		Flatten(head[start:])
		o.write(append(append(head, rest...), "\n\n"...))
		putBuffer(buffer)
	} else {
		o.write(head)
		putBuffer(buffer)
		o.line(text)
		o.write(append([]byte(rest), "\n\n"...))
	}
	o.pause()
}

// begin writes the header before the first event.
func (s *Stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.output.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store, no-transform") // else a handler in front may compress it, which takes MBs of memory for each stream
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	s.output.w.WriteHeader(http.StatusOK)
}

// end ends the stream after its handler, and reports whether it has begun: then nothing else may be written.
func (s *Stream) end(panicked bool) bool {
	if s == nil {
		return false
	}
	failed := s.output.err != nil
	s.output.err = errStreamEnded
	if s.begun && panicked {
		panic(http.ErrAbortHandler) // ends the connection, so that the answer does not look complete
	}
	if s.begun && !failed {
		s.output.extendDeadline() // for the end of the HTTP answer
	}
	return s.begun
}
