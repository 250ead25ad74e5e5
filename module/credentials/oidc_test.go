package credentials_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
)

// authorizationServer is an OpenID provider of another project, with the storage of that project's
// example. Its service user is sid1 with the secret verysecret.
type authorizationServer struct {
	*httptest.Server
	storage  *storage.Storage
	provider op.OpenIDProvider
	requests atomic.Int32 // for tokens
	refused  atomic.Int32
}

const serverPath = "/oauth/token"

func newProvider(t *testing.T, issuer string, s op.Storage) op.OpenIDProvider {
	t.Helper()
	provider, err := op.NewProvider(
		&op.Config{CryptoKey: sha256.Sum256([]byte("test")), AuthMethodPost: true, GrantTypeRefreshToken: true},
		s, op.StaticIssuer(issuer), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

func newAuthorizationServer(t *testing.T) *authorizationServer {
	t.Helper()
	s := new(authorizationServer)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == serverPath {
			s.requests.Add(1)
		}
		recorder := statusRecorder{ResponseWriter: w}
		s.provider.ServeHTTP(&recorder, r)
		if recorder.status >= 400 {
			s.refused.Add(1)
		}
	}))
	t.Cleanup(s.Close)
	s.storage = storage.NewStorageWithClients(storage.NewUserStore(s.URL), map[string]*storage.Client{
		"web": storage.WebClient("web", canary),
	})
	s.provider = newProvider(t, s.URL, s.storage)
	return s
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// authentication returns a request to a provider that uses this server.
func (s *authorizationServer) authentication(t *testing.T) *credential.Authentication {
	t.Helper()
	a := authentication(t, oauth2Auth(s.URL+serverPath))
	transport := s.Client().Transport
	a.Transport, a.Origin = transport, s.URL
	return a
}

// subject returns the subject of the token that the server issued.
func subject(t *testing.T, provider op.OpenIDProvider, a *credential.Authentication) string {
	t.Helper()
	token := strings.TrimPrefix(a.Request.Header.Get("Authorization"), "Bearer ")
	plain, err := provider.Crypto().Decrypt(token)
	if err != nil {
		t.Fatalf("%s is no token of the server's: %v", token, err)
	}
	_, subject, _ := strings.Cut(plain, ":")
	return subject
}

func TestAuthorizationServer(t *testing.T) {
	for _, style := range []string{"header", "params"} {
		t.Run(style, func(t *testing.T) {
			s := newAuthorizationServer(t)
			t.Setenv("BRIDGE_SECRET", "verysecret")
			m := provisioned(t, credentials.OAuth2{ClientID: "sid1", ClientSecret: "{env.BRIDGE_SECRET}", AuthStyle: style, Scopes: []string{"openid"}})
			first := s.authentication(t)
			for range 3 {
				if err := m.Authenticate(t.Context(), first); err != nil {
					t.Fatal(err)
				}
				if got := subject(t, s.provider, first); got != "sid1" {
					t.Errorf("the token is for %s", got)
				}
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("%d token requests", n)
			}
			if ok, err := m.Renew(t.Context(), first); !ok || err != nil {
				t.Fatalf("got %v, %v", ok, err)
			}
			second := s.authentication(t)
			if err := m.Authenticate(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if subject(t, s.provider, second) != "sid1" || second.Request.Header.Get("Authorization") == first.Request.Header.Get("Authorization") {
				t.Errorf("the token was not renewed")
			}
			if n := s.requests.Load(); n != 2 {
				t.Errorf("%d token requests", n)
			}
		})
	}
}

func TestAuthorizationServerRefuses(t *testing.T) {
	s := newAuthorizationServer(t)
	t.Setenv("BRIDGE_SECRET", canary)
	m := provisioned(t, credentials.OAuth2{ClientID: "sid1", ClientSecret: "{env.BRIDGE_SECRET}"})
	for range 3 {
		e := failure(t, m, s.authentication(t))
		if e.Kind != run.AuthRequired || e.HTTPStatus < 400 || e.HTTPStatus > 499 || details(t, e)["reason"] != "invalid_client" {
			t.Errorf("got %+v %s", e, front.Details(e))
		}
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d token requests", n)
	}
}

func TestAuthorizationServerIsDown(t *testing.T) {
	s := newAuthorizationServer(t)
	t.Setenv("BRIDGE_SECRET", canary)
	m := provisioned(t, credentials.OAuth2{ClientID: "sid1", ClientSecret: "{env.BRIDGE_SECRET}"})
	a := s.authentication(t)
	s.Close()
	if e := failure(t, m, a); e.Kind != run.Unreachable || details(t, e)["reason"] != "connection_failed" {
		t.Errorf("got %+v", e)
	}
}

// TestAuthorizationServerExpiresTokens runs the server and the module in one synctest bubble.
func TestAuthorizationServerExpiresTokens(t *testing.T) {
	t.Setenv("BRIDGE_SECRET", "verysecret")
	m := provisioned(t, credentials.OAuth2{ClientID: "sid1", ClientSecret: "{env.BRIDGE_SECRET}", TokenURL: "https://id.example.com" + serverPath})
	synctest.Test(t, func(t *testing.T) {
		provider := newProvider(t, "https://id.example.com", storage.NewStorage(storage.NewUserStore("https://id.example.com")))
		requests := 0
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			requests++
			w := httptest.NewRecorder()
			provider.ServeHTTP(w, r)
			return w.Result(), nil
		})
		for i, step := range []struct {
			wait     time.Duration
			requests int
		}{
			{0, 1},
			{4*time.Minute + 29*time.Second, 1}, // the server's tokens live for five minutes
			{2 * time.Second, 2},
			{6 * time.Minute, 3},
		} {
			time.Sleep(step.wait)
			a := authentication(t, nil)
			a.Transport = transport
			if err := m.Authenticate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if subject(t, provider, a) != "sid1" || requests != step.requests {
				t.Errorf("step %d: %d token requests", i, requests)
			}
		}
	})
}

// refreshToken makes the server issue a refresh token, as after a user's consent.
func (s *authorizationServer) refreshToken(t *testing.T) string {
	t.Helper()
	request, err := s.storage.CreateAuthRequest(t.Context(), &oidc.AuthRequest{
		ClientID: "web", Scopes: []string{"openid", "offline_access"}, ResponseType: oidc.ResponseTypeCode,
	}, "id1")
	if err != nil {
		t.Fatal(err)
	}
	_, token, _, err := s.storage.CreateAccessAndRefreshTokens(context.Background(), request, "")
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestAuthorizationServerRotatesRefreshTokens(t *testing.T) {
	s := newAuthorizationServer(t)
	configured := s.refreshToken(t)
	t.Setenv("BRIDGE_SECRET", canary)
	t.Setenv("BRIDGE_REFRESH", configured)
	_, database := newDatabase(t)
	const module = `{"type":"oauth2","client_id":"web","client_secret":"{env.BRIDGE_SECRET}","refresh_token":"{env.BRIDGE_REFRESH}"}`

	current := ""
	for range 2 { // the second time after a restart
		m := load(t, database, module)[0].(*credentials.OAuth2)
		for range 2 {
			a := s.authentication(t)
			if current != "" {
				a.Request.Header.Set("Authorization", current)
				if ok, err := m.Renew(t.Context(), a); !ok || err != nil {
					t.Fatalf("got %v, %v", ok, err)
				}
			}
			if err := m.Authenticate(t.Context(), a); err != nil {
				t.Fatal(err)
			}
			if subject(t, s.provider, a) != "id1" || a.Request.Header.Get("Authorization") == current {
				t.Error("the token was not renewed")
			}
			current = a.Request.Header.Get("Authorization")
		}
		if !knows(m, configured) || !knows(m, strings.TrimPrefix(current, "Bearer ")) {
			t.Error("a token is no secret")
		}
		stop(t)
	}
	if s.refused.Load() != 0 {
		t.Errorf("%d requests were refused", s.refused.Load())
	}

	// The first token was replaced: without the stored one, the request is refused.
	_, empty := newDatabase(t)
	m := load(t, empty, module)[0].(*credentials.OAuth2)
	defer stop(t)
	err := m.Authenticate(t.Context(), s.authentication(t))
	if e, ok := errors.AsType[*run.Failure](err); !ok || e.Kind != run.AuthRequired {
		t.Errorf("got %v", err)
	}
}
