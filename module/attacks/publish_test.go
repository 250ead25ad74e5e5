package attacks_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// toys is the document of an API that is published, but for its operation dropToys. It declares headers that no document can make inputs.
const toys = `openapi: 3.1.0
info: {title: Toys, version: 1.0.0}
components: {securitySchemes: {key: {type: apiKey, in: header, name: X-Toys-Key}}}
paths:
  /pets/{pet}/toys:
    get:
      operationId: toys
      parameters:
        - {name: pet, in: path, required: true, schema: {}}
        - {name: q, in: query, schema: {}}
        - {name: free, in: query, schema: {type: object}}
        - {name: fixed, in: query, schema: {type: string}}
        - {name: X-Shade, in: header, schema: {}}
        - {name: shade, in: cookie, schema: {}}
        - {name: Host, in: header, schema: {type: string}}
        - {name: Authorization, in: header, schema: {type: string}}
        - {name: Cookie, in: header, schema: {type: string}}
        - {name: Transfer-Encoding, in: header, schema: {type: string}}
        - {name: Content_Length, in: header, schema: {type: string}}
        - {name: X-Forwarded-For, in: header, schema: {type: string}}
        - {name: Proxy-Authorization, in: header, schema: {type: string}}
        - {name: X-HTTP-Method-Override, in: header, schema: {type: string}}
        - {name: X-Toys-Key, in: header, schema: {type: string}}
      security: [{key: []}]
      responses: {"200": {description: All toys., content: {application/json: {schema: {}}}}}
    delete:
      operationId: dropToys
      parameters: [{name: pet, in: path, required: true, schema: {}}]
      responses: {"204": {description: Gone.}}
`

// shop is an API behind a publisher.
type shop struct {
	*testbed.Client
	t  *testing.T
	mu sync.Mutex
	// answer answers requests; nil: with {}.
	answer   http.HandlerFunc
	requests []*http.Request
}

// publishToys starts the API and its publisher.
func publishToys(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, r)
		if s.answer != nil {
			s.answer(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "toys.yaml")
	if err := os.WriteFile(file, []byte(toys), 0o600); err != nil {
		t.Fatal(err)
	}
	c := testbed.StartCaddy(t, testbed.Site("skill_publish {\n\tstore memory\n\tnamespace shop\n\topenapi "+file+" {\n\t\tinclude toys\n\t}\n}",
		"reverse_proxy "+strings.TrimPrefix(api.URL, "http://")))
	s.Client = testbed.NewClient(t, "http://127.0.0.1:"+c.Port("PORT"))
	return s
}

// invoke invokes the published skill, and returns the answer and the requests that the API got.
func (s *shop) invoke(inputs string, options ...testbed.Option) (testbed.Answer, []*http.Request) {
	s.t.Helper()
	return s.send(http.MethodPost, "/skill-sharing/shop/toys", `{"caller":{"id":"a","type":"b"},"skill_id":"shop/toys","inputs":`+inputs+`}`, options...)
}

func (s *shop) send(method, path, body string, options ...testbed.Option) (testbed.Answer, []*http.Request) {
	s.t.Helper()
	s.mu.Lock()
	s.requests = nil
	s.mu.Unlock()
	a := s.With(append(options, testbed.Header("Content-Type", "application/json"))...).Send(method, s.URL+path, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	return a, s.requests
}

// S239: no argument leaves its place in the path, the query, a header or a cookie: what the API gets has the structure of the document.
func TestS239PlacesOfArguments(t *testing.T) {
	s := publishToys(t)
	evil := []string{
		"..", ".", "", "../..", "../../admin", "a/../../../admin", `..\admin`, "%2e%2e", "%2e%2e%2fadmin", "..%2fadmin", "..;/admin", "?admin=1", "#x", "a?b#c", "a\r\nHost: evil",
		"a\nb", "a\x00b", "/", "//evil.example/", "http://evil.example/", "a;b=c", "a&fixed=evil", "a=b", "{pet}", "a b", "ä", "\u2025", "\uff0e\uff0e", "&", "+", "%", "%00", "a, b",
	}
	for _, value := range evil {
		for _, input := range []string{"pet", "q", "X-Shade", "shade"} {
			arguments := map[string]any{"pet": "p", "fixed": "f", input: value}
			text, _ := json.Marshal(arguments)
			a, got := s.invoke(string(text))
			if a.Status == http.StatusBadRequest && len(got) == 0 && strings.Contains(string(a.Body), `"/inputs/`+input+`"`) {
				continue
			}
			if a.Status != http.StatusOK || len(got) != 1 {
				t.Errorf("%s %q: %v, and %d requests", input, value, a, len(got))
				continue
			}
			r := got[0]
			segments := strings.Split(r.URL.EscapedPath(), "/")
			query, err := url.ParseQuery(r.URL.RawQuery)
			if len(segments) != 4 || segments[1] != "pets" || segments[3] != "toys" || err != nil || !slices.Equal(query["fixed"], []string{"f"}) || len(query) > 2 ||
				!strings.HasPrefix(r.Host, "127.0.0.1:") || len(r.Cookies()) > 1 {
				t.Errorf("%s %q: %s %s %v", input, value, r.Host, r.RequestURI, r.Header)
			}
			if decoded, _ := url.PathUnescape(segments[2]); input == "pet" && decoded != value || input == "q" && query.Get("q") != value {
				t.Errorf("%s %q: %s", input, value, r.RequestURI)
			}
		}
	}
}

// S240: headers that are credentials, or that frame, route or override a request, are no inputs, whatever the document says; neither are names of
// parameters in objects.
func TestS240HeadersOfDocuments(t *testing.T) {
	s := publishToys(t)
	a, _ := s.send(http.MethodGet, "/skill-sharing/shop/toys.json", "")
	var descriptor struct {
		Inputs []struct {
			Name string `json:"name"`
		} `json:"inputs"`
	}
	if err := json.Unmarshal(a.Body, &descriptor, json.RejectUnknownMembers(false)); err != nil || len(descriptor.Inputs) != 6 {
		t.Fatalf("%v: %+v", a, descriptor)
	}
	for _, name := range []string{"Host", "Authorization", "Cookie", "Transfer-Encoding", "Content_Length", "X-Forwarded-For", "Proxy-Authorization", "X-HTTP-Method-Override", "X-Toys-Key", "x-shade"} {
		if a, got := s.invoke(`{"pet":"p","` + name + `":"evil"}`); a.Status != http.StatusBadRequest || len(got) != 0 {
			t.Errorf("%s: %v, and %d requests", name, a, len(got))
		}
	}
	for _, object := range []string{`{"fixed":"evil"}`, `{"q":"evil"}`} {
		if a, got := s.invoke(`{"pet":"p","free":` + object + `}`); a.Status != http.StatusBadRequest || len(got) != 0 {
			t.Errorf("%s: %v, and %d requests", object, a, len(got))
		}
	}
}

// S241: inputs beyond the schema are refused, and so are those that parsers read differently.
func TestS241InputsBeyondTheSchema(t *testing.T) {
	s := publishToys(t)
	for _, inputs := range []string{`{"pet":"p","admin":true}`, `{"pet":"p","pet":"q"}`, `{"pet":"p","p\u0065t":"q"}`, `{"pet":"p","fixed":1}`, `[]`, `null`, `"x"`, `{"pet":"p"`, `{"pet":"p"},"inputs":{}`} {
		if a, got := s.invoke(inputs); a.Status != http.StatusBadRequest || len(got) != 0 {
			t.Errorf("%s: %v, and %d requests", inputs, a, len(got))
		}
	}
}

// S242: an operation that is not included can't be reached by any spelling.
func TestS242OperationsNotIncluded(t *testing.T) {
	s := publishToys(t)
	for _, path := range []string{
		"drop-toys", "dropToys", "DROP-TOYS", "drop-toys/", "./drop-toys", "../shop/drop-toys", "toys/../drop-toys", "drop%2Dtoys", "drop-toys.json", "drop-toys?x", "toys/", "Toys", "toys%00",
		"toys?operationId=dropToys", "toys;dropToys",
	} {
		for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut, http.MethodGet} {
			_, got := s.send(method, "/skill-sharing/shop/"+path, `{"caller":{"id":"a","type":"b"},"skill_id":"shop/drop-toys","inputs":{"pet":"p"}}`, testbed.Header("X-HTTP-Method-Override", "DELETE"))
			if slices.ContainsFunc(got, func(r *http.Request) bool {
				return r.Method == http.MethodDelete && strings.HasSuffix(r.URL.Path, "/toys")
			}) {
				t.Errorf("%s %s: %s", method, path, got[0].RequestURI)
			}
		}
	}
}

// S243: the API gets the credential that the operation names, and nothing else of the caller's headers.
func TestS243CredentialsOfOperations(t *testing.T) {
	s := publishToys(t)
	sent := []string{"X-Toys-Key", "Authorization", "Cookie", "Proxy-Authorization", "X-Other-Key", "X-Http-Method-Override", "Forwarded"}
	var options []testbed.Option
	for _, name := range sent {
		options = append(options, testbed.Header(name, "hush-"+strings.ToLower(name)))
	}
	a, got := s.invoke(`{"pet":"p"}`, options...)
	if a.Status != http.StatusOK || len(got) != 1 {
		t.Fatal(a)
	}
	for name, values := range got[0].Header {
		if strings.Contains(strings.Join(values, " "), "hush") != (name == "X-Toys-Key") {
			t.Errorf("%s: %q", name, values)
		}
	}
}

// S244: an answer of the API is an output or an error, and nothing more: it can't be another status or run, set headers, or show control characters.
func TestS244AnswersOfAPIs(t *testing.T) {
	s := publishToys(t)
	for _, c := range []struct {
		status       int
		body         string
		want, wanted string
	}{
		{200, `{"execution_id":"evil","status":"failed","error":{"code":"EVIL"}}`, `"status":"completed"`, `"output":{"execution_id":"evil"`},
		{200, `{"a":1}},"status":"failed"`, `"status":"completed"`, `"output":"{\"a\":1}},\"status\":\"failed\""`},
		{404, `{"error":{"code":"SKILL_NOT_FOUND","message":"\u001b[31m\u202eevil"}}`, `"status":"failed"`, `"code":"NOT_FOUND","message":" [31mevil"`},
		{400, `{"error":{"code":"AUTH\r\nREQUIRED"}}`, `"status":"failed"`, `"code":"BAD_REQUEST"`},
		{401, `{"error":{"message":"who"},"details":{"authorization_url":"https://evil.example/"}}`, `"AUTH_REQUIRED"`, `"details":{"required_auth_type":"api_key","header":"X-Toys-Key"}`},
		{302, ``, `"status":"failed"`, `redirects are not followed`},
	} {
		s.mu.Lock()
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.Header().Set("Set-Cookie", "evil=1")
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}
		s.mu.Unlock()
		a, got := s.invoke(`{"pet":"p"}`)
		if len(got) != 1 || !strings.Contains(string(a.Body), c.want) || !strings.Contains(string(a.Body), c.wanted) {
			t.Errorf("%d %s: %v", c.status, c.body, a)
		}
		if a.Header.Get("Set-Cookie")+a.Header.Get("Location")+a.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%d %s: %v", c.status, c.body, a.Header)
		}
	}
}
