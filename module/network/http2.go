package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// maxSends is how often one request may be sent if the server refuses it as not processed, or closes
// the connection (RFC 9113, sections 6.8 and 8.7). Package net/http has no limit for these repetitions.
const maxSends = 3

// Errors of requests that are not repeated on another connection.
const (
	// errRefusedAgain is the error of a request that was sent maxSends times.
	errRefusedAgain exchange.ConnectionError = "it refused the request all 3 times, or closed the connection"
	// errClosedAgain is the error of a request that must be sent on a new connection.
	errClosedAgain exchange.ConnectionError = "the used connections are closed"
	// errClosedBefore is the error of a request on a connection that the bridge has
	// just closed. Nothing of the request was sent.
	errClosedBefore exchange.ConnectionError = "the connection was already closed"
)

// meter limits what a server sends on an HTTP/2 connection. A server may send frames of
// unknown types, pings, settings and data of cancelled requests at any time (RFC 9113,
// sections 4.1 and 5.1), also while no call uses the connection. Neither the limits of bodies nor
// deadlines apply to the time that reading them takes.
//
// The limit is twice the content that calls have read, plus the overhead for each call
// that uses the connection. On a connection that no call uses, it is a sixteenth of the
// overhead.
type meter struct {
	net.Conn
	overhead int64 // for each call, in bytes

	mu        sync.Mutex
	left      int64 // bytes that may still be received
	calls     int   // that use the connection
	cancelled int   // calls cancelled since the connection was last unused: the server may still send their data
	known     bool  // the protocol of the connection is known
	off       bool  // the protocol is HTTP/1.1, where a server sends only answers
	closed    bool  // by the bridge
}

// maxOverhead is the largest overhead, so that multiples do not overflow.
const maxOverhead = 1 << 40

// handshakeOverhead is how many bytes may be received before a connection is used, mainly certificates.
const handshakeOverhead = 512 << 10

func newMeter(conn net.Conn, overhead int64) *meter {
	return &meter{Conn: conn, overhead: min(overhead, maxOverhead), left: handshakeOverhead}
}

// receiveWindow returns how many bytes of an answer a server may send before they are read. They count as
// overhead until then.
func receiveWindow(overhead int64) int { return int(min(overhead/4, 1<<20)) }

// Read implements [net.Conn].
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left -= int64(n); m.left >= 0 || m.off {
		return n, err
	}
	m.close()
	return 0, &exchange.MalformedError{Reason: fmt.Sprintf("its HTTP/2 connection carried more than %d bytes other than the content of answers", m.overhead)}
}

// close closes the connection. The caller holds m.mu.
func (m *meter) close() {
	m.closed = true
	_ = m.Conn.Close() // an error changes nothing
}

// begin notes that a call uses the connection. It reports false if the connection was closed.
func (m *meter) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.calls++
	m.left = min(m.left+m.overhead, m.most())
	return true
}

// most returns the largest value of left. It includes an overhead for each cancelled call, whose data may
// be in transit. The caller holds m.mu.
func (m *meter) most() int64 { return int64(m.calls+m.cancelled+1) * m.overhead }

// credit raises the limit after n bytes of content were read.
func (m *meter) credit(n int) {
	m.mu.Lock()
	m.left = min(m.left+2*int64(n), m.most())
	m.mu.Unlock()
}

// end notes that a call no longer uses the connection, and whether it was cancelled before its answer was complete. If
// any call was, the connection is closed after the last call.
func (m *meter) end(cancelled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls--
	if cancelled {
		m.cancelled++
	}
	switch {
	case m.calls > 0:
		m.left = min(m.left, m.most())
	case m.cancelled > 0:
		m.close()
	default:
		m.left = min(m.left, m.overhead/16)
	}
}

// meterOf returns the meter of an HTTP/2 connection; nil: the connection is not HTTP/2.
func meterOf(conn net.Conn) *meter {
	inner := conn
	for {
		t, ok := inner.(*tls.Conn)
		if !ok {
			break
		}
		inner = t.NetConn()
	}
	m, ok := inner.(*meter)
	if !ok {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.known {
		m.known = true
		if t, ok := conn.(*tls.Conn); ok { // connections without TLS have a meter only if they are HTTP/2
			m.off = t.ConnectionState().NegotiatedProtocol != "h2"
		}
	}
	if m.off {
		return nil
	}
	return m
}

// trip is a request, with all its repetitions, until its answer was read.
type trip struct {
	ctx     context.Context         //nolint:containedctx // of the request
	cancel  context.CancelCauseFunc // nil: the request can't be sent by HTTP/2
	request http.Request            // its context has the trip
	trace   httptrace.ClientTrace

	mu    sync.Mutex
	sends int
	plain int    // how often it was sent by HTTP/1.1
	meter *meter // of the connection in use; nil: there is no HTTP/2 connection
	ended bool
}

// tripKey is the context key by which dialers, and the function that chooses a proxy, find the trip of a request.
type tripKey struct{}

// newTrip returns a trip for a request.
func newTrip(r *http.Request, http2 bool) *trip {
	t := &trip{ctx: r.Context()}
	if !http2 {
		t.request = *r.WithContext(context.WithValue(t.ctx, tripKey{}, t))
		return t
	}
	t.ctx, t.cancel = context.WithCancelCause(t.ctx)
	t.trace.GotConn = t.gotConn
	t.request = *r.WithContext(httptrace.WithClientTrace(context.WithValue(t.ctx, tripKey{}, t), &t.trace))
	return t
}

// limitRepeats wraps the function that chooses a proxy, to limit how often HTTP/1.1 sends a request on
// connections that were used before. If such a connection is closed without an answer, package
// net/http sends the request on the next one, without a limit. It calls the function each time.
func limitRepeats(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		if t, ok := r.Context().Value(tripKey{}).(*trip); ok && !t.goOn() {
			return nil, errClosedAgain
		}
		if choose == nil {
			return nil, nil //nolint:nilnil // no proxy
		}
		return choose(r)
	}
}

// goOn reports whether the request may be sent on a connection that was used before.
func (t *trip) goOn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.plain == maxSends-1 {
		return false
	}
	if t.cancel == nil { // otherwise gotConn counts
		t.plain++
	}
	return true
}

// gotConn is called each time before net/http sends the request. If gotConn cancels the request,
// HTTP/2 does not send it.
func (t *trip) gotConn(info httptrace.GotConnInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.meter != nil { // the one on which the server refused the request
		t.meter.end(true)
		t.meter = nil
	}
	if t.ended {
		return
	}
	m := meterOf(info.Conn)
	if m == nil {
		t.plain++
		return
	}
	t.sends++
	switch {
	case t.sends > maxSends:
		t.cancel(errRefusedAgain)
	case m.begin():
		t.meter = m
	default:
		t.cancel(errClosedBefore)
	}
}

// end ends the trip, if it has not ended. Cancelled means that the answer was not read to its end.
func (t *trip) end(cancelled bool) {
	t.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.meter != nil {
		t.meter.end(cancelled)
		t.meter = nil
	}
}

// send sends the request. If the connections that were used before fail too often, the last attempt is on
// a new connection.
func (t *trip) send(by http.RoundTripper, anew func() *http.Transport) (*http.Response, error) {
	response, err := by.RoundTrip(&t.request)
	if errors.Is(err, errClosedAgain) {
		response, err = t.sendAnew(anew())
	}
	if t.cancel == nil {
		return response, err
	}
	if err != nil {
		if own, ok := errors.AsType[exchange.ConnectionError](context.Cause(t.ctx)); ok {
			err = own
		}
		t.end(true)
		return nil, err
	}
	response.Body = &tripBody{ReadCloser: response.Body, trip: t}
	return response, nil
}

func (t *trip) sendAnew(by http.RoundTripper) (*http.Response, error) {
	t.mu.Lock()
	t.plain = maxSends
	t.mu.Unlock()
	if t.request.Body != nil {
		var err error
		if t.request.Body, err = t.request.GetBody(); err != nil { // GetBody is not nil: net/http repeats only such requests
			return nil, err
		}
	}
	return by.RoundTrip(&t.request)
}

// tripBody is the body of the answer of a trip.
type tripBody struct {
	io.ReadCloser
	trip *trip
}

// Read implements [io.Reader].
func (b *tripBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	t := b.trip
	t.mu.Lock()
	m := t.meter
	t.mu.Unlock()
	if m != nil && n > 0 {
		m.credit(n)
	}
	if err != nil {
		t.end(!errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements [io.Closer].
func (b *tripBody) Close() error {
	err := b.ReadCloser.Close()
	b.trip.end(true) // no effect if the body was read to its end
	return err
}

// wholeWriter is a TCP connection that writes a request's body, or what is left of it, with one system call and without a copy.
// net/http would copy it through a new buffer of 32 KiB.
type wholeWriter struct{ *net.TCPConn }

// ReadFrom implements [io.ReaderFrom], which net/http calls for bodies that are larger than its buffer.
func (w wholeWriter) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return w.TCPConn.ReadFrom(r)
	}
	body, ok := limited.R.(io.WriterTo) // as a bytes.Reader is
	if !ok {
		return w.TCPConn.ReadFrom(r)
	}
	n, err := body.WriteTo(&limitedWriter{w.TCPConn, limited.N})
	limited.N -= n
	return n, err
}

// limitedWriter writes at most n bytes more.
type limitedWriter struct {
	to io.Writer
	n  int64
}

// Write implements [io.Writer].
func (w *limitedWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.n {
		return 0, http.ErrContentLength
	}
	n, err := w.to.Write(p)
	w.n -= int64(n)
	return n, err
}

// maxHosts is how many hosts of one source get connections that are reused, and HTTP/2. Webhooks have no source, and count as one.
const maxHosts = 10_000

// hosts counts the hosts that each source has named. [net/http.Transport] keeps about 430 bytes for each host that it ever tried to reach
// unless a connection to it becomes idle, so that a source that names ever new hosts would fill the memory.
type hosts struct {
	seed  maphash.Seed
	mu    sync.Mutex
	known map[string]map[uint64]struct{} // hashes of hosts, by source
}

func newHosts() *hosts {
	return &hosts{seed: maphash.MakeSeed(), known: make(map[string]map[uint64]struct{})}
}

// admit reports whether a host is one of the first maxHosts of a source.
func (h *hosts) admit(source string, u *url.URL) bool {
	key := maphash.Comparable(h.seed, [3]string{source, u.Scheme, u.Host})
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.known[source]
	if known == nil {
		known = make(map[uint64]struct{})
		h.known[source] = known
	}
	if _, ok := known[key]; !ok && len(known) >= maxHosts {
		return false
	}
	known[key] = struct{}{}
	return true
}
