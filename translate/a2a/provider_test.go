package a2a_test

import (
	"encoding/json" // tests make documents of maps
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// provider is a provider whose answers a test sets by method and path. It is also the transport that reaches it.
type provider struct {
	url    string
	bubble bool
	real   http.RoundTripper
	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	seen   []seen
	skills []object
}

type seen struct{ route, body string }

func newProvider() *provider {
	p := &provider{routes: map[string]http.HandlerFunc{}}
	required := func(name, kind string, more object) object {
		return merge(object{"name": name, "type": kind, "description": "The " + name + ".", "required": true}, more)
	}
	optional := func(name, kind string, more object) object {
		return merge(required(name, kind, more), object{"required": false})
	}
	p.skills = []object{
		skill("echo", required("text", "string", nil)),
		skill("form", required("city", "string", nil), required("days", "integer", object{"schema": object{"maximum": 10}}),
			required("unit", "string", object{"default": "c"}), optional("note", "string", object{"schema": object{"maxLength": 20}})),
		skill("files", optional("note", "string", nil),
			optional("photo", "string", object{"schema": object{"contentEncoding": "base64", "contentMediaType": "image/*"}}),
			optional("raw", "string", object{"schema": object{"contentEncoding": "base64"}}),
			optional("link", "string", object{"schema": object{"format": "uri"}})),
		skill("number", optional("n", "number", nil)),
		skill("free"),
		skill("slow", required("text", "string", nil)),
	}
	return p
}

// skill is a valid descriptor.
func skill(slug string, inputs ...object) object {
	list := []any{}
	for _, in := range inputs {
		list = append(list, in)
	}
	return object{
		"protocol": object{"version": "1.0.0"}, "id": "acme/" + slug, "name": slug, "version": "1.2.3", "capability_type": "api",
		"description": "Does " + slug + ".", "provider": object{"name": "Test"},
		"endpoint": object{
			"url": "BASE/run/" + slug, "method": "POST", "status_url": "BASE/status/{execution_id}", "result_url": "BASE/result/{execution_id}",
		},
		"inputs": list, "output": object{"content_type": "application/json"}, "auth": object{"type": "none"}, "access": "public",
	}
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

// with changes a skill, or adds it.
func with(slug string, changes object) setup {
	return func(a *agent) {
		for i, s := range a.skills {
			if s["id"] == "acme/"+slug {
				a.skills[i] = merge(s, changes)
				return
			}
		}
		a.skills = append(a.skills, merge(skill(slug), changes))
	}
}

// only removes all other skills.
func only(slugs ...string) setup {
	return func(a *agent) {
		a.skills = slices.DeleteFunc(a.skills, func(s object) bool { return !slices.Contains(slugs, s["name"].(string)) })
	}
}

func (p *provider) start(tb testing.TB) {
	tb.Helper()
	p.url = "http://provider.example"
	if !p.bubble {
		s := httptest.NewServer(p)
		tb.Cleanup(s.Close)
		p.url, p.real = s.URL, s.Client().Transport
	}
	entries := []any{}
	for i, d := range p.skills {
		path := fmt.Sprintf("/skills/%d.json", i)
		text, err := json.Marshal(d)
		if err != nil {
			tb.Fatal(err)
		}
		document := strings.ReplaceAll(string(text), "BASE", p.url)
		if p.routes["GET "+path] == nil {
			p.on("GET "+path, answerJSON(200, document))
		}
		entries = append(entries, object{
			"id": d["id"], "name": d["name"], "capability_type": d["capability_type"], "description": d["description"],
			"descriptor_url": p.url + path, "access": d["access"], "version": d["version"],
		})
	}
	if p.routes["GET /.well-known/skill-sharing"] == nil {
		p.on("GET /.well-known/skill-sharing", answerJSON(200, object{
			"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": entries,
		}))
	}
}

// RoundTrip implements [http.RoundTripper].
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.real != nil {
		return p.real.RoundTrip(r)
	}
	w := httptest.NewRecorder()
	own := r.Clone(r.Context())
	if own.Body == nil {
		own.Body = http.NoBody
	}
	p.ServeHTTP(w, own)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	route := r.Method + " " + r.URL.EscapedPath()
	p.mu.Lock()
	p.seen = append(p.seen, seen{route, string(body)})
	handler := p.routes[route]
	p.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case strings.HasPrefix(route, "POST /run/"): // completes at once, with the inputs as its output
		var in struct{ Inputs json.RawMessage }
		_ = json.Unmarshal(body, &in) // it was written by the bridge
		if in.Inputs == nil {
			in.Inputs = json.RawMessage("{}")
		}
		completed("e1", in.Inputs)(w, r)
	default:
		http.NotFound(w, r)
	}
}

// on sets the answer of a route.
func (p *provider) on(route string, answer http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[route] = answer
}

// bodies returns the bodies that a route received.
func (p *provider) bodies(route string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if s.route == route {
			all = append(all, s.body)
		}
	}
	return all
}

func (p *provider) received(tb testing.TB, route string, want int) {
	tb.Helper()
	if got := len(p.bodies(route)); got != want {
		tb.Errorf("%s: the provider received %d requests, want %d", route, got, want)
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

func response(id, status string, more object) object {
	return merge(object{
		"execution_id": id, "status": status, "skill_id": "x",
		"timestamps": object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"},
	}, more)
}

func completed(id string, output any) http.HandlerFunc {
	return answerJSON(200, response(id, "completed", object{"output": output}))
}

func failed(status int, code string) http.HandlerFunc {
	return answerJSON(status, object{"error": object{"code": code, "message": "It is " + code + "."}})
}

// accept lets a skill accept runs, which go on until the returned function ends them with an output.
func (p *provider) accept(slug string) (end func(output any)) {
	p.on("POST /run/"+slug, answerJSON(202, response("x-"+slug, "accepted", nil)))
	p.on("GET /status/x-"+slug, answerJSON(200, response("x-"+slug, "running", nil)))
	return func(output any) {
		p.on("GET /result/x-"+slug, completed("x-"+slug, output))
		p.on("GET /status/x-"+slug, completed("x-"+slug, output))
	}
}
