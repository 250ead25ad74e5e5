package consent_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
)

// TestConnect: a user connects an account, calls use it, and the user disconnects it.
func TestConnect(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	page := ada.get("/connect/acme")
	for _, want := range []string{"Acme Tables", "Book tables in your name.", "not connected", strings.TrimPrefix(b.login.URL, "http://"), "signed in as <bdi>ada</bdi>"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("%q is not in %s", want, page.body)
		}
	}
	if ada.connected() {
		t.Fatal("connected already")
	}
	ada.connect()
	if !ada.connected() || b.browser(t, "bob").connected() {
		t.Error("the wrong users are connected")
	}
	if call := b.With().Send(http.MethodPost, b.base+"/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`); !strings.Contains(string(call.Body), "AUTH_REQUIRED") {
		t.Errorf("an anonymous call: %s", call.Body)
	}
	call := ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`, "Content-Type", "application/json")
	if !strings.Contains(call.body, `"status":"completed"`) {
		t.Errorf("ada's call: %s", call.body)
	}
	if a := ada.form("/connect/acme", "disconnect"); a.status != http.StatusSeeOther || ada.connected() {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestTokenEndpointsDiffer: no account of a user is for two skills whose descriptors name different token endpoints. Calls and the page say what the operator
// has to write, and then one account does for both.
func TestTokenEndpointsDiffer(t *testing.T) {
	s, other := newLogin(t), newLogin(t)
	skills := s.skills(scopes)
	skills[1].Auth = other.skills(hostile.Object{"openid": "Know who you are."})[0].Auth
	p := hostile.NewProvider(t, skills...)
	lines := func(more ...string) string {
		trust := "\ttrust " + strings.TrimPrefix(other.URL, "http://") + "\n\tcredentials"
		return site(t, strings.Replace(source(p, "acme", s, more...), "\tcredentials", trust, 1))
	}
	b := start(t, s, p, lines())
	ada := b.browser(t, "ada")
	call := func(skill string) string {
		t.Helper()
		return ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.`+skill+`"}}`, "Content-Type", "application/json").body
	}
	const advice = "to write token_url and authorization_url in the Caddyfile"
	call("book")
	call("menu")
	time.Sleep(200 * time.Millisecond) // for so long, a call need not know the descriptor that another one has read
	for _, skill := range []string{"book", "menu"} {
		if text := call(skill); !strings.Contains(text, `"next":"ask_operator"`) || !strings.Contains(text, advice) || !strings.Contains(text, `"executed":"no"`) {
			t.Errorf("a call of %s: %s", skill, text)
		}
	}
	if page := ada.get("/connect/acme"); !strings.Contains(page.body, advice) || strings.Contains(page.body, `value="connect"`) {
		t.Errorf("the page: %s", page.body)
	}
	if a := ada.form("/connect/acme", "connect"); a.status != http.StatusServiceUnavailable || s.seen.Load()+other.seen.Load() != 0 {
		t.Errorf("the form: %d, %d requests", a.status, s.seen.Load()+other.seen.Load())
	}
	if err := b.Reload(lines("token_url "+s.URL+"/oauth/token", "authorization_url "+s.URL+"/authorize")); err != nil {
		t.Fatal(err)
	}
	ada.connect()
	for _, skill := range []string{"book", "menu"} {
		if text := call(skill); !strings.Contains(text, `"status":"completed"`) {
			t.Errorf("a call of %s: %s", skill, text)
		}
	}
}
