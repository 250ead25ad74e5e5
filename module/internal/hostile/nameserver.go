package hostile

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A NameServer answers questions for addresses over UDP and TCP as a test says. Names
// that it was not told are NXDOMAIN.
type NameServer struct {
	tb   testing.TB
	conn net.PacketConn
	tcp  net.Listener  // on the same port
	done chan struct{} // closed when the test ends
	work sync.WaitGroup

	mu        sync.Mutex
	names     map[string]func(n int) Lookup
	questions map[question]int
}

// question is what was asked. Clients ask for both kinds of addresses at once, so
// each kind is counted for itself.
type question struct {
	name string
	kind dnsmessage.Type
}

// A Lookup is what one question is answered.
type Lookup struct {
	addresses []netip.Addr
	code      dnsmessage.RCode
	silent    bool
	truncated bool
	delay     time.Duration
	gate      *Gate
}

// Addresses answers with those of the addresses that are of the kind asked for, A
// or AAAA, and with a TTL of 0.
func Addresses(addresses ...string) Lookup {
	var l Lookup
	for _, text := range addresses {
		l.addresses = append(l.addresses, netip.MustParseAddr(text))
	}
	return l
}

// NXDomain answers that there is no such name.
func NXDomain() Lookup { return Lookup{code: dnsmessage.RCodeNameError} }

// ServFail answers that the server failed.
func ServFail() Lookup { return Lookup{code: dnsmessage.RCodeServerFailure} }

// Silence never answers.
func Silence() Lookup { return Lookup{silent: true} }

// Truncated answers over UDP that the addresses don't fit into the answer, and over TCP
// with them.
func Truncated(l Lookup) Lookup {
	l.truncated = true
	return l
}

// Late answers after some time.
func Late(delay time.Duration, l Lookup) Lookup {
	l.delay = delay
	return l
}

// Behind answers when a gate is opened.
func Behind(g *Gate, l Lookup) Lookup {
	l.gate = g
	return l
}

// NewNameServer starts a name server on a loopback port.
func NewNameServer(tb testing.TB) *NameServer {
	tb.Helper()
	tcp, conn, err := listenTwice()
	if err != nil {
		tb.Fatal(err)
	}
	s := &NameServer{
		tb: tb, conn: conn, tcp: tcp, done: make(chan struct{}),
		names: map[string]func(int) Lookup{}, questions: map[question]int{},
	}
	tb.Cleanup(func() {
		close(s.done)
		_, _ = conn.Close(), tcp.Close() // ends the goroutines
		s.work.Wait()
	})
	s.work.Go(s.serve)
	s.work.Go(s.serveTCP)
	return s
}

// listenTwice listens on a port of TCP and the same one of UDP, which another program may
// have taken.
func listenTwice() (tcp net.Listener, udp net.PacketConn, err error) {
	for range 10 {
		if tcp, err = net.Listen("tcp", loopback+":0"); err != nil {
			return nil, nil, err
		}
		if udp, err = net.ListenPacket("udp", tcp.Addr().String()); err == nil {
			return tcp, udp, nil
		}
		_ = tcp.Close()
	}
	return nil, nil, err
}

// Address is where the server listens.
func (s *NameServer) Address() string { return s.conn.LocalAddr().String() }

// Transport is what a skill_bridge needs to use the server, with further lines of
// the transport.
func (s *NameServer) Transport(lines ...string) string {
	return "transport http {\n\tresolvers " + s.Address() + "\n\t" + strings.Join(append(lines, "}"), "\n")
}

// Set answers the questions for a name in order. The last answer is repeated.
func (s *NameServer) Set(name string, lookups ...Lookup) {
	s.Script(name, func(n int) Lookup { return lookups[min(n, len(lookups))-1] })
}

// Rotate answers the questions for a name in order, over and over again.
func (s *NameServer) Rotate(name string, lookups ...Lookup) {
	s.Script(name, func(n int) Lookup { return lookups[(n-1)%len(lookups)] })
}

// Script chooses the answers to questions for a name by their number, which is
// from 1 for each of A and AAAA. Choose is not called concurrently.
func (s *NameServer) Script(name string, choose func(n int) Lookup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = canonical(name)
	s.names[name] = choose
	delete(s.questions, question{name, dnsmessage.TypeA})
	delete(s.questions, question{name, dnsmessage.TypeAAAA})
}

// Questions is how often IPv4 addresses of a name were asked for since its
// answers were set.
func (s *NameServer) Questions(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.questions[question{canonical(name), dnsmessage.TypeA}]
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (s *NameServer) serve() {
	buffer := make([]byte, 4096)
	for {
		n, client, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		lookup := s.lookup(m.Questions[0])
		s.work.Go(func() {
			if packet := s.answer(m, lookup, lookup.truncated); packet != nil {
				_, _ = s.conn.WriteTo(packet, client) // a client that is gone asks again
			}
		})
	}
}

// serveTCP answers one question on each connection.
func (s *NameServer) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.work.Go(func() {
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			var length [2]byte
			if _, err := io.ReadFull(conn, length[:]); err != nil {
				return
			}
			packet := make([]byte, binary.BigEndian.Uint16(length[:]))
			var m dnsmessage.Message
			if _, err := io.ReadFull(conn, packet); err != nil || m.Unpack(packet) != nil || len(m.Questions) != 1 {
				return
			}
			answer := s.answer(m, s.lookup(m.Questions[0]), false)
			_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)) //nolint:gosec // it is short
		})
	}
}

func (s *NameServer) lookup(q dnsmessage.Question) Lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := question{canonical(q.Name.String()), q.Type}
	s.questions[key]++
	if choose := s.names[key.name]; choose != nil {
		return choose(s.questions[key])
	}
	return NXDomain()
}

// answer is what a question is answered; nil: nothing.
func (s *NameServer) answer(m dnsmessage.Message, l Lookup, truncated bool) []byte {
	if l.silent || !Every(l.delay)(s.done) || l.gate != nil && !l.gate.pass(s.done) {
		return nil
	}
	q := m.Questions[0]
	if truncated {
		m.Truncated, l.addresses = true, nil
	}
	m.Response, m.RCode, m.RecursionAvailable, m.Additionals = true, l.code, true, nil
	for _, a := range l.addresses {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		case q.Type == dnsmessage.TypeAAAA && !a.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	packet, err := m.Pack()
	if err != nil {
		s.tb.Errorf("a name server's answer: %v", err)
		return nil
	}
	return packet
}
