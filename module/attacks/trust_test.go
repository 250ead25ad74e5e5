package attacks_test

import (
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/internal/hostile"
)

// S49: who runs a host below the provider's gets no secret by that, on any port,
// unless the operator trusts it by name or by `trust *.`; the log names both lines.
func TestS49Subdomains(t *testing.T) {
	s := newStage(t)
	s.names.Set("mallory.a.example.test", hostile.Addresses(impostor))
	s.names.Set("deep.mallory.a.example.test", hostile.Addresses(impostor))
	s.other.Publish(hostile.Skill{ID: "acme/x"})
	port := s.own.Port()
	below := "https://mallory.a.example.test:" + port
	publish := func(endpoint string) {
		s.own.Publish(hostile.Skill{ID: "acme/x", Auth: hostile.APIKey("X-API-Key"), Endpoint: endpoint + "/run/acme%2Fx"})
	}
	c := s.start(t, "credentials api_key a-secret-key")
	for _, host := range []string{below, "https://mallory.a.example.test", "https://deep.mallory.a.example.test:" + port} {
		publish(host)
		mustBeKept(t, c.Execute("acme.x", nil), "mallory")
	}
	if n := s.other.Connections(); n > 0 {
		t.Errorf("%d connections to a subdomain", n)
	}
	for _, line := range []string{`"line":"trust mallory.a.example.test:` + port + `"`, `"line_for_subdomains":"trust *.a.example.test:` + port + `"`} {
		if len(c.Log.Lines("a credential was not sent", line)) == 0 {
			t.Errorf("the log has no %s", line)
		}
	}
	c.Stop()

	// The name of one opens that one, `*.` all on that port, and neither the host
	// that they are below of, nor others.
	publish(below)
	for _, trust := range []string{"trust mallory.a.example.test", "trust *.a.example.test", "trust *.a.example.test:1", "trust *.mallory.a.example.test:" + port} {
		c = s.start(t, trust, "credentials api_key a-secret-key")
		mustBeKept(t, c.Execute("acme.x", nil), "mallory")
		c.Stop()
	}
	if n := len(s.other.Received("a-secret-key")); n > 0 {
		t.Errorf("the subdomain got the key %d times", n)
	}
	// The certificate of the tests is good for names directly below example.test only,
	// so that of a connection that is tried, TLS fails.
	for _, trust := range []string{"trust mallory.a.example.test:" + port, "trust *.a.example.test:" + port} {
		c = s.start(t, trust, "credentials api_key a-secret-key")
		if a := c.Execute("acme.x", nil); a.Outcome() != "ENDPOINT_UNREACHABLE" {
			t.Errorf("%s: %v", trust, a)
		}
		c.Stop()
	}
	c = s.start(t, "trust *.example.test:"+port, "credentials api_key a-secret-key")
	publish("https://b.example.test:" + port)
	mustComplete(t, c.Execute("acme.x", nil))
	if n := len(s.other.Received("a-secret-key")); n != 1 {
		t.Errorf("the trusted subdomain got the key %d times", n)
	}
}
