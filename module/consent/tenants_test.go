package consent_test

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// execute calls a skill as the user of the browser, and returns the answer.
func (b *browser) execute(skill string) string {
	b.t.Helper()
	return b.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"`+skill+`"}}`, "Content-Type", "application/json").body
}

// TestS335SimilarNames: users whose names differ only in case or in the form of Unicode have accounts of their own, also when a grant is
// encrypted again.
func TestS335SimilarNames(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	file := filepath.Join(t.TempDir(), "skills.db")
	b := start(t, s, p, siteWith(file, sealKey, source(p, "acme", s)))
	names := []string{"J\u00f6rg", "J\ufffdrg", "Jo\u0308rg", "j\u00f6rg"}
	b.browser(t, names[0]).connect()
	check := func(when string) {
		t.Helper()
		for i, name := range names {
			if text := b.browser(t, name).execute("acme.book"); strings.Contains(text, `"status":"completed"`) != (i == 0) || strings.Contains(text, "AUTH_REQUIRED") != (i != 0) {
				t.Errorf("%s: a call of %q: %s", when, name, text)
			}
		}
	}
	check("connected")
	if err := b.Reload(siteWith(file, newKey+" "+sealKey, source(p, "acme", s))); err != nil {
		t.Fatal(err)
	}
	check("with a new seal_key")
	for _, name := range []string{"J\xf6rg", "J\xe4rg"} { // logs and lists would show both as J\ufffdrg
		if a := b.browser(t, name).get("/connect/acme"); a.status != http.StatusForbidden || !strings.Contains(a.body, "not valid UTF-8") {
			t.Errorf("%q: %d %s", name, a.status, a.body)
		}
	}
}

// TestS336LargeCodes: what a user sends as codes is not kept.
func TestS336LargeCodes(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	before, after, _ := strings.Cut(callback, "code="+queryOf(t, callback).Get("code"))
	b.login.Close()
	cookie := ada.jar.Cookies(mustURL(t, b.base))[0]
	heap := testbed.HeapInUse()
	for i := range 300 {
		a := b.browser(t, "ada").get(before+"code="+strings.Repeat(`"`, 12_000)+fmt.Sprintf("%032d", i)+after, "Cookie", cookie.Name+"="+cookie.Value)
		if a.status != http.StatusBadGateway {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if grown := testbed.HeapInUse() - heap; grown > 8<<20 {
		t.Errorf("%d MiB more are in use", grown>>20)
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
