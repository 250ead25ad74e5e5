package command_test

import (
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// authorizationServer starts an OpenID provider of another project, with the storage of that project's example: its service user is sid1
// with the secret verysecret. subject returns the user of a token, empty if the server did not issue it.
func authorizationServer(t *testing.T) (url string, subject func(token string) string) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	url = "http://" + s.Listener.Addr().String()
	provider, err := op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test"))}, storage.NewStorageWithClients(storage.NewUserStore(url), nil),
		op.StaticIssuer(url), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = provider
	s.Start()
	t.Cleanup(s.Close)
	return url, func(token string) string {
		plain, _ := provider.Crypto().Decrypt(token)
		_, user, _ := strings.Cut(plain, ":")
		return user
	}
}

// TestRunWithOAuth: validate --run gets a token from an authorization server, and holds the provider to refusing another one.
func TestRunWithOAuth(t *testing.T) {
	server, subject := authorizationServer(t)
	endpoint := server + "/oauth/token"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/locked", Auth: hostile.OAuth2(endpoint)})
	locked := func(action hostile.Action) hostile.Action {
		return func(x *hostile.Exchange) {
			if subject(strings.TrimPrefix(x.Request.Header.Get("Authorization"), "Bearer ")) != "sid1" {
				hostile.Problem(http.StatusUnauthorized, "AUTH_REQUIRED", "A token is needed.")(x)
				return
			}
			action(x)
		}
	}
	p.On("acme/locked", hostile.Invoke, locked(hostile.AcceptForResult(1)))
	p.On("acme/locked", hostile.Status, locked(hostile.Usual()))
	t.Setenv("SECRET", "verysecret")
	t.Setenv("WRONG", "another-secret")
	client := []string{"--oauth-client-id", "sid1", "--oauth-scopes", "openid", "--oauth-secret-env"}
	status, failed, output := try(t, p, "acme/locked", append(client, "SECRET", "--oauth-token-url", endpoint)...)
	if status != 0 || failed != nil || strings.Contains(output, "skipped") || strings.Contains(output, "verysecret") {
		t.Errorf("%d: %s", status, output)
	}
	status, failed, output = try(t, p, "acme/locked", append(client, "SECRET", "--oauth-token-url", endpoint, "--oauth-auth-style", "params")...)
	if status != 0 || failed != nil {
		t.Errorf("with the secret in the body: %d: %s", status, output)
	}
	for want, flags := range map[string][]string{
		"--oauth-client-id ID --oauth-secret-env NAME":           nil,
		"Next:  to allow this port, add --allow-ports ":          append(client, "SECRET"),
		"check the client's id":                                  append(client, "WRONG", "--oauth-token-url", endpoint),
		"not the secret itself":                                  append(client, "very-secret"),
		"the environment variable NOT_SET is empty or not set":   append(client, "NOT_SET"),
		"--oauth-client-id needs --oauth-secret-env":             client[:2],
		"--oauth-scopes need --oauth-client-id":                  {"--oauth-token-url", endpoint},
		"or try --oauth-auth-style params":                       append(client, "WRONG", "--oauth-token-url", endpoint, "--oauth-auth-style", "params"),
		"auth_style: must be header or params":                   append(client, "SECRET", "--oauth-token-url", endpoint, "--oauth-auth-style", "body"),
		"--oauth-auth-style and --oauth-scopes need":             {"--oauth-auth-style", "params"},
		"--api-key-env and --oauth-client-id exclude each other": append(client, "SECRET", "--api-key-env", "KEY"),
		"reading documents needs --oauth-token-url":              append(client, "SECRET", "--private"),
		"--private and --trust need --api-key-env":               {"--private"},
		"--api-key-header needs --api-key-env":                   {"--api-key-header", "X-Key"},
		"--api-key-prefix needs --api-key-env":                   {"--api-key-prefix", "Bearer "},
		"token_url: must be a valid https:// or http:// address": append(client, "SECRET", "--oauth-token-url", "login"),
	} {
		status, _, output := try(t, p, "acme/locked", flags...)
		if status == 0 || !strings.Contains(output, want) || strings.Contains(output, "another-secret") {
			t.Errorf("%s: %d: %s", want, status, output)
		}
	}
	if n := p.Count("acme/locked", hostile.Invoke); n != 4 { // twice with the token, and with a wrong one
		t.Errorf("%d requests to invoke the skill", n)
	}
}
