package credentials

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
)

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
		c := &client{id: id, secret: secret, params: url.Values{}}
		grant := clientCredentials()
		if withRefresh {
			c.refreshToken, grant = refresh, refreshing(refresh)
		}
		r := tokenRequest{
			client: c, endpoint: "https://id.example.com/token?tenant=1", transport: saying{200 + (status%400+400)%400, contentType, string(body)},
			limit: 64 << 10, credentials: &OAuth2{client: &rereadable[*client]{made: seal(made[*client]{value: c}), all: seal(c.secrets())}, stores: new(tokenStores)},
		}
		granted, e := r.do(context.Background(), grant)
		if (granted.access.value == "") == (e == nil) {
			t.Fatalf("token %q and error %v", granted.access.value, e)
		}
		if e != nil {
			checkTokenError(t, e, c.secrets(), string(body))
			return
		}
		if len(granted.access.value) > maxAccessToken || strings.ContainsFunc(granted.access.value, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("token %q", granted.access.value)
		}
		if granted.access.expires.IsZero() {
			return
		}
		if life := granted.access.expires.Sub(granted.access.obtained); life < -time.Minute {
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
