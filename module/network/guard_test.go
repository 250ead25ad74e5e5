package network

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// canary is a server on the loopback interface that must not be reached.
type canary struct {
	*httptest.Server
	port    uint16
	touched atomic.Int32
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := new(canary)
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	c.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			c.touched.Add(1)
		}
	}
	c.Start()
	t.Cleanup(c.Close)
	c.port = netip.MustParseAddrPort(c.Listener.Addr().String()).Port()
	return c
}

// resolver answers every name with the same addresses.
func resolver(addresses ...string) func(context.Context, string) ([]netip.Addr, error) {
	var parsed []netip.Addr
	for _, a := range addresses {
		parsed = append(parsed, netip.MustParseAddr(a))
	}
	return func(context.Context, string) ([]netip.Addr, error) { return parsed, nil }
}

func networks(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	var parsed []netip.Prefix
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			address := netip.MustParseAddr(text)
			network = netip.PrefixFrom(address, address.BitLen())
		}
		parsed = append(parsed, network)
	}
	return parsed
}

func testRules(networks []netip.Prefix, ports ...uint16) *Rules {
	allowed := make(map[uint16]bool)
	for _, port := range ports {
		allowed[port] = true
	}
	return NewRules(networks, allowed, func(string, string, string, *exchange.RefusedError) {})
}

// testTransport provisions a transport as a handler does.
func testTransport(t *testing.T, config string, r *Rules) *Transport {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	tr, err := NewTransport(ctx, []byte(config), r, 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// get sends a request to a host that need not be valid in a URL.
func get(ctx context.Context, rt http.RoundTripper, scheme, host string) error {
	r := (&http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: scheme, Host: host, Path: "/"}, Host: "example.com",
		Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	response, err := rt.RoundTrip(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// refusedBy returns the rule that an error names, or the error's text.
func refusedBy(err error) string {
	if r := exchange.Refusal(err); r != nil {
		return r.Reason
	}
	if err == nil {
		return ""
	}
	return "not a refusal: " + err.Error()
}

const (
	notPublic = "address is not public"
	noPublic  = "host name has no address that may be called"
	zone      = "address has a zone"
	mapped    = "address is IPv4 written as IPv6"
	unusual   = "address is not in canonical form"
	noHost    = "host is neither a host name (xn--… if it is not ASCII) nor an address in canonical form"
)

// TestGuardSpellings tries to reach a server on the loopback interface under all
// names of special addresses, with a resolver that takes whatever it is asked for
// as a name of that server.
func TestGuardSpellings(t *testing.T) {
	c := newCanary(t)
	tr := testTransport(t, "", testRules(nil, c.port))
	tr.guard.lookup = resolver("127.0.0.1")
	for host, rule := range map[string]string{
		// names that resolve to it
		"localhost": noPublic, "LOCALHOST": noPublic, "localhost.": noPublic, "localhost.localdomain": noPublic,
		"canary.example.com": noPublic, "127.0.0.1.nip.io": noPublic, "xn--bcher-kva.example": noPublic, "my_host": noPublic,
		// IPv4 in its usual form
		"127.0.0.1": notPublic, "127.1.2.3": notPublic, "127.255.255.254": notPublic, "0.0.0.0": notPublic, "0.1.2.3": notPublic,
		"10.0.0.1": notPublic, "10.255.255.255": notPublic, "172.16.0.1": notPublic, "172.31.255.255": notPublic,
		"192.168.0.1": notPublic, "169.254.169.254": notPublic, "169.254.0.1": notPublic, "100.64.0.1": notPublic,
		"100.100.100.200": notPublic, "192.0.0.1": notPublic, "192.0.0.192": notPublic, "192.0.2.1": notPublic,
		"198.18.0.1": notPublic, "198.19.255.255": notPublic, "198.51.100.1": notPublic, "203.0.113.1": notPublic,
		"224.0.0.1": notPublic, "239.255.255.255": notPublic, "240.0.0.1": notPublic, "255.255.255.255": notPublic,
		"192.88.99.1": notPublic, "192.31.196.1": notPublic, "192.52.193.1": notPublic, "192.175.48.1": notPublic,
		// IPv4 in other forms
		"127.1": unusual, "127.0.1": unusual, "0": unusual, "1": unusual, "2130706433": unusual, "017700000001": unusual,
		"0x7f000001": unusual, "0X7F.1": unusual, "0x7f.0.0.1": unusual, "127.0.0.0x1": unusual, "127.0.0.1.": unusual,
		"0177.0.0.1": unusual, "127.0.0.01": unusual, "127.000.000.001": unusual, "127.0.0.256": unusual, "0x": unusual,
		"4294967297": unusual, "127.0.0.1.1": unusual, "localhost.0x7f000001": unusual, "00000000127.1": unusual,
		// IPv6
		"[::]": notPublic, "[::1]": notPublic, "[0:0:0:0:0:0:0:1]": notPublic, "[::0001]": notPublic, "[fe80::1]": notPublic,
		"[fc00::1]": notPublic, "[fd00:ec2::254]": notPublic, "[fec0::1]": notPublic, "[ff02::1]": notPublic, "[100::1]": notPublic,
		"[2001:db8::1]": notPublic, "[2001::1]": notPublic, "[2001:10::1]": notPublic, "[3fff::1]": notPublic, "[4000::1]": notPublic,
		// IPv4 inside IPv6
		"[::ffff:127.0.0.1]": mapped, "[::ffff:7f00:1]": mapped, "[::FFFF:10.0.0.1]": mapped, "[0:0:0:0:0:ffff:127.0.0.1]": mapped,
		"[::ffff:8.8.8.8]": mapped, "[::127.0.0.1]": notPublic, "[::7f00:1]": notPublic, "[::ffff:0:127.0.0.1]": notPublic,
		"[64:ff9b::127.0.0.1]": notPublic, "[64:ff9b::7f00:1]": notPublic, "[64:ff9b:1::a00:1]": notPublic,
		"[2002:7f00:1::]": notPublic, "[2002:7f00:1::1]": notPublic, "[2001:0:7f00:1::]": notPublic,
		// zones
		"[fe80::1%eth0]": zone, "[::1%lo]": zone, "[2606:4700:4700::1111%1]": zone,
		// neither
		"[127.0.0.1]": notPublic, "-": noPublic, "a..b": noHost, "%31%32%37.0.0.1": noHost, "127.0.0.1%00": noHost,
	} {
		t.Run(host, func(t *testing.T) {
			for _, scheme := range []string{"http", "https"} {
				err := get(t.Context(), tr, scheme, host+":"+strconv.Itoa(int(c.port)))
				if got := refusedBy(err); got != rule {
					t.Errorf("%s: %q, want %q", scheme, got, rule)
				}
			}
		})
	}
	if n := c.touched.Load(); n != 0 {
		t.Errorf("the canary was reached %d times", n)
	}
}

// TestGuardHosts covers hosts that net/http itself would refuse or change.
func TestGuardHosts(t *testing.T) {
	g := &guard{Rules: testRules(nil, 80), lookup: resolver("127.0.0.1"), timeout: time.Minute}
	for _, host := range []string{"", " ", ".", "..", "a b", "a/b", "a\x00b", "１２７.0.0.1", "127。0。0。1", "bücher.example", "127.0.0.1\n", "a@b", "::1"} {
		if _, err := g.judge(t.Context(), net.JoinHostPort(host, "80")); refusedBy(err) == "" {
			t.Errorf("%q is allowed", host)
		}
	}
	for _, address := range []string{"", "example.com", "example.com:", "example.com:http", "example.com:-80", "example.com:65616", "example.com:080x"} {
		if _, err := g.judge(t.Context(), address); refusedBy(err) == "" {
			t.Errorf("%q is allowed", address)
		}
	}
}

func TestGuardAllowsNetworks(t *testing.T) {
	for _, tc := range []struct {
		networks []string
		allowed  []string
		refused  []string
	}{
		{nil, []string{"8.8.8.8", "2606:4700:4700::1111", "172.32.0.1", "100.128.0.1", "1.1.1.1"}, []string{"127.0.0.1", "::1"}},
		{[]string{"10.1.2.0/24"}, []string{"10.1.2.0", "10.1.2.255", "8.8.8.8"}, []string{"10.1.1.255", "10.1.3.0", "10.0.0.1", "127.0.0.1", "::1"}},
		{[]string{"127.0.0.1"}, []string{"127.0.0.1"}, []string{"127.0.0.2", "::1", "0.0.0.0"}},
		{[]string{"127.0.0.1/8"}, []string{"127.0.0.1", "127.255.0.1"}, []string{"::1", "128.66.0.1.example", "10.0.0.1"}},
		{[]string{"::1"}, []string{"::1"}, []string{"127.0.0.1", "::", "::2"}},
		{[]string{"fd00:1::/32"}, []string{"fd00:1::7", "fd00:1:ffff::"}, []string{"fd00:2::7", "fc00:1::7", "10.0.0.1"}},
		{[]string{"169.254.0.0/16", "fd00::/8", "100.64.0.0/10"}, []string{"169.254.1.1", "fd00:ec2::123"}, []string{
			"169.254.169.254", "169.254.169.253", "169.254.169.252", "169.254.170.2", "169.254.170.23", "169.254.42.42", "169.254.0.23", "100.100.100.200",
			"fd00:ec2::254", "fd00:ec2::253", "fd00:ec2::23", "fd20:ce::254", "fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:a9fe:a9fe::1",
		}},
		{[]string{"192.0.0.0/24", "0.0.0.0/0", "fe80::/10"}, []string{"192.0.0.1", "fe80::1"}, []string{"192.0.0.192", "168.63.129.16", "fe80::a9fe:a9fe"}},
		{[]string{"169.254.169.254", "fd00:ec2::254/128"}, []string{"169.254.169.254", "fd00:ec2::254"}, []string{"169.254.169.253", "fd20:ce::254"}},
		{nil, nil, []string{"168.63.129.16"}},
		// IPv4 addresses behind IPv6 ones have to be allowed, too.
		{[]string{"64:ff9b::/96"}, []string{"64:ff9b::808:808"}, []string{
			"64:ff9b:1::808:808", "64:ff9b::a00:1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::6464:64c8", "64:ff9b::", "64:ff9b::a83f:8110",
		}},
		{[]string{"64:ff9b::/96", "10.0.0.0/8", "169.254.0.0/16"}, []string{"64:ff9b::a00:1", "64:ff9b::a9fe:1"}, []string{"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"}},
		{[]string{"64:ff9b::/96", "169.254.169.254"}, []string{"64:ff9b::a9fe:a9fe"}, []string{"64:ff9b::a9fe:aa02"}},
		{[]string{"64:ff9b::a00:1"}, []string{"64:ff9b::a00:1"}, []string{"64:ff9b::a00:2", "10.0.0.1"}},
		{[]string{"64:ff9b:1::/48"}, []string{"64:ff9b:1::808:808", "64:ff9b:1:808:8:800::", "64:ff9b:1:fffe::808:808"}, []string{
			"64:ff9b:1::a00:1", "64:ff9b:1::7f00:1", "64:ff9b:1::a9fe:a9fe", "64:ff9b:1:fffe::c0a8:1", "64:ff9b:1::",
			"64:ff9b:1:a00:0:100::", "64:ff9b:1:a9fe:a9:fe00::", "64:ff9b:1:0a:0:1::", "64:ff9b:1:0:a:0:100:0", "64:ff9b:1:ff7f::1:0:0",
		}},
		{[]string{"64:ff9b:1:a00::/96"}, []string{"64:ff9b:1:a00::808:808"}, []string{"64:ff9b:1:a00::a00:1", "64:ff9b:1::808:808"}},
		{[]string{"64:ff9b:1:a00::/64"}, []string{"64:ff9b:1:a00::808:808", "64:ff9b:1:a00:8:808:800::"}, []string{"64:ff9b:1:a00:a:0:100::", "64:ff9b:1:a00::7f00:1"}},
		{[]string{"2002::/16"}, []string{"2002:808:808::1"}, []string{"2002:a00:1::", "2002:7f00:1::1", "2002:a9fe:a9fe::1", "2002:c0a8:101:5::"}},
		{[]string{"2001::/32"}, []string{"2001:0:808:808:0:0:f7f7:f7f7"}, []string{"2001:0:7f00:1::f7f7:f7f7", "2001:0:808:808::80ff:fffe", "2001:0:808:808::5601:5601"}},
		{[]string{"::/96", "::ffff:0:0:0/96"}, []string{"::808:808", "::ffff:0:808:808"}, []string{"::7f00:1", "::a00:1", "::ffff:0:7f00:1", "::ffff:0:a9fe:a9fe"}},
		{nil, []string{"2606:4700::5efe:808:808", "2606:4700::5eff:a00:1"}, []string{"2606:4700::5efe:a00:1", "2606:4700::200:5efe:7f00:1", "2606:4700::5efe:a9fe:a9fe"}},
		{[]string{"fe80::/10", "fd00::/8", "10.0.0.0/8"}, []string{"fe80::5efe:a00:1", "fd00::200:5efe:a00:1"}, []string{"fe80::5efe:7f00:1", "fd00::5efe:a9fe:a9fe"}},
		{[]string{"0.0.0.0/0"}, []string{"127.0.0.1", "255.255.255.255"}, []string{"::1", "fe80::1"}},
	} {
		g := &guard{Rules: testRules(networks(t, tc.networks...), 443), timeout: time.Minute}
		for want, addresses := range map[string][]string{"": tc.allowed, notPublic: tc.refused} {
			for _, address := range addresses {
				g.lookup = resolver("192.0.2.1")
				if _, err := netip.ParseAddr(address); err == nil {
					g.lookup = resolver(address)
				}
				named := want
				if named == notPublic {
					named = noPublic
				}
				if _, err := g.judge(t.Context(), "host.example:443"); refusedBy(err) != named {
					t.Errorf("%v, a name for %s: %q, want %q", tc.networks, address, refusedBy(err), named)
				}
				if _, err := netip.ParseAddr(address); err != nil {
					continue // it is a name
				}
				if _, err := g.judge(t.Context(), net.JoinHostPort(address, "443")); refusedBy(err) != want {
					t.Errorf("%v, %s: %q, want %q", tc.networks, address, refusedBy(err), want)
				}
			}
		}
	}
}

// TestGuardReaches makes sure that the canary of the other tests can be reached
// at all, by what allow_networks and the ports name and by nothing else.
func TestGuardReaches(t *testing.T) {
	c := newCanary(t)
	other := newCanary(t)
	tr := testTransport(t, "", testRules(networks(t, "127.0.0.0/8"), c.port))
	tr.guard.lookup = resolver("::ffff:127.0.0.1") // as some resolvers write it
	port := ":" + strconv.Itoa(int(c.port))
	for host, want := range map[string]string{
		"127.0.0.1" + port:                           "",
		"name.example" + port:                        "",
		"[::ffff:127.0.0.1]" + port:                  mapped,
		"[::1]" + port:                               notPublic,
		"127.1" + port:                               unusual,
		"2130706433" + port:                          unusual,
		"127.0.0.1:" + strconv.Itoa(int(other.port)): "port " + strconv.Itoa(int(other.port)) + " is not allowed",
		"127.0.0.1":                                  "port 80 is not allowed",
		"127.0.0.1:22":                               "port 22 is not allowed",
	} {
		if got := refusedBy(get(t.Context(), tr, "http", host)); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	if c.touched.Load() == 0 || other.touched.Load() != 0 {
		t.Errorf("reached the allowed port %d times, the other %d times", c.touched.Load(), other.touched.Load())
	}
}

// TestGuardRebinding gives a name another meaning with every look-up.
func TestGuardRebinding(t *testing.T) {
	answers := [][]string{{"8.8.8.8"}, {"127.0.0.1"}, {"10.0.0.1", "1.1.1.1"}, {"169.254.169.254", "127.0.0.1"}}
	var lookups int
	var dialed []string
	g := &guard{
		Rules: testRules(nil, 443),
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			lookups++
			return resolver(answers[(lookups-1)%len(answers)]...)(ctx, host)
		},
		next: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			return nil, errors.New("not reached")
		},
		timeout: time.Minute,
	}
	for range 2 * len(answers) {
		if _, err := g.dial(t.Context(), "tcp", "rebind.example:443"); err == nil {
			t.Fatal("dialed")
		}
	}
	want := []string{"8.8.8.8:443", "1.1.1.1:443", "8.8.8.8:443", "1.1.1.1:443"}
	if !slices.Equal(dialed, want) {
		t.Errorf("dialed %v, want %v", dialed, want)
	}
	if lookups != 2*len(answers) {
		t.Errorf("%d look-ups, want one for each dial", lookups)
	}
}

func TestGuardTriesAddressesInOrder(t *testing.T) {
	var dialed []string
	conn, peer := net.Pipe()
	defer peer.Close()
	g := &guard{
		Rules:  testRules(nil, 443),
		lookup: resolver("2606:4700:4700::1111", "fd00::1", "8.8.8.8", "1.1.1.1"),
		next: func(_ context.Context, _, address string) (net.Conn, error) {
			dialed = append(dialed, address)
			if len(dialed) < 2 {
				return nil, errors.New("no route")
			}
			return conn, nil
		},
		timeout: time.Minute,
	}
	got, err := g.dial(t.Context(), "tcp", "host.example:443")
	if err != nil || got != conn {
		t.Fatal(got, err)
	}
	if want := []string{"[2606:4700:4700::1111]:443", "8.8.8.8:443"}; !slices.Equal(dialed, want) {
		t.Errorf("dialed %v, want %v", dialed, want)
	}
}

// TestGuardFailures checks that failures of the network are no refusals, and can
// be told apart.
func TestGuardFailures(t *testing.T) {
	tr := testTransport(t, "", testRules(networks(t, "127.0.0.0/8"), 1))
	err := get(t.Context(), tr, "http", "127.0.0.1:1")
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("closed port: %v", err)
	}
	if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" {
		t.Errorf("closed port: %v is no failure to dial", err)
	}
	tr.guard.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	unknown := get(t.Context(), tr, "http", "gone.example:1")
	tr.guard.lookup = resolver()
	empty := get(t.Context(), tr, "http", "empty.example:1")
	tr.guard.lookup = resolver("10.0.0.1")
	private := get(t.Context(), tr, "http", "private.example:1")
	for name, err := range map[string]error{"unknown": unknown, "without addresses": empty, "private": private} {
		r, ok := errors.AsType[*exchange.RefusedError](err)
		if !ok || r.Reason != noPublic || err.Error() != "refused: "+noPublic || !r.Passing {
			t.Errorf("a name that is %s: %v", name, err)
		} else if wantWhy := map[bool]string{true: notPublic, false: "host name does not exist"}[name == "private"]; r.Exact != wantWhy {
			t.Errorf("a name that is %s: the operator learns %q", name, r.Exact)
		}
	}
	tr.guard.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		return nil, &net.DNSError{Err: "server misbehaving", Name: host, IsTemporary: true}
	}
	if err := get(t.Context(), tr, "http", "failing.example:1"); refusedBy(err) == noPublic {
		t.Errorf("a name server that fails: %v", err)
	}
}

// TestJudge covers what is judged of a URL without a look-up or a connection,
// with and without a proxy.
func TestJudge(t *testing.T) {
	for _, config := range []string{
		`{"protocol": "http"}`,
		`{"protocol": "http", "network_proxy": {"from": "url", "url": "http://127.0.0.1:1"}}`,
	} {
		var reports []string
		r := NewRules(networks(t, "10.1.0.0/16"), map[uint16]bool{80: true, 443: true}, func(_, host, address string, r *exchange.RefusedError) {
			reports = append(reports, host+" "+address+" "+r.Reason)
		})
		tr := testTransport(t, config, r)
		tr.guard.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			t.Errorf("%s was looked up", host)
			return nil, errors.New("no such host")
		}
		tr.guard.next = func(_ context.Context, _, address string) (net.Conn, error) {
			t.Errorf("%s was dialed", address)
			return nil, errors.New("not reached")
		}
		for text, want := range map[string]string{
			"https://public.example/x":   "",
			"http://localhost/x":         "", // up to the dialer
			"https://8.8.8.8":            "",
			"https://[2606:4700::1111]":  "",
			"http://10.1.2.3:443/":       "",
			"http://10.2.2.3/":           notPublic,
			"https://127.0.0.1/":         notPublic,
			"https://169.254.169.254/":   notPublic,
			"https://[::1]/":             notPublic,
			"https://[::ffff:8.8.8.8]/":  mapped,
			"https://[fe80::1%25eth0]/":  zone,
			"https://127.1/":             unusual,
			"https://0x7f000001/":        unusual,
			"https://a..b/":              noHost,
			"https://public.example:22/": "port 22 is not allowed",
			"http://127.0.0.1:22/":       "port 22 is not allowed",
		} {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			reports = nil
			var judge interface {
				Judge(ctx context.Context, source string, u *url.URL) error
			} = tr
			if got := refusedBy(judge.Judge(t.Context(), "acme", u)); got != want {
				t.Errorf("%s: %q, want %q", text, got, want)
			}
			if refused := want != ""; refused != (len(reports) == 1) {
				t.Errorf("%s: reported %q", text, reports)
			}
		}
	}
}

func TestGuardReports(t *testing.T) {
	var reports []string
	r := NewRules(nil, map[uint16]bool{443: true}, func(_, host, address string, r *exchange.RefusedError) {
		reports = append(reports, host+" "+address+" "+r.Exact)
	})
	g := &guard{Rules: r, lookup: resolver("::ffff:10.0.0.1"), timeout: time.Minute}
	_, err := g.judge(t.Context(), "host.example:443")
	if text := err.Error(); text != "refused: "+noPublic {
		t.Errorf("the error says %q", text)
	}
	_, _ = g.judge(t.Context(), "host.example:22")
	if want := []string{"host.example:443 10.0.0.1 " + notPublic, "host.example:22  port 22 is not allowed"}; !slices.Equal(reports, want) {
		t.Errorf("reported %q, want %q", reports, want)
	}
}

// TestRulesOfRefusals: which kind of rule forbids a connection.
func TestRulesOfRefusals(t *testing.T) {
	var refused []run.Rule
	g := &guard{Rules: NewRules(nil, map[uint16]bool{443: true}, func(_, _, _ string, r *exchange.RefusedError) { refused = append(refused, r.Rule) }), timeout: time.Minute}
	for hostport, want := range map[string]run.Rule{
		"example.com:80": run.RulePort, "example.com:x": run.RulePort, "1.2.3.4:0": run.RulePort,
		"127.1:443": run.RuleHost, "a..b:443": run.RuleHost, "[fe80::1%eth0]:443": run.RuleHost, "[::ffff:1.2.3.4]:443": run.RuleHost,
		"10.0.0.1:443": run.RuleAddress, "private.example:443": run.RuleAddress, "none.example:443": run.RuleNoSuchHost,
	} {
		g.lookup, refused = resolver("10.0.0.1"), nil
		if hostport == "none.example:443" {
			g.lookup = resolver()
		}
		if _, err := g.judge(t.Context(), hostport); err == nil || !slices.Equal(refused, []run.Rule{want}) {
			t.Errorf("%s: %v, refused by %v, want %s", hostport, err, refused, want)
		}
	}
}

// TestGuardIgnoresUpstreams: with dial information in the context, Caddy's
// transport dials that instead of the address it is given.
func TestGuardIgnoresUpstreams(t *testing.T) {
	c := newCanary(t)
	tr := testTransport(t, "", testRules(networks(t, "192.0.2.1"), 80))
	ctx := context.WithValue(t.Context(), caddy.CtxKey("reverse_proxy.dial_info"), reverseproxy.DialInfo{
		Network: "tcp", Address: c.Listener.Addr().String(),
	})
	if _, ok := reverseproxy.GetDialInfo(ctx); !ok {
		t.Fatal("the context key of reverse_proxy has changed")
	}
	if got := refusedBy(get(ctx, tr, "http", "192.0.2.1:80")); got == "" || c.touched.Load() != 0 {
		t.Errorf("%q, the canary was reached %d times", got, c.touched.Load())
	}
}

func BenchmarkGuard(b *testing.B) {
	g := &guard{Rules: testRules(nil, 443), lookup: resolver("8.8.8.8"), timeout: time.Minute}
	for b.Loop() {
		if _, err := g.judge(b.Context(), "host.example:443"); err != nil {
			b.Fatal(err)
		}
	}
}

// TestExactReasons: only the operator learns that a name does not exist, or that a server does not speak TLS.
func TestExactReasons(t *testing.T) {
	for _, tc := range []struct {
		err          error
		vague, exact string
		rule         run.Rule
	}{
		{(&Rules{report: func(string, string, string, *exchange.RefusedError) {}}).refuse("", "a.example:443", "", errNowhere, errNoSuchHost), errNowhere.Error(), "host name does not exist", run.RuleNoSuchHost},
		{(&Rules{report: func(string, string, string, *exchange.RefusedError) {}}).refuse("", "a.example:443", "10.0.0.1", errNowhere, errNotPublic), errNowhere.Error(), "address is not public", run.RuleAddress},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "the TLS handshake failed", "the server does not speak TLS", run.RuleNotTLS},
		{http.ErrSchemeMismatch, "the TLS handshake failed", "the server does not speak TLS", run.RuleNotTLS},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection refused", "connection refused", ""},
	} {
		vague, rule := exchange.ReasonOf(tc.err)
		if exact := exchange.ExactReason(tc.err); vague != tc.vague || exact != tc.exact || rule != tc.rule {
			t.Errorf("%v: %q, %q, %q", tc.err, vague, exact, rule)
		}
	}
}
