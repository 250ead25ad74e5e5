package attacks_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// calledBy are the callers that a provider was told of in the invocations of a skill, each as «id type».
func calledBy(t *testing.T, p *hostile.Provider, skill string) (told []string) {
	t.Helper()
	for _, r := range p.Requests(skill, hostile.Invoke) {
		var sent struct {
			Caller struct{ ID, Type string } `json:"caller"`
		}
		if err := json.Unmarshal([]byte(r.Body), &sent, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%s: %v", r.Body, err)
		}
		told = append(told, sent.Caller.ID+" "+sent.Caller.Type)
	}
	return told
}

const byHeader = "principal {http.request.header.X-User}"

// S235: with {skill_bridge.principal_hash}, a provider can't learn who calls, nor can two providers together: it differs between them, and can't
// be computed without a key. It stays the same for one provider: over a restart and another namespace, and with a seal_key in another database.
func TestS235HashesOfPrincipals(t *testing.T) {
	one, other := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"}), hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	const sealed = "seal_key q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJCBgoOEhYaHiImKi4yNjo+Q"
	database := func() string { return "store sqlite " + filepath.Join(t.TempDir(), "skill_bridge.db") }
	first := database()
	hashes := func(namespace string, lines ...string) (ofOne, ofOther, ofBob string) {
		t.Helper()
		before := len(calledBy(t, one, "s/echo"))
		lines = append(lines, byHeader, "caller {skill_bridge.principal_hash} user", provider(one.URL(), namespace), provider(other.URL(), "other"))
		c := testbed.StartCaddy(t, testbed.Bridge(lines...))
		defer c.Stop()
		alice, bob := c.With(testbed.Header("X-User", "alice")), c.With(testbed.Header("X-User", "bob"))
		for range 2 {
			mustComplete(t, alice.Execute(namespace+".s.echo", nil))
		}
		mustComplete(t, bob.Execute(namespace+".s.echo", nil))
		mustComplete(t, alice.Execute("other.s.echo", nil))
		told, elsewhere := calledBy(t, one, "s/echo")[before:], calledBy(t, other, "s/echo")
		for _, caller := range append(told, elsewhere...) {
			if !regexp.MustCompile(`^[0-9a-f]{64} user$`).MatchString(caller) {
				t.Errorf("%s is no hash", caller)
			}
		}
		if told[0] != told[1] {
			t.Errorf("two hashes of one principal: %v", told)
		}
		return told[0], elsewhere[len(elsewhere)-1], told[2]
	}
	alice, elsewhere, bob := hashes("acme", first)
	if alice == bob || alice == elsewhere {
		t.Errorf("alice %s, at the other provider %s, bob %s", alice, elsewhere, bob)
	}
	for _, text := range []string{"alice", "skill_bridge/rpc alice", one.URL() + "alice", "alice" + one.URL()} {
		if digest := sha256.Sum256([]byte(text)); strings.HasPrefix(alice, hex.EncodeToString(digest[:])) {
			t.Errorf("the hash is the digest of %q", text)
		}
	}
	again, elsewhereAgain, _ := hashes("acme2", first)
	if again != alice || elsewhereAgain != elsewhere {
		t.Errorf("after a restart: %s, not %s", again, alice)
	}
	if unlike, _, _ := hashes("acme", database()); unlike == alice {
		t.Error("another database has the same key")
	}
	if named, _, _ := hashes("acme", first, "name another"); named == alice {
		t.Error("another bridge has the same hashes")
	}
	withKey, _, _ := hashes("acme", database(), sealed)
	if same, _, _ := hashes("acme", database(), sealed); same != withKey || withKey == alice {
		t.Errorf("with one seal_key: %s and %s, and without it %s", withKey, same, alice)
	}
	if foreign, _, _ := hashes("acme", database(), strings.Replace(sealed, "q83v", "q84v", 1)); foreign == withKey {
		t.Error("another seal_key makes the same hashes")
	}

	// The skills of a registry are their providers'. So two of them know no principal by the same hash, and one knows it by that of its own source.
	third := hostile.NewProvider(t, hostile.Skill{ID: "s/third"})
	list := hostile.NewProvider(t, hostile.Skill{ID: "s/echo", DescriptorURL: one.URLOf("s/echo", hostile.Descriptor)},
		hostile.Skill{ID: "s/third", DescriptorURL: third.URLOf("s/third", hostile.Descriptor)})
	c := testbed.StartCaddy(t, testbed.Bridge(first, byHeader, "caller {skill_bridge.principal_hash} user", "allow_ports "+one.Port()+" "+third.Port(), "registry "+newRegistry(t, list).URL+" {\n\t\t\tnamespace all\n\t\t}"))
	client := c.With(testbed.Header("X-User", "alice"))
	mustComplete(t, client.Execute("all.s.echo", nil))
	mustComplete(t, client.Execute("all.s.third", nil))
	told := calledBy(t, one, "s/echo")
	if listed := told[len(told)-1]; listed != alice || calledBy(t, third, "s/third")[0] == listed {
		t.Errorf("by a registry, one provider is told %v, not %s, and the other %v", listed, alice, calledBy(t, third, "s/third"))
	}
}

// S236: a principal is a text, whatever it looks like, and so is what a provider is told. Nothing in a request but the principal chooses it.
func TestS236CallersWithPlaceholders(t *testing.T) {
	t.Setenv("S_KEY", "s-key-canary")
	t.Setenv("S_PREFIX", "site-7:")
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"})
	p.MustNotReceive("s-key-canary")
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {\nallow_http\nallow_networks 127.0.0.0/8\nrpc\na2a\nmcp\n"+byHeader+
		"\ncaller {env.S_PREFIX}{http.auth.user.id} user\n"+provider(p.URL(), "acme")+"\n}"))
	for _, principal := range []string{
		"alice", "{env.S_KEY}", "{skill_bridge.principal_hash}", "{http.auth.user.id}", `"}"skill_id":"x`, `\u0022`, "äöü", "skill-bridge", "{", strings.Repeat("x", 249),
	} {
		before := len(calledBy(t, p, "s/echo"))
		alice := c.With(testbed.Header("X-User", principal), testbed.Header("X-Caller", "mallory"), testbed.Param("caller", hostile.Object{"id": "mallory", "type": "admin"}))
		mustComplete(t, alice.Execute("acme.s.echo", hostile.Object{"caller": hostile.Object{"id": "mallory"}}))
		base := strings.TrimSuffix(c.URL, "/rpc")
		for path, body := range map[string]string{
			"/a2a": `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.s.echo"}}]}}}`,
			"/mcp": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_s_echo","arguments":{},"_meta":{"caller":"mallory"}}}`,
		} {
			if a := alice.Send("POST", base+path, body); a.Status != 200 || a.Code != 0 {
				t.Errorf("%s, %s: %v", principal, path, a)
			}
		}
		told := calledBy(t, p, "s/echo")[before:]
		if want := "site-7:" + principal + " user"; len(told) != 3 || told[0] != want || told[1] != want || told[2] != want {
			t.Errorf("%s: %q", principal, told)
		}
	}
	before := len(calledBy(t, p, "s/echo"))
	mustComplete(t, c.Execute("acme.s.echo", nil))
	if told := calledBy(t, p, "s/echo")[before:]; told[0] != "skill-bridge service" {
		t.Errorf("an anonymous caller is %v", told)
	}
	for _, id := range []string{
		"{http.nonsense.thing}", "{http.request.header.X-Caller}", "x{", "}", "{skill_bridge.principal}", "{env.S_NOT_SET}", "{http.vars.x}", strings.Repeat("x", 257), "\"a\tb\"",
	} {
		for _, line := range []string{"caller " + id, "caller x " + id} {
			if err := reload(c, testbed.Bridge(byHeader, line, provider(p.URL(), "acme"))); err == nil || !strings.Contains(err.Error(), "caller") {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// S237: what can't be told to a provider is not cut or replaced, since it could be mistaken for another caller: the call is refused, in each
// protocol, and nothing is executed.
func TestS237CallersThatCannotBeSent(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "s/echo"}, hostile.Skill{ID: "s/get", Edit: inEndpoint("method", "GET")})
	c := testbed.StartCaddy(t, testbed.Site("skill_bridge {\nallow_http\nallow_networks 127.0.0.0/8\nrpc\na2a\nmcp\n"+byHeader+
		"\ncaller bridge user:{http.request.header.X-User}\n"+provider(p.URL(), "acme")+"\n}"))
	for _, principal := range []string{strings.Repeat("x", 252), strings.Repeat("ä", 126)} {
		alice := c.With(testbed.Header("X-User", principal))
		for _, client := range []*testbed.Client{alice, alice.With(testbed.Param("idempotency_key", "k-"+fmt.Sprint(len(principal)))), alice.With(testbed.Param("wait_ms", 0))} {
			a := client.Execute("acme.s.echo", nil)
			if a.Code != -32051 || a.Data.Executed != "no" || a.Data.Next != "ask_operator" || a.Data.Source != "bridge" || strings.Contains(string(a.Body), "xxx") {
				t.Errorf("%q: %v", principal, a)
			}
		}
		base := strings.TrimSuffix(c.URL, "/rpc")
		a := alice.Send("POST", base+"/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.s.echo"}}]}}}`)
		if !strings.Contains(string(a.Body), "TASK_STATE_REJECTED") || !strings.Contains(string(a.Body), "rename the principal") {
			t.Errorf("%q: %s", principal, a.Body)
		}
		a = alice.Send("POST", base+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"acme_s_echo","arguments":{}}}`)
		if !strings.Contains(string(a.Body), `"isError":true`) || !strings.Contains(string(a.Body), "rename the principal") {
			t.Errorf("%q: %s", principal, a.Body)
		}
		mustComplete(t, alice.Execute("acme.s.get", nil)) // it tells no caller
	}
	if told := calledBy(t, p, "s/echo"); len(told) != 0 {
		t.Errorf("%q were told", told)
	}
	mustComplete(t, c.Execute("acme.s.echo", nil))
	if told := calledBy(t, p, "s/echo"); told[0] != "bridge service" {
		t.Errorf("an anonymous caller is %v", told)
	}
}
