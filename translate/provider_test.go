package translate_test

import (
	"encoding/json" // tests make documents of maps
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/cache"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/polling"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
)

// provider is a real HTTP server whose answers a test sets by method and path.
type provider struct {
	*httptest.Server
	mu     sync.Mutex
	routes map[string][]http.HandlerFunc
	seen   []request
}

type request struct {
	route  string
	header http.Header
	body   string
}

type object = map[string]any

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{routes: map[string][]http.HandlerFunc{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	route := r.Method + " " + r.URL.EscapedPath()
	p.mu.Lock()
	p.seen = append(p.seen, request{route, r.Header.Clone(), string(body)})
	handlers := p.routes[route]
	if len(handlers) > 1 { // the last answer repeats
		p.routes[route] = handlers[1:]
	}
	p.mu.Unlock()
	if len(handlers) == 0 {
		http.NotFound(w, r)
		return
	}
	handlers[0](w, r)
}

// on sets the answers of a route, given in order; the last one repeats.
func (p *provider) on(route string, answers ...http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[route] = answers
}

// requests returns what a route received.
func (p *provider) requests(route string) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(r request) bool { return r.route != route })
}

// forgetBodies lets go of what was received.
func (p *provider) forgetBodies() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.seen {
		p.seen[i].body = ""
	}
}

func (p *provider) received(t *testing.T, route string, want int) {
	t.Helper()
	if got := len(p.requests(route)); got != want {
		t.Errorf("%s: the provider received %d requests, want %d", route, got, want)
	}
}

func answerJSON(status int, v any) http.HandlerFunc {
	text, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// descriptor is a valid one, with changes: a nil removes a member.
func (p *provider) descriptor(id string, changes object) object {
	slug := id[strings.LastIndexAny(id, "/.")+1:]
	d := object{
		"protocol": object{"version": "1.0.0"}, "id": id, "name": "A skill", "version": "1.2.3", "capability_type": "api",
		"description": "Does something.", "provider": object{"name": "Test"},
		"endpoint": object{
			"url": p.URL + "/run/" + slug, "method": "POST",
			"status_url": p.URL + "/status/{execution_id}", "result_url": p.URL + "/result/{execution_id}",
		},
		"inputs": []any{object{"name": "city", "type": "string", "description": "A city.", "required": true}},
		"output": object{"content_type": "application/json"}, "auth": object{"type": "none"}, "access": "public",
	}
	return merge(d, changes)
}

func merge(target, changes object) object {
	target = maps.Clone(target)
	for k, v := range changes {
		if inner, ok := v.(object); ok {
			if old, ok := target[k].(object); ok {
				v = merge(old, inner)
			}
		}
		if v == nil {
			delete(target, k)
			continue
		}
		target[k] = v
	}
	return target
}

// publish serves descriptors and an index of them.
func (p *provider) publish(descriptors ...object) {
	var entries []any
	for i, d := range descriptors {
		path := fmt.Sprintf("/skills/%d.json", i)
		p.on("GET "+path, answerJSON(200, d))
		entries = append(entries, object{
			"id": d["id"], "name": d["name"], "capability_type": d["capability_type"], "description": d["description"],
			"descriptor_url": p.URL + path, "access": d["access"], "version": d["version"],
		})
	}
	if entries == nil {
		entries = []any{}
	}
	p.on("GET /.well-known/skill-sharing", answerJSON(200, object{
		"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": entries,
	}))
}

func response(id, status string, more object) object {
	return merge(object{
		"execution_id": id, "status": status, "skill_id": "x",
		"timestamps": object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"},
	}, more)
}

func (p *provider) source(t *testing.T, namespace string) catalog.Source {
	t.Helper()
	u, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	return catalog.Source{Namespace: namespace, URL: u, Transport: p.Client().Transport}
}

func newBridge(t *testing.T, sources ...catalog.Source) *translate.Bridge {
	t.Helper()
	return newBridgeWith(t, nil, sources...)
}

func newBridgeWith(t *testing.T, observer translate.Observer, sources ...catalog.Source) *translate.Bridge {
	t.Helper()
	b, err := translate.New(bridgeConfig(t, observer, sources...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func bridgeConfig(t *testing.T, observer translate.Observer, sources ...catalog.Source) translate.Config {
	t.Helper()
	documents, err := cache.New(cache.Config{MaxSize: 8 << 20, TTL: time.Hour, MaxTTL: time.Hour, StaleIfError: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(documents.Close)
	return translate.Config{
		Sources: sources, Cache: documents, Caller: skillsharing.Caller{ID: "test", Type: "service"}, Priority: skillsharing.PriorityNormal,
		DefaultTimeout: 20 * time.Second, MaxTimeout: 40 * time.Second, Polling: skillsharing.Polling{Plan: polling.Backoff{Initial: time.Millisecond, Longest: 5 * time.Millisecond}},
		MaxResponseSize: 1 << 20, AllowHTTP: true, RetryBudget: 0.2, Observer: observer,
	}
}
