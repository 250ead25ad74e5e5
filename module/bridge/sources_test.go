package bridge

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	zapobserver "go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
)

// twoProviders returns a handler with the providers a and b, which have the same
// credential for discovery. The index of each names the same private skill of a,
// whose descriptor a gives only to those who have the key.
func twoProviders(t *testing.T) *Handler {
	t.Helper()
	index := func(w http.ResponseWriter, descriptorURL, access string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"protocol":{"version":"1.0.0"},"provider":{"name":"Test"},"skills":[{"id":"test/priv","name":"Priv",
			"capability_type":"api","description":"Private.","descriptor_url":"%s","access":"%s","version":"1.0.0"}]}`, descriptorURL, access)
	}
	var private atomic.Pointer[string] // the descriptor's URL
	a := provider(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/priv":
			index(w, *private.Load(), "private")
		case r.Header.Get("X-API-Key") != "k":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"protocol":{"version":"1.0.0"},"id":"test/priv","name":"Priv","version":"1.0.0","capability_type":"api",
				"description":"Launch codes.","provider":{"name":"Test"},"endpoint":{"url":"https://example.com/run","method":"POST"},
				"inputs":[],"output":{"content_type":"application/json"},"auth":{"type":"none"},"access":"private"}`)
		}
	})
	private.Store(new(a + "/priv"))
	b := provider(t, func(w http.ResponseWriter, _ *http.Request) { index(w, *private.Load(), "public") })
	return mustLoad(t, `{"allow_anonymous":true,"allow_http":true,"allow_networks":["127.0.0.0/8"],"providers":[
		{"origin":"`+a+`","namespace":"a","discovery_credentials":{"type":"api_key","key":"k"}},
		{"origin":"`+b+`","namespace":"b","discovery_credentials":{"type":"api_key","key":"k"}}]}`)
}

func describe(h *Handler, name, principal string) string {
	return call(h, `{"jsonrpc":"2.0","id":1,"method":"describe_skill","params":{"name":"`+name+`"}}`,
		map[string]string{"http.auth.user.id": principal}).Body.String()
}

// TestPrivateDescriptorStaysPrivate: a document that was read with the credential
// of one provider is not to be had through another.
func TestPrivateDescriptorStaysPrivate(t *testing.T) {
	h := twoProviders(t)
	if body := describe(h, "a.test.priv", "alice"); !strings.Contains(body, "Launch codes") {
		t.Fatalf("the provider's own: %s", body)
	}
	if body := describe(h, "b.test.priv", ""); strings.Contains(body, "Launch codes") || !strings.Contains(body, "AUTH_REQUIRED") {
		t.Errorf("through another provider: %s", body)
	}
}

// TestNoPoisoning: what one provider's credential could not open is not kept for
// another, whose credential opens it.
func TestNoPoisoning(t *testing.T) {
	h := twoProviders(t)
	if body := describe(h, "b.test.priv", ""); !strings.Contains(body, "AUTH_REQUIRED") {
		t.Fatalf("through another provider: %s", body)
	}
	if body := describe(h, "a.test.priv", "alice"); !strings.Contains(body, "Launch codes") {
		t.Errorf("the provider's own: %s", body)
	}
}

// TestRefusedSourcesAreWarnedOf: whoever writes an address that will not be
// reached learns of it when the configuration is loaded.
func TestRefusedSourcesAreWarnedOf(t *testing.T) {
	core, logs := zapobserver.New(zapcore.WarnLevel)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	h := &Handler{
		logger: zap.New(core), Network: Network{AllowNetworks: []string{"10.1.0.0/16"}, AllowHTTP: true},
		Sources: sources.Sources{
			Providers: []*sources.Provider{
				{Origin: "http://127.0.0.1:9000", Namespace: "loop"},
				{Origin: "https://10.1.2.3", Namespace: "allowed"},
				{Origin: "https://8.8.8.8", Namespace: "public"},
				{Origin: "https://name.example", Namespace: "name"},
			},
			Skills:     []*sources.Skill{{Name: "private", URL: "https://192.168.1.2/s.json?key=secret"}},
			Registries: []*sources.Registry{{URL: "https://[fd00::1]:8443/v1", Namespace: "six"}},
		},
	}
	if fault := h.check(); fault != nil {
		t.Fatal(fault)
	}
	if _, _, err := h.config(ctx, observe.NewObserver(h.logger, false, vocabularies)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range logs.All() {
		fields := line.ContextMap()
		got = append(got, fmt.Sprint(fields["source"], " ", fields["host"], " ", fields["line"]))
	}
	want := []string{
		"loop 127.0.0.1:9000 allow_networks 127.0.0.1",
		"private 192.168.1.2 allow_networks 192.168.1.2",
		"six [fd00::1]:8443 allow_networks fd00::1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("warned of %q, want %q", got, want)
	}
}
