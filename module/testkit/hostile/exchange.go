package hostile

import (
	"io"
	"maps"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"
)

// An Exchange is the request and the answer of an [Action].
type Exchange struct {
	Number  int // of the request among those for this part of this skill, from 1
	Request *Request
	HTTP    *http.Request // its body was read already
	Writer  http.ResponseWriter

	provider *Provider
	taken    *conn         // after Conn
	gone     chan struct{} // after Conn; closed with the connection
}

// Gone returns a channel that is closed when the client disconnects or the test ends.
func (x *Exchange) Gone() <-chan struct{} {
	if x.gone != nil {
		return x.gone
	}
	return x.HTTP.Context().Done()
}

// Conn hijacks the connection, for invalid HTTP. It is closed when the action returns.
func (x *Exchange) Conn() net.Conn { return x.take() }

func (x *Exchange) take() *conn {
	if x.taken != nil {
		panic("hostile: an action took the connection over twice")
	}
	c, _, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	x.taken = c.(*conn)
	x.gone = make(chan struct{})
	x.provider.work.Go(func() {
		defer close(x.gone)
		_, _ = io.Copy(io.Discard, x.taken) // until the client closes the connection or the connection is closed
	})
	return x.taken
}

// finish closes a hijacked connection after its action has returned or panicked.
func (x *Exchange) finish() {
	if x.taken != nil {
		_ = x.taken.Close() // the error does not matter
	}
}

func (x *Exchange) hang() {
	x.provider.hanging.Add(1)
	defer x.provider.hanging.Add(-1)
	<-x.Gone()
}

// write sends bytes on a hijacked connection.
func (x *Exchange) write(text string) {
	_, _ = io.WriteString(x.taken, text) // the client may be gone
}

// writer records the status of an answer.
type writer struct {
	http.ResponseWriter
	exchange *Exchange
	noted    bool
}

func (w *writer) WriteHeader(status int) {
	if status >= 200 && !w.noted {
		w.noted = true
		w.exchange.provider.answered(w.exchange.Request, status)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(b []byte) (int, error) {
	if !w.noted {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// JSON answers with a JSON value.
func (x *Exchange) JSON(status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		x.provider.tb.Errorf("answering: %v", err)
	}
	Respond(status, string(body))(x)
}

// Body returns an InvocationResponse about the run of this exchange, with a state and further
// members. The execution id is run-0 for an invocation without a run.
func (x *Exchange) Body(state string, members Object) Object {
	id := x.Request.Execution
	if id == "" {
		id = "run-0"
	}
	const moment = "2026-01-02T03:04:05Z"
	body := Object{
		"execution_id": id, "status": state, "skill_id": x.Request.Skill,
		"timestamps": Object{"created_at": moment, "updated_at": moment},
	}
	maps.Copy(body, members)
	return body
}

// output returns the default output of a skill.
func output(skill, call string) Object { return Object{"skill": skill, "call": call} }
