package publish_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func result(status int, contentType, body string) *publish.Result {
	header := http.Header{}
	if contentType != "" {
		header.Set("Content-Type", contentType)
	}
	return new(publish.Operation).Result(status, header, []byte(body))
}

func TestOutputs(t *testing.T) {
	for _, c := range []struct {
		status                  int
		contentType, body, want string
	}{
		{200, "application/json", ` {"a": 12345678901234567890.10, "b":1e400}`, ` {"a": 12345678901234567890.10, "b":1e400}`},
		{201, "application/hal+json; charset=utf-8", `[1.0]`, `[1.0]`},
		{200, "application/json", "\uFEFF{}", `{}`},
		{200, "application/x-json", `{"a":1,"a":2}`, `{"a":2}`},
		{200, "application/json; charset=utf-8; charset=UTF-8", `{"a":1,"a":2}`, `{"a":2}`},
		{200, "application/json; charset=utf-8; charset=UTF-8", "no json", `"no json"`},
		{200, "Application/JSON;", `{"a":1}`, `{"a":1}`},
		{200, "", `{"a":1}`, `{"a":1}`},
		{200, "", "hello", `"hello"`},
		{200, "", "\x00\x01", `{"media_type":"application/octet-stream","base64":"AAE="}`},
		{204, "", "", `null`},
		{200, "application/json", "", `null`},
		{202, "text/html", "", `null`},
		{200, "text/plain", "5", `"5"`},
		{200, "text/plain; charset=UTF-8", "café", `"café"`},
		{200, "text/plain", "caf\xe9", `{"media_type":"text/plain","base64":"Y2Fm6Q=="}`},
		{200, "text/plain; charset=latin1", "caf\xe9", `{"media_type":"text/plain; charset=latin1","base64":"Y2Fm6Q=="}`},
		{200, "application/problem+json", `{"title":"a"}`, `{"title":"a"}`},
		{200, "application/xml", "<a/>", `"<a/>"`},
		{200, "image/svg+xml", "<svg/>", `"<svg/>"`},
		{200, "application/x-ndjson", "{}\n{}\n", `"{}\n{}\n"`},
		{200, "application/json", `{"a":1,"a":2}`, `{"a":2}`},
		{200, "application/json", "{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}"},
		{200, "application/json", `no json`, `"no json"`},
		{200, "application/json", strings.Repeat("[", 510) + strings.Repeat("]", 510), strings.Repeat("[", 510) + strings.Repeat("]", 510)},
		{200, "application/json", strings.Repeat("[", 511) + strings.Repeat("]", 511), `"` + strings.Repeat("[", 511) + strings.Repeat("]", 511) + `"`}, // see document.MaxDepth
		{200, "image/png", "\x89PNG", `{"media_type":"image/png","base64":"iVBORw=="}`},
		{206, "application/pdf", "%PDF", `{"media_type":"application/pdf","base64":"JVBERg=="}`},
		{200, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK", `{"media_type":"application/vnd.openxmlformats-officedocument.wordprocessingml.document","base64":"UEs="}`},
	} {
		r := result(c.status, c.contentType, c.body)
		if r.State != run.Completed || r.Refused != 0 || r.Failure != nil || string(r.Output) != c.want {
			t.Errorf("%s %q: %s %s", c.contentType, c.body, r.State, r.Output)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status                       int
		contentType, body            string
		want, code, message, details string
	}{
		{400, "application/problem+json", `{"type":"about:blank","title":"Bad","detail":"no id"}`, "failed 0", "BAD_REQUEST", "Bad: no id", `{"type":"about:blank","title":"Bad","detail":"no id"}`},
		{409, "application/json", `{"error":{"code":"card_declined","message":"The card."}}`, "failed 0", "card_declined", "The card.", `{"error":{"code":"card_declined","message":"The card."}}`},
		{400, "application/json", `{"error":{"code":400,"message":"a","details":[1]}}`, "failed 0", "BAD_REQUEST", "a", `[1]`},
		{400, "application/json", `{"error":"invalid_grant"}`, "failed 0", "BAD_REQUEST", "invalid_grant", `{"error":"invalid_grant"}`},
		{400, "application/json", `{"message":"Bad","errors":[]}`, "failed 0", "BAD_REQUEST", "Bad", `{"message":"Bad","errors":[]}`},
		{400, "application/json", `{"detail":[{"loc":"x"}],"title":7}`, "failed 0", "BAD_REQUEST", "The API answered HTTP 400 Bad Request.", `{"detail":[{"loc":"x"}],"title":7}`},
		{400, "text/plain", "no such thing\n", "failed 0", "BAD_REQUEST", "HTTP 400 Bad Request: no such thing", ""},
		{400, "text/html", "<html>", "failed 0", "BAD_REQUEST", "The API answered HTTP 400 Bad Request.", ""},
		{404, "application/json", `{"error":{"code":"SKILL_NOT_FOUND","message":"gone"}}`, "failed 0", "NOT_FOUND", "gone", `{"error":{"code":"SKILL_NOT_FOUND","message":"gone"}}`},
		{410, "", "", "failed 0", "GONE", "The API answered HTTP 410 Gone.", ""},
		{418, "", "", "failed 0", "IM_A_TEAPOT", "The API answered HTTP 418 I'm a teapot.", ""},
		{500, "application/json", `{"error":{"message":"a\u001b[31m\u202eb"}}`, "failed 0", "INTERNAL_SERVER_ERROR", "a [31mb", `{"error":{"message":"a\u001b[31m\u202eb"}}`},
		{502, "", "", "failed 0", "ENDPOINT_UNREACHABLE", "The API answered HTTP 502 Bad Gateway.", ""},
		{504, "", "", "timeout 0", "INVOCATION_TIMEOUT", "The API answered HTTP 504 Gateway Timeout.", ""},
		{599, "", "", "failed 0", "HTTP_599", "The API answered HTTP 599.", ""},
		{302, "", "", "failed 0", "FOUND", "The API answered HTTP 302 Found, and redirects are not followed here.", ""},
		{304, "", "", "failed 0", "NOT_MODIFIED", "The API answered HTTP 304 Not Modified, and redirects are not followed here.", ""},
		{401, "application/json", `{"message":"who?"}`, "failed 401", "AUTH_REQUIRED", "who?", `{"message":"who?"}`},
		{403, "", "", "failed 403", "PERMISSION_DENIED", "The API answered HTTP 403 Forbidden.", ""},
		{408, "", "", "failed 408", "INVOCATION_TIMEOUT", "The API answered HTTP 408 Request Timeout.", ""},
		{422, "application/json", `{"error":{"code":"x","message":"bad id"}}`, "failed 422", "VALIDATION_ERROR", "bad id", `{"error":{"code":"x","message":"bad id"}}`},
		{429, "", "", "failed 429", "RATE_LIMITED", "The API answered HTTP 429 Too Many Requests.", ""},
		{503, "", "", "failed 503", "ENDPOINT_UNREACHABLE", "The API answered HTTP 503 Service Unavailable.", ""},
	} {
		r := result(c.status, c.contentType, c.body)
		if got := fmt.Sprint(r.State, " ", r.Refused); got != c.want || r.Output != nil || r.Failure == nil {
			t.Errorf("%d %s: %s %+v", c.status, c.body, got, r.Failure)
		} else if p := r.Failure.Provider; p.Code != c.code || r.Failure.Message != c.message || string(p.Details) != c.details {
			t.Errorf("%d %s: %q %q %s", c.status, c.body, p.Code, r.Failure.Message, p.Details)
		}
	}
	long := result(400, "application/json", `{"message":"`+strings.Repeat("é", 100_000)+`"}`)
	if n := len([]rune(long.Failure.Message)); n != 1000 || len(long.Failure.Provider.Details) > 200 {
		t.Error(n, len(long.Failure.Provider.Details))
	}
}

// JSON that the document promises is JSON, whatever the server calls it.
func TestPromisedJSON(t *testing.T) {
	for _, c := range []struct{ accept, contentType, body, want string }{
		{"application/json", "application/octet-stream", `{"a":1.0}`, `{"a":1.0}`},
		{"application/json", "text/html", `{"a":1.0}`, `{"a":1.0}`},
		{"application/json", "text/html", "<p>é", `"<p>é"`},
		{"application/json", "application/octet-stream", "\x00", `{"media_type":"application/octet-stream","base64":"AA=="}`},
		{"application/json, text/plain", "text/plain", `5`, `"5"`},
	} {
		o := &publish.Operation{Accept: strings.Split(c.accept, ", ")}
		if r := o.Result(200, http.Header{"Content-Type": {c.contentType}}, []byte(c.body)); string(r.Output) != c.want {
			t.Errorf("%s of %s: %s", c.body, c.contentType, r.Output)
		}
	}
}

// What a caller can do about an error is said: which credential, which scopes, when.
func TestDemands(t *testing.T) {
	for demand, want := range map[publish.Demand]string{
		{Type: "api_key", Header: "X-Key"}:                                     `{"required_auth_type":"api_key","header":"X-Key"}`,
		{Type: "oauth2", AuthorizationURL: "https://auth.example/authorize?a"}: `{"required_auth_type":"oauth2","authorization_url":"https://auth.example/authorize?a"}`,
		{Type: "custom"}: `{"required_auth_type":"custom"}`,
	} {
		o := &publish.Operation{Demand: demand}
		r := o.Result(401, http.Header{"Www-Authenticate": {"Bearer", "Basic"}, "Set-Cookie": {"a=b"}}, []byte(`{"message":"x"}`))
		if string(r.Failure.Provider.Details) != want || len(r.Header) != 1 || !slices.Equal(r.Header["Www-Authenticate"], []string{"Bearer", "Basic"}) {
			t.Errorf("%+v: %s %v", demand, r.Failure.Provider.Details, r.Header)
		}
	}
	challenge := http.Header{"Www-Authenticate": {`Bearer realm="a", error="insufficient_scope", scope="read:a  write"`}}
	if r := new(publish.Operation).Result(403, challenge, nil); string(r.Failure.Provider.Details) != `{"required_scopes":["read:a","write"]}` {
		t.Errorf("%s", r.Failure.Provider.Details)
	}
	if r := new(publish.Operation).Result(503, http.Header{"Retry-After": {"7"}}, nil); r.Header.Get("Retry-After") != "7" || string(r.Failure.Provider.Retry) != `{"max_attempts":3,"suggested_delay_ms":7000}` {
		t.Errorf("%v %s", r.Header, r.Failure.Provider.Retry)
	}
}

func TestLargeAnswers(t *testing.T) {
	if r := result(200, "text/plain", strings.Repeat("a", publish.MaxAnswer+1)); r.State != run.Failed || r.Failure.Provider.Code != "TOO_LARGE" || r.Output != nil {
		t.Error(r.State, r.Failure)
	}
	if r := result(200, "text/plain", strings.Repeat("a", publish.MaxAnswer)); r.State != run.Completed {
		t.Error(r.State, r.Failure)
	}
}

// FuzzResult: whatever the API answers, there is either valid output or an error with a code and a message that can be shown.
func FuzzResult(f *testing.F) {
	f.Add(uint16(200), "application/json", []byte(`{"a":[1]}`))
	f.Add(uint16(400), "application/problem+json", []byte(`{"title":"a\u0000","detail":"\ud800"}`))
	f.Add(uint16(200), "text/plain; charset=x", []byte("\xff"))
	f.Add(uint16(403), "text/plain", []byte("\x80\x1b[0m"))
	f.Fuzz(func(t *testing.T, status uint16, contentType string, body []byte) {
		header := http.Header{"Content-Type": {contentType}, "Www-Authenticate": {contentType}}
		r := (&publish.Operation{Demand: publish.Demand{Type: "oauth2"}}).Result(int(status), header, body)
		switch {
		case r.State == run.Completed:
			if !r.Output.IsValid() || r.Failure != nil {
				t.Fatalf("%q %v", r.Output, r.Failure)
			}
		case r.Failure == nil || r.Failure.Provider.Code == "" || r.Failure.Message == "" || strings.ContainsFunc(r.Failure.Message, unicode.IsControl):
			t.Fatalf("%+v", r.Failure)
		case r.Failure.Provider.Details != nil && !r.Failure.Provider.Details.IsValid():
			t.Fatalf("%q", r.Failure.Provider.Details)
		}
	})
}
