package network

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/exchange"
)

// TestIdentityOverHTTP2: a request that may not show the client certificate never
// travels on a connection that was made with it, nor the other way round, also where
// HTTP/2 would have one connection carry all of them.
func TestIdentityOverHTTP2(t *testing.T) {
	var mu sync.Mutex
	shown := map[string]int{} // by path: how many requests came with a certificate
	connections := map[string]map[string]bool{"with": {}, "without": {}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		kind := "without"
		if len(r.TLS.PeerCertificates) > 0 {
			shown[r.URL.Path]++
			kind = "with"
		}
		connections[kind][r.RemoteAddr] = true
		if r.ProtoMajor != 2 {
			t.Errorf("%s came by %s", r.URL.Path, r.Proto)
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	folder := t.TempDir()
	authority := filepath.Join(folder, "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	certificate, key := hostile.NewCA(t).ClientCertificate("the-bridge")
	origin, err := url.Parse(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(origin.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{"protocol": "http", "tls": map[string]any{
		"ca": map[string]any{"provider": "file", "pem_files": []string{authority}}, "client_certificate_file": certificate, "client_certificate_key_file": key,
	}})
	if err != nil {
		t.Fatal(err)
	}
	tr := testTransport(t, string(config), testRules(networks(t, "127.0.0.1"), uint16(port)))
	defer tr.CloseIdleConnections()
	documents, err := cache.New(cache.Config{MaxSize: 1 << 20, MaxTTL: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer documents.Close()
	client := func(origin string) *skillsharing.Client {
		own, err := url.Parse(origin)
		if err != nil {
			t.Fatal(err)
		}
		audience, err := credential.NewAllowedHosts(own, nil)
		if err != nil {
			t.Fatal(err)
		}
		return &skillsharing.Client{Reader: discovery.Reader{Cache: documents, Sender: exchange.Sender{
			Source: "acme", Origin: own, AllowedHosts: audience, Transport: tr, MaxResponseSize: 1 << 20, Limits: document.DefaultLimits(), Observer: silent{},
		}}}
	}
	mine, stranger := client(server.URL), client("https://other.example")
	var calls sync.WaitGroup
	for range 10 {
		calls.Go(func() {
			if _, e := mine.Read(t.Context(), origin.JoinPath("mine")); e.HTTPStatus != http.StatusNotFound {
				t.Error(e, e.Cause)
			}
			_, _ = stranger.Read(t.Context(), origin.JoinPath("stranger"))
			_ = get(context.Background(), tr, "https", origin.Host) // on nobody's behalf
		})
	}
	calls.Wait()
	mu.Lock()
	defer mu.Unlock()
	if shown["/mine"] != 10 || len(shown) != 1 {
		t.Errorf("the certificate was shown with %v", shown)
	}
	for address := range connections["with"] {
		if connections["without"][address] {
			t.Errorf("%s carried both kinds of requests", address)
		}
	}
}

// silent observes nothing.
type silent struct{}

func (silent) Exchange(context.Context, *exchange.Exchange) {}
func (silent) Notice(context.Context, *exchange.Notice)     {}
