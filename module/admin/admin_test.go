package admin

import (
	"encoding/json" // of Caddy's admin API
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/skill-bridge/caddy-skill-bridge/module/observe"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/hostile"
	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/testbed"
	"github.com/skill-bridge/caddy-skill-bridge/module/usage"
)

// admin is the admin API of a Caddy.
type admin struct {
	*testing.T
	url string
}

// ask sends a request and decodes the answer, unless there is to be none.
func (a admin) ask(method, path, body string, status int, answer any) string {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+path, strings.NewReader(body))
	if err != nil {
		a.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if errors.Is(err, io.EOF) { // the admin server of the configuration before a reload has closed the connection
		req.Body = io.NopCloser(strings.NewReader(body))
		resp, err = http.DefaultClient.Do(req)
	}
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	var text json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&text); err != nil || resp.StatusCode != status {
		a.Fatalf("%s %s: %d, want %d; %v %s", method, path, resp.StatusCode, status, err, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			a.Fatal(err)
		}
	}
	return string(text)
}

func TestAdminAPI(t *testing.T) {
	const secret = "canary-of-the-admin-api"
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/slow"}, hostile.Skill{ID: "acme/broken"}, hostile.Skill{ID: "acme/down"})
	gate := hostile.NewGate(t)
	p.On("acme/slow", hostile.Invoke, hostile.Accept(0))
	p.On("acme/slow", hostile.Status, gate.Then(hostile.Usual()))
	p.On("acme/broken", hostile.Descriptor, hostile.Respond(http.StatusOK, `{"protocol":{"version":"1.0.0"},"id":"acme/broken"}`))
	p.On("acme/down", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "0"))
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge(
		"provider "+p.URL()+" {", "namespace acme", "credentials api_key "+secret, "}", "allow_anonymous", "poll_interval 5ms 20ms", "circuit_breaker {", "failures 2", "}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}

	var providers []Provider
	a.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers)
	if len(providers) != 1 || providers[0].Health != "unknown" || providers[0].URL != p.URL() || providers[0].Kind != "provider" {
		t.Errorf("before any call: %+v", providers)
	}

	c.Execute("acme.echo", nil)
	c.Execute("acme.broken", nil)
	slow := make(chan testbed.Answer, 1)
	go func() { slow <- c.Execute("acme.slow", hostile.Object{"secret_argument": secret}) }()
	testbed.Eventually(t, 10*time.Second, func() bool { return gate.Waiting() > 0 }, "the run is followed")

	var shown []string
	var calls Calls
	shown = append(shown, a.ask(http.MethodGet, "/skill_bridge/calls", "", http.StatusOK, &calls))
	if c := calls.Calls; calls.Total != 1 || c[0].Name != "acme.slow" || c[0].ExecutionID == "" || c[0].Namespace != "acme" || c[0].Accepted == nil || c[0].Method != "execute_skill" {
		t.Errorf("calls: %+v", calls)
	}
	shown = append(shown, a.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers))
	if providers[0].Health != "ok" || providers[0].CallsInProgress != 1 || providers[0].LastAnswer == nil {
		t.Errorf("while a run goes on: %+v", providers[0])
	}
	gate.Open()
	<-slow

	for range 3 {
		c.Execute("acme.down", nil)
	}
	shown = append(shown, a.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers))
	if b := providers[0].CircuitBreakers; providers[0].Health != "trouble" || providers[0].LastTrouble.HTTPStatus != 503 || providers[0].LastTrouble.Phase != "invoke" || len(b) != 1 || b[0].State != "open" || b[0].Failures != 2 {
		t.Errorf("in trouble: %+v", providers[0])
	}

	var skills Inventory
	shown = append(shown, a.ask(http.MethodGet, "/skill_bridge/skills?namespace=acme", "", http.StatusOK, &skills))
	states := map[string]string{}
	for _, s := range skills.Skills {
		states[s.Name] = s.Descriptor
		if s.Fault != nil {
			states[s.Name] += " " + s.Fault.Code
		}
	}
	if states["acme.echo"] != "fresh" || states["acme.broken"] != "not_cached VALIDATION_ERROR" || len(states) != 4 || len(skills.Unavailable) != 0 {
		t.Errorf("skills: %v, %+v", states, skills.Unavailable)
	}
	a.ask(http.MethodGet, "/skill_bridge/skills?namespace=none", "", http.StatusOK, &skills)
	if len(skills.Skills) != 0 {
		t.Errorf("skills of a source that is not there: %+v", skills)
	}
	for _, text := range shown {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is shown: %s", text)
		}
	}
}

// TestHealthSurvivesReloads: how a source is, is known for as long as there is a
// configuration with it.
func TestHealthSurvivesReloads(t *testing.T) {
	p, q := hostile.NewProvider(t, hostile.Skill{ID: "acme/down"}), hostile.NewProvider(t, hostile.Skill{ID: "beta/echo"})
	p.On("acme/down", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, "", "Retry-After", "0"))
	config := func(caller string, lines ...string) string {
		return "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Bridge(append(lines, "caller "+caller)...)
	}
	acme, beta := []string{"provider " + p.URL() + " {", "namespace acme", "}"}, []string{"provider " + q.URL() + " {", "namespace beta", "}"}
	c := testbed.StartCaddy(t, config("first", slices.Concat(acme, beta)...))
	client := c.With(testbed.Fresh())
	healths := func() map[string]Provider {
		t.Helper()
		var providers []Provider
		admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers)
		known := make(map[string]Provider, len(providers))
		for _, p := range providers {
			known[p.Namespace] = p
		}
		return known
	}
	reload := func(caddyfile string, sources int) map[string]Provider {
		t.Helper()
		if err := c.Reload(caddyfile); err != nil {
			t.Fatal(err)
		}
		testbed.Eventually(t, 10*time.Second, func() bool { return len(observe.Live()) == 1 }, "the earlier configuration is gone")
		now := healths()
		if len(now) != sources {
			t.Fatalf("%d sources: %+v", len(now), now)
		}
		return now
	}
	client.Execute("acme.down", nil)
	if a := client.Execute("beta.echo", nil); a.Outcome() != "completed" {
		t.Fatal(a)
	}
	before := healths()
	if a := before["acme"]; a.Health != "trouble" || a.LastTrouble.HTTPStatus != http.StatusServiceUnavailable {
		t.Fatalf("before the reload: %+v", before)
	}
	after := reload(config("second", slices.Concat(beta, acme)...), 2)
	if a := after["acme"]; a.Health != "trouble" || a.LastTrouble == nil || *a.LastTrouble != *before["acme"].LastTrouble || !a.LastAnswer.Equal(*before["acme"].LastAnswer) {
		t.Errorf("after a reload: %+v, want %+v", a, before["acme"])
	}
	if b := after["beta"]; b.Health != "ok" || !b.LastAnswer.Equal(*before["beta"].LastAnswer) {
		t.Errorf("after a reload: %+v, want %+v", b, before["beta"])
	}
	client.Execute("beta.echo", nil)
	if b := healths()["beta"]; !b.LastAnswer.After(*before["beta"].LastAnswer) {
		t.Errorf("what happens after a reload is not seen: %+v", b)
	}

	// What has the same name at another place is another source.
	if a := reload(config("third", slices.Concat(beta, []string{"provider " + q.URL() + "/ {", "namespace acme", "}"})...), 2)["acme"]; a.Health != "unknown" {
		t.Errorf("another provider of the same namespace: %+v", a)
	}
	if a := reload(config("fourth", slices.Concat(acme, beta)...), 2)["acme"]; a.Health != "unknown" || a.LastTrouble != nil {
		t.Errorf("a provider that was gone in between: %+v", a)
	}
}

// TestHealthOfAnswers: a source that answers is not healthy for that alone.
func TestHealthOfAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		part   hostile.Part
		action hostile.Action
		health string
	}{
		"index not there":         {hostile.Index, hostile.Respond(http.StatusNotFound, ""), "trouble"},
		"index refused":           {hostile.Index, hostile.Respond(http.StatusUnauthorized, ""), "trouble"},
		"too many requests":       {hostile.Index, hostile.Respond(http.StatusTooManyRequests, ""), "trouble"},
		"index is none":           {hostile.Index, hostile.Respond(http.StatusOK, "{}"), "trouble"},
		"credential refused":      {hostile.Invoke, hostile.Respond(http.StatusUnauthorized, "{}"), "trouble"},
		"arguments refused":       {hostile.Invoke, hostile.Respond(http.StatusBadRequest, "{}"), "ok"},
		"run failed":              {hostile.Invoke, hostile.Fail("OWN", "bad luck"), "ok"},
		"nothing is wrong at all": {hostile.Invoke, hostile.Usual(), "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
			skill := "acme/echo"
			if tc.part == hostile.Index {
				skill = ""
			}
			p.On(skill, tc.part, tc.action)
			c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
			for what, ask := range map[string]func(){
				"a call": func() { c.Execute("acme.echo", nil) },
				"a list": func() { c.Post(`{"jsonrpc":"2.0","id":1,"method":"list_skills"}`) },
			} {
				if what == "a list" && tc.part != hostile.Index {
					continue
				}
				ask()
				var providers []Provider
				admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers)
				if s := providers[0]; s.Health != tc.health || (s.Health == "trouble") != (s.LastTrouble != nil) {
					t.Errorf("after %s: %+v, %+v", what, s, s.LastTrouble)
				}
			}
		})
	}
}

// TestPurgeAfterReload: documents survive reloads, and so they have to be forgotten by
// a configuration that has not read them.
func TestPurgeAfterReload(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	config := func(caller string) string {
		return "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n" + testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}", "caller "+caller)
	}
	c := testbed.StartCaddy(t, config("first"))
	client := c.With(testbed.Fresh())
	want := 0
	for _, body := range []string{"", `{"namespace":"acme","skill_id":"acme/echo"}`, `{"namespace":"acme"}`, `{}`} {
		if body != "" {
			if err := c.Reload(config("after" + strconv.Itoa(want))); err != nil {
				t.Fatal(err)
			}
			admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}.ask(http.MethodPost, "/skill_bridge/purge", body, http.StatusOK, new(PurgeAnswer))
		}
		want++
		if a := client.Execute("acme.echo", nil); a.Outcome() != "completed" || p.Count("acme/echo", hostile.Descriptor) != want {
			t.Errorf("after %q: %v, %d descriptors, want %d", body, a, p.Count("acme/echo", hostile.Descriptor), want)
		}
	}
}

// TestStaleDocumentsAreTold to the operator, though calls go on.
func TestStaleDocumentsAreTold(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}", "cache {\n\tttl 1ms\n\tnegative_ttl 1ms\n}"))
	const list = `{"jsonrpc":"2.0","id":1,"method":"list_skills"}`
	if c.Post(list); c.Log.Has("uses stale documents") {
		t.Error("told of a fresh one")
	}
	p.On("", hostile.Index, hostile.Respond(http.StatusServiceUnavailable, ""))
	testbed.Eventually(t, 10*time.Second, func() bool {
		if a := c.Post(list); !strings.Contains(string(a.Body), "acme.echo") {
			t.Errorf("%s", a.Body)
		}
		return c.Log.Has("uses stale documents")
	}, "the operator is told")
	if a := c.Execute("acme.echo", nil); a.Outcome() != "completed" {
		t.Error(a)
	}
	var providers []Provider
	admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}.ask(http.MethodGet, "/skill_bridge/providers", "", http.StatusOK, &providers)
	if s := providers[0]; s.Health != "trouble" || s.LastTrouble.HTTPStatus != http.StatusServiceUnavailable {
		t.Errorf("though calls go on, its index can't be read: %+v", s)
	}
	if lines := c.Log.Lines("uses stale documents"); len(lines) != 1 || !strings.Contains(lines[0], "HTTP 503") {
		t.Errorf("%s", lines)
	}
}

// TestAdminShowsWhatLacksCredentials as soon as its descriptor is known, whether it
// was called or not.
func TestAdminShowsWhatLacksCredentials(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/key", Auth: hostile.APIKey("X-Key")})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
	for _, name := range []string{"acme.echo", "acme.key"} {
		c.Call("describe_skill", hostile.Object{"name": name})
	}
	var skills Inventory
	admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}.ask(http.MethodGet, "/skill_bridge/skills", "", http.StatusOK, &skills)
	if len(skills.Skills) != 2 || skills.Skills[0].Fault != nil || skills.Skills[1].Descriptor != "fresh" ||
		skills.Skills[1].Fault == nil || skills.Skills[1].Fault.Code != "AUTH_REQUIRED" || !strings.Contains(skills.Skills[1].Fault.Message, "no credentials are configured") {
		t.Errorf("%+v", skills)
	}
}

func TestAdminPurge(t *testing.T) {
	p := hostile.NewProvider(t, hostile.Skill{ID: "acme/echo"}, hostile.Skill{ID: "acme/other"})
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge("provider "+p.URL()+" {", "namespace acme", "}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	read := func(indexes, echo, other int) {
		t.Helper()
		c.Execute("acme.echo", nil)
		c.Execute("acme.other", nil)
		if i, e, o := p.Count("", hostile.Index), p.Count("acme/echo", hostile.Descriptor), p.Count("acme/other", hostile.Descriptor); i != indexes || e != echo || o != other {
			t.Errorf("read the index %d times, the descriptors %d and %d, want %d, %d, %d", i, e, o, indexes, echo, other)
		}
	}
	read(1, 1, 1)
	var answer PurgeAnswer
	a.ask(http.MethodPost, "/skill_bridge/purge", `{"namespace":"acme","skill_id":"acme/echo"}`, http.StatusOK, &answer)
	read(1, 2, 1)
	a.ask(http.MethodPost, "/skill_bridge/purge", `{"namespace":"acme"}`, http.StatusOK, &answer)
	read(2, 3, 2)
	a.ask(http.MethodPost, "/skill_bridge/purge", `{}`, http.StatusOK, &answer)
	if len(answer.Purged) != 1 || answer.Purged[0] != "acme" {
		t.Errorf("%+v", answer)
	}
	read(3, 4, 3)
	for body, status := range map[string]int{
		`{"namespace":"none"}`: http.StatusNotFound, `{"namespace":"acme","skill_id":"acme/none"}`: http.StatusNotFound,
		`{"skill_id":"acme/echo"}`: http.StatusBadRequest, `{"url":"x"}`: http.StatusBadRequest, `[`: http.StatusBadRequest,
		``: http.StatusBadRequest, " \n": http.StatusBadRequest, // which mistakes send
	} {
		a.ask(http.MethodPost, "/skill_bridge/purge", body, status, nil)
	}
	a.ask(http.MethodGet, "/skill_bridge/purge", "", http.StatusMethodNotAllowed, nil)
	a.ask(http.MethodPost, "/skill_bridge/calls", "", http.StatusMethodNotAllowed, nil)
	read(3, 4, 3)
}

// TestPurgeRequest: what is no request removes nothing.
func TestPurgeRequest(t *testing.T) {
	for _, body := range []string{
		"", " \n", "null", "[]", `{`, `{} junk`, `{"skill":"x"}`, `{"namespace":"a","namespace":"a"}`, `{"skill_id":"a/b"}`, `{"namespace":7}`, `{"namespace":null}`, `{"namespace":""}`,
		`{"namespace":"a","skill_id":null}`, `{"namespace":"a","skill_id":""}`,
	} {
		var refused caddy.APIError
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/skill_bridge/purge", strings.NewReader(body))
		if _, err := (adminAPI{}).purge(r); !errors.As(err, &refused) || refused.HTTPStatus != http.StatusBadRequest {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestUsage: the admin API shows what each caller has used of each skill, and the metrics count it.
func TestUsage(t *testing.T) {
	namespace, principal := testbed.NewCall(), testbed.NewCall() // the process also counts what other tests use
	p := hostile.NewProvider(t, hostile.Skill{ID: "usage/echo"}, hostile.Skill{ID: "usage/failed"})
	p.On("usage/failed", hostile.Invoke, hostile.Respond(http.StatusServiceUnavailable, ""))
	c := testbed.StartCaddy(t, "{\n\tadmin 127.0.0.1:{$ADMIN}\n}\n"+testbed.Bridge(
		"provider "+p.URL()+" {", "namespace "+namespace, "}", "principal {http.request.header.X-User}", "quota "+principal+" * {", "runs 2 1h", "}"))
	a := admin{t, "http://127.0.0.1:" + c.Port("ADMIN")}
	ask := func(query string, want ...usage.Row) {
		t.Helper()
		var got usage.Usage
		a.ask(http.MethodGet, "/skill_bridge/usage?namespace="+namespace+"&"+query, "", http.StatusOK, &got)
		for i := range got.Rows {
			if row := &got.Rows[i]; row.Since.Before(got.Since) || row.Last.Before(row.Since) {
				t.Errorf("%s: times of %+v, since %s", query, row, got.Since)
			}
			got.Rows[i].Since, got.Rows[i].Last = time.Time{}, time.Time{}
		}
		if !slices.Equal(got.Rows, want) && (len(got.Rows) > 0 || len(want) > 0) {
			t.Errorf("%s: got %+v, want %+v", query, got.Rows, want)
		}
	}
	ask("")
	ada := c.With(testbed.Header("X-User", principal))
	for range 3 {
		ada.Execute(namespace+".usage.echo", nil)
	}
	c.Execute(namespace+".usage.failed", nil)
	c.Call("describe_skill", map[string]any{"name": namespace + ".usage.echo"})
	echo := usage.Row{Principal: principal, Namespace: namespace, SkillID: "usage/echo", Counts: usage.Counts{Calls: 3, Runs: 2, Refused: 1}}
	failed := usage.Row{Namespace: namespace, SkillID: "usage/failed", Counts: usage.Counts{Calls: 1}}
	ask("", echo, failed)
	ask("principal=", failed)
	ask("principal="+principal+"&skill_id=usage/echo", echo)
	ask("limit=1", echo)
	ask("limit=0")
	a.ask(http.MethodGet, "/skill_bridge/usage?limit=10001", "", http.StatusBadRequest, nil)
	metrics := string(c.Send(http.MethodGet, "http://127.0.0.1:"+c.Port("ADMIN")+"/metrics", "").Body)
	for event, n := range map[string]int{"call": 3, "run": 2, "refused": 1} {
		if line := fmt.Sprintf("caddy_skill_bridge_usage_total{event=%q,principal=%q,skill=\"usage/echo\"} %d\n", event, principal, n); !strings.Contains(metrics, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
}
