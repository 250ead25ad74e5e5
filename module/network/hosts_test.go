package network

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// A source that has named very many hosts can call more, without connections that are kept. That changes nothing for the hosts that were
// known before, and for other sources.
func TestManyHosts(t *testing.T) {
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	server := &httptest.Server{Listener: listener, Config: &http.Server{
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		},
	}}
	server.Start()
	defer server.Close()
	port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
	tr := testTransport(t, "", testRules([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, port))
	defer tr.CloseIdleConnections()
	connections := func(source, host string) int64 {
		t.Helper()
		before := opened.Load()
		for range 3 {
			u := &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", host, port), Path: "/"}
			s := &exchange.Sender{Source: source}
			resp, err := tr.RoundTrip(&s.NewRequest(t.Context(), run.PhasePoll, http.MethodGet, u, nil, http.Header{}, nil).Request)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		return opened.Load() - before
	}
	if n := connections("first", "127.0.0.1"); n != 1 {
		t.Errorf("%d connections to the first host", n)
	}
	for i := range maxHosts - 1 {
		if !tr.hosts.admit("first", &url.URL{Scheme: "http", Host: fmt.Sprint("host-", i)}) {
			t.Fatalf("host %d is one too many", i)
		}
	}
	for _, tc := range []struct {
		source, host string
		want         int64
	}{{"first", "127.0.0.2", 3}, {"first", "127.0.0.1", 0}, {"second", "127.0.0.3", 1}} {
		if n := connections(tc.source, tc.host); n != tc.want {
			t.Errorf("source %s, %s: %d connections, want %d", tc.source, tc.host, n, tc.want)
		}
	}
	u := &url.URL{Scheme: "http", Host: strings.Repeat("a", 100)}
	if n := testing.AllocsPerRun(100, func() { tr.hosts.admit("second", u) }); n > 0 {
		t.Errorf("%v allocations for a known host", n)
	}
}

func BenchmarkHosts(b *testing.B) {
	h, u := newHosts(), &url.URL{Scheme: "https", Host: "api.example.com"}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.admit("acme", u)
		}
	})
}
