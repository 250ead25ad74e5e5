package mcp_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// asUser sends the name of a user with each request.
type asUser string

func (u asUser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-User", string(u))
	return http.DefaultTransport.RoundTrip(r)
}

// TestGoClientConnects: a user whom the SDK asks connects an account, and the call goes on.
func TestGoClientConnects(t *testing.T) {
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/authorize" {
			q := r.URL.Query()
			http.Redirect(w, r, q.Get("redirect_uri")+"?code=c&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"t0k3n-0f-ada","token_type":"Bearer","expires_in":3600}`)
	}))
	defer login.Close()
	auth := hostile.Object{"type": "oauth2", "oauth2": hostile.Object{
		"authorization_url": login.URL + "/authorize", "token_url": login.URL + "/token", "scopes": hostile.Object{"book": "Book tables."},
	}}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/book", Auth: auth})
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {\n\tmcp\n\tallow_http\n\tallow_networks 127.0.0.0/8\n\tprincipal {http.request.header.X-User}\n\tseal_key "+
		"00112233445566778899aabbccddeeff0123456789abcdeffedcba9876543210\n\tstore sqlite "+filepath.Join(t.TempDir(), "skills.db")+
		"\n\tconnect {\n\t\turl http://127.0.0.1:{$PORT}/connect\n\t}\n\tprovider "+p.URL()+" {\n\t\tnamespace acme\n\t\ttrust "+strings.TrimPrefix(login.URL, "http://")+
		"\n\t\tcredentials oauth2_user {\n\t\t\tclient_id web\n\t\t\tclient_secret c4n4ry\n\t\t}\n\t}\n}"))
	base := "http://127.0.0.1:" + c.Port("PORT")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Transport: asUser("ada")}
	connect := func(link string) error {
		page, err := browser.Get(link)
		if err != nil {
			return err
		}
		defer page.Body.Close()
		text, err := io.ReadAll(page.Body)
		found := regexp.MustCompile(`name="scopes" value="([^"]*)"`).FindSubmatch(text)
		if err != nil || found == nil {
			return fmt.Errorf("no form: %w %s", err, text)
		}
		form := url.Values{"do": {"connect"}, "scopes": {html.UnescapeString(string(found[1]))}}
		r, err := http.NewRequest(http.MethodPost, base+"/connect/acme", strings.NewReader(form.Encode()))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", base)
		done, err := browser.Do(r) // it follows the redirects, by the login
		if err == nil {
			_ = done.Body.Close()
		}
		return err
	}
	asked := 0
	session := func(answer func(url string) string) *mcp.ClientSession {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked++
				return &mcp.ElicitResult{Action: answer(r.Params.URL)}, nil
			},
		})
		transport := &mcp.StreamableClientTransport{Endpoint: base + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: asUser("ada")}}
		s, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: modern})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	if got := call(t, session(func(string) string { return "decline" }), "acme_book", nil); !got.IsError || asked != 1 {
		t.Errorf("declined: %+v, asked %d times", got, asked)
	}
	connected := make(chan error, 1)
	got := call(t, session(func(link string) string {
		time.AfterFunc(500*time.Millisecond, func() { connected <- connect(link) })
		return "accept"
	}), "acme_book", nil)
	if err := <-connected; err != nil || got.IsError || asked != 2 {
		t.Errorf("accepted: %+v, %v, asked %d times", got, err, asked)
	}
	if n := p.Count("acme/book", hostile.Invoke); n != 1 {
		t.Errorf("%d requests", n)
	}
}
