package mcp_test

import (
	"encoding/json" // tests make documents of maps
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

type object = map[string]any

// provider is a provider over HTTP whose answers a test sets by method and path.
type provider struct {
	url    string
	mu     sync.Mutex
	routes map[string]http.HandlerFunc
	seen   []string // method, path and body of each request
}

// skill is a valid descriptor with changes. The output of each skill is its inputs, unless a test sets the answer of its route.
func skill(slug string, changes object, inputs ...object) object {
	list := []any{}
	for _, in := range inputs {
		list = append(list, in)
	}
	return merge(object{
		"protocol": object{"version": "1.0.0"}, "id": "acme/" + slug, "name": slug, "version": "1.2.3", "capability_type": "api",
		"description": "Does " + slug + ".", "provider": object{"name": "Test"},
		"endpoint": object{
			"url": "BASE/run/" + slug, "method": "POST", "status_url": "BASE/status/{execution_id}", "result_url": "BASE/result/{execution_id}",
		},
		"inputs": list, "output": object{"content_type": "application/json"}, "auth": object{"type": "none"}, "access": "public",
	}, changes)
}

// input is an input of a descriptor.
func input(name, kind string, changes object) object {
	return merge(object{"name": name, "type": kind, "description": "The " + name + ".", "required": false}, changes)
}

// output are the changes of a skill with an output; a nil schema is none.
func output(contentType string, schema object) object {
	o := object{"content_type": contentType}
	if schema != nil {
		o["schema"] = schema
	}
	return object{"output": o}
}

func merge(target, changes object) object {
	target = maps.Clone(target)
	for k, v := range changes {
		inner, ok := v.(object)
		old, isObject := target[k].(object)
		if ok && isObject && k != "schema" {
			v = merge(old, inner)
		}
		target[k] = v
	}
	return target
}

// newProvider serves skills.
func newProvider(tb testing.TB, skills ...object) *provider {
	tb.Helper()
	p := &provider{routes: map[string]http.HandlerFunc{}}
	s := httptest.NewServer(p)
	tb.Cleanup(s.Close)
	p.url = s.URL
	p.publish(tb, skills...)
	return p
}

// publish replaces the skills.
func (p *provider) publish(tb testing.TB, skills ...object) {
	tb.Helper()
	entries := []any{}
	for i, d := range skills {
		path := fmt.Sprintf("/skills/%d.json", i)
		text, err := json.Marshal(d)
		if err != nil {
			tb.Fatal(err)
		}
		p.on("GET "+path, answer(200, strings.ReplaceAll(string(text), "BASE", p.url)))
		entries = append(entries, object{
			"id": d["id"], "name": d["name"], "capability_type": d["capability_type"], "description": d["description"],
			"descriptor_url": p.url + path, "access": d["access"], "version": d["version"],
		})
	}
	p.on("GET /.well-known/skill-sharing", answer(200, object{
		"protocol": object{"version": "1.0.0"}, "provider": object{"name": "Test"}, "skills": entries,
	}))
}

// on sets the answer of a route.
func (p *provider) on(route string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[route] = h
}

// count returns how many requests began with a text.
func (p *provider) count(prefix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	route := r.Method + " " + r.URL.EscapedPath()
	p.mu.Lock()
	p.seen = append(p.seen, route+" "+string(body))
	h := p.routes[route]
	p.mu.Unlock()
	switch {
	case h != nil:
		h(w, r)
	case strings.HasPrefix(route, "POST /run/"):
		var in struct{ Inputs json.RawMessage }
		_ = json.Unmarshal(body, &in) // it was written by the bridge
		if in.Inputs == nil {
			in.Inputs = json.RawMessage("{}")
		}
		completed(in.Inputs)(w, r)
	default:
		http.NotFound(w, r)
	}
}

// answer is an answer in JSON; v may be its text.
func answer(status int, v any) http.HandlerFunc {
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

func execution(id, status string, more object) object {
	return merge(object{
		"execution_id": id, "status": status, "skill_id": "x",
		"timestamps": object{"created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z"},
	}, more)
}

func completed(out any) http.HandlerFunc {
	return answer(200, execution("e1", "completed", object{"output": out}))
}

func refused(status int, code string) http.HandlerFunc {
	return answer(status, object{"error": object{"code": code, "message": "It is " + code + "."}})
}

// accept lets a skill accept runs, which go on until the returned function ends them with an output.
func (p *provider) accept(slug string) (end func(out any)) {
	id := "x-" + slug
	p.on("POST /run/"+slug, answer(202, execution(id, "accepted", nil)))
	p.on("GET /status/"+id, answer(200, execution(id, "running", nil)))
	return func(out any) {
		done := answer(200, execution(id, "completed", object{"output": out}))
		p.on("GET /result/"+id, done)
		p.on("GET /status/"+id, done)
	}
}
