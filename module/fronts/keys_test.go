package fronts_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/callers"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// keyFile writes a file with a key of alice, and returns its path and the key.
func keyFile(t *testing.T) (path, key string) {
	t.Helper()
	path, key = filepath.Join(t.TempDir(), "callers"), callers.NewKey()
	text, err := callers.Line("alice", key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, key
}

// keyRequest is a request of a protocol, with what its answers have.
type keyRequest struct {
	path, body string
	header     []string
	answered   string // in the answer to a caller with a key
	refused    string // in the answer to others
}

var keyRequests = []keyRequest{
	{
		"/rpc", `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo"}}`, nil, `"status":"completed"`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32050,`,
	},
	{"/rpc", `[{"jsonrpc":"2.0","id":1,"method":"list_skills"}]`, nil, `[{"jsonrpc":"2.0","id":1,"result":`, `"next":"authenticate"`},
	{"/rpc", `{"jsonrpc":"2.0","id":1,"method":"frobnicate"}`, nil, `-32601`, `"code":"AUTH_REQUIRED"`},
	{
		"/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.echo","input":{}}}]}}}`,
		[]string{"A2A-Version", "1.0"},
		"TASK_STATE_COMPLETED",
		`"code":-32050,`,
	},
	{"/a2a", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}`, []string{"A2A-Version", "0.3"}, `-32001`, `"data":{`},
	{"/mcp", modern("tools/call", `"name":"acme_echo"`), mcpHeader("tools/call", "acme_echo"), `"structuredContent"`, `{"jsonrpc":"2.0","error":{"code":-32600,`},
	{"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, legacyHeader("2025-11-25"), "", `"error":`},
}

// TestCallersFile: all protocols answer callers with a key, as their principals, and no others.
func TestCallersFile(t *testing.T) {
	path, key := keyFile(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, testbed.Site("log\nskill_bridge {", "rpc\na2a\nmcp\nbrowse\naudit\nallow_http\nallow_networks 127.0.0.0/8\ncallers_file "+path,
		"provider "+p.URL()+" {\nnamespace acme\ncredentials api_key secret-of-provider\n}", "}"))
	send := func(r keyRequest, authorization string) testbed.Answer {
		fields := []testbed.Option{testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Accept", "application/json, text/event-stream")}
		for i := 0; i+1 < len(r.header); i += 2 {
			fields = append(fields, testbed.Header(r.header[i], r.header[i+1]))
		}
		if authorization != "" {
			fields = append(fields, testbed.Header("Authorization", authorization))
		}
		return c.With(fields...).Send(http.MethodPost, base(c)+r.path, r.body)
	}
	const challenge = `Bearer realm="skill-bridge"`
	for _, r := range keyRequests {
		for authorization, want := range map[string]string{
			"": challenge, "Basic YWxpY2U6aGljY3Vw": challenge,
			"Bearer " + key + "x": challenge + `, error="invalid_token"`,
		} {
			a := send(r, authorization)
			if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != want || !strings.Contains(string(a.Body), r.refused) ||
				a.Header.Get("Content-Type") != "application/json" || !strings.Contains(string(a.Body), `"message":"This bridge `) {
				t.Errorf("%s %.60s with %q: %d %v %s", r.path, r.body, authorization, a.Status, a.Header, a.Body)
			}
			known := map[bool]string{true: "the request has no principal", false: "the credential of the request is unknown"}[want == challenge]
			if strings.Contains(string(a.Body), "details") && !strings.Contains(string(a.Body), known) {
				t.Errorf("%s %.60s with %q: %s", r.path, r.body, authorization, a.Body)
			}
		}
	}
	refusals := append(c.Log.Lines(`"msg":"call failed"`), append(c.Log.Lines("caller refused"), c.Log.Lines("a caller was refused")...)...)
	for _, line := range refusals { // their bodies were not read
		if strings.Contains(line, `"operation"`) || strings.Contains(line, `"method":"unknown"`) {
			t.Errorf("%s", line)
		}
	}
	if n := len(c.Log.Lines(`"msg":"call failed"`, `"outcome":"unauthenticated"`)); n < len(keyRequests) {
		t.Errorf("%d lines of %d calls", n, len(refusals))
	}
	if n := len(p.All()); n > 0 {
		t.Errorf("the provider has got %d requests for callers without a key", n)
	}
	for _, r := range keyRequests {
		if a := send(r, "Bearer "+key); a.Status >= 400 || !strings.Contains(string(a.Body), r.answered) {
			t.Errorf("%s %.60s with a key: %d %s", r.path, r.body, a.Status, a.Body)
		}
	}
	documents := c.With(testbed.Fresh())
	if a := documents.Send(http.MethodGet, base(c)+"/.well-known/agent-card.json", ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"scheme":"bearer"`) {
		t.Errorf("the card is public, and has the scheme: %d %s", a.Status, a.Body)
	}
	if a := documents.With(testbed.Header("Accept", "text/html")).Send(http.MethodGet, base(c)+"/rpc", ""); a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != challenge || !strings.Contains(string(a.Body), "only to authenticated callers") {
		t.Errorf("the page: %d %v %s", a.Status, a.Header, a.Body)
	}
	for _, words := range [][]string{
		{`"msg":"call"`, `"principal":"alice"`, `"method":"execute_skill"`, `"operation":"execute"`},
		{`"msg":"caller refused"`, "callers_file is set and the request has no key", `"client":"127.0.0.1"`, `"trace_id":"`},
		{`"msg":"a caller was refused: callers_file does not have the key of the request"`, `"option":"callers_file"`, `"client":"127.0.0.1"`},
		{`"msg":"caller refused"`, `"method":"browse"`, "callers_file is set and the request has no key"},
		{`"msg":"caller refused"`, "callers_file does not have the key of the request"},
		{`"logger":"http.log.access`, `"user_id":"alice"`},
	} {
		if len(c.Log.Lines(words...)) == 0 {
			t.Errorf("no line has %v", words)
		}
	}
	c.Log.MustNotShow(key)
}

// TestCallersFileReload: a change of the file counts without a reload of the configuration, and is logged. A file that can't be
// read prevents only loading.
func TestCallersFileReload(t *testing.T) {
	path, key := keyFile(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	site := func(file string, lines ...string) string {
		return testbed.Bridge(append(lines, "callers_file "+file, "provider "+p.URL())...)
	}
	c := testbed.StartCaddy(t, site(path))
	list := func(key string) int {
		return c.With(testbed.Fresh(), testbed.Header("Authorization", "Bearer "+key)).Call("list_skills", nil).Status
	}
	if status := list(key); status != http.StatusOK {
		t.Fatalf("HTTP status %d", status)
	}
	next := callers.NewKey()
	text, err := callers.Line("alice", next)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 20*time.Second, func() bool { return list(next) == http.StatusOK && list(key) == http.StatusUnauthorized }, "the new key counts, and the old one does not")
	if err := os.WriteFile(path, []byte(text+"\nmallory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 20*time.Second, func() bool {
		return list(next) == http.StatusOK && len(c.Log.Lines(`"level":"error"`, path+":2: has 1 words")) > 0
	}, "the error is logged")

	for file, want := range map[string]string{path: path + ":2: has 1 words", path + "x": path + "x: no such file or directory", "{env.NO_SUCH_VARIABLE}/callers": "NO_SUCH_VARIABLE"} {
		if err := c.Reload(site(file)); err == nil || !strings.Contains(err.Error(), "callers_file: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(site(path, "allow_anonymous")); err != nil {
		t.Fatal(err)
	}
	if a := c.With(testbed.Fresh()).Call("list_skills", nil); a.Status != http.StatusOK {
		t.Errorf("with allow_anonymous, a caller without a key: %v", a)
	}
	if status := list(key); status != http.StatusUnauthorized {
		t.Errorf("with allow_anonymous, a wrong key: HTTP status %d", status)
	}
}

// TestCallersFileWithAccess: access rules mean the principals of keys, in each protocol and in the files for coding agents.
func TestCallersFileWithAccess(t *testing.T) {
	path, alice := keyFile(t)
	bob := callers.NewKey()
	line, err := callers.Line("bob", bob)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, line+"\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"})
	for _, anonymous := range []bool{false, true} {
		option := ""
		if anonymous {
			option = "allow_anonymous"
		}
		c := testbed.StartCaddy(t, testbed.Site("skill_bridge {", "rpc\na2a\nmcp\nbrowse\nagent_skills\nallow_http\nallow_networks 127.0.0.0/8\ncallers_file "+path, option,
			"access {\ngroup staff alice\nallow staff acme.echo\nallow bob acme.other\n}", "provider "+p.URL()+" {\nnamespace acme\n}", "}"))
		as := func(key string, header ...string) *testbed.Client {
			options := []testbed.Option{testbed.Fresh(), testbed.Header("Content-Type", "application/json"), testbed.Header("Accept", "application/json, text/event-stream")}
			if key != "" {
				options = append(options, testbed.Header("Authorization", "Bearer "+key))
			}
			for i := 0; i+1 < len(header); i += 2 {
				options = append(options, testbed.Header(header[i], header[i+1]))
			}
			return c.With(options...)
		}
		const index = "/.well-known/agent-skills/index.json"
		for key, may := range map[string]string{alice: "echo", bob: "other", "": "none"} {
			for _, name := range []string{"echo", "other"} {
				for _, r := range []keyRequest{
					{path: "/rpc", body: `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.` + name + `"}}`, answered: `"status":"completed"`},
					{path: "/rpc", body: `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`, answered: `"name":"acme.` + name + `"`},
					{path: "/mcp", body: modern("tools/call", `"name":"acme_`+name+`"`), header: mcpHeader("tools/call", "acme_"+name), answered: `"structuredContent"`},
					{path: "/mcp", body: modern("tools/list", ""), header: mcpHeader("tools/list", ""), answered: `"name":"acme_` + name + `"`},
					{path: "/a2a", body: `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.` + name + `","input":{}}}]}}}`, header: []string{"A2A-Version", "1.0"}, answered: "TASK_STATE_COMPLETED"},
				} {
					a := as(key, r.header...).Send(http.MethodPost, base(c)+r.path, r.body)
					if got := strings.Contains(string(a.Body), r.answered); got != (may == name) || key == "" && !anonymous && a.Status != http.StatusUnauthorized {
						t.Errorf("%s as %s: %s %s: %d %s", name, may, r.path, r.body, a.Status, a.Body)
					}
				}
				page := as(key, "Accept", "text/html").Send(http.MethodGet, base(c)+"/rpc", "")
				file := as(key).Send(http.MethodGet, base(c)+"/.well-known/agent-skills/acme-"+name+"/SKILL.md", "")
				list := as(key).Send(http.MethodGet, base(c)+index, "")
				if strings.Contains(string(page.Body), "acme."+name) != (may == name) || (file.Status == http.StatusOK) != (may == name) || strings.Contains(string(list.Body), `"acme-`+name+`"`) != (may == name) {
					t.Errorf("%s as %s: the page is\n%s\nthe file %d, the index %s", name, may, page.Body, file.Status, list.Body)
				}
			}
		}
		for key, want := range map[string]string{"": `Bearer`, alice + "x": `Bearer realm="skill-bridge", error="invalid_token"`} {
			for _, path := range []string{index, "/.well-known/agent-skills/acme-echo/SKILL.md"} {
				a := as(key).Send(http.MethodGet, base(c)+path, "")
				if key == "" && anonymous {
					continue
				}
				if a.Status != http.StatusUnauthorized || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), want) || a.Header.Get("Cache-Control") == "" {
					t.Errorf("%s with %q: %d %v %s", path, key, a.Status, a.Header, a.Body)
				}
			}
		}
		c.Stop()
	}
}
