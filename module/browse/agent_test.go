package browse

import (
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// agentSite is a bridge with the page and A2A below a prefix.
func agentSite(p *hostile.Provider, a2a string) string {
	return testbed.Site("handle_path /agents/* {\n\tskill_bridge {\n\t\trpc\n\t\tbrowse\n\t\tallow_http\n\t\tallow_networks 127.0.0.0/8\n\t\tprincipal {http.request.header.X-User}\n\t\tprovider " +
		p.URL() + " {\n\t\t\tnamespace acme\n\t\t}\n\t\t" + a2a + "\n\t}\n}")
}

// pages opens the pages of all skills on a page.
func (f fetched) pages(t *testing.T, at string, header ...string) (pages []fetched) {
	t.Helper()
	for _, name := range f.shown(t) {
		pages = append(pages, look(t, at+"?skill="+url.QueryEscape(name), header...))
	}
	return pages
}

// code returns the texts on a page that are to be copied.
func (f fetched) code(t *testing.T) (found []string) {
	t.Helper()
	for n := range parse(t, f.body).Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "pre" {
			found = append(found, n.Data)
		}
	}
	return found
}

// commands returns the shell commands for A2A on pages.
func commands(t *testing.T, pages []fetched) (found []string) {
	t.Helper()
	for _, page := range pages {
		for _, text := range page.code(t) {
			if strings.HasPrefix(text, "curl ") && !strings.Contains(text, `"execute_skill"`) {
				found = append(found, text)
			}
		}
	}
	return found
}

// TestBrowseShowsA2A: the command on the page works in a shell as it stands, in each version, also if a skill's name and inputs have
// characters that mean something to a shell.
func TestBrowseShowsA2A(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("there is no curl")
	}
	odd := func(d hostile.Object) {
		d["inputs"] = []hostile.Object{{"name": "it's", "type": "string", "description": "A text.", "required": true, "schema": hostile.Object{"const": "o'clock $HOME `id`"}}}
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/it's $(id)", Edit: odd}, hostile.Skill{ID: "acme/secret", Access: "private"})
	for _, tc := range []struct{ version, lines, completed string }{
		{"1.0", "a2a", `"TASK_STATE_COMPLETED"`}, {"0.3", "a2a {\n\t\t\tversions 0.3 0.1\n\t\t}", `"completed"`}, {"0.1", "a2a /agent {\n\t\t\tversions 0.1\n\t\t}", `"completed"`},
	} {
		c := testbed.StartCaddy(t, agentSite(p, tc.lines))
		origin := "http://127.0.0.1:" + c.Port("PORT") + "/agents"
		pages := look(t, origin+"/rpc", "X-User", "ada").pages(t, origin+"/rpc", "X-User", "ada")
		all := commands(t, pages)
		if len(all) != 3 {
			t.Fatalf("%s: %q", tc.version, all)
		}
		for _, command := range all {
			command = strings.Replace(command, "curl ", curl+" -sS -H 'X-User: ada' ", 1)
			answer, err := exec.CommandContext(t.Context(), "sh", "-c", command).Output()
			if err != nil || !strings.Contains(string(answer), tc.completed) {
				t.Errorf("%s: %v\n%s", command, err, answer)
			}
		}
		cards := 0
		for _, page := range pages {
			for n := range parse(t, page.body).Descendants() {
				if link := attributeOf(n, "href"); strings.HasSuffix(link, "/.well-known/agent-card.json") {
					cards++
					if a := ask(t, http.MethodGet, link, ""); a.status != http.StatusOK || !strings.HasPrefix(link, origin) {
						t.Errorf("%s: %d %s", link, a.status, a.body)
					}
				}
			}
		}
		if cards != 2 { // none of the private skill
			t.Errorf("%s: %d cards", tc.version, cards)
		}
		if invoked := p.Requests("acme/it's $(id)", hostile.Invoke); len(invoked) == 0 || !strings.Contains(strings.ReplaceAll(invoked[0].Body, `\u0027`, "'"), "o'clock $HOME `id`") {
			t.Error("the example input did not arrive")
		}
		c.Stop()
	}
}

// TestBrowseShowsCredentials: the command has the options with which a caller authenticates, and a place for the secret.
func TestBrowseShowsCredentials(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for lines, want := range map[string]string{
		"a2a":                    "' -H 'Content-Type",
		"a2a\nrequire_principal": "' -H 'Authorization: <credentials>' -H 'Content-Type",
		"a2a {\nsecurity x http bearer\nsecurity y http basic\n}": "' -H 'Authorization: Bearer <token>' -H",
		"a2a {\nsecurity x http basic\n}\nrequire_principal":      "' -u '<user>:<password>' -H",
		"a2a {\nsecurity x http hoba\n}":                          "' -H 'Authorization: Hoba <credentials>' -H",
		"a2a {\nsecurity x openid https://id.example/c\n}":        "' -H 'Authorization: Bearer <token>' -H",
		"a2a {\nsecurity x api_key header X-User\n}":              "' -H 'X-User: <key>' -H",
		"a2a {\nsecurity x api_key cookie it's\n}":                `' -b 'it'\''s=<key>' -H`,
		"a2a {\nsecurity x api_key query key\n}":                  "' --url-query 'key=<key>' -H",
		"a2a {\nsecurity x mutual_tls\n}":                         "' --cert '<certificate file>' --key '<key file>' -H",
	} {
		c := testbed.StartCaddy(t, agentSite(p, lines))
		at := "http://127.0.0.1:" + c.Port("PORT") + "/agents/rpc"
		if all := commands(t, look(t, at, "X-User", "ada").pages(t, at, "X-User", "ada")); len(all) != 1 || !strings.Contains(all[0], want) {
			t.Errorf("%s: %q, want %s", lines, all, want)
		}
		c.Stop()
	}
}

// TestBrowseWithoutA2A: the page of a handler that serves no A2A does not name it.
func TestBrowseWithoutA2A(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := browsing(t, p)
	for _, page := range look(t, c.URL).pages(t, c.URL) {
		if strings.Contains(page.visible(t), "A2A") || len(commands(t, []fetched{page})) != 0 {
			t.Error(page.visible(t))
		}
	}
	c.Stop()
	c = testbed.StartCaddy(t, agentSite(p, "a2a {\n\turl https://agents.example.com/a2a/\n}"))
	page := look(t, "http://127.0.0.1:"+c.Port("PORT")+"/agents/rpc?skill=acme.echo")
	if !strings.Contains(page.visible(t), "https://agents.example.com/a2a/acme.echo ") || !regexp.MustCompile(`^curl 'https://agents.example.com/a2a/acme.echo' `).MatchString(strings.Join(commands(t, []fetched{page}), "")) {
		t.Error(page.visible(t))
	}
}
