package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
)

// stale is the part of a Caddyfile that has documents asked for again with every
// call, and used for a while when they can't be had.
func stale(whileInTrouble string) string {
	return "cache {\n\tttl 0\n\tnegative_ttl 0\n\tstale_if_error " + whileInTrouble + "\n}"
}

// R33: while documents can't be had, those that were read are used for as long as
// the operator says, and no longer. That is when their origin is in trouble, or
// answers with something else instead (R115); when it says that they are gone, they are not.
func TestR33Documents(t *testing.T) {
	leavesNothing(t)
	invalidDocument := hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"}}`)
	notFound := hostile.Respond(http.StatusNotFound, "")
	for name, tc := range map[string]struct {
		part      hostile.Part
		action    hostile.Action // nil: the provider is down
		kept, not string         // what comes of a call with and without stale documents
	}{
		"down":                   {"", nil, done, unreachable},
		"index in trouble":       {hostile.Index, hostile.Respond(http.StatusServiceUnavailable, ""), done, unreachable},
		"index reset":            {hostile.Index, hostile.Reset(), done, unreachable},
		"index cut":              {hostile.Index, hostile.Truncate(), done, unreachable},
		"index gone":             {hostile.Index, notFound, "INVALID_PROVIDER_RESPONSE", "INVALID_PROVIDER_RESPONSE"},
		"index invalid":          {hostile.Index, invalidDocument, done, "VALIDATION_ERROR"},
		"index not JSON":         {hostile.Index, hostile.Respond(http.StatusOK, "{"), done, "VALIDATION_ERROR"},
		"descriptor in trouble":  {hostile.Descriptor, hostile.Respond(http.StatusInternalServerError, ""), done, unreachable},
		"descriptor reset":       {hostile.Descriptor, hostile.Reset(), done, unreachable},
		"descriptor gone":        {hostile.Descriptor, notFound, "SKILL_NOT_FOUND", "SKILL_NOT_FOUND"},
		"descriptor invalid":     {hostile.Descriptor, invalidDocument, done, "VALIDATION_ERROR"},
		"descriptor not JSON":    {hostile.Descriptor, hostile.Respond(http.StatusOK, "[1"), done, "VALIDATION_ERROR"},
		"index, 204":             {hostile.Index, hostile.Respond(http.StatusNoContent, ""), done, "INVALID_PROVIDER_RESPONSE"},
		"index, 400":             {hostile.Index, hostile.Respond(http.StatusBadRequest, ""), done, "INVALID_PROVIDER_RESPONSE"},
		"index looping":          {hostile.Index, hostile.Respond(http.StatusFound, "", "Location", "?"), done, "INVALID_PROVIDER_RESPONSE"},
		"index moved, gone":      {hostile.Index, hostile.Respond(http.StatusFound, "", "Location", "/nothing"), done, "INVALID_PROVIDER_RESPONSE"},
		"descriptor moved, gone": {hostile.Descriptor, hostile.Respond(http.StatusMovedPermanently, "", "Location", "/nothing"), done, "SKILL_NOT_FOUND"},
		"descriptor, 400":        {hostile.Descriptor, hostile.Respond(http.StatusBadRequest, ""), done, "INVALID_PROVIDER_RESPONSE"},
		"descriptor, 401":        {hostile.Descriptor, hostile.Respond(http.StatusUnauthorized, ""), "AUTH_REQUIRED", "AUTH_REQUIRED"},
		"descriptor of somebody": {hostile.Descriptor, hostile.Respond(http.StatusOK, `{"id":"acme/other"}`), done, "VALIDATION_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []struct{ age, outcome string }{{"1h", tc.kept}, {"0", tc.not}} {
				p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
				endpoint := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}) // which stays
				p.Publish(hostile.Skill{ID: "acme/now", Endpoint: endpoint.URLOf("acme/now", hostile.Invoke)})
				// The second provider is there for its port, which may be called then.
				c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", stale(keep.age), offer(p, "acme"), offer(endpoint, "beta")))
				if a := c.Execute("acme.now", nil); a.Outcome() != done {
					t.Fatal(a)
				}
				switch {
				case tc.action == nil:
					p.Down()
					p.Disconnect()
				case tc.part == hostile.Index:
					p.On("", hostile.Index, tc.action)
				default:
					p.On("acme/now", tc.part, tc.action)
				}
				for range 3 {
					a := c.Execute("acme.now", nil)
					if a.Outcome() != keep.outcome {
						t.Errorf("stale_if_error %s: %v, want %s", keep.age, a, keep.outcome)
					}
					if keep.outcome != done && (endpoint.Posts(a.Call) != 0 || a.Data.Executed != "no") {
						t.Errorf("stale_if_error %s: invoked without a document: %v", keep.age, a)
					}
				}
				p.Up()
				if tc.part == hostile.Index {
					p.On("", hostile.Index)
				} else {
					p.On("acme/now", hostile.Descriptor)
				}
				if a := c.Execute("acme.now", nil); a.Outcome() != done {
					t.Errorf("stale_if_error %s, when all is well again: %v", keep.age, a)
				}
				c.Stop()
			}
		})
	}
}

// R115: a page about maintenance, half of a document and other answers, with any status but 401, 403, 404 and 410, do not replace what was read, for as long as
// `stale_if_error` says. The bridge asks again only after `negative_ttl`, the operator is told once, and `status` shows it. Also changes
// that are held do not matter.
func TestR115BrokenDocuments(t *testing.T) {
	leavesNothing(t)
	page := "<!doctype html><title>Maintenance</title>"
	for name, broken := range map[string]hostile.Action{
		"page": hostile.Respond(http.StatusOK, page, "Content-Type", "text/html"), "page as JSON": hostile.Respond(http.StatusOK, page),
		"half": hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"},"prov`), "empty": hostile.Respond(http.StatusOK, ""),
		"shape": hostile.Respond(http.StatusOK, `{"status":"maintenance"}`), "type": hostile.Respond(http.StatusOK, "{}", "Content-Type", "application/octet-stream"),
		"endless": hostile.EndlessBody(), "bomb": hostile.Bomb(64 << 20), "encoding": hostile.Respond(http.StatusOK, "?", "Content-Encoding", "br"),
		"204": hostile.Respond(http.StatusNoContent, ""), "206": hostile.Respond(http.StatusPartialContent, "{"), "300": hostile.Respond(http.StatusMultipleChoices, ""), "304": hostile.Respond(http.StatusNotModified, ""),
		"400": hostile.Respond(http.StatusBadRequest, page), "405": hostile.Respond(http.StatusMethodNotAllowed, ""), "408": hostile.Respond(http.StatusRequestTimeout, ""),
		"421": hostile.Respond(http.StatusMisdirectedRequest, ""), "451": hostile.Respond(http.StatusUnavailableForLegalReasons, page),
		"loop": hostile.Respond(http.StatusFound, "", "Location", "?"), "nowhere": hostile.Respond(http.StatusFound, "", "Location", "ftp://a.example/"),
		"moved, and gone": hostile.Respond(http.StatusFound, "", "Location", "/nothing"),
		"another skill":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"page", "half", "bomb", "206", "loop", "another skill"}, name) {
				longtest.Need(t, longtest.Long)
			}
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"}, hostile.Skill{ID: "acme/other"}, hostile.Skill{ID: "acme/third"})
			c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge("cache {\n\tttl 1ms\n\tnegative_ttl 1h\n}", offer(p, "acme", "on_change hold")))
			if a := c.Execute("acme.now", nil); a.Outcome() != done {
				t.Fatal(a)
			}
			if broken == nil {
				broken = hostile.Respond(http.StatusFound, "", "Location", p.URLOf("acme/other", hostile.Descriptor))
			}
			p.On("", hostile.Index, broken)
			p.On("acme/now", hostile.Descriptor, broken)
			indexes, descriptors := p.Count("", hostile.Index), p.Count("acme/now", hostile.Descriptor)
			for range 5 {
				if a := c.Execute("acme.now", nil); a.Outcome() != done {
					t.Errorf("%v", a)
				}
				if names := c.Names(); len(names) != 3 {
					t.Errorf("the names are %q", names)
				}
			}
			requests := 1
			if name == "loop" {
				requests = 4 // the first one and three redirects
			}
			if i, d := p.Count("", hostile.Index)-indexes, p.Count("acme/now", hostile.Descriptor)-descriptors; i != requests || d != requests {
				t.Errorf("%d indexes and %d descriptors were read", i, d)
			}
			if lines := c.Log.Lines("uses stale documents"); len(lines) != 2 { // one for the index, one for the descriptor
				t.Errorf("%d warnings: %s", len(lines), lines)
			}
			var skills struct {
				Stale  []struct{ Namespace string }
				Skills []struct {
					Name       string
					NotRenewed *struct{ Code string } `json:"not_renewed"`
				}
			}
			body := c.Send(http.MethodGet, c.Admin()+"/skill_bridge/skills", "").Body
			if err := json.Unmarshal(body, &skills); err != nil {
				t.Fatal(err)
			}
			if len(skills.Stale) != 1 || skills.Stale[0].Namespace != "acme" || len(skills.Skills) != 3 || skills.Skills[0].NotRenewed == nil || skills.Skills[1].NotRenewed != nil {
				t.Errorf("the status is %s", body)
			}
			providers := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/providers", "").Body)
			if !strings.Contains(providers, `"health":"trouble"`) || !strings.Contains(providers, `"last_trouble"`) {
				t.Errorf("the status is %s", providers)
			}
		})
	}
}

// R116: what is wrong with one entry of a provider's index costs only that skill: the entry is left out, with a warning, and shown as a fault.
func TestR116IndexWithABadEntry(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/one"}, hostile.Skill{ID: "acme/two"})
	entry := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"name":"n","description":"d","version":"1.0.0","capability_type":"api","access":"public","descriptor_url":%q}`, id, p.URLOf(id, hostile.Descriptor))
	}
	bad := []string{
		`7`, `null`, `[]`, `{}`, `{"id":"acme/lone"}`, strings.Replace(entry("acme/version"), `"1.0.0"`, `1`, 1), strings.Replace(entry("acme/access"), `"public"`, `"open"`, 1),
		strings.Replace(entry("acme/url"), "http://", "file://", 1), entry(strings.Repeat("x", 600)), entry("acme/twice"), entry(""),
	}
	p.On("", hostile.Index, hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"},"provider":{"name":"Acme"},"skills":[`+strings.Join(bad[:9], ",")+","+entry("acme/twice")+","+strings.Join(bad[9:], ",")+","+entry("acme/one")+","+entry("acme/two")+`]}`))
	c := testbed.StartProcess(t, testbed.Limits{}, testbed.Bridge(offer(p, "acme")))
	if names := c.Names(); !slices.Equal(names, []string{"acme.one", "acme.two"}) {
		t.Errorf("the names are %q", names)
	}
	for _, name := range []string{"acme.one", "acme.two"} {
		want{outcome: "completed"}.check(t, c.Execute(name, nil))
	}
	for name, path := range map[string]string{"acme.twice": "/skills/10/id", "acme.version": "/skills/5/version", "acme/lone": "/skills/4/"} {
		a := c.Execute(name, nil)
		want{"VALIDATION_ERROR", "discovery", "no", "other_skill", "bridge"}.check(t, a)
		if !strings.Contains(string(a.Data.Details), path) {
			t.Errorf("%s: the details have no %s: %v", name, path, a)
		}
	}
	left := len(bad) + 1 // with the first one that has an id twice
	if lines := c.Log.Lines("entries of a provider's index are ignored", fmt.Sprintf(`"count":%d`, left), "/skills/0 must be an object"); len(lines) != 1 {
		t.Errorf("%d warnings", len(lines))
	}
	status := string(c.Send(http.MethodGet, c.Admin()+"/skill_bridge/skills", "").Body)
	for _, text := range []string{
		fmt.Sprintf(`"left_out":[{"bridge":1,"namespace":"acme","count":%d,"entries":[{"path":"/skills/0","message":"must be an object"}`, left),
		`{"id":"acme/twice","path":"/skills/10/id","message":"must be unique, but /skills/9/id is the same"}`,
	} {
		if !strings.Contains(status, text) {
			t.Errorf("the status has no %s: %s", text, status)
		}
	}
}

// R33: documents are used as long after their freshness as configured, and no
// longer. Their age on arrival counts: up to a second, which is as exact as the
// Date of an answer is.
func TestR33StaleForAWhile(t *testing.T) {
	longtest.Need(t, longtest.Long)
	leavesNothing(t)
	const while = 2 * time.Second
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
	c := testbed.StartCaddy(t, testbed.Bridge("circuit_breaker off", stale("2s"), offer(p, "acme")))
	start := time.Now()
	if a := c.Execute("acme.now", nil); a.Outcome() != done {
		t.Fatal(a)
	}
	read := time.Now()
	p.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, ""))
	for {
		began := time.Now()
		a := c.Execute("acme.now", nil)
		switch {
		case a.Outcome() == done && began.After(read.Add(while)):
			t.Fatalf("used %s after it was read", began.Sub(read))
		case a.Outcome() == done:
			continue
		case a.Outcome() != unreachable || time.Since(start) < while-time.Second:
			t.Errorf("%s after it was read: %v", time.Since(start), a)
		}
		return
	}
}

// R33: a descriptor of a version that the bridge does not know is never invoked,
// and one that has changed is used as it is now.
func TestR33Versions(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now", Version: "1.0.0"})
	c := testbed.StartCaddy(t, testbed.Bridge(stale("0"), offer(p, "acme")))
	first, second := c.With(testbed.Param("version", "1.0.0")), c.With(testbed.Param("version", "2.0.0"))
	check := func(c *testbed.Client, outcome string, code int) {
		t.Helper()
		a := c.Execute("acme.now", nil)
		if a.Outcome() != outcome || a.Code != code {
			t.Errorf("%v, want %s (%d)", a, outcome, code)
		}
		if outcome != done && (p.Posts(a.Call) != 0 || a.Data.Executed != "no") {
			t.Errorf("invoked: %v", a)
		}
	}
	check(first, done, 0)
	check(second, "SKILL_NOT_FOUND", -32602)
	p.Publish(hostile.Skill{ID: "acme/now", Version: "2.0.0"})
	check(first, "SKILL_NOT_FOUND", -32602)
	check(second, done, 0)
	p.Publish(hostile.Skill{ID: "acme/now", Version: "2.0.0", Edit: func(d hostile.Object) {
		d["protocol"] = hostile.Object{"version": "2.0.0"}
	}})
	check(second, "VERSION_INCOMPATIBLE", -32054)
	p.Publish(hostile.Skill{ID: "acme/now", Version: "2.0.0", Edit: func(d hostile.Object) { delete(d, "endpoint") }})
	check(second, "VALIDATION_ERROR", -32055)
	p.Withdraw("acme/now")
	check(second, "SKILL_NOT_FOUND", -32602)
}

// R56: whoever could not have a document is told to wait for as long as the failure is
// remembered, whether it has just happened or happened before.
func TestR56AdviceForDocuments(t *testing.T) {
	leavesNothing(t)
	for name, spoil := range map[string]func(p *hostile.Provider){
		"index 503": func(p *hostile.Provider) { p.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, "")) },
		"index 429": func(p *hostile.Provider) { p.On("", hostile.Index, hostile.Respond(http.StatusTooManyRequests, "")) },
		"descriptor 500": func(p *hostile.Provider) {
			p.On("acme/now", hostile.Descriptor, hostile.Respond(http.StatusInternalServerError, ""))
		},
		"early": func(p *hostile.Provider) {
			p.On("acme/now", hostile.Descriptor, hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "1"))
		},
		"refused": func(p *hostile.Provider) { p.Down() },
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/now"})
			c := testbed.StartCaddy(t, testbed.Bridge("cache {\n\tnegative_ttl 1m\n}", offer(p, "acme")))
			spoil(p)
			start := time.Now()
			for n := range 2 {
				a := c.Execute("acme.now", nil)
				if a.Data.Next != "retry" || a.Data.Retry == nil {
					t.Fatalf("call %d: no advice: %v", n, a)
				}
				delay := time.Duration(a.Data.Retry.SuggestedDelayMS * float64(time.Millisecond))
				if least := time.Minute - time.Since(start); delay < least || delay > time.Minute+time.Second {
					t.Errorf("call %d: wait %s, want %s: %v", n, delay, least, a)
				}
			}
			c.Stop()
		})
	}
}

// R56: a descriptor that was first asked for while the circuit breaker of its host is
// open can be read as soon as the breaker lets it: a refusal of the breaker is not
// remembered as a failure to read it.
func TestR56BreakerIsNotRemembered(t *testing.T) {
	leavesNothing(t)
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/sick"}, hostile.Skill{ID: "acme/new"})
	p.On("acme/sick", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, ""))
	c := testbed.StartCaddy(t, testbed.Bridge("cache {\n\tnegative_ttl 10m\n}", "circuit_breaker {\n\tfailures 1\n\tcooldown 300ms\n}", offer(p, "acme")))
	if a := c.Execute("acme.sick", nil); a.Outcome() != unreachable {
		t.Fatal(a)
	}
	a := c.Execute("acme.new", nil)
	if a.Outcome() != unreachable || !strings.Contains(string(a.Data.Details), `"circuit_breaker"`) || a.Data.Retry == nil || a.Data.Retry.SuggestedDelayMS > 300 {
		t.Fatalf("the breaker is not open: %v", a)
	}
	testbed.Eventually(t, patience, func() bool { return c.Execute("acme.new", nil).Outcome() == done }, "the skill can be used after the cooldown")
}
