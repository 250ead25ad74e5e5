package faults_test

import (
	"context"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// R1: a provider that refuses connections is ENDPOINT_UNREACHABLE after as many
// attempts as are declared, or three, since nothing was written; nothing is executed.
func TestR01ConnectionRefused(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/plain"},
		hostile.Skill{ID: "acme/once", Edit: consent(1, 1)},
		hostile.Skill{ID: "acme/five", Edit: consent(5, 1)},
		hostile.Skill{ID: "acme/unread"},
	)
	c := testbed.StartCaddy(t, withProvider(p, withoutKeepAlive))
	for name, attempts := range map[string]int{"acme.plain": 3, "acme.once": 3, "acme.five": 5} {
		p.Up()
		want{outcome: "completed"}.check(t, c.Execute(name, nil))
		p.Down()
		client, line := traced(t, c.Client, c.Log)
		a := client.Execute(name, nil)
		want{"ENDPOINT_UNREACHABLE", "invoke", "no", "retry", "bridge"}.check(t, a)
		if !strings.Contains(string(a.Data.Details), "connection refused") {
			t.Errorf("no reason: %s", a)
		}
		if n := p.Posts(a.Call); n != 0 {
			t.Errorf("%s: %d invocations", name, n)
		}
		if n := line().Attempts; n != attempts {
			t.Errorf("%s: %d attempts, not %d", name, n, attempts)
		}
		if a.Took > patience {
			t.Errorf("%s took %s", name, a.Took)
		}
	}
	a := c.Execute("acme.unread", nil)
	want{"ENDPOINT_UNREACHABLE", "descriptor", "no", "retry", "bridge"}.check(t, a)
}

// R1: a provider that is back between two attempts gets the invocation once.
func TestR01BackInTime(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(10, 50)})
	c := testbed.StartCaddy(t, withProvider(p, withoutKeepAlive))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	p.Down()
	answer := calling(c.Client, "acme.echo", nil)
	testbed.Eventually(t, patience, func() bool { return len(c.Log.Lines(`"phase":"invoke"`, "connection refused")) > 0 }, "a first attempt")
	p.Up()
	a := receive(t, answer)
	want{outcome: "completed"}.check(t, a)
	checkOnce(t, p, a)
}

// R2: a host that drops what is sent to it costs as many dial timeouts as there
// are attempts, or the time of the call if that is less, and nobody else anything.
func TestR02BlackHole(t *testing.T) {
	testbed.CheckLeaks(t)
	hole := hostile.BlackHole(t)
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/lost", Endpoint: "http://" + hole + "/run"},
		hostile.Skill{ID: "acme/echo"},
	)
	_, port, _ := net.SplitHostPort(hole)

	t.Run("dial timeout", func(t *testing.T) {
		c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+port, "transport http {", "\tdial_timeout 200ms", "}"))
		client, line := traced(t, c.Client, c.Log)
		a := client.Execute("acme.lost", nil)
		want{"ENDPOINT_UNREACHABLE", "invoke", "no", "retry", "bridge"}.check(t, a)
		if n := line().Attempts; n != 3 || a.Took < 3*200*time.Millisecond || a.Took > patience {
			t.Errorf("%d attempts in %s", n, a.Took)
		}
	})

	t.Run("time of the call", func(t *testing.T) {
		c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+port))
		c.Call("describe_skill", hostile.Object{"name": "acme.lost"}) // so that its documents take no time
		client, line := traced(t, c.Client.With(testbed.Timeout(300*time.Millisecond)), c.Log)
		a := client.Execute("acme.lost", nil)
		want{"INVOCATION_TIMEOUT", "invoke", "no", "retry", "bridge"}.check(t, a)
		if n := line().Attempts; n != 1 || a.Took > patience {
			t.Errorf("%d attempts in %s", n, a.Took)
		}
	})

	t.Run("others", func(t *testing.T) {
		c := testbed.StartCaddy(t, withProvider(p, "allow_ports "+port, "transport http {", "\tdial_timeout 1m", "}", "timeout 1m"))
		ctx, cancel := context.WithCancel(t.Context())
		var lost []<-chan testbed.Answer
		for range 20 {
			lost = append(lost, calling(c.Client.With(testbed.Context(ctx)), "acme.lost", nil))
		}
		r := testbed.Load{Workers: 4, Calls: 100, Do: func(int, int) testbed.Answer { return c.Execute("acme.echo", nil) }}.Run(t)
		r.Only(t, "completed")
		for _, answer := range lost {
			select {
			case a := <-answer:
				t.Errorf("a call did not wait: %s", a)
			default:
			}
		}
		cancel()
		for _, answer := range lost {
			receive(t, answer)
		}
	})
}

// R3: names that do not exist, that a name server fails for or is silent about,
// are ENDPOINT_UNREACHABLE within the dial timeout; nothing of that is remembered
// once the name is there. One that does not exist is answered as one that leads to an
// address that is not public, and asked for once.
func TestR03Names(t *testing.T) {
	testbed.CheckLeaks(t)
	t.Cleanup(func() { awaitLookups(t) })
	names := hostile.NewNameServer(t)
	p := hostile.NewProvider(t)
	tests := map[string]struct {
		lookup hostile.Lookup
		reason string // of ENDPOINT_UNREACHABLE; none: it completes
	}{
		"missing":  {hostile.NXDomain(), "host name has no address"},
		"empty":    {hostile.Addresses(), "host name has no address"},
		"private":  {hostile.Addresses("10.0.0.1"), "host name has no address"},
		"failing":  {hostile.ServFail(), "can't be resolved"},
		"silent":   {hostile.Silence(), "can't be resolved"},
		"too late": {hostile.Late(time.Hour, hostile.Addresses("127.0.0.1")), "can't be resolved"},
		"late":     {hostile.Late(20*time.Millisecond, hostile.Addresses("127.0.0.1")), ""},
		"one dead": {hostile.Addresses("127.0.0.9", "127.0.0.1"), ""},
	}
	if !longtest.Runs(longtest.Long) { // Go's resolver waits for 5 s for them, also if nobody waits any more
		delete(tests, "silent")
		delete(tests, "too late")
	}
	for name := range tests {
		label := strings.ReplaceAll(name, " ", "-")
		url := strings.Replace(p.URLOf("acme/"+label, hostile.Invoke), "127.0.0.1", label+".example.test", 1)
		p.Publish(hostile.Skill{ID: "acme/" + label, Endpoint: url})
	}
	c := testbed.StartCaddy(t, withProvider(p, names.Transport("dial_timeout 300ms")))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			label := strings.ReplaceAll(name, " ", "-")
			names.Set(label+".example.test", test.lookup)
			client, line := traced(t, c.Client, c.Log)
			a := client.Execute("acme."+label, nil)
			if test.reason == "" {
				want{outcome: "completed"}.check(t, a)
				checkOnce(t, p, a)
				return
			}
			next, attempts := "retry", 3
			if strings.HasPrefix(test.reason, "host name") {
				next, attempts = "ask_operator", 1
			}
			want{"ENDPOINT_UNREACHABLE", "invoke", "no", next, "bridge"}.check(t, a)
			if !strings.Contains(string(a.Data.Details), test.reason) {
				t.Errorf("the reason is another than %q: %s", test.reason, a)
			}
			if n := line().Attempts; n != attempts || p.Posts(a.Call) != 0 {
				t.Errorf("%d attempts, %d invocations", n, p.Posts(a.Call))
			}
			names.Set(label+".example.test", hostile.Addresses("127.0.0.1"))
			want{outcome: "completed"}.check(t, c.Execute("acme."+label, nil))
		})
	}
}

// awaitLookups waits until Go's resolver has given up on a name server that is
// silent. It takes five seconds for that, even if nobody waits any more.
func awaitLookups(t *testing.T) {
	t.Helper()
	stacks := make([]byte, 16<<20)
	testbed.Eventually(t, patience, func() bool {
		return !strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "net.(*Resolver)")
	}, "the resolver gives up")
}

// R3: a provider whose own name does not resolve is remembered as unreachable no
// longer than failures are (by default for 5 s, which takes longer to see).
func TestR03NegativeAnswers(t *testing.T) {
	testbed.CheckLeaks(t)
	for _, lines := range [][]string{{"cache {", "\tnegative_ttl 100ms", "}"}, nil} {
		t.Run(strings.Join(lines, ""), func(t *testing.T) {
			if lines == nil {
				longtest.Need(t, longtest.Minutes)
			}
			names := hostile.NewNameServer(t)
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}).As("provider.example.test")
			c := testbed.StartCaddy(t, withProvider(p, append(lines, names.Transport())...))
			for range 3 {
				want{"ENDPOINT_UNREACHABLE", "discovery", "no", "ask_operator", "bridge"}.check(t, c.Execute("acme.echo", nil))
			}
			names.Set("provider.example.test", hostile.Addresses("127.0.0.1"))
			since := time.Now()
			testbed.Eventually(t, patience, func() bool { return c.Execute("acme.echo", nil).Outcome() == "completed" }, "the provider is found again")
			if lines == nil && time.Since(since) > 10*time.Second {
				t.Errorf("found after %s", time.Since(since))
			}
		})
	}
}

// R4: a host that does not prove who it is gets nothing, above all no key, and is
// not asked again, since that would not help; one that says nothing is left after
// the handshake's time.
func TestR04TLS(t *testing.T) {
	const key = "a-key-for-the-right-host-only"
	testbed.CheckLeaks(t)
	ca := hostile.NewCA(t)
	for name, test := range map[string]struct {
		kind        hostile.Certificate
		next        string // of ENDPOINT_UNREACHABLE; none: it completes
		connections int
	}{
		"valid":       {hostile.Valid, "", 1},
		"expired":     {hostile.Expired, "ask_operator", 1},
		"wrong host":  {hostile.WrongHost, "ask_operator", 1},
		"self-signed": {hostile.SelfSigned, "ask_operator", 1},
		"TLS 1.1":     {hostile.TLS11, "retry", 4},
		"stalled":     {hostile.StalledHandshake, "retry", 4},
	} {
		t.Run(name, func(t *testing.T) {
			bad := hostile.NewTLSProvider(t, ca, test.kind, hostile.Skill{ID: "acme/pay"})
			good := hostile.NewTLSProvider(t, ca, hostile.Valid, hostile.Skill{
				ID: "acme/pay", Auth: hostile.APIKey("X-Key"), Endpoint: bad.URLOf("acme/pay", hostile.Invoke), Edit: consent(4, 1),
			})
			c := testbed.StartCaddy(t, testbed.Bridge(
				"provider "+good.URL()+" {", "\tnamespace acme", "\ttrust 127.0.0.1:"+bad.Port(), "\tcredentials api_key "+key, "}",
				"allow_anonymous",
				"transport http {", "\ttls_trust_pool file "+ca.File(), "\ttls_timeout 300ms", "}",
			))
			if test.next != "" {
				bad.MustNotReceive(key)
			}
			a := c.Execute("acme.pay", nil)
			if test.next == "" {
				want{outcome: "completed"}.check(t, a)
				if len(bad.Received(key)) != 1 {
					t.Error("the key did not arrive where it should")
				}
				return
			}
			want{"ENDPOINT_UNREACHABLE", "invoke", "no", test.next, "bridge"}.check(t, a)
			if n := len(bad.All()); n != 0 {
				t.Errorf("%d requests", n)
			}
			if n := bad.Connections(); n != test.connections {
				t.Errorf("%d connections, not %d", n, test.connections)
			}
		})
	}
}

// R4: the same of a provider's documents and the credential for reading them.
func TestR04TLSOfDocuments(t *testing.T) {
	const key = "a-key-for-the-right-host-only"
	testbed.CheckLeaks(t)
	ca := hostile.NewCA(t)
	for name, test := range map[string]struct {
		kind         hostile.Certificate
		next, reason string
	}{
		"expired":     {hostile.Expired, "ask_operator", "has expired"},
		"wrong host":  {hostile.WrongHost, "ask_operator", "for another host name"},
		"self-signed": {hostile.SelfSigned, "ask_operator", "issuer of its TLS certificate is not trusted"},
		"TLS 1.1":     {hostile.TLS11, "retry", "TLS handshake failed"},
		"stalled":     {hostile.StalledHandshake, "retry", "did not answer in time"},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewTLSProvider(t, ca, test.kind, hostile.Skill{ID: "acme/pay"})
			p.MustNotReceive(key)
			c := testbed.StartCaddy(t, testbed.Bridge(
				"provider "+p.URL()+" {", "\tnamespace acme", "\tdiscovery_credentials api_key "+key, "}", "allow_anonymous",
				"transport http {", "\ttls_trust_pool file "+ca.File(), "\ttls_timeout 300ms", "}",
			))
			for range 2 { // the second time, the failure is remembered
				a := c.Execute("acme.pay", nil)
				want{outcome: "ENDPOINT_UNREACHABLE", phase: "discovery", executed: "no", next: test.next, source: "bridge"}.check(t, a)
				if !strings.Contains(a.Message, test.reason) {
					t.Errorf("%q does not say %q", a.Message, test.reason)
				}
				if requests, connections := len(p.All()), p.Connections(); requests != 0 || connections != 1 {
					t.Errorf("%d requests on %d connections", requests, connections)
				}
			}
		})
	}
}

// A host name that does not exist and an invalid certificate do not end by themselves: no agent is told to try again, whatever was requested there,
// also while the circuit breaker of the host is open. A name server that fails is temporary.
func TestNextOfLastingFaults(t *testing.T) {
	testbed.CheckLeaks(t)
	ca, names := hostile.NewCA(t), hostile.NewNameServer(t)
	names.Set("broken.example.test", hostile.ServFail())
	expired := hostile.NewTLSProvider(t, ca, hostile.Expired)
	for name, test := range map[string]struct{ url, next string }{
		"no such host": {"https://none.example.test/", "ask_operator"},
		"expired":      {expired.URL() + "/", "ask_operator"},
		"no lookup":    {"https://broken.example.test/", "retry"},
	} {
		host := strings.TrimSuffix(strings.TrimPrefix(test.url, "https://"), "/")
		start := func(t *testing.T, skill hostile.Skill) *testbed.Client {
			t.Helper()
			p := hostile.NewTLSProvider(t, ca, hostile.Valid, skill)
			return testbed.StartCaddy(t, testbed.Bridge(
				"provider "+p.URL()+" {", "\tnamespace acme", "\ttrust "+host, "\tcredentials oauth2 {", "\t\tclient_id bridge", "\t\tclient_secret a-client-secret", "\t}", "}", "allow_anonymous",
				"circuit_breaker {", "\tfailures 2", "}",
				"transport http {", "\ttls_trust_pool file "+ca.File(), "\tresolvers "+names.Address(), "}",
			)).Client
		}
		t.Run(name, func(t *testing.T) {
			c := start(t, hostile.Skill{ID: "acme/pay", Endpoint: test.url})
			for range 4 {
				want{outcome: "ENDPOINT_UNREACHABLE", phase: "invoke", executed: "no", next: test.next}.check(t, c.Execute("acme.pay", nil))
			}
		})
		t.Run(name+", token", func(t *testing.T) {
			c := start(t, hostile.Skill{ID: "acme/pay", Auth: hostile.OAuth2(test.url)})
			want{outcome: "ENDPOINT_UNREACHABLE", phase: "auth", executed: "no", next: test.next}.check(t, c.Execute("acme.pay", nil))
		})
	}
}

// R6: a request that was certainly not written is repeated without anyone having
// to consent: here the connection ends in the middle of the TLS handshake.
func TestR06UnwrittenIsRepeated(t *testing.T) {
	testbed.CheckLeaks(t)
	ca := hostile.NewCA(t)
	p := hostile.NewTLSProvider(t, ca, hostile.Valid, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p, "transport http {", "\ttls_trust_pool file "+ca.File(), "\tkeepalive off", "}"))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	before := p.Connections()
	p.OnConnection(func(n int, _ net.Conn) bool { return n > before+2 })
	client, line := traced(t, c.Client, c.Log)
	a := client.Execute("acme.echo", nil)
	want{outcome: "completed"}.check(t, a)
	checkOnce(t, p, a)
	if n := line().Attempts; n != 3 {
		t.Errorf("%d attempts, not 3", n)
	}
}

// A provider that takes a connection and reads nothing: the deadline ends what
// can't be written, too. Nobody knows then how much of it arrived.
func TestNeverRead(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, withProvider(p, withoutKeepAlive, "max_request_size 32MiB"))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	unread := make(chan struct{})
	defer close(unread)
	p.OnConnection(func(int, net.Conn) bool {
		<-unread
		return false
	})
	for name, size := range map[string]int{"small": 10, "larger than any buffer": 12 << 20} {
		t.Run(name, func(t *testing.T) {
			var a testbed.Answer
			var line func() callLine
			for timeout, before := time.Second, p.Connections(); p.Connections() == before && timeout < patience; timeout *= 3 { // a busy machine takes long to check so much
				var client *testbed.Client
				client, line = traced(t, c.Client.With(testbed.Timeout(timeout)), c.Log)
				a = client.Execute("acme.echo", hostile.Object{"text": strings.Repeat("a", size)})
			}
			want{"INVOCATION_TIMEOUT", "invoke", "maybe", "none", "bridge"}.check(t, a)
			if l := line(); l.Attempts != 1 || a.Took > patience {
				t.Errorf("%d attempts in %s", l.Attempts, a.Took)
			}
		})
	}
}

// A connection that is reset in the middle of an invocation: half of it may be
// enough for a provider to begin.
func TestResetWhileWriting(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: consent(5, 1)})
	c := testbed.StartCaddy(t, withProvider(p, withoutKeepAlive, "max_request_size 32MiB"))
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	before := p.Connections()
	p.OnConnection(func(_ int, conn net.Conn) bool {
		_, _ = conn.Read(make([]byte, 1000)) // a part of it
		_ = conn.(*net.TCPConn).SetLinger(0) // so that closing it is a reset
		return false
	})
	a := c.Execute("acme.echo", hostile.Object{"text": strings.Repeat("a", 24<<20)})
	want{"ENDPOINT_UNREACHABLE", "invoke", "maybe", "none", "bridge"}.check(t, a)
	if n := p.Connections() - before; n > 1 {
		t.Errorf("%d connections for one invocation", n)
	}
}
