package skillsharing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/discovery"
)

// Clients of the same source share what they read, and each judges it by its own
// secrets and rules: a document that one may not use is neither given to it nor kept
// from the others, and the provider is not asked again for that.
func TestClientsJudgeForThemselves(t *testing.T) {
	p := newProvider(t)
	p.on("GET /skill.json", answers(200, forecast, "Cache-Control", "max-age=600"))
	p.on("GET "+wellKnown, answers(200, acmeIndex, "Content-Type", "application/json", "Cache-Control", "max-age=600"))
	shared := newCache(t, time.Minute, time.Hour)
	client := func(secret string) *skillsharing.Client {
		c := newReader(t, p)
		c.Cache, c.Partition = shared, "p"
		if secret != "" {
			c.Credentials = &keyed{key: secret}
		}
		return c
	}
	read := func(c *skillsharing.Client) []string {
		var said []string
		if _, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json")); e != nil {
			said = append(said, e.Message)
		}
		if _, e := indexOf(t.Context(), c); e != nil {
			said = append(said, e.Message)
		}
		return said
	}
	free, holder, other := client(""), client("acme/translate"), client("another-secret")
	skills := client("acme/forecast")
	for range 3 {
		for _, c := range []*skillsharing.Client{free, other} {
			if said := read(c); said != nil {
				t.Errorf("%q", said)
			}
		}
		if said := read(holder); len(said) != 1 || !strings.Contains(said[0], "index is not used") {
			t.Errorf("an index that repeats the secret: %q", said)
		}
		if said := read(skills); len(said) != 2 || !strings.Contains(said[0], "descriptor is not used") {
			t.Errorf("a descriptor that repeats the secret: %q", said)
		}
	}
	if n := len(p.requests()); n != 2 {
		t.Errorf("%d requests for two documents", n)
	}
}

// Clients of the same source share a skill, and each decides by its own rules which hosts may get its credential, also after another one has invoked it.
func TestClientsSendCredentialsByTheirOwnRules(t *testing.T) {
	p, elsewhere := newProvider(t), newProvider(t)
	elsewhere.on("POST /run", answers(200, `{"execution_id":"e1","skill_id":"acme/forecast","status":"completed"}`))
	p.on("GET /skill.json", answers(200, string(edited(t, forecast, "/endpoint/url="+quote(elsewhere.URL+"/run"), "/endpoint/status_url="+quote(elsewhere.URL+"/status/{execution_id}"),
		"/endpoint/result_url="+quote(elsewhere.URL+"/result/{execution_id}"), `/auth={"type":"api_key","header":"X-Key"}`)), "Cache-Control", "max-age=600"))
	shared := newCache(t, time.Minute, time.Hour)
	client := func(key string, trust ...string) *skillsharing.Client {
		c := newClient(t, p.URL, newTransport(t), trust...)
		c.Cache, c.Partition, c.Credentials = shared, "p", &keyed{key: key}
		return c
	}
	trusting, strict := client("open-sesame", strings.TrimPrefix(elsewhere.URL, "http://")), client("guarded-key")
	for n := range 3 {
		for _, c := range []*skillsharing.Client{trusting, strict} {
			s, e := c.Skill(t.Context(), discovery.NewLocation(p.URL+"/skill.json"))
			if e != nil {
				t.Fatal(e.Message)
			}
			_, e, _ = submit(t.Context(), c, s)
			if refused := e != nil && e.Kind == run.AuthRequired && e.Demand.Withheld; refused != (c == strict) || e != nil && !refused {
				t.Errorf("call %d: %+v", n, e)
			}
		}
	}
	sent := elsewhere.requests()
	if len(sent) != 3 {
		t.Errorf("%d invocations, want 3", len(sent))
	}
	for _, r := range sent {
		if key := r.Header.Get("X-Key"); key != "open-sesame" {
			t.Errorf("the key %q was sent", key)
		}
	}
}
