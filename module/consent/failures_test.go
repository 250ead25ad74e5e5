package consent_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// TestS320FailuresAreLogged: for each connection that fails, the operator has a line with the source, what has failed and what to do, once a minute, and without
// secrets. What the user has decided has none.
func TestS320FailuresAreLogged(t *testing.T) {
	s := newLogin(t)
	down := httptest.NewServer(nil)
	down.Close()
	p := hostile.NewProvider(t, s.skills(scopes)...)
	with401 := func(lines ...string) string { return source(p, "acme", s, lines...) }
	for name, test := range map[string]struct {
		source string
		edit   func(callback string) string
		want   string // in the line; empty: there is none
		shown  string // on the page, if it is no part of the line
	}{
		"wrong secret": {
			strings.ReplaceAll(with401("auth_style header"), clientSecret, "wrong-s3cr3t"), nil,
			"refused the bridge's client credentials (invalid_client). Check client_id and client_secret, and try auth_style params, for this provider.", "",
		},
		"wrong code": {
			with401(), func(callback string) string { return strings.Replace(callback, "code=", "code=c0de-c4n4ry", 1) },
			"refused the user's code (invalid_grant): it has expired or was used before, so that a second try helps, or it was issued for another redirect URI. Compare the registered redirect URI with the one that caddy skill-bridge check prints", "a second try helps",
		},
		"server down": {
			with401("authorization_url "+s.URL+"/authorize", "token_url "+down.URL+"/c4n4ry-p4th"), nil, "could not be reached: connection refused", "",
		},
		"metadata away": {with401("issuer " + down.URL), nil, "The metadata of the authorization server can't be read: ", "The metadata of the authorization server can&#39;t be read. Try again later."},
		"refused": {
			with401(), func(callback string) string {
				return strings.Replace(callback, "code=", "error=unauthorized_client&x=", 1)
			},
			"refuses the request of this bridge (unauthorized_client). Check the client that is registered there", "",
		},
		"unknown refusal": {
			with401(), func(callback string) string { return strings.Replace(callback, "code=", "error=evil_c4n4ry&x=", 1) },
			"refuses the request of this bridge. Check the client", "",
		},
		"another issuer":   {with401(), func(callback string) string { return callback + "&iss=https://evil.example" }, "option issuer", ""},
		"the user says no": {with401(), func(callback string) string { return strings.Replace(callback, "code=", "error=access_denied&x=", 1) }, "", "did not allow it"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, s, p, site(t, "audit", test.source))
			for range 2 {
				ada := b.browser(t, "ada")
				a := ada.form("/connect/acme", "connect")
				if a.status == http.StatusSeeOther {
					callback := ada.consent(a.location())
					if test.edit != nil {
						callback = test.edit(callback)
					}
					a = ada.get(callback)
				}
				if a.status < 400 || !strings.Contains(a.body, test.shown) {
					t.Errorf("%d %s", a.status, a.body)
				}
			}
			lines := b.Log.Lines(`"level":"warn"`, "a user could not connect or disconnect an account")
			if test.want == "" && len(lines) == 0 {
				return
			}
			if len(lines) != 1 || !strings.Contains(lines[0], test.want) || !strings.Contains(lines[0], `"source":"acme"`) {
				t.Errorf("got %q\nwant %s", lines, test.want)
			}
			b.Log.MustNotShow("s3cr3t", "c0de-c4n4ry", "evil", "access_token")
		})
	}
}

// TestAuthStyle: an authorization server that takes the secret only in the body is asked so, and also for revocations.
func TestAuthStyle(t *testing.T) {
	s := newLogin(t)
	s.onlyBody = true
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, site(t, source(p, "acme", s, "auth_style params", "revocation_url "+s.URL+"/revoke")))
	ada := b.browser(t, "ada")
	ada.connect()
	if a := ada.form("/connect/acme", "disconnect"); a.status != http.StatusSeeOther || ada.connected() || s.revoked.Load() != 1 {
		t.Errorf("%d, %d revocations", a.status, s.revoked.Load())
	}
}

// TestS321PageWithoutDatabase: while the database is away, the page says so to the user, in words for users.
func TestS321PageWithoutDatabase(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	file := t.TempDir() + "/skills.db"
	b := start(t, s, p, siteWith(file, sealKey, source(p, "acme", s)))
	ada := b.browser(t, "ada")
	ada.connect()
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Truncate(file+suffix, 0)
	}
	a := ada.get("/connect/acme")
	if a.status != http.StatusOK || !strings.Contains(a.body, "can’t use its database") || strings.Contains(a.body, "refresh token") || strings.Contains(a.body, "Internal error") {
		t.Errorf("%d %s", a.status, a.body)
	}
	t.Log(b.Log.Lines("warn"))
}

// TestS381GrantNotStored: tokens that can't be stored are revoked, unless that may end the grant that stays: many servers end all tokens of a user and a client with
// one. The log says why they can't be stored.
func TestS381GrantNotStored(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	file := t.TempDir() + "/skills.db"
	b := start(t, s, p, siteWith(file, sealKey, source(p, "acme", s, "revocation_url "+s.URL+"/revoke")))
	ada, bob := b.browser(t, "ada"), b.browser(t, "bob")
	ada.connect()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, event := range []string{"INSERT", "UPDATE"} {
		const trigger = `CREATE TRIGGER no_%[1]s BEFORE %[1]s ON things WHEN NEW.kind = 'grants' BEGIN SELECT RAISE(ABORT, 'c4n4ry of the database'); END`
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(trigger, event)); err != nil {
			t.Fatal(err)
		}
	}
	for who, revoked := range map[*browser]int32{bob: 1, ada: 0} {
		before := s.revoked.Load()
		a := who.get(who.consent(who.begin("/connect/acme")))
		if a.status != http.StatusBadGateway || !strings.Contains(a.body, "Nothing was connected. This bridge can’t use its database") || strings.Contains(a.body, "c4n4ry") {
			t.Errorf("%s: %d %s", who.user, a.status, a.body)
		}
		if n := s.revoked.Load() - before; n != revoked || who.connected() != (who == ada) {
			t.Errorf("%s: %d revocations, connected: %t", who.user, n, who.connected())
		}
	}
	if n := len(b.Log.Lines("a user could not connect", "c4n4ry of the database")); n == 0 || b.Log.Has("Nothing was sent to the provider") {
		t.Errorf("%d lines say why", n)
	}
}

// TestS322DisconnectOfTheDenied: a user whom the access rules deny a source can disconnect the account that is connected there, and do nothing else with it.
func TestS322DisconnectOfTheDenied(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	caddyfile := site(t, source(p, "acme", s))
	b := start(t, s, p, caddyfile)
	ada, bob := b.browser(t, "ada"), b.browser(t, "bob")
	ada.connect()
	callback := ada.consent(ada.begin("/connect/acme"))
	if err := b.Reload(strings.Replace(caddyfile, "connect {", "access {\n\t\tdeny * *\n\t}\n\tconnect {", 1)); err != nil {
		t.Fatal(err)
	}
	if a := bob.get("/connect/acme"); a.status != http.StatusNotFound {
		t.Errorf("without an account: %d", a.status)
	}
	if a := ada.get("/connect"); !strings.Contains(a.body, `value="disconnect"`) || strings.Contains(a.body, `value="connect"`) || !strings.Contains(a.body, "only disconnect") {
		t.Errorf("the page: %s", a.body)
	}
	before := s.tokens.Load()
	if a := ada.get(callback); a.status != http.StatusNotFound || s.tokens.Load() != before {
		t.Errorf("a flow: %d", a.status)
	}
	if a := ada.form("/connect/acme", "connect"); a.status != http.StatusServiceUnavailable || a.location() != "" {
		t.Errorf("connect: %d %s", a.status, a.location())
	}
	if a := ada.form("/connect/acme", "disconnect"); a.status != http.StatusSeeOther {
		t.Errorf("disconnect: %d %s", a.status, a.body)
	}
	if a := ada.get("/connect/acme"); a.status != http.StatusNotFound {
		t.Errorf("after it: %d", a.status)
	}
	if err := b.Reload(caddyfile); err != nil || ada.connected() {
		t.Errorf("the account is still connected (%v)", err)
	}
}

// TestS391HugeScopes: a provider that names very many or very long scopes, or whose authorization server does, does not keep users from disconnecting accounts. The
// operator learns that they can connect none.
func TestS391HugeScopes(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	caddyfile := site(t, source(p, "acme", s, "revocation_url "+s.URL+"/revoke"))
	b := start(t, s, p, caddyfile)
	ada := b.browser(t, "ada")
	ada.connect()
	huge := hostile.Object{"openid": "x", "offline_access": "x"}
	for i := range 50 {
		huge[fmt.Sprintf("%02d%s", i, strings.Repeat("x", 1000))] = "x"
	}
	q := hostile.NewProvider(t, s.skills(huge)...)
	caddyfile = strings.ReplaceAll(caddyfile, p.URL(), q.URL())
	if err := b.Reload(caddyfile); err != nil {
		t.Fatal(err)
	}
	if a := ada.get("/connect/acme"); a.status != http.StatusOK || strings.Contains(a.body, `value="connect"`) || !strings.Contains(a.body, "too many for a cookie") {
		t.Errorf("%d %.2000s", a.status, a.body)
	}
	if n := len(b.Log.Lines("a user could not connect", "write the option scopes")); n != 1 {
		t.Errorf("%d lines", n)
	}
	if a := ada.form("/connect/acme", "disconnect"); a.status != http.StatusSeeOther || s.revoked.Load() != 1 {
		t.Errorf("%d %.2000s", a.status, a.body)
	}
}

// TestS396GrantedScopes: scopes with which an authorization server answers are kept only as far as a link and a cookie can have them, so that the answer costs no
// database, no link and no way to connect again.
func TestS396GrantedScopes(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, testbed.AdminAPI+site(t, source(p, "acme", s)))
	long := strings.Repeat("x", 300<<10)
	s.granted = "also " + long + " " + strings.Repeat(strings.Repeat("y", 1000)+" ", 50) + "renamed"
	ada := b.browser(t, "ada")
	ada.connect()
	a := ada.get("/connect/acme")
	if a.status != http.StatusOK || !ada.connected() || strings.Contains(a.body, "too many for a cookie") || !strings.Contains(a.body, "also") || len(a.body) > 64<<10 {
		t.Errorf("%d, %d bytes, connected %t: %s", a.status, len(a.body), ada.connected(), a.body[max(0, strings.Index(a.body, "<main")):])
	}
	ada.connect()
	if _, text := b.admin(t, http.MethodGet, "/skill_bridge/grants", ""); strings.Contains(text, long[:5000]) || !strings.Contains(text, `"also"`) || !strings.Contains(text, `"custom_scope"`) {
		t.Errorf("%d bytes: %.2000s", len(text), text)
	}
}

// TestS397UnreadableDescriptors: a user who comes back while no descriptor can be read learns that, and finishes by loading the page again. The operator is not told to
// write options that are not missing.
func TestS397UnreadableDescriptors(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	b := start(t, s, p, testbed.AdminAPI+site(t, source(p, "acme", s)))
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	p.Down()
	p.Disconnect()
	if status, text := b.admin(t, http.MethodPost, "/skill_bridge/purge", "{}"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	ada.refused(callback, http.StatusServiceUnavailable, "Nothing was connected. The bridge can’t read at the moment")
	b.Log.MustNotShow("token_url")
	p.Up()
	testbed.Eventually(t, 30*time.Second, func() bool { return ada.get(callback).location() == b.base+"/connect/acme" }, "the page is loaded again")
	if !ada.connected() || s.tokens.Load() != 1 {
		t.Errorf("%d token requests", s.tokens.Load())
	}
}

// TestRowForUsers: the page of skills tells the user, in words for users, why a skill can't be called yet.
func TestRowForUsers(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	for _, path := range []string{"/rpc", "/rpc?skill=acme.book"} {
		if a := ada.get(path, "Accept", "text/html"); !strings.Contains(a.body, "which you have not connected") || strings.Contains(a.body, "Ask the user") {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// TestS323EncodedCallback: a callback whose path is written with percent signs is one, so that its code is in no log.
func TestS323EncodedCallback(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	for _, written := range []string{"/%63onnect/acme/callback", "/connect%2Facme/callback", "/connect/acme%2Fcallback", "/connect/%61cme/%63allback", "/connect/acme/callback/"} {
		callback := strings.Replace(ada.consent(ada.begin("/connect/acme")), "/connect/acme/callback", written, 1)
		if a := ada.get(callback); a.status != http.StatusSeeOther || a.location() != b.base+"/connect/acme" {
			t.Errorf("%s: %d %s", written, a.status, a.body)
		}
	}
	ada.get("/%63onnect/acme")
	testbed.Eventually(t, 10*time.Second, func() bool { return b.Log.Has("/%63onnect/acme") }, "the access log has the page")
	if b.Log.Has("code=") {
		t.Error("the access log has a callback")
	}
	login := "log_skip /connect/*/callback\nbasic_auth {\n\tada $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\nskill_bridge {"
	if err := b.Reload(strings.Replace(b.caddyfile, "skill_bridge {", login, 1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/connect/acme/callback", "/%63onnect/acme/callback", "/connect/last"} {
		if a := ada.get(path + "?code=c4n4ry"); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	testbed.Eventually(t, 10*time.Second, func() bool { return b.Log.Has("/connect/last") }, "the access log has what the login refuses")
	if n := len(b.Log.Lines("http.log.access", "/callback?code=")); n != 0 { // Caddy writes more at DEBUG only
		t.Errorf("the access log has %d callbacks that the login refuses", n)
	}
}

// TestS324ManySkills: the scopes of a link are asked for also if only the last of many skills names them.
func TestS324ManySkills(t *testing.T) {
	s := newLogin(t)
	var skills []hostile.Skill
	for i := range 450 {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("menu%03d", i)})
	}
	last := s.skills(hostile.Object{"custom_scope": "Book tables in your name."})[0]
	last.ID = "zz-book"
	p := hostile.NewProvider(t, append(skills, last)...)
	caddyfile := site(t, source(p, "acme", s, "scopes +offline_access"))
	b := start(t, s, p, caddyfile)
	ada := b.browser(t, "ada")
	call := func() string {
		t.Helper()
		return ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.zz-book"}}`, "Content-Type", "application/json").body
	}
	link := regexp.MustCompile(`"connect_url":"([^"]*)"`).FindStringSubmatch(call())
	if link == nil {
		t.Fatal("the call has no link")
	}
	if err := b.Reload(strings.Replace(caddyfile, "connect {", "name another\n\tconnect {", 1)); err != nil { // another instance, which has read nothing yet
		t.Fatal(err)
	}
	if a := ada.get(ada.consent(ada.begin(strings.TrimPrefix(link[1], b.base)))); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if text := call(); !strings.Contains(text, `"status":"completed"`) {
		t.Errorf("the call: %s", text)
	}
	before := len(p.All())
	ada.get("/connect/acme?scopes=custom_scope+offline_access")
	if n := len(p.All()) - before; n != 0 {
		t.Errorf("%d requests for a link whose scopes are known", n)
	}
}
