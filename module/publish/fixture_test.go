package publish_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// object is a JSON object.
type object = map[string]any

// pets is the document of the API that the tests publish.
const pets = `openapi: 3.1.0
info: {title: Pets, version: 1.2.0}
components:
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Pets-Key}
    bearer: {type: http, scheme: bearer}
paths:
  /pets/{petId}:
    get:
      operationId: getPet
      summary: Get a pet
      parameters:
        - {name: petId, in: path, required: true, schema: {type: string}}
        - {name: verbose, in: query, schema: {type: boolean}}
        - {name: X-Shade, in: header, schema: {type: string}}
      responses: {"200": {description: The pet., content: {application/json: {schema: {type: object}}}}}
  /pets:
    post:
      operationId: addPet
      summary: Add a pet
      security: [{key: []}]
      requestBody:
        required: true
        content: {application/json: {schema: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}}}}}
      responses: {"201": {description: Added., content: {application/json: {schema: {type: object}}}}}
    get:
      operationId: listPets
      summary: List pets
      security: [{bearer: []}]
      responses: {"200": {description: All., content: {application/json: {schema: {type: array, items: {}}}}}}
  /secret:
    get:
      operationId: secret
      summary: Not included
      responses: {"200": {description: Nothing.}}
  /slow:
    post:
      operationId: slow
      summary: Take a while
      requestBody: {content: {application/json: {schema: {type: object, properties: {what: {type: string}}}}}}
      responses: {"200": {description: Done., content: {application/json: {schema: {}}}}}
`

// api is the API behind the publisher.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
	serve    http.HandlerFunc // nil: it answers with what it got
}

// startAPI starts an API.
func startAPI(tb testing.TB) *api {
	tb.Helper()
	a := new(api)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.requests, a.bodies = append(a.requests, r), append(a.bodies, string(body))
		serve := a.serve
		a.mu.Unlock()
		if serve != nil {
			serve(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.MarshalWrite(w, object{"method": r.Method, "uri": r.URL.RequestURI(), "body": string(body)}, json.Deterministic(true))
	}))
	tb.Cleanup(a.Close)
	return a
}

// On sets how the API answers.
func (a *api) On(serve http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.serve = serve
}

// Count returns how many requests the API got.
func (a *api) Count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

// Last returns the last request that the API got.
func (a *api) Last(tb testing.TB) *http.Request {
	tb.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.requests) == 0 {
		tb.Fatal("the API got no request")
	}
	return a.requests[len(a.requests)-1]
}

// write writes a file into a temporary folder, and returns its name.
func write(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// publisher is a publisher of an API in a real Caddy.
type publisher struct {
	*testbed.Caddy
	tb   testing.TB
	api  *api
	base string // of the site
	text string // the Caddyfile
	ns   string
}

// site returns a Caddyfile of a site that publishes the API with some lines in the block of the directive, and others in front of it.
func (a *api) site(tb testing.TB, block string, front ...string) string {
	tb.Helper()
	return testbed.Site(append(front, "skill_publish {\n\topenapi "+write(tb, "pets.yaml", pets)+" {\n\t\tinclude getPet addPet listPets slow\n\t}\n\tstore memory\n"+block+"\n}",
		// A busy machine takes longer than Caddy's three seconds to accept a hundred connections.
		"reverse_proxy "+strings.TrimPrefix(a.URL, "http://")+" {\n\ttransport http {\n\t\tdial_timeout 1m\n\t}\n}")...)
}

// start starts a Caddy with a Caddyfile.
func start(tb testing.TB, a *api, caddyfile string) *publisher {
	tb.Helper()
	c := testbed.StartCaddy(tb, caddyfile)
	return &publisher{c, tb, a, "http://127.0.0.1:" + c.Port("PORT"), caddyfile, "127.0.0.1"}
}

// answer is an answer of the publisher.
type answer struct {
	Status int
	Header http.Header
	Body   string
	Run    struct {
		ExecutionID string         `json:"execution_id"`
		Status      string         `json:"status"`
		SkillID     string         `json:"skill_id"`
		Output      jsontext.Value `json:"output"`
		StatusURL   string         `json:"status_url"`
		Timestamps  struct {
			Created   time.Time `json:"created_at"`
			Completed time.Time `json:"completed_at"`
		} `json:"timestamps"`
		Error *struct {
			Code    string         `json:"code"`
			Message string         `json:"message"`
			Details jsontext.Value `json:"details"`
			Retry   jsontext.Value `json:"retry"`
		} `json:"error"`
	}
}

// String is for messages of tests.
func (a answer) String() string { return fmt.Sprintf("HTTP %d %v %s", a.Status, a.Header, a.Body) }

// code returns the code of the error; empty: there is none.
func (a answer) code() string {
	if a.Run.Error == nil {
		return ""
	}
	return a.Run.Error.Code
}

// send sends a request. The headers are names and values.
func (p *publisher) send(method, path, body string, headers ...string) (a answer) {
	p.tb.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = p.base + path
	}
	r, err := http.NewRequestWithContext(p.tb.Context(), method, url, strings.NewReader(body))
	if err != nil {
		p.tb.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Minute}
	got, err := client.Do(r)
	if err != nil {
		p.tb.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		p.tb.Fatal(err)
	}
	a.Status, a.Header, a.Body = got.StatusCode, got.Header, string(text)
	_ = json.UnmarshalRead(bytes.NewReader(text), &a.Run) // else it is no JSON
	return a
}

// get reads a document.
func (p *publisher) get(path string, headers ...string) answer {
	p.tb.Helper()
	return p.send(http.MethodGet, path, "", headers...)
}

// invoke invokes a skill.
func (p *publisher) invoke(skill, inputs string, headers ...string) answer {
	p.tb.Helper()
	id := p.ns + "/" + skill
	return p.send(http.MethodPost, "/skill-sharing/"+id, `{"caller":{"id":"test","type":"service"},"skill_id":"`+id+`","inputs":`+inputs+`}`, headers...)
}

// await reads a run until it has ended.
func (p *publisher) await(a answer, headers ...string) answer {
	p.tb.Helper()
	for range 200 {
		if got := p.get(a.Run.StatusURL, headers...); got.Status != http.StatusOK || got.Run.Status != "running" && got.Run.Status != "accepted" {
			return got
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.tb.Fatalf("the run does not end: %v", a)
	return a
}

// mustJSON returns the JSON of a value.
func mustJSON(value any) jsontext.Value {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}
