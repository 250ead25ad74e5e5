package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
)

// maxSends is how often one request may be sent because the server, or the end of a
// connection, says that it was not processed (RFC 9113, sections 6.8 and 8.7). Package
// net/http repeats it for as long as the server says so.
const maxSends = 3

// connectionError is the error of a request that is not sent on another connection.
type connectionError string

func (e connectionError) Error() string { return string(e) }

// Reason says why there is no answer.
func (e connectionError) Reason() string { return string(e) }

const (
	// errRefusedAgain is the error of a request that was sent so often.
	errRefusedAgain connectionError = "it refused the request all 3 times, or closed the connection"
	// errClosedAgain is the error of a request that needs a new connection.
	errClosedAgain connectionError = "the used connections are closed"
	// errClosedBefore is the error of a request that was given a connection which the
	// bridge has just closed; nothing of it was sent.
	errClosedBefore connectionError = "the connection was already closed"
)

// overheadError is the error of a connection on which more came than was asked for.
type overheadError struct{ overhead int64 }

func (e *overheadError) Error() string { return e.Malformed() }

// Malformed says what was wrong with what came.
func (e *overheadError) Malformed() string {
	return fmt.Sprintf("its HTTP/2 connection carried more than %d bytes other than the content of answers (limits connection_overhead)", e.overhead)
}

// meter bounds what a server sends on an HTTP/2 connection. A server may send frames of
// unknown types, pings, settings and data of cancelled requests at any time (RFC 9113,
// sections 4.1 and 5.1), also while no call uses the connection. Reading them takes time
// that no limit of a body and no deadline bounds.
//
// The bound is twice the content that calls have read, and the overhead for each call
// that uses the connection. A connection that no call uses may carry a sixteenth of the
// overhead.
type meter struct {
	net.Conn
	overhead int64 // for each call, in bytes

	mu     sync.Mutex
	left   int64 // bytes that may still come
	calls  int   // that use the connection
	given  int   // calls that were given up since no call used it: the server may not have seen that
	known  bool  // which protocol it speaks
	off    bool  // it is HTTP/1.1, where nothing comes that was not asked for
	closed bool  // by the bridge
}

// maxOverhead is what a larger overhead counts as, so that multiples do not overflow.
const maxOverhead = 1 << 40

// handshakeOverhead is what may come before a connection is used: certificates, above all.
const handshakeOverhead = 512 << 10

func newMeter(conn net.Conn, overhead int64) *meter {
	return &meter{Conn: conn, overhead: min(overhead, maxOverhead), left: handshakeOverhead}
}

// receiveWindow is how much of an answer a server may send before it is read, within
// the overhead.
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
	return 0, &overheadError{m.overhead}
}

// close closes the connection. The caller holds the lock.
func (m *meter) close() {
	m.closed = true
	_ = m.Conn.Close() // there is nothing else to do about it
}

// begin notes that a call uses the connection. It reports false if it was closed.
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

// most is what may still come at most. It leaves room for what is under way of calls
// that were given up, any number of them at once. The caller holds the lock.
func (m *meter) most() int64 { return int64(m.calls+m.given+1) * m.overhead }

// credit notes that n bytes of content were read.
func (m *meter) credit(n int) {
	m.mu.Lock()
	m.left = min(m.left+2*int64(n), m.most())
	m.mu.Unlock()
}

// end notes that a call uses the connection no more. After the last one the connection
// is closed if something was wrong with it, or with another since no call used it.
func (m *meter) end(trouble bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls--
	if trouble {
		m.given++
	}
	switch {
	case m.calls > 0:
		m.left = min(m.left, m.most())
	case m.given > 0:
		m.close()
	default:
		m.left = min(m.left, m.overhead/16)
	}
}

// meterOf returns the meter of a connection that speaks HTTP/2, nil if it does not.
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
		if t, ok := conn.(*tls.Conn); ok { // else it is HTTP/2, or it would have no meter
			m.off = t.ConnectionState().NegotiatedProtocol != "h2"
		}
	}
	if m.off {
		return nil
	}
	return m
}

// trip is a request, from the first time that it is sent until its answer was read.
type trip struct {
	ctx     context.Context         //nolint:containedctx // of the request, before it is sent
	cancel  context.CancelCauseFunc // nil: it can't be sent by HTTP/2
	request http.Request            // with a context that has the trip
	trace   httptrace.ClientTrace

	mu    sync.Mutex
	sends int
	plain int    // of them, by HTTP/1.1
	meter *meter // of the connection in use; nil: it is not HTTP/2, or there is none
	ended bool
}

// tripKey is the context key by which dialers, and the function that chooses a proxy, find the trip of a request.
type tripKey struct{}

// newTrip returns a request that is watched, to be sent once.
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

// limitRepeats makes the function that chooses proxies end requests that HTTP/1.1 would
// send once too often on connections that were used before: package net/http calls it each
// time, and repeats what it sent for as long as it has such connections, if they are closed
// without an answer.
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
	if t.cancel == nil { // else gotConn will know of what it is
		t.plain++
	}
	return true
}

// gotConn is called before each time that the request is sent. What is cancelled here
// is not sent by HTTP/2.
func (t *trip) gotConn(info httptrace.GotConnInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.meter != nil { // on which the request was refused
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

// end ends the trip, if it has not ended.
func (t *trip) end(trouble bool) {
	t.cancel(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.meter != nil {
		t.meter.end(trouble)
		t.meter = nil
	}
}

// send sends the request: for the last time, if it was sent on connections that were used
// before, on a new one.
func (t *trip) send(by http.RoundTripper, anew func() *http.Transport) (*http.Response, error) {
	response, err := by.RoundTrip(&t.request)
	if errors.Is(err, errClosedAgain) {
		response, err = t.sendAnew(anew())
	}
	if t.cancel == nil {
		return response, err
	}
	if err != nil {
		if own, ok := errors.AsType[connectionError](context.Cause(t.ctx)); ok {
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
		if t.request.Body, err = t.request.GetBody(); err != nil { // it has one, or was not repeated
			return nil, err
		}
	}
	return by.RoundTrip(&t.request)
}

// tripBody is the body of the answer that a trip brought.
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
	b.trip.end(true) // unless it was read to its end
	return err
}
