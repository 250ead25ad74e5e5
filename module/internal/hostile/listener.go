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

// listener accepts a provider's connections, and remembers them.
type listener struct {
	tb      testing.TB
	server  *http.Server
	tls     *tls.Config
	stalled bool // TLS handshakes are

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
	if err != nil {
		l.tb.Fatalf("a provider can't listen: %v", err)
	}
	l.socket = socket
	_, l.port, _ = net.SplitHostPort(socket.Addr().String()) // it is one
	go l.server.Serve(acceptor{socket, l})                   //nolint:errcheck // it ends with the socket
}

// Down stops listening, so that connections are refused. Those that exist stay:
// see [Provider.Disconnect].
func (l *listener) Down() {
	l.mu.Lock()
	socket := l.socket
	l.socket = nil
	l.mu.Unlock()
	if socket != nil {
		_ = socket.Close() // nothing can be done about it
	}
}

// Disconnect closes all connections.
func (l *listener) Disconnect() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.open))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // nothing can be done about it
	}
}

// OnConnection calls hook with each new connection and its number, before
// anything is read. It reports whether the connection is to be served; if not, it
// is closed.
func (l *listener) OnConnection(hook func(n int, c net.Conn) (serve bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hook = hook
}

// Port is the provider's.
func (l *listener) Port() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.port
}

// Connections is how many were accepted.
func (l *listener) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Open is how many connections are open.
func (l *listener) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

// Captured returns the first 64 KiB that each connection received, byte for byte and
// without TLS.
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

// acceptor is a socket whose connections are remembered.
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
	if l.socket != a.Listener { // it went down meanwhile
		_ = raw.Close() // nothing can be done about it
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

// maxCaptured is how many of the bytes that a connection received are kept.
const maxCaptured = 64 << 10

// conn is a connection that keeps the first bytes it received, and counts those it sent.
type conn struct {
	net.Conn // over TLS if there is TLS
	tcp      *net.TCPConn
	listener *listener
	number   int
	hook     func(n int, c net.Conn) bool
	begun    sync.Once
	last     *Request // used by one request at a time

	mu      sync.Mutex
	read    []byte
	written int64
}

// begin does what comes before the first byte is read. The server gives each
// connection a goroutine before it reads, so that a hook may wait.
func (c *conn) begin() {
	if c.hook != nil && !c.hook(c.number, c.tcp) {
		_ = c.Close() // nothing can be done about it
	}
	if c.listener.stalled {
		_, _ = io.Copy(io.Discard, c.tcp) // until the client goes or the test ends
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

// sent is how many bytes were written until now.
func (c *conn) sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}

// Close closes the connection at once, without the end of TLS, which would wait for
// the peer to read.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.open, c)
	c.listener.mu.Unlock()
	return c.tcp.Close()
}

// reset closes the connection with an RST.
func (c *conn) reset() {
	_ = c.tcp.SetLinger(0) // of an open connection
	_ = c.Close()          // nothing can be done about it
}
