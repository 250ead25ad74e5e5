package consent_test

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

var nonces = regexp.MustCompile(`nonce="[^"]*"|name="user" value="[^"]*"`)

// TestS190VictimOpensALink: a link has nothing that is anybody's. Who follows it connects an account of their own.
func TestS190VictimOpensALink(t *testing.T) {
	b := newBed(t)
	ada, mallory := b.browser(t, "ada"), b.browser(t, "mallory")
	const link = "/connect/acme?scopes=openid+custom_scope"
	same := func(a answer, user string) string {
		return strings.ReplaceAll(nonces.ReplaceAllString(a.body, ""), user, "")
	}
	if same(ada.get(link), "ada") != same(mallory.get(link), "mallory") {
		t.Error("the page differs by more than its user")
	}
	if a := ada.get(b.login.URL + "/"); a.status == 0 {
		t.Fatal("no login")
	}
	if a := ada.get(ada.consent(ada.begin(link))); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if !ada.connected() || mallory.connected() {
		t.Error("the account went to another principal")
	}
}

// TestS191ScopesInALink: of the scopes in a link, only those are asked for that the provider or the operator has named.
func TestS191ScopesInALink(t *testing.T) {
	b := newBed(t, "")
	ada := b.browser(t, "ada")
	for link, want := range map[string]string{
		"/connect/acme": "custom_scope offline_access openid", "/connect/acme?scopes=openid+admin": "openid", "/connect/acme?scopes=admin": "custom_scope offline_access openid",
		"/connect/acme?scopes=openid&scopes=admin": "openid", "/connect/acme?scopes=openid%0Aadmin%20openid": "openid",
	} {
		if found := hidden.FindStringSubmatch(ada.get(link).body); found == nil || found[1] != want {
			t.Errorf("%s asks for %q, want %q", link, found, want)
		}
	}
	form := url.Values{"do": {"connect"}, "scopes": {"openid admin"}}
	a := ada.send(http.MethodPost, "/connect/acme", form.Encode(), "Origin", b.base)
	if to, err := url.Parse(a.location()); err != nil || to.Query().Get("scope") != "openid" {
		t.Errorf("the form asks for more: %s", a.location())
	}
	ada.connect()
	if found := hidden.FindStringSubmatch(ada.get("/connect/acme?scopes=openid").body); found[1] != "custom_scope offline_access openid" {
		t.Errorf("after a consent, a link asks for %s", found[1])
	}
}

// TestS192ForwardedAuthorizationURL: who consents at an authorization URL of somebody else's flow gives nobody anything: the code is not used.
func TestS192ForwardedAuthorizationURL(t *testing.T) {
	b := newBed(t)
	mallory, ada := b.browser(t, "mallory"), b.browser(t, "ada")
	forwarded := mallory.begin("/connect/acme")
	ada.refused(ada.consent(forwarded), http.StatusBadRequest, "This browser has begun nothing")
	if mallory.connected() {
		t.Error("the attacker has the victim's account")
	}
}

// TestS193CodeOfAnAttacker: a callback with an attacker's code in a browser whose user has begun a flow is refused.
func TestS193CodeOfAnAttacker(t *testing.T) {
	b := newBed(t)
	mallory, ada := b.browser(t, "mallory"), b.browser(t, "ada")
	stolen := mallory.consent(mallory.begin("/connect/acme"))
	own := ada.consent(ada.begin("/connect/acme"))
	ada.refused(stolen, http.StatusBadRequest, "not for what this browser has begun last")
	for _, state := range []string{"", "x", strings.ToLower(queryOf(t, own).Get("state"))} {
		ada.refused(with(t, own, "state", state), http.StatusBadRequest, "not for what this browser has begun last")
	}
	if a := ada.get(own); a.status != http.StatusSeeOther || !ada.connected() {
		t.Errorf("her own: %d %s", a.status, a.body)
	}
	// The code of an attacker with her own state: PKCE binds it to the attacker's verifier.
	swapped := with(t, ada.consent(ada.begin("/connect/acme")), "code", queryOf(t, mallory.consent(mallory.begin("/connect/acme"))).Get("code"))
	if a := ada.get(swapped); a.status != http.StatusBadGateway || !strings.Contains(a.body, "Nothing was connected.") {
		t.Errorf("a code of another flow: %d %s", a.status, a.body)
	}
}

// TestS194CallbackOfAnotherPrincipal: a flow ends with the principal that has begun it, also if the browser now has another one.
func TestS194CallbackOfAnotherPrincipal(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	ada.user = "mallory"
	ada.refused(callback, http.StatusForbidden, "Another user of this bridge has begun this")
	ada.user = "ada"
	ada.refused(callback, http.StatusBadRequest, "This browser has begun nothing") // the cookie is deleted
}

// TestS195CallbackOfAnotherSource: neither a callback nor a cookie of one source serves another, and a code goes to the endpoint of its own flow only.
func TestS195CallbackOfAnotherSource(t *testing.T) {
	b := twoSources(t)
	ada := b.browser(t, "ada")
	acme := ada.consent(ada.begin("/connect/acme"))
	moved := strings.Replace(acme, "/connect/acme/", "/connect/other/", 1)
	ada.refused(moved, http.StatusBadRequest, "This browser has begun nothing")
	ada.begin("/connect/other")
	ada.refused(moved, http.StatusBadRequest, "not for what this browser has begun last")
	site, err := url.Parse(b.base)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range ada.jar.Cookies(site) {
		names = append(names, c.Name)
	}
	values := ada.jar.Cookies(site)
	if len(names) != 2 || names[0] == names[1] {
		t.Fatalf("the cookies are %v", names)
	}
	ada.jar.SetCookies(site, []*http.Cookie{{Name: names[0], Value: values[1].Value, Path: "/"}, {Name: names[1], Value: values[0].Value, Path: "/"}})
	ada.refused(acme, http.StatusBadRequest, "can’t be finished here")
	ada.refused(moved, http.StatusBadRequest, "can’t be finished here")
}

// TestS196CallbackTwice: a flow is finished once, also if the browser still has its cookie.
// S380: also after later flows, and after Disconnect. Servers that see a code twice may end all tokens of the user.
func TestS196CallbackTwice(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	site, _ := url.Parse(b.base)
	kept := ada.jar.Cookies(site)
	if a := ada.get(callback); a.status != http.StatusSeeOther || !strings.Contains(strings.Join(a.header["Set-Cookie"], " "), "Max-Age=0") {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	for _, c := range kept {
		ada.jar.SetCookies(site, []*http.Cookie{{Name: c.Name, Value: c.Value, Path: "/"}})
	}
	before := b.login.tokens.Load()
	if a := ada.get(callback); a.status != http.StatusBadRequest || strings.Contains(a.body, "Nothing was connected") || b.login.tokens.Load() != before || !ada.connected() {
		t.Errorf("a second time: %d %s, %d token requests", a.status, a.body, b.login.tokens.Load()-before)
	}
	for _, disconnect := range []bool{false, false, true, false} {
		ada.connect()
		if disconnect {
			ada.form("/connect/acme", "disconnect")
		}
		before = b.login.tokens.Load()
		a := b.browser(t, "ada").get(callback, "Cookie", kept[0].Name+"="+kept[0].Value)
		if a.status == http.StatusSeeOther || !strings.Contains(a.body, "finished before") || b.login.tokens.Load() != before || ada.connected() == disconnect {
			t.Errorf("after a later flow, disconnected: %t: %d %s, %d token requests", disconnect, a.status, a.body, b.login.tokens.Load()-before)
		}
	}
}

// TestS198Issuer: an answer of another issuer is refused (RFC 9207), and so is one without an issuer if the server's metadata says that it names one.
func TestS198Issuer(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	refused := func(iss string) {
		t.Helper()
		before := b.login.tokens.Load()
		if a := ada.get(with(t, ada.consent(ada.begin("/connect/acme")), "iss", iss)); a.status == http.StatusSeeOther || b.login.tokens.Load() != before || ada.connected() {
			t.Errorf("iss=%s: %d %s", iss, a.status, a.body)
		}
	}
	refused("https://evil.example")
	refused("")
	refused(strings.Replace(b.login.URL, "http:", "https:", 1))
	if a := ada.get(with(t, ada.consent(ada.begin("/connect/acme")), "iss", b.login.URL)); a.status != http.StatusSeeOther || !ada.connected() {
		t.Errorf("its own issuer: %d %s", a.status, a.body)
	}
}

// TestS199FlowsAtOnce: a new flow of a source replaces the old one, those of others stay, and a browser has eight at most.
func TestS199FlowsAtOnce(t *testing.T) {
	b := twoSources(t)
	ada := b.browser(t, "ada")
	first, other := ada.consent(ada.begin("/connect/acme")), ada.consent(ada.begin("/connect/other"))
	second := ada.consent(ada.begin("/connect/acme"))
	ada.refused(first, http.StatusBadRequest, "not for what this browser has begun last")
	for _, callback := range []string{other, second} {
		if a := ada.get(callback); a.status != http.StatusSeeOther {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	site, _ := url.Parse(b.base)
	var many []*http.Cookie
	for _, n := range "abcdefghij" {
		many = append(many, &http.Cookie{Name: "skill_bridge_flow_0000000" + string(n), Value: "x", Path: "/"})
	}
	ada.jar.SetCookies(site, many)
	ada.begin("/connect/acme")
	if n := len(ada.jar.Cookies(site)); n != 8 {
		t.Errorf("the browser has %d flows", n)
	}
}

// TestS200MixUp: a code that an honest server issues in a flow with a malicious one is sent to neither.
func TestS200MixUp(t *testing.T) {
	b := twoSources(t)
	ada := b.browser(t, "ada")
	evil := queryOf(t, ada.begin("/connect/other")) // the malicious server sends the browser on to the honest one, with its own state
	honest := queryOf(t, b.browser(t, "mallory").begin("/connect/acme"))
	honest.Set("state", evil.Get("state"))
	honest.Set("code_challenge", evil.Get("code_challenge"))
	ada.refused(ada.consent(b.login.URL+"/authorize?"+honest.Encode()), http.StatusBadRequest, "This browser has begun nothing")
}

// TestS201HostileAddresses: a descriptor sends users only to the provider's own host or a trusted one.
func TestS201HostileAddresses(t *testing.T) {
	s := newLogin(t)
	for name, edit := range map[string]func(oauth hostile.Object){
		"authorization at another host": func(o hostile.Object) { o["authorization_url"] = "http://127.0.0.2:81/authorize" },
		"a script":                      func(o hostile.Object) { o["authorization_url"] = "javascript:alert(1)//127.0.0.1" },
		"a user before the host": func(o hostile.Object) {
			o["authorization_url"] = strings.Replace(s.URL, "http://", "http://evil@", 1) + "/authorize"
		},
		"tokens at another host": func(o hostile.Object) { o["token_url"] = "http://127.0.0.2:81/token" },
		"a policy in the host":   func(o hostile.Object) { o["authorization_url"] = "http://a;script-src *;b/authorize" },
	} {
		skills := s.skills(scopes)
		edit(skills[0].Auth["oauth2"].(hostile.Object))
		p := hostile.NewProvider(t, skills...)
		b := start(t, s, p, site(t, source(p, "acme", s)))
		ada, before := b.browser(t, "ada"), s.seen.Load()
		page := ada.get("/connect/acme")
		form := ada.send(http.MethodPost, "/connect/acme", "do=connect", "Origin", b.base)
		if form.status == http.StatusSeeOther || form.location() != "" || form.header.Get("Set-Cookie") != "" || s.seen.Load() != before {
			t.Errorf("%s: %d %s", name, form.status, form.location())
		}
		if policy := page.header.Get("Content-Security-Policy"); strings.Contains(policy, "127.0.0.2") || strings.Contains(policy, "script-src") {
			t.Errorf("%s: %s", name, policy)
		}
		b.Stop()
	}
}

// TestS201DescriptorOfAStranger: a descriptor from a host that gets no credentials does not say what users are asked for.
func TestS201DescriptorOfAStranger(t *testing.T) {
	s := newLogin(t)
	stranger := hostile.NewProvider(t, s.skills(hostile.Object{"openid": "Nothing.", "stolen": "Everything."})...)
	p := hostile.NewProvider(t, hostile.Skill{ID: "book", DescriptorURL: stranger.URLOf("book", hostile.Descriptor)})
	b := start(t, s, p, site(t, "allow_ports "+stranger.URL()[strings.LastIndex(stranger.URL(), ":")+1:], source(p, "acme", s)))
	ada := b.browser(t, "ada")
	if a := ada.get("/connect/acme?scopes=stolen"); a.status != http.StatusOK || strings.Contains(a.body, "stolen") || strings.Contains(a.body, `value="connect"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if len(stranger.All()) == 0 {
		t.Error("the descriptor was not read")
	}
}

// TestS202OpenRedirect: there is no parameter that says where the browser goes.
func TestS202OpenRedirect(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	const evil = "?next=https://evil.example&return_to=https://evil.example&redirect_uri=https://evil.example&url=//evil.example"
	callback := ada.consent(ada.begin("/connect/acme" + evil))
	if strings.Contains(callback, "evil") {
		t.Fatal(callback)
	}
	if a := ada.get(callback + "&" + evil[1:]); a.status != http.StatusSeeOther || a.location() != b.base+"/connect/acme" {
		t.Errorf("%d %s", a.status, a.location())
	}
	for _, path := range []string{"/connect//evil.example", "/connect/%2F%2Fevil.example", "/connect/acme/callback//evil.example", "/connect/..%2Fevil", "/connect/acme/other"} {
		if a := ada.get(path); a.status < 400 || a.location() != "" || strings.Contains(a.body, `href="//`) {
			t.Errorf("%s: %d %s", path, a.status, a.location())
		}
	}
}

const evilText = `</style><script>alert(1)</script><img src=x onerror=alert(2)>"'{{.Nonce}}` + "\u202e\x1b[2J"

// TestS203HostileTexts: texts of others are text, and short.
func TestS203HostileTexts(t *testing.T) {
	s := newLogin(t)
	named := hostile.Object{"openid": evilText + strings.Repeat("x", 5000), `"><script>`: "y"}
	skills := s.skills(named)
	skills[0].Edit = func(d hostile.Object) {
		d["provider"], d["name"], d["description"] = hostile.Object{"name": evilText + strings.Repeat("y", 5000)}, evilText, evilText
	}
	p := hostile.NewProvider(t, skills...)
	b := start(t, s, p, site(t, source(p, "acme", s)))
	ada := b.browser(t, evilText[:60])
	ada.user = "<script>alert(3)</script>"
	callback := "/connect/acme/callback?state=" + url.QueryEscape(evilText) + "&error=" + url.QueryEscape(evilText)
	for _, path := range []string{"/connect", "/connect/acme?scopes=" + url.QueryEscape(evilText), "/connect/" + url.PathEscape(evilText), callback} {
		a := ada.get(path)
		for _, bad := range []string{"<script", "<img", "\u202e", "\x1b"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s has %q: %s", path, bad, a.body)
			}
		}
		if len(a.body) > 25_000 || strings.Count(a.body, "<style") != 1 || !strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %d bytes, %v", path, len(a.body), a.header)
		}
	}
}

// TestS204FormsOfOtherSites: only the page's own form does anything.
func TestS204FormsOfOtherSites(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	ada.connect()
	for name, header := range map[string][]string{
		"no origin": {"Origin", ""}, "null": {"Origin", "null"}, "another": {"Origin", "http://evil.example"}, "another port": {"Origin", "http://127.0.0.1:1"}, "no URL": {"Origin", "http://%zz"},
		"another scheme": {"Origin", strings.Replace(b.base, "http:", "https:", 1)}, "cross-site": {"Sec-Fetch-Site", "cross-site"}, "same-site": {"Sec-Fetch-Site", "same-site"},
		"none": {"Sec-Fetch-Site", "none"}, "plain text": {"Content-Type", "text/plain"}, "multipart": {"Content-Type", "multipart/form-data; boundary=x"},
	} {
		for _, do := range []string{"connect", "disconnect"} {
			if a := ada.form("/connect/acme", do, header...); a.status != http.StatusForbidden || a.location() != "" || len(a.header["Set-Cookie"]) != 0 || !ada.connected() {
				t.Errorf("%s, %s: %d %s", name, do, a.status, a.location())
			}
		}
	}
	if lines := b.Log.Lines("a caller was refused: a form of another site"); len(lines) != 3 || !strings.Contains(strings.Join(lines, ""), `"principal":"ada"`) {
		t.Errorf("the log does not say whose form was refused: %s", lines)
	}
	if a := ada.send(http.MethodPost, "/connect/acme", "do=disconnect&x="+strings.Repeat("x", 40_000), "Origin", b.base); a.status != http.StatusBadRequest || !ada.connected() {
		t.Errorf("a large form: %d", a.status)
	}
	if a := ada.form("/connect/acme", "disconnect", "Sec-Fetch-Site", ""); a.status != http.StatusSeeOther || ada.connected() {
		t.Errorf("an old browser: %d", a.status)
	}
}

// TestS392FormOfAnotherUser: a page says whose accounts it is about. If the browser has logged in as another user meanwhile, as by a forged login in another
// tab, its form neither connects the account of the one user for the other, nor disconnects one.
func TestS392FormOfAnotherUser(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	ada.connect()
	page := ada.get("/connect/acme").body
	ada.user = "mallory"
	ada.connect()
	for _, do := range []string{"connect", "disconnect"} {
		a := ada.post("/connect/acme", page, do)
		if a.status != http.StatusForbidden || a.location() != "" || len(a.header["Set-Cookie"]) != 0 || !strings.Contains(a.body, "signed in as another user") || !ada.connected() {
			t.Errorf("%s: %d %s %s", do, a.status, a.location(), a.body)
		}
	}
	if n := len(b.Log.Lines("a caller was refused: a form of the page of another principal", `"principal":"mallory"`)); n != 1 {
		t.Errorf("%d lines", n)
	}
	ada.user = "ada"
	if a := ada.post("/connect/acme", page, "disconnect"); a.status != http.StatusSeeOther || ada.connected() {
		t.Errorf("her own: %d %s", a.status, a.body)
	}
}

// TestS205GetStartsNothing: a GET request neither begins nor ends anything, whatever its query says, and asks no login.
func TestS205GetStartsNothing(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	ada.connect()
	before := b.login.seen.Load()
	for _, path := range []string{"/connect", "/connect/", "/connect/acme", "/connect/acme/", "/connect/acme?do=disconnect", "/connect/acme?do=connect&scopes=openid"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if a := ada.send(method, path, "", "Origin", b.base); a.status != http.StatusOK || len(a.header["Set-Cookie"]) != 0 {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions} {
		for path, allowed := range map[string]string{"/connect": "GET, HEAD", "/connect/acme": "GET, HEAD, POST", "/connect/acme/callback": "GET"} {
			if a := ada.send(method, path, "do=disconnect", "Origin", b.base); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allowed {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
		}
	}
	for _, path := range []string{"/connect/acme/callback?do=disconnect", "/connect"} {
		if a := ada.send(http.MethodPost, path, "do=disconnect", "Origin", b.base); a.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, a.status)
		}
	}
	if !ada.connected() || b.login.seen.Load() != before {
		t.Error("a request without a form has done something")
	}
}

// TestS206Headers: pages are not kept, not framed, load nothing, and lead only to the logins that they name.
func TestS206Headers(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	for path, referrer := range map[string]string{"/connect": "same-origin", "/connect/acme": "same-origin", "/connect/nope": "same-origin", "/connect/acme/callback": "no-referrer"} {
		a := ada.get(path)
		policy := a.header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none';", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: %s lacks %s", path, policy, want)
			}
		}
		if shown := strings.Contains(a.body, "<form"); shown != strings.Contains(policy, "form-action 'self' "+b.login.URL+";") {
			t.Errorf("%s: %s", path, policy)
		}
		for name, want := range map[string]string{
			"Cache-Control": "no-store", "Referrer-Policy": referrer, "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin", "Content-Type": "text/html; charset=utf-8",
		} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(a.body, "<script") || strings.Contains(a.body, "src=") {
			t.Errorf("%s loads something: %s", path, a.body)
		}
	}
}

// TestPolicyOfLogins: the policy lets browsers go on to each login. They ignore a source that is not of its grammar.
func TestPolicyOfLogins(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	of := func(login string) string {
		return site(t, source(p, "acme", s, "token_url "+s.URL+"/oauth/token", "authorization_url "+login+"/authorize"))
	}
	b := start(t, s, p, of(s.URL))
	for login, want := range map[string]string{
		s.URL: s.URL, "https://login.example": "https://login.example", "https://Login.example:8443": "https://login.example:8443",
		"http://[::1]:8080": "http:", "https://münchen.example": "https://xn--mnchen-3ya.example", "https://log_in.example": "https:", "https://a;script-src": "https:",
	} {
		if err := b.Reload(of(login)); err != nil {
			t.Fatal(err)
		}
		a := b.browser(t, "ada").get("/connect/acme")
		if policy := a.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+want+";") || !strings.Contains(a.body, "<form") {
			t.Errorf("%s: %s", login, policy)
		}
	}
}

// TestS207SecretsOfFlows: codes, states, verifiers and tokens are in no log, no page and no answer to agents.
func TestS207SecretsOfFlows(t *testing.T) {
	b := newBed(t, "audit")
	ada := b.browser(t, "ada")
	to := ada.begin("/connect/acme")
	callback := ada.consent(to)
	code := queryOf(t, callback).Get("code")
	ada.refused(with(t, callback, "state", "x"), http.StatusBadRequest, "not for what this browser has begun last")
	ada.get(callback, "X-User", "")
	ada.get(callback)
	page := ada.get("/connect/acme")
	call := ada.send(http.MethodPost, "/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`, "Content-Type", "application/json")
	b.login.mu.Lock()
	verifier, answer := b.login.form.Get("code_verifier"), b.login.answer
	b.login.mu.Unlock()
	secrets := []string{code, verifier}
	for _, found := range regexp.MustCompile(`"(?:access|refresh|id)_token":"([^"]+)"`).FindAllStringSubmatch(answer, -1) {
		secrets = append(secrets, found[1])
	}
	if len(secrets) != 5 || slices.Contains(secrets, "") || !ada.connected() {
		t.Fatalf("%q of %s", secrets, answer)
	}
	for _, secret := range secrets {
		if b.Log.Has(secret) || strings.Contains(page.body+call.body, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	if !b.Log.Has(`"uri":"/connect/acme"`) || b.Log.Has("/connect/acme/callback") {
		t.Error("the access log has the callback, or lacks the page")
	}
}

// TestS208Strangers: who is nobody, or may be several, learns nothing of the sources, and causes no request.
func TestS208Strangers(t *testing.T) {
	b := newBed(t)
	nobody := b.browser(t, "")
	for _, path := range []string{"/connect", "/connect/acme", "/connect/nope"} {
		for _, header := range [][]string{{"X-User", ""}, {"X-User", "ada,bob"}, {"X-User", "ada\u00a0"}} {
			if a := nobody.get(path, header...); a.status != http.StatusForbidden || strings.Contains(a.body, "Acme") || strings.Contains(a.body, "<form") {
				t.Errorf("%s %q: %d %s", path, header, a.status, a.body)
			}
		}
	}
	if a := nobody.send(http.MethodPost, "/connect/acme", "do=connect", "Origin", b.base); a.status != http.StatusForbidden || a.location() != "" {
		t.Errorf("a form: %d %s", a.status, a.location())
	}
	if n := len(b.provider.All()) + int(b.login.seen.Load()); n != 0 {
		t.Errorf("strangers have caused %d requests", n)
	}
}

// TestS209DeniedSources: a source that the access rules hide is as one that does not exist.
func TestS209DeniedSources(t *testing.T) {
	b := newBed(t, "access {\n\t\tallow ada *\n\t\tdeny * *\n\t}")
	bob := b.browser(t, "bob")
	hiddenPage, none := bob.get("/connect/acme"), bob.get("/connect/nope")
	if hiddenPage.status != http.StatusNotFound || strings.ReplaceAll(nonces.ReplaceAllString(hiddenPage.body, ""), "acme", "nope") != nonces.ReplaceAllString(none.body, "") {
		t.Errorf("%d %s", hiddenPage.status, hiddenPage.body)
	}
	if a := bob.get("/connect"); strings.Contains(a.body, "acme") || strings.Contains(a.body, "<form") {
		t.Error(a.body)
	}
	if a := bob.send(http.MethodPost, "/connect/acme", "do=connect", "Origin", b.base); a.status != http.StatusNotFound || a.location() != "" {
		t.Errorf("%d %s", a.status, a.location())
	}
	if n := len(b.provider.All()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// TestS210Cookies: the cookie is for the bridge's server only, says nothing, and can't be changed.
func TestS210Cookies(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	a := ada.form("/connect/acme", "connect")
	if len(a.header["Set-Cookie"]) != 1 {
		t.Fatalf("%v", a.header)
	}
	c, err := http.ParseSetCookie(a.header["Set-Cookie"][0])
	if err != nil || !regexp.MustCompile(`^skill_bridge_flow_[0-9a-f]{8}$`).MatchString(c.Name) || c.Path != "/" || c.Domain != "" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge < 590 || c.MaxAge > 600 {
		t.Fatalf("%+v, %v", c, err)
	}
	state := queryOf(t, a.location()).Get("state")
	plain, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || strings.Contains(string(plain), state) || strings.Contains(string(plain), "acme") {
		t.Errorf("the cookie can be read: %q, %v", plain, err)
	}
	callback := ada.consent(a.location())
	site, _ := url.Parse(b.base)
	for _, i := range []int{0, 1, 5, 29, len(plain) - 1} {
		changed := slices.Clone(plain)
		changed[i] ^= 1
		ada.jar.SetCookies(site, []*http.Cookie{{Name: c.Name, Value: base64.RawURLEncoding.EncodeToString(changed), Path: "/"}})
		ada.refused(callback, http.StatusBadRequest, "can’t be finished here")
	}
	ada.jar.SetCookies(site, []*http.Cookie{{Name: c.Name, Value: c.Value, Path: "/"}})
	ada.refused(callback, http.StatusBadRequest, "This browser has begun nothing", "Cookie", c.Name+"=x")
}

// TestS211ErrorsOfLogins: the page says in words of its own what a login refuses.
func TestS211ErrorsOfLogins(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	for code, want := range map[string]string{"access_denied": "did not allow it", "temporarily_unavailable": "not available at the moment", "<b>x": "refuses the request of this bridge", "": "refuses the request of this bridge"} {
		callback := ada.consent(ada.begin("/connect/acme"))
		u, _ := url.Parse(callback)
		query := url.Values{"state": {queryOf(t, callback).Get("state")}, "error": {code}, "error_description": {"Call 555-0100 now"}, "error_uri": {"https://evil.example"}}
		u.RawQuery = query.Encode()
		ada.refused(u.String(), http.StatusBadRequest, want)
		if a := ada.get(u.String()); strings.Contains(a.body, "555-0100") || strings.Contains(a.body, "evil") || !strings.Contains(a.body, "begun nothing") {
			t.Errorf("%s: %s", code, a.body)
		}
	}
}

// TestS212RepeatedParameters: no parameter of a callback counts twice.
func TestS212RepeatedParameters(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	for _, name := range []string{"code", "state", "error", "iss"} {
		ada.refused(callback+"&"+name+"=x&"+name+"=y", http.StatusBadRequest, "twice")
	}
	if a := ada.get(callback); a.status != http.StatusSeeOther {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestS213CallbackWithoutAPrincipal: a login whose cookie browsers do not send after a link of another site gets a page with one link. Nobody else does.
func TestS213CallbackWithoutAPrincipal(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	before := b.login.tokens.Load()
	a := ada.get(callback, "X-User", "")
	link := regexp.MustCompile(`href="(\?[^"]*)"`).FindAllStringSubmatch(a.body, -1)
	if a.status != http.StatusOK || len(link) != 1 || !strings.Contains(a.body, "Continue") || strings.Contains(a.body, "<form") || a.header.Get("Referrer-Policy") != "no-referrer" || b.login.tokens.Load() != before {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	if n := len(b.Log.Lines(`"level":"warn"`, "SameSite=Strict", `"source":"acme"`)); n != 1 || !strings.Contains(a.body, "Nothing is connected yet") {
		t.Errorf("%d lines for the operator, and the page %s", n, a.body)
	}
	for _, other := range []string{with(t, callback, "state", "x"), callback + "&code=y", "/connect/acme/callback"} {
		if a := ada.get(other, "X-User", ""); a.status != http.StatusBadRequest || strings.Contains(a.body, "Continue") {
			t.Errorf("%s: %d", other, a.status)
		}
	}
	if a := b.browser(t, "").get(callback); a.status != http.StatusBadRequest || strings.Contains(a.body, "Continue") {
		t.Errorf("without the cookie: %d", a.status)
	}
	path, _, _ := strings.Cut(callback, "?")
	if a := ada.get(path + strings.ReplaceAll(link[0][1], "&amp;", "&")); a.status != http.StatusSeeOther || !ada.connected() {
		t.Errorf("the link: %d %s", a.status, a.body)
	}
}

// TestS346CallbackByOtherMethods: only GET uses a code.
func TestS346CallbackByOtherMethods(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	callback := ada.consent(ada.begin("/connect/acme"))
	before := b.login.tokens.Load()
	for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodOptions, "FOO"} {
		if a := ada.send(method, callback, "", "Origin", b.base); a.status != http.StatusMethodNotAllowed || len(a.header["Set-Cookie"]) != 0 || b.login.tokens.Load() != before {
			t.Errorf("%s: %d, %d token requests", method, a.status, b.login.tokens.Load()-before)
		}
	}
	if a := ada.get(callback); a.status != http.StatusSeeOther || !ada.connected() {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestS347DisconnectWithoutTheProvider: a provider that hangs does not delay the end of an account.
func TestS347DisconnectWithoutTheProvider(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	ada.connect()
	b.provider.On("", hostile.Index, hostile.Hang())
	if err := b.Reload(strings.Replace(b.caddyfile, "connect {", "max_response_size 3MB\n\tconnect {", 1)); err != nil {
		t.Fatal(err)
	}
	ada.CloseIdleConnections() // the reload may close them, and a POST request is not repeated
	began := time.Now()
	a := ada.send(http.MethodPost, "/connect/acme", "do=disconnect", "Origin", b.base)
	if took := time.Since(began); a.status != http.StatusSeeOther || took > 3*time.Second {
		t.Errorf("%d %s after %v", a.status, a.body, took)
	}
}

// TestS214Hosts: the host that a request names is nowhere in redirect URIs and links.
func TestS214Hosts(t *testing.T) {
	b := newBed(t)
	ada := b.browser(t, "ada")
	header := []string{"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https", "Forwarded", "host=evil.example"}
	page := ada.get("/connect/acme", header...)
	a := ada.form("/connect/acme", "connect", header...)
	if strings.Contains(page.body, "evil") || queryOf(t, a.location()).Get("redirect_uri") != b.base+"/connect/acme/callback" {
		t.Errorf("%s", a.location())
	}
}

// TestS215ReloadDuringAFlow: a flow that was begun before a reload is finished after it, also by another bridge with the same seal_key and database; one with
// another key refuses it, and so does one whose client is another.
func TestS215ReloadDuringAFlow(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	file := filepath.Join(t.TempDir(), "skills.db")
	caddyfile := func(key string, edit ...string) string {
		return strings.NewReplacer(edit...).Replace(strings.ReplaceAll(siteWith(file, key, source(p, "acme", s)), "{$PORT}", port))
	}
	port = testbed.FreePort(t)
	b := &bed{login: s, provider: p, base: "http://127.0.0.1:" + port}
	b.Caddy = testbed.StartCaddy(t, caddyfile(sealKey))
	s.register(t, b.base+"/connect/acme/callback")
	ada := b.browser(t, "ada")
	for _, tc := range []struct {
		key  string
		edit []string
		ok   bool
	}{{anotherKey, nil, false}, {sealKey, []string{"client_id web", "client_id other"}, false}, {sealKey, nil, true}} {
		callback := ada.consent(ada.begin("/connect/acme"))
		before := s.tokens.Load()
		b.Stop()
		b.Caddy = testbed.StartCaddy(t, caddyfile(tc.key, tc.edit...))
		if a := ada.get(callback); (a.status == http.StatusSeeOther) != tc.ok || !tc.ok && s.tokens.Load() != before {
			t.Errorf("%s %v: %d %s", tc.key, tc.edit, a.status, a.body)
		}
		if got := b.Log.Has("can't be opened: an instance with another seal_key"); got != (tc.key == anotherKey) {
			t.Errorf("%s %v: the operator is told of another seal_key: %t", tc.key, tc.edit, got)
		}
		if ada.connected() != tc.ok {
			t.Errorf("%s %v: connected: %t", tc.key, tc.edit, !tc.ok)
		}
		b.Stop()
		b.Caddy = testbed.StartCaddy(t, caddyfile(sealKey))
	}
}

var port string

// twoSources is a bridge with two providers, acme and other, of two logins.
func twoSources(t *testing.T) *bed {
	t.Helper()
	s, second := newLogin(t), newLogin(t)
	p, q := hostile.NewProvider(t, s.skills(scopes)...), hostile.NewProvider(t, second.skills(scopes)...)
	b := start(t, s, p, site(t, source(p, "acme", s), source(q, "other", second)))
	second.register(t, b.base+"/connect/acme/callback", b.base+"/connect/other/callback")
	return b
}

func queryOf(t *testing.T, at string) url.Values {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// with returns a URL with another value of a parameter; empty: the parameter is sent empty.
func with(t *testing.T, at, name, value string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

// TestS217PrincipalsOfBrowsers: browsers may authenticate otherwise than calls do. The principal is the same text, and no part of it may be empty, nor may all of it
// be the same for all users.
func TestS217PrincipalsOfBrowsers(t *testing.T) {
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	keys := filepath.Join(t.TempDir(), "callers")
	line, err := callers.Line("staff:ada", "the-key-of-ada-which-is-long-enough")
	if err == nil {
		err = os.WriteFile(keys, []byte(line), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	caddyfile := strings.NewReplacer("principal {http.request.header.X-User}", "callers_file "+keys, "/connect\n\t\t}", "/connect\n\t\tprincipal staff:{http.request.header.X-User}\n\t\t}").
		Replace(site(t, source(p, "acme", s)))
	b := start(t, s, p, caddyfile)
	ada := b.browser(t, "ada")
	ada.connect()
	const call = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.book"}}`
	if a := ada.send(http.MethodPost, "/rpc", call, "Content-Type", "application/json", "Authorization", "Bearer the-key-of-ada-which-is-long-enough"); !strings.Contains(a.body, `"status":"completed"`) {
		t.Errorf("the call: %s", a.body)
	}
	if a := ada.get("/connect/acme", "X-User", ""); a.status != http.StatusForbidden {
		t.Errorf("nobody: %d", a.status)
	}
	if a := ada.get("/connect/acme", "X-User", "", "Authorization", "Bearer the-key-of-ada-which-is-long-enough"); a.status != http.StatusForbidden {
		t.Errorf("a key instead of a login: %d", a.status)
	}
	for _, shared := range []string{"staff", "{env.USER}", "staff:{env.USER}-{system.hostname}", "{file./etc/hostname}"} {
		if err := b.Reload(strings.Replace(caddyfile, "staff:{http.request.header.X-User}", shared, 1)); err == nil || !strings.Contains(err.Error(), "all users would share one account") {
			t.Errorf("%s: %v", shared, err)
		}
	}
}
