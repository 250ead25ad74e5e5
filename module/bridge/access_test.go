package bridge_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json" // requests are maps
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/skill-bridge/caddy-skill-bridge/module"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// site is a site with all fronts and with these lines. The principal is what the header field User says.
func site(port string, lines ...string) string {
	return strings.Replace(testbed.Site("skill_bridge {", "\tallow_http", "\tallow_networks 127.0.0.0/8", "\tallow_anonymous",
		"\tprincipal {http.request.header.User}", "\t"+strings.Join(lines, "\n\t"),
		"\tbrowse", "\trpc", "\tmcp", "\ta2a {\n\t\textended_card\n\t}", "}"), "{$PORT}", "{$"+port+"}", 1)
}

// request is a request to one of the fronts.
type request struct {
	front, method string
	params        hostile.Object // nil: GET of the path method
}

// send sends a request as a user to the site of a client.
func (r *request) send(t *testing.T, c *testbed.Client, user string) testbed.Answer {
	t.Helper()
	base := strings.TrimSuffix(c.URL, "/rpc")
	c = c.With(testbed.Fresh())
	if user != "" {
		c = c.With(testbed.Header("User", user))
	}
	if r.params == nil {
		return c.With(testbed.Header("Accept", "text/html, application/json")).Send(http.MethodGet, base+r.method, "")
	}
	params := maps.Clone(r.params)
	switch r.front {
	case "a2a":
		c = c.With(testbed.Header("A2A-Version", "1.0"))
	case "mcp":
		params["_meta"] = hostile.Object{
			"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": hostile.Object{},
		}
		c = c.With(testbed.Header("MCP-Protocol-Version", "2026-07-28"), testbed.Header("Mcp-Method", r.method))
		for _, name := range []string{"name", "uri"} {
			if value, ok := params[name].(string); ok {
				c = c.With(testbed.Header("Mcp-Name", value))
			}
		}
	}
	body, err := json.Marshal(hostile.Object{"jsonrpc": "2.0", "id": 1, "method": r.method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	return c.Send(http.MethodPost, base+"/"+r.front, string(body))
}

// folderOf returns the folder of a skill in MCP. A name that is not of the Agent Skills format has a hash there.
func folderOf(name string) string {
	namespace, own, _ := strings.Cut(name, ".")
	if plain := strings.ReplaceAll(own, ".", "-"); plain != own {
		sum := sha256.Sum256([]byte(own))
		own = plain + "-" + hex.EncodeToString(sum[:3])
	}
	return "skill://" + namespace + "/" + own
}

// requestsAbout are requests of all methods that take the name of a skill.
func requestsAbout(name string) []request {
	o := func(pairs ...any) hostile.Object {
		object := hostile.Object{}
		for i := 0; i < len(pairs); i += 2 {
			object[pairs[i].(string)] = pairs[i+1]
		}
		return object
	}
	message := func(parts ...any) hostile.Object {
		return o("message", o("messageId", "m", "role", "ROLE_USER", "parts", parts))
	}
	requests := []request{
		{"rpc", "execute_skill", o("name", name)},
		{"rpc", "execute_skill", o("name", name, "version", "9.9.9")},
		{"rpc", "describe_skill", o("name", name)},
		{"rpc", "read_skill_file", o("name", name, "path", "SKILL.md")},
		{"rpc", "read_skill_file", o("name", name, "path", "descriptor.json")},
		{"rpc", "list_skills", o("query", name)},
		{"rpc", "list_skills", o("query", name, "detail", "tools")},
		{"rpc", "list_skills", o("namespace", name)},
		{"a2a", "SendMessage", message(o("data", o("skill", name, "input", o())))},
		{"a2a", "SendMessage", message(o("text", name))},
		{"mcp", "resources/read", o("uri", "skill://"+strings.ReplaceAll(name, "/", "%2F")+"/SKILL.md")},
		{"mcp", "skills/get", o("uri", folderOf(name)+"/SKILL.md")},
		{"mcp", "resources/read", o("uri", folderOf(name)+"/SKILL.md")},
		{"mcp", "resources/read", o("uri", folderOf(name)+"/descriptor.json")},
		{"mcp", "prompts/get", o("name", name)},
		{"mcp", "completion/complete", o("ref", o("type", "ref/prompt", "name", name), "argument", o("name", "x", "value", ""))},
		{"mcp", "completion/complete", o("ref", o("type", "ref/resource", "uri", "skill://{name}/{file}"), "argument", o("name", "name", "value", name[:1]))},
		{"mcp", "tools/call", o("name", name, "arguments", o())},
		{"", "/rpc?skill=" + name, nil},
		{"", "/rpc?namespace=" + name, nil},
		{"", "/rpc?q=" + name, nil},
	}
	if !strings.Contains(name, "/") {
		requests = append(requests, request{"", "/a2a/" + name + "/.well-known/agent-card.json", nil}, request{"a2a/" + name, "SendMessage", message(o("text", "x"))})
	}
	return requests
}

// lists are requests of all methods that list skills or describe the bridge.
var lists = []request{
	{"rpc", "list_skills", hostile.Object{}},
	{"rpc", "list_skills", hostile.Object{"limit": 1}},
	{"rpc", "list_skills", hostile.Object{"usable": true}},
	{"rpc", "list_skills", hostile.Object{"detail": "summary", "query": "something"}},
	{"rpc", "list_skills", hostile.Object{"detail": "tools", "format": "mcp"}},
	{"rpc", "load_skills_protocol_guide", hostile.Object{}},
	{"rpc", "rpc.discover", hostile.Object{}},
	{"mcp", "server/discover", hostile.Object{}},
	{"mcp", "tools/list", hostile.Object{}},
	{"mcp", "resources/list", hostile.Object{}},
	{"mcp", "skills/list", hostile.Object{}},
	{"mcp", "prompts/list", hostile.Object{}},
	{"a2a", "GetExtendedAgentCard", hostile.Object{}},
	{"a2a", "SendMessage", hostile.Object{"message": hostile.Object{"messageId": "m", "role": "ROLE_USER", "parts": []any{hostile.Object{"text": "help me"}}}}},
	{"a2a", "ListTasks", hostile.Object{}},
	{"", "/.well-known/agent-card.json", nil},
	{"", "/.well-known/agent.json", nil},
	{"", "/rpc", nil},
}

// TestUnknownSkillsInRules: names in access rules and quotas that no skill has are logged when the source is read, with the nearest names.
func TestUnknownSkillsInRules(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"}, hostile.Skill{ID: "s/fail"})
	c := testbed.StartCaddy(t, site("PORT", "provider "+p.URL()+" {", "namespace acme", "}",
		"access {", "\tdeny bob acme.s.fial acme.s.echo", "\tallow * *", "}", "quota * acme.s.ecko {", "\trate 100 1m", "}", "quota * acme.s.fail {", "\trate 100 1m", "}"))
	lists[0].send(t, c.Client, "eve")
	for _, want := range [][]string{
		{"access rules name skills that the source does not list", `"count":1,"first":["acme.s.fial"],"near":["acme.s.fail"]`},
		{"quotas name skills that the source does not list", `"count":1,"first":["acme.s.ecko"],"near":["acme.s.echo"]`},
	} {
		if lines := c.Log.Lines(want...); len(lines) != 1 {
			t.Errorf("%q: %d lines in %s", want, len(lines), c.Log.Text())
		}
	}
}

// changing are parts of answers that differ between two sites or two calls. The digests are those of files with addresses.
var changing = regexp.MustCompile(`"digest":"sha256:[0-9a-f]{64}"|(?:127\.0\.0\.1|localhost):\d+|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z|nonce[-=]"?[^" ']+|"ttlMs":\d+|"(?:run_token|runToken|cursor|next_cursor)":"[^"]*"|"instructions":"[^"]*"|"cacheScope":"(?:private|public)"`)

// TestDeniedSkillsDoNotExist: to callers to whom access rules deny skills, every method of every front answers as where the providers do not
// have these skills, and the sources of which they may use none are not configured.
func TestDeniedSkillsDoNotExist(t *testing.T) {
	skill := func(id string) hostile.Skill {
		return hostile.Skill{ID: id, EditEntry: func(e hostile.Object) { e["tags"] = []any{"tag"} }}
	}
	knowledge := func(id string) hostile.Skill {
		s := skill(id)
		s.Edit = func(d hostile.Object) { d["capability_type"] = "knowledge" }
		s.EditEntry = func(e hostile.Object) { e["capability_type"] = "knowledge" }
		return s
	}
	private := skill("s/private")
	private.Access = "private"
	few := []hostile.Skill{skill("s/open"), skill("s/opened"), knowledge("k/open"), private}
	denied := []hostile.Skill{skill("s/secret"), skill("s/secrets"), knowledge("k/secret"), skill("s/aliased")}
	full, trimmed := hostile.NewProvider(t, append(denied, few...)...), hostile.NewProvider(t, few...)
	other, hidden := hostile.NewProvider(t, skill("o/one")), hostile.NewProvider(t, skill("h/one"), skill("h/two"))
	single := hostile.NewProvider(t, hostile.Skill{ID: "alone", Unlisted: true})
	source := func(kind, url, name string, lines ...string) string {
		return kind + " " + url + " {\n\t\tnamespace " + name + "\n\t\t" + strings.Join(lines, "\n\t\t") + "\n\t}"
	}
	c := testbed.StartCaddy(t, site("PORT",
		source("provider", full.URL(), "acme", "alias short s/aliased"), source("provider", other.URL(), "other"), source("provider", hidden.URL(), "hidden"),
		"skill alone "+single.URLOf("alone", hostile.Descriptor),
		"access {", "\tgroup staff alice bob", "\tallow staff *", "\tdeny * acme.s.secret acme.s.secrets", "\tdeny * acme.k.secret alone short", "\tallow * acme.* other.o.one", "}",
	)+site("PORT_CONTROL", "name control", source("provider", trimmed.URL(), "acme"), source("provider", other.URL(), "other")))
	control := *c.Client
	control.URL = strings.Replace(c.URL, c.Port("PORT"), c.Port("PORT_CONTROL"), 1)

	for _, name := range []string{"acme.s.secret", "alone", "hidden.h.one", "short", "acme_s_secret", "acme.k.secret"} {
		if a := c.With(testbed.Header("User", "bob")).Execute(name, nil); a.Outcome() != "completed" {
			t.Errorf("bob may use %s: %v", name, a)
		}
	}
	var requests []request
	for _, name := range []string{
		"acme.s.secret", "acme.s/secret", "acme/s/secret", "acme_s_secret", "s/secret", "s.secret", "acme.s.secre", "acme.s.secretz", "acme.k.secret", "acme_k_secret",
		"short", "shrt", "acme.s.aliased", "acme_s_aliased", "s/aliased", "alone", "alon", "hidden", "hidden.h.one", "hidden_h_one", "hidden.h.on", "h/one", "hiden.h.one", "acme", "tag",
	} {
		requests = append(requests, requestsAbout(name)...)
	}
	requests = append(requests, lists...)
	before := len(hidden.All()) + len(single.All())
	for _, user := range []string{"eve", "", "staff", "*"} {
		for _, r := range requests {
			got, want := r.send(t, c.Client, user), r.send(t, &control, user)
			if got.Err != nil || want.Err != nil {
				t.Fatalf("%+v: %v, %v", r, got.Err, want.Err)
			}
			if g, w := changing.ReplaceAll(got.Body, nil), changing.ReplaceAll(want.Body, nil); got.Status != want.Status || !bytes.Equal(g, w) {
				t.Errorf("%q, %+v: status %d\n%s\nwithout the denied skills %d\n%s", user, r, got.Status, g, want.Status, w)
			}
			for _, secret := range []string{"h.two", "acme.s.secrets", ":" + hidden.Port(), ":" + single.Port()} {
				if strings.Contains(string(got.Body), secret) {
					t.Errorf("%q, %+v shows %q:\n%s", user, r, secret, got.Body)
				}
			}
		}
	}
	if n := len(hidden.All()) + len(single.All()); n != before {
		t.Errorf("%d requests were made to sources for callers who may not use them", n-before)
	}
	if a := lists[0].send(t, c.Client, "eve"); !strings.Contains(string(a.Body), `"acme.s.open"`) || !strings.Contains(string(a.Body), `"other.o.one"`) {
		t.Errorf("what eve may use is not listed: %s", a.Body)
	}
	if a := (&request{"mcp", "tools/list", hostile.Object{}}).send(t, c.Client, ""); !strings.Contains(string(a.Body), `"cacheScope":"private"`) {
		t.Errorf("a list that depends on the principal is public: %s", a.Body)
	}
	if a := (&request{"", "/.well-known/agent-card.json", nil}).send(t, c.Client, "bob"); !strings.Contains(string(a.Body), `"acme.s.secret"`) ||
		!slices.Contains(a.Header.Values("Vary"), "Authorization") || !strings.Contains(a.Header.Get("Cache-Control"), "private") {
		t.Errorf("the card for bob: %v\n%s", a.Header, a.Body)
	}
}

// TestRunsOfDeniedSkills: once access rules deny a skill, its earlier runs can't be followed, as if it was not offered any more; the tasks that
// a caller has started stay listed.
func TestRunsOfDeniedSkills(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/slow"}, hostile.Skill{ID: "s/open"})
	p.Script("s/slow", hostile.Invoke, func(int) hostile.Action { return hostile.Accept(1 << 20) })
	text := func(rules ...string) string {
		return site("PORT", append([]string{"name runs", "cache {\n\t\tttl 0s\n\t\tstale_if_error 0s\n\t\tnegative_ttl 0s\n\t}", "provider " + p.URL() + " {\n\t\tnamespace acme\n\t}", "access {"}, append(rules, "}")...)...)
	}
	c := testbed.StartCaddy(t, text("\tallow eve *"))
	eve := c.With(testbed.Header("User", "eve"), testbed.Fresh())
	started := eve.Call("execute_skill", hostile.Object{"name": "acme.s.slow", "wait_ms": 0})
	var run struct {
		Token string `json:"run_token"`
	}
	if err := json.Unmarshal(started.Result, &run); err != nil || run.Token == "" {
		t.Fatalf("%v", started)
	}
	task := eve.Agent().Invoke("acme.s.slow", true).Task().ID
	follow := request{"rpc", "get_run", hostile.Object{"run_token": run.Token, "wait_ms": 0}}
	if a := follow.send(t, c.Client, "eve"); a.Code != 0 {
		t.Errorf("before: %s", a.Body)
	}
	if err := c.Reload(text("\tdeny eve acme.s.slow", "\tallow eve *")); err != nil {
		t.Fatal(err)
	}
	asks := []request{follow, {"mcp", "tasks/get", hostile.Object{"taskId": run.Token}}, {"mcp", "tools/call", hostile.Object{"name": "get_run", "arguments": hostile.Object{"run_token": run.Token}}}}
	var denied []string
	// The task's run has polls of its own, which go on.
	pollsOfRun := func() (n int) {
		for _, r := range p.Requests("s/slow", hostile.Status) {
			if r.Execution == "run-1" {
				n++
			}
		}
		return n
	}
	polls := pollsOfRun()
	for _, ask := range asks {
		denied = append(denied, string(changing.ReplaceAll(ask.send(t, c.Client, "eve").Body, nil)))
	}
	if n := pollsOfRun(); polls == 0 || n != polls {
		t.Errorf("a run of a denied skill was polled: %d polls before, %d after", polls, n)
	}
	if a := eve.Agent().GetTask(task); a.Task().ID != task {
		t.Errorf("the task of the caller: %s", a.Body)
	}
	p.Withdraw("s/slow")
	if err := c.Reload(text("\tallow eve *")); err != nil {
		t.Fatal(err)
	}
	for i, ask := range asks {
		if gone := string(changing.ReplaceAll(ask.send(t, c.Client, "eve").Body, nil)); gone != denied[i] {
			t.Errorf("%s\n%s\nwhere the skill is gone\n%s", ask.method, denied[i], gone)
		}
	}
}

// TestKeysOfDeniedSkills: once access rules deny a skill, the key of an earlier call gets the answer of a name that means no skill, instead of the
// stored outcome, and list_runs leaves its run out.
func TestKeysOfDeniedSkills(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/done"}, hostile.Skill{ID: "s/open"})
	text := func(rules ...string) string {
		return site("PORT", append([]string{"name runs", "cache {\n\t\tttl 0s\n\t\tstale_if_error 0s\n\t\tnegative_ttl 0s\n\t}", "provider " + p.URL() + " {\n\t\tnamespace acme\n\t}", "access {"}, append(rules, "}")...)...)
	}
	c := testbed.StartCaddy(t, text("\tallow eve *"))
	answer := func(method string, params hostile.Object) string {
		r := request{"rpc", method, params}
		return string(changing.ReplaceAll(r.send(t, c.Client, "eve").Body, nil))
	}
	call := func(skill string, more ...string) string {
		params := hostile.Object{"name": skill}
		for _, key := range more {
			params["idempotency_key"] = key
		}
		return answer("execute_skill", params)
	}
	asked := []string{"acme.s.done", "acme.s/done", "s/done"}
	for _, name := range append(asked, "acme.s.open") {
		if a := call(name, name); !strings.Contains(a, `"completed"`) {
			t.Fatalf("%s: %s", name, a)
		}
	}
	if list := answer("list_runs", hostile.Object{}); strings.Count(list, `"acme.s.done"`) != 3 {
		t.Errorf("before: %s", list)
	}
	if err := c.Reload(text("\tdeny eve acme.s.done", "\tallow eve *")); err != nil {
		t.Fatal(err)
	}
	check := func(about string) {
		t.Helper()
		for _, name := range asked {
			if a, plain := call(name, name), call(name); a != plain || !strings.Contains(a, "SKILL_NOT_FOUND") {
				t.Errorf("%s: %s\nwithout the key: %s", about, a, plain)
			}
			if list := answer("list_runs", hostile.Object{"skill": name}); strings.Contains(list, "done") {
				t.Errorf("%s: of the skill: %s", about, list)
			}
		}
		if a := call("acme.s.open", "acme.s.open"); !strings.Contains(a, `"completed"`) {
			t.Errorf("%s: %s", about, a)
		}
		if list := answer("list_runs", hostile.Object{}); strings.Contains(list, "done") || !strings.Contains(list, `"acme.s.open"`) {
			t.Errorf("%s: %s", about, list)
		}
	}
	check("denied")
	p.Withdraw("s/done")
	check("denied and gone")
	if err := c.Reload(text("\tallow eve *")); err != nil {
		t.Fatal(err)
	}
	check("gone")
}
