package credentials_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/skill-bridge/caddy-skill-bridge/module/credentials"
	"github.com/skill-bridge/caddy-skill-bridge/module/credentials/tokens"
	"github.com/skill-bridge/caddy-skill-bridge/module/store"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/postgrestest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/runtoken"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

const (
	connectURL = "https://agents.example.com/connect"
	redirect   = connectURL + "/acme/callback"
)

// endings are the ends of grants that a bridge reports.
type endings struct {
	mu  sync.Mutex
	all []string
}

func (e *endings) add(owner, _, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, owner+" "+reason)
}

func (e *endings) take() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := strings.Join(e.all, ", ")
	e.all = nil
	return text
}

// quiet logs no warning.
func quiet(string, error, ...zap.Field) {}

// ofUsers returns credentials of the source acme, and the ends of their grants.
func ofUsers(t *testing.T, things tokens.Things, change ...func(*credentials.OAuth2User)) (*credentials.OAuth2User, *endings) {
	t.Helper()
	t.Setenv("BRIDGE_SECRET", canary)
	m := credentials.OAuth2User{ClientID: "web", ClientSecret: "{env.BRIDGE_SECRET}", Params: map[string][]string{"test": {t.Name()}}}
	for _, f := range change {
		f(&m)
	}
	o, ended := provisioned(t, m), new(endings)
	o.Connect(credentials.Connection{Namespace: "acme", Realm: "bridge", URL: connectURL, Keeping: tokens.Keeping{Things: things, Sealer: sealer}, Ended: ended.add, Warn: quiet, Refreshed: func(*run.Failure) {}})
	return o, ended
}

// accountsOf are the grants of a bridge with the source acme.
func accountsOf(things tokens.Things, ended *endings, transport http.RoundTripper, o *credentials.OAuth2User) *credentials.Accounts {
	return &credentials.Accounts{
		Connection: credentials.Connection{Realm: "bridge", URL: connectURL, Keeping: tokens.Keeping{Things: things, Sealer: sealer}, Ended: ended.add, Warn: quiet, Logger: zap.NewNop()},
		Sources:    []catalog.Source{{Namespace: "acme", Credentials: o, Transport: transport}}, Transport: transport,
	}
}

// own is a request of a principal.
func own(t *testing.T, owner string, transport http.RoundTripper, scopes ...string) *credential.Authentication {
	t.Helper()
	auth := oauth2Auth(tokenURL)
	auth.OAuth2.Scopes = map[string]string{}
	for _, scope := range scopes {
		auth.OAuth2.Scopes[scope] = "text of " + scope
	}
	a := authentication(t, auth)
	a.Owner, a.Transport = owner, transport
	return a
}

// connect makes a principal consent: the server gives the code "code".
func connect(t *testing.T, o *credentials.OAuth2User, a *credential.Authentication, scopes ...string) {
	t.Helper()
	_, f, err := o.Begin(t.Context(), a, redirect, scopes)
	if err == nil {
		err = o.Finish(t.Context(), a, f, "code")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tokenOf returns the token of a request, and its failure.
func tokenOf(t *testing.T, o *credentials.OAuth2User, a *credential.Authentication) (string, *run.Failure) {
	t.Helper()
	a.Request.Header.Del("Authorization")
	err := o.Authenticate(t.Context(), a)
	if err == nil {
		return strings.TrimPrefix(a.Request.Header.Get("Authorization"), "Bearer "), nil
	}
	e, ok := errors.AsType[*run.Failure](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	return "", e
}

// asksToConnect checks the failure of a call whose user has to connect an account for these scopes.
func asksToConnect(t *testing.T, e *run.Failure, scopes string) {
	t.Helper()
	if e == nil || e.Kind != run.AuthRequired || e.By != run.Bridge || e.Executed != run.ExecutedNo || e.Next() != run.NextConnect || e.Demand.By != run.Provider {
		t.Fatalf("got %+v", e)
	}
	if want := connectURL + "/acme?scopes=" + scopes; e.Demand.ConnectURL != want || !strings.Contains(e.Text(), want) {
		t.Errorf("the link is %s, want %s", e.Demand.ConnectURL, want)
	}
}

// rotatingUsers is a token endpoint that issues tokens with new refresh tokens for each code and each newest refresh token.
type rotatingUsers struct {
	tokenEndpoint

	lifetime time.Duration
	valid    map[string]bool // refresh tokens
}

func newRotatingUsers(lifetime time.Duration) *rotatingUsers {
	e := &rotatingUsers{lifetime: lifetime, valid: map[string]bool{}}
	e.answer = func(n int, _ *http.Request) (*reply, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		form := e.forms[n-1]
		if form.Get("grant_type") == "refresh_token" && !e.valid[form.Get("refresh_token")] {
			return response(http.StatusBadRequest, `{"error":"invalid_grant"}`), nil
		}
		delete(e.valid, form.Get("refresh_token"))
		refresh := fmt.Sprintf("refresh-of-user-%d", n)
		e.valid[refresh] = true
		return response(http.StatusOK, fmt.Sprintf(`{"access_token":"access-of-user-%d","refresh_token":%q,"expires_in":%d}`, n, refresh, int(e.lifetime.Seconds()))), nil
	}
	return e
}

func (e *rotatingUsers) refreshes() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, form := range e.forms {
		if form.Get("grant_type") == "refresh_token" {
			n++
		}
	}
	return n
}

// userServer is an authorization server of another project: with PKCE, refresh tokens that are replaced, revocation and access tokens that are JWTs.
type userServer struct {
	*authorizationServer
	revoked atomic.Int32
}

// anyScope is the storage of that server, with clients that may ask for any scope, and get JWTs.
type anyScope struct{ *storage.Storage }

type anyScopeClient struct{ op.Client }

func (anyScopeClient) IsScopeAllowed(string) bool          { return true }
func (anyScopeClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }
func (s anyScope) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := s.Storage.GetClientByClientID(ctx, id)
	return anyScopeClient{c}, err
}

func newUserServer(t *testing.T) *userServer {
	t.Helper()
	s := &userServer{authorizationServer: newAuthorizationServer(t)}
	s.storage = storage.NewStorageWithClients(storage.NewUserStore(s.URL), map[string]*storage.Client{"web": storage.WebClient("web", canary, redirect)})
	var err error
	if s.provider, err = op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), AuthMethodPost: true, GrantTypeRefreshToken: true, CodeMethodS256: true},
		anyScope{s.storage}, op.StaticIssuer(s.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		t.Fatal(err)
	}
	handler := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/revoke" {
			s.revoked.Add(1)
		}
		handler.ServeHTTP(w, r)
	})
	return s
}

// consent is what the browser of a user does at the server. It returns the code.
func (s *userServer) consent(t *testing.T, address, user string) string {
	t.Helper()
	browser := &http.Client{Transport: s.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(address string) *url.URL {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		to, err := resp.Location()
		if err != nil {
			t.Fatalf("%s: %s", address, resp.Status)
		}
		return to
	}
	id := get(address).Query().Get("authRequestID")
	if err := s.storage.CheckUsernamePassword(user, "verysecure", id); err != nil {
		t.Fatal(err)
	}
	back := get(s.URL + "/authorize/callback?id=" + id)
	if !strings.HasPrefix(back.String(), redirect+"?") {
		t.Fatalf("the user is led to %s", back)
	}
	return back.Query().Get("code")
}

// databasesOf are what the tests of grants run with.
func databasesOf(t *testing.T) map[string]store.Settings {
	t.Helper()
	return map[string]store.Settings{
		"sqlite":   {Kind: store.SQLite, File: filepath.Join(t.TempDir(), "s.db")},
		"postgres": {Kind: store.Postgres, DSN: postgrestest.Start(t)},
	}
}

func opened(t *testing.T, settings store.Settings) store.Things {
	t.Helper()
	db := store.New(settings)
	t.Cleanup(db.Close)
	db.Start(zap.NewNop())
	return db.Things()
}

// TestUsersOfAuthorizationServer: two users connect accounts at a real server; their tokens are refreshed, also by another instance and after a restart, and
// revoked. Each database.
func TestUsersOfAuthorizationServer(t *testing.T) {
	for name, settings := range databasesOf(t) {
		t.Run(name, func(t *testing.T) {
			s := newUserServer(t)
			configure := func(o *credentials.OAuth2User) {
				o.AuthorizationURL, o.TokenURL, o.Issuer, o.Scopes = s.URL+"/authorize?lang=de&state=x", s.URL+serverPath, s.URL, []string{"+offline_access"}
			}
			o, ended := ofUsers(t, opened(t, settings), configure)
			of := func(owner string, scopes ...string) *credential.Authentication {
				a := own(t, owner, s.Client().Transport, scopes...)
				a.Origin = s.URL
				return a
			}
			_, e := tokenOf(t, o, of("ann", "openid"))
			asksToConnect(t, e, "offline_access+openid")
			users := map[string]string{"ann": "test-user@127.0.0.1", "bob": "test-user2"}
			for owner, user := range users {
				address, f, err := o.Begin(t.Context(), of(owner, "openid"), redirect, []string{"offline_access", "openid"})
				if err != nil {
					t.Fatal(err)
				}
				if u, _ := url.Parse(address); u.Query().Get("lang") != "de" || u.Query()["state"][0] != f.State || len(u.Query()["state"]) != 1 ||
					u.Query().Get("code_challenge_method") != "S256" {
					t.Errorf("the authorization URL is %s", address)
				}
				code := s.consent(t, address, user)
				if err := o.Finish(t.Context(), of(owner, "openid"), f, code); err != nil {
					t.Fatal(err)
				}
				if err := o.Finish(t.Context(), of(owner, "openid"), f, code); !errors.Is(err, credentials.ErrFinished) {
					t.Errorf("a flow was finished twice: %v", err)
				}
			}
			token := func(o *credentials.OAuth2User, a *credential.Authentication) string {
				t.Helper()
				token, e := tokenOf(t, o, a)
				if e != nil {
					t.Fatalf("got %+v", e)
				}
				claims, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
				want := map[string]string{"ann": `"sub":"id1"`, "bob": `"sub":"id2"`}[a.Owner]
				if err != nil || !strings.Contains(string(claims), want) {
					t.Errorf("the token of %s is %s", a.Owner, claims)
				}
				return token
			}
			first := token(o, of("ann", "openid"))
			token(o, of("bob", "openid"))
			// Another instance, and then one after a restart.
			other, _ := ofUsers(t, opened(t, settings), configure)
			if token(other, of("ann", "openid")) != first {
				t.Error("another instance has got a token of its own")
			}
			a := of("ann", "openid")
			a.Request.Header.Set("Authorization", "Bearer "+first)
			if ok, err := o.Renew(t.Context(), a); !ok || err != nil {
				t.Fatalf("got %t, %v", ok, err)
			}
			second := token(o, of("ann", "openid"))
			a.Request.Header.Set("Authorization", "Bearer "+first)
			before := s.requests.Load()
			if ok, err := other.Renew(t.Context(), a); !ok || err != nil || token(other, of("ann", "openid")) != second || second == first {
				t.Errorf("the other instance: %t, %v", ok, err)
			}
			if n := s.requests.Load(); n != before {
				t.Error("a token that another instance has got was asked for again")
			}
			// More scopes.
			_, e = tokenOf(t, o, of("ann", "openid", "book:reservation"))
			asksToConnect(t, e, "book%3Areservation+offline_access+openid")
			has, err := o.Grant(t.Context(), "ann", of("ann").Auth)
			if err != nil || has == nil {
				t.Fatal(has, err)
			}
			link := o.Asks(t.Context(), []string{"book:reservation"}, []*document.Auth{of("ann", "openid", "book:reservation").Auth}, has)
			address, f, err := o.Begin(t.Context(), of("ann", "openid"), redirect, link)
			if err != nil {
				t.Fatal(err)
			}
			if u, _ := url.Parse(address); u.Query().Get("scope") != "book:reservation offline_access openid" {
				t.Errorf("a flow asks for %s", u.Query().Get("scope"))
			}
			if err := o.Finish(t.Context(), of("ann"), f, s.consent(t, address, users["ann"])); err != nil {
				t.Fatal(err)
			}
			if s.revoked.Load() != 0 {
				t.Error("tokens of the same account are revoked")
			}
			if token(o, of("ann", "openid", "book:reservation")) == second {
				t.Error("the token is that of the replaced consent")
			}
			g, err := o.Grant(t.Context(), "ann")
			if err != nil || !g.Renewable || !slices.Equal(g.Scopes, []string{"book:reservation", "offline_access", "openid"}) || time.Since(g.Consented) > time.Minute {
				t.Errorf("got %+v, %v", g, err)
			}
			address, f, err = o.Begin(t.Context(), of("ann", "openid"), redirect, link)
			if err == nil {
				err = o.Finish(t.Context(), of("ann"), f, s.consent(t, address, users["bob"]))
			}
			if err != nil || s.revoked.Load() != 1 {
				t.Errorf("another account: %v, %d tokens are revoked", err, s.revoked.Load())
			}
			if err := other.Disconnect(t.Context(), of("ann"), "ann"); err != nil {
				t.Fatal(err)
			}
			if s.revoked.Load() != 2 || s.refused.Load() != 0 {
				t.Errorf("%d tokens are revoked, %d requests are refused", s.revoked.Load(), s.refused.Load())
			}
			time.Sleep(1100 * time.Millisecond) // for so long, instances need not see what others do
			_, e = tokenOf(t, o, of("ann", "openid"))
			asksToConnect(t, e, "offline_access+openid")
			token(o, of("bob", "openid"))
			c := accountsOf(opened(t, settings), ended, s.Client().Transport, o)
			if all, err := c.List(t.Context(), "", 10); err != nil || len(all) != 1 || all[0].Owner != "bob" || all[0].Namespace != "acme" {
				t.Errorf("got %+v, %v", all, err)
			}
			if all, err := c.List(t.Context(), "ann", 10); err != nil || len(all) != 0 {
				t.Errorf("got %+v, %v", all, err)
			}
			if err := c.Sweep(t.Context()); err != nil || ended.take() != "" {
				t.Error("a sweep has ended a grant that is used")
			}
			c.Sources = nil
			if err := c.Sweep(t.Context()); err != nil || ended.take() != "bob removed" || s.revoked.Load() != 3 || s.refused.Load() != 0 {
				t.Errorf("the source was removed: %v, %d tokens are revoked", err, s.revoked.Load())
			}
		})
	}
}

// TestS344NewConsentKeepsNewTokens: a new consent does not end its own tokens where a server ends all tokens of a user and a client with one, as Google and
// Keycloak do. Tokens of another account, as ID tokens say, of another client or token endpoint are revoked.
func TestS344NewConsentKeepsNewTokens(t *testing.T) {
	idToken := func(account string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+account+`","aud":["web"]}`)) + ".c2ln"
	}
	for name, test := range map[string]struct {
		first, second string // ID tokens
		change        func(*credentials.OAuth2User)
		revoked       bool
	}{
		"no ID tokens":           {},
		"the same account":       {idToken("7"), idToken("7"), nil, false},
		"one is not known":       {idToken("7"), "", nil, false},
		"not an ID token":        {"x.%%.y", "x", nil, false},
		"another account":        {idToken("7"), idToken("8"), nil, true},
		"another client":         {"", "", func(o *credentials.OAuth2User) { o.ClientID = "other" }, true},
		"another token endpoint": {"", "", func(o *credentials.OAuth2User) { o.TokenURL = "https://login.example.com/token" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			memory, _ := newDatabase(t)
			configure := func(o *credentials.OAuth2User) {
				o.TokenURL, o.RevocationURL = tokenURL, "https://login.example.com/revoke"
			}
			o, _ := ofUsers(t, memory, configure)
			e, ended := new(tokenEndpoint), false
			e.answer = func(n int, _ *http.Request) (*reply, error) {
				e.mu.Lock()
				defer e.mu.Unlock()
				switch form := e.forms[n-1]; {
				case form.Has("token"):
					if form.Get("token") != "refresh-1" {
						t.Errorf("%s is revoked", form.Get("token"))
					}
					ended = true
				case ended && form.Get("grant_type") == "refresh_token":
					return response(http.StatusBadRequest, `{"error":"invalid_grant"}`), nil
				}
				return response(http.StatusOK, fmt.Sprintf(`{"access_token":"access-%d","refresh_token":"refresh-%d","id_token":%q}`, n, n, []string{test.first, test.second, "", ""}[n-1])), nil
			}
			connect(t, o, own(t, "ann", e))
			if test.change != nil {
				o, _ = ofUsers(t, memory, configure, test.change)
			}
			connect(t, o, own(t, "ann", e))
			if ended != test.revoked {
				t.Errorf("the replaced tokens are revoked: %t", ended)
			}
			if token, failure := tokenOf(t, o, own(t, "ann", e)); token != "access-2" {
				t.Errorf("got %q, %+v", token, failure)
			}
		})
	}
}

// TestS345RevokedAsConfigured: a token is revoked with the present secret of the client, and another server gets neither a token nor the secret of the earlier one.
func TestS345RevokedAsConfigured(t *testing.T) {
	const revoke = "https://id.example.com/revoke"
	t.Setenv("BRIDGE_NEW_SECRET", "another-canary")
	for name, test := range map[string]struct {
		first, second func(*credentials.OAuth2User)
		want          string // the request
	}{
		"as before": {func(o *credentials.OAuth2User) { o.RevocationURL = revoke }, nil, revoke + " " + canary},
		"the secret was replaced": {
			func(o *credentials.OAuth2User) { o.RevocationURL = revoke }, func(o *credentials.OAuth2User) { o.ClientSecret = "{env.BRIDGE_NEW_SECRET}" }, revoke + " another-canary",
		},
		"revocation_url came later": {func(*credentials.OAuth2User) {}, func(o *credentials.OAuth2User) { o.RevocationURL = revoke }, revoke + " " + canary},
		"another server": {func(*credentials.OAuth2User) {}, func(o *credentials.OAuth2User) {
			o.TokenURL, o.RevocationURL = "https://login.example.com/token", "https://login.example.com/revoke"
		}, ""},
		"another server, which revokes as well": {func(o *credentials.OAuth2User) { o.RevocationURL = revoke }, func(o *credentials.OAuth2User) {
			o.TokenURL, o.RevocationURL = "https://login.example.com/token", "https://login.example.com/revoke"
		}, revoke + " " + canary},
	} {
		for _, end := range []string{"disconnected", "replaced"} {
			memory, _ := newDatabase(t)
			configure := func(o *credentials.OAuth2User) { o.TokenURL = tokenURL }
			if test.second == nil {
				test.second = func(*credentials.OAuth2User) {}
			}
			e, got := newRotatingUsers(time.Hour), ""
			first, _ := ofUsers(t, memory, configure, test.first)
			connect(t, first, own(t, "ann", e))
			answer := e.answer
			e.answer = func(n int, r *http.Request) (*reply, error) {
				if !strings.HasSuffix(r.URL.Path, "/revoke") {
					return answer(n, r)
				}
				_, secret, _ := r.BasicAuth()
				got += r.URL.String() + " " + secret
				return response(http.StatusOK, ""), nil
			}
			second, _ := ofUsers(t, memory, configure, test.first, test.second)
			if end == "disconnected" {
				if err := second.Disconnect(t.Context(), own(t, "ann", e), "ann"); err != nil {
					t.Error(err)
				}
			} else if connect(t, second, own(t, "ann", e)); !strings.Contains(name, "another server") {
				continue // tokens of the same account stay
			}
			if got != test.want {
				t.Errorf("%s, %s: got %q, want %q", name, end, got, test.want)
			}
		}
	}
}

// TestUsersRefreshTogether: of instances that need a new token at once, one asks for it. Each database.
func TestUsersRefreshTogether(t *testing.T) {
	for name, settings := range databasesOf(t) {
		t.Run(name, func(t *testing.T) {
			e := newRotatingUsers(time.Hour)
			one, _ := ofUsers(t, opened(t, settings), func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
			// Their stores are different ones, as in another process.
			two, _ := ofUsers(t, opened(t, settings), func(o *credentials.OAuth2User) { o.TokenURL, o.Params = tokenURL, map[string][]string{"two": {"x"}} })
			connect(t, one, own(t, "ann", e))
			first, _ := tokenOf(t, one, own(t, "ann", e))
			var wg sync.WaitGroup
			for i := range 10 {
				wg.Go(func() {
					o := []*credentials.OAuth2User{one, two}[i%2]
					a := own(t, "ann", e)
					a.Request.Header.Set("Authorization", "Bearer "+first)
					if ok, err := o.Renew(t.Context(), a); !ok || err != nil {
						t.Errorf("got %t, %v", ok, err)
					}
					if token, e := tokenOf(t, o, a); token != "access-of-user-2" {
						t.Errorf("got %s, %+v", token, e)
					}
				})
			}
			wg.Wait()
			if n := e.refreshes(); n != 1 {
				t.Errorf("%d requests with refresh tokens", n)
			}
		})
	}
}

// TestUsersRefresh: when tokens are refreshed, and what becomes of a grant.
func TestUsersRefresh(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(10 * time.Minute)
		connect(t, o, own(t, "ann", e, "read"), "read")
		at := func(wait time.Duration, want string, refreshes int) {
			t.Helper()
			time.Sleep(wait)
			token, failure := tokenOf(t, o, own(t, "ann", e, "read"))
			synctest.Wait()
			if token != want || e.refreshes() != refreshes {
				t.Errorf("got %s, %+v and %d refreshes", token, failure, e.refreshes())
			}
		}
		at(0, "access-of-user-1", 0)
		at(8*time.Minute, "access-of-user-1", 0)
		at(time.Minute+10*time.Second, "access-of-user-1", 1) // in the background
		at(2*time.Second, "access-of-user-2", 1)
		at(time.Hour, "access-of-user-3", 2)

		// A server that is overloaded: nothing is remembered, and a valid token stays.
		working := e.answer
		e.answer = func(int, *http.Request) (*reply, error) {
			return &reply{http.StatusServiceUnavailable, http.Header{"Retry-After": {"60"}}, strings.NewReader("")}, nil
		}
		at(9*time.Minute+10*time.Second, "access-of-user-3", 3)
		time.Sleep(time.Hour)
		for range 2 {
			if _, failure := tokenOf(t, o, own(t, "ann", e, "read")); failure.Kind != run.Unreachable {
				t.Errorf("got %+v", failure)
			}
		}
		if e.refreshes() != 5 {
			t.Errorf("%d refreshes", e.refreshes())
		}
		e.answer = working
		at(0, "access-of-user-7", 6)

		// The refresh token is refused: that is the end, and no further request is sent.
		e.valid = map[string]bool{}
		time.Sleep(time.Hour)
		for range 2 {
			_, failure := tokenOf(t, o, own(t, "ann", e, "read"))
			asksToConnect(t, failure, "read")
		}
		if e.refreshes() != 7 || ended.take() != "ann refused" {
			t.Errorf("%d refreshes", e.refreshes())
		}
		connect(t, o, own(t, "ann", e, "read"), "read")
		at(0, "access-of-user-9", 7)
		for code, status := range map[string]int{"interaction_required": 400, "login_required": 400, "consent_required": 400, "bad_refresh_token": 200} { // Entra ID, and GitHub
			e.answer = func(int, *http.Request) (*reply, error) {
				return response(status, `{"error":"`+code+`"}`), nil
			}
			time.Sleep(time.Hour)
			_, failure := tokenOf(t, o, own(t, "ann", e, "read"))
			asksToConnect(t, failure, "read")
			if ended.take() != "ann refused" {
				t.Errorf("%s does not end the grant", code)
			}
			e.answer = working
			connect(t, o, own(t, "ann", e, "read"), "read")
		}
	})
}

// TestUsersLargestTokens: the largest access token and the largest refresh token are kept together, also a refresh token that JSON escapes.
func TestUsersLargestTokens(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory)
	access, refresh := strings.Repeat("a", 32<<10), strings.Repeat(`"`, 16<<10)
	e := &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
		return response(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"expires_in":3600}`, access, refresh)), nil
	}}
	a := own(t, "ann", e, "read")
	connect(t, o, a, "read")
	if token, failure := tokenOf(t, o, a); token != access {
		t.Errorf("got %d bytes, %+v", len(token), failure)
	}
}

// TestUsersWithoutRefreshToken: the grant ends with its token, or with a 401 unless the token is so young that users would consent in circles.
func TestUsersWithoutRefreshToken(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		e := &tokenEndpoint{answer: issue(time.Hour)}
		connect(t, o, own(t, "ann", e))
		if g, err := o.Grant(t.Context(), "ann"); err != nil || g.Renewable || time.Until(g.Ends) != time.Hour {
			t.Errorf("got %+v, %v", g, err)
		}
		a := own(t, "ann", e)
		if _, e := tokenOf(t, o, a); e != nil {
			t.Fatal(e)
		}
		if ok, err := o.Renew(t.Context(), a); ok || err != nil {
			t.Errorf("a young token: %t, %v", ok, err)
		}
		time.Sleep(10 * time.Minute)
		_, err := o.Renew(t.Context(), a)
		if f, ok := errors.AsType[*run.Failure](err); !ok || f.Next() != run.NextConnect || ended.take() != "ann rejected" {
			t.Errorf("got %v", err)
		}
		connect(t, o, own(t, "ann", e))
		time.Sleep(time.Hour)
		if _, failure := tokenOf(t, o, own(t, "ann", e)); failure.Next() != run.NextConnect || ended.take() != "ann expired" {
			t.Errorf("got %+v", failure)
		}
		time.Sleep(time.Millisecond)
		if e.count() != 2 || len(memory.thingsOf("grants")) != 0 {
			t.Errorf("%d token requests", e.count())
		}
	})
}

// thingsOf returns the living things of a kind.
func (m *memory) thingsOf(kind string) (all []store.Thing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, thing := range m.things {
		if _, ok := m.living(name); ok && thing.Kind == kind {
			all = append(all, thing)
		}
	}
	return all
}

// TestUsersLoseNewRefreshToken: a process that dies, or can't use the database, between the answer with a new refresh token and storing it.
func TestUsersLoseNewRefreshToken(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	next, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Params = tokenURL, nil }) // after a restart
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		connect(t, o, own(t, "ann", e))
		time.Sleep(2 * time.Hour)
		memory.mu.Lock()
		memory.fail["put grants"] = &ledger.Unavailable{Err: errors.New("the database is down")}
		memory.mu.Unlock()
		if token, failure := tokenOf(t, o, own(t, "ann", e)); failure == nil || failure.Kind != run.Internal || failure.Retry == nil {
			t.Errorf("a token whose refresh token is not stored was used: %s, %+v", token, failure)
		}
		memory.mu.Lock()
		memory.fail = map[string]error{}
		memory.mu.Unlock()
		// The same process has the new one, and stores it.
		time.Sleep(2 * time.Second)
		if token, failure := tokenOf(t, o, own(t, "ann", e)); failure != nil || token != "access-of-user-2" || e.count() != 2 {
			t.Errorf("got %s, %+v", token, failure)
		}
		// Another one after a crash has lost the grant, with one request.
		time.Sleep(2 * time.Hour)
		memory.mu.Lock()
		memory.fail["put grants"] = &ledger.Unavailable{Err: errors.New("the database is down")}
		memory.mu.Unlock()
		tokenOf(t, o, own(t, "ann", e))
		memory.mu.Lock()
		memory.fail = map[string]error{}
		memory.mu.Unlock()
		before := e.count()
		for range 3 {
			if _, failure := tokenOf(t, next, own(t, "ann", e)); failure == nil || failure.Next() != run.NextConnect {
				t.Errorf("got %+v", failure)
			}
		}
		if e.count() != before+1 || ended.take() != "ann refused" {
			t.Errorf("%d requests", e.count()-before)
		}
	})
}

// slowGrants are things of which grants are stored slowly.
type slowGrants struct{ *memory }

func (s slowGrants) Put(ctx context.Context, thing *store.Thing, keep time.Duration) (bool, error) {
	if thing.Kind == "grants" {
		time.Sleep(100 * time.Millisecond)
	}
	return s.memory.Put(ctx, thing, keep)
}

// TestUsersAtOnce: that the use of a grant is noted, or that an earlier one ends, loses neither the refresh token that is replaced at the same time nor a new
// consent.
func TestUsersAtOnce(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, slowGrants{memory}, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		const life = 26 * time.Hour
		e := newRotatingUsers(life)
		connect(t, o, own(t, "ann", e))
		answer := e.answer
		e.answer = func(n int, r *http.Request) (*reply, error) {
			time.Sleep(time.Second)
			return answer(n, r)
		}
		time.Sleep(life - 30*time.Second) // it is refreshed early, and its use is noted
		for i, want := range []string{"access-of-user-1", "access-of-user-2", "access-of-user-3"} {
			if token, failure := tokenOf(t, o, own(t, "ann", e)); token != want {
				t.Errorf("%d: %s, %+v", i, token, failure)
			}
			time.Sleep([]time.Duration{5 * time.Second, life, 0}[i])
		}
	})
	synctest.Test(t, func(t *testing.T) {
		e := &tokenEndpoint{answer: issue(time.Hour)}
		connect(t, o, own(t, "bob", e))
		time.Sleep(time.Hour)
		e.answer = func(n int, r *http.Request) (*reply, error) {
			time.Sleep(time.Second)
			return issue(time.Hour)(n, r)
		}
		go func() {
			time.Sleep(500 * time.Millisecond)
			if _, failure := tokenOf(t, o, own(t, "bob", e)); failure == nil || failure.Next() != run.NextConnect {
				t.Errorf("got %+v", failure)
			}
		}()
		connect(t, o, own(t, "bob", e))
		if _, failure := tokenOf(t, o, own(t, "bob", e)); failure != nil {
			t.Errorf("got %+v", failure)
		}
	})
}

// TestUsersWithoutDatabase: without the database it is not known whether a user has a grant, so the user is not asked.
func TestUsersWithoutDatabase(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		connect(t, o, own(t, "ann", e))
		time.Sleep(time.Minute)
		memory.fail["get grants"] = &ledger.Unavailable{Err: errors.New("the database is down")}
		_, failure := tokenOf(t, o, own(t, "ann", e))
		if failure == nil || failure.Kind != run.Internal || failure.Next() != run.NextRetry || failure.Executed != run.ExecutedNo {
			t.Errorf("got %+v", failure)
		}
		if failure := o.Missing(t.Context(), "bob", oauth2Auth(tokenURL), nil, nil); failure != nil {
			t.Errorf("got %+v", failure)
		}
	})
}

// TestUsersScopes: which scopes a skill needs, and which count as granted.
func TestUsersScopes(t *testing.T) {
	for name, test := range map[string]struct {
		scopes   []string // of the operator
		asked    []string
		answered string
		needed   []string // by the descriptor
		want     string   // of the link; empty: the grant is enough
	}{
		"of the descriptor":        {nil, []string{"a", "b"}, "", []string{"a", "b"}, ""},
		"one more":                 {nil, []string{"a"}, "", []string{"a", "b"}, "a+b"},
		"renamed by the server":    {nil, []string{"a"}, "https://api.example/a", []string{"a"}, ""},
		"more in the answer":       {nil, []string{"a"}, "a b", []string{"a", "b"}, ""},
		"less in the answer":       {nil, []string{"a", "b"}, "a", []string{"b"}, ""},
		"narrowed by the operator": {[]string{"a"}, []string{"a"}, "", []string{"a", "b"}, ""},
		"added by the operator":    {[]string{"+x", "y"}, []string{"a"}, "", []string{"a"}, "a+x+y"},
		"not a scope":              {nil, []string{"a"}, "", []string{"a", "b c", "\"", "é"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			memory, _ := newDatabase(t)
			o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Scopes = tokenURL, test.scopes })
			e := &tokenEndpoint{answer: func(int, *http.Request) (*reply, error) {
				return response(200, fmt.Sprintf(`{"access_token":"access","scope":%q}`, test.answered)), nil
			}}
			connect(t, o, own(t, "ann", e), test.asked...)
			missing := o.Missing(t.Context(), "ann", own(t, "ann", e, test.needed...).Auth, nil, nil)
			if _, failure := tokenOf(t, o, own(t, "ann", e, test.needed...)); test.want != "" {
				asksToConnect(t, failure, test.want)
				asksToConnect(t, missing, test.want)
			} else if failure != nil || missing != nil {
				t.Errorf("got %+v, %+v", failure, missing)
			}
		})
	}
}

// TestS343ScopesAreACeiling: a link asks for nothing beyond the scopes that the operator has narrowed the descriptors' to, unless the provider has refused a call for it.
func TestS343ScopesAreACeiling(t *testing.T) {
	for _, test := range []struct {
		scopes []string // of the operator
		want   string   // for a link with all
	}{{nil, "admin read write"}, {[]string{"read"}, "read"}, {[]string{"+offline"}, "admin offline read write"}} {
		memory, _ := newDatabase(t)
		o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Scopes = tokenURL, test.scopes })
		auth, link := own(t, "ann", nil, "read", "write", "admin").Auth, []string{"read", "write", "admin", "stranger"}
		if got := strings.Join(o.Asks(t.Context(), link, []*document.Auth{auth}, nil), " "); got != test.want {
			t.Errorf("%q: asks for %s, want %s", test.scopes, got, test.want)
		}
		o.Missing(t.Context(), "ann", auth, []string{"write"}, nil) // PERMISSION_DENIED
		if got := o.Asks(t.Context(), link, []*document.Auth{auth}, nil); !slices.Contains(got, "write") || slices.Contains(got, "admin") != strings.Contains(test.want, "admin") {
			t.Errorf("%q: after a refusal, asks for %q", test.scopes, got)
		}
	}
}

// TestUsersAreTold: what a failure says about the authorization server, and that skills with another authentication ask for no account.
func TestUsersAreTold(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) {
		o.TokenURL, o.AuthorizationURL = tokenURL, "https://login.example.com/authorize"
	})
	_, e := tokenOf(t, o, own(t, "ann", newRotatingUsers(time.Hour), "read"))
	const want = `{"authorization_url":"https://login.example.com/authorize","connect_url":"https://agents.example.com/connect/acme?scopes=read",` +
		`"required_auth_type":"oauth2","required_by":"provider","scopes":{"read":"text of read"}}`
	if got := string(front.Details(e)); got != want {
		t.Errorf("got %s", got)
	}
	for _, auth := range []*document.Auth{nil, {Type: document.AuthAPIKey}} {
		if e := o.Missing(t.Context(), "ann", auth, nil, nil); e != nil {
			t.Errorf("got %+v", e)
		}
	}
}

// TestUsersLack: PERMISSION_DENIED with scopes asks for the union, unless the user has consented to all of them. They are kept with the source,
// the 64 that it has named last.
func TestUsersLack(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	connect(t, o, own(t, "ann", e, "read"), "read")
	auth := own(t, "ann", e, "read").Auth
	lacks := func(scopes ...string) *run.Failure { return o.Missing(t.Context(), "ann", auth, scopes, nil) }
	if e := lacks("read"); e != nil {
		t.Errorf("got %+v", e)
	}
	e2 := lacks("write", "read", "no scope")
	if e2 == nil || e2.Kind != run.PermissionDenied || e2.Demand.ConnectURL != connectURL+"/acme?scopes=read+write" || !strings.Contains(e2.Text(), e2.Demand.ConnectURL) {
		t.Errorf("got %+v", e2)
	}
	known := func() []string {
		link := []string{"read", "write", "stranger"}
		for i := range 100 {
			link = append(link, fmt.Sprint("scope-", i))
		}
		return o.Asks(t.Context(), link, nil, nil)
	}
	if got := known(); !slices.Equal(got, []string{"read", "write"}) {
		t.Errorf("kept: %q", got)
	}
	for i := range 100 {
		lacks("write", fmt.Sprint("scope-", i))
	}
	if got := known(); len(got) != 64 || !slices.Contains(got, "write") || !slices.Contains(got, "scope-99") || slices.Contains(got, "scope-0") || slices.Contains(got, "read") {
		t.Errorf("%d scopes are kept: %q", len(got), got)
	}
}

// TestS170LinkIsNobodys: the link of a failure is the same for all who lack the same; a flow belongs to one principal and one source, for ten minutes.
func TestS170LinkIsNobodys(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		_, ann := tokenOf(t, o, own(t, "ann", e, "read"))
		_, bob := tokenOf(t, o, own(t, "bob", e, "read"))
		if ann.Demand.ConnectURL != bob.Demand.ConnectURL {
			t.Errorf("got %s and %s", ann.Demand.ConnectURL, bob.Demand.ConnectURL)
		}
		begin := func() *credentials.Flow {
			_, f, err := o.Begin(t.Context(), own(t, "ann", e), redirect, nil)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		refused := func(what string, a *credential.Authentication, f *credentials.Flow) {
			t.Helper()
			if err := o.Finish(t.Context(), a, f, "code"); !errors.Is(err, credentials.ErrFlow) {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("of another principal", own(t, "bob", e), begin())
		f := begin()
		f.Namespace = "other"
		refused("of another source", own(t, "ann", e), f)
		f = begin()
		f.TokenEndpoint = "https://evil.example/token"
		refused("of another server", own(t, "ann", e), f)
		f = begin()
		f.ClientID = "other"
		refused("of another client", own(t, "ann", e), f)
		f = begin()
		time.Sleep(10 * time.Minute)
		refused("late", own(t, "ann", e), f)
		if e.count() != 0 {
			t.Errorf("%d codes were used", e.count())
		}
	})
}

// TestS171FlowOnce: a flow is finished once, also by two callbacks at once.
func TestS171FlowOnce(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	_, f, err := o.Begin(t.Context(), own(t, "ann", e), redirect, nil)
	if err != nil {
		t.Fatal(err)
	}
	var done atomic.Int32
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			switch err := o.Finish(t.Context(), own(t, "ann", e), f, "code"); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, credentials.ErrFinished):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if done.Load() != 1 || e.count() != 1 {
		t.Errorf("finished %d times, %d requests", done.Load(), e.count())
	}
}

// TestS342HangingCallbacks: callbacks of one user that wait for a server that does not answer do not load the database, which the calls of others need.
func TestS342HangingCallbacks(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		silent := &tokenEndpoint{answer: func(_ int, r *http.Request) (*reply, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}}
		_, f, err := o.Begin(t.Context(), own(t, "ann", silent), redirect, nil)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if err := o.Finish(t.Context(), own(t, "ann", silent), f, "code"); err == nil {
					t.Error("a flow was finished")
				}
			})
		}
		wg.Wait()
		if n := len(memory.calls); n > 20 {
			t.Errorf("%d requests to the database", n)
		}
		answering := newRotatingUsers(time.Hour)
		if err := o.Finish(t.Context(), own(t, "ann", answering), f, "code"); err != nil {
			t.Errorf("after them: %v", err)
		}
	})
}

// TestS172Issuer: an answer of another server, which names itself, is refused (mix-up); so is one without a name if the metadata promises one.
func TestS172Issuer(t *testing.T) {
	memory, _ := newDatabase(t)
	const issuer = "https://id.example.com"
	metadata := func(text string) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if r.URL.String() != issuer+"/.well-known/oauth-authorization-server" {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = w.WriteString(text)
			return w.Result(), nil
		})
	}
	for name, test := range map[string]struct {
		issuer, metadata, iss string
		sent                  bool
		want                  string
	}{
		"the issuer":                    {issuer, `{"issuer":"https://id.example.com"}`, issuer, true, ""},
		"another":                       {issuer, `{"issuer":"https://id.example.com"}`, "https://evil.example", true, "refused"},
		"almost":                        {issuer, `{"issuer":"https://id.example.com"}`, issuer + "/", true, "refused"},
		"none":                          {issuer, `{"issuer":"https://id.example.com"}`, "", false, ""},
		"none, though promised":         {issuer, `{"issuer":"https://id.example.com","authorization_response_iss_parameter_supported":true}`, "", false, "refused"},
		"metadata of another":           {issuer, `{"issuer":"https://evil.example"}`, issuer, true, "unreachable"},
		"no metadata":                   {issuer, `<html>`, issuer, true, "unreachable"},
		"not configured, none":          {"", "", "", false, ""},
		"not configured, of the server": {"", "", "https://id.example.com/realm", true, ""},
		"not configured, of another":    {"", "", "https://evil.example", true, "refused"},
		"not configured, no URL":        {"", "", "id.example.com", true, "refused"},
		"not configured, empty":         {"", "", "", true, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Issuer = tokenURL, test.issuer })
			err := o.CheckIssuer(t.Context(), own(t, "ann", metadata(test.metadata)), test.iss, test.sent)
			_, unreachable := errors.AsType[*run.Failure](err)
			if got := map[bool]string{true: "refused"}[errors.Is(err, credentials.ErrIssuer)] + map[bool]string{true: "unreachable"}[unreachable]; got != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// TestR232DeadIssuer: an issuer that does not answer is asked once for all users, and again after a pause; meanwhile users do not wait.
func TestR232DeadIssuer(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Issuer = tokenURL, "https://id.example.com" })
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		dead := roundTrip(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begin := func(want, most time.Duration) {
			t.Helper()
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					start := time.Now()
					_, _, err := o.Begin(t.Context(), own(t, fmt.Sprint("user ", i), dead), redirect, nil)
					if f, ok := errors.AsType[*run.Failure](err); !ok || f.Kind != run.Unreachable || time.Since(start) < want || time.Since(start) > most {
						t.Errorf("got %v after %v", err, time.Since(start))
					}
				})
			}
			wg.Wait()
		}
		begin(10*time.Second, 10*time.Second)
		begin(0, 0)
		if n := asked.Load(); n > 2 {
			t.Errorf("%d requests", n)
		}
		time.Sleep(10 * time.Second)
		begin(0, 10*time.Second)
		if n := asked.Load(); n > 4 {
			t.Errorf("%d requests", n)
		}
	})
}

// TestS173HostileDescriptor: what a descriptor says about the authorization server is used only if its host may have secrets, and can't replace what the bridge
// sends there.
func TestS173HostileDescriptor(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory)
	e := newRotatingUsers(time.Hour)
	a := own(t, "ann", e)
	a.MaySend = func(u *url.URL) error {
		if u.Host != "id.example.com" {
			return &run.Failure{Kind: run.AuthRequired, Refused: run.RuleCredential}
		}
		return nil
	}
	for _, hostile := range []*document.OAuth2{
		{TokenURL: tokenURL, AuthorizationURL: "https://evil.example/authorize"},
		{TokenURL: "https://evil.example/token", AuthorizationURL: "https://id.example.com/authorize"},
		{TokenURL: tokenURL, AuthorizationURL: "javascript:alert(1)"},
		{TokenURL: tokenURL},
		{AuthorizationURL: "https://id.example.com/authorize"},
	} {
		a.Auth.OAuth2 = hostile
		if address, _, err := o.Begin(t.Context(), a, redirect, nil); err == nil {
			t.Errorf("%+v: the user is led to %s", hostile, address)
		}
	}
	a.Auth.OAuth2 = &document.OAuth2{
		TokenURL:         tokenURL,
		AuthorizationURL: "https://id.example.com/authorize?tenant=7&redirect_uri=https://evil.example&client_id=x&request_uri=y&code_challenge_method=plain&sc%6Fpe=all",
	}
	address, f, err := o.Begin(t.Context(), a, redirect, nil)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(address)
	for name, want := range map[string]string{
		"tenant": "7", "redirect_uri": redirect, "client_id": "web", "code_challenge_method": "S256", "state": f.State, "response_type": "code", "test": t.Name(),
	} {
		if got := u.Query()[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if u.Query().Has("request_uri") || u.Query().Has("scope") || strings.Contains(address, f.Verifier) {
		t.Errorf("got %s", address)
	}
	for _, plain := range []func(*credentials.OAuth2User){ // S382
		func(o *credentials.OAuth2User) { o.Issuer = "http://id.example.com" },
		func(o *credentials.OAuth2User) { o.RevocationURL = "http://id.example.com/revoke" },
	} {
		other, _ := ofUsers(t, memory, plain)
		if _, _, err := other.Begin(t.Context(), a, redirect, nil); err == nil || !strings.Contains(err.Error(), "is an http:// address") {
			t.Errorf("an address without TLS: %v", err)
		}
	}
	// A grant of one token endpoint is not used for another.
	if err := o.Finish(t.Context(), a, f, "code"); err != nil {
		t.Fatal(err)
	}
	other := own(t, "ann", e)
	other.Auth.OAuth2.TokenURL = "https://id.example.com/other"
	if _, failure := tokenOf(t, o, other); failure == nil || failure.Next() != run.NextConnect {
		t.Errorf("got %+v", failure)
	}
}

// TestS174DatabaseStolen: who reads the database learns neither tokens nor principals.
func TestS174DatabaseStolen(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	connect(t, o, own(t, "ann@example.com", e), "read")
	tokenOf(t, o, own(t, "ann@example.com", e))
	for name, thing := range memory.things {
		for _, secret := range []string{"ann@example.com", "of-user", canary, fmt.Sprintf("%x", sha256.Sum256([]byte("ann@example.com")))[:16]} {
			if strings.Contains(name+string(thing.Value), secret) {
				t.Errorf("%s is in %s: %s", secret, name, thing.Value)
			}
		}
	}
}

// TestS175DatabaseWritten: who writes the database gives nobody another one's grant, and a grant that can't be decrypted has ended.
func TestS175DatabaseWritten(t *testing.T) {
	memory, _ := newDatabase(t)
	e := newRotatingUsers(time.Hour)
	synctest.Test(t, func(t *testing.T) {
		o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
		connect(t, o, own(t, "ann", e))
		anns := memory.thingsOf("grants")[0]
		time.Sleep(time.Millisecond)
		connect(t, o, own(t, "bob", e))
		bobs := slices.DeleteFunc(memory.thingsOf("grants"), func(thing store.Thing) bool { return thing.Name == anns.Name })[0]
		forged := bobs
		forged.Value, forged.Version = anns.Value, bobs.Version+1
		memory.things["grants "+bobs.Name] = forged
		time.Sleep(2 * time.Second)
		if token, failure := tokenOf(t, o, own(t, "bob", e)); failure == nil || failure.Next() != run.NextConnect {
			t.Errorf("the token of another user was used: %s", token)
		}
		connect(t, o, own(t, "bob", e)) // replaces it
		if token, _ := tokenOf(t, o, own(t, "bob", e)); token != "access-of-user-3" {
			t.Errorf("got %s", token)
		}
		// The same in another bridge, and in another source, is another grant.
		for _, c := range []credentials.Connection{{Namespace: "acme", Realm: "other"}, {Namespace: "other", Realm: "bridge"}} {
			c.URL, c.Things, c.Sealer, c.Ended, c.Warn = connectURL, memory, sealer, func(string, string, string) {}, quiet
			o.Connect(c)
			time.Sleep(2 * time.Second)
			if c.Realm == "other" {
				o, _ = ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
				o.Connect(c)
			}
			if g, err := o.Grant(t.Context(), "ann"); g != nil || err != nil {
				t.Errorf("got %+v, %v", g, err)
			}
		}
	})
}

// TestS176TokensAreNotTold: the tokens of users are removed from what providers and servers say.
func TestS176TokensAreNotTold(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	for _, owner := range []string{"ann", "bob"} {
		connect(t, o, own(t, owner, e))
		tokenOf(t, o, own(t, owner, e))
	}
	g := credential.NewGroup(o)
	for _, text := range []string{"access-of-user-1", "refresh-of-user-1", "access-of-user-2", "refresh-of-user-2", canary} {
		if got := g.ScrubText("the token is " + text + "."); strings.Contains(got, text) {
			t.Errorf("got %s", got)
		}
		if got := string(g.ScrubOutput([]byte(`{"a":"` + text + `","b":"\u0061` + strings.TrimPrefix(text, "a") + `"}`))); strings.Contains(got, text[1:]) && text[0] == 'a' {
			t.Errorf("got %s", got)
		}
	}
	e.answer = func(int, *http.Request) (*reply, error) {
		return response(http.StatusBadRequest, `{"error":"refresh-of-user-1"}`), nil
	}
	a := own(t, "ann", e)
	a.Request.Header.Set("Authorization", "Bearer access-of-user-1")
	_, err := o.Renew(t.Context(), a)
	f, ok := errors.AsType[*run.Failure](err)
	if !ok || strings.Contains(err.Error()+string(front.Details(f)), "of-user") {
		t.Errorf("got %v", err)
	}
}

// TestS349LyingTokenEndpoint: what is no bearer token connects nothing, is not shown, and ends nothing that is connected.
func TestS349LyingTokenEndpoint(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	connect(t, o, own(t, "ann", e), "read")
	answer := e.answer
	before := memory.thingsOf("grants")
	for name, lie := range map[string]*reply{
		"DPoP":                   response(http.StatusOK, `{"access_token":"c4n4ry-token","token_type":"DPoP","refresh_token":"c4n4ry-refresh"}`),
		"mac":                    response(http.StatusOK, `{"access_token":"c4n4ry-token","token_type":"mac"}`),
		"N_A":                    response(http.StatusOK, `{"access_token":"c4n4ry-token","token_type":"N_A"}`),
		"only a refresh token":   response(http.StatusOK, `{"refresh_token":"c4n4ry-refresh"}`),
		"a token and an error":   response(http.StatusOK, `{"access_token":"c4n4ry-token","error":"invalid_grant"}`),
		"a token with an error":  response(http.StatusBadRequest, `{"access_token":"c4n4ry-token"}`),
		"a line break":           response(http.StatusOK, `{"access_token":"c4n4ry\r\nX: y"}`),
		"a large token":          response(http.StatusOK, `{"access_token":"`+strings.Repeat("c4n4ry", 6000)+`"}`),
		"a large refresh token":  response(http.StatusOK, `{"access_token":"t","refresh_token":"`+strings.Repeat("c4n4ry", 3000)+`"}`),
		"a page":                 response(http.StatusOK, `<html>access_token=c4n4ry</html>`),
		"a list":                 response(http.StatusOK, `[{"access_token":"c4n4ry-token"}]`),
		"a redirect":             {http.StatusFound, http.Header{"Location": {"https://evil.example/?c4n4ry"}}, strings.NewReader("")},
		"a temporary error":      response(http.StatusServiceUnavailable, `{"access_token":"c4n4ry-token"}`),
		"an error with a secret": response(http.StatusUnauthorized, `{"error":"`+canary+`","error_description":"c4n4ry"}`),
	} {
		e.answer = func(int, *http.Request) (*reply, error) { return lie, nil }
		_, f, err := o.Begin(t.Context(), own(t, "ann", e), redirect, []string{"read", "write"})
		if err != nil {
			t.Fatal(err)
		}
		failure, ok := errors.AsType[*run.Failure](o.Finish(t.Context(), own(t, "ann", e), f, "code"))
		if !ok || strings.Contains(failure.Text()+failure.OperatorText()+string(front.Details(failure)), "c4n4ry") {
			t.Errorf("%s: %+v", name, failure)
		}
	}
	e.answer = answer
	if token, failure := tokenOf(t, o, own(t, "ann", e, "read")); token != "access-of-user-1" || ended.take() != "" || !slices.EqualFunc(memory.thingsOf("grants"), before, func(a, b store.Thing) bool { return a.Version == b.Version }) {
		t.Errorf("the earlier account: %q, %+v", token, failure)
	}
}

// TestS177RefreshedElsewhere: a 401 counts only for the token that was sent. A server may end the old token as soon as another instance refreshes.
func TestS177RefreshedElsewhere(t *testing.T) {
	memory, _ := newDatabase(t)
	o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	other, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.Params = tokenURL, nil })
	e := newRotatingUsers(time.Hour)
	connect(t, o, own(t, "ann", e))
	a, b := own(t, "ann", e), own(t, "ann", e)
	tokenOf(t, o, a)
	tokenOf(t, other, b)
	if ok, err := other.Renew(t.Context(), b); !ok || err != nil {
		t.Fatalf("got %t, %v", ok, err)
	}
	if ok, err := o.Renew(t.Context(), a); !ok || err != nil || e.refreshes() != 1 {
		t.Errorf("got %t, %v and %d refreshes", ok, err, e.refreshes())
	}
	if token, _ := tokenOf(t, o, a); token != "access-of-user-2" {
		t.Errorf("got %s", token)
	}
	// A provider that refuses the new token, too, is a matter for the operator, and so are the next calls for some seconds.
	_, err := o.Renew(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	tokenOf(t, o, a)
	_, err = o.Renew(t.Context(), a)
	if f, ok := errors.AsType[*run.Failure](err); !ok || f.Next() != run.NextAskOperator {
		t.Errorf("got %v", err)
	}
	// What ann's token gets changes nothing for bob.
	connect(t, o, own(t, "bob", e))
	if _, failure := tokenOf(t, o, own(t, "bob", e)); failure != nil {
		t.Errorf("got %+v", failure)
	}
}

// TestS390RefusedTokenWasReplaced: that a server refuses a refresh token ends the grant only if the grant still has that one. Another instance has used it, and
// stored the next one, if this process was paused for longer than it has the token for itself; or the user has consented anew.
func TestS390RefusedTokenWasReplaced(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, o *credentials.OAuth2User, e *rotatingUsers){
		"by another instance": func(t *testing.T, o *credentials.OAuth2User, e *rotatingUsers) {
			t.Helper()
			a := own(t, "ann", e)
			a.Request.Header.Set("Authorization", "Bearer access-of-user-1")
			if ok, err := o.Renew(t.Context(), a); !ok || err != nil {
				t.Errorf("got %t, %v", ok, err)
			}
		},
		"by its user": func(t *testing.T, o *credentials.OAuth2User, e *rotatingUsers) {
			t.Helper()
			connect(t, o, own(t, "ann", e))
		},
	} {
		t.Run(name, func(t *testing.T) {
			memory, _ := newDatabase(t)
			configure := func(o *credentials.OAuth2User) { o.TokenURL = tokenURL }
			paused, ended := ofUsers(t, memory, configure)
			// The database is another one to this process, so that it does not wait for its turn.
			other, _ := ofUsers(t, struct{ tokens.Things }{memory}, configure, func(o *credentials.OAuth2User) { o.Params = nil })
			e := newRotatingUsers(time.Hour)
			connect(t, paused, own(t, "ann", e))
			a := own(t, "ann", roundTrip(func(r *http.Request) (*http.Response, error) {
				for _, lock := range memory.thingsOf("refresh_token_locks") { // it has ended
					if err := memory.Delete(t.Context(), lock.Kind, lock.Name); err != nil {
						t.Error(err)
					}
				}
				replace(t, other, e)
				e.valid["refresh-of-user-1"] = false // as after its use
				return e.RoundTrip(r)
			}))
			a.Request.Header.Set("Authorization", "Bearer access-of-user-1")
			_, err := paused.Renew(t.Context(), a)
			if f, ok := errors.AsType[*run.Failure](err); !ok || f.Next() != run.NextRetry || f.Executed != run.ExecutedNo || ended.take() != "" {
				t.Errorf("got %+v", err)
			}
			if token, failure := tokenOf(t, paused, own(t, "ann", e)); token != "access-of-user-2" {
				t.Errorf("got %q, %+v", token, failure)
			}
		})
	}
}

// A refused refresh token that could not be stored ends the grant, too: the one before it, which is stored, is not newer.
func TestUnsavedTokenIsRefused(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		connect(t, o, own(t, "ann", e))
		time.Sleep(time.Hour)
		memory.mu.Lock()
		memory.fail["put grants"] = &ledger.Unavailable{Err: errors.New("the database is down")}
		memory.mu.Unlock()
		_, failure := tokenOf(t, o, own(t, "ann", e))
		if failure == nil || e.refreshes() != 1 {
			t.Errorf("got %+v", failure)
		}
		memory.mu.Lock()
		memory.fail = map[string]error{}
		memory.mu.Unlock()
		e.valid = map[string]bool{}
		time.Sleep(time.Hour)
		_, failure = tokenOf(t, o, own(t, "ann", e))
		if failure == nil || failure.Next() != run.NextConnect || e.refreshes() != 2 || ended.take() != "ann refused" {
			t.Errorf("got %+v, %d refreshes", failure, e.refreshes())
		}
	})
}

// TestS178GrantsEnd: grants that were not used for 90 days, and those of another client, are revoked and deleted; those that are used stay.
func TestS178GrantsEnd(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) {
		o.TokenURL, o.RevocationURL = tokenURL, "https://id.example.com/revoke"
	})
	another, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL, o.ClientID = tokenURL, "other" })
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		sweep := func(o *credentials.OAuth2User) string {
			t.Helper()
			if err := accountsOf(memory, ended, e, o).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			return ended.take()
		}
		connect(t, o, own(t, "ann", e))
		connect(t, o, own(t, "bob", e))
		for range 91 {
			time.Sleep(24 * time.Hour)
			if _, failure := tokenOf(t, o, own(t, "ann", e)); failure != nil {
				t.Fatal(failure)
			}
			synctest.Wait()
		}
		if got := sweep(o); got != "bob unused" {
			t.Errorf("got %q", got)
		}
		time.Sleep(time.Millisecond)
		connect(t, o, own(t, "bob", e))
		bobs := fmt.Sprint("refresh-of-user-", e.count())
		for range 91 {
			time.Sleep(24 * time.Hour)
			tokenOf(t, o, own(t, "ann", e))
			synctest.Wait()
		}
		if got := sweep(o); got != "bob unused" || e.forms[e.count()-1].Get("token") != bobs {
			t.Errorf("got %q, %v", got, e.forms[e.count()-1])
		}
		time.Sleep(time.Millisecond)
		if got := sweep(another); got != "ann removed" || e.requests[e.count()-1].URL.Path != "/revoke" {
			t.Errorf("got %q", got)
		}
		_, failure := tokenOf(t, o, own(t, "ann", e, "read"))
		if time.Sleep(2 * time.Second); failure != nil {
			asksToConnect(t, failure, "read")
		}
		if n := len(memory.thingsOf("grants")); n != 0 {
			t.Errorf("%d grants are stored", n)
		}
	})
}

// TestS179ServerDoesNotRevoke: neither an error of the server nor its silence keeps a grant that the user has ended.
func TestS179ServerDoesNotRevoke(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) {
		o.TokenURL, o.RevocationURL = tokenURL, "https://id.example.com/revoke"
	})
	synctest.Test(t, func(t *testing.T) {
		e := newRotatingUsers(time.Hour)
		for name, answer := range map[string]roundTrip{
			"error": func(*http.Request) (*http.Response, error) {
				return httptest.NewRecorder().Result(), errors.New("down")
			},
			"silence": func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() },
		} {
			connect(t, o, own(t, "ann", e))
			start := time.Now()
			if err := o.Disconnect(t.Context(), own(t, "ann", answer), "ann"); err != nil || time.Since(start) > 4*time.Second || ended.take() != "ann disconnected" {
				t.Errorf("%s: %v after %v", name, err, time.Since(start))
			}
			if _, failure := tokenOf(t, o, own(t, "ann", e)); failure == nil || failure.Next() != run.NextConnect {
				t.Errorf("got %+v", failure)
			}
		}
	})
}

// TestAnswersToRevocation: the log says which tokens a server has not revoked, as far as its answer says so. It shows neither tokens nor what the server says.
func TestAnswersToRevocation(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) {
		o.TokenURL, o.RevocationURL = tokenURL, "https://id.example.com/revoke?key=c4n4ry"
	})
	for status, revoked := range map[int]bool{200: true, 202: true, 204: true, 302: false, 400: false, 401: false, 429: false, 503: false, 0: false} {
		e := newRotatingUsers(time.Hour)
		connect(t, o, own(t, "ann", e))
		core, logs := observer.New(zap.DebugLevel)
		all := accountsOf(memory, ended, roundTrip(func(r *http.Request) (*http.Response, error) {
			if err := r.ParseForm(); err != nil || r.PostForm.Get("token") != "refresh-of-user-1" || r.PostForm.Get("token_type_hint") != "refresh_token" {
				t.Errorf("%v, %v", r.PostForm, err)
			}
			if status == 0 {
				return nil, errors.New("refresh-of-user-1 is not sent")
			}
			return &http.Response{StatusCode: status, Header: http.Header{"Location": {"https://evil.example"}}, Body: io.NopCloser(strings.NewReader("refresh-of-user-1 is revoked"))}, nil
		}), o)
		all.Logger = zap.New(core)
		if list, err := all.Revoke(t.Context(), "ann"); err != nil || len(list) != 1 || ended.take() != "ann disconnected" || len(memory.thingsOf("grants")) != 0 {
			t.Errorf("%d: %v, %v", status, list, err)
		}
		lines := logs.TakeAll()
		if len(lines) > 1 || (len(lines) == 0) != revoked {
			t.Errorf("%d: %v", status, lines)
		}
		for _, line := range lines {
			if text := fmt.Sprint(line.Message, line.ContextMap()); line.Level != zap.WarnLevel || line.ContextMap()["status"] != int64(status) || strings.Contains(text, "of-user") || strings.Contains(text, "c4n4ry") {
				t.Errorf("%d: %s %s", status, line.Level, text)
			}
		}
	}
}

// TestS337DisconnectDuringARefresh: tokens that a slow server issues after their user has disconnected the account are revoked, too.
func TestS337DisconnectDuringARefresh(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) {
		o.TokenURL, o.RevocationURL = tokenURL, "https://id.example.com/revoke"
	})
	synctest.Test(t, func(t *testing.T) {
		e, gate := newRotatingUsers(time.Hour), make(chan struct{})
		var revoked []string
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/revoke" {
				_ = r.ParseForm()
				revoked = append(revoked, r.PostForm.Get("token"))
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
			}
			answer, err := e.RoundTrip(r)
			if e.refreshes() > 0 {
				<-gate
			}
			return answer, err
		})
		connect(t, o, own(t, "ann", server))
		time.Sleep(2 * time.Hour)
		called := make(chan *run.Failure)
		go func() {
			_, failure := tokenOf(t, o, own(t, "ann", server))
			called <- failure
		}()
		synctest.Wait()
		if err := o.Disconnect(t.Context(), own(t, "ann", server), "ann"); err != nil || ended.take() != "ann disconnected" {
			t.Fatal(err)
		}
		close(gate)
		if failure := <-called; failure == nil || failure.Next() != run.NextConnect {
			t.Errorf("got %+v", failure)
		}
		if want := []string{"refresh-of-user-1", "refresh-of-user-2"}; !slices.Equal(revoked, want) {
			t.Errorf("%q were revoked, want %q", revoked, want)
		}
	})
}

// TestS180SealKeyReplaced: grants are opened with the earlier key, and sealed again with the newest when they are used.
func TestS180SealKeyReplaced(t *testing.T) {
	memory, _ := newDatabase(t)
	e := newRotatingUsers(time.Hour)
	older, newer := runtoken.NewKey(time.Now()), runtoken.NewKey(time.Now())
	token := func(keys ...runtoken.Key) (string, *run.Failure) {
		o, _ := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
		o.Connect(credentials.Connection{
			Namespace: "acme", Realm: "bridge", URL: connectURL, Keeping: tokens.Keeping{Things: memory, Sealer: runtoken.New(ring(keys), time.Hour, nil)}, Warn: quiet, Ended: func(string, string, string) {}, Refreshed: func(*run.Failure) {},
		})
		if e.count() == 0 {
			connect(t, o, own(t, "ann", e))
		}
		time.Sleep(2 * time.Millisecond) // so that the grant is not locked any more
		return tokenOf(t, o, own(t, "ann", e))
	}
	for i, keys := range [][]runtoken.Key{{older}, {newer, older}, {newer}, {newer, older}} {
		if got, failure := token(keys...); got != "access-of-user-1" {
			t.Errorf("%d: %s, %+v", i, got, failure)
		}
	}
	// An instance that has only the earlier key does not replace what others need.
	for _, key := range []runtoken.Key{older, runtoken.NewKey(time.Now())} {
		if _, failure := token(key); failure == nil || failure.Next() != run.NextConnect {
			t.Errorf("got %+v", failure)
		}
	}
	if got, failure := token(newer); got != "access-of-user-1" {
		t.Errorf("%s, %+v", got, failure)
	}
}

// ring are keys of which the first one seals.
type ring []runtoken.Key

func (r ring) Current(context.Context) (runtoken.Key, error) { return r[0], nil }

func (r ring) Find(_ context.Context, id runtoken.KeyID) (runtoken.Key, bool, error) {
	i := slices.IndexFunc(r, func(k runtoken.Key) bool { return k.ID == id })
	if i < 0 {
		return runtoken.Key{}, false, nil
	}
	return r[i], true, nil
}

// brokenNames is a database whose connection breaks while it reads the names of things.
type brokenNames struct{ tokens.Things }

func (b brokenNames) Names(ctx context.Context, kind, prefix string, most int) (map[string]int64, error) {
	names, err := b.Things.Names(ctx, kind, prefix, most)
	if kind == "grants" {
		err = errors.New("the connection is broken")
	}
	return names, err
}

// TestS366NamesUnread: a look for grants to end that can't read all names fails, and ends nothing.
func TestS366NamesUnread(t *testing.T) {
	memory, _ := newDatabase(t)
	o, ended := ofUsers(t, memory, func(o *credentials.OAuth2User) { o.TokenURL = tokenURL })
	e := newRotatingUsers(time.Hour)
	connect(t, o, own(t, "ann", e))
	connect(t, o, own(t, "bob", e))
	if err := accountsOf(brokenNames{memory}, ended, e, o).Sweep(t.Context()); err == nil || ended.take() != "" {
		t.Error(err)
	}
}
