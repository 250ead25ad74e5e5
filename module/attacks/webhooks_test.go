package attacks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// S70: whatever URL an A2A client sets as a webhook: no connection to an address that is not public. Addresses and bad
// spellings are refused when they are set, names when they are dialed. The networks that are allowed for providers don't count.
func TestS70WebhookAddresses(t *testing.T) {
	canary := hostile.NewCanaryAt(t, ":0")
	names := hostile.NewNameServer(t)
	setForbidden(names)
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, strings.Replace(bridge(
		"allow_networks 127.0.0.0/8 10.0.0.0/8 ::1 "+house, "allow_ports "+canary.Port(), "allow_anonymous", names.Transport(), provider(p.URL(), "acme"),
		"a2a", "webhooks {\n\tallow_http\n\tallow_ports "+canary.Port()+"\n}",
	), "skill_bridge /rpc", "skill_bridge", 1))
	agent := c.Agent()
	named := 0
	set := func(url string) testbed.Answer {
		params, _ := testbed.Message("acme.x", true)
		params["configuration"] = hostile.Object{"taskPushNotificationConfig": hostile.Object{"url": url}}
		return agent.Call("SendMessage", params)
	}
	for _, f := range forbiddenForms {
		a := set("http://" + f.host + ":" + canary.Port() + "/")
		isName := strings.Contains(f.host, "example.test") || strings.HasPrefix(strings.ToLower(f.host), "localhost") || strings.HasPrefix(f.host, "metadata.")
		switch {
		case isName && a.Code == 0:
			named++
		case isName || a.Code != -32602:
			t.Errorf("%s: %v", f.host, a)
		case f.resolved != "" && strings.Contains(string(a.Body), f.resolved):
			t.Errorf("%s: the answer tells the address: %v", f.host, a)
		}
	}
	for _, url := range invalidURLs {
		if a := set(strings.ReplaceAll(url, "PORT", canary.Port())); a.Code != -32602 {
			t.Errorf("%q: %v", url, a)
		}
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return len(c.Log.Lines("did not connect", "webhooks")) >= 5 }, "names are refused when they are dialed")
	if named < 8 {
		t.Errorf("only %d names were tried", named)
	}
}

// S70, for the ends of runs (notify).
func TestS70CallbackAddresses(t *testing.T) {
	canary := hostile.NewCanaryAt(t, ":0")
	names := hostile.NewNameServer(t)
	setForbidden(names)
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, bridge(
		"allow_networks 127.0.0.0/8 10.0.0.0/8 ::1 "+house, "allow_ports "+canary.Port(), "allow_anonymous", names.Transport(), provider(p.URL(), "acme"),
		"webhooks {\n\tallow_http\n\tallow_ports "+canary.Port()+"\n}",
	))
	call := func(url string) testbed.Answer {
		return c.With(testbed.Param("notify", hostile.Object{"url": url, "token": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"})).Execute("acme.x", hostile.Object{"call": url})
	}
	named := 0
	for _, f := range forbiddenForms {
		a := call("http://" + f.host + ":" + canary.Port() + "/")
		isName := strings.Contains(f.host, "example.test") || strings.HasPrefix(strings.ToLower(f.host), "localhost") || strings.HasPrefix(f.host, "metadata.")
		switch {
		case isName && a.Code == 0:
			named++
		case isName || a.Code != -32602 || a.Data.Param != "notify.url":
			t.Errorf("%s: %v", f.host, a)
		case f.resolved != "" && strings.Contains(string(a.Body), f.resolved):
			t.Errorf("%s: the answer tells the address: %v", f.host, a)
		}
	}
	for _, url := range invalidURLs {
		if a := call(strings.ReplaceAll(url, "PORT", canary.Port())); a.Code != -32602 {
			t.Errorf("%q: %v", url, a)
		}
	}
	testbed.Eventually(t, 30*time.Second, func() bool { return len(c.Log.Lines("did not connect", "webhooks")) >= 5 }, "names are refused when they are dialed")
	if named < 8 {
		t.Errorf("only %d names were tried", named)
	}
}

// S70: a name that leads to a private address gets no request, and neither the log nor an answer has the secrets of the webhook.
func TestS70WebhookSecrets(t *testing.T) {
	canary := hostile.NewCanary(t)
	names := hostile.NewNameServer(t)
	names.Set("hook.example.test", hostile.Addresses("127.0.0.1"))
	p := inHouse(t, hostile.Skill{ID: "acme/x"})
	c := testbed.StartCaddy(t, strings.Replace(bridge(
		"allow_networks "+house, "allow_anonymous", names.Transport(), provider(p.URL(), "acme"),
		"a2a", "webhooks {\n\tallow_http\n\tallow_ports "+canary.Port()+"\n}",
	), "skill_bridge /rpc", "skill_bridge", 1))
	params, _ := testbed.Message("acme.x", false)
	params["configuration"] = hostile.Object{"taskPushNotificationConfig": hostile.Object{
		"url": "http://hook.example.test:" + canary.Port() + "/?q=1", "token": "tok-en",
		"authentication": hostile.Object{"scheme": "Bearer", "credentials": "cre-dentials"},
	}}
	if a := c.Agent().Call("SendMessage", params); a.Task().State() != "COMPLETED" {
		t.Fatal(a)
	}
	testbed.Eventually(t, 30*time.Second, func() bool {
		return len(c.Log.Lines("a webhook did not take an event", "blocked")) > 0
	}, "the connection is refused")
	c.Log.MustNotShow("tok-en", "cre-dentials", "q=1")
}
