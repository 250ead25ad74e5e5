package attacks_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// form is a host as a hostile document may write it.
type form struct {
	host     string
	resolved string // an address that must not be told; empty: the host says it already
}

// forbiddenForms are spellings of hosts that are not public, or would be if one
// more parser were lenient. The port follows.
var forbiddenForms = []form{
	// IPv4: this network, loopback, private, link-local, shared, protocol
	// assignments, documentation, 6to4 relays, benchmarks, multicast, reserved.
	{"0.0.0.0", ""},
	{"0.1.2.3", ""},
	{"127.0.0.1", ""},
	{"127.0.0.2", ""},
	{"127.255.255.254", ""},
	{"10.0.0.1", ""},
	{"10.255.255.255", ""},
	{"172.16.0.1", ""},
	{"172.31.255.255", ""},
	{"192.168.0.1", ""},
	{"192.168.255.255", ""},
	{"169.254.0.1", ""},
	{"169.254.169.254", ""},
	{"100.64.0.1", ""},
	{"100.127.255.255", ""},
	{"192.0.0.1", ""},
	{"192.0.0.170", ""},
	{"192.0.2.2", ""},
	{"198.51.100.1", ""},
	{"203.0.113.1", ""},
	{"192.88.99.1", ""},
	{"198.18.0.1", ""},
	{"198.19.255.255", ""},
	{"224.0.0.1", ""},
	{"239.255.255.250", ""},
	{"240.0.0.1", ""},
	{"255.255.255.255", ""},

	// IPv6: unspecified, loopback, unique local, link-local, site-local,
	// multicast, documentation, ORCHID, discard, SRv6, not assigned.
	{"[::]", ""},
	{"[::1]", ""},
	{"[0:0:0:0:0:0:0:1]", ""},
	{"[0000:0000:0000:0000:0000:0000:0000:0001]", ""},
	{"[fc00::1]", ""},
	{"[fd00::2]", ""},
	{"[fd00:ec2::254]", ""},
	{"[fe80::1]", ""},
	{"[febf::1]", ""},
	{"[fec0::1]", ""},
	{"[ff01::1]", ""},
	{"[ff02::1]", ""},
	{"[ff05::2]", ""},
	{"[2001:db8::1]", ""},
	{"[3fff::1]", ""},
	{"[2001:10::1]", ""},
	{"[2001:20::1]", ""},
	{"[100::1]", ""},
	{"[5f00::1]", ""},
	{"[1::1]", ""},
	{"[4000::1]", ""},

	// IPv4 within IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo.
	{"[::ffff:127.0.0.1]", ""},
	{"[::ffff:7f00:1]", "127.0.0.1"},
	{"[0:0:0:0:0:ffff:7f00:1]", "127.0.0.1"},
	{"[::ffff:10.0.0.1]", ""},
	{"[::ffff:a9fe:a9fe]", "169.254.169.254"},
	{"[::127.0.0.1]", ""},
	{"[::7f00:1]", "127.0.0.1"},
	{"[::ffff:0:127.0.0.1]", ""},
	{"[64:ff9b::127.0.0.1]", ""},
	{"[64:ff9b::7f00:1]", "127.0.0.1"},
	{"[64:ff9b:1::7f00:1]", "127.0.0.1"},
	{"[64:ff9b::a9fe:a9fe]", "169.254.169.254"},
	{"[2002:7f00:1::]", "127.0.0.1"},
	{"[2002:7f00:1::1]", "127.0.0.1"},
	{"[2002:c0a8:1::1]", "192.168.0.1"},
	{"[2001::7f00:1]", "127.0.0.1"},
	{"[2001:0:7f00:1::80ff:fffe]", "127.0.0.1"},

	// Zones.
	{"[::1%25lo]", ""},
	{"[fe80::1%25lo]", ""},
	{"[fe80::1%25eth0]", ""},

	// Spellings that inet_aton takes.
	{"2130706433", "127.0.0.1"},
	{"3232235521", "192.168.0.1"},
	{"0x7f000001", "127.0.0.1"},
	{"0X7F000001", "127.0.0.1"},
	{"0x7f.0.0.1", "127.0.0.1"},
	{"0x7f.1", "127.0.0.1"},
	{"0177.0.0.1", "127.0.0.1"},
	{"017700000001", "127.0.0.1"},
	{"127.1", "127.0.0.1"},
	{"127.0.1", "127.0.0.1"},
	{"127.0.0.01", "127.0.0.1"},
	{"127.0.0.0x1", "127.0.0.1"},
	{"127.0.0.1.", ""},
	{"127.1.", "127.0.0.1"},
	{"0", "0.0.0.0"},
	{"0x0", "0.0.0.0"},
	{"4294967296127.0.0.1", ""},
	{"0300.0250.0.1", "192.168.0.1"},

	// Digits and dots that mapping makes ASCII of.
	{"①②⑦.⓪.⓪.①", "127.0.0.1"},
	{"１２７.０.０.１", "127.0.0.1"},
	{"127。0。0。1", "127.0.0.1"},
	{"127．0．0．1", "127.0.0.1"},

	// Names.
	{"localhost", "127.0.0.1"},
	{"LOCALHOST", "127.0.0.1"},
	{"localhost.", "127.0.0.1"},
	{"four.example.test", "127.0.0.1"},
	{"six.example.test", "::1"},
	{"both.example.test", "127.0.0.1"},
	{"mapped.example.test", "127.0.0.1"},
	{"nat64.example.test", "127.0.0.1"},
	{"FOUR.example.test.", "127.0.0.1"},
	{"private.example.test", "10.0.0.1"},
	{"metadata.google.internal", "169.254.169.254"},
}

// invalidURLs are no URLs of hosts at all, but to lenient parsers. PORT stands for
// the canary's.
var invalidURLs = []string{
	"http://skills.example.com@127.0.0.1:PORT/",
	"http://127.0.0.1:PORT@skills.example.com/",
	`http://skills.example.com\@127.0.0.1:PORT/`,
	"http://%31%32%37.0.0.1:PORT/",
	"http://127.0.0.1%00.example.com:PORT/",
	"http://127.0.0.1:PORT\r\nHost: x/",
	"http://127.0.0.1 :PORT/",
	"http:127.0.0.1:PORT/",
	"http:///127.0.0.1:PORT/",
	"http://:PORT/",
	"//127.0.0.1:PORT/",
	"/127.0.0.1:PORT/",
	"http://127.0.0.1:PORT:80/",
	"http://127.0.0.1:+PORT/",
	"http://127.0.0.1:0/",
	"http://127.0.0.1:70000/",
	"file:///etc/hostname",
	"gopher://127.0.0.1:PORT/_GET",
	"ftp://127.0.0.1:PORT/",
	"unix:///run/docker.sock",
	"http+unix://%2Frun%2Fdocker.sock/",
	"dict://127.0.0.1:PORT/",
	"data:application/json,{}",
	"javascript:alert(1)",
	"jar:http://127.0.0.1:PORT/!/",
	"",
}

// setForbidden teaches a name server the names among the forbidden forms.
func setForbidden(s *hostile.NameServer) {
	s.Set("localhost", hostile.Addresses("127.0.0.1", "::1"))
	s.Set("four.example.test", hostile.Addresses("127.0.0.1"))
	s.Set("six.example.test", hostile.Addresses("::1"))
	s.Set("both.example.test", hostile.Addresses("127.0.0.1", "::1"))
	s.Set("mapped.example.test", hostile.Addresses("::ffff:127.0.0.1"))
	s.Set("nat64.example.test", hostile.Addresses("64:ff9b::7f00:1"))
	s.Set("private.example.test", hostile.Addresses("10.0.0.1", "192.168.0.1"))
	s.Set("metadata.google.internal", hostile.Addresses("169.254.169.254", "fd00:ec2::254"))
}

// namedURLs are where a document can name a URL. Each puts one into the documents of
// the skill acme/x.
var namedURLs = []struct {
	name string
	set  func(p *hostile.Provider, url string)
}{
	{"descriptor_url", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", DescriptorURL: url, EditEntry: func(e hostile.Object) { e["descriptor_url"] = url }})
	}},
	{"endpoint", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Edit: inEndpoint("url", url)})
	}},
	{"endpoint over TLS", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Edit: inEndpoint("url", strings.Replace(url, "http:", "https:", 1))})
	}},
	{"endpoint of a GET", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Edit: func(d hostile.Object) {
			inEndpoint("url", url)(d)
			inEndpoint("method", "GET")(d)
		}})
	}},
	{"status_url", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Edit: inEndpoint("status_url", url+"{execution_id}")})
	}},
	{"result_url", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Edit: inEndpoint("result_url", url)})
	}},
	{"token_url", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.OAuth2(url)})
	}},
	{"redirect of the index", func(p *hostile.Provider, url string) {
		p.On("", hostile.Index, hostile.Redirect(http.StatusFound, url))
	}},
	{"redirect of the descriptor", func(p *hostile.Provider, url string) {
		p.Publish(hostile.Skill{ID: "acme/x"})
		p.On("acme/x", hostile.Descriptor, hostile.Redirect(http.StatusTemporaryRedirect, url))
	}},
}

func inEndpoint(member, value string) func(hostile.Object) {
	return func(d hostile.Object) { d["endpoint"].(hostile.Object)[member] = value }
}

// S1: whatever URL a document names, and wherever: no connection to an address
// that is not public, a mapped error, and no address in it that was not in the
// document. Both URLs of a run are judged before it is submitted; a name in them
// is judged when it is dialed, of which the run's error then tells.
func TestS01ForbiddenAddresses(t *testing.T) {
	if len(forbiddenForms) < 60 {
		t.Fatalf("only %d forms", len(forbiddenForms))
	}
	canary := hostile.NewCanaryAt(t, ":0")
	names := hostile.NewNameServer(t)
	setForbidden(names)
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge(
		"allow_networks "+house, "allow_ports "+canary.Port(), "allow_anonymous", names.Transport(),
		provider(p.URL(), "acme", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "}"),
	))
	for _, place := range namedURLs {
		t.Run(place.name, func(t *testing.T) {
			p.On("acme/x", hostile.Invoke, hostile.AcceptForResult(0))
			for _, f := range forbiddenForms {
				place.set(p, "http://"+f.host+":"+canary.Port()+"/")
				a := c.Execute("acme.x", nil)
				byName := !strings.ContainsAny(f.host[:1], "[0123456789①１") && (place.name == "status_url" || place.name == "result_url")
				switch {
				case place.name == "token_url" && a.Outcome() == "AUTH_REQUIRED": // the secret's own rule came first
					mustBeKept(t, a, f.host)
				default:
					mustBeRefused(t, a)
				}
				if posts := p.Posts(a.Call); posts > 1 || posts == 1 && !byName {
					t.Errorf("%s: %d invocations, though the run could not have been followed: %v", f.host, posts, a)
				}
				if f.resolved != "" && strings.Contains(string(a.Body), f.resolved) {
					t.Errorf("%s: the answer tells the address: %v", f.host, a)
				}
			}
			for _, text := range invalidURLs {
				url := strings.ReplaceAll(text, "PORT", canary.Port())
				if (url == "" || url[0] == '/') && strings.HasPrefix(place.name, "redirect") {
					continue // that is none, or one to the provider itself
				}
				place.set(p, url)
				a := c.Execute("acme.x", nil)
				switch a.Outcome() {
				case "VALIDATION_ERROR", "INVALID_PROVIDER_RESPONSE":
				case "ENDPOINT_UNREACHABLE":
					mustBeRefused(t, a)
				default:
					t.Errorf("%s: %v", url, a)
				}
			}
			p.On("", hostile.Index)
			p.On("acme/x", hostile.Descriptor)
			if n := canary.Connections(); n > 0 {
				t.Errorf("%d connections: %q", n, canary.Heard())
			}
		})
	}
	p.Publish(hostile.Skill{ID: "acme/x"})
	p.On("acme/x", hostile.Invoke)
	mustComplete(t, c.Execute("acme.x", nil)) // so all of that was no other trouble
}

// S1, where a proxy dials: the guard judges the target before the proxy learns of
// it. This also shows it for addresses that lead nowhere from here.
func TestS01ForbiddenAddressesThroughProxy(t *testing.T) {
	o := newOutside(t)
	setForbidden(o.names)
	c := testbed.StartCaddy(t, o.config())
	mustComplete(t, c.Execute("acme.x", nil))
	urls := make([]string, len(forbiddenForms))
	for i, f := range forbiddenForms {
		urls[i] = "http://" + f.host + ":" + o.Port() + "/"
	}
	for i, a := range o.tries(c, urls...) {
		mustBeRefused(t, a)
		if f := forbiddenForms[i]; f.resolved != "" && strings.Contains(string(a.Body), f.resolved) {
			t.Errorf("%s: the answer tells the address: %v", f.host, a)
		}
	}
	o.mustBeAlone(t)
}

// S1: a port that the operator did not write is refused like an address, on any
// host, so that no document can probe the services of a public host either.
func TestS01ForbiddenPorts(t *testing.T) {
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	canary := hostile.NewCanaryAt(t, net.JoinHostPort(house, "0"))
	c := testbed.StartCaddy(t, bridge("allow_networks "+house, provider(p.URL(), "acme")))
	for _, place := range namedURLs {
		if place.name == "token_url" {
			continue // there are no credentials
		}
		for _, port := range []string{canary.Port(), "22", "25", "6379", "65535"} {
			place.set(p, "http://"+net.JoinHostPort(house, port)+"/")
			a := c.Execute("acme.x", nil)
			if a.Outcome() != "ENDPOINT_UNREACHABLE" || details(t, a).Reason != "port "+port+" is not allowed" || a.Data.Next != "ask_operator" {
				t.Errorf("%s, port %s: %v", place.name, port, a)
			}
		}
		p.On("", hostile.Index)
		p.On("acme/x", hostile.Descriptor)
	}
}

// S2: the address that is judged is the one that is dialed. 10,000 calls (2,000 unless
// slow tests are asked for) of names with private, mixed, and ever-changing
// addresses, each on a connection of its own: none reaches the canaries.
func TestS02Rebinding(t *testing.T) {
	p := hostile.NewProvider(t).As("skills.example.test")
	four := hostile.NewCanaryAt(t, net.JoinHostPort("127.0.0.2", p.Port()))
	six := hostile.NewCanaryAt(t, net.JoinHostPort("::1", p.Port()))
	names := hostile.NewNameServer(t)
	own, other, otherSix := hostile.Addresses("127.0.0.1"), hostile.Addresses("127.0.0.2"), hostile.Addresses("::1")
	names.Set("skills.example.test", own)
	hosts := []struct {
		name    string
		lookups []hostile.Lookup
		always  string // the outcome of all calls; empty: some are completed, the others refused
	}{
		{"private.example.test", []hostile.Lookup{other}, "ENDPOINT_UNREACHABLE"},
		{"six.example.test", []hostile.Lookup{otherSix}, "ENDPOINT_UNREACHABLE"},
		{"mapped.example.test", []hostile.Lookup{hostile.Addresses("::ffff:127.0.0.2")}, "ENDPOINT_UNREACHABLE"},
		{"mixed.example.test", []hostile.Lookup{hostile.Addresses("127.0.0.2", "127.0.0.1", "::1")}, "completed"},
		{"families.example.test", []hostile.Lookup{hostile.Addresses("::1", "127.0.0.1")}, "completed"},
		{"turns.example.test", []hostile.Lookup{own, other}, ""},
		{"seldom.example.test", []hostile.Lookup{own, own, own, own, own, own, own, otherSix}, ""},
		{"thirds.example.test", []hostile.Lookup{other, own, otherSix}, ""},
	}
	for _, h := range hosts {
		names.Rotate(h.name, h.lookups...)
		p.Publish(hostile.Skill{ID: "acme/" + strings.TrimSuffix(h.name, ".example.test"), Endpoint: "http://" + net.JoinHostPort(h.name, p.Port()) + "/run/x"})
	}
	p.Lean()
	c := testbed.StartCaddy(t, "http://127.0.0.1:{$PORT} {\n\tskill_bridge /rpc {\n\t\tallow_http\n\t\tcircuit_breaker off\n"+
		"\t\tallow_networks 127.0.0.1\n\t\t"+names.Transport("keepalive off")+"\n\t\t"+provider(p.URL(), "acme")+"\n\t}\n}\n")
	c.Log.Lean()
	calls := 2_000
	if longtest.Runs(longtest.Minutes) {
		calls = 10_000
	}
	var completed [8]atomic.Int64
	var refused [8]atomic.Int64
	report := testbed.Load{
		Workers: 8, Calls: calls,
		Do: func(_, call int) testbed.Answer {
			return c.Execute("acme."+strings.TrimSuffix(hosts[call%8].name, ".example.test"), nil)
		},
		Done: func(_, call int, a testbed.Answer) {
			switch a.Outcome() {
			case "completed":
				completed[call%8].Add(1)
			case "ENDPOINT_UNREACHABLE":
				refused[call%8].Add(1)
			}
		},
	}.Run(t)
	report.Only(t, "completed", "ENDPOINT_UNREACHABLE")
	for i, h := range hosts {
		yes, no := completed[i].Load(), refused[i].Load()
		if h.always == "completed" && no > 0 || h.always == "ENDPOINT_UNREACHABLE" && yes > 0 || h.always == "" && (yes == 0 || no == 0) {
			t.Errorf("%s: %d completed, %d refused", h.name, yes, no)
		}
	}
	if n := four.Connections() + six.Connections(); n > 0 {
		t.Errorf("%d connections to the canaries", n)
	}
	t.Log(report)
}

// S3: metadata services of clouds are out of reach also where private networks
// are allowed, unless the operator has named the very address.
func TestS03Metadata(t *testing.T) {
	o := newOutside(t)
	for name, address := range map[string][]string{
		"private.example.test": {"10.0.0.1"}, "metadata.google.internal": {"169.254.169.254"}, "metadata6.google.internal": {"fd20:ce::254"},
		"instance-data.ec2.internal": {"169.254.169.254", "fd00:ec2::254"},
	} {
		o.names.Set(name, hostile.Addresses(address...))
	}
	c := testbed.StartCaddy(t, o.config("allow_networks private_ranges 169.254.0.0/16 100.64.0.0/10 192.0.0.0/24"))
	o.mustRefuse(t, c,
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "[fd00:ec2::254]", "[fd00:ec2::23]", "[fd20:ce::254]",
		"100.100.100.200", "192.0.0.192", "168.63.129.16", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
		"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]",
		"metadata.google.internal", "metadata.google.internal.", "metadata6.google.internal", "instance-data.ec2.internal",
	)
	// Private networks are open, and so is an address that the operator names.
	o.Publish(hostile.Skill{ID: "acme/x", Endpoint: "http://private.example.test/run/acme%2Fx"})
	mustComplete(t, c.Execute("acme.x", nil))
	c.Stop()
	c = testbed.StartCaddy(t, o.config("allow_networks 169.254.169.254"))
	o.Publish(hostile.Skill{ID: "acme/x", Endpoint: "http://metadata.google.internal/run/acme%2Fx"})
	mustComplete(t, c.Execute("acme.x", nil))
}

// S5: proxies in the environment are not used: they would hide the target from
// the guard. One that the operator writes is used, and each target judged first.
func TestS05ProxyOfEnvironment(t *testing.T) {
	canary := hostile.NewCanary(t)
	names := hostile.NewNameServer(t)
	names.Set("skills.example.test", hostile.Addresses("127.0.0.1"))
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/x"}).As("skills.example.test")
	p.Publish(hostile.Skill{ID: "acme/token", Auth: hostile.OAuth2(p.TokenURL())})
	p.On("acme/token", hostile.Invoke, hostile.AcceptForResult(1))
	var env []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		env = append(env, name+"=http://"+canary.Address())
	}
	c := testbed.StartProcess(t, testbed.Limits{Env: append(env, "NO_PROXY=", "no_proxy=", "REQUEST_METHOD=")}, bridge(
		"allow_networks 127.0.0.1", "allow_anonymous", names.Transport(),
		provider(p.URL(), "acme", "credentials oauth2 {", "client_id bridge", "client_secret a-client-secret", "}"),
	))
	mustComplete(t, c.Execute("acme.x", nil))
	mustComplete(t, c.Execute("acme.token", nil))
	if p.Count("", hostile.Token) != 1 || p.Count("acme/token", hostile.Result) != 1 {
		t.Error("not all kinds of requests were made")
	}
	// A forbidden target stays one.
	p.Publish(hostile.Skill{ID: "acme/x", Endpoint: "http://169.254.169.254/"})
	mustBeRefused(t, c.Execute("acme.x", nil))
}

// S5: with `network_proxy`, targets are judged by the addresses that their names
// have here, and only then handed over.
func TestS05ProxyOfOperator(t *testing.T) {
	o := newOutside(t)
	o.names.Rotate("turns.example.test", hostile.Addresses("8.8.8.8"), hostile.Addresses("127.0.0.1"))
	o.names.Set("inside.example.test", hostile.Addresses("127.0.0.1"))
	o.Publish(hostile.Skill{ID: "acme/inside", Endpoint: "http://inside.example.test/"}, hostile.Skill{ID: "acme/turns", Endpoint: "http://turns.example.test/run/acme%2Fturns"})
	c := testbed.StartCaddy(t, o.config())
	mustComplete(t, c.Execute("acme.x", nil))
	mustBeRefused(t, c.Execute("acme.inside", nil))
	var completed, refused int
	for range 20 {
		switch a := c.Execute("acme.turns", nil); a.Outcome() {
		case "completed":
			completed++
		default:
			mustBeRefused(t, a)
			refused++
		}
	}
	if completed != 10 || refused != 10 {
		t.Errorf("%d completed, %d refused", completed, refused)
	}
	if asked := fmt.Sprint(o.proxy.asked()); asked != "[skills.example.test:"+o.Port()+" turns.example.test]" {
		t.Errorf("the proxy was asked for %s", asked)
	}
}
