package main_test

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// A provider publishes skills on a loopback port with an index and a registry, issues access tokens,
// and records requests.
type provider struct {
	*httptest.Server
	t         *testing.T
	reader    string // the API key for private skills; empty: none
	mu        sync.Mutex
	published []skill
	seen      []request
}

// A skill completes at once. Its output has its id.
type skill struct {
	id         string
	path       string // of its descriptor; the default is derived from the id
	capability string // default: api
	access     string // default: public
	auth       object // default: none
	runsOn     string // origin; default: the provider's own
}

type object = map[string]any

// A request is a received request. Its route is method, path and query.
type request struct {
	route  string
	header http.Header
	body   string
}

// apiKey returns the auth of a skill that needs an API key.
func apiKey() object { return object{"type": "api_key", "header": "X-API-Key"} }

// oauth2 returns the auth of a skill that needs OAuth 2.0.
func oauth2(tokenURL string) object {
	return object{"type": "oauth2", "oauth2": object{
		"authorization_url": "https://login.example.com/authorize", "token_url": tokenURL, "scopes": object{"skills:run": "Run skills"},
	}}
}

func newProvider(t *testing.T, skills ...skill) *provider {
	t.Helper()
	p := &provider{t: t, published: skills}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// publish adds skills whose documents contain the provider's URL.
func (p *provider) publish(skills ...skill) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.published = append(p.published, skills...)
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Errorf("reading a request: %v", err)
	}
	p.mu.Lock()
	p.seen = append(p.seen, request{r.Method + " " + r.URL.RequestURI(), r.Header.Clone(), string(body)})
	skills := slices.Clone(p.published)
	p.mu.Unlock()

	switch path := r.URL.Path; {
	case path == "/.well-known/skill-sharing":
		if key := r.Header.Get("X-API-Key"); p.reader == "" || key != p.reader {
			skills = slices.DeleteFunc(skills, func(s skill) bool { return s.access == "private" })
		}
		p.answer(w, object{"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": p.entries(skills)})
	case strings.HasSuffix(path, "/v1/skills"):
		wanted := r.URL.Query().Get("type")
		skills = slices.DeleteFunc(skills, func(s skill) bool { return s.capability != wanted })
		p.answer(w, object{"skills": p.entries(skills)})
	case path == "/token":
		p.answer(w, object{"access_token": issuedToken, "token_type": "Bearer", "expires_in": 3600})
	case strings.HasPrefix(path, "/run/"):
		id := strings.TrimPrefix(path, "/run/")
		const moment = "2026-01-02T03:04:05Z"
		p.answer(w, object{
			"execution_id": "run-1", "status": "completed", "skill_id": id, "output": object{"skill": id},
			"timestamps": object{"created_at": moment, "updated_at": moment, "completed_at": moment},
		})
	default:
		at := slices.IndexFunc(skills, func(s skill) bool { return s.location() == path })
		if at < 0 {
			http.NotFound(w, r)
			return
		}
		p.answer(w, p.descriptor(skills[at]))
	}
}

// issuedToken is the access token of all token endpoints.
const issuedToken = "an-access-token"

func (p *provider) answer(w http.ResponseWriter, content object) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.MarshalWrite(w, content); err != nil {
		p.t.Errorf("answering: %v", err)
	}
}

func (p *provider) entries(skills []skill) []object {
	entries := []object{}
	for _, s := range skills {
		entry := s.summary()
		entry["descriptor_url"] = p.URL + s.location()
		entries = append(entries, entry)
	}
	return entries
}

func (p *provider) descriptor(s skill) object {
	d := s.summary()
	d["protocol"] = object{"version": "1.0.0"}
	d["provider"] = object{"name": "Test"}
	d["endpoint"] = object{"url": cmp.Or(s.runsOn, p.URL) + "/run/" + s.id, "method": "POST"}
	d["inputs"] = []object{{"name": "text", "type": "string", "description": "Any text.", "required": true}}
	d["output"] = object{"content_type": "application/json"}
	d["auth"] = s.auth
	if s.auth == nil {
		d["auth"] = object{"type": "none"}
	}
	return d
}

// summary returns the common members of an index entry and a descriptor.
func (s skill) summary() object {
	return object{
		"id": s.id, "name": s.id, "description": "Does something.", "version": "1.0.0",
		"capability_type": cmp.Or(s.capability, "api"), "access": cmp.Or(s.access, "public"),
	}
}

func (s skill) location() string { return cmp.Or(s.path, "/descriptors/"+s.id+".json") }

// requests returns the requests of a route.
func (p *provider) requests(route string) []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(r request) bool { return r.route != route })
}

// received returns the number of requests.
func (p *provider) received() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.seen)
}

// only returns the request of a route. It fails the test if there is not exactly one.
func (p *provider) only(route string) request {
	p.t.Helper()
	got := p.requests(route)
	if len(got) != 1 {
		p.t.Fatalf("%s was requested %d times, want once", route, len(got))
	}
	return got[0]
}

// neverReceived checks that no request contained a secret.
func (p *provider) neverReceived(secret string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		for name, values := range r.header {
			if strings.Contains(strings.Join(values, " "), secret) {
				p.t.Errorf("%s has the secret in its header %s", r.route, name)
			}
		}
		if strings.Contains(r.body, secret) || strings.Contains(r.route, secret) {
			p.t.Errorf("%s has the secret", r.route)
		}
	}
}
