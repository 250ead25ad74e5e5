package publish_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/skill-bridge/caddy-skill-bridge/translate/publish"
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
		{200, "", `{"a":1}`, `{"a":1}`},
		{200, "", "hello", `"hello"`},
		{200, "", "\x00\x01", `{"media_type":"application/octet-stream","base64":"AAE="}`},
		{204, "", "", `null`},
		{200, "application/json", "", `null`},
		{202, "text/html", "", `null`},
		{200, "text/plain", "5", `"5"`},
		{200, "text/plain; charset=ISO-8859-1", "caf\xe9", `"café"`},
		{200, "text/csv; charset=latin1", "\xe9", `"é"`},
		{200, "text/plain; charset=windows-1251", "\xc4\xe0", `"Да"`},
		{200, "text/plain; charset=KOI8-R", "\xe4\xc1", `"Да"`},
		{200, "text/plain", "\x93a\x94", `"“a”"`},
		{200, "text/plain; charset=Shift_JIS", "\x83\x65", `"テ"`},
		{200, "application/json; charset=utf-16le", "1\x00", `1`},
		{200, "text/plain; charset=unheard-of", "\x83\x65", `{"media_type":"text/plain; charset=unheard-of","base64":"g2U="}`},
		{200, "application/json; charset=iso-8859-1", "{\"a\":\"\xe9\"}", `{"a":"é"}`},
		{200, "application/problem+json", `{"title":"a"}`, `{"title":"a"}`},
		{200, "application/xml", "<a/>", `"<a/>"`},
		{200, "image/svg+xml", "<svg/>", `"<svg/>"`},
		{200, "application/x-ndjson", "{}\n{}\n", `"{}\n{}\n"`},
		{200, "application/json", `{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
		{200, "application/json", `no json`, `"no json"`},
		{200, "application/json", strings.Repeat("[", 2000) + strings.Repeat("]", 2000), `"` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `"`},
		{200, "image/png", "\x89PNG", `{"media_type":"image/png","base64":"iVBORw=="}`},
		{206, "application/pdf", "%PDF", `{"media_type":"application/pdf","base64":"JVBERg=="}`},
		{200, "application/vnd.openxmlformats-officedocument.wordprocessingml.document", "PK", `{"media_type":"application/vnd.openxmlformats-officedocument.wordprocessingml.document","base64":"UEs="}`},
	} {
		r := result(c.status, c.contentType, c.body)
		if r.Status != "completed" || r.HTTPStatus != 200 || r.Error != nil || string(r.Output) != c.want {
			t.Errorf("%s %q: %s %s", c.contentType, c.body, r.Status, r.Output)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status                       int
		contentType, body            string
		want, code, message, details string
	}{
		{400, "application/problem+json", `{"type":"about:blank","title":"Bad","detail":"no id"}`, "failed 200", "BAD_REQUEST", "Bad: no id", `{"type":"about:blank","title":"Bad","detail":"no id"}`},
		{409, "application/json", `{"error":{"code":"card_declined","message":"The card."}}`, "failed 200", "card_declined", "The card.", `{"error":{"code":"card_declined","message":"The card."}}`},
		{400, "application/json", `{"error":{"code":400,"message":"a","details":[1]}}`, "failed 200", "BAD_REQUEST", "a", `[1]`},
		{400, "application/json", `{"error":"invalid_grant"}`, "failed 200", "BAD_REQUEST", "invalid_grant", `{"error":"invalid_grant"}`},
		{400, "application/json", `{"message":"Bad","errors":[]}`, "failed 200", "BAD_REQUEST", "Bad", `{"message":"Bad","errors":[]}`},
		{400, "application/json", `{"detail":[{"loc":"x"}],"title":7}`, "failed 200", "BAD_REQUEST", "The API answered HTTP 400 Bad Request.", `{"detail":[{"loc":"x"}],"title":7}`},
		{400, "text/plain", "no such thing\n", "failed 200", "BAD_REQUEST", "HTTP 400 Bad Request: no such thing", ""},
		{400, "text/html", "<html>", "failed 200", "BAD_REQUEST", "The API answered HTTP 400 Bad Request.", ""},
		{404, "application/json", `{"error":{"code":"SKILL_NOT_FOUND","message":"gone"}}`, "failed 200", "NOT_FOUND", "gone", `{"error":{"code":"SKILL_NOT_FOUND","message":"gone"}}`},
		{410, "", "", "failed 200", "GONE", "The API answered HTTP 410 Gone.", ""},
		{418, "", "", "failed 200", "IM_A_TEAPOT", "The API answered HTTP 418 I'm a teapot.", ""},
		{500, "application/json", `{"error":{"message":"a\u001b[31m\u202eb"}}`, "failed 200", "INTERNAL_SERVER_ERROR", "a [31mb", `{"error":{"message":"a\u001b[31m\u202eb"}}`},
		{502, "", "", "failed 200", "ENDPOINT_UNREACHABLE", "The API answered HTTP 502 Bad Gateway.", ""},
		{504, "", "", "timeout 200", "INVOCATION_TIMEOUT", "The API answered HTTP 504 Gateway Timeout.", ""},
		{599, "", "", "failed 200", "HTTP_599", "The API answered HTTP 599.", ""},
		{302, "", "", "failed 200", "FOUND", "The API answered HTTP 302 Found, and redirects are not followed here.", ""},
		{304, "", "", "failed 200", "NOT_MODIFIED", "The API answered HTTP 304 Not Modified, and redirects are not followed here.", ""},
		{401, "application/json", `{"message":"who?"}`, " 401", "AUTH_REQUIRED", "who?", `{"message":"who?"}`},
		{403, "", "", " 403", "PERMISSION_DENIED", "The API answered HTTP 403 Forbidden.", ""},
		{408, "", "", " 408", "INVOCATION_TIMEOUT", "The API answered HTTP 408 Request Timeout.", ""},
		{422, "application/json", `{"error":{"code":"x","message":"bad id"}}`, " 422", "VALIDATION_ERROR", "bad id", `{"error":{"code":"x","message":"bad id"}}`},
		{429, "", "", " 429", "RATE_LIMITED", "The API answered HTTP 429 Too Many Requests.", ""},
		{503, "", "", " 503", "ENDPOINT_UNREACHABLE", "The API answered HTTP 503 Service Unavailable.", ""},
	} {
		r := result(c.status, c.contentType, c.body)
		if got := fmt.Sprint(r.Status, " ", r.HTTPStatus); got != c.want || r.Output != nil || r.Error == nil {
			t.Errorf("%d %s: %s %+v", c.status, c.body, got, r.Error)
		} else if r.Error.Code != c.code || r.Error.Message != c.message || string(r.Error.Details) != c.details {
			t.Errorf("%d %s: %q %q %s", c.status, c.body, r.Error.Code, r.Error.Message, r.Error.Details)
		}
	}
	long := result(400, "application/json", `{"message":"`+strings.Repeat("é", 100_000)+`"}`)
	if n := len([]rune(long.Error.Message)); n != 1000 || len(long.Error.Details) > 200 {
		t.Error(n, len(long.Error.Details))
	}
}

// JSON that the document promises is JSON, whatever the server calls it.
func TestPromisedJSON(t *testing.T) {
	for _, c := range []struct{ accept, contentType, body, want string }{
		{"application/json", "application/octet-stream", `{"a":1.0}`, `{"a":1.0}`},
		{"application/json", "text/html", `{"a":1.0}`, `{"a":1.0}`},
		{"application/json", "text/html; charset=latin1", "<p>\xe9", `"<p>é"`},
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
		if string(r.Error.Details) != want || len(r.Header) != 1 || !slices.Equal(r.Header["Www-Authenticate"], []string{"Bearer", "Basic"}) {
			t.Errorf("%+v: %s %v", demand, r.Error.Details, r.Header)
		}
	}
	challenge := http.Header{"Www-Authenticate": {`Bearer realm="a", error="insufficient_scope", scope="read:a  write"`}}
	if r := new(publish.Operation).Result(403, challenge, nil); string(r.Error.Details) != `{"required_scopes":["read:a","write"]}` {
		t.Errorf("%s", r.Error.Details)
	}
	if r := new(publish.Operation).Result(503, http.Header{"Retry-After": {"7"}}, nil); r.RetryAfter != 7*time.Second {
		t.Error(r.RetryAfter)
	}
}

func TestLargeAnswers(t *testing.T) {
	if r := result(200, "text/plain", strings.Repeat("a", publish.MaxAnswer+1)); r.Status != "failed" || r.Error.Code != "TOO_LARGE" || r.Output != nil {
		t.Error(r.Status, r.Error)
	}
	if r := result(200, "text/plain", strings.Repeat("a", publish.MaxAnswer)); r.Status != "completed" {
		t.Error(r.Status, r.Error)
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
		case r.Status == "completed":
			if !r.Output.IsValid() || r.Error != nil {
				t.Fatalf("%q %v", r.Output, r.Error)
			}
		case r.Error == nil || r.Error.Code == "" || r.Error.Message == "" || strings.ContainsFunc(r.Error.Message, unicode.IsControl):
			t.Fatalf("%+v", r.Error)
		case r.Error.Details != nil && !r.Error.Details.IsValid():
			t.Fatalf("%q", r.Error.Details)
		}
	})
}
