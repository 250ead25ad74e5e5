package consent_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/command/findings"
	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// admin asks the admin API, and returns its status and answer.
func (b *bed) admin(t *testing.T, method, path, body string) (status int, answer string) {
	t.Helper()
	a := b.With(testbed.Fresh()).Send(method, b.Admin()+path, body)
	return a.Status, string(a.Body)
}

// S238: an operator sees whose accounts are connected, and ends those of a user; nobody sees tokens, in no answer, line, event or metric, and metrics have
// no principals either.
func TestS238OperatorsSeeGrants(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, testbed.AdminAPI+strings.Replace(site(t, "audit", source(p, "acme", s, "revocation_url "+s.URL+"/revoke")), "log\n", "log\nhandle /metrics {\n\tmetrics\n}\n", 1))
	metrics := func() string { return string(b.With(testbed.Fresh()).Send(http.MethodGet, b.base+"/metrics", "").Body) }
	ada, bob := b.browser(t, "ada"), b.browser(t, "bob")
	ada.connect()
	bob.connect()
	call := func(who *browser) string {
		t.Helper()
		return who.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`, "Content-Type", "application/json").body
	}
	if text := call(ada); !strings.Contains(text, `"completed"`) {
		t.Fatal(text)
	}
	token := strings.TrimPrefix(p.Requests("book", hostile.Invoke)[0].Header.Get("Authorization"), "Bearer ")
	if len(token) < 20 {
		t.Fatalf("the token is %q", token)
	}
	b.Log.MustNotShow(token)
	if line := b.Log.Lines("skill_bridge.audit", "a user has connected an account", `"source":"acme"`, `"principal":"ada"`, "custom_scope"); len(line) != 1 {
		t.Errorf("%d audit lines", len(line))
	}
	event := func(texts ...string) {
		t.Helper()
		testbed.Eventually(t, 10*time.Second, func() bool { return len(b.Log.Lines(append(texts, `"logger":"events"`)...)) == 1 }, "there is an event "+texts[0])
	}
	event("skill_bridge.consent_given", `"principal":"ada"`, `"source":"acme"`)

	status, text := b.admin(t, http.MethodGet, "/skill_bridge/grants", "")
	var all struct {
		Connected map[string]int `json:"connected"`
		Grants    []struct {
			Principal, Namespace string
			Scopes               []string
			Renewable            bool
			Consented, Used      time.Time
		} `json:"grants"`
	}
	if err := json.Unmarshal([]byte(text), &all, json.MatchCaseInsensitiveNames(true)); err != nil || status != 200 || all.Connected["acme"] != 2 || len(all.Grants) != 2 {
		t.Fatalf("%d %s %v", status, text, err)
	}
	for _, g := range all.Grants {
		if g.Namespace != "acme" || len(g.Scopes) != 3 || !g.Renewable || time.Since(g.Consented) > time.Minute || time.Since(g.Used) > 25*time.Hour {
			t.Errorf("%+v", g)
		}
	}
	if _, of := b.admin(t, http.MethodGet, "/skill_bridge/grants?principal=bob", ""); strings.Contains(of, "ada") || !strings.Contains(of, `"principal":"bob"`) {
		t.Error(of)
	}
	if _, whole := b.admin(t, http.MethodGet, "/skill_bridge/status", ""); !strings.Contains(whole, `"connected":{"acme":2},"grants":[]`) || strings.Contains(whole, token) {
		t.Error(whole)
	}
	if strings.Contains(text, token) || strings.Contains(text, "token") || strings.Contains(text, clientSecret) {
		t.Error(text)
	}
	counted := metrics()
	for _, want := range []string{`caddy_skill_bridge_grants{provider="acme"} 2`, `caddy_skill_bridge_consents_given_total{provider="acme"} `} {
		if !strings.Contains(counted, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}

	for _, body := range []string{"", "{}", `{"principal":""}`, `{"namespace":"acme"}`, `{"principal":"ada","all":true}`} {
		if status, text := b.admin(t, http.MethodPost, "/skill_bridge/revoke", body); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", body, status, text)
		}
	}
	if status, text := b.admin(t, http.MethodGet, "/skill_bridge/revoke", ""); status != http.StatusMethodNotAllowed {
		t.Errorf("%d %s", status, text)
	}
	revoked := s.revoked.Load()
	status, text = b.admin(t, http.MethodPost, "/skill_bridge/revoke", `{"principal":"ada"}`)
	if status != 200 || strings.Count(text, `"principal":"ada"`) != 1 || strings.Contains(text, "bob") {
		t.Errorf("%d %s", status, text)
	}
	if ada.connected() || !bob.connected() {
		t.Errorf("ada is connected: %t, bob is: %t", ada.connected(), bob.connected())
	}
	event("skill_bridge.consent_ended", `"principal":"ada"`, `"reason":"disconnected"`)
	if text := call(ada); !strings.Contains(text, `"next":"connect"`) || !strings.Contains(text, `"executed":"no"`) {
		t.Errorf("a call of ada: %s", text)
	}
	if _, text = b.admin(t, http.MethodPost, "/skill_bridge/revoke", `{"principal":"ada"}`); !strings.Contains(text, `"grants":[]`) {
		t.Error(text)
	}
	if n := s.revoked.Load() - revoked; n != 1 {
		t.Errorf("%d revocations", n)
	}
	counted = metrics()
	for _, want := range []string{`caddy_skill_bridge_consents_ended_total{provider="acme",reason="disconnected"} `, `outcome="needs_consent"`} {
		if !strings.Contains(counted, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	for line := range strings.Lines(counted) {
		if strings.Contains(line, "ada") && strings.Contains(line, "skill_bridge") && !strings.Contains(line, "usage_total") || strings.Contains(line, token) {
			t.Errorf("a metric has a principal: %s", line)
		}
	}
}

// TestCheckOfRefreshTokens: check says how many accounts end with their access tokens.
func TestCheckOfRefreshTokens(t *testing.T) {
	for _, tc := range []struct {
		scopes hostile.Object
		want   string
	}{{hostile.Object{"openid": "x"}, "connected accounts whose access token ends, without a refresh token: 1 of 1"}, {scopes, ""}} {
		s := newLogin(t)
		p := hostile.NewProvider(t, s.skills(tc.scopes)...)
		b := start(t, s, p, site(t, source(p, "acme", s)))
		b.browser(t, "ada").connect()
		var warnings []string
		for _, f := range findings.OfAll(t.Context(), observe.Live()) {
			if f.Source == "acme" && f.Result == findings.Warning {
				warnings = append(warnings, f.What+": "+f.Fix)
			}
		}
		if text := strings.Join(warnings, "\n"); !strings.Contains(text, tc.want) || (tc.want == "") != !strings.Contains(text, "+offline_access") {
			t.Errorf("%q", text)
		}
		b.Stop()
	}
}

// TestOneUsersGrantIsNoTrouble: that a provider refuses the token of a user, and the authorization server that user's refresh token, says nothing about the source.
func TestOneUsersGrantIsNoTrouble(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, testbed.AdminAPI+site(t, source(p, "acme", s)))
	ada := b.browser(t, "ada")
	ada.connect()
	call := func() string {
		t.Helper()
		return ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`, "Content-Type", "application/json").body
	}
	if text := call(); !strings.Contains(text, `"completed"`) {
		t.Fatal(text)
	}
	var granted struct {
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(s.answer), &granted); err != nil || granted.Refresh == "" {
		t.Fatal(s.answer, err)
	}
	revocation := url.Values{"token": {granted.Refresh}, "client_id": {"web"}, "client_secret": {clientSecret}}
	if a := ada.send(http.MethodPost, s.URL+"/revoke", revocation.Encode()); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	p.Script("book", hostile.Invoke, func(int) hostile.Action { return hostile.Respond(http.StatusUnauthorized, "") })
	before := s.tokens.Load()
	if text := call(); !strings.Contains(text, `"next":"connect"`) || s.tokens.Load() != before+1 {
		t.Errorf("%d token requests: %s", s.tokens.Load()-before, text)
	}
	if !strings.Contains(s.answer, "invalid_grant") {
		t.Errorf("the server answers %s", s.answer)
	}
	if status, text := b.admin(t, http.MethodGet, "/skill_bridge/providers", ""); status != http.StatusOK || !strings.Contains(text, `"health":"ok"`) || strings.Contains(text, "last_trouble") {
		t.Errorf("%d %s", status, text)
	}
	if _, text := b.admin(t, http.MethodGet, "/skill_bridge/status", ""); strings.Contains(text, `"fault"`) || strings.Contains(text, "last_trouble") {
		t.Error(text)
	}
}
