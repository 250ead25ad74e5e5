package network

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

func TestTransportDefaults(t *testing.T) {
	tr := testTransport(t, "", testRules(nil, 443))
	t.Setenv("HTTPS_PROXY", "http://proxy.example")
	if proxy, err := tr.Proxy(httptest.NewRequest(http.MethodGet, "https://api.example/", nil)); proxy != nil || err != nil {
		t.Errorf("the environment's proxy is used: %v, %v", proxy, err)
	}
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"dial timeout", tr.guard.timeout, 5 * time.Second},
		{"TLS handshake timeout", tr.TLSHandshakeTimeout, 5 * time.Second},
		{"expect-continue timeout", tr.ExpectContinueTimeout, time.Second},
		{"response header timeout", tr.ResponseHeaderTimeout, time.Duration(0)},
		{"write buffer", tr.WriteBufferSize, 8 << 10},
		{"response header size", tr.MaxResponseHeaderBytes, int64(64 << 10)},
		{"idle connections per host", tr.MaxIdleConnsPerHost, 512},
		{"idle timeout", tr.IdleConnTimeout, 90 * time.Second},
		{"compression off", tr.DisableCompression, false},
		{"HTTP/2", tr.TLSNextProto["h2"] != nil, true},
		{"TLS dialer", tr.DialTLSContext == nil && tr.DialTLS == nil && tr.Dial == nil, true},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestTransportOfOperator(t *testing.T) {
	tr := testTransport(t, `{
		"protocol": "http", "dial_timeout": "1s", "response_header_timeout": "2s", "max_response_header_size": 4096,
		"tls": {"server_name": "internal"}, "keep_alive": {"max_idle_conns_per_host": 3}, "versions": ["1.1"]
	}`, testRules(nil, 443))
	for _, tc := range []struct {
		name      string
		got, want any
	}{
		{"dial timeout", tr.guard.timeout, time.Second},
		{"response header timeout", tr.ResponseHeaderTimeout, 2 * time.Second},
		{"write buffer", tr.WriteBufferSize, 8 << 10},
		{"response header size", tr.MaxResponseHeaderBytes, int64(4096)},
		{"idle connections per host", tr.MaxIdleConnsPerHost, 3},
		{"server name", tr.TLSClientConfig.ServerName, "internal"},
		{"HTTP/2", tr.TLSNextProto["h2"] != nil, false},
		{"TLS handshake timeout, not written", tr.TLSHandshakeTimeout, 5 * time.Second},
		{"idle timeout, not written", tr.IdleConnTimeout, 90 * time.Second},
	} {
		if tc.got != tc.want {
			t.Errorf("%s is %v, want %v", tc.name, tc.got, tc.want)
		}
	}
}

func TestTransportRefused(t *testing.T) {
	for config, want := range map[string]string{
		`{"protocol": "fastcgi"}`:               "only http is possible",
		`{}`:                                    "only http is possible",
		`{"protocol": 1}`:                       "only http is possible",
		`[]`:                                    "not a JSON object",
		`{"protocol": "http", "frobnicate": 1}`: "frobnicate",
		`{"protocol": "http", "versions": ["3"], "tls": {}}`:                 "HTTP/3",
		`{"protocol": "http", "versions": ["1.1", "3"]}`:                     "HTTP/3",
		`{"protocol": "http", "dial_timeout": "-1s"}`:                        "dial_timeout -1s is negative",
		`{"protocol": "http", "proxy_protocol": "v1"}`:                       "proxy_protocol",
		`{"protocol": "http", "tls": {"server_name": "{http.vars.x}"}}`:      "tls_server_name",
		`{"protocol": "http", "versions": ["4"]}`:                            "unsupported HTTP version",
		`{"protocol": "http", "resolver": {"addresses": ["10.0.0.53:dns"]}}`: "resolver",
		`{"protocol": "http", "resolver": {}}`:                               "resolver has no addresses",
		`{"protocol": "http", "resolver": {"addresses": ["10.0.0.53:1-2"]}}`: "an address with one port is needed",
		`{"protocol": "http", "network_proxy": {"from": "the_neighbours"}}`:  "the_neighbours",
	} {
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		_, err := NewTransport(ctx, []byte(config), testRules(nil, 443), 4<<20)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", config, err, want)
		}
	}
}

// TestNetworkProxy checks that targets are judged before a proxy is asked for
// them, while the proxy itself may be anywhere.
func TestNetworkProxy(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.RequestURI)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	tr := testTransport(t, `{"protocol": "http", "network_proxy": {"from": "url", "url": "`+proxy.URL+`"}}`, testRules(nil, 80, 443))
	for _, tc := range []struct {
		scheme, host, address string
		want                  string
	}{
		{"http", "public.example", "8.8.8.8", ""},
		{"http", "8.8.8.8:80", "", ""},
		{"http", "private.example", "10.0.0.1", noPublic},
		{"http", "127.0.0.1", "", notPublic},
		{"http", "127.1", "8.8.8.8", unusual},
		{"http", "public.example:22", "8.8.8.8", "port 22 is not allowed"},
		{"https", "private.example", "::1", noPublic},
		{"http", strings.TrimPrefix(proxy.URL, "http://"), "", "port " + proxy.URL[strings.LastIndex(proxy.URL, ":")+1:] + " is not allowed"},
	} {
		tr.guard.lookup = nil
		if tc.address != "" {
			tr.guard.lookup = resolver(tc.address)
		}
		if got := refusedBy(get(t.Context(), tr, tc.scheme, tc.host)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.host, got, tc.want)
		}
	}
	tr.guard.lookup = resolver("8.8.8.8")
	if err := get(t.Context(), tr, "https", "public.example"); err == nil || refusedBy(err) == notPublic {
		t.Errorf("the proxy's answer to CONNECT: %v", err)
	}
	want := []string{"GET http://public.example/", "GET http://8.8.8.8:80/", "CONNECT public.example:443"}
	if !slices.Equal(asked, want) {
		t.Errorf("the proxy was asked for %q, want %q", asked, want)
	}
}

// newSwitcher answers the first request with HTTP 101 and keeps the connection
// open. What it reads after that, up to the error that ends it, it sends on the
// channel.
func newSwitcher(t *testing.T, header string) (address string, ended <-chan error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	end := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			end <- err
			return
		}
		defer conn.Close()
		// For a transport that keeps the connection, and waits.
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		reader := bufio.NewReader(conn)
		if _, err = http.ReadRequest(reader); err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\n")
		}
		if err == nil {
			_, err = reader.ReadByte()
		}
		end <- err
	}()
	return listener.Addr().String(), end
}

// TestSwitchingProtocols: net/http gives the connection of an HTTP 101 to the
// caller, and a read from it ends only when the provider likes.
func TestSwitchingProtocols(t *testing.T) {
	const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
	for name, header := range map[string]string{"upgrade": upgrade, "bare": "", "length": "Content-Length: 10\r\n"} {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " proxied ", proxied), func(t *testing.T) {
				address, ended := newSwitcher(t, header)
				config, host := "", address
				if proxied {
					config, host = `{"protocol": "http", "network_proxy": {"from": "url", "url": "http://`+address+`"}}`, "127.0.0.1"
				}
				tr := testTransport(t, config, testRules(networks(t, "127.0.0.1"), 80, netip.MustParseAddrPort(address).Port()))
				err := get(t.Context(), tr, "http", host)
				malformed, ok := errors.AsType[*exchange.MalformedError](err)
				if !ok || malformed.Status != 101 || !strings.Contains(err.Error(), "101") {
					t.Errorf("the answer's error is %v", err)
				}
				if err := <-ended; err != io.EOF {
					t.Errorf("the connection was not closed: %v", err)
				}
			})
		}
	}
}

// TestSwitchingProtocolsOfCall: a call whose provider answers HTTP 101 is
// answered, and lets go of the connection.
func TestSwitchingProtocolsOfCall(t *testing.T) {
	address, ended := newSwitcher(t, "Connection: Upgrade\r\nUpgrade: websocket\r\n")
	c := testbed.StartCaddy(t, testbed.Bridge("provider http://"+address))
	if a := c.Call("list_skills", nil); a.Status != http.StatusOK || strings.Contains(string(a.Result), `"skills":[{`) {
		t.Error(a)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the connection was not closed: %v", err)
	}
}

func TestNoNetworkProxy(t *testing.T) {
	c := newCanary(t)
	tr := testTransport(t, `{"protocol": "http", "network_proxy": {"from": "none"}}`, testRules(nil, c.port))
	if got := refusedBy(get(t.Context(), tr, "http", c.Listener.Addr().String())); got != notPublic || c.touched.Load() != 0 {
		t.Errorf("%q, the canary was reached %d times", got, c.touched.Load())
	}
}

// TestOwnResolver checks that the guard asks the servers that the operator wrote.
func TestOwnResolver(t *testing.T) {
	dns := newNameServer(t, [4]byte{10, 9, 8, 7})
	tr := testTransport(t, `{"protocol": "http", "resolver": {"addresses": ["`+dns+`"]}}`, testRules(networks(t, "10.9.8.7"), 443))
	got, err := tr.guard.judge(t.Context(), "internal.example:443")
	if err != nil || len(got) != 1 || got[0].String() != "10.9.8.7:443" {
		t.Errorf("%v, %v", got, err)
	}
}
