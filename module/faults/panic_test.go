package faults_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/credential"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func init() { caddy.RegisterModule(panicking{}) }

// panicking are credentials with a bug: they panic about whatever has the word for
// it, and about every document.
type panicking struct{}

// panicWord is what they panic about.
const panicWord = "please-panic"

func (panicking) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.skill_bridge.credentials.panicking", New: func() caddy.Module { return new(panicking) }}
}

func (*panicking) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (*panicking) Supports(*document.Auth) bool { return true }

func (*panicking) Authenticate(_ context.Context, a *credential.Authentication) error {
	if a.Auth == nil || strings.Contains(string(a.Body), panicWord) {
		panic("a bug")
	}
	return nil
}

func (*panicking) Secrets() []string { return nil }

// R42: a panic in the middle of a call is one answer, HTTP 500 with -32603. The
// process lives, no place is lost, and buffers that are used again show nothing of
// other calls.
func TestR42Panic(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, testbed.Bridge(
		"provider "+p.URL()+" {", "\tnamespace acme", "\tcredentials panicking", "}", "allow_anonymous",
		"limits {", "\truns 8 8", "}"))
	for range 40 { // more than there are places
		a := c.Execute("acme.echo", hostile.Object{"text": panicWord})
		if a.Status != 500 || a.Code != -32603 || p.Posts(a.Call) != 0 {
			t.Fatal(a)
		}
		want{executed: "maybe", next: "none", source: "bridge"}.check(t, a)
	}
	want{outcome: "completed"}.check(t, c.Execute("acme.echo", nil))
	if n := len(c.Log.Lines("panic in a call")); n != 40 {
		t.Errorf("%d panics were logged", n)
	}

	call := func(id, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"execute_skill","params":{"name":"acme.echo","args":{"text":%q}}}`, id, text)
	}
	answers := batchOf(t, c.Post("["+call("first", "")+","+call("second", panicWord)+","+call("third", "")+"]"))
	if answers[`"first"`] != "completed" || answers[`"second"`] != "-32603" || answers[`"third"`] != "completed" {
		t.Errorf("%v", answers)
	}

	// Long calls that panic, and short ones that do not, at the same time.
	secret := strings.Repeat("a-secret-of-another-call ", 1000) + panicWord
	r := testbed.Load{Workers: 8, Calls: 1000, Do: func(_, call int) testbed.Answer {
		if call%4 == 0 {
			return c.Execute("acme.echo", hostile.Object{"text": secret})
		}
		a := c.Execute("acme.echo", nil)
		if output := string(a.Run().Output); strings.Contains(string(a.Body), "secret") || !strings.Contains(output, `"`+a.Call+`"`) {
			t.Errorf("the answer of %s: %s", a.Call, a)
		}
		return a
	}}.Run(t)
	r.Only(t, "completed", "-32603")
	if r.Outcomes["-32603"] != 250 {
		t.Error(r)
	}
	p.MustNotReceive("a-secret-of-another-call")
}

// R42: a panic while a document is read, on a goroutine that no call waits for
// alone, is the failure of that document.
func TestR42PanicInDiscovery(t *testing.T) {
	testbed.CheckLeaks(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, testbed.Bridge(
		"provider "+p.URL()+" {", "\tnamespace acme", "\tdiscovery_credentials panicking", "}", "allow_anonymous",
		"skill mine "+p.URLOf("acme/echo", hostile.Descriptor), "limits {", "\truns 4 4", "}"))
	for range 20 {
		for _, method := range []string{"execute_skill", "describe_skill", "list_skills"} {
			if a := c.Call(method, hostile.Object{"name": "acme.echo"}); a.Err != nil {
				t.Fatal(a)
			}
		}
		want{outcome: "completed"}.check(t, c.Execute("mine", nil))
	}
	if len(p.Requests("", hostile.Index)) != 0 {
		t.Error("the index was asked for")
	}
}
