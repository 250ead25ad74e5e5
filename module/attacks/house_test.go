package attacks_test

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// house is the only address that the bridges of some of these tests may call. Its
// network, loopback, is forbidden otherwise, so that a canary on any other address
// of it sees what gets past the guard.
const house = "127.0.0.77"

// inHouse starts a provider that is reached at the house's address, on the port
// that it has.
func inHouse(t *testing.T, skills ...hostile.Skill) *hostile.Provider {
	t.Helper()
	p := hostile.NewProvider(t, skills...).As(house)
	relay(t, net.JoinHostPort(house, p.Port()), net.JoinHostPort("127.0.0.1", p.Port()))
	return p
}

// relay passes connections on, byte for byte.
func relay(t *testing.T, from, to string) {
	t.Helper()
	listener, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var open sync.Map
	pass := func(a net.Conn) {
		defer a.Close()
		b, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer b.Close()
		open.Store(b, nil)
		defer open.Delete(b)
		open.Store(a, nil)
		defer open.Delete(a)
		work.Go(func() {
			defer b.Close()
			_, _ = io.Copy(b, a) // until either side closes
		})
		_, _ = io.Copy(a, b) // until either side closes
	}
	work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() { pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // ends the goroutine
		open.Range(func(c, _ any) bool {
			_ = c.(net.Conn).Close() // ends its copying
			return true
		})
		work.Wait()
	})
}

// bridge is a Caddyfile with a bridge at /rpc of {$PORT} that may reach providers
// without TLS, reads documents anew for every call, and has these further lines.
func bridge(lines ...string) string {
	var b strings.Builder
	b.WriteString("http://127.0.0.1:{$PORT} {\n\tskill_bridge /rpc {\n\t\tallow_http\n\t\tcircuit_breaker off\n" +
		"\t\tpoll_interval 1ms 20ms\n\t\tcache {\n\t\t\tttl 0s\n\t\t\tstale_if_error 0s\n\t\t\tnegative_ttl 0s\n\t\t}\n")
	for _, line := range lines {
		b.WriteString("\t\t" + line + "\n")
	}
	return b.String() + "\t}\n}\n"
}

// provider is the block of a provider in a Caddyfile.
func provider(url, namespace string, lines ...string) string {
	return "provider " + url + " {\n\t\t\tnamespace " + namespace + "\n\t\t\t" + strings.Join(lines, "\n\t\t\t") + "\n\t\t}"
}

// some are n values from all over a list, or all of them if tests may take long.
func some[T any](n int, of []T) []T {
	if longtest.Runs(longtest.Long) || n >= len(of) {
		return of
	}
	return each(n, func(i int) T { return of[i*len(of)/n] })
}

// measures skips a test under the race detector that only measures what one request after the other costs: it takes eight times as long then, and runs
// without the detector as well.
func measures(t *testing.T) {
	t.Helper()
	if raced {
		t.Skip("measures, and runs without the race detector")
	}
}

// details are those of an error that the bridge itself has made.
func details(t *testing.T, a testbed.Answer) (d struct {
	URL        string `json:"url"`
	Reason     string `json:"reason"`
	RequiredBy string `json:"required_by"`
},
) {
	t.Helper()
	if len(a.Data.Details) > 0 && a.Data.Details.Kind() == '{' {
		if err := json.Unmarshal(a.Data.Details, &d); err != nil {
			t.Errorf("%v: %v", a, err)
		}
	}
	return d
}

// mustBeRefused fails the test unless the bridge itself refused to call an address.
func mustBeRefused(t *testing.T, a testbed.Answer) {
	t.Helper()
	next := "ask_operator"
	if a.Data.ExecutionID != "" {
		next = "follow_run" // only a name among the URLs of the run led there
	}
	reason := details(t, a).Reason
	if a.Outcome() != "ENDPOINT_UNREACHABLE" || a.Data.Source != "bridge" || a.Data.Next != next || !slices.Contains(rules, reason) && !strings.HasPrefix(reason, "port ") {
		t.Errorf("not refused by the guard: %v", a)
	}
}

// rules are what a refusal may tell: the rule, never what is behind the address.
var rules = []string{
	"address is not public", "host name has no address that may be called", "address has a zone", "address is IPv4 written as IPv6", "address is not in canonical form",
	"host is neither a host name (xn--… if it is not ASCII) nor an address in canonical form",
}

// mustBeKept fails the test unless the bridge kept a secret from a host, told the
// agent to ask the operator, and did not name the host.
func mustBeKept(t *testing.T, a testbed.Answer, host string) {
	t.Helper()
	if a.Outcome() != "AUTH_REQUIRED" || details(t, a).RequiredBy != "bridge" || a.Data.Next != "ask_operator" || a.Data.Executed != "no" {
		t.Errorf("the secret was not kept by the bridge: %v", a)
	}
	if strings.Contains(string(a.Body), host) {
		t.Errorf("the answer names the host %s: %v", host, a)
	}
}

// mustComplete fails the test unless a call was completed.
func mustComplete(t *testing.T, a testbed.Answer) {
	t.Helper()
	if a.Outcome() != "completed" {
		t.Errorf("not completed: %v", a)
	}
}

// forwarder is a proxy of plain HTTP in front of one server, whatever is asked for.
type forwarder struct {
	*httptest.Server
	mu      sync.Mutex
	targets []string
}

func newForwarder(t *testing.T, to *hostile.Provider) *forwarder {
	t.Helper()
	f := new(forwarder)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", to.Port())})
	transport := new(http.Transport)
	behind.Transport = transport
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.targets = append(f.targets, cmp.Or(r.URL.Host, r.Host))
		f.mu.Unlock()
		r.URL.Scheme, r.URL.Host = "", ""
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		f.Close()
		transport.CloseIdleConnections()
	})
	return f
}

// asked are the targets that the proxy was asked for, each once.
func (f *forwarder) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	targets := slices.Clone(f.targets)
	slices.Sort(targets)
	return slices.Compact(targets)
}

// outside is a provider at a public address that leads nowhere from here, behind a proxy
// to which all lead: what the bridge may call, and nothing else, gets there.
type outside struct {
	*hostile.Provider
	names *hostile.NameServer
	proxy *forwarder
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{Provider: hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}).As("skills.example.test"), names: hostile.NewNameServer(t)}
	o.names.Set("skills.example.test", hostile.Addresses("8.8.8.8"))
	o.proxy = newForwarder(t, o.Provider)
	return o
}

// config is a bridge to the provider.
func (o *outside) config(lines ...string) string {
	return bridge(append(lines, "allow_ports "+o.Port(), o.names.Transport("network_proxy url "+o.proxy.URL), provider(o.URL(), "acme"))...)
}

// tries calls the skill while its documents name each of some URLs, in each place that
// can. It yields which URL that was, and the answer.
func (o *outside) tries(c *testbed.Caddy, urls ...string) iter.Seq2[int, testbed.Answer] {
	return func(yield func(int, testbed.Answer) bool) {
		for _, place := range namedURLs {
			if place.name == "token_url" {
				continue // there are no credentials
			}
			o.On("acme/x", hostile.Invoke, hostile.AcceptForResult(0))
			for i, u := range urls {
				place.set(o.Provider, u)
				if !yield(i, c.Execute("acme.x", nil)) {
					return
				}
			}
			o.On("", hostile.Index)
			o.On("acme/x", hostile.Descriptor)
		}
		o.On("acme/x", hostile.Invoke)
	}
}

// mustRefuse checks that no document can have the bridge call one of some hosts, and
// that the proxy has been asked for none but the provider's.
func (o *outside) mustRefuse(t *testing.T, c *testbed.Caddy, hosts ...string) {
	t.Helper()
	urls := make([]string, len(hosts))
	for i, host := range hosts {
		urls[i] = "http://" + host + "/latest/meta-data/"
	}
	for _, a := range o.tries(c, urls...) {
		mustBeRefused(t, a)
	}
	o.mustBeAlone(t)
}

// mustBeAlone checks that the proxy has been asked for the provider only.
func (o *outside) mustBeAlone(t *testing.T) {
	t.Helper()
	if asked := o.proxy.asked(); !slices.Equal(asked, []string{"skills.example.test:" + o.Port()}) {
		t.Errorf("the proxy was asked for %q", asked)
	}
}

// onTheWire returns the requests that a provider got, read again from the bytes of
// its connections, and fails the test if they are framed by anything but one
// Content-Length, or if a line of them is what an attack wanted to be a request.
func onTheWire(t *testing.T, p *hostile.Provider, requests int) {
	t.Helper()
	n := 0
	for _, c := range p.Captured() {
		if strings.Contains(c, "\nGET /smuggled") || strings.Contains(c, "\nHost: evil") {
			t.Errorf("something broke out: %q", c)
		}
		for r := bufio.NewReader(strings.NewReader(c)); ; n++ {
			request, err := http.ReadRequest(r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Errorf("a request on the wire: %v", err)
				break
			}
			body, err := io.ReadAll(request.Body)
			if err != nil || int64(len(body)) != request.ContentLength || request.TransferEncoding != nil || len(request.Header["Transfer-Encoding"]) > 0 {
				t.Errorf("%s %s: %d bytes, Content-Length %d, Transfer-Encoding %q, %v",
					request.Method, request.RequestURI, len(body), request.ContentLength, request.TransferEncoding, err)
			}
		}
	}
	if n != requests || len(p.All()) != requests {
		t.Errorf("%d requests on the wire, %d arrived, want %d", n, len(p.All()), requests)
	}
}

// newRegistry serves the index of a provider as a registry does.
func newRegistry(t *testing.T, list *hostile.Provider) *httptest.Server {
	t.Helper()
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", list.Port())})
	transport := new(http.Transport)
	behind.Transport = transport
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/.well-known/skill-sharing"
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	return s
}
