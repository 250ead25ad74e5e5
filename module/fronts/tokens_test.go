package fronts_test

import (
	"context"
	"crypto/sha256"
	"encoding/json" // of answers of another project's server
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/issuertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// sendAs sends a request of a protocol with a value of Authorization; empty: without it.
func sendAs(c *testbed.Caddy, r keyRequest, authorization string) testbed.Answer {
	fields := []testbed.Option{testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Accept", "application/json, text/event-stream")}
	for i := 0; i+1 < len(r.header); i += 2 {
		fields = append(fields, testbed.Header(r.header[i], r.header[i+1]))
	}
	if authorization != "" {
		fields = append(fields, testbed.Header("Authorization", authorization))
	}
	return c.With(fields...).Send(http.MethodPost, base(c)+r.path, r.body)
}

// TestCallersJWT: all protocols answer callers with a token, as their principals, and no others.
func TestCallersJWT(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, testbed.Site("log\nskill_bridge {", "rpc\na2a\nmcp\nbrowse\nagent_skills\naudit\nallow_http\nallow_networks 127.0.0.0/8", issuer.Option("scopes book:reservation"),
		"provider "+p.URL()+" {\nnamespace acme\ncredentials api_key secret-of-provider\n}", "}"))
	if n := issuer.Requests(); n > 0 {
		t.Errorf("loading the configuration caused %d requests", n)
	}
	metadata := func(path string) string {
		return `, resource_metadata="` + base(c) + "/.well-known/oauth-protected-resource" + path + `", scope="book:reservation"`
	}
	const challenge = `Bearer realm="skill-bridge"`
	token := issuer.Token(map[string]any{"scope": "book:reservation"})
	for _, r := range keyRequests {
		for authorization, want := range map[string]struct {
			status    int
			challenge string
			refused   string
		}{
			"":                            {http.StatusUnauthorized, challenge, "access token only"},
			"Basic YWxpY2U6aGljY3Vw":      {http.StatusUnauthorized, challenge, "access token only"},
			"Bearer " + token + "x":       {http.StatusUnauthorized, challenge + `, error="invalid_token"`, "does not accept the access token"},
			"Bearer x":                    {http.StatusUnauthorized, challenge + `, error="invalid_token"`, "does not accept the access token"},
			"Bearer " + issuer.Token(nil): {http.StatusForbidden, challenge + `, error="insufficient_scope"`, "lacks a scope"},
		} {
			a := sendAs(c, r, authorization)
			if a.Status != want.status || a.Header.Get("WWW-Authenticate") != want.challenge+metadata(r.path) || !strings.Contains(string(a.Body), want.refused) ||
				a.Header.Get("Content-Type") != "application/json" || !strings.Contains(string(a.Body), `"message":"This bridge `) {
				t.Errorf("%s %.60s with %.40q: %d %v %s", r.path, r.body, authorization, a.Status, a.Header, a.Body)
			}
		}
	}
	if n := len(p.All()); n > 0 {
		t.Errorf("the provider has got %d requests for callers without a token", n)
	}
	for _, r := range keyRequests {
		if a := sendAs(c, r, "Bearer "+token); a.Status >= 400 || !strings.Contains(string(a.Body), r.answered) {
			t.Errorf("%s %.60s with a token: %d %s", r.path, r.body, a.Status, a.Body)
		}
	}
	documents := c.With(testbed.Fresh())
	for path, resource := range map[string]string{"": "/mcp", "/": "/mcp", "/mcp": "/mcp", "/rpc": "/rpc", "/a2a": "/a2a", "/a2a/acme.echo": "/a2a/acme.echo"} {
		want := `{"resource":"` + base(c) + resource + `","authorization_servers":["` + issuer.URL + `"],"scopes_supported":["book:reservation"],"bearer_methods_supported":["header"]}`
		if a := documents.Send(http.MethodGet, base(c)+"/.well-known/oauth-protected-resource"+path, ""); a.Status != http.StatusOK || string(a.Body) != want {
			t.Errorf("metadata of %q: %d %s", path, a.Status, a.Body)
		}
	}
	if a := documents.Send(http.MethodGet, base(c)+"/.well-known/agent-card.json", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"scheme":"bearer"`) {
		t.Errorf("the card is public, and has the scheme: %d %s", a.Status, a.Body)
	}
	page := documents.With(testbed.Header("Accept", "text/html"))
	if a := page.Send(http.MethodGet, base(c)+"/rpc", ""); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != challenge || !strings.Contains(string(a.Body), "only to authenticated callers") {
		t.Errorf("the page: %d %v %s", a.Status, a.Header, a.Body)
	}
	if a := page.With(testbed.Header("Authorization", "Bearer "+token)).Send(http.MethodGet, base(c)+"/rpc", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), "acme.echo") || !strings.Contains(string(a.Body), "alice") {
		t.Errorf("the page with a token: %d %s", a.Status, a.Body)
	}
	for _, path := range []string{"/rpc", "/.well-known/agent-skills/index.json"} {
		if a := page.With(testbed.Header("Authorization", "Bearer x")).Send(http.MethodGet, base(c)+path, ""); a.Status != http.StatusUnauthorized || !strings.Contains(a.Header.Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%s with a wrong token: %d %v %s", path, a.Status, a.Header, a.Body)
		}
	}
	for _, words := range [][]string{
		{`"msg":"call"`, `"principal":"alice"`, `"method":"execute_skill"`, `"operation":"execute"`},
		{`"msg":"caller refused"`, "callers_jwt is set and the request has no token", `"client":"127.0.0.1"`, `"trace_id":"`},
		{`"msg":"a caller was refused: invalid_token: the signature of the token is wrong`, `"option":"callers_jwt"`, `"client":"127.0.0.1"`},
		{`"msg":"caller refused"`, "insufficient_scope: the token does not have all of the scopes book:reservation"},
		{`"msg":"caller refused"`, `"method":"browse"`, "callers_jwt is set and the request has no token"},
		{`"msg":"call failed"`, `"outcome":"unauthenticated"`},
		{`"logger":"http.log.access`, `"user_id":"alice"`},
	} {
		if len(c.Log.Lines(words...)) == 0 {
			t.Errorf("no line has %v", words)
		}
	}
	c.Log.MustNotShow(token, token[strings.LastIndex(token, ".")+1:])
}

// TestCallersJWTUnavailable: while the keys of an issuer were never read and can't be, callers are told to try again. Then all is as ever.
func TestCallersJWTUnavailable(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {", "rpc\na2a\nmcp\nallow_http\nallow_networks 127.0.0.0/8", issuer.Option(), "provider "+p.URL()+" {\nnamespace acme\n}", "}"))
	issuer.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) })
	for _, r := range keyRequests {
		a := sendAs(c, r, "Bearer "+issuer.Token(nil))
		if a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "10" || a.Header.Get("WWW-Authenticate") != "" ||
			!strings.Contains(string(a.Body), `"message":"This bridge can't check access tokens at the moment`) {
			t.Errorf("%s: %d %v %s", r.path, a.Status, a.Header, a.Body)
		}
		if r.path != "/mcp" && !strings.Contains(string(a.Body), "retry") {
			t.Errorf("%s: an agent is not told to try again: %s", r.path, a.Body)
		}
	}
	if n := issuer.Requests(); n != 2 {
		t.Errorf("%d requests", n)
	}
	for _, words := range [][]string{
		{`"level":"error"`, "the keys of an issuer of callers_jwt can't be read", `"issuer":"` + issuer.URL + `"`, "HTTP status 502"},
		{`"msg":"a caller was refused: issuer_unavailable: the keys of the issuer can't be read`},
		{`"msg":"call failed"`, `"outcome":"unreachable"`},
	} {
		if len(c.Log.Lines(words...)) == 0 {
			t.Errorf("no line has %v", words)
		}
	}
}

// TestCallersJWTBesideKeys: a caller has a key or a token, and nobody is two principals. With allow_anonymous, a wrong token is still refused.
func TestCallersJWTBesideKeys(t *testing.T) {
	path, key := keyFile(t)
	issuer, second := issuertest.New(t), issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {", "rpc\nallow_http\nallow_networks 127.0.0.0/8\naudit\nallow_anonymous\ncallers_file "+path,
		issuer.Option("prefix one:"), second.Option("prefix two:", "principal user"), "provider "+p.URL()+" {\nnamespace acme\n}", "}"))
	call := keyRequests[0]
	for credential, principal := range map[string]string{
		key: "alice", issuer.Token(nil): "one:alice", second.Token(map[string]any{"user": "bob"}): "two:bob",
		issuer.Token(map[string]any{"sub": "two:bob"}): "", second.Token(nil): "", key + "x": "", "": "",
	} {
		before := len(c.Log.Lines(`"msg":"call"`, `"principal":"`+principal+`"`))
		a := sendAs(c, call, "Bearer "+credential)
		if principal == "" {
			if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != `Bearer realm="skill-bridge", error="invalid_token", resource_metadata="`+base(c)+`/.well-known/oauth-protected-resource/rpc"` {
				t.Errorf("%q: %d %v %s", credential, a.Status, a.Header, a.Body)
			}
			continue
		}
		if a.Status != http.StatusOK || len(c.Log.Lines(`"msg":"call"`, `"principal":"`+principal+`"`)) != before+1 {
			t.Errorf("%s: %d %s", principal, a.Status, a.Body)
		}
	}
	if a := sendAs(c, call, ""); a.Status != http.StatusOK {
		t.Errorf("an anonymous caller: %d %s", a.Status, a.Body)
	}
}

// TestCallersJWTWithoutMCP: a 401 names metadata that are served, whatever protocols the bridge has.
func TestCallersJWTWithoutMCP(t *testing.T) {
	issuer, p := issuertest.New(t), hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for mounts, resources := range map[string]map[string]string{
		"rpc":       {"": "/rpc", "/rpc": "/rpc"},
		"a2a":       {"": "/a2a", "/a2a/acme.echo": "/a2a/acme.echo"},
		"rpc\na2a":  {"/": "/rpc", "/rpc": "/rpc", "/a2a": "/a2a"},
		"# neither": {"": "", "/": "", "/agents/1": "/agents/1"}, // the Skills Protocol at every path
	} {
		c := testbed.StartCaddy(t, testbed.Site("route {\nskill_bridge {", mounts, "allow_http\nallow_networks 127.0.0.0/8", issuer.Option(), "provider "+p.URL()+" {\nnamespace acme\n}", "}\nrespond passed 418\n}"))
		for path, resource := range resources {
			metadata := base(c) + "/.well-known/oauth-protected-resource" + path
			if a := c.With(testbed.Fresh(), testbed.Header("Authorization", "Bearer x")).Send(http.MethodGet, metadata, ""); a.Status != http.StatusOK ||
				!strings.Contains(string(a.Body), `{"resource":"`+base(c)+resource+`","authorization_servers":["`+issuer.URL+`"]`) {
				t.Errorf("%q: metadata of %q: %d %s", mounts, path, a.Status, a.Body)
			}
			if path == "" || path == "/" {
				continue
			}
			a := sendAs(c, keyRequest{path: path, body: keyRequests[0].body}, "")
			if want := `Bearer realm="skill-bridge", resource_metadata="` + metadata + `"`; a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != want {
				t.Errorf("%q: %s: %d %v", mounts, path, a.Status, a.Header)
			}
		}
		if a := c.With(testbed.Fresh()).Send(http.MethodGet, base(c)+"/.well-known/oauth-protected-resource/other", ""); mounts != "# neither" && a.Status != 418 {
			t.Errorf("%q: %d %s", mounts, a.Status, a.Body)
		}
		c.Stop()
	}
}

// TestCallersJWTOptions: wrong options are errors that name them.
func TestCallersJWTOptions(t *testing.T) {
	path, _ := keyFile(t)
	p := hostile.NewProvider(t)
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc"))
	const good = "callers_jwt https://a.example {\naudience x\n}\n"
	for lines, want := range map[string]string{
		"callers_jwt":                                                    "callers_jwt takes an issuer",
		"callers_jwt https://a.example":                                  "callers_jwt needs an audience",
		"callers_jwt a.example {\naudience x\n}":                         "is not an absolute https or http URL",
		"callers_jwt https://a.example?x {\naudience x\n}":               "has a query",
		"callers_jwt https://a.example#x {\naudience x\n}":               "fragment",
		"callers_jwt https://me:secret@a.example {\naudience x\n}":       "userinfo",
		"callers_jwt {env.ISSUER} {\naudience x\n}":                      "placeholder",
		"callers_jwt https://a.example {\naudience x\nscopes a\\b\n}":    "has a character that scopes can't have",
		"callers_jwt https://a.example {\naudience x\nprefix \"a b\"\n}": "has a space",
		"callers_jwt https://a.example {\naudience x\nleeway 5\n}":       `unknown option "leeway"`,
		good + good: "two callers_jwt have the issuer",
		good + strings.Replace(good, "a.example", "b.example", 1):                                                             "two callers_jwt have no prefix",
		good + "principal {http.auth.user.name}":                                                                              "principal and callers_jwt exclude each other",
		good + "callers_file " + path:                                                                                         "callers_jwt beside callers_file needs a prefix",
		"callers_jwt https://a.example {\naudience x\nprefix al\n}\ncallers_file " + path:                                     ":1: the principal begins with the prefix of an issuer",
		"callers_jwt https://a.example {\naudience x\nprefix a\n}\ncallers_jwt https://b.example {\naudience x\nprefix ab\n}": "one begins with the other",
	} {
		err := c.Reload(inSite(p, alone, "rpc", lines))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", lines, err)
		}
	}
	withoutHTTP := testbed.Site("skill_bridge {", "callers_jwt http://a.example {\naudience x\n}", "}")
	if err := c.Reload(withoutHTTP); err == nil || !strings.Contains(err.Error(), "is without TLS") {
		t.Errorf("%v", err)
	}
	if err := c.Reload(inSite(p, alone, "mcp {\nscopes a\n}", good)); err != nil {
		t.Errorf("scopes of mcp need no authorization_server beside callers_jwt: %v", err)
	}
}

// jwtStorage is the storage of the example of zitadel/oidc, whose service users get JWTs.
type jwtStorage struct{ *storage.Storage }

// jwtClient is a client that gets JWTs.
type jwtClient struct{ op.Client }

func (jwtClient) AccessTokenType() op.AccessTokenType { return op.AccessTokenTypeJWT }

func (s jwtStorage) ClientCredentials(ctx context.Context, id, secret string) (op.Client, error) {
	client, err := s.Storage.ClientCredentials(ctx, id, secret)
	return jwtClient{client}, err
}

// TestCallersJWTOfServer: the tokens of an authorization server of another project are accepted, also after it has replaced its key.
func TestCallersJWTOfServer(t *testing.T) {
	var provider op.OpenIDProvider
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { provider.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	start := func() {
		var err error
		provider, err = op.NewProvider(&op.Config{CryptoKey: sha256.Sum256([]byte("test")), AuthMethodPost: true}, jwtStorage{storage.NewStorage(storage.NewUserStore(server.URL))},
			op.StaticIssuer(server.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
	}
	token := func() string {
		answer, err := http.PostForm(server.URL+"/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"sid1"}, "client_secret": {"verysecret"}, "scope": {"openid"}})
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var granted struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&granted); err != nil || granted.AccessToken == "" {
			t.Fatal(answer.Status, err)
		}
		return granted.AccessToken
	}
	start()
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {", "rpc\naudit\nallow_http\nallow_networks 127.0.0.0/8\ncallers_jwt "+server.URL+" {\naudience sid1\n}", "provider "+p.URL()+" {\nnamespace acme\n}", "}"))
	first := token()
	if a := sendAs(c, keyRequests[0], "Bearer "+first); a.Status != http.StatusOK || len(c.Log.Lines(`"msg":"call"`, `"principal":"sid1"`)) != 1 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	start() // with another key
	if a := sendAs(c, keyRequests[0], "Bearer "+token()); a.Status != http.StatusOK {
		t.Errorf("a token of the new key: %d %s", a.Status, a.Body)
	}
	if a := sendAs(c, keyRequests[0], "Bearer "+first); a.Status != http.StatusUnauthorized {
		t.Errorf("a token of the old key: %d %s", a.Status, a.Body)
	}
}
