package tokens

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// secretsOf are credentials that only have secrets.
type secretsOf []string

func (secretsOf) Supports(*document.Auth) bool                                   { return false }
func (secretsOf) Authenticate(context.Context, *credential.Authentication) error { return nil }
func (s secretsOf) Secrets() []string                                            { return s }

// saying is a token endpoint that always sends the same answer.
type saying struct {
	status      int
	contentType string
	body        string
}

func (s saying) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: s.status, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {s.contentType}, "Location": {"https://evil.example/"}},
		Body:   io.NopCloser(strings.NewReader(s.body)),
	}, nil
}

// FuzzTokenAnswer: any answer of a token endpoint gives a token that can be sent in a header, or an
// error that contains no secret, and of the answer only an error code.
func FuzzTokenAnswer(f *testing.F) {
	const id, secret, refresh = "the-client", "s3cret/+~ value", "r3fresh_value"
	for _, body := range []string{
		``, `null`, `{}`, `[]`, `<html>`, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`, `{"access_token":"t","token_type":"mac"}`, `{"access_token":"ü"}`, `{"access_token":"a b"}`, `{"access_token":"t\r\nX: y"}`,
		`{"access_token":"t","expires_in":"60","refresh_token":"next","scope":"x"}`, `{"access_token":"t","expires_in":1e999}`, `{"access_token":"t","expires_in":-9223372036854775808}`, `{"access_token":"t","expires_in":9223372036854775807}`,
		`{"access_token":["t"]}`, `{"access_token":"` + strings.Repeat("t", 33<<10) + `"}`, `{"error":"invalid_client","error_description":"` + secret + `"}`, `{"error":"` + refresh + `","error_uri":"https://evil.example/"}`,
		`{"error":"ask evil.example"}`, `{"error":"` + secret + `"}`, `{"access_token":"t"}x`, `{"access_token":"t","access_token":"u"}`, `access_token=t&token_type=bearer&expires_in=60`, `error=invalid_grant&error_description=x`, `access_token=%zz`, `expires_in=x&access_token=t`, "\xff",
	} {
		for _, status := range []int{200, 302, 400, 401, 429, 503} {
			f.Add(status, "application/json", []byte(body), status == 400)
			f.Add(status, "application/x-www-form-urlencoded", []byte(body), true)
		}
		f.Add(200, "text/plain; charset", []byte(body), false)
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte, withRefresh bool) {
		c := &Client{ID: id, Secret: secret, Params: url.Values{}}
		grant := ClientCredentials()
		if withRefresh {
			c.RefreshToken, grant = refresh, Refreshing(refresh)
		}
		r := Request{
			Client: c, Endpoint: "https://id.example.com/token?tenant=1", Transport: saying{200 + (status%400+400)%400, contentType, string(body)},
			Limit: 64 << 10, Credentials: secretsOf(c.Secrets()),
		}
		granted, e := r.Do(context.Background(), grant)
		if (granted.Access.Value == "") == (e == nil) {
			t.Fatalf("token %q and error %v", granted.Access.Value, e)
		}
		if e != nil {
			checkTokenError(t, e, c.Secrets(), string(body))
			return
		}
		if len(granted.Access.Value) > maxAccessToken || strings.ContainsFunc(granted.Access.Value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("token %q", granted.Access.Value)
		}
		if granted.Access.Expires.IsZero() {
			return
		}
		if life := granted.Access.Expires.Sub(granted.Access.Obtained); life < -time.Minute {
			t.Errorf("the token has ended %v before it was obtained", -life)
		}
	})
}

func checkTokenError(t *testing.T, e *run.Failure, secrets []string, body string) {
	t.Helper()
	if !slices.Contains([]run.Kind{run.AuthRequired, run.Unreachable}, e.Kind) || e.Executed != run.ExecutedNo || e.Message == "" ||
		len(e.Message) > 1000 || !front.Details(e).IsValid() || front.Retry(e) != nil && !front.Retry(e).IsValid() {
		t.Errorf("error %+v", e)
	}
	told := e.Message + string(front.Details(e)) + string(front.Retry(e))
	for _, text := range append(secrets, "tenant=1", "evil.example") {
		if strings.Contains(told, text) {
			t.Errorf("%q is told: %s", text, told)
		}
	}
	if e.Cause != nil && slices.ContainsFunc(secrets, func(secret string) bool { return strings.Contains(e.Cause.Error(), secret) }) {
		t.Errorf("a secret is logged: %v", e.Cause)
	}
	if len(body) > 80 && strings.Contains(told, body) {
		t.Errorf("the answer is told: %s", told)
	}
}
