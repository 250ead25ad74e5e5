package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/sources"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
)

// references counts who holds the cache that a handler uses.
func references(t *testing.T, h *Handler) int {
	t.Helper()
	return sharedPool.References(h.poolKey())
}

// An execution keeps what the handler holds until it has ended, also without a request.
func TestCleanupWhileRunning(t *testing.T) {
	arrived, proceed := make(chan struct{}), make(chan struct{})
	origin := provider(t, func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-proceed
		serveIndex(w, r)
	})
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	h := new(Handler)
	if err := json.Unmarshal([]byte(loopbackConfig(origin)), h); err != nil {
		t.Fatal(err)
	}
	config, _, err := h.begin(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := translate.New(*config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Start(context.Background(), translate.Call{Name: "test.echo"}).Wait()
	}()
	<-arrived
	cancel()
	h.usage.Leave()
	if n := references(t, h); n != 1 {
		t.Errorf("%d references, want 1: an execution goes on", n)
	}
	close(proceed)
	<-ended
	testbed.Eventually(t, 10*time.Second, func() bool { return references(t, h) == 0 }, "nobody holds it: the execution has ended")
}

// TestCleanupWhileServing does what Caddy does on a reload: the old handler is
// cleaned up while one of its requests is still being served.
func TestCleanupWhileServing(t *testing.T) {
	arrived, proceed := make(chan struct{}), make(chan struct{})
	var fetches atomic.Int32
	origin := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if fetches.Add(1) == 1 {
			close(arrived)
			<-proceed
		}
		serveIndex(w, r)
	})
	before := mustLoad(t, loopbackConfig(origin))
	after := mustLoad(t, loopbackConfig(origin))
	if n := references(t, before); n != 2 {
		t.Fatalf("%d references, want 2: the handlers share a cache", n)
	}

	served := make(chan *httptest.ResponseRecorder)
	go func() { served <- call(before, listSkills, nil) }()
	<-arrived
	if err := before.Cleanup(); err != nil {
		t.Fatal(err)
	}
	if n := references(t, before); n != 2 {
		t.Errorf("%d references, want 2: a request is being served", n)
	}
	close(proceed)
	if w := <-served; w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "test.echo") {
		t.Errorf("the request that was being served: %d %s", w.Code, w.Body)
	}
	if n := references(t, before); n != 1 {
		t.Errorf("%d references, want 1: the old handler is gone", n)
	}

	for name, h := range map[string]*Handler{"old": before, "new": after} {
		if w := call(h, listSkills, nil); !strings.Contains(w.Body.String(), "test.echo") {
			t.Errorf("%s handler after the reload: %d %s", name, w.Code, w.Body)
		}
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("the index was fetched %d times, want once: it survives the reload", n)
	}
	if n := references(t, before); n != 1 {
		t.Errorf("%d references, want 1: late requests take none", n)
	}

	for range 2 { // a second Cleanup must not release twice
		if err := after.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	if n := references(t, before); n != 0 {
		t.Errorf("%d references, want none", n)
	}
	if w := call(after, listSkills, nil); !strings.Contains(w.Body.String(), "test.echo") {
		t.Errorf("after the last Cleanup: %d %s", w.Code, w.Body)
	}
	if n := references(t, before); n != 0 {
		t.Errorf("%d references, want none", n)
	}
}

func TestFailedProvisionHoldsNothing(t *testing.T) {
	h := &Handler{Sources: sources.Sources{Providers: []*sources.Provider{{Origin: "https://a.example", TransportRaw: []byte(`{"protocol":"http","versions":["5"]}`)}}}}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	if err := h.Provision(ctx); err == nil {
		t.Fatal("provisioned")
	}
	if err := h.Cleanup(); err != nil {
		t.Error(err)
	}
	if n := references(t, h); n != 0 {
		t.Errorf("%d references, want none", n)
	}
}

// TestCacheKey checks which settings keep handlers from sharing a cache.
func TestCacheKey(t *testing.T) {
	second := caddy.Duration(time.Second)
	base := new(Handler).poolKey()
	for name, h := range map[string]*Handler{
		"defaults written": {Cache: &Cache{MaxSize: 64 << 20, MaxTTL: caddy.Duration(24 * time.Hour)}},
		"providers":        {Sources: sources.Sources{Providers: []*sources.Provider{{Origin: "https://a.example:8443"}}}},
		"limits":           {Timing: Timing{Timeout: 10 * second}, Bounds: Bounds{MaxBatch: 3, MaxRequestSize: 7, Limits: &Limits{Runs: 3, SchemaSize: 64 << 10}}},
	} {
		if h.poolKey() != base {
			t.Errorf("%s keeps handlers from sharing a cache", name)
		}
	}
	seen := map[string]string{base: "the default"}
	for name, h := range map[string]*Handler{
		"transport":       {Network: Network{TransportRaw: []byte("{}")}},
		"schema_size":     {Bounds: Bounds{Limits: &Limits{SchemaSize: 3}}},
		"memory":          {Bounds: Bounds{Limits: &Limits{Memory: 1 << 30 * 10}}},
		"failures":        {CircuitBreaker: &CircuitBreaker{Failures: 3}},
		"cooldown":        {CircuitBreaker: &CircuitBreaker{Cooldown: second}},
		"timeout":         {Timing: Timing{Timeout: second}},
		"max_response":    {Bounds: Bounds{MaxResponseSize: 1 << 20}},
		"max_size":        {Cache: &Cache{MaxSize: 1 << 20}},
		"ttl":             {Cache: &Cache{TTL: &second}},
		"max_ttl":         {Cache: &Cache{MaxTTL: second}},
		"stale_if_error":  {Cache: &Cache{StaleIfError: &second}},
		"negative_ttl":    {Cache: &Cache{NegativeTTL: &second}},
		"allow_http":      {Network: Network{AllowHTTP: true}},
		"allow_networks":  {Network: Network{AllowNetworks: []string{"10.0.0.0/8"}}},
		"allow_networks2": {Network: Network{AllowNetworks: []string{"10.0.0.0/8", "8080"}}},
		"allow_ports":     {Network: Network{AllowPorts: []int{8080}}},
	} {
		key := h.poolKey()
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s share a cache", name, other)
		}
		seen[key] = name
	}
}
