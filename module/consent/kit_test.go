package consent_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

const (
	clientSecret = "c4n4ry-s3cr3t"
	sealKey      = "00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210"
	anotherKey   = "ffeeddccbbaa99887766554433221100fedcba98765432100123456789abcdef"
)

// login is an authorization server of another project, with the storage of that project's example and one page, on which its user signs in and consents.
type login struct {
	*httptest.Server
	provider op.OpenIDProvider
	storage  *storage.Storage
	tokens   atomic.Int32 // requests to the token endpoint
	revoked  atomic.Int32
	seen     atomic.Int32  // all requests
	slow     time.Duration // before a token request is answered
	onlyBody bool          // clients that authenticate in the header are refused
	granted  string        // the scopes that answers to token requests name; empty: none

	mu     sync.Mutex
	form   url.Values // of the last token request
	answer string     // to it
}

const loginPage = `<!doctype html><html lang="en"><title>Sign in</title><form method="post" action="/login/username"><input type="hidden" name="id" value="%s">
<label>User <input name="username"></label> <label>Password <input name="password" type="password"></label> <button>Allow</button></form>`

func newLogin(t *testing.T) *login {
	t.Helper()
	s := new(login)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// register registers the client web with redirect URIs.
func (s *login) register(t *testing.T, redirects ...string) {
	t.Helper()
	s.storage = storage.NewStorageWithClients(storage.NewUserStore(s.URL), map[string]*storage.Client{"web": storage.WebClient("web", clientSecret, redirects...)})
	provider, err := op.NewProvider(
		&op.Config{CryptoKey: sha256.Sum256([]byte("test")), CodeMethodS256: true, AuthMethodPost: true, GrantTypeRefreshToken: true},
		s.storage, op.StaticIssuer(s.URL), op.WithAllowInsecure(), op.WithLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		t.Fatal(err)
	}
	s.provider = provider
}

func (s *login) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.seen.Add(1)
	switch r.URL.Path {
	case "/login/username":
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, loginPage, html.EscapeString(r.URL.Query().Get("authRequestID")))
			return
		}
		if err := s.storage.CheckUsernamePassword(r.FormValue("username"), r.FormValue("password"), r.FormValue("id")); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		http.Redirect(w, r, s.URL+"/authorize/callback?id="+r.FormValue("id"), http.StatusFound)
		return
	case "/oauth/token":
		s.tokens.Add(1)
		_ = r.ParseForm()
		time.Sleep(s.slow)
		if _, _, header := r.BasicAuth(); header && s.onlyBody {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
			return
		}
		recorder := httptest.NewRecorder()
		s.provider.ServeHTTP(recorder, r)
		s.mu.Lock()
		s.form, s.answer = r.PostForm, recorder.Body.String()
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorder.Code)
		if s.granted != "" {
			recorder.Body = bytes.NewBufferString(strings.TrimSuffix(strings.TrimSpace(recorder.Body.String()), "}") + `,"scope":"` + s.granted + `"}`) // the last one counts
		}
		_, _ = io.Copy(w, recorder.Body)
		return
	case "/revoke":
		if _, _, header := r.BasicAuth(); header && s.onlyBody {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		s.revoked.Add(1)
	}
	s.provider.ServeHTTP(w, r)
}

// scopes are what the skills of a provider ask for.
var scopes = hostile.Object{"openid": "Know who you are.", "custom_scope": "Book tables in your name.", "offline_access": "Act while you are away."}

// skills are those of a provider whose login is the server.
func (s *login) skills(scopes hostile.Object) []hostile.Skill {
	auth := hostile.Object{"type": "oauth2", "oauth2": hostile.Object{"authorization_url": s.URL + "/authorize", "token_url": s.URL + "/oauth/token", "scopes": scopes}}
	return []hostile.Skill{{ID: "book", Auth: auth, Edit: func(d hostile.Object) { d["provider"] = hostile.Object{"name": "Acme Tables"} }}, {ID: "menu"}}
}

// source returns the lines of a provider with accounts.
func source(p *hostile.Provider, namespace string, trusted *login, lines ...string) string {
	trust := strings.TrimPrefix(trusted.URL, "http://")
	return "provider " + p.URL() + " {\n\tnamespace " + namespace + "\n\ttrust " + trust + "\n\tcredentials oauth2_user {\n\t\tclient_id web\n\t\tclient_secret " + clientSecret +
		"\n\t\t" + strings.Join(lines, "\n\t\t") + "\n\t}\n}"
}

// site returns a Caddyfile with a bridge whose callers are what X-User says.
func site(t *testing.T, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "skills.db")
	return siteWith(file, sealKey, lines...)
}

func siteWith(file, key string, lines ...string) string {
	return testbed.Site("log\nskill_bridge {\n\trpc\n\tbrowse\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tseal_key " + key + "\n\tstore sqlite " + file +
		"\n\tconnect {\n\t\turl http://127.0.0.1:{$PORT}/connect\n\t}\n\t" + strings.Join(lines, "\n\t") + "\n}")
}

// bed is a bridge with a provider acme and its login.
type bed struct {
	*testbed.Caddy
	login    *login
	provider *hostile.Provider
	base     string // of the bridge

	caddyfile string
}

func newBed(t *testing.T, lines ...string) *bed {
	t.Helper()
	s := newLogin(t)
	p := hostile.NewProvider(t, s.skills(scopes)...)
	return start(t, s, p, site(t, append(lines, source(p, "acme", s))...))
}

func start(t *testing.T, s *login, p *hostile.Provider, caddyfile string) *bed {
	t.Helper()
	c := testbed.StartCaddy(t, caddyfile)
	base := "http://127.0.0.1:" + c.Port("PORT")
	s.register(t, base+"/connect/acme/callback", base+"/connect/other/callback")
	return &bed{c, s, p, base, caddyfile}
}

// browser is a browser of a user.
type browser struct {
	*http.Client
	t    *testing.T
	bed  *bed
	user string
	jar  *cookiejar.Jar
}

func (b *bed) browser(t *testing.T, user string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	// It follows no redirects.
	return &browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t, b, user, jar}
}

// answer is what a browser got.
type answer struct {
	status int
	header http.Header
	body   string
}

// location returns where the answer sends the browser.
func (a answer) location() string { return a.header.Get("Location") }

// send sends a request; header are names and values. A path is one of the bridge.
func (b *browser) send(method, at, body string, header ...string) answer {
	b.t.Helper()
	if strings.HasPrefix(at, "/") {
		at = b.bed.base + at
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("X-User", b.user)
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Del(header[i])
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	resp, err := b.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(at string, header ...string) answer {
	b.t.Helper()
	return b.send(http.MethodGet, at, "", header...)
}

var (
	hidden = regexp.MustCompile(`name="scopes" value="([^"]*)"`)
	inputs = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)
	forms  = regexp.MustCompile(`(?s)<form([^>]*)>(.*?)</form>`)
	button = regexp.MustCompile(`<button[^>]* name="do" value="(\w+)"(?: form="([^"]*)")?>`)
)

// form posts the form of the page of a source as a browser does.
func (b *browser) form(page, do string, header ...string) answer {
	b.t.Helper()
	return b.post(page, b.get(page).body, do, header...)
}

// post posts a form of a page that the browser has: what is in the form of the button, which may be in another one, or in the first one if there is no such
// button, as somebody would who forges it.
func (b *browser) post(page, body, do string, header ...string) answer {
	b.t.Helper()
	found := forms.FindAllStringSubmatch(body, -1)
	at := slices.IndexFunc(found, func(form []string) bool {
		return slices.ContainsFunc(button.FindAllStringSubmatch(body, -1), func(button []string) bool {
			return button[1] == do && (button[2] == "" && strings.Contains(form[2], button[0]) || button[2] != "" && strings.Contains(form[1], `id="`+button[2]+`"`))
		})
	})
	if len(found) == 0 {
		b.t.Fatal("there is no form")
	}
	at = max(at, 0)
	path, _, _ := strings.Cut(page, "?")
	form := url.Values{"do": {do}}
	for _, input := range inputs.FindAllStringSubmatch(found[at][2], -1) {
		form.Set(input[1], html.UnescapeString(input[2]))
	}
	return b.send(http.MethodPost, path, form.Encode(), append([]string{"Origin", b.bed.base, "Sec-Fetch-Site", "same-origin"}, header...)...)
}

// begin begins to connect an account, and returns the authorization URL.
func (b *browser) begin(page string) string {
	b.t.Helper()
	a := b.form(page, "connect")
	if a.status != http.StatusSeeOther {
		b.t.Fatalf("%d %s", a.status, a.body)
	}
	return a.location()
}

// consent signs in and consents at an authorization URL, and returns the URL of the callback.
func (b *browser) consent(at string) string {
	b.t.Helper()
	to := b.get(at).location()
	if strings.HasPrefix(to, "/") {
		to = b.bed.loginOf(at) + to
	}
	u, err := url.Parse(to)
	if err != nil || u.Query().Get("authRequestID") == "" {
		b.t.Fatalf("the server sends the browser to %q (%v)", to, err)
	}
	form := url.Values{"id": {u.Query().Get("authRequestID")}, "username": {"test-user2"}, "password": {"verysecure"}}
	back := b.send(http.MethodPost, u.Scheme+"://"+u.Host+"/login/username", form.Encode())
	return b.get(back.location()).location()
}

func (b *bed) loginOf(at string) string {
	u, err := url.Parse(at)
	if err != nil {
		return b.login.URL
	}
	return u.Scheme + "://" + u.Host
}

// connect connects an account of acme.
func (b *browser) connect() {
	b.t.Helper()
	a := b.get(b.consent(b.begin("/connect/acme")))
	if a.status != http.StatusSeeOther || a.location() != b.bed.base+"/connect/acme" {
		b.t.Fatalf("%d %s %s", a.status, a.location(), a.body)
	}
}

// connected reports whether the page says that the account is connected.
func (b *browser) connected() bool {
	b.t.Helper()
	a := b.get("/connect/acme")
	if a.status != http.StatusOK {
		b.t.Fatalf("%d %s", a.status, a.body)
	}
	return strings.Contains(a.body, ">connected<")
}

// refused checks that the callback is refused, without a token request and a grant.
func (b *browser) refused(callback string, status int, says string, header ...string) {
	b.t.Helper()
	before := b.bed.login.tokens.Load()
	a := b.get(callback, header...)
	if a.status != status || !strings.Contains(a.body, html.EscapeString(says)) {
		b.t.Errorf("%d, want %d and %q in\n%s", a.status, status, says, a.body)
	}
	if n := b.bed.login.tokens.Load() - before; n != 0 {
		b.t.Errorf("%d token requests", n)
	}
	if b.user != "" && b.connected() {
		b.t.Error("an account was connected")
	}
}
