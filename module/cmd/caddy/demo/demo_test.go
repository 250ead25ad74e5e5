package demo_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/goleak"

	_ "github.com/skill-bridge/caddy-skill-bridge/module/cmd/caddy/demo"
)

const (
	apiKey       = "test-key"
	clientID     = "test client" // has a space to test the form decoding of Basic
	clientSecret = "s3cret:+%"
)

// A server is a Caddy in this process with the demo provider.
type server struct {
	t      *testing.T
	origin string
	config string
	client *http.Client
}

// start runs Caddy with the demo provider until the test ends.
func start(t *testing.T, runTime time.Duration) *server {
	t.Helper()
	address := freeAddress(t)
	origin := "http://" + address
	config := fmt.Sprintf(`{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"storage": {"module": "file_system", "root": %q},
		"apps": {"http": {"servers": {"demo": {
			"listen": [%q],
			"automatic_https": {"disable": true},
			"routes": [{"handle": [{
				"handler": "skill_bridge_demo",
				"origin": %q,
				"api_key": %q,
				"client": {"id": %q, "secret": %q},
				"run_time": %d
			}]}]
		}}}}
	}`, t.TempDir(), address, origin, apiKey, clientID, clientSecret, runTime)
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatalf("loading Caddy: %v", err)
	}
	s := &server{t, origin, config, &http.Client{Transport: new(http.Transport), Timeout: 30 * time.Second}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	return s
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // only its port is used
	return listener.Addr().String()
}

// An answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (s *server) do(method, path, body string, header ...string) answer {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.origin+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	read, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, read}
}

// invoke sends an InvocationRequest with the given inputs.
func (s *server) invoke(slug, inputs string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/skills/"+slug+"/executions", invocation(slug, inputs), header...)
}

func invocation(slug, inputs string) string {
	return fmt.Sprintf(`{"caller": {"id": "test", "type": "service"}, "skill_id": "demo/%s", "inputs": %s}`, slug, inputs)
}

// finish polls a run until it has ended, and checks the order of its states.
func (s *server) finish(id string, header ...string) report {
	s.t.Helper()
	for ran := false; ; {
		got := s.do(http.MethodGet, "/executions/"+id, "", header...)
		if got.status != http.StatusOK {
			s.t.Fatalf("status of %s: %d %s", id, got.status, got.body)
		}
		r := decode[report](s.t, got)
		switch {
		case r.Status == "running":
			ran = true
		case r.Status != "accepted":
			return r
		case ran:
			s.t.Fatalf("run %s is accepted after it was running", id)
		}
	}
}

// reconnect connects to the server after a reload. Connections that the old server has not accepted
// are lost.
func (s *server) reconnect() {
	s.t.Helper()
	s.client.CloseIdleConnections()
	var err error
	for range 5 {
		var response *http.Response
		if response, err = s.client.Get(s.origin); err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if err == nil {
			return
		}
	}
	s.t.Fatal(err)
}

// token returns the client's Authorization header.
func (s *server) token() string {
	s.t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {clientSecret}, "scope": {"diff:run"}}
	got := s.postForm(form.Encode())
	if got.status != http.StatusOK {
		s.t.Fatalf("token: %d %s", got.status, got.body)
	}
	return "Bearer " + decode[tokenAnswer](s.t, got).AccessToken
}

func (s *server) postForm(form string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/token", form, append(header, "Content-Type", "application/x-www-form-urlencoded")...)
}

type tokenAnswer struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int    `json:"expires_in"`
	Scope       string `json:"scope"`
}

type report struct {
	ExecutionID string         `json:"execution_id"`
	Status      string         `json:"status"`
	SkillID     string         `json:"skill_id"`
	Output      jsontext.Value `json:"output"`
	Error       *runError      `json:"error"`
	Timestamps  struct {
		CreatedAt   time.Time `json:"created_at"`
		UpdatedAt   time.Time `json:"updated_at"`
		CompletedAt time.Time `json:"completed_at"`
	} `json:"timestamps"`
}

type runError struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details jsontext.Value `json:"details"`
	Retry   jsontext.Value `json:"retry"`
}

// decode reads a JSON answer strictly.
func decode[T any](t *testing.T, from answer) T {
	t.Helper()
	if got := from.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	return decodeValue[T](t, from.body)
}

func decodeValue[T any](t *testing.T, from []byte) T {
	t.Helper()
	var into T
	if err := json.Unmarshal(from, &into, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, from)
	}
	return into
}

func compact(t *testing.T, value jsontext.Value) string {
	t.Helper()
	value = value.Clone()
	if err := value.Compact(); err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func quote(t *testing.T, s string) string {
	t.Helper()
	quoted, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// wantProblem checks an answer in the unified error format and returns its details.
func wantProblem(t *testing.T, got answer, status int, code string) jsontext.Value {
	t.Helper()
	body := decode[struct {
		Error runError `json:"error"`
	}](t, got)
	if got.status != status || body.Error.Code != code || body.Error.Message == "" {
		t.Errorf("got %d %s, want %d %s", got.status, got.body, status, code)
	}
	return body.Error.Details
}

func TestUnknownPaths(t *testing.T) {
	s := start(t, time.Millisecond)
	for _, path := range []string{
		"/", "/skills", "/skills/", "/skills/.json", "/skills/summarize", "/skills/a/b.json", "/skills/nothing.json",
		"/executions", "/executions/", "/executions/a/b", "/tokens", "/.well-known/other",
	} {
		if got := s.do(http.MethodGet, path, ""); got.status != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", path, got.status, got.body)
		}
	}
}

func TestStoppingLeavesNoGoroutine(t *testing.T) {
	s := start(t, longest)
	// CertMagic refreshes a released storage lock for some more seconds
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent(), goleak.IgnoreAnyFunction("github.com/caddyserver/certmagic.keepLockfileFresh"))

	if got := s.invoke("summarize", `{"text": "One."}`); got.status != http.StatusAccepted {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	s.client.CloseIdleConnections()
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
}
