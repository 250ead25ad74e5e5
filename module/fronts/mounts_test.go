package fronts_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/wire"
)

const (
	sendEcho    = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.echo"}}]}}}`
	sendNothing = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{}}]}}}`
	executeEcho = `{"jsonrpc":"2.0","id":1,"method":"execute_skill","params":{"name":"acme.echo"}}`
)

// visit is a request to a mount, and what the answer has to be.
type visit struct {
	method, path, body string
	status             int
	has                string // of the body; with a "!" at its beginning: the body must not have it
}

func (v *visit) check(t *testing.T, c *testbed.Client, base string) testbed.Answer {
	t.Helper()
	a := c.Send(v.method, base+v.path, v.body)
	unwanted, absent := strings.CutPrefix(v.has, "!")
	if a.Err != nil || a.Status != v.status || !absent && !strings.Contains(string(a.Body), v.has) || absent && strings.Contains(string(a.Body), unwanted) {
		t.Errorf("%s %s: %v, %d %.500s", v.method, v.path, a.Err, a.Status, a.Body)
	}
	return a
}

func base(c *testbed.Caddy) string { return "http://127.0.0.1:" + c.Port("PORT") }

// inSite returns a Caddyfile with a bridge for a provider, with directives around it.
func inSite(p *hostile.Provider, around func(bridge string) string, lines ...string) string {
	lines = append(lines, "provider "+p.URL()+" {", "namespace acme", "}")
	return testbed.Site(around("skill_bridge {\nallow_http\nallow_networks 127.0.0.0/8\n" + strings.Join(lines, "\n") + "\n}"))
}

func alone(bridge string) string { return "route {\n" + bridge + "\nrespond passed 418\n}" }

// Section 1 of the settled text: paths and methods of the mounts; all other requests are passed on.
func TestMounts(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"})
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a"))
	for _, v := range []visit{
		{"POST", "/a2a", sendEcho, 200, "TASK_STATE_COMPLETED"},
		{"POST", "/a2a/", sendEcho, 200, "TASK_STATE_COMPLETED"},
		{"POST", "/a2a/acme.echo", sendNothing, 200, `"skill":"acme.echo"`},
		{"POST", "/a2a/acme.echo/", sendNothing, 200, "TASK_STATE_COMPLETED"},
		{"POST", "/a2a/acme/echo", sendNothing, 200, "TASK_STATE_COMPLETED"},
		{"POST", "/a2a/acme%2Eecho", sendNothing, 200, "TASK_STATE_COMPLETED"},
		{"POST", "/a2a/acme.other", sendEcho, 200, "-32602"},
		{"POST", "/a2a/acme.nope", sendNothing, 404, "-32602"},
		{"POST", "/a2a?A2A-Version=9.9", sendEcho, 200, "-32009"},
		{"POST", "/a2a", "{", 200, "-32700"},
		{"PUT", "/a2a", "{}", 405, ""},
		{"DELETE", "/a2a/acme.echo", "", 405, ""},
		{"GET", "/a2a", "", 200, `"supportedInterfaces"`},
		{"HEAD", "/a2a", "", 200, ""},
		{"GET", "/a2a/", "", 200, `"acme.other"`},
		{"GET", "/a2a/acme.echo", "", 200, `!"acme.other"`},
		{"GET", "/a2a/acme.nope", "", 404, ""},
		{"GET", "/.well-known/agent-card.json", "", 200, `"acme.other"`},
		{"GET", "/a2a/.well-known/agent-card.json", "", 200, `"acme.other"`},
		{"GET", "/a2a/.well-known/agent-card.json", "", 200, `"protocolVersion":"0.3.0"`},
		{"GET", "/a2a/.well-known/agent-card.json?A2A-Version=1.0", "", 200, `!"protocolVersion":"0.3.0"`},
		{"GET", "/a2a/acme.echo/.well-known/agent-card.json", "", 200, `!"acme.other"`},
		{"GET", "/.well-known/agent.json", "", 200, `"acme.other"`},
		{"POST", "/.well-known/agent-card.json", "{}", 405, ""},
		{"POST", "/rpc", executeEcho, 200, `"status":"completed"`},
		{"POST", "/rpc/", executeEcho, 200, `"status":"completed"`},
		{"POST", "/rpc", sendEcho, 200, "-32601"},
		{"POST", "/", sendEcho, 418, "passed"},
		{"POST", "/a2ab", sendEcho, 418, "passed"},
		{"POST", "/rpc/x", executeEcho, 418, "passed"},
		{"GET", "/.well-known/other", "", 418, "passed"},
	} {
		a := v.check(t, c.Client, base(c))
		if a.Status == 405 && a.Header.Get("Allow") == "" {
			t.Errorf("%v: %v", v, a.Header)
		}
		if v.method == "GET" && a.Status == 200 && (a.Header.Get("Etag") == "" || a.Header.Get("Access-Control-Allow-Origin") != "*" || !strings.Contains(a.Header.Get("Vary"), "A2A-Version")) {
			t.Errorf("%v: %v", v, a.Header)
		}
	}
}

// An agent says which extensions of a client's request it has activated, in the field of its version.
func TestActivatedExtensions(t *testing.T) {
	c := testbed.StartCaddy(t, inSite(hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}), alone, "a2a"))
	for said, want := range map[string]string{
		"":                      "",
		"https://example.com/e": "",
		wire.Extension:          wire.Extension,
		"https://example.com/e,\t" + wire.Extension: wire.Extension,
		wire.Extension + "x":                        "",
	} {
		for _, field := range []string{"A2A-Extensions", "X-A2A-Extensions"} {
			a := c.With(testbed.Header(field, said)).Send("POST", base(c)+"/a2a", sendEcho)
			if got := a.Header.Values(field); a.Status != 200 || strings.Join(got, "|") != want || len(a.Header.Values("A2A-Extensions"))+len(a.Header.Values("X-A2A-Extensions")) != len(got) {
				t.Errorf("%s: %q: %d %v", field, said, a.Status, a.Header)
			}
		}
	}
}

// Section 14: other paths, only one of the mounts, a matcher, handle_path, and a handler without mounts.
func TestMountForms(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	for _, form := range []struct {
		about  string
		around func(string) string
		lines  []string
		visits []visit
	}{
		{"only a2a", alone, []string{"a2a /agents/one/"}, []visit{
			{"POST", "/agents/one", sendEcho, 200, "TASK_STATE_COMPLETED"},
			{"POST", "/agents/one/acme.echo", sendNothing, 200, "TASK_STATE_COMPLETED"},
			{"POST", "/a2a", sendEcho, 418, ""},
			{"POST", "/rpc", executeEcho, 418, ""},
			{"GET", "/agents/one/.well-known/agent-card.json", "", 200, "/agents/one"},
		}},
		{"only rpc", alone, []string{"rpc /skills"}, []visit{
			{"POST", "/skills", executeEcho, 200, `"status":"completed"`}, {"POST", "/a2a", sendEcho, 418, ""}, {"GET", "/.well-known/agent-card.json", "", 418, ""},
		}},
		{"no mount", alone, nil, []visit{
			{"POST", "/", executeEcho, 200, `"status":"completed"`}, {"POST", "/a2a", executeEcho, 200, `"status":"completed"`}, {"POST", "/a2a", sendEcho, 200, "-32601"},
		}},
		{"a matcher", func(bridge string) string {
			return "route {\n" + strings.Replace(bridge, "skill_bridge {", "skill_bridge /a2a* {", 1) + "\nrespond passed 418\n}"
		}, []string{"a2a", "rpc"}, []visit{
			{"POST", "/a2a", sendEcho, 200, "TASK_STATE_COMPLETED"}, {"POST", "/rpc", executeEcho, 418, ""}, {"GET", "/.well-known/agent-card.json", "", 418, ""},
		}},
		{"handle_path", func(bridge string) string { return "handle_path /x/* {\n" + bridge + "\n}\nrespond passed 418" }, []string{"a2a"}, []visit{
			{"POST", "/x/a2a", sendEcho, 200, "TASK_STATE_COMPLETED"},
			{"POST", "/x/a2a/acme.echo", sendNothing, 200, "TASK_STATE_COMPLETED"},
			{"POST", "/a2a", sendEcho, 418, ""},
			{"GET", "/x/a2a", "", 200, `/x/a2a"`},
			{"GET", "/x/.well-known/agent-card.json", "", 200, `/x/a2a"`},
		}},
	} {
		t.Run(form.about, func(t *testing.T) {
			c := testbed.StartCaddy(t, inSite(p, form.around, form.lines...))
			defer c.Stop()
			for _, v := range form.visits {
				v.check(t, c.Client, base(c))
			}
		})
	}
}

// Callers without a principal are refused with 401 where one is needed, and don't learn which skills exist. Hidden skills don't exist.
func TestMountsForPrincipals(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/hidden", Access: "private"})
	accounts := func(bridge string) string {
		return "route {\n@login header Authorization *\n" + strings.Replace(testbed.Accounts("ada", "bob"), "basic_auth", "basic_auth @login", 1) + "\n" + bridge + "\nrespond passed 418\n}"
	}
	t.Run("required", func(t *testing.T) {
		c := testbed.StartCaddy(t, inSite(p, accounts, "a2a {\nsecurity login http basic\n}", "require_principal"))
		defer c.Stop()
		for _, path := range []string{"/a2a", "/a2a/acme.echo", "/a2a/acme.nope"} {
			v := visit{"POST", path, sendNothing, 401, "-32050"}
			if a := v.check(t, c.Client, base(c)); !strings.HasPrefix(a.Header.Get("Www-Authenticate"), "Basic ") {
				t.Errorf("%v", a.Header)
			}
		}
		(&visit{"GET", "/a2a/acme.nope", "", 200, "!acme.echo"}).check(t, c.Client, base(c))
		ada := c.With(testbed.BasicAuth("ada", testbed.Password))
		(&visit{"POST", "/a2a", sendEcho, 200, "TASK_STATE_COMPLETED"}).check(t, ada, base(c))
		(&visit{"POST", "/a2a/acme.nope", sendNothing, 404, ""}).check(t, ada, base(c))
	})
	t.Run("challenges", func(t *testing.T) {
		for security, want := range map[string]string{
			"":                                      "Bearer",
			"security a http basic":                 "Basic",
			"security a openid https://x.example/c": "Bearer",
			"security a api_key header X-Key":       "ApiKey",
			"security a mutual_tls":                 "ClientCertificate",
			"security a mutual_tls\nsecurity b api_key cookie key\nsecurity c http bearer": "Bearer",
		} {
			c := testbed.StartCaddy(t, inSite(p, alone, "a2a {\n"+security+"\n}", "require_principal"))
			a := (&visit{"POST", "/a2a", sendNothing, 401, "-32050"}).check(t, c.Client, base(c))
			if got := a.Header["Www-Authenticate"]; len(got) != 1 || got[0] != want+` realm="skill-bridge"` {
				t.Errorf("%s: %q", security, got)
			}
			c.Stop()
		}
	})
	t.Run("hidden", func(t *testing.T) {
		hidden := strings.Replace(inSite(p, accounts, "a2a", "allow_anonymous"), "namespace acme\n", "namespace acme\ndiscovery_credentials api_key secret\n", 1)
		c := testbed.StartCaddy(t, hidden)
		defer c.Stop()
		byName := strings.Replace(sendEcho, "acme.echo", "acme.hidden", 1)
		(&visit{"POST", "/a2a/acme.hidden", sendNothing, 404, ""}).check(t, c.Client, base(c))
		(&visit{"GET", "/a2a/acme.hidden", "", 404, ""}).check(t, c.Client, base(c))
		(&visit{"POST", "/a2a", byName, 200, "-32602"}).check(t, c.Client, base(c))
		(&visit{"GET", "/a2a", "", 200, "!hidden"}).check(t, c.Client, base(c))
		(&visit{"POST", "/a2a", sendNothing, 200, `"skill":"acme.echo"`}).check(t, c.Client, base(c))
		ada := c.With(testbed.BasicAuth("ada", testbed.Password))
		(&visit{"POST", "/a2a/acme.hidden", sendNothing, 200, "TASK_STATE_COMPLETED"}).check(t, ada, base(c))
		(&visit{"POST", "/a2a", byName, 200, "TASK_STATE_COMPLETED"}).check(t, ada, base(c))
	})
}

// The header fields of streams and errors behind Caddy, and a stream over a mount.
func TestMountStreams(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, inSite(p, func(bridge string) string { return "encode gzip\n" + alone(bridge) }, "a2a"))
	for method, want := range map[string]string{"SendStreamingMessage": "TASK_STATE_COMPLETED", "message/stream": `"final":true`} {
		body := strings.Replace(sendEcho, "SendMessage", method, 1)
		if method == "message/stream" {
			body = strings.NewReplacer("ROLE_USER", "user", `{"data"`, `{"kind":"data","data"`).Replace(body)
		}
		a := c.With(testbed.Header("Accept-Encoding", "gzip")).Send(http.MethodPost, base(c)+"/a2a", body)
		if a.Status != 200 || a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(string(a.Body), want) || !strings.HasPrefix(string(a.Body), "id: 1\ndata: ") {
			t.Errorf("%s: %d %v %s", method, a.Status, a.Header, a.Body)
		}
	}
	bad := strings.Replace(sendEcho, "SendMessage", "SubscribeToTask", 1)
	if a := c.Send(http.MethodPost, base(c)+"/a2a", strings.Replace(bad, `"params":{`, `"params":{"id":"x",`, 1)); a.Status != 404 || a.Code != -32001 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := c.With(testbed.Header("Content-Type", "text/plain")).Send(http.MethodPost, base(c)+"/a2a", sendEcho); a.Status != 415 || a.Code != -32005 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// A reload does not begin a new count of the streams.
func TestStreamsAreCountedOverReloads(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"})
	site := func(more ...string) string {
		return inSite(p, alone, append(more, "a2a", "keep 24h 100")...)
	}
	c := testbed.StartCaddy(t, site())
	asked := (&visit{"POST", "/a2a", sendNothing, 200, "TASK_STATE_INPUT_REQUIRED"}).check(t, c.Client, base(c))
	_, id, _ := strings.Cut(string(asked.Body), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	subscribe := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":%q}}`, id)
	for range 50 { // half of the places
		response, err := http.Post(base(c)+"/a2a", "application/json", strings.NewReader(subscribe))
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		defer response.Body.Close()
	}
	(&visit{"POST", "/a2a", subscribe, 429, "Too many streams"}).check(t, c.Client, base(c))
	if err := c.Reload(site("rpc")); err != nil {
		t.Fatal(err)
	}
	(&visit{"POST", "/a2a", subscribe, 429, "Too many streams"}).check(t, c.Client, base(c))
}

// The memory for answers that clients have not read yet is one for all mounts.
func TestMountsShareMemory(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	p.On("acme/echo", hostile.Invoke, hostile.Respond(http.StatusOK, `{"execution_id":"e1","status":"completed","skill_id":"acme/echo","timestamps":{"created_at":"2026-01-02T03:04:05Z","completed_at":"2026-01-02T03:04:05Z"},"output":"`+strings.Repeat("x", 9<<20)+`"}`))
	c := testbed.StartCaddy(t, inSite(p, alone, "rpc", "a2a", "limits {", "memory 28MiB", "}"))
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", c.Port("PORT")))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := fmt.Fprintf(conn, "POST /rpc HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(executeEcho), executeEcho); err != nil {
		t.Fatal(err)
	}
	testbed.Eventually(t, 15*time.Second, func() bool { return len(c.Log.Lines(`"method":"execute_skill"`, `"outcome":"completed"`)) == 1 }, "the output is in memory")
	refused := (&visit{"POST", "/a2a", sendEcho, 429, "-32057"}).check(t, c.Client, base(c))
	_, id, _ := strings.Cut(refused.Message, "Read the task ")
	id, _, _ = strings.Cut(id, " ")
	get := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":%q}}`, id)
	(&visit{"POST", "/a2a", get, 200, "TASK_STATE_SUBMITTED"}).check(t, c.Client, base(c))
	_ = conn.Close()
	testbed.Eventually(t, 15*time.Second, func() bool {
		a := c.Send(http.MethodPost, base(c)+"/a2a", get)
		return a.Status == 200 && strings.Contains(string(a.Body), "TASK_STATE_COMPLETED") && len(a.Body) > 9<<20
	}, "there is room again, and nothing was lost")
	(&visit{"POST", "/a2a", sendEcho, 200, "TASK_STATE_COMPLETED"}).check(t, c.Client, base(c))
}
