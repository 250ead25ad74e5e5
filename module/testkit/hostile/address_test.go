package hostile_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestRefused(t *testing.T) {
	if c, err := net.Dial("tcp", hostile.Refused(t)); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			c.Close()
		}
		t.Errorf("%v", err)
	}
}

func TestBlackHole(t *testing.T) {
	address := hostile.BlackHole(t)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		cancel()
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			if err == nil {
				c.Close()
			}
			t.Errorf("%v, want a timeout", err)
		}
	}
}

func TestCertificates(t *testing.T) {
	ca := hostile.NewCA(t)
	is := func(is func(x509.CertificateInvalidError) bool) func(error) bool {
		return func(err error) bool {
			var invalid x509.CertificateInvalidError
			return errors.As(err, &invalid) && is(invalid)
		}
	}
	for name, tc := range map[string]struct {
		kind hostile.Certificate
		want func(error) bool
	}{
		"valid":       {hostile.Valid, func(err error) bool { return err == nil }},
		"expired":     {hostile.Expired, is(func(e x509.CertificateInvalidError) bool { return e.Reason == x509.Expired })},
		"wrong host":  {hostile.WrongHost, func(err error) bool { var wrong x509.HostnameError; return errors.As(err, &wrong) }},
		"self-signed": {hostile.SelfSigned, func(err error) bool { var unknown x509.UnknownAuthorityError; return errors.As(err, &unknown) }},
		"TLS 1.1":     {hostile.TLS11, func(err error) bool { return err != nil && strings.Contains(err.Error(), "protocol version") }},
		"stalled":     {hostile.StalledHandshake, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		t.Run(name, func(t *testing.T) {
			testbed.CheckLeaks(t)
			p := hostile.NewTLSProvider(t, ca, tc.kind, hostile.Skill{ID: "acme/echo"})
			client := newClient(t)
			client.Transport.(*http.Transport).TLSClientConfig = ca.ClientConfig()
			limit := soon
			if tc.kind == hostile.StalledHandshake {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			g := invoke(ctx, client, p.URLOf("acme/echo", hostile.Invoke), "c1")
			if !tc.want(g.err) {
				t.Errorf("%v", g.err)
			}
			if want := map[bool]int{true: 1}[g.err == nil]; p.Posts("c1") != want || p.Connections() != 1 {
				t.Errorf("%d posts in %d connections", p.Posts("c1"), p.Connections())
			}
		})
	}
}

func TestBrokenTLSConnections(t *testing.T) {
	ca := hostile.NewCA(t)
	p := hostile.NewTLSProvider(t, ca, hostile.Valid, hostile.Skill{ID: "acme/echo"}).As("example.test")
	if !strings.HasPrefix(p.URL(), "https://example.test:") {
		t.Error(p.URL())
	}
	p.On("acme/echo", hostile.Invoke, hostile.Reset(), hostile.TruncateChunked(), hostile.EndlessBody())
	client := newClient(t)
	transport := client.Transport.(*http.Transport)
	transport.TLSClientConfig = ca.ClientConfig()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+p.Port())
	}
	address := p.URLOf("acme/echo", hostile.Invoke)
	if g := invoke(t.Context(), client, address, "c1"); !errors.Is(g.err, syscall.ECONNRESET) {
		t.Errorf("%+v", g)
	}
	if g := invoke(t.Context(), client, address, "c1"); g.err == nil || g.status != http.StatusOK {
		t.Errorf("%+v", g)
	}
	if g := invoke(t.Context(), client, address, "c1"); g.err != nil || len(g.body) != 1<<20 {
		t.Errorf("%v", g.err)
	}
	if c := p.Captured(); !strings.HasPrefix(c[0], "POST ") {
		t.Errorf("%.100q", c[0])
	}
}

func TestCanary(t *testing.T) {
	c := hostile.NewCanary(&testbed.Recorder{TB: t}) // this test connects to it
	for want := range 3 {
		if n := c.Connections(); n != want {
			t.Errorf("%d connections, want %d", n, want)
		}
		conn, err := net.Dial("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("hello"))
		conn.Close()
	}
	testbed.Eventually(t, soon, func() bool { return len(c.Heard()) == 3 && c.Heard()[0] == "hello" }, "the canary hears")
}

func TestCanaryFails(t *testing.T) {
	f := &testbed.Recorder{TB: t}
	t.Run("reached", func(t *testing.T) {
		f.TB = t
		c := hostile.NewCanary(f)
		conn, err := net.Dial("tcp", c.Address())
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	})
	if len(f.Failures) != 1 {
		t.Errorf("%v", f.Failures)
	}
}

func TestNameServer(t *testing.T) {
	testbed.CheckLeaks(t)
	s := hostile.NewNameServer(t)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", s.Address())
	}}
	lookup := func(name string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		addresses, err := resolver.LookupHost(ctx, name+".")
		var failure *net.DNSError
		switch {
		case errors.As(err, &failure) && failure.IsNotFound:
			return "not found"
		case errors.As(err, &failure) && failure.IsTimeout:
			return "timeout"
		case err != nil:
			return "failure"
		}
		slices.Sort(addresses)
		return strings.Join(addresses, " ")
	}
	s.Set("fixed.test", hostile.Addresses("192.0.2.1"))
	s.Set("mixed.test", hostile.Addresses("192.0.2.1", "127.0.0.1", "::1"))
	s.Set("gone.test", hostile.NXDomain())
	s.Set("broken.test", hostile.ServFail())
	s.Set("silent.test", hostile.Silence())
	s.Set("late.test", hostile.Late(10*time.Millisecond, hostile.Addresses("192.0.2.1")))
	s.Set("moving.test", hostile.Addresses("192.0.2.1"), hostile.Addresses("127.0.0.1"))
	s.Rotate("rebound.test", hostile.Addresses("192.0.2.1"), hostile.Addresses("127.0.0.1"))
	for _, tc := range []struct{ name, want string }{
		{"fixed.test", "192.0.2.1"},
		{"FIXED.test", "192.0.2.1"},
		{"mixed.test", "127.0.0.1 192.0.2.1 ::1"},
		{"gone.test", "not found"},
		{"unknown.test", "not found"},
		{"broken.test", "failure"},
		{"silent.test", "timeout"},
		{"late.test", "192.0.2.1"},
		{"moving.test", "192.0.2.1"},
		{"moving.test", "127.0.0.1"},
		{"moving.test", "127.0.0.1"},
		{"rebound.test", "192.0.2.1"},
		{"rebound.test", "127.0.0.1"},
		{"rebound.test", "192.0.2.1"},
	} {
		if got := lookup(tc.name); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	if n := s.Questions("moving.test"); n != 3 {
		t.Errorf("%d questions", n)
	}
}
