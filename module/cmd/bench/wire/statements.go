package wire

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync/atomic"
)

// Statements is a proxy before a PostgreSQL without TLS that counts the statements of its clients (PostgreSQL, «Frontend/Backend Protocol»).
type Statements struct {
	listener net.Listener
	to       string
	counted  func(text string) bool

	count atomic.Int64
}

// CountStatements starts a proxy. It counts the statements whose texts the function reports.
func CountStatements(to string, counted func(text string) bool) (*Statements, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Statements{listener: listener, to: to, counted: counted}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s, nil
}

// Address returns the address of the proxy.
func (s *Statements) Address() string { return s.listener.Addr().String() }

// Close ends the proxy. Connections end with their clients.
func (s *Statements) Close() { _ = s.listener.Close() }

// Count returns how many statements were counted.
func (s *Statements) Count() int64 { return s.count.Load() }

func (s *Statements) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", s.to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
	s.forward(bufio.NewReader(client), bufio.NewWriter(server))
}

// forward passes messages on until one side ends. The first one has no type.
func (s *Statements) forward(from *bufio.Reader, to *bufio.Writer) {
	prepared, bound := map[string]string{}, ""
	for first := true; ; first = false {
		var kind byte
		if !first {
			var err error
			if kind, err = from.ReadByte(); err != nil || to.WriteByte(kind) != nil {
				return
			}
		}
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return
		}
		body := make([]byte, max(4, binary.BigEndian.Uint32(length[:]))-4)
		if _, err := io.ReadFull(from, body); err != nil {
			return
		}
		name, rest, _ := strings.Cut(string(body), "\x00")
		text, _, _ := strings.Cut(rest, "\x00")
		switch kind {
		case 'P': // Parse: name and text of a prepared statement
			prepared[name] = text
		case 'B': // Bind: name of a portal and of its statement
			bound = prepared[text]
		case 'E': // Execute
			s.add(bound)
		case 'Q': // a simple query
			s.add(name)
		}
		_, _ = to.Write(length[:]) // Flush returns its error
		_, _ = to.Write(body)
		if from.Buffered() == 0 && to.Flush() != nil {
			return
		}
	}
}

func (s *Statements) add(text string) {
	if s.counted(text) {
		s.count.Add(1)
	}
}
