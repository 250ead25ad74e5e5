package hostile

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// A Canary is a listener that fails the test if a client has connected to it.
type Canary struct {
	tb       testing.TB
	listener net.Listener
	mu       sync.Mutex
	from     []string // addresses of the clients
	heard    []string // the first bytes of each connection
	work     sync.WaitGroup
}

// NewCanary listens on a port of 127.0.0.1.
func NewCanary(tb testing.TB) *Canary {
	tb.Helper()
	return NewCanaryAt(tb, loopback+":0")
}

// NewCanaryAt listens on any address, for example "[::1]:0" or "127.0.0.2:8080".
func NewCanaryAt(tb testing.TB, address string) *Canary {
	tb.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	c := &Canary{tb: tb, listener: listener}
	c.work.Go(c.accept)
	tb.Cleanup(func() {
		if n := c.Connections(); n > 0 {
			tb.Errorf("the canary at %s was reached %d times: %q", c.Address(), n, c.Heard())
		}
		_ = listener.Close() // ends the goroutine
		c.work.Wait()
	})
	return c
}

// Address returns the canary's address.
func (c *Canary) Address() string { return c.listener.Addr().String() }

// Port returns the canary's port.
func (c *Canary) Port() string {
	_, port, _ := net.SplitHostPort(c.Address()) // a valid address
	return port
}

func (c *Canary) accept() {
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.from = append(c.from, conn.RemoteAddr().String())
		c.mu.Unlock()
		c.work.Go(func() { c.hear(conn) })
	}
}

// hear records the first bytes of a connection.
func (c *Canary) hear(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // can't fail on an open connection
	said := make([]byte, 1024)
	if n, _ := conn.Read(said); n > 0 {
		c.mu.Lock()
		c.heard = append(c.heard, string(said[:n]))
		c.mu.Unlock()
	}
}

// Connections returns the number of connections. It connects to the canary first: connections are
// accepted in order, so all earlier ones are counted then.
func (c *Canary) Connections() int {
	c.tb.Helper()
	own, err := net.DialTimeout("tcp", c.Address(), 10*time.Second)
	if err != nil {
		c.tb.Fatalf("reaching the canary: %v", err)
	}
	defer own.Close()
	address := own.LocalAddr().String()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		at := slices.Index(c.from, address)
		if at >= 0 {
			c.from = slices.Delete(c.from, at, at+1)
		}
		others := len(c.from)
		c.mu.Unlock()
		if at >= 0 {
			return others
		}
	}
	c.tb.Fatal("the canary does not accept")
	return 0
}

// Heard returns the first bytes of each connection.
func (c *Canary) Heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.heard)
}
