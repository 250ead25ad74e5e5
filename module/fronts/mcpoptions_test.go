package fronts_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// Section 8: the metadata of RFC 9728, and 401 answers that point to it.
func TestMCPAuthorizationMetadata(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	const lines = "mcp /tools/mcp {\nauthorization_server https://login.example.com https://other.example.com/tenant\nscopes skills:run skills:read\n}"
	const servers = `"authorization_servers":["https://login.example.com","https://other.example.com/tenant"],"scopes_supported":["skills:run","skills:read"],"bearer_methods_supported":["header"]}`
	get := func(c *testbed.Caddy, path string, header ...string) testbed.Answer {
		options := []testbed.Option{testbed.Fresh()}
		for i := 0; i+1 < len(header); i += 2 {
			options = append(options, testbed.Header(header[i], header[i+1]))
		}
		return c.With(options...).Send(http.MethodGet, base(c)+path, "")
	}
	t.Run("metadata", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, alone, lines, "require_principal"))
		defer c.Stop()
		for _, path := range []string{"", "/", "/tools/mcp", "/tools/mcp/"} {
			a := get(c, "/.well-known/oauth-protected-resource"+path)
			expectMCP(t, path, a, 200, `{"resource":"`+base(c)+`/tools/mcp",`+servers)
			if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %v", path, a.Header)
			}
		}
		for _, path := range []string{"/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/tools", "/.well-known/oauth-protected-resources", "/.well-known/oauth-authorization-server"} {
			expectMCP(t, path, get(c, path), 418)
		}
		if a := c.With(testbed.Fresh()).Send(http.MethodPost, base(c)+"/.well-known/oauth-protected-resource", "{}"); a.Status != 405 || a.Header.Get("Allow") == "" {
			t.Errorf("%v", a)
		}
		if a := c.With(testbed.Fresh()).Send(http.MethodOptions, base(c)+"/.well-known/oauth-protected-resource", ""); a.Status != 204 || a.Header.Get("Access-Control-Allow-Methods") == "" {
			t.Errorf("%v", a)
		}
		expectMCP(t, "no trusted proxy", get(c, "/.well-known/oauth-protected-resource", "X-Forwarded-Host", "evil.example.com"), 200, `"resource":"`+base(c))
		list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		a := c.With(testbed.Fresh(), testbed.Header("Content-Type", "application/json")).Send(http.MethodPost, base(c)+"/tools/mcp", list)
		want := `Bearer resource_metadata="` + base(c) + `/.well-known/oauth-protected-resource/tools/mcp", scope="skills:run skills:read"`
		if got := a.Header.Get("Www-Authenticate"); a.Status != 401 || got != want {
			t.Errorf("%d %q, want %q", a.Status, got, want)
		}
		named, _, _ := strings.Cut(strings.TrimPrefix(want, `Bearer resource_metadata="`+base(c)), `"`)
		expectMCP(t, "the URL of the challenge", get(c, named), 200, servers)
	})
	t.Run("prefix", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, func(bridge string) string { return "handle_path /x/* {\n" + bridge + "\n}\nrespond passed 418" }, lines, "require_principal"))
		defer c.Stop()
		a := c.With(testbed.Fresh(), testbed.Header("Content-Type", "application/json")).Send(http.MethodPost, base(c)+"/x/tools/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		named, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("Www-Authenticate"), `Bearer resource_metadata="`+base(c)), `"`)
		expectMCP(t, "the URL of the challenge", get(c, named), 200, `{"resource":"`+base(c)+`/x/tools/mcp",`+servers)
	})
	t.Run("one source wants a principal", func(t *testing.T) {
		config := strings.Replace(inSite(p, alone, lines), "namespace acme\n", "namespace acme\nrequire_principal\n", 1)
		c := testbed.StartCaddy(t, config)
		defer c.Stop()
		body := strings.NewReplacer("NAME", "acme_echo").Replace(modern("tools/call", `"name":"NAME"`))
		a := c.With(testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Mcp-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", "tools/call"),
			testbed.Header("Mcp-Name", "acme_echo")).Send(http.MethodPost, base(c)+"/tools/mcp", body)
		if a.Status != 401 || !strings.Contains(a.Header.Get("Www-Authenticate"), "resource_metadata=") {
			t.Errorf("%v", a)
		}
	})
	t.Run("proxy", func(t *testing.T) {
		c := testbed.StartCaddy(t, "{\nservers {\ntrusted_proxies static 127.0.0.0/8\n}\n}\n"+inSite(p, alone, lines))
		defer c.Stop()
		expectMCP(t, "host", get(c, "/.well-known/oauth-protected-resource", "X-Forwarded-Host", "tools.example.com", "X-Forwarded-Proto", "https"), 200, `"resource":"https://tools.example.com/tools/mcp"`)
		expectMCP(t, "a host with quotes", get(c, "/.well-known/oauth-protected-resource", "X-Forwarded-Host", `x"y`), 400)
	})
	t.Run("none", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, alone, "mcp", "require_principal"))
		defer c.Stop()
		expectMCP(t, "metadata", get(c, "/.well-known/oauth-protected-resource"), 418)
		a := sendMCP(c, modern("tools/list", ""), mcpHeader("tools/list", "")...)
		if a.Status != 401 || a.Header.Get("Www-Authenticate") != "" {
			t.Errorf("%v", a)
		}
	})
}

// Lists are private as soon as one source has something that only some callers may see.
func TestMCPCacheScope(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for option, scope := range map[string]string{"": "public", "discovery_credentials api_key secret\n": "private", "require_principal\n": "private"} {
		c := testbed.StartCaddy(t, strings.Replace(inSite(p, alone, "mcp", map[bool]string{true: "allow_anonymous"}[strings.HasPrefix(option, "discovery")]), "namespace acme\n", "namespace acme\n"+option, 1))
		expectMCP(t, option, sendMCP(c, modern("server/discover", ""), mcpHeader("server/discover", "")...), 200, `"cacheScope":"`+scope+`"`)
		c.Stop()
	}
}

// Wrong options are errors that name them.
func TestMCPOptionErrors(t *testing.T) {
	p := hostile.NewProvider(t)
	c := testbed.StartCaddy(t, inSite(p, alone, "mcp"))
	for lines, want := range map[string]string{
		"catalog all": `catalog "all" is none of`,
		"scopes a":    `scopes need an authorization_server`,

		"authorization_server login":                          "is not an absolute https or http URL",
		"authorization_server https://a.example?x":            "has a query",
		"authorization_server https://a.example\nscopes a\\b": "has a character that scopes can't have",
	} {
		err := c.Reload(inSite(p, alone, "mcp {\n"+lines+"\n}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", lines, err)
		}
	}
}
