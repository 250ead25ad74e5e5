package hostile

import (
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// listener accepts and records a provider's connections.
type listener struct {
	tb      testing.TB
	server  *http.Server
	tls     *tls.Config
	stalled bool // TLS handshakes never end

	mu       sync.Mutex
	port     string
	socket   net.Listener // nil: down
	accepted int
	hook     func(n int, c net.Conn) bool
	open     map[*conn]struct{}
	captured []*conn

	isLean atomic.Bool
}

// Up listens again after [Provider.Down], on the same port.
func (l *listener) Up() {
	l.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		return
	}
	socket, err := net.Listen("tcp", net.JoinHostPort(loopback, l.port))
	for err == nil && l.port == "" && !isNew(socket) {
		_ = socket.Close()
		socket, err = net.Listen("tcp", net.JoinHostPort(loopback, ""))
	}
	if err != nil {
		l.tb.Fatalf("a provider can't listen: %v", err)
	}
	l.socket = socket
	_, l.port, _ = net.SplitHostPort(socket.Addr().String()) // a valid address
	go l.server.Serve(acceptor{socket, l})                   //nolint:errcheck // returns when the socket is closed
}

// used are the ports of all providers of this process.
var used sync.Map

// isNew reports whether no provider had the port of a listener before. A run that goes on after its test keeps the bridge's cache, which may
// have documents of an earlier provider with the same URL.
func isNew(socket net.Listener) bool {
	_, seen := used.LoadOrStore(socket.Addr().(*net.TCPAddr).Port, true)
	return !seen
}

// Down stops listening, so that new connections are refused. [Provider.Disconnect] closes existing
// ones.
func (l *listener) Down() {
	l.mu.Lock()
	socket := l.socket
	l.socket = nil
	l.mu.Unlock()
	if socket != nil {
		_ = socket.Close() // the error does not matter
	}
}

// Disconnect closes all connections.
func (l *listener) Disconnect() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the error does not matter
	}
}

// OnConnection calls hook with each new connection and its number, before anything is read. If hook
// returns false, the connection is closed.
func (l *listener) OnConnection(hook func(n int, c net.Conn) (serve bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
}

// Port returns the provider's port.
func (l *listener) Port() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.port
}

// Connections returns the number of accepted connections.
func (l *listener) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Open returns the number of open connections.
func (l *listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Captured returns the first 64 KiB of each connection, without TLS.
func (l *listener) Captured() []string {
	l.mu.Lock()
	conns := slices.Clone(l.captured)
	l.mu.Unlock()
	read := make([]string, 0, len(conns))
	for _, c := range conns {
		c.mu.Lock()
		read = append(read, string(c.read))
		c.mu.Unlock()
	}
	return read
}

func (l *listener) lean() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isLean.Store(true)
	l.captured = nil
}

// acceptor is a socket that records its connections.
type acceptor struct {
	net.Listener
	listener *listener
}

// Accept implements net.Listener.
func (a acceptor) Accept() (net.Conn, error) {
	raw, err := a.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l := a.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != a.Listener { // Down was called in the meantime
		_ = raw.Close() // the error does not matter
		return nil, net.ErrClosed
	}
	l.accepted++
	c := &conn{Conn: raw, tcp: raw.(*net.TCPConn), listener: l, number: l.accepted, hook: l.hook}
	if l.tls != nil {
		c.Conn = tls.Server(raw, l.tls)
	}
	l.open[c] = struct{}{}
	if !l.isLean.Load() {
		l.captured = append(l.captured, c)
	}
	return c, nil
}

// connKey is the context key of a request's connection.
type connKey struct{}

// maxCaptured is how many bytes of a connection are recorded.
const maxCaptured = 64 << 10

// conn is a connection that records the first received bytes and counts the sent ones.
type conn struct {
	net.Conn // the TLS connection if there is TLS
	tcp      *net.TCPConn
	listener *listener
	number   int
	hook     func(n int, c net.Conn) bool
	begun    sync.Once
	last     *Request // there is one request at a time

	mu      sync.Mutex
	read    []byte
	written int64
}

// begin runs before the first byte is read, in the connection's own goroutine, so that a hook may
// block.
func (c *conn) begin() {
	if c.hook != nil && !c.hook(c.number, c.tcp) {
		_ = c.Close() // the error does not matter
	}
	if c.listener.stalled {
		_, _ = io.Copy(io.Discard, c.tcp) // until the client closes the connection or the test ends
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	c.begun.Do(c.begin)
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if keep := min(n, maxCaptured-len(c.read)); keep > 0 && !c.listener.isLean.Load() {
		c.read = append(c.read, b[:keep]...)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += int64(n)
	return n, err
}

// sent returns the number of written bytes.
func (c *conn) sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// Close closes the connection without a TLS close_notify, which could block until the peer reads.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.tcp.Close()
}

// reset closes the connection with an RST.
func (c *conn) reset() {
	_ = c.tcp.SetLinger(0) // can't fail on an open connection
	_ = c.Close()          // the error does not matter
}
