package skillsprotocol_test

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/ledger"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// TestConnect: what a caller gets whose user has not connected an account, and what others get.
func TestConnect(t *testing.T) {
	p, accounts := providertest.Start(t, providertest.Skill("acme/book", providertest.OAuth2()), providertest.Skill("acme/free", nil)), new(providertest.Accounts)
	p.On("POST /run/book", providertest.Completed("e", 1))
	source := p.Source(t, "acme")
	source.Credentials = accounts
	bridge, err := translate.New(providertest.Config(t, source))
	if err != nil {
		t.Fatal(err)
	}
	f := &skillsprotocol.Front{Bridge: bridge, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	ask := func(principal, method, params string) string {
		value, fault := f.ServeRPC(translate.WithCaller(t.Context(), run.Caller{Principal: principal}), &jsonrpc.Request{Method: method, Params: jsontext.Value(params), ID: jsontext.Value("1")})
		if fault != nil {
			return fault.Message + " " + string(fault.Data)
		}
		return string(value)
	}
	const call = `{"name":"acme.book","args":{}}`
	const refused = `The skill needs an account of the user. Ask the user to open ` + providertest.ConnectURL + ` and to connect an account there; then call again. ` +
		`{"code":"AUTH_REQUIRED","skill_id":"acme/book","phase":"auth","details":{"authorization_url":"https://acme.example/authorize",` +
		`"connect_url":"` + providertest.ConnectURL + `","required_auth_type":"oauth2","required_by":"provider","scopes":{"book":"Book tables."}},` +
		`"source":"bridge","executed":"no","next":"connect"}`
	if got := ask("ada", "execute_skill", call); got != refused {
		t.Errorf("%s\nwant %s", got, refused)
	}
	accounts.Set("bob", true)
	const asks = "(asks the user to connect an account first)\""
	for _, c := range []struct{ principal, method, params, has, hasNot string }{
		{"ada", "list_skills", `{}`, `"state":"needs_consent"`, ""},
		{"ada", "describe_skill", `{"name":"acme.book"}`, `"state":"needs_consent"`, ""},
		{"ada", "list_skills", `{"usable":true}`, "acme.free", "acme.book"},
		{"ada", "list_skills", `{"detail":"tools"}`, `"name":"acme_book","description":"Does book. ` + asks, `Does free. (`},
		{"ada", "list_skills", `{"detail":"tools","format":"openai","query":"book"}`, asks, ""},
		{"ada", "list_skills", `{"detail":"tools","usable":true}`, "acme_free", "acme_book"},
		{"bob", "list_skills", `{}`, `"name":"acme.book"`, "needs_consent"},
		{"bob", "list_skills", `{"detail":"tools"}`, "acme_book", asks},
		{"bob", "list_skills", `{"usable":true}`, "acme.book", ""},
		{"bob", "execute_skill", call, `"status":"completed"`, ""},
	} {
		got := ask(c.principal, c.method, c.params)
		if !strings.Contains(got, c.has) || c.hasNot != "" && strings.Contains(got, c.hasNot) {
			t.Errorf("%s %s %s: %s", c.principal, c.method, c.params, got)
		}
	}
	p.Received(t, "POST /run/book", 1)
}

// TestS383LinksOfProviders: the details of an error have no connect_url but the bridge's, whatever the provider's error is.
func TestS383LinksOfProviders(t *testing.T) {
	p := providertest.Start(t, providertest.Skill("acme/free", nil))
	bridge, err := translate.New(providertest.Config(t, p.Source(t, "acme")))
	if err != nil {
		t.Fatal(err)
	}
	f := &skillsprotocol.Front{Bridge: bridge, Tokens: fakeTokens{}, Canceled: new(ledger.Cancellations)}
	for _, c := range []struct {
		status int
		body   string
	}{
		{http.StatusUnauthorized, `"code":"AUTH_REQUIRED",`},
		{http.StatusForbidden, `"code":"PERMISSION_DENIED",`},
		{http.StatusBadRequest, `"code":"VALIDATION_ERROR",`},
		{http.StatusBadGateway, `"code":"PROVIDER_ERROR",`},
		{http.StatusOK, ``},
	} {
		for _, name := range []string{`connect_url`, `connect\u005furl`} {
			text := `{"status":"failed","execution_id":"e","error":{` + c.body + `"message":"m","details":{"` + name + `":"https://evil.example","kept":1}}}`
			if c.body != "" {
				text = strings.Replace(text, `"status":"failed","execution_id":"e",`, "", 1)
			}
			p.On("POST /run/free", providertest.Answer(c.status, text))
			value, fault := f.ServeRPC(t.Context(), &jsonrpc.Request{Method: "execute_skill", Params: jsontext.Value(`{"name":"acme.free"}`), ID: jsontext.Value("1")})
			if fault != nil {
				value = fault.Data
			}
			if got := string(value); strings.Contains(got, "evil") || !strings.Contains(got, `"kept":1`) {
				t.Errorf("%d %s: %s", c.status, name, got)
			}
		}
	}
}

// TestLongDescription: the note is there also behind a long description, within the bound.
func TestLongDescription(t *testing.T) {
	line := front.DescriptionLine(strings.Repeat("word ", 1000), 1000, true)
	if n := utf8.RuneCountInString(line); n > 1000 || !strings.HasSuffix(line, "(asks the user to connect an account first)") {
		t.Error(n, line)
	}
}
