package credentials_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
)

// TestTokenAnswers: no optional member of a token answer, and no Content-Type, decides over the whole answer.
func TestTokenAnswers(t *testing.T) {
	const unknown = 0
	for body, lifetime := range map[string]time.Duration{
		`{"access_token":"t","expires_in":3599.87}`:                                      3599 * time.Second,
		`{"access_token":"t","expires_in":3.6e3}`:                                        3600 * time.Second,
		`{"access_token":"t","expires_in":"3600"}`:                                       3600 * time.Second,
		`{"access_token":"t","expires_in":" 3600.5 "}`:                                   3600 * time.Second,
		`{"access_token":"t","expires_in":1e999}`:                                        time.Duration(1<<31-1) * time.Second,
		`{"access_token":"t","expires_in":99999999999999999999999}`:                      time.Duration(1<<31-1) * time.Second,
		`{"access_token":"t","expires_in":""}`:                                           unknown,
		`{"access_token":"t","expires_in":null}`:                                         unknown,
		`{"access_token":"t","expires_in":"soon"}`:                                       unknown,
		`{"access_token":"t","expires_in":-1}`:                                           unknown,
		`{"access_token":"t","expires_in":0}`:                                            unknown,
		`{"access_token":"t","expires_in":"\""}`:                                         unknown,
		`{"access_token":"t","expires_in":[3600]}`:                                       unknown,
		`{"access_token":"t","expires_in":{"seconds":1}}`:                                unknown,
		`{"access_token":"t","expires_in":true}`:                                         unknown,
		`{"access_token":"t","token_type":null,"expires_in":60}`:                         60 * time.Second,
		`{"access_token":"t","token_type":"","scope":[1],"refresh_token":7}`:             unknown,
		`{"access_token":"t","token_type":["Bearer"],"id_token":{},"expires_in":60}`:     60 * time.Second,
		`{"access_token":"t","token_type":"bearer ","error":null,"expires_in":60}`:       60 * time.Second,
		`{"access_token":"t","error":"","expires_in":60}`:                                60 * time.Second,
		`{"access_token":"t","expires_in":60,"expires_in":90}`:                           90 * time.Second,
		"\ufeff" + `{"access_token":"t","expires_in":60}`:                                60 * time.Second,
		"\r\n \t" + `{"access_token":"t","expires_in":60}` + "\n":                        60 * time.Second,
		"{\"access_token\":\"t\",\"expires_in\":60,\"scope\":\"caf\xe9\"}":               60 * time.Second,
		`access_token=t&token_type=bearer&expires_in=60`:                                 60 * time.Second,
		`access_token=t&expires_in=%22&scope=%zz`:                                        unknown,
		"access_token=t&scope=a+b&expires_in=3599.87\n":                                  3599 * time.Second,
		`{"Access_Token":"t","Expires_In":60}`:                                           60 * time.Second,
		`{"access_token":"t","expires_in":60,"refresh_token":null,"unknown":{"a":[{}]}}`: 60 * time.Second,
	} {
		for _, media := range []string{"application/json", "text/plain", "text/html; charset=utf-8", "application/x-www-form-urlencoded", "", "nonsense;;"} {
			synctest.Test(t, func(t *testing.T) {
				m := oauth2(t)
				e := &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
					return &reply{200, http.Header{"Content-Type": {media}}, strings.NewReader(body)}, nil
				}}
				if got := bearerOf(t, m, e); got != "t" {
					t.Fatalf("%s as %q: token %q", body, media, got)
				}
				want := 2
				if lifetime == unknown {
					want = 1
				}
				time.Sleep(lifetime / 10 * 8)
				if bearerOf(t, m, e); e.count() != 1 {
					t.Errorf("%s as %q: the token is fetched again before it ends", body, media)
				}
				time.Sleep(lifetime/10*2 + 10*time.Second)
				if bearerOf(t, m, e); e.count() != want {
					t.Errorf("%s as %q: %d token requests after its end, want %d", body, media, e.count(), want)
				}
			})
		}
	}
}

// TestNoTokenAnswers: what has no token is no token answer, however it is served.
func TestNoTokenAnswers(t *testing.T) {
	for _, body := range []string{
		"", "{}", "null", "[]", `"t"`, "<html>access_token=t</html>", `<a href="?x=1&access_token=t">`, "hello access_token=t", `{"access_token":null}`, `{"access_token":["t"]}`,
		`{"access_token":"t"`, `{"access_token":"t"}x`, "access_token=", "access_token=%zz", "expires_in=3", "\xff\xfe{\x00}\x00", `{"token":"t"}`,
	} {
		for _, media := range []string{"application/json", "text/plain", "text/html", "application/x-www-form-urlencoded"} {
			m := oauth2(t)
			a := authentication(t, oauth2Auth(tokenURL))
			a.Transport = &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
				return &reply{200, http.Header{"Content-Type": {media}}, strings.NewReader(body)}, nil
			}}
			if e := failure(t, m, a); e.Demand == nil || e.Demand.Reason != "invalid_response" {
				t.Errorf("%q as %s: %v", body, media, e)
			}
		}
	}
}

// TestTokenRequests: the request is that of RFC 6749, in both ways of authentication.
func TestTokenRequests(t *testing.T) {
	for _, style := range []string{"", "header", "params"} {
		t.Run(style, func(t *testing.T) {
			m := oauth2(t, func(m *credentials.OAuth2) {
				m.AuthStyle, m.Scopes, m.ClientID, m.ClientSecret = style, []string{"a", "b"}, "an id", "a secret:+%"
				m.Params = map[string][]string{"audience": {"x", "y"}}
			})
			e := &tokenEndpoint{answer: issue(time.Hour)}
			bearerOf(t, m, e)
			want := "map[audience:[x y] grant_type:[client_credentials] scope:[a b]]"
			id, secret, basic := e.requests[0].BasicAuth()
			if style == "params" {
				want = "map[audience:[x y] client_id:[an id] client_secret:[a secret:+%] grant_type:[client_credentials] scope:[a b]]"
			}
			if got := fmt.Sprint(e.forms[0]); got != want || basic != (style != "params") || basic && (id != "an+id" || secret != "a+secret%3A%2B%25") {
				t.Errorf("%s: %s, %q %q", style, got, id, secret)
			}
		})
	}
}
