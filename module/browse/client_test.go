package browse

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/html"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// configurations returns the configurations of clients on a page.
func (f fetched) configurations(t *testing.T) (found []string) {
	t.Helper()
	for n := range parse(t, f.body).Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "pre" && strings.HasPrefix(n.Data, "{") {
			found = append(found, n.Data)
		}
	}
	return found
}

// TestBrowseShowsClients: the configurations for clients of MCP are JSON with the URL of the endpoint, and a place for the credential
// if the client can't get one itself.
func TestBrowseShowsClients(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for lines, token := range map[string]bool{
		"mcp":                           false,
		"mcp /tools":                    false,
		"mcp /tools\nrequire_principal": true,
		"mcp {\nauthorization_server https://login.example.com\n}\nrequire_principal": false,
	} {
		c := testbed.StartCaddy(t, agentSite(p, lines))
		page := look(t, "http://127.0.0.1:"+c.Port("PORT")+"/agents/rpc", "X-User", "ada")
		path := "/agents/mcp"
		if strings.Contains(lines, "/tools") {
			path = "/agents/tools"
		}
		endpoint := "http://127.0.0.1:" + c.Port("PORT") + path
		if a := c.With(testbed.Header("X-User", "ada")).Send(http.MethodPost, endpoint, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); !strings.Contains(string(a.Body), `"acme_echo"`) {
			t.Errorf("%s: %d %s", endpoint, a.Status, a.Body)
		}
		all := page.configurations(t)
		if len(all) != 6 || !strings.Contains(page.visible(t), "Add to your client") {
			t.Fatalf("%s: %q", lines, all)
		}
		for _, text := range all {
			type server struct {
				URL, Type, Command string
				HTTPURL, ServerURL string
				Args               []string
				Env, Headers       map[string]string
			}
			var config map[string]map[string]server
			if err := json.Unmarshal([]byte(text), &config, json.MatchCaseInsensitiveNames(true), json.RejectUnknownMembers(true)); err != nil || len(config) != 1 {
				t.Fatalf("%s: %v", text, err)
			}
			for _, servers := range config {
				s := servers["skills"]
				s.URL += s.HTTPURL + s.ServerURL
				if s.Command != "" && strings.Join(s.Args[:4], " ") == "skill-bridge mcp --connect "+endpoint {
					s.URL = endpoint
				}
				if s.URL != endpoint || (len(s.Env)+len(s.Headers) > 0) != token {
					t.Errorf("%s: %s", lines, text)
				}
			}
		}
		if anonymous := look(t, "http://127.0.0.1:"+c.Port("PORT")+"/agents/rpc", "X-Nobody", ""); strings.Contains(lines, "require_principal") == (len(anonymous.configurations(t)) > 0) {
			t.Errorf("%s: an anonymous reader gets %q", lines, anonymous.configurations(t))
		}
		c.Stop()
	}
	c := testbed.StartCaddy(t, agentSite(p, "mcp\nrequire_principal"))
	page := look(t, "http://127.0.0.1:"+c.Port("PORT")+"/agents/rpc", "X-User", "ada", "Authorization", "Basic YWRhOnNlY3JldA==")
	all := strings.Join(page.configurations(t), "\n")
	if strings.Count(all, `"headers": {"Authorization": "Basic <Base64 of user:password>"}`) != 5 || !strings.Contains(all, `"--basic-env", "BRIDGE_LOGIN"], "env": {"BRIDGE_LOGIN": "<user>:<password>"}}}}`) ||
		strings.Contains(all, "bearer") || strings.Contains(all, "YWRh") {
		t.Errorf("for a reader with a password: %s", all)
	}
	c.Stop()
	c = testbed.StartCaddy(t, agentSite(p, "a2a"))
	defer c.Stop()
	if page := look(t, "http://127.0.0.1:"+c.Port("PORT")+"/agents/rpc"); strings.Contains(page.visible(t), "Add to your client") {
		t.Error("the page names clients of MCP, which is not served")
	}
}

// TestBrowseNamesEndpoints: the top of the page names all endpoints, also for callers who have to authenticate first.
func TestBrowseNamesEndpoints(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for options, sentence := range map[string]string{
		"":         "by the Skills Protocol.",
		"mcp":      "by the Skills Protocol and MCP.",
		"a2a":      "by the Skills Protocol and A2A.",
		"a2a\nmcp": "by the Skills Protocol, MCP and A2A.",
	} {
		for _, access := range []string{"", "require_principal"} {
			c := testbed.StartCaddy(t, agentSite(p, options+"\n"+access))
			base := "http://127.0.0.1:" + c.Port("PORT") + "/agents/"
			text := look(t, base+"rpc").visible(t)
			want := []string{sentence, "Skills Protocol " + base + "rpc"}
			if strings.Contains(options, "mcp") {
				want = append(want, "MCP "+base+"mcp")
			}
			if strings.Contains(options, "a2a") {
				want = append(want, "A2A "+base+"a2a")
			}
			for _, part := range want {
				if !strings.Contains(text, part) {
					t.Errorf("%q, %q: no %q on the page: %s", options, access, part, text)
				}
			}
			c.Stop()
		}
	}
}
