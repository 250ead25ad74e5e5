package network

import (
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// newNameServer answers every question for IPv4 addresses with the same one, and
// returns where it listens.
func newNameServer(t *testing.T, address [4]byte) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close() // ends the goroutine
		<-done
	})
	go func() {
		defer close(done)
		buffer := make([]byte, 512)
		for {
			n, client, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer := answerQuestion(buffer[:n], address); answer != nil {
				_, _ = conn.WriteTo(answer, client) // a client that is gone asks again
			}
		}
	}()
	return conn.LocalAddr().String()
}

func answerQuestion(packet []byte, address [4]byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(packet) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
			Body:   &dnsmessage.AResource{A: address},
		}}
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}
