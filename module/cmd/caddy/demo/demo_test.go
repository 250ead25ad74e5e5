package demo_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	_ "github.com/skill-bridge/caddy-skill-bridge/module/cmd/caddy/demo"
)

const (
	apiKey       = "test-key"
	clientID     = "test client" // has a space to test the form decoding of Basic
	clientSecret = "s3cret:+%"
)

// A server is a Caddy in this process with the demo API.
type server struct {
	t      *testing.T
	origin string
	client *http.Client
}

// start runs Caddy with the demo API until the test ends.
func start(t *testing.T) *server {
	t.Helper()
	address := freeAddress(t)
	config := fmt.Sprintf(`{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"writer": {"output": "discard"}}}},
		"storage": {"module": "file_system", "root": %q},
		"apps": {"http": {"servers": {"demo": {
			"listen": [%q],
			"automatic_https": {"disable": true},
			"routes": [{"handle": [{
				"handler": "skill_bridge_demo",
				"api_key": %q,
				"client": {"id": %q, "secret": %q},
				"run_time": %d
			}]}]
		}}}}
	}`, t.TempDir(), address, apiKey, clientID, clientSecret, 20*time.Millisecond)
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatalf("loading Caddy: %v", err)
	}
	s := &server{t, "http://" + address, &http.Client{Transport: new(http.Transport), Timeout: 30 * time.Second}}
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

// call calls an operation.
func (s *server) call(operation, inputs string, header ...string) answer {
	s.t.Helper()
	return s.do(http.MethodPost, "/"+operation, inputs, header...)
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

type failure struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details jsontext.Value `json:"details"`
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

func quote(t *testing.T, s string) string {
	t.Helper()
	quoted, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// sameJSON reports whether two texts are the same value.
func sameJSON(t *testing.T, a []byte, b string) bool {
	t.Helper()
	return reflect.DeepEqual(decodeValue[any](t, a), decodeValue[any](t, []byte(b)))
}

// wantFailure checks the error of an answer, and returns its details.
func wantFailure(t *testing.T, got answer, status int, code string) string {
	t.Helper()
	body := decode[struct {
		Error failure `json:"error"`
	}](t, got)
	if got.status != status || body.Error.Code != code || body.Error.Message == "" {
		t.Errorf("got %d %s, want %d %s", got.status, got.body, status, code)
	}
	return string(body.Error.Details)
}
