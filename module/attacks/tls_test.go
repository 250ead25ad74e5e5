package attacks_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S33: after a reload with another key, client secret or refresh token, no new call
// carries the old one, or a token that was obtained with it.
func TestS33RotatedSecrets(t *testing.T) {
	folder := t.TempDir()
	write := func(name, value string) string {
		t.Helper()
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, reading, secret, refresh := write("key", "old-key"), write("reading", "old-reading"), write("secret", "old-secret"), write("refresh", "old-refresh")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")}, hostile.Skill{ID: "s/slow", Auth: hostile.APIKey("X-Key")})
	p.Publish(hostile.Skill{ID: "s/oauth", Auth: hostile.OAuth2(p.TokenURL())})
	p.On("", hostile.Token, hostile.Issue("old-token", 3600e9))
	text := testbed.Bridge("allow_anonymous", "poll_interval 5ms 20ms",
		provider(p.URL(), "key", "credentials api_key {file."+key+"}", "discovery_credentials api_key {file."+reading+"}"),
		provider(p.URL(), "oauth", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {file."+secret+"}", "\ttoken_url "+p.TokenURL(), "}"),
		provider(p.URL(), "refresh", "credentials oauth2 {", "\tclient_id id", "\tclient_secret {file."+secret+"}", "\trefresh_token {file."+refresh+"}", "\ttoken_url "+p.TokenURL(), "}"))
	c := testbed.StartCaddy(t, text)
	names := []string{"key.s.key", "oauth.s.oauth", "refresh.s.oauth"}
	for _, name := range names {
		mustComplete(t, c.Execute(name, nil))
	}
	for _, old := range []string{"old-key", "old-reading", "old-secret", "old-refresh", "old-token"} {
		if len(p.Received(old)) == 0 {
			t.Errorf("%s was never used", old)
		}
	}
	// A call of before goes on with what it began with.
	gate := hostile.NewGate(t)
	p.On("s/slow", hostile.Invoke, hostile.Accept(0))
	p.On("s/slow", hostile.Status, gate.Then(hostile.Usual()))
	slow := make(chan testbed.Answer, 1)
	go func() { slow <- c.Execute("key.s.slow", nil) }()
	testbed.Eventually(t, 3e10, func() bool { return gate.Waiting() == 1 }, "the slow call is followed")

	write("key", "new-key")
	write("reading", "new-reading")
	write("secret", "new-secret")
	write("refresh", "new-refresh")
	p.On("", hostile.Token, hostile.Issue("new-token", 3600e9))
	if err := reload(c, text); err != nil { // as caddy reload --force: the text is the same
		t.Fatal(err)
	}
	before := len(p.All())
	for _, name := range names {
		for range 5 {
			mustComplete(t, c.Execute(name, nil))
		}
	}
	for _, fresh := range []string{"new-key", "new-reading", "new-secret", "new-refresh", "new-token"} {
		if len(p.Received(fresh)) == 0 {
			t.Errorf("%s is not used", fresh)
		}
	}
	for _, r := range p.All()[before:] {
		if text := fmt.Sprint(r.Header, r.Body); strings.Contains(text, "old-") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("id:old-secret"))) {
			t.Errorf("an old secret in %s %s: %s", r.Method, r.Target, text)
		}
	}
	gate.Open()
	mustComplete(t, <-slow)
}

// S34: nothing but the certificate that belongs to the provider will do, and TLS
// 1.2 is the least; until then neither secrets nor inputs are sent.
func TestS34TLS(t *testing.T) {
	t.Setenv("S_KEY", "tls-key")
	ca := hostile.NewCA(t)
	skill := hostile.Skill{ID: "s/key", Auth: hostile.APIKey("X-Key")}
	bridge := func(p *hostile.Provider, lines ...string) string {
		return testbed.Bridge(append(lines, "allow_anonymous", "circuit_breaker off",
			provider(p.URL(), "acme", "credentials api_key {env.S_KEY}", "discovery_credentials api_key {env.S_KEY}"))...)
	}
	good := hostile.NewTLSProvider(t, ca, hostile.Valid, skill)
	c := testbed.StartCaddy(t, bridge(good, ca.Transport()))
	mustComplete(t, c.Execute("acme.s.key", nil))
	if len(good.Received("tls-key")) == 0 {
		t.Error("the key is not sent where it may be")
	}

	refused := func(name string, p *hostile.Provider, text string) {
		t.Helper()
		p.MustNotReceive("tls-key", "tls-input")
		if err := reload(c, text); err != nil {
			t.Fatal(err)
		}
		a := c.Execute("acme.s.key", hostile.Object{"x": "tls-input"})
		if a.Outcome() != "ENDPOINT_UNREACHABLE" || a.Data.Executed != "no" || !strings.Contains(details(t, a).Reason, "TLS") {
			t.Errorf("%s: %v", name, a)
		}
		if n := len(p.All()); n != 0 {
			t.Errorf("%s: %d requests", name, n)
		}
		if p.Connections() == 0 {
			t.Errorf("%s: no connection was tried", name)
		}
	}
	for name, kind := range map[string]hostile.Certificate{
		"expired": hostile.Expired, "another host": hostile.WrongHost, "self-signed": hostile.SelfSigned, "TLS 1.1": hostile.TLS11,
	} {
		p := hostile.NewTLSProvider(t, ca, kind, skill)
		refused(name, p, bridge(p, ca.Transport()))
	}
	unknown := hostile.NewTLSProvider(t, hostile.NewCA(t), hostile.Valid, skill)
	refused("an unknown CA", unknown, bridge(unknown, ca.Transport()))
	named := hostile.NewTLSProvider(t, ca, hostile.Valid, skill)
	refused("another SNI", named, bridge(named, "transport http {\n\ttls_trust_pool file "+ca.File()+"\n\ttls_server_name other.example.org\n}"))
}

// S34: without TLS there is no secret unless the operator wrote the provider's own
// URL so, and no provider at all unless he allows it.
func TestS34PlainHTTP(t *testing.T) {
	t.Setenv("S_KEY", "tls-key")
	ca := hostile.NewCA(t)
	plain := hostile.NewProvider(t, hostile.Skill{ID: "s/key"})
	plain.MustNotReceive("tls-key", "tls-input")
	p := hostile.NewTLSProvider(t, ca, hostile.Valid)
	secure := p.URL()
	insecure := plain.URL()
	p.Publish(
		hostile.Skill{ID: "s/endpoint", Auth: hostile.APIKey("X-Key"), Endpoint: insecure + "/run/s%2Fkey"},
		hostile.Skill{ID: "s/status", Auth: hostile.APIKey("X-Key"), StatusURL: insecure + "/status/{execution_id}"},
		hostile.Skill{ID: "s/result", Auth: hostile.APIKey("X-Key"), ResultURL: insecure + "/result/{execution_id}"},
		hostile.Skill{ID: "s/token", Auth: hostile.OAuth2(insecure + "/token")},
		hostile.Skill{ID: "s/same", Auth: hostile.APIKey("X-Key"), Endpoint: strings.Replace(secure, "https", "http", 1) + "/run/s%2Fsame"},
	)
	trust := "trust 127.0.0.1:" + plain.Port()
	c := testbed.StartCaddy(t, testbed.Bridge("allow_anonymous", ca.Transport(), "allow_ports "+plain.Port(),
		provider(secure, "acme", trust, "credentials api_key {env.S_KEY}"),
		provider(secure, "oauth", trust, "credentials oauth2 {", "\tclient_id id", "\tclient_secret {env.S_KEY}", "}")))
	for _, name := range []string{"acme.s.endpoint", "acme.s.status", "acme.s.result", "acme.s.same", "oauth.s.token"} {
		a := c.Execute(name, hostile.Object{"x": "tls-input"})
		if a.Outcome() != "AUTH_REQUIRED" || details(t, a).RequiredBy != "bridge" || a.Data.Executed != "no" || a.Data.Next != "ask_operator" {
			t.Errorf("%s: %v", name, a)
		}
	}
	if n := plain.Connections(); n != 0 {
		t.Errorf("%d connections without TLS", n)
	}
	// Without allow_http, none at all: not even such a configuration.
	text := strings.ReplaceAll(testbed.Bridge("allow_anonymous", provider(insecure, "acme")), "\t\tallow_http\n", "")
	if err := reload(c, text); err == nil || !strings.Contains(err.Error(), "allow_http") {
		t.Errorf("http:// without allow_http: %v", err)
	}
	text = strings.ReplaceAll(testbed.Bridge("allow_anonymous", ca.Transport(), "allow_ports "+plain.Port(), provider(secure, "acme")), "\t\tallow_http\n", "")
	if err := reload(c, text); err != nil {
		t.Fatal(err)
	}
	p.Publish(hostile.Skill{ID: "s/open", Endpoint: insecure + "/run/s%2Fkey"})
	if err := reload(c, strings.Replace(text, "provider ", "cache {\n\t\t\tttl 1m\n\t\t}\n\t\tprovider ", 1)); err != nil {
		t.Fatal(err)
	}
	if a := c.Execute("acme.s.open", hostile.Object{"x": "tls-input"}); a.Outcome() != "ENDPOINT_UNREACHABLE" || details(t, a).Reason != "plain http is not allowed" {
		t.Errorf("an endpoint without TLS: %v", a)
	}
}
