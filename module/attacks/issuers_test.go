package attacks_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/issuertest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// withToken returns a client with a bearer token.
func withToken(c *testbed.Caddy, token string) *testbed.Client {
	return c.With(testbed.Fresh(), testbed.Header("Authorization", "Bearer "+token))
}

// mustRefuse fails the test unless a token is refused with a status, and no provider is asked.
func mustRefuse(t *testing.T, about string, c *testbed.Caddy, p *hostile.Provider, token string, status int) {
	t.Helper()
	before := len(p.All())
	if a := withToken(c, token).Execute("acme.s.echo", nil); a.Status != status || a.Outcome() == "completed" {
		t.Errorf("%s: %v", about, a)
	}
	if n := len(p.All()) - before; n > 0 {
		t.Errorf("%s: the provider has got %d requests", about, n)
	}
}

// S150: tokens that the issuer has not signed are refused, whatever their headers say; tokens of other services, of other issuers, for clients and
// out of their time are, too.
func TestS150ForgedTokens(t *testing.T) {
	issuer, attacker := issuertest.New(t), issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	c := testbed.StartCaddy(t, testbed.Bridge(issuer.Option(), provider(p.URL(), "acme")))
	good := issuer.Token(nil)
	mustComplete(t, withToken(c, good).Execute("acme.s.echo", nil))
	parts := strings.Split(good, ".")
	now := time.Now().Unix()
	attacker.Answer(func(http.ResponseWriter, *http.Request) { t.Error("the bridge asks a host that a token names") })
	for about, token := range map[string]string{
		"of another issuer, with its key":      attacker.Token(nil),
		"in the name of the issuer":            attacker.Token(map[string]any{"iss": issuer.URL}),
		"in the name of the issuer, with jku":  attacker.SignedWith(map[string]any{"kid": issuer.KeyID(), "jku": attacker.URL + "/keys", "x5u": attacker.URL}, map[string]any{"iss": issuer.URL}),
		"in the name of the issuer, with jwk":  attacker.SignedWith(map[string]any{"kid": issuer.KeyID(), "jwk": attacker.WebKey()}, map[string]any{"iss": issuer.URL}),
		"with a field that must be understood": issuer.SignedWith(map[string]any{"crit": []string{"x"}, "x": 1}, nil),
		"without a signature":                  parts[0] + "." + parts[1] + ".",
		"for another service":                  issuer.Token(map[string]any{"aud": "https://other.example.com"}),
		"for a client":                         issuer.Signed("JWT", map[string]any{"nonce": "n"}),
		"expired":                              issuer.Token(map[string]any{"exp": now - 100}),
		"of tomorrow":                          issuer.Token(map[string]any{"nbf": now + 100}),
		"twice":                                good + ", Bearer " + good,
	} {
		mustRefuse(t, about, c, p, token, http.StatusUnauthorized)
	}
	if a := c.With(testbed.Fresh(), testbed.Header("Authorization", "DPoP "+good)).Execute("acme.s.echo", nil); a.Status != http.StatusUnauthorized {
		t.Errorf("with another scheme: %v", a)
	}
}

// S151: users of two issuers, and callers with keys, are never one principal: neither by a prefix in a claim, nor by the order of the lines. A run
// token of one is nothing for the other.
func TestS151PrincipalsOfIssuers(t *testing.T) {
	one, two := issuertest.New(t), issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"}, hostile.Skill{ID: "s/slow"})
	p.On("s/slow", hostile.Invoke, hostile.Accept(endless))
	lines := []string{one.Option(), two.Option("prefix two:")}
	c := testbed.StartCaddy(t, testbed.Bridge(lines[0], lines[1], provider(p.URL(), "acme")))
	alice, other := withToken(c, one.Token(nil)), withToken(c, two.Token(nil))
	token := leave(t, alice, "acme.s.slow")
	if a := look(alice, token); a.Outcome() != "running" {
		t.Errorf("her own run: %v", a)
	}
	if a := look(other, token); a.Code != -32602 {
		t.Errorf("the run of the user with the same sub at another issuer: %v", a)
	}
	mustRefuse(t, "a claim with the prefix", c, p, one.Token(map[string]any{"sub": "two:alice"}), http.StatusUnauthorized)
	for _, sub := range []any{"", "alice ", "al\nice", strings.Repeat("a", 300), 5, []string{"alice"}, nil} {
		mustRefuse(t, fmt.Sprintf("the sub %.20v", sub), c, p, one.Token(map[string]any{"sub": sub}), http.StatusUnauthorized)
	}
	if err := reload(c, testbed.Bridge(lines[1], lines[0], provider(p.URL(), "acme"))); err != nil {
		t.Fatal(err)
	}
	if a := look(alice, token); a.Outcome() != "running" {
		t.Errorf("her own run, with the lines in another order: %v", a)
	}
	if a := look(other, token); a.Code != -32602 {
		t.Errorf("the run of another, with the lines in another order: %v", a)
	}
	if err := reload(c, testbed.Bridge(lines[1], one.Option("principal sub"), provider(p.URL(), "acme"))); err != nil {
		t.Fatal(err)
	}
	if a := look(alice, token); a.Outcome() != "running" {
		t.Errorf("her own run, with the default claim written: %v", a)
	}
	// Another issuer, or another claim, without a prefix: its users are others.
	for _, changed := range []string{two.Option(), one.Option("principal client_id")} {
		if err := reload(c, testbed.Bridge(changed, provider(p.URL(), "acme"))); err != nil {
			t.Fatal(err)
		}
		for _, stranger := range []string{two.Token(nil), one.Token(map[string]any{"client_id": "alice"})} {
			if a := look(withToken(c, stranger), token); a.Code != -32602 && a.Status != http.StatusUnauthorized {
				t.Errorf("%s: the run of alice: %v", changed, a)
			}
		}
	}
}

// S152: a flood of tokens with ever new key ids causes one reading of the keys, and delays nobody whose key is known, even while the issuer hangs.
func TestS152FloodOfKeyIDs(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	c := testbed.StartCaddy(t, testbed.Bridge(issuer.Option(), provider(p.URL(), "acme")))
	good := issuer.Token(nil)
	mustComplete(t, withToken(c, good).Execute("acme.s.echo", nil))
	before := issuer.Requests()
	hang := make(chan struct{})
	issuer.Answer(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	})
	var flood sync.WaitGroup
	for n := range 50 {
		flood.Go(func() {
			token := issuer.SignedWith(map[string]any{"kid": fmt.Sprint("unknown-", n)}, nil)
			if a := withToken(c, token).Execute("acme.s.echo", nil); a.Status != http.StatusUnauthorized {
				t.Errorf("%v", a)
			}
		})
	}
	testbed.Eventually(t, 10*time.Second, func() bool { return issuer.Requests() > before }, "the keys are read")
	began := time.Now()
	mustComplete(t, withToken(c, good).Execute("acme.s.echo", nil))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a caller with a known key has waited %s", took)
	}
	close(hang)
	flood.Wait()
	if n := issuer.Requests() - before; n > 2 {
		t.Errorf("%d requests", n)
	}
}

// S153: the documents of an issuer lead nowhere where the options about the network do not allow it, redirects are not followed, and what is
// larger than the bounds is not read.
func TestS153DocumentsOfIssuers(t *testing.T) {
	issuer, inside := issuertest.New(t), issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	for about, c := range map[string]struct {
		answer http.HandlerFunc
		why    string
	}{
		"keys at a metadata address of a cloud": {metadataWith(issuer, "http://169.254.169.254/keys"), "address is not public"},
		"keys at another port":                  {metadataWith(issuer, "http://127.0.0.1:1/keys"), "port 1 is not allowed"},
		"keys in a file":                        {metadataWith(issuer, "file:///etc/passwd"), "no jwks_uri"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL+r.URL.Path, http.StatusFound)
		}, "HTTP status 302"},
		"the metadata of another issuer": {inside.ServeHTTP, "is the metadata of the issuer"},
		"endless metadata": {func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}, "larger than 512 KiB"},
	} {
		inside.Answer(func(w http.ResponseWriter, r *http.Request) {
			inside.Answer(nil)
			inside.ServeHTTP(w, r)
		})
		before := inside.Requests()
		issuer.Answer(c.answer)
		caddy := testbed.StartCaddy(t, testbed.Bridge(issuer.Option(), provider(p.URL(), "acme")))
		mustRefuse(t, about, caddy, p, issuer.Token(nil), http.StatusServiceUnavailable)
		if len(caddy.Log.Lines("the keys of an issuer of callers_jwt can't be read", c.why)) != 1 {
			t.Errorf("%s: the log does not say %q:\n%s", about, c.why, strings.Join(caddy.Log.Lines("issuer"), "\n"))
		}
		if n := inside.Requests() - before; about == "a redirect" && n > 0 {
			t.Errorf("%s: %d requests", about, n)
		}
		caddy.Stop()
	}
}

// metadataWith answers with metadata that have another URL of the keys.
func metadataWith(i *issuertest.Issuer, keys string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.MarshalWrite(w, map[string]string{"issuer": i.URL, "jwks_uri": keys})
	}
}

// S154: a key that the issuer has withdrawn signs nothing any more, as soon as the keys are read again. While the issuer is away, its keys remain,
// also over a reload.
func TestS154WithdrawnKeys(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	text := testbed.Bridge(issuer.Option(), provider(p.URL(), "acme"))
	c := testbed.StartCaddy(t, text)
	old := issuer.Token(nil)
	mustComplete(t, withToken(c, old).Execute("acme.s.echo", nil))
	issuer.Rotate()
	fresh := issuer.Token(nil)
	mustComplete(t, withToken(c, fresh).Execute("acme.s.echo", nil))
	mustRefuse(t, "the old key", c, p, old, http.StatusUnauthorized)

	issuer.Answer(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusBadGateway) })
	before := issuer.Requests()
	if err := reload(c, strings.Replace(text, "\tskill_bridge", "\theader X-Test 1\n\tskill_bridge", 1)); err != nil {
		t.Fatal(err)
	}
	mustComplete(t, withToken(c, fresh).Execute("acme.s.echo", nil))
	if n := issuer.Requests() - before; n > 0 {
		t.Errorf("the reload caused %d requests", n)
	}
}

// TestKeysOfRefusedConfigurations: the keys of an issuer are kept as long as a configuration has it. One that is refused, while it is set up or started, changes
// nothing, and gives back what it held: else the keys, which may be old, would still be there after the last configuration with the issuer.
func TestKeysOfRefusedConfigurations(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	good := testbed.Bridge(issuer.Option(), provider(p.URL(), "acme"))
	c := testbed.StartCaddy(t, good)
	token := issuer.Token(nil)
	read := func(want int) {
		t.Helper()
		before := issuer.Requests()
		mustComplete(t, withToken(c, token).Execute("acme.s.echo", nil))
		if n := issuer.Requests() - before; n != want {
			t.Errorf("%d requests for keys, want %d", n, want)
		}
	}
	read(2)
	for _, refused := range []string{
		good + "http://localhost:1 {\n\tskill_bridge {\n\t\tallow_anonymous\n\t\tprovider https://skills.example.com {\n\t\t\tcredentials api_key {env.THERE_IS_NO_SUCH_VARIABLE}\n\t\t}\n\t}\n}\n",
		good + "http://127.0.0.1:" + p.Port() + " {\n\trespond late\n}\n", // in use
	} {
		if err := reload(c, refused); err == nil {
			t.Error("the configuration is accepted")
		}
		read(0)
	}
	for _, caddyfile := range []string{"http://127.0.0.1:{$PORT} {\n\trespond none\n}\n", good} {
		if err := reload(c, caddyfile); err != nil {
			t.Fatal(err)
		}
	}
	read(2)
}

// S155: a token is shown to nobody: not to the provider, in answers, in the log, in metrics or in the admin API.
func TestS155TokensAreNotShown(t *testing.T) {
	issuer := issuertest.New(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	c := testbed.StartCaddy(t, "{\n\tmetrics\n}\n"+testbed.Bridge("audit", issuer.Option("scopes run"), provider(p.URL(), "acme")))
	tokens := []string{issuer.Token(map[string]any{"scope": "run"}), issuer.Token(nil), issuer.Token(map[string]any{"aud": "x"}), "not-a-token-but-secret"}
	var shown strings.Builder
	for _, token := range tokens {
		a := withToken(c, token).Execute("acme.s.echo", nil)
		fmt.Fprintln(&shown, a.Header, string(a.Body))
	}
	for _, r := range p.All() {
		fmt.Fprintln(&shown, r.Header)
	}
	for _, path := range []string{"/metrics", "/config/", "/skill_bridge/status"} {
		shown.Write(c.With(testbed.Fresh()).Send(http.MethodGet, c.Admin()+path, "").Body)
	}
	for _, token := range tokens {
		if strings.Contains(shown.String(), token[strings.LastIndex(token, ".")+1:]) {
			t.Errorf("a token is shown: %s", shown.String())
		}
	}
	c.Log.MustNotShow(tokens...)
}

// S156: a provider is told the principal of a token where caller has its placeholder, and only there: not where it has the name of an option.
func TestS156ProvidersAreToldPrincipals(t *testing.T) {
	issuer := issuertest.New(t)
	for caller, want := range map[string]string{"{http.auth.user.id} user": "acme:alice user", "callers_jwt user": "callers_jwt user"} {
		p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
		c := testbed.StartCaddy(t, testbed.Bridge(issuer.Option("prefix acme:"), "caller "+caller, provider(p.URL(), "acme")))
		mustComplete(t, withToken(c, issuer.Token(nil)).Execute("acme.s.echo", nil))
		if told := calledBy(t, p, "s/echo"); len(told) != 1 || told[0] != want {
			t.Errorf("caller %s: the provider is told %q", caller, told)
		}
		c.Stop()
	}
}
