package providertest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
)

// Provider is a provider whose answers a test sets by method and path. A skill whose route has no answer completes at once, with
// its inputs as its output.
type Provider struct {
	// URL is the base of all its URLs.
	URL string

	server *httptest.Server // nil: it is reached without a network
	mu     sync.Mutex
	routes map[string][]http.HandlerFunc // set by the test
	files  map[string]http.HandlerFunc   // published
	seen   []Request
}

// Request is a request that a provider received.
type Request struct {
	Route  string // method and path
	Header http.Header
	Body   string
}

// New returns a provider that is reached without a network, for instance in a bubble of package synctest.
func New() *Provider {
	return &Provider{URL: "http://provider.example", routes: map[string][]http.HandlerFunc{}, files: map[string]http.HandlerFunc{}}
}

// Listen lets the provider serve HTTP on this machine, until the test ends.
func (p *Provider) Listen(tb testing.TB) {
	tb.Helper()
	p.server = httptest.NewServer(p)
	tb.Cleanup(p.server.Close)
	p.URL = p.server.URL
}

// Start returns a provider that serves skills by HTTP. Without skills, it has no index either.
func Start(tb testing.TB, skills ...Object) *Provider {
	tb.Helper()
	p := New()
	p.Listen(tb)
	if len(skills) > 0 {
		p.Publish(skills...)
	}
	return p
}

// Publish serves skills and an index of them, instead of those before, except for routes that the test has set.
func (p *Provider) Publish(skills ...Object) {
	files := map[string]http.HandlerFunc{}
	entries := make([]any, 0, len(skills))
	for i, d := range skills {
		path := fmt.Sprintf("/skills/%d.json", i)
		files["GET "+path] = p.Descriptor(d)
		entries = append(entries, Object{
			"id": d["id"], "name": d["name"], "capability_type": d["capability_type"], "description": d["description"],
			"descriptor_url": p.URL + path, "access": d["access"], "version": d["version"],
		})
	}
	files["GET /.well-known/skill-sharing"] = Answer(http.StatusOK, Object{
		"protocol": Object{"version": "1.0.0"}, "provider": Object{"name": "Test"}, "skills": entries,
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files = files
}

// Descriptor answers with a descriptor.
func (p *Provider) Descriptor(skill Object) http.HandlerFunc {
	return Answer(http.StatusOK, strings.ReplaceAll(encoded(skill), Base, p.URL))
}

// Source is the provider as a source of skills.
func (p *Provider) Source(tb testing.TB, namespace string) catalog.Source {
	tb.Helper()
	base, err := url.Parse(p.URL)
	if err != nil {
		tb.Fatal(err)
	}
	return catalog.Source{Namespace: namespace, URL: base, Transport: p}
}

// On sets the answers of a route, in their order. The last one repeats. Without any, the route has what is published.
func (p *Provider) On(route string, answers ...http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.routes[route] = answers
}

// Accept lets a skill accept runs, which go on until the returned function ends them with an output.
func (p *Provider) Accept(slug string) (end func(output any)) {
	id := "x-" + slug
	p.On("POST /run/"+slug, Answer(http.StatusAccepted, Response(id, "accepted", nil)))
	p.On("GET /status/"+id, Answer(http.StatusOK, Response(id, "running", nil)))
	return func(output any) {
		p.On("GET /result/"+id, Completed(id, output))
		p.On("GET /status/"+id, Completed(id, output))
	}
}

// Requests returns what a route received.
func (p *Provider) Requests(route string) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.seen), func(r Request) bool { return r.Route != route })
}

// Count returns how many requests, as their route, a space and their body, began with a text.
func (p *Provider) Count(beginning string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if strings.HasPrefix(r.Route+" "+r.Body, beginning) {
			n++
		}
	}
	return n
}

// Received fails the test if a route received another number of requests.
func (p *Provider) Received(tb testing.TB, route string, want int) {
	tb.Helper()
	if got := len(p.Requests(route)); got != want {
		tb.Errorf("%s: the provider received %d requests, want %d", route, got, want)
	}
}

// Inputs returns the inputs of each invocation of a skill, as they were sent.
func (p *Provider) Inputs(tb testing.TB, slug string) (all []string) {
	tb.Helper()
	for _, r := range p.Requests("POST /run/" + slug) {
		in, err := inputsOf(r.Body)
		if err != nil {
			tb.Fatal(err, r.Body)
		}
		all = append(all, string(in))
	}
	return all
}

// Forget deletes what was received so far.
func (p *Provider) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}

// RoundTrip implements [http.RoundTripper]: the provider is also the transport that reaches it.
func (p *Provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.server != nil {
		return p.server.Client().Transport.RoundTrip(r)
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

// ServeHTTP implements [http.Handler].
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what a client that disconnects has sent is all there is
	route := r.Method + " " + r.URL.EscapedPath()
	p.mu.Lock()
	p.seen = append(p.seen, Request{route, r.Header.Clone(), string(body)})
	answers, file := p.routes[route], p.files[route]
	if len(answers) > 1 {
		p.routes[route] = answers[1:]
	}
	p.mu.Unlock()
	switch {
	case len(answers) > 0:
		answers[0](w, r)
	case file != nil:
		file(w, r)
	case strings.HasPrefix(route, "POST /run/"):
		in, err := inputsOf(string(body))
		if err != nil || in == nil {
			in = jsontext.Value("{}")
		}
		Completed("e1", in)(w, r)
	default:
		http.NotFound(w, r)
	}
}

// inputsOf returns the inputs in the body of an invocation.
func inputsOf(body string) (jsontext.Value, error) {
	var invocation struct {
		Inputs jsontext.Value `json:"inputs"`
	}
	err := json.Unmarshal([]byte(body), &invocation)
	return invocation.Inputs, err
}
