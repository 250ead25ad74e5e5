package main_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json" // go-jose's types are made for it
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

func exerciseCallersFile(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.onLoopback()
	b := e.start()

	host := strings.TrimSuffix(b.endpoint, "/rpc")
	key := "Bearer " + e.secret("alice")
	const call = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
	for _, path := range []string{"/rpc", "/a2a", "/a2a/acme.translate", "/mcp"} {
		for _, wrong := range []string{"", key + "x", rightPassword} {
			if a := b.send(http.MethodPost, host+path, call, authorization, wrong, "Content-Type", "application/json"); a.status != http.StatusUnauthorized || !strings.HasPrefix(a.body, `{"jsonrpc":"2.0",`) {
				t.Errorf("%s with %q: %d %s", path, wrong, a.status, a.body)
			}
		}
		if a := b.send(http.MethodPost, host+path, call, authorization, key, "Content-Type", "application/json"); a.status == http.StatusUnauthorized {
			t.Errorf("%s with a key: %s", path, a.body)
		}
	}
	b.execute("acme.translate", "acme/translate", authorization, key)
	run := p.only("POST /run/acme/translate")
	if run.header.Get("X-API-Key") != e.secret("skills_api_key") || run.header.Get(authorization) != "" {
		t.Errorf("the provider received %v", run.header)
	}
	if log := b.logged(); !strings.Contains(log, `"principal":"alice"`) {
		t.Errorf("the principal is not alice:\n%s", log)
	}
}

func exerciseCallersJWT(e *example) {
	t := e.t
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var issuer *httptest.Server
	issuer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var document any = map[string]string{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys"}
		if r.URL.Path == "/keys" {
			document = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k"}}}
		}
		_ = json.NewEncoder(w).Encode(document)
	}))
	t.Cleanup(issuer.Close)
	token := func(scope string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(map[string]any{
			"iss": issuer.URL, "sub": "alice", "aud": "https://agents.example.com/mcp", "exp": time.Now().Add(time.Hour).Unix(), "scope": scope,
		}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + text
	}
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("callers_jwt https://login.example.com", "callers_jwt "+issuer.URL)
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	e.onLoopback()
	b := e.start()

	host := strings.TrimSuffix(b.endpoint, "/rpc")
	const call = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
	for _, path := range []string{"/rpc", "/a2a", "/mcp"} {
		for wrong, status := range map[string]int{"": http.StatusUnauthorized, token("skills:run") + "x": http.StatusUnauthorized, token("other"): http.StatusForbidden} {
			if a := b.send(http.MethodPost, host+path, call, authorization, wrong, "Content-Type", "application/json"); a.status != status || !strings.HasPrefix(a.body, `{"jsonrpc":"2.0",`) {
				t.Errorf("%s with %q: %d %s", path, wrong, a.status, a.body)
			}
		}
	}
	b.execute("acme.translate", "acme/translate", authorization, token("skills:run"))
	run := p.only("POST /run/acme/translate")
	if run.header.Get("X-API-Key") != e.secret("skills_api_key") || run.header.Get(authorization) != "" {
		t.Errorf("the provider received %v", run.header)
	}
	if log := b.logged(); !strings.Contains(log, `"principal":"alice"`) {
		t.Errorf("the principal is not alice:\n%s", log)
	}
}

func exerciseClientCertificates(e *example) {
	t := e.t
	p := newProvider(t, skill{id: "acme/translate", auth: apiKey()})
	e.replace("provider https://skills.example.com {", "provider "+p.URL+" {\n\t\t\tnamespace acme")
	certificate, key := e.authority.ServerCertificate()
	e.replace("\nbridge.example.com {", "\n{\n\tauto_https off\n}\nhttps://localhost:8080 {\n\tbind 127.0.0.1")
	e.replace("\n\ttls {", "\n\ttls "+certificate+" "+key+" {")
	e.onLoopback()
	b := e.start()

	b.endpoint = strings.Replace(b.endpoint, "http:", "https:", 1)
	present := func(shown *tls.Certificate) {
		b.client.CloseIdleConnections()
		config := e.authority.ClientConfig()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
		b.client.Transport = &http.Transport{TLSClientConfig: config}
	}
	certificateOf := func(authority *hostile.CA, name string) *tls.Certificate {
		pair, err := tls.LoadX509KeyPair(authority.ClientCertificate(name))
		if err != nil {
			t.Fatal(err)
		}
		return &pair
	}
	refuses := func(about string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.endpoint, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"list_skills"}`))
		if err != nil {
			t.Fatal(err)
		}
		response, err := b.client.Do(request)
		if err == nil {
			response.Body.Close()
			t.Errorf("%s: HTTP status %d, want a TLS alert", about, response.StatusCode)
		} else if !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%s: %v, want a TLS alert", about, err)
		}
	}
	present(new(tls.Certificate))
	refuses("no certificate")
	present(certificateOf(hostile.NewCA(t), "alice"))
	refuses("a certificate of another authority")
	if n := p.received(); n > 0 {
		t.Errorf("the provider received %d requests", n)
	}
	present(certificateOf(e.authority, "alice"))
	b.execute("acme.translate", "acme/translate")
	if log := b.logged(); !strings.Contains(log, `"principal":"CN=alice`) {
		t.Errorf("the principal is not alice:\n%s", log)
	}
}
