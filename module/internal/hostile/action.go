package hostile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// An Action is what happens to one request.
type Action func(*Exchange)

// An Exchange is a request and its answer, as an [Action] sees them.
type Exchange struct {
	Number  int // of the request among those for the same part of the same skill, from 1
	Request *Request
	HTTP    *http.Request // its body has been read
	Writer  http.ResponseWriter

	provider *Provider
	taken    *conn         // the connection, after Conn
	gone     chan struct{} // the client is, after Conn
}

// Gone is closed when the client goes or the test ends.
func (x *Exchange) Gone() <-chan struct{} {
	if x.gone != nil {
		return x.gone
	}
	return x.HTTP.Context().Done()
}

// Conn takes the connection over, for what is no proper HTTP. It is closed when
// the action returns.
func (x *Exchange) Conn() net.Conn { return x.take() }

func (x *Exchange) take() *conn {
	if x.taken != nil {
		panic("hostile: an action took the connection over twice")
	}
	c, _, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone already
	}
	x.taken = c.(*conn)
	x.gone = make(chan struct{})
	x.provider.work.Go(func() {
		defer close(x.gone)
		_, _ = io.Copy(io.Discard, x.taken) // until the client goes or the connection is closed
	})
	return x.taken
}

// finish ends an exchange, however its action ended.
func (x *Exchange) finish() {
	if x.taken != nil {
		_ = x.taken.Close() // nothing can be done about it
	}
}

func (x *Exchange) hang() {
	x.provider.hanging.Add(1)
	defer x.provider.hanging.Add(-1)
	<-x.Gone()
}

// write sends bytes on a connection that was taken over.
func (x *Exchange) write(text string) {
	_, _ = io.WriteString(x.taken, text) // the client may be gone
}

// writer notes the status of an answer.
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

// Body is an InvocationResponse about the run of this exchange, in a state and
// with further members. An invocation that no run was made for is run-0.
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

// output is what a skill says unless a test wants something else.
func output(skill, call string) Object { return Object{"skill": skill, "call": call} }

// Usual does what a proper provider does.
func Usual() Action { return usual }

func usual(x *Exchange) {
	p, r := x.provider, x.Request
	switch r.Part {
	case Index:
		x.JSON(http.StatusOK, p.index())
	case Registry:
		x.JSON(http.StatusOK, Object{"skills": p.index()["skills"]})
	case Descriptor:
		if s := p.skill(r.Skill); s != nil {
			x.JSON(http.StatusOK, s.descriptor(p.URL()))
			return
		}
		http.NotFound(x.Writer, x.HTTP)
	case Invoke:
		Complete(nil)(x)
	case Status:
		run, state := p.poll(r.Execution)
		switch {
		case state == "":
			http.NotFound(x.Writer, x.HTTP)
		case state == "completed" && !run.viaResult:
			x.JSON(http.StatusOK, x.Body(state, Object{"output": output(run.skill, run.call)}))
		case state == "failed":
			x.JSON(http.StatusOK, x.Body(state, Object{"error": Object{"code": "EXECUTION_FAILED", "message": "It failed."}}))
		default:
			x.JSON(http.StatusOK, x.Body(state, nil))
		}
	case Result:
		if run, ok := p.ended(r.Execution); ok {
			x.JSON(http.StatusOK, x.Body("completed", Object{"output": output(run.skill, run.call)}))
			return
		}
		http.NotFound(x.Writer, x.HTTP)
	case Token:
		Issue(IssuedToken, time.Hour)(x)
	default:
		http.NotFound(x.Writer, x.HTTP)
	}
}

func (p *Provider) index() Object {
	base := p.URL()
	p.mu.Lock()
	defer p.mu.Unlock()
	entries := []Object{}
	for _, s := range p.skills {
		if !s.Unlisted {
			entries = append(entries, s.entry(base))
		}
	}
	return Object{"protocol": Object{"version": "1.0.0"}, "provider": Object{"name": "Test"}, "skills": entries}
}

// IssuedToken is the access token that token endpoints usually issue.
const IssuedToken = "an-access-token"

// Issue answers a token request (RFC 6749, section 5.1).
func Issue(token string, lifetime time.Duration) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, Object{"access_token": token, "token_type": "Bearer", "expires_in": int(lifetime.Seconds())})
	}
}

// Respond answers with a status, a body, and names and values of header fields. A
// body is JSON unless the fields say otherwise.
func Respond(status int, body string, header ...string) Action {
	return func(x *Exchange) {
		h := x.Writer.Header()
		if body != "" {
			h.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		x.Writer.WriteHeader(status)
		if body != "" {
			_, _ = io.WriteString(x.Writer, body) // the client may be gone
		}
	}
}

// Handle answers as an HTTP handler does. The request's body has been read: it is
// in the [Request] of [Provider.Requests].
func Handle(handler http.HandlerFunc) Action {
	return func(x *Exchange) { handler(x.Writer, x.HTTP) }
}

// Redirect answers with a redirect.
func Redirect(status int, location string) Action {
	return Respond(status, "", "Location", location)
}

// Complete says that the run is completed. A nil output is the usual one.
func Complete(result any) Action {
	return func(x *Exchange) {
		result := result
		if result == nil {
			result = output(x.Request.Skill, x.Request.Call)
		}
		x.JSON(http.StatusOK, x.Body("completed", Object{"output": result}))
	}
}

// Fail says that the run failed.
func Fail(code, message string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("failed", Object{"error": Object{"code": code, "message": message}}))
	}
}

// State says that the run is in a state, of which nothing else is told.
func State(state string) Action {
	return func(x *Exchange) { x.JSON(http.StatusOK, x.Body(state, nil)) }
}

// Problem answers with the protocol's unified error (section 5.6).
func Problem(status int, code, message string) Action {
	return func(x *Exchange) {
		x.JSON(status, Object{"error": Object{"code": code, "message": message}})
	}
}

// Accept accepts an invocation: 202, then so many polls find it running, the next
// one completed.
func Accept(running int) Action { return accept(run{running: running}) }

// AcceptFailing is [Accept] of a run that fails in the end.
func AcceptFailing(running int) Action { return accept(run{running: running, failing: true}) }

// AcceptForResult is [Accept] of a run whose output is at the result URL only.
func AcceptForResult(running int) Action { return accept(run{running: running, viaResult: true}) }

func accept(template run) Action {
	return func(x *Exchange) {
		r := x.provider.newRun(x, template)
		x.JSON(http.StatusAccepted, x.Body("accepted", Object{"execution_id": r.id}))
	}
}

// Lie is [Complete] under another execution id.
func Lie(executionID string) Action {
	return func(x *Exchange) {
		x.JSON(http.StatusOK, x.Body("completed", Object{
			"execution_id": executionID, "output": output(x.Request.Skill, x.Request.Call),
		}))
	}
}

// Reset ends the connection with an RST instead of an answer.
func Reset() Action { return func(x *Exchange) { x.take().reset() } }

// Close ends the connection with a FIN instead of an answer.
func Close() Action { return func(x *Exchange) { x.take() } }

// begun is the beginning of an answer whose body never becomes complete.
func begun(x *Exchange, framing string) string {
	start, _, _ := strings.Cut(Wire(http.StatusOK, ""), "Content-Length")
	part := `{"execution_id":` + strconv.Quote(x.Body("", nil)["execution_id"].(string)) + `,"status":"compl`
	if framing == chunked {
		part = strconv.FormatInt(int64(len(part)), 16) + "\r\n" + part
	}
	return start + framing + "\r\n\r\n" + part
}

const (
	chunked = "Transfer-Encoding: chunked"
	lengthy = "Content-Length: 1000"
)

// ResetMidBody ends the connection with an RST in the middle of an answer.
func ResetMidBody() Action {
	return func(x *Exchange) {
		c := x.take()
		x.write(begun(x, lengthy))
		c.reset()
	}
}

// Truncate closes the connection before the announced length is reached.
func Truncate() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, lengthy))
	}
}

// TruncateChunked closes the connection in the middle of a chunk.
func TruncateChunked() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, chunked))
	}
}

// ThenClose answers as if the connection would be kept, and then closes it with a
// FIN: a client that wants to use it again is too late.
func ThenClose(action Action) Action {
	return func(x *Exchange) {
		written := &page{header: http.Header{}, status: http.StatusOK}
		own := x.Writer
		x.Writer = written
		action(x)
		x.Writer = own
		x.take()
		x.provider.answered(x.Request, written.status)
		x.write(Wire(written.status, written.body.String()))
	}
}

// page is an answer that is held back.
type page struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }

// Hang never answers.
func Hang() Action { return (*Exchange).hang }

// HangMidBody stops in the middle of an answer.
func HangMidBody() Action {
	return func(x *Exchange) {
		x.take()
		x.write(begun(x, lengthy))
		x.hang()
	}
}

// A Tick waits until the next byte is due, and reports whether there is to be one.
type Tick func(gone <-chan struct{}) bool

// Every is a tick after each interval.
func Every(interval time.Duration) Tick {
	return func(gone <-chan struct{}) bool {
		select {
		case <-gone:
			return false
		default:
		}
		timer := time.NewTimer(interval)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-gone:
			return false
		}
	}
}

// Each is a tick for each value received, until the channel is closed.
func Each(ticks <-chan struct{}) Tick {
	return func(gone <-chan struct{}) bool {
		select {
		case _, more := <-ticks:
			return more
		case <-gone:
			return false
		}
	}
}

// DripBody sends the headers of an answer at once and its body byte by byte. The
// connection is cut when the ticks end before.
func DripBody(tick Tick, status int, body string) Action {
	return func(x *Exchange) {
		head, rest, _ := strings.Cut(Wire(status, body), "\r\n\r\n")
		x.take()
		x.provider.answered(x.Request, status)
		x.write(head + "\r\n\r\n")
		x.drip(tick, rest)
	}
}

// DripHeaders sends an answer byte by byte from its first one.
func DripHeaders(tick Tick, status int, body string) Action {
	return func(x *Exchange) {
		x.take()
		x.provider.answered(x.Request, status)
		x.drip(tick, Wire(status, body))
	}
}

func (x *Exchange) drip(tick Tick, text string) {
	x.provider.hanging.Add(1)
	defer x.provider.hanging.Add(-1)
	for i := range len(text) {
		if !tick(x.Gone()) {
			return
		}
		x.write(text[i : i+1])
	}
}

// EndlessBody answers with a JSON string that never ends, in chunks.
func EndlessBody() Action {
	return func(x *Exchange) {
		x.narrow()
		x.Writer.Header().Set("Content-Type", "application/json")
		if _, err := io.WriteString(x.Writer, `{"status":"completed","output":"`); err != nil {
			return
		}
		x.pour(x.Writer)
	}
}

// EndlessHeaders answers with header fields that never end.
func EndlessHeaders() Action {
	return func(x *Exchange) {
		x.narrow()
		x.take()
		x.write("HTTP/1.1 200 OK\r\n")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(x.taken, "X-Endless-%d: %s\r\n", i, filling[:100]); err != nil {
				return
			}
		}
	}
}

var filling = bytes.Repeat([]byte("a"), 32<<10)

// narrow keeps little of what a client does not read.
func (x *Exchange) narrow() {
	_ = x.Request.conn.tcp.SetWriteBuffer(16 << 10) // of an open connection
}

// pour writes until nobody takes it any more.
func (x *Exchange) pour(w io.Writer) {
	for {
		if _, err := w.Write(filling); err != nil {
			return
		}
	}
}

// Bomb answers with a completed run, compressed, that has n bytes of output.
func Bomb(n int64) Action {
	return func(x *Exchange) {
		x.narrow()
		h := x.Writer.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Content-Encoding", "gzip")
		body, _ := json.Marshal(x.Body("completed", Object{"output": "#"})) // it is plain
		head, tail, _ := strings.Cut(string(body), "#")
		_ = inflate(x.Writer, head, n, tail) // the client may be gone
	}
}

// charge is a mebibyte of filling as it is compressed: it refers to nothing before
// itself, so that any number of them make a valid stream (RFC 1951, section 3.2.3),
// of which none has to be compressed again.
var charge = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, flate.BestCompression) // a level that exists
	for range mebibyte / len(filling) {
		_, _ = z.Write(filling) // to memory
	}
	_ = z.Flush() // to memory
	return b.Bytes()
})

const mebibyte = 1 << 20

// inflate writes a gzip file (RFC 1952) that expands to a head, n bytes of filling
// and a tail.
func inflate(w io.Writer, head string, n int64, tail string) error {
	sum := crc32.NewIEEE()
	size := n + int64(len(head)+len(tail))
	if _, err := w.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}); err != nil {
		return err
	}
	z, _ := flate.NewWriter(w, flate.BestSpeed) // a level that exists
	both := io.MultiWriter(sum, z)
	_, _ = io.WriteString(both, head) // an error comes again
	if err := z.Flush(); err != nil {
		return err
	}
	for ; n >= mebibyte; n -= mebibyte {
		for range mebibyte / len(filling) {
			_, _ = sum.Write(filling) // never fails
		}
		if _, err := w.Write(charge()); err != nil {
			return err
		}
	}
	z.Reset(w)
	for ; n > 0; n -= int64(len(filling)) {
		_, _ = both.Write(filling[:min(n, int64(len(filling)))]) // an error comes again
	}
	_, _ = io.WriteString(both, tail) // an error comes again
	if err := z.Close(); err != nil {
		return err
	}
	end := binary.LittleEndian.AppendUint32(nil, sum.Sum32())
	end = binary.LittleEndian.AppendUint32(end, uint32(size)) //nolint:gosec // modulo 2^32, as it should be
	_, err := w.Write(end)
	return err
}

// Deep is [Complete] with an output of so many nested arrays.
func Deep(depth int) Action {
	return func(x *Exchange) {
		body, _ := json.Marshal(x.Body("completed", Object{"output": "#"})) // it is plain
		nested := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		Respond(http.StatusOK, strings.Replace(string(body), `"#"`, nested, 1))(x)
	}
}

// RawOutput is [Complete] with an output that is written as it is, JSON or not.
func RawOutput(text string) Action {
	return func(x *Exchange) {
		body, _ := json.Marshal(x.Body("completed", Object{"output": "#"})) // it is plain
		Respond(http.StatusOK, strings.Replace(string(body), `"#"`, text, 1))(x)
	}
}

// Interim sends so many interim answers, 103 (Early Hints), before another
// action: endlessly many if n is negative.
func Interim(n int, then Action) Action {
	return func(x *Exchange) {
		for i := 0; i != n; i++ {
			select {
			case <-x.Gone():
				return
			default:
				x.Writer.WriteHeader(http.StatusEarlyHints)
			}
		}
		then(x)
	}
}

// Wire is an answer as it is on the wire.
func Wire(status int, body string, header ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status, http.StatusText(status))
	for i := 0; i < len(header); i += 2 {
		fmt.Fprintf(&b, "%s: %s\r\n", header[i], header[i+1])
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return b.String()
}

// Raw sends bytes as they are and closes the connection with a FIN.
func Raw(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
	}
}

// RawOpen sends bytes as they are and leaves the connection open until the client
// closes it. Further requests on it are in [Provider.Captured] only.
func RawOpen(text string) Action {
	return func(x *Exchange) {
		x.take()
		x.write(text)
		x.hang()
	}
}

// Garbage answers with something that is not HTTP.
func Garbage() Action { return Raw("\x15\x03\x01\x00\x02\x02\x50 is not HTTP\r\n\r\n") }

// TwoResponses answers properly, and at once sends a second answer that nobody
// asked for, whose output is poison.
func TwoResponses(poison string) Action {
	return func(x *Exchange) {
		body := func(result any) string {
			text, _ := json.Marshal(x.Body("completed", Object{"output": result})) // it is plain
			return string(text)
		}
		proper := body(output(x.Request.Skill, x.Request.Call))
		RawOpen(Wire(http.StatusOK, proper) + Wire(http.StatusOK, body(poison)))(x)
	}
}

// SwitchProtocols answers 101 to a client that did not ask for it.
func SwitchProtocols() Action {
	return RawOpen("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n" + Wire(http.StatusOK, "{}"))
}
