package browse

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/html"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// ofBrowser is the Accept of Chromium and Firefox.
const ofBrowser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"

// fetched is an HTTP answer.
type fetched struct {
	status int
	header http.Header
	body   string
}

// ask sends a request with an Accept and further names and values of header fields.
func ask(t *testing.T, method, url, accept string, header ...string) fetched {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fetched{resp.StatusCode, resp.Header, string(body)}
}

// look opens the page as a browser does.
func look(t *testing.T, url string, header ...string) fetched {
	t.Helper()
	return ask(t, http.MethodGet, url, ofBrowser, header...)
}

// visible is the text of a page without its markup, styles and scripts.
func (f fetched) visible(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for n := range parse(t, f.body).Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "style" && n.Parent.Data != "script" {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func parse(t *testing.T, page string) *html.Node {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// shown are the names of the skills on a page.
func (f fetched) shown(t *testing.T) []string {
	t.Helper()
	var names []string
	for n := range parse(t, f.body).Descendants() {
		if name := attributeOf(n, "data-name"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// groups returns the headings of the groups of a page.
func (f fetched) groups(t *testing.T) (found []string) {
	t.Helper()
	for n := range parse(t, f.body).Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "bdi" && n.Parent.Parent.Data == "h2" {
			found = append(found, n.Data)
		}
	}
	return found
}

// rows are the texts of the rows of a page, by the names of the skills.
func (f fetched) rows(t *testing.T) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for n := range parse(t, f.body).Descendants() {
		if name := attributeOf(n, "data-name"); name != "" {
			var b strings.Builder
			for part := range n.Descendants() {
				if part.Type == html.TextNode {
					b.WriteString(part.Data + " ")
				}
			}
			rows[name] = strings.Join(strings.Fields(b.String()), " ")
		}
	}
	return rows
}

func attributeOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// browsing starts a Caddy with a page about a provider's skills, and these lines.
// Whoever sends X-User is known by it.
func browsing(t *testing.T, p *hostile.Provider, lines ...string) *testbed.Caddy {
	t.Helper()
	return testbed.StartCaddy(t, testbed.Bridge(append([]string{
		"browse", "principal {http.request.header.X-User}", "provider " + p.URL() + " {", "namespace acme", "}",
	}, lines...)...))
}

func TestBrowseIsForBrowsers(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := browsing(t, p)
	for _, tc := range []struct {
		method, accept string
		page           bool
	}{
		{http.MethodGet, ofBrowser, true},
		{http.MethodHead, ofBrowser, true},
		{http.MethodGet, "text/html", true},
		{http.MethodGet, "TEXT/HTML; charset=utf-8", true},
		{http.MethodGet, "text/*, application/json;q=0.9", true},
		{http.MethodGet, "application/json;q=0, */*", true},
		{http.MethodGet, "", false},
		{http.MethodGet, "*/*", false},
		{http.MethodGet, "application/json", false},
		{http.MethodGet, "application/json, text/html;q=0.9", false},
		{http.MethodGet, "application/json, text/html", false},
		{http.MethodGet, "text/html;q=0", false},
		{http.MethodGet, "text/html;q=2", false},
		{http.MethodGet, "text/html;q=0, text/*", false},
		{http.MethodGet, "text/event-stream, image/*", false},
		{http.MethodGet, ";;, text/html;q=x", false},
		{http.MethodPut, ofBrowser, false},
		{http.MethodDelete, ofBrowser, false},
		{http.MethodOptions, ofBrowser, false},
	} {
		got := ask(t, tc.method, c.URL, tc.accept)
		want := http.StatusMethodNotAllowed
		if tc.page {
			want = http.StatusOK
		}
		if got.status != want || got.header.Get("Vary") != "Accept" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s with %q: %d %v", tc.method, tc.accept, got.status, got.header)
		}
		if isPage := got.header.Get("Content-Type") == "text/html; charset=utf-8"; isPage != tc.page {
			t.Errorf("%s with %q: %v", tc.method, tc.accept, got.header)
		}
		if allow := got.header.Get("Allow"); !tc.page && allow != "GET, POST" {
			t.Errorf("%s with %q: Allow: %s", tc.method, tc.accept, allow)
		}
		if tc.method == http.MethodHead && (got.body != "" || got.header.Get("Content-Length") == "0") {
			t.Errorf("HEAD: %v %q", got.header, got.body)
		}
	}
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Errorf("a call: %v", a)
	}
}

func TestWithoutBrowseNothingIsServed(t *testing.T) {
	c := testbed.StartCaddy(t, testbed.Bridge())
	if got := look(t, c.URL); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != http.MethodPost {
		t.Errorf("%d %v", got.status, got.header)
	}
}

func TestBrowseGuardsThePage(t *testing.T) {
	c := browsing(t, hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}))
	first, second := look(t, c.URL), look(t, c.URL)
	policy := first.header.Get("Content-Security-Policy")
	nonce := regexp.MustCompile(`'nonce-([A-Z2-7]{26,})'`).FindStringSubmatch(policy)
	if nonce == nil {
		t.Fatalf("there is no nonce in %q", policy)
	}
	if policy == second.header.Get("Content-Security-Policy") {
		t.Error("two pages have the same nonce")
	}
	directives := strings.Split(strings.ReplaceAll(policy, nonce[1], "N"), "; ")
	for _, want := range []string{
		"default-src 'none'", "script-src 'nonce-N'", "style-src 'nonce-N'", "connect-src 'self'", "form-action 'none'",
		"frame-ancestors 'none'", "base-uri 'none'", "img-src blob:", "require-trusted-types-for 'script'", "trusted-types 'none'",
	} {
		if !slices.Contains(directives, want) {
			t.Errorf("%q is not in %q", want, policy)
		}
	}
	for name, want := range map[string]string{
		"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Set-Cookie": "",
		"Content-Length": strconv.Itoa(len(first.body)),
	} {
		if got := first.header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	active := 0
	for n := range parse(t, first.body).Descendants() {
		for _, a := range n.Attr {
			if slices.Contains([]string{"src", "srcset", "style", "action", "formaction", "ping"}, a.Key) || strings.HasPrefix(a.Key, "on") {
				t.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "script", "style":
			active++
			if got := attributeOf(n, "nonce"); got != nonce[1] {
				t.Errorf("<%s> has the nonce %q", n.Data, got)
			}
		case "link", "img", "iframe", "object", "embed", "base":
			t.Errorf("there is a <%s>", n.Data)
		}
	}
	if active != 2 {
		t.Errorf("there are %d scripts and styles", active)
	}
}

// TestBrowseIsSmall holds the embedded page to what a slow phone can bear.
func TestBrowseIsSmall(t *testing.T) {
	if size := len(lean(pageSource)) + len(Style) + len(browseScript); size > 41<<10 {
		t.Errorf("the page has %d bytes", size)
	}
}

func TestBrowseShowsWhatDescriptorsSay(t *testing.T) {
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/echo", Version: "1.2.3", Access: "restricted", Auth: hostile.OAuth2("https://login.example.com/token"), Edit: func(d hostile.Object) {
			d["name"], d["description"], d["tags"] = "Echo", "Says it again.", []string{"sound", "nature"}
			d["documentation_url"] = "https://docs.example.com/echo"
			d["output"] = hostile.Object{"content_type": "text/plain", "description": "What was said."}
			d["inputs"] = []hostile.Object{
				{"name": "text", "type": "string", "description": "What to say.", "required": true},
				{"name": "times", "type": "integer", "description": "How often.", "required": false, "default": 2, "schema": hostile.Object{"enum": []int{1, 2}}},
			}
		}},
		hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")},
		hostile.Skill{ID: "acme/custom", Auth: hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Ask nicely.", "parameters": []any{}}}},
		hostile.Skill{ID: "acme/faulty", Edit: func(d hostile.Object) { delete(d, "endpoint") }},
		hostile.Skill{ID: "acme/newer", Edit: func(d hostile.Object) { d["protocol"] = hostile.Object{"version": "2.0.0"} }, EditEntry: func(e hostile.Object) { e["name"], e["description"] = "The newer one", "Listed as new." }},
		hostile.Skill{ID: "acme/lost"},
		hostile.Skill{ID: "single", Unlisted: true},
	)
	p.On("acme/lost", hostile.Descriptor, hostile.Respond(http.StatusServiceUnavailable, ""))
	c := browsing(t, p,
		"skill alone "+p.URLOf("single", hostile.Descriptor),
		"provider http://"+hostile.Refused(t)+" {", "namespace gone", "}")
	page := look(t, c.URL)
	for query, wanted := range map[string][]string{
		"": {
			"7 skills",
			"Some sources could not be read gone The provider can't be reached",
			"Single skills alone Does something. Open alone", // what is normal has no badge
			"restricted needs credentials",
			"acme.faulty", "invalid",
			"acme.newer It needs version 2.0.0 of the Skill Sharing Protocol; this bridge speaks version 1. incompatible",
			"acme.lost", "unreachable",
			"need JavaScript",
		},
		"?skill=acme.echo": {
			"Says it again. Echo version 1.2.3", "tool name acme_echo sound nature",
			"needs credentials since", " UTC Skill acme/echo needs authentication",
			"text string, required What to say.",
			"times integer How often. one of 1 2 default 2",
			"Output text/plain What was said.", "OAuth 2.0 with the scopes skills:run : this bridge can’t get a token", "documentation at docs.example.com", "Access restricted",
			"A run fails as long as the bridge lacks the credential.", "Copy as, for when the bridge has the credential",
			"curl 'http://127.0.0.1:", `"input_schema": {`, `"parameters": {`, `"inputSchema": {`,
		},
		"?skill=acme.key":    {"An API key in the header X-Key"},
		"?skill=acme.custom": {"Ask nicely."},
		"?skill=acme.faulty": {"invalid since", "/endpoint is required", "Does something. acme/faulty version"},
		"?skill=acme.newer":  {"incompatible since", "this bridge speaks version 1.", "acme.newer It needs", "Listed as new. The newer one version 1.0.0 api"},
		"?skill=acme.lost":   {"unreachable since"},
	} {
		text := look(t, c.URL+query).visible(t)
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %s", query, want, text)
			}
		}
	}
	if names := page.shown(t); !slices.Equal(names, []string{"acme.custom", "acme.echo", "acme.faulty", "acme.key", "acme.lost", "acme.newer", "alone"}) {
		t.Errorf("shown are %v", names)
	}
	if names := look(t, c.URL+"?namespace=gone").shown(t); len(names) != 0 {
		t.Errorf("of one namespace, shown are %v", names)
	}
	if groups := page.groups(t); !slices.Equal(groups, []string{"acme", "Single skills"}) {
		t.Errorf("the groups are %v", groups)
	}
	for name, want := range map[string]int{"acme.echo": http.StatusOK, "alone": http.StatusOK, "acme.faulty": http.StatusOK, "acme.nothing": http.StatusNotFound} {
		one := look(t, c.URL+"?skill="+name)
		if names := one.shown(t); one.status != want || want == http.StatusOK && !slices.Equal(names, []string{name}) {
			t.Errorf("%s: %d, shown are %v", name, one.status, names)
		}
	}
}

// TestBrowseEscapes has providers say what is no text to a browser.
func TestBrowseEscapes(t *testing.T) {
	const evil = `</script></style><img src=x onerror=alert(1)><a href="javascript:alert(2)">"'` + "`" + `{{.Nonce}}${1}` + "\u202e\u2066\ufeff\x00\x1b[2J\u2028"
	edit := func(d hostile.Object) {
		for _, name := range []string{"name", "description"} {
			d[name] = evil
		}
		d["tags"] = []string{evil}
		d["provider"] = hostile.Object{"name": evil, "url": "javascript:alert(3)"}
		d["documentation_url"] = "https://user:password@docs.example.com/\"onclick=alert(4)"
		d["output"] = hostile.Object{"content_type": evil, "description": evil}
		d["inputs"] = []hostile.Object{{
			"name": evil, "type": "string", "description": evil, "required": true, "default": evil, "schema": hostile.Object{"enum": []string{evil}},
		}}
		d["auth"] = hostile.Object{"type": "custom", "description": evil, "custom": hostile.Object{"instructions": evil, "parameters": []any{}}}
	}
	p := hostile.NewProvider(t,
		hostile.Skill{ID: "acme/evil", Edit: edit, EditEntry: func(e hostile.Object) { e["description"] = evil }},
		hostile.Skill{ID: `acme/"><img src=x onerror=alert(5)>`},
		hostile.Skill{ID: "acme/broken", Edit: func(d hostile.Object) { d["capability_type"] = evil }},
	)
	c := browsing(t, p)
	for _, query := range []string{"", "?skill=acme.evil", "?skill=%3Cimg%20src%3Dx%20onerror%3Dalert(6)%3E", "?namespace=%22%3E%3Cimg%3E"} {
		page := look(t, c.URL+query)
		if query == "" && len(page.shown(t)) != 3 || query == "?skill=acme.evil" && !strings.Contains(page.visible(t), "onerror=alert(1)") {
			t.Fatalf("%s: shown are %v", query, page.shown(t))
		}
		for n := range parse(t, page.body).Descendants() {
			if n.Type == html.ElementNode && slices.Contains([]string{"img", "iframe", "base", "meta http-equiv"}, n.Data) {
				t.Errorf("%s: there is a <%s>", query, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: <%s> has %s", query, n.Data, a.Key)
				}
			}
			if href := attributeOf(n, "href"); n.Data == "a" && !strings.HasPrefix(href, "#") && !strings.HasPrefix(href, "?") {
				t.Errorf("%s: there is a link to %q", query, href)
			}
		}
		if i := strings.IndexFunc(page.visible(t), func(r rune) bool { return strings.ContainsRune("\u202e\u2066\ufeff\x00\x1b\u2028", r) }); i >= 0 {
			t.Errorf("%s: there is a control character in %q", query, page.visible(t)[i:])
		}
	}
}

func TestBrowseLinks(t *testing.T) {
	for text, want := range map[string]Link{
		"https://docs.example.com/a?b#c":                    {"https://docs.example.com/a?b#c", "docs.example.com"},
		"http://example.com":                                {"http://example.com", "example.com"},
		"https://bücher.example/":                           {"https://b%C3%BCcher.example/", "xn--bcher-kva.example"},
		"HTTPS://EXAMPLE.COM/":                              {"https://EXAMPLE.COM/", "example.com"},
		"javascript:alert(1)":                               {},
		"data:text/html,x":                                  {},
		"//example.com/":                                    {},
		"/path":                                             {},
		"https://user@example.com/":                         {},
		"https:///path":                                     {},
		"https://exam\u202eple.com/":                        {},
		"https://example.com/\u202e":                        {},
		"https://example.com/\nX":                           {},
		"https://example.com/" + strings.Repeat("a", 3_000): {},
		"": {},
	} {
		if got := link(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	page := look(t, browsing(t, hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Edit: func(d hostile.Object) {
		d["documentation_url"] = "https://docs.example.com/"
	}})).URL+"?skill=acme.echo")
	if want := `<a href="https://docs.example.com/" rel="noopener noreferrer nofollow">`; !strings.Contains(page.body, want) {
		t.Errorf("%s is not in %s", want, page.body)
	}
}

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		" a\tb\nc\u2028d ":           "a b c d",
		"a\u202eb\u2066c\ufeffd":     "abcd",
		"\U000e0041x\u00ady":         "xy",
		"\U0001f468\u200d\U0001f9b1": "\U0001f468\u200d\U0001f9b1",
		"12345678901":                "123456789…",
		"1234567890":                 "1234567890",
		"bad \xff":                   "bad \ufffd",
	} {
		if got := plain(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestBrowseShowsEachCallerHisOwn(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/open"}, hostile.Skill{ID: "acme/secret", Access: "private"})
	closed := hostile.NewProvider(t, hostile.Skill{ID: "closed/one"})
	c := testbed.StartCaddy(t, testbed.Bridge(
		"browse", "allow_anonymous", "principal {http.request.header.X-User}",
		"provider "+p.URL()+" {", "namespace acme", "discovery_credentials api_key discovery-key", "}",
		"provider "+closed.URL()+" {", "namespace closed", "require_principal", "}",
	))
	anonymous, alice := look(t, c.URL), look(t, c.URL, "X-User", "alice")
	if names := anonymous.shown(t); !slices.Equal(names, []string{"acme.open"}) {
		t.Errorf("an anonymous caller is shown %v", names)
	}
	if text := anonymous.visible(t); !strings.Contains(text, "closed This bridge lets authenticated callers only use this provider") {
		t.Errorf("an anonymous caller is not told what is closed: %s", text)
	}
	if n := len(closed.All()); n != 2 { // of alice
		t.Errorf("the closed provider had %d requests", n)
	}
	if names := alice.shown(t); !slices.Equal(names, []string{"acme.open", "acme.secret", "closed.one"}) {
		t.Errorf("alice is shown %v", names)
	}
	if !strings.Contains(alice.visible(t), "signed in as alice") {
		t.Error("alice is not told who she is")
	}
	secret, nothing := look(t, c.URL+"?skill=acme.secret"), look(t, c.URL+"?skill=acme.absent")
	if secret.status != http.StatusNotFound || strings.ReplaceAll(secret.visible(t), "secret", "absent") != nothing.visible(t) {
		t.Errorf("a private skill differs from none: %d %s", secret.status, secret.visible(t))
	}
	if one := look(t, c.URL+"?skill=closed.one"); one.status != http.StatusForbidden || len(one.shown(t)) != 0 {
		t.Errorf("a closed skill: %d %v", one.status, one.shown(t))
	}
	if one := look(t, c.URL+"?skill=acme.secret", "X-User", "alice"); one.status != http.StatusOK {
		t.Errorf("alice and a private skill: %d", one.status)
	}
}

// TestBrowseOfANamespace: who asks for one source learns no more than the page of all
// tells him.
func TestBrowseOfANamespace(t *testing.T) {
	open, private, closed := hostile.NewProvider(t, hostile.Skill{ID: "a"}), hostile.NewProvider(t, hostile.Skill{ID: "a", Access: "private"}), hostile.NewProvider(t, hostile.Skill{ID: "a"})
	c := testbed.StartCaddy(t, testbed.Bridge(
		"browse", "allow_anonymous", "principal {http.request.header.X-User}",
		"provider "+open.URL()+" {", "namespace open", "}",
		"provider "+private.URL()+" {", "namespace private", "discovery_credentials api_key discovery-key", "}",
		"provider "+closed.URL()+" {", "namespace closed", "require_principal", "}",
		"provider http://"+hostile.Refused(t)+" {", "namespace gone", "}",
	))
	for _, tc := range []struct {
		namespace, user string
		status          int
		text            string
	}{
		{"open", "", http.StatusOK, "1 skill of open"},
		{"gone", "", http.StatusOK, "gone The provider can't be reached"},
		{"nope", "", http.StatusNotFound, "There is no source “nope” here with skills that you may see."},
		{"private", "", http.StatusNotFound, "There is no source “private” here with skills that you may see."},
		{"closed", "", http.StatusForbidden, "closed This bridge lets authenticated callers only use this provider"},
		{"nope", "alice", http.StatusNotFound, "There is no source “nope” here with skills that you may see."},
		{"private", "alice", http.StatusOK, "1 skill of private"},
		{"closed", "alice", http.StatusOK, "1 skill of closed"},
	} {
		page := look(t, c.URL+"?namespace="+tc.namespace, "X-User", tc.user)
		if text := page.visible(t); page.status != tc.status || !strings.Contains(text, tc.text) {
			t.Errorf("%s for %q: %d %s", tc.namespace, tc.user, page.status, text)
		}
	}
	unknown, hidden := look(t, c.URL+"?namespace=nothing"), look(t, c.URL+"?namespace=private")
	if strings.ReplaceAll(hidden.visible(t), "private", "nothing") != unknown.visible(t) {
		t.Errorf("a source with private skills only differs from none: %s", hidden.visible(t))
	}
	if n := len(closed.All()); n != 2 { // of alice
		t.Errorf("the closed provider had %d requests", n)
	}
}

// TestBrowseShowsABrokenSkillWithItsSource: what is wrong with it does not make a
// skill of a provider one that was configured by itself.
func TestBrowseShowsABrokenSkillWithItsSource(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/broken"}, hostile.Skill{ID: "acme/lost"}, hostile.Skill{ID: "single", Unlisted: true})
	p.On("acme/broken", hostile.Descriptor, hostile.Respond(http.StatusOK, `{"id":"acme/broken"}`))
	p.On("acme/lost", hostile.Descriptor, hostile.Respond(http.StatusServiceUnavailable, ""))
	p.On("single", hostile.Descriptor, hostile.Respond(http.StatusOK, `{"id":"single"}`))
	c := browsing(t, p, "skill alone "+p.URLOf("single", hostile.Descriptor))
	for name, want := range map[string][2]string{
		"acme.broken": {"acme", "invalid"}, "acme/broken": {"acme", "invalid"}, "acme.lost": {"acme", "unreachable"}, "alone": {"Single skills", "invalid"},
	} {
		page := look(t, c.URL+"?skill="+name)
		if text := page.visible(t); page.status != http.StatusOK || !strings.Contains(text, "All skills · "+want[0]+" ") || !strings.Contains(text, " "+want[1]+" since ") {
			t.Errorf("%s: %d %s", name, page.status, text)
		}
	}
}

// TestBrowseTellsWhatACallWouldMeet: a skill needs credentials on the page if, and only
// if, a call would be refused for want of one; and to find that out, nothing is sent
// and nothing reported.
func TestBrowseTellsWhatACallWouldMeet(t *testing.T) {
	custom := hostile.Object{"type": "custom", "custom": hostile.Object{"instructions": "Ask nicely.", "parameters": []any{}}}
	skills := []hostile.Skill{
		{ID: "open"},
		{ID: "key", Auth: hostile.APIKey("X-Key")},
		{ID: "custom", Auth: custom},
		{ID: "token", Auth: hostile.OAuth2("https://login.example.com/token")},
		{ID: "sent", Auth: hostile.APIKey("X-Key"), Endpoint: "http://elsewhere.test/run"},
		{ID: "followed", Auth: hostile.APIKey("X-Key"), StatusURL: "http://elsewhere.test/{execution_id}"},
	}
	p, q := hostile.NewProvider(t, skills...), hostile.NewProvider(t, skills...)
	c := testbed.StartCaddy(t, testbed.Bridge("browse", "audit", "allow_anonymous",
		"provider "+p.URL()+" {", "namespace none", "}",
		"provider "+q.URL()+" {", "namespace key", "credentials api_key a-key", "}"))
	page := look(t, c.URL)
	if lines := c.Log.Lines("a credential was not sent"); len(lines) > 0 || c.Log.Has("secret denied") {
		t.Errorf("looking at the page is reported: %v", lines)
	}
	for _, provider := range []*hostile.Provider{p, q} {
		for _, s := range skills {
			if n := provider.Count(s.ID, hostile.Invoke); n > 0 {
				t.Errorf("looking at the page invokes %s", s.ID)
			}
		}
	}
	rows := page.rows(t)
	for namespace, lacking := range map[string][]string{"none": {"key", "custom", "token", "sent", "followed"}, "key": {"custom", "token", "sent", "followed"}} {
		for _, s := range skills {
			name := namespace + "." + s.ID
			row := rows[name]
			if got := strings.Contains(row, "needs credentials"); row == "" || got != slices.Contains(lacking, s.ID) {
				t.Errorf("%s needs credentials: %t; %s", name, got, row)
			}
			one := look(t, c.URL+"?skill="+name).visible(t)
			if !slices.Contains(lacking, s.ID) {
				if strings.Contains(one, "needs credentials") || !strings.Contains(row, "Does something.") {
					t.Errorf("%s is available: %s; %s", name, row, one)
				}
				continue
			}
			a := c.Execute(name, nil)
			message := strings.Join(strings.Fields(a.Message), " ")
			if a.Outcome() != "AUTH_REQUIRED" || !strings.Contains(one, "needs credentials since ") || !strings.Contains(one, " UTC "+message) {
				t.Errorf("%s: a call meets %v, and the page says %s", name, a, one)
			}
			if !strings.Contains(row, strings.TrimSuffix(plain(message, maxRowText), "…")) {
				t.Errorf("%s: a call meets %v, and the row says %s", name, a, row)
			}
		}
	}
	for name, want := range map[string]string{"key.open": "completed", "key.key": "completed", "none.open": "completed"} {
		if a := c.Execute(name, nil); a.Outcome() != want {
			t.Errorf("%s: %v", name, a)
		}
	}
}

func TestBrowseOfAClosedBridge(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := browsing(t, p, "require_principal")
	for _, query := range []string{"", "?skill=acme.echo", "?namespace=acme"} {
		if got := look(t, c.URL+query); got.status != http.StatusForbidden || len(got.shown(t)) != 0 || !strings.Contains(got.visible(t), "only to authenticated callers") {
			t.Errorf("%s: %d %s", query, got.status, got.visible(t))
		}
	}
	if n := len(p.All()); n != 0 {
		t.Errorf("%d requests were made for an anonymous caller", n)
	}
	if got := look(t, c.URL, "X-User", "alice"); got.status != http.StatusOK || !slices.Equal(got.shown(t), []string{"acme.echo"}) {
		t.Errorf("alice: %d %v", got.status, got.shown(t))
	}
}

// served is a page of a bridge with a few providers, with limits of its own.
func served(t *testing.T, limits pageLimits, more string, providers ...*hostile.Provider) string {
	t.Helper()
	list := make([]string, len(providers))
	for i, p := range providers {
		list[i] = `{"origin":"` + p.URL() + `","namespace":"` + []string{"acme", "other", "third"}[i] + `"}`
	}
	standard := standardPageLimits
	defer func() { standardPageLimits = standard }()
	standardPageLimits = limits
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	h, err := ctx.LoadModuleByID("http.handlers.skill_bridge", []byte(`{"browse":{},"providers":[`+strings.Join(list, ",")+`],"allow_http":true,"allow_networks":["127.0.0.0/8"]`+more+`}`))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = h.(caddyhttp.MiddlewareHandler).ServeHTTP(w, r, nil) }))
	t.Cleanup(server.Close)
	return server.URL
}

func TestBrowseIsBounded(t *testing.T) {
	var skills []hostile.Skill
	for i := range 6 {
		skills = append(skills, hostile.Skill{ID: fmt.Sprintf("acme/s%d", i), Edit: func(d hostile.Object) { d["description"] = strings.Repeat("long ", 1000) }})
	}
	descriptors := func(p *hostile.Provider) (n int) {
		for _, s := range skills {
			n += p.Count(s.ID, hostile.Descriptor)
		}
		return n
	}
	p := hostile.NewProvider(t, skills...)
	limits := standardPageLimits
	limits.rows = 2
	url := served(t, limits, "", p)
	page := look(t, url)
	if names, text := page.shown(t), page.visible(t); !slices.Equal(names, []string{"acme.s0", "acme.s1"}) || !strings.Contains(text, "6 skills") || !strings.Contains(text, "All 6 of acme") {
		t.Errorf("shown are %v in %s", names, text)
	}
	if n := descriptors(p); n != 2 {
		t.Errorf("%d descriptors were read", n)
	}
	for row := range strings.Lines(page.body) {
		if len(row) > 4*maxRowText {
			t.Errorf("a row has %d bytes: %.200s", len(row), row)
		}
	}
	for from, want := range map[string][]string{"0": {"acme.s0", "acme.s1"}, "2": {"acme.s2", "acme.s3"}, "5": {"acme.s5"}, "6": nil, "99": nil, "-1": {"acme.s0", "acme.s1"}, "x": {"acme.s0", "acme.s1"}} {
		if names := look(t, url+"?namespace=acme&from="+from).shown(t); !slices.Equal(names, want) {
			t.Errorf("from %s, shown are %v, want %v", from, names, want)
		}
	}
	middle := look(t, url+"?namespace=acme&from=2").body
	for _, want := range []string{`<a href="?namespace=acme">Previous</a>`, `<a href="?from=4&amp;namespace=acme">Next</a>`} {
		if !strings.Contains(middle, want) {
			t.Errorf("%s is not in %s", want, middle)
		}
	}

	limits = standardPageLimits
	limits.documents = 2000
	skills = manySkills(60, 5000)
	p = hostile.NewProvider(t, skills...)
	url = served(t, limits, "", p)
	for range 2 {
		look(t, url)
	}
	if n := descriptors(p); n == 0 || n > 20 {
		t.Errorf("with few bytes of descriptors, %d were read", n)
	}
}

func TestFairShares(t *testing.T) {
	for _, tc := range []struct {
		most         int
		wanted, want []int
	}{
		{10, nil, []int{}},
		{10, []int{3, 4}, []int{3, 4}},
		{10, []int{100}, []int{10}},
		{10, []int{100, 2, 3}, []int{5, 2, 3}},
		{10, []int{100, 2, 100}, []int{4, 2, 4}},
		{11, []int{100, 2, 100}, []int{4, 2, 5}},
		{2, []int{5, 5, 5}, []int{0, 1, 1}},
		{0, []int{5, 0}, []int{0, 0}},
	} {
		if got := fairShares(tc.most, tc.wanted); !slices.Equal(got, tc.want) {
			t.Errorf("%d among %v: %v, want %v", tc.most, tc.wanted, got, tc.want)
		}
	}
}

// manySkills are skills whose descriptions are texts of that many bytes.
func manySkills(n, text int) []hostile.Skill {
	skills := make([]hostile.Skill, n)
	for i := range skills {
		skills[i] = hostile.Skill{ID: fmt.Sprintf("s%d", i), Edit: func(d hostile.Object) { d["description"] = strings.Repeat("x", text) }}
	}
	return skills
}

// TestBrowseIsFair has one source that would leave no room for those after it.
func TestBrowseIsFair(t *testing.T) {
	big, small, other := hostile.NewProvider(t, manySkills(9, 10)...), hostile.NewProvider(t, manySkills(1, 10)...), hostile.NewProvider(t, manySkills(3, 10)...)
	limits := standardPageLimits
	limits.rows = 5
	url := served(t, limits, "", big, small, other)
	page := look(t, url)
	if names := page.shown(t); !slices.Equal(names, []string{"acme.s0", "acme.s1", "other.s0", "third.s0", "third.s1"}) {
		t.Errorf("shown are %v", names)
	}
	text := page.visible(t)
	for _, want := range []string{
		"13 skills", "acme 9", "other 1", "third 3", // in the list of sources
		"All 9 of acme", "All 3 of third",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if strings.Contains(text, "All 1 of") {
		t.Error("there is a link to all of a source of which all is shown")
	}
	if names := look(t, url+"?namespace=acme&from=5").shown(t); !slices.Equal(names, []string{"acme.s5", "acme.s6", "acme.s7", "acme.s8"}) {
		t.Errorf("of the rest of a source, shown are %v", names)
	}

	limits.rows = 1
	page = look(t, served(t, limits, "", big, small, other))
	for _, want := range []string{"All 9 of acme", "All 1 of other"} {
		if text := page.visible(t); !strings.Contains(text, want) {
			t.Errorf("with too little room for all sources, %q is not in %s", want, text)
		}
	}
}

func TestBrowseDoesNotWaitForever(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/quick"}, hostile.Skill{ID: "acme/stuck"})
	p.On("acme/stuck", hostile.Descriptor, hostile.Hang())
	limits := standardPageLimits
	limits.whole = 300 * time.Millisecond
	page := look(t, served(t, limits, "", p))
	if text := page.visible(t); !strings.Contains(text, "acme.quick Does something.") || !strings.Contains(text, "acme.stuck It did not answer in time. unreachable") {
		t.Errorf("%s", text)
	}

	// A source that does not answer leaves time for the skills of others.
	p = hostile.NewProvider(t)
	p.On("", hostile.Index, hostile.Hang())
	limits = standardPageLimits
	limits.listing = 100 * time.Millisecond
	text := look(t, served(t, limits, "", p, hostile.NewProvider(t, hostile.Skill{ID: "echo"}))).visible(t)
	if !strings.Contains(text, "Some sources could not be read acme It did not answer in time.") || !strings.Contains(text, "other.echo Does something.") {
		t.Errorf("%s", text)
	}
}

// A source whose descriptors all hang leaves time for those of others.
func TestBrowseReadsSourcesApart(t *testing.T) {
	skills := manySkills(16, 10)
	p := hostile.NewProvider(t, skills...)
	for _, s := range skills {
		p.On(s.ID, hostile.Descriptor, hostile.Hang())
	}
	limits := standardPageLimits
	limits.whole = 500 * time.Millisecond
	text := look(t, served(t, limits, "", p, hostile.NewProvider(t, hostile.Skill{ID: "echo"}))).visible(t)
	if !strings.Contains(text, "other.echo Does something.") {
		t.Errorf("%s", text)
	}
}

// TestBrowseTakesPlaces has the page find no place among the calls in progress.
func TestBrowseTakesPlaces(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/stuck"})
	p.On("acme/stuck", hostile.Invoke, hostile.Hang())
	url := served(t, standardPageLimits, `,"limits":{"runs":1}`, p)
	go testbed.NewClient(t, url).Execute("acme.stuck", nil)
	testbed.Eventually(t, 10*time.Second, func() bool { return p.Hanging() == 1 }, "a call takes the only place")
	if text := look(t, url).visible(t); !strings.Contains(text, "Too many calls are in progress here (limits runs: 1)") {
		t.Errorf("%s", text)
	}
}

// deadlines is a writer of an answer that notes its deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	left time.Duration
}

// SetWriteDeadline is what [http.ResponseController] calls.
func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.left = time.Until(at)
	return nil
}

// TestPageHasADeadline: a client that does not read a page does not keep it in memory, unless the server has its own deadline for answers.
func TestPageHasADeadline(t *testing.T) {
	h := &Handler{requirePrincipal: true, refused: func(context.Context, string, string) {}, URL: func(*http.Request) string { return "https://agents.example/" }}
	for own, want := range map[time.Duration]time.Duration{0: 2 * time.Minute, time.Minute: 0} {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept", ofBrowser)
		ctx := context.WithValue(t.Context(), http.ServerContextKey, &http.Server{WriteTimeout: own})
		if err := h.Serve(ctx, w, r, "", ""); err != nil || w.Body.Len() == 0 || w.left > want || want-w.left > time.Minute {
			t.Errorf("write timeout %s: the deadline is in %s, want %s; %v", own, w.left, want, err)
		}
	}
}
