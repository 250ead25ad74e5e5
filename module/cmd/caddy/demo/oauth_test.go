package demo_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

func TestTokenEndpointWorksWithALibrary(t *testing.T) {
	s := start(t)
	for name, style := range map[string]oauth2.AuthStyle{"basic": oauth2.AuthStyleInHeader, "post": oauth2.AuthStyleInParams} {
		t.Run(name, func(t *testing.T) {
			config := clientcredentials.Config{
				ClientID: clientID, ClientSecret: clientSecret, TokenURL: s.origin + "/token",
				Scopes: []string{"diff:run"}, AuthStyle: style,
			}
			token, err := config.Token(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := s.call("diff", `{"old": "", "new": ""}`, "Authorization", token.Type()+" "+token.AccessToken); got.status != http.StatusOK {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

var client = "&client_id=" + url.QueryEscape(clientID) + "&client_secret=" + url.QueryEscape(clientSecret)

func TestTokenAnswer(t *testing.T) {
	s := start(t)
	for _, extra := range []string{"", "&scope=", "&scope=diff:run", "&audience=https://unknown.example"} {
		got := s.postForm("grant_type=client_credentials" + client + extra)
		token := decode[tokenAnswer](t, got)
		if got.status != http.StatusOK || token.TokenType != "Bearer" || token.ExpiresIn != 600 || token.Scope != "diff:run" || len(token.AccessToken) < 22 {
			t.Errorf("%s: %d %s", extra, got.status, got.body)
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Pragma") != "no-cache" {
			t.Errorf("%s: %v", extra, got.header)
		}
	}
}

func TestTokenErrors(t *testing.T) {
	s := start(t)
	const grant = "grant_type=client_credentials"
	tests := map[string]struct {
		form   string
		header []string
		status int
		code   string
	}{
		"no client":             {grant, nil, 401, "invalid_client"},
		"unknown client":        {grant + "&client_id=x&client_secret=" + url.QueryEscape(clientSecret), nil, 401, "invalid_client"},
		"unknown, no secret":    {grant + "&client_id=x", nil, 401, "invalid_client"},
		"wrong secret":          {grant + "&client_id=test+client&client_secret=x", nil, 401, "invalid_client"},
		"wrong secret in Basic": {grant, []string{"Authorization", basic("test+client:x")}, 401, "invalid_client"},
		"bad escape in Basic":   {grant, []string{"Authorization", basic("test+client:%zz")}, 401, "invalid_client"},
		"Bearer":                {grant, []string{"Authorization", "Bearer x"}, 401, "invalid_client"},
		"no grant":              {client[1:], nil, 400, "invalid_request"},
		"other grant":           {"grant_type=password" + client, nil, 400, "unsupported_grant_type"},
		"unknown scope":         {grant + client + "&scope=diff:run+admin", nil, 400, "invalid_scope"},
		"not a form":            {grant + client + "&a=%zz", nil, 400, "invalid_request"},
		"too large":             {grant + client + "&a=" + strings.Repeat("a", 16<<10), nil, 400, "invalid_request"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := s.postForm(test.form, test.header...)
			body := decode[struct {
				Code        string `json:"error"`
				Description string `json:"error_description"`
			}](t, got)
			if got.status != test.status || body.Code != test.code || body.Description == "" {
				t.Errorf("%d %s, want %d %s", got.status, got.body, test.status, test.code)
			}
			if challenge := got.header.Get("WWW-Authenticate"); strings.HasPrefix(challenge, "Basic ") != (test.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate = %q", challenge)
			}
			if got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("Cache-Control = %q", got.header.Get("Cache-Control"))
			}
		})
	}

	if got := s.do(http.MethodGet, "/token?"+grant+client, ""); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "POST" {
		t.Errorf("GET: %d %v", got.status, got.header)
	}
	if got := s.do(http.MethodPost, "/token?"+client[1:], grant, "Content-Type", "application/x-www-form-urlencoded"); got.status != http.StatusUnauthorized {
		t.Errorf("client in the URL: %d %s", got.status, got.body)
	}
	if got := s.do(http.MethodPost, "/token", `{"grant_type": "client_credentials"}`); got.status != http.StatusBadRequest {
		t.Errorf("JSON: %d %s", got.status, got.body)
	}
	if got := s.do(http.MethodGet, "/authorize?response_type=code", ""); got.status != http.StatusBadRequest || !strings.Contains(string(got.body), "/token") {
		t.Errorf("authorize: %d %s", got.status, got.body)
	}
}

func basic(pair string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)) }
