package hostile

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// A NameServer is a DNS server over UDP and TCP with the answers of a test. The answer for other names
// is NXDOMAIN.
type NameServer struct {
	address string
	done    chan struct{} // closed when the test ends

	mu        sync.Mutex
	names     map[string]func(n int) Lookup
	questions map[question]int
}

// question is a name and a type. Clients send questions of both address types at once, so they are
// counted separately.
type question struct {
	name string
	kind uint16
}

// A Lookup is the answer to one question.
type Lookup struct {
	addresses []netip.Addr
	code      int
	silent    bool
	truncated bool
	delay     time.Duration
}

// Addresses answers with the addresses of the requested type, A or AAAA, and a TTL of 0.
func Addresses(addresses ...string) Lookup {
	var l Lookup
	for _, text := range addresses {
		l.addresses = append(l.addresses, netip.MustParseAddr(text))
	}
	return l
}

// NXDomain answers that there is no such name.
func NXDomain() Lookup { return Lookup{code: dns.RcodeNameError} }

// ServFail answers that the server failed.
func ServFail() Lookup { return Lookup{code: dns.RcodeServerFailure} }

// Silence never answers.
func Silence() Lookup { return Lookup{silent: true} }

// Truncated sends a truncated answer over UDP, and the addresses over TCP.
func Truncated(l Lookup) Lookup {
	l.truncated = true
	return l
}

// Late answers after a delay.
func Late(delay time.Duration, l Lookup) Lookup {
	l.delay = delay
	return l
}

// NewNameServer starts a name server on a loopback port.
func NewNameServer(tb testing.TB) *NameServer {
	tb.Helper()
	tcp, udp, err := listenTwice()
	if err != nil {
		tb.Fatal(err)
	}
	s := &NameServer{
		address: udp.LocalAddr().String(), done: make(chan struct{}),
		names: map[string]func(int) Lookup{}, questions: map[question]int{},
	}
	var serving sync.WaitGroup
	for _, server := range []*dns.Server{{Listener: tcp, Handler: s}, {PacketConn: udp, Handler: s}} {
		serving.Go(func() { _ = server.ActivateAndServe() }) // returns when the listener is closed
	}
	tb.Cleanup(func() {
		close(s.done)
		_, _ = udp.Close(), tcp.Close() // ends the servers
		serving.Wait()
	})
	return s
}

// listenTwice listens on the same port with TCP and UDP. It fails if the port is in use with UDP.
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

// Address returns the server's address.
func (s *NameServer) Address() string { return s.address }

// Transport returns the transport option of a skill_bridge that uses the server, with further lines.
func (s *NameServer) Transport(lines ...string) string {
	return "transport http {\n\tresolvers " + s.Address() + "\n\t" + strings.Join(append(lines, "}"), "\n")
}

// Set answers the questions for a name in order. The last answer is repeated.
func (s *NameServer) Set(name string, lookups ...Lookup) {
	s.Script(name, func(n int) Lookup { return lookups[min(n, len(lookups))-1] })
}

// Rotate answers the questions for a name in order, and starts again after the last answer.
func (s *NameServer) Rotate(name string, lookups ...Lookup) {
	s.Script(name, func(n int) Lookup { return lookups[(n-1)%len(lookups)] })
}

// Script chooses the answers for a name by the number of the question, from 1 for each of A and AAAA.
// Choose is not called concurrently.
func (s *NameServer) Script(name string, choose func(n int) Lookup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name = dns.CanonicalName(name)
	s.names[name] = choose
	delete(s.questions, question{name, dns.TypeA})
	delete(s.questions, question{name, dns.TypeAAAA})
}

// Questions returns the number of A questions for a name since its answers were set.
func (s *NameServer) Questions(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.questions[question{dns.CanonicalName(name), dns.TypeA}]
}

func (s *NameServer) lookup(q dns.Question) Lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := question{dns.CanonicalName(q.Name), q.Qtype}
	s.questions[key]++
	if choose := s.names[key.name]; choose != nil {
		return choose(s.questions[key])
	}
	return NXDomain()
}

// ServeDNS implements dns.Handler.
func (s *NameServer) ServeDNS(w dns.ResponseWriter, m *dns.Msg) {
	q := m.Question[0]
	l := s.lookup(q)
	if l.silent || !Every(l.delay)(s.done) {
		return
	}
	answer := new(dns.Msg).SetRcode(m, l.code)
	answer.RecursionAvailable = true
	answer.Truncated = l.truncated && w.LocalAddr().Network() == "udp"
	if answer.Truncated {
		l.addresses = nil
	}
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: q.Qclass}
	for _, a := range l.addresses {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			answer.Answer = append(answer.Answer, &dns.A{Hdr: header, A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && !a.Is4():
			answer.Answer = append(answer.Answer, &dns.AAAA{Hdr: header, AAAA: a.AsSlice()})
		}
	}
	_ = w.WriteMsg(answer) // a client without an answer repeats its question
}
