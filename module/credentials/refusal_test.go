package credentials_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestRefusalsSayWhatToDo(t *testing.T) {
	const (
		client  = " Ask the operator of the bridge to check client_id, client_secret and scopes for this provider."
		style   = " Ask the operator of the bridge to check client_id and client_secret, and try auth_style params, for this provider."
		address = " Ask the operator of the bridge to check token_url for this provider."
	)
	for name, test := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"client":        {401, `{"error":"invalid_client"}`, "The token endpoint refused the bridge's client credentials (invalid_client)." + style},
		"client, later": {200, `{"error":"invalid_client"}`, "The token endpoint refused the bridge's client credentials (invalid_client)." + style},
		"form":          {400, "error=invalid_client&error_description=no", "The token endpoint refused the bridge's client credentials (invalid_client)." + style},
		"unauthorized":  {401, "no", "The token endpoint refused to issue a token to the bridge (HTTP status 401)." + style},
		"scope":         {400, `{"error":"invalid_scope"}`, "The token endpoint refused the scopes that the bridge asks for (invalid_scope). Ask the operator of the bridge to check scopes for this provider."},
		"grant":         {400, `{"error":"invalid_grant"}`, "The token endpoint refused to issue a token to the bridge (invalid_grant)." + client},
		"another":       {400, `{"error":"unauthorized_client"}`, "The token endpoint refused to issue a token to the bridge (unauthorized_client)." + client},
		"no reason":     {403, "no", "The token endpoint refused to issue a token to the bridge (HTTP status 403)." + client},
		"redirect":      {307, "", "The token endpoint answered with a redirect, which is not followed." + address},
		"nonsense":      {200, "hello", "The token endpoint's answer is not a token response." + address},
		"another type":  {200, `{"access_token":"x","token_type":"mac"}`, "The token endpoint issued a token whose type is not Bearer but mac." + address},
		"type, secret":  {200, `{"access_token":"x","token_type":"` + canary + `"}`, "The token endpoint issued a token whose type is not Bearer." + address},
		"type as URI":   {200, `{"access_token":"x","token_type":"https://evil.example/"}`, "The token endpoint issued a token whose type is not Bearer." + address},
		"no valid text": {200, `{"access_token":"ü","token_type":"Bearer"}`, "The token endpoint issued a token that can't be sent in a header." + address},
	} {
		t.Run(name, func(t *testing.T) {
			m := oauth2(t)
			a := authentication(t, oauth2Auth(tokenURL))
			a.Transport = &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) { return response(test.status, test.body), nil }}
			if e := failure(t, m, a); e.Text() != test.want {
				t.Errorf("got  %s\nwant %s", e.Text(), test.want)
			}
		})
	}
}

// A client that authenticates in the body is told to try the header.
func TestRefusalOfAuthStyleParams(t *testing.T) {
	m := oauth2(t, func(m *credentials.OAuth2) { m.AuthStyle = "params" })
	a := authentication(t, oauth2Auth(tokenURL))
	for _, body := range []string{`{"error":"invalid_client"}`, "no"} {
		a.Transport = &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) { return response(401, body), nil }}
		if e := failure(t, m, a); !strings.Contains(e.Text(), "check client_id and client_secret, and try auth_style header, for") {
			t.Errorf("%s: %s", body, e.Text())
		}
		m = oauth2(t, func(m *credentials.OAuth2) { m.AuthStyle = "params" })
	}
}

func TestARefusedRefreshToken(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", "used-up")
	_, database := newDatabase(t)
	m := load(t, database, refreshing)[0].(*credentials.OAuth2)
	defer stop(t)
	a := authentication(t, oauth2Auth(tokenURL))
	a.Transport = rotating()
	const want = "The token endpoint refused the bridge's refresh token (invalid_grant). Ask the operator of the bridge to configure a new refresh_token for this provider."
	if e := failure(t, m, a); e.Text() != want {
		t.Errorf("got %s", e.Text())
	}
}

// TestRefusalsDescribeWhatIsMissing: calls share a refusal, but each gets the URL and the scopes of
// its own descriptor.
func TestRefusalsDescribeWhatIsMissing(t *testing.T) {
	const known = `"reason":"invalid_client","required_auth_type":"oauth2","required_by":"provider",`
	for name, test := range map[string]struct {
		auth   *document.Auth
		want   string
		quotes bool
	}{
		"descriptor": {
			oauth2Auth("https://elsewhere.example.com/token"),
			`{"authorization_url":"https://id.example.com/authorize",` + known + `"scopes":{"all":"everything"},"token_url":"https://id.example.com/token"}`,
			true,
		},
		"another descriptor": {
			&document.Auth{Type: document.AuthOAuth2, OAuth2: &document.OAuth2{AuthorizationURL: "https://other.example.com/", Scopes: map[string]string{}}},
			`{"authorization_url":"https://other.example.com/",` + known + `"scopes":{},"token_url":"https://id.example.com/token"}`,
			true,
		},
		"no descriptor": {
			nil,
			`{` + known + `"token_url":"https://id.example.com/token"}`,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := oauth2(t, func(m *credentials.OAuth2) { m.Scopes = []string{"all"} }) // otherwise their tokens differ
			e := &tokenEndpoint{answer: func(n int, r *http.Request) (*reply, error) {
				if n == 1 {
					return issue(time.Hour)(n, r)
				}
				return response(401, `{"error":"invalid_client"}`), nil
			}}
			first := bearerOf(t, m, e)
			a := rejected(t, e, first)
			a.Auth = test.auth
			_, err := m.Renew(t.Context(), a)
			renewing, ok := errors.AsType[*run.Failure](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			// A call with another descriptor is between the two.
			failure(t, m, withTransport(authentication(t, oauth2Auth("https://third.example.com/")), e))
			for _, got := range []*run.Failure{renewing, failure(t, m, withTransport(authentication(t, test.auth), e))} {
				if string(front.Details(got)) != test.want || got.HasProviderText() != test.quotes {
					t.Errorf("got  %s, the provider's %t\nwant %s", front.Details(got), got.HasProviderText(), test.want)
				}
			}
			if e.count() != 2 {
				t.Errorf("%d token requests", e.count())
			}
		})
	}
}

func withTransport(a *credential.Authentication, e *tokenEndpoint) *credential.Authentication {
	a.Transport = e
	return a
}
