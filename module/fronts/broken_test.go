package fronts_test

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// Agent cards and the question for a skill leave out what is known not to work, as the lists of tools do. It can still be named, and is listed again
// once it works.
func TestBrokenSkillsAreNotOffered(t *testing.T) {
	newer := func(d hostile.Object) { d["protocol"] = hostile.Object{"version": "2.0.0"} }
	invalid := func(d hostile.Object) { delete(d, "endpoint") }
	good := []hostile.Skill{{ID: "acme/echo"}, {ID: "acme/other"}}
	p := hostile.NewProvider(t, append(good, hostile.Skill{ID: "acme/telepathy", Edit: newer}, hostile.Skill{ID: "acme/invalid", Edit: invalid})...)
	caddyfile := inSite(p, alone, "rpc", "a2a", "mcp")
	for _, first := range []string{"a question", "a card"} {
		c := testbed.StartCaddy(t, caddyfile)
		question := func() string {
			a := c.Send("POST", base(c)+"/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"Do something for me."}]}}}`)
			return string(a.Body)
		}
		card := func() string { return string(c.Send("GET", base(c)+"/a2a", "").Body) }
		asks := []func() string{question, card}
		if first == "a card" {
			asks = []func() string{card, question}
		}
		for _, ask := range asks {
			if text := ask(); !strings.Contains(text, "acme.echo") || !strings.Contains(text, "acme.other") || strings.Contains(text, "acme.telepathy") || strings.Contains(text, "acme.invalid") {
				t.Errorf("%s first: %s", first, text)
			}
		}
		named := `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"skill":"acme.telepathy"}}]}}}`
		if a := c.Send("POST", base(c)+"/a2a", named); !strings.Contains(string(a.Body), "TASK_STATE_REJECTED") {
			t.Errorf("%s", a.Body)
		}
		list := `{"jsonrpc":"2.0","id":1,"method":"list_skills","params":{"detail":"summary"}}`
		if a := c.Send("POST", base(c)+"/rpc", list); !strings.Contains(string(a.Body), "acme.telepathy") || !strings.Contains(string(a.Body), `"incompatible"`) {
			t.Errorf("%s", a.Body)
		}
		c.Stop()
	}
}

// A message that names no skill does not go to another skill because its own does not work.
func TestBrokenSkillAndTheOnlyOther(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/broken", Edit: func(d hostile.Object) { delete(d, "endpoint") }})
	c := testbed.StartCaddy(t, inSite(p, alone, "a2a"))
	for range 2 {
		(&visit{"POST", "/a2a", sendNothing, 200, "TASK_STATE_INPUT_REQUIRED"}).check(t, c.Client, base(c))
	}
	if n := p.Count("acme/echo", hostile.Invoke); n > 0 {
		t.Errorf("%d calls", n)
	}
}
