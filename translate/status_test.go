package translate_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/faults"
	"github.com/skill-bridge/caddy-skill-bridge/translate/jsonrpc"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

func TestPurge(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
	bridge := newBridge(t, s)
	execute := func(indexes, descriptors int) {
		t.Helper()
		if o := bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait(); o.Failure != nil {
			t.Fatal(o.Failure)
		}
		p.Received(t, "GET /.well-known/skill-sharing", indexes)
		p.Received(t, "GET /skills/0.json", descriptors)
	}
	execute(1, 1)
	execute(1, 1)
	if !bridge.Catalog().Purge(t.Context(), "acme", "acme/weather") || bridge.Catalog().Purge(t.Context(), "acme", "acme/none") || bridge.Catalog().Purge(t.Context(), "other", "") {
		t.Error("purged what is not there, or not what is")
	}
	execute(1, 2)
	if !bridge.Catalog().Purge(t.Context(), "acme", "") {
		t.Error("not purged")
	}
	execute(2, 3)
}

// The documents outlive a bridge, as over a reload: the next one forgets them, too,
// before it has read anything, and without asking.
func TestPurgeByTheNextBridge(t *testing.T) {
	p, s := weather(t, nil)
	p.On("POST /run/weather", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
	single := s
	single.Kind, single.Namespace, single.URL = catalog.SkillSource, "single", s.URL.JoinPath("skills/0.json")
	config := bridgeConfig(t, nil, s, single)
	next := func() *translate.Bridge {
		t.Helper()
		b, err := translate.New(config)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	asked := 0
	execute := func(b *translate.Bridge, name string, read int) {
		t.Helper()
		if o := b.Start(t.Context(), translate.Call{Name: name, Inputs: jsonrpc.Object{Text: jsontext.Value(`{"city":"x"}`)}}).Wait(); o.Failure != nil {
			t.Fatal(o.Failure)
		}
		asked += read
		p.Received(t, "GET /skills/0.json", asked)
	}
	execute(next(), skillName, 1)
	if b := next(); !b.Catalog().Purge(t.Context(), "acme", "acme/weather") {
		t.Error("the skill is not known")
	}
	execute(next(), skillName, 1)
	next().Catalog().Purge(t.Context(), "acme", "")
	p.Received(t, "GET /.well-known/skill-sharing", 1)
	execute(next(), skillName, 1)

	execute(next(), "single", 0) // they share it
	b := next()
	if b.Catalog().Purge(t.Context(), "single", "acme/other") {
		t.Error("purged another skill's descriptor")
	}
	execute(b, "single", 0)
	for _, id := range []string{"acme/weather", "single"} {
		if !b.Catalog().Purge(t.Context(), "single", id) {
			t.Errorf("%s is not known", id)
		}
		execute(b, "single", 1)
	}
}

func TestInProgress(t *testing.T) {
	p, s := weather(t, nil)
	stop := new(translate.Stop)
	config := bridgeConfig(t, nil, s)
	config.Stop = stop
	bridge, err := translate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
	p.On("GET /status/e1", func(w http.ResponseWriter, r *http.Request) {
		list, total := stop.InProgress(10)
		if total != 1 || len(list) != 1 || list[0].Name != skillName || list[0].Run.ExecutionID != "e1" || list[0].Principal != "ada" || time.Since(list[0].Arrived) > time.Minute {
			t.Errorf("in progress: %+v", list)
		}
		if list, total := stop.InProgress(0); len(list) != 0 || total != 1 {
			t.Error("more than wanted")
		}
		if calls, waiting := bridge.InProgress(); calls != 1 || waiting != 1 || bridge.Sources()[0].Runs != 1 {
			t.Errorf("%d calls, %d waiting, %+v", calls, waiting, bridge.Sources())
		}
		providertest.Answer(200, providertest.Response("e1", "completed", object{"output": 1}))(w, r)
	})
	c := call(`{"city":"x"}`)
	c.Principal = "ada"
	if o := bridge.Start(t.Context(), c).Wait(); o.Failure != nil {
		t.Fatal(o.Failure)
	}
	calls, waiting := bridge.InProgress()
	if _, total := stop.InProgress(10); calls+waiting != 0 || total != 0 {
		t.Errorf("%d calls, %d waiting, %d in progress after the end", calls, waiting, total)
	}
}

// What is wrong with a skill is known until it is tried again, however short failures
// are remembered.
func TestInventoryKeepsFaults(t *testing.T) {
	p, s := weather(t, nil)
	s.Faults = new(faults.Faults)
	bridge := newBridge(t, s)
	fault := func() *run.Failure {
		t.Helper()
		skills, unavailable := bridge.Catalog().Inventory(t.Context())
		if len(skills) != 1 || len(unavailable) != 0 {
			t.Fatalf("%+v, %+v", skills, unavailable)
		}
		return skills[0].Fault
	}
	if fault() != nil {
		t.Errorf("before anybody tried: %+v", fault())
	}
	p.Publish(descriptor("acme/weather", object{"protocol": object{"version": "9.0.0"}}))
	bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait()
	if f := fault(); f == nil || f.Kind != run.VersionIncompatible {
		t.Errorf("incompatible: %+v", f)
	}
	bridge = newBridge(t, s)
	if f := fault(); f == nil || f.Kind != run.VersionIncompatible {
		t.Errorf("incompatible, told by the next bridge: %+v", f)
	}
	p.Publish(descriptor("acme/weather", nil))
	bridge.Catalog().Purge(t.Context(), "acme", "acme/weather")
	bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait()
	if f := fault(); f != nil {
		t.Errorf("mended: %+v", f)
	}
	other := call(`{"city":"x"}`)
	other.Version = "9.9.9"
	bridge.Start(t.Context(), other).Wait()
	if f := fault(); f != nil {
		t.Errorf("a caller wants another version: %+v", f)
	}

	// A new version may have been mended.
	p.Publish(descriptor("acme/weather", object{"protocol": object{"version": "9.0.0"}}))
	bridge.Catalog().Purge(t.Context(), "acme", "")
	bridge.Start(t.Context(), call(`{"city":"x"}`)).Wait()
	p.Publish(descriptor("acme/weather", object{"version": "7.0.0"}))
	bridge.Catalog().Purge(t.Context(), "acme", "")
	if f := fault(); f != nil {
		t.Errorf("listed with another version: %+v", f)
	}
}

// TestDenied: that a skill lacks a credential is known without calling it, by the
// source that would invoke it.
func TestDenied(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(
		descriptor("acme/open", object{"auth": object{"type": "none"}}),
		descriptor("acme/key", object{"auth": object{"type": "api_key"}}),
		descriptor("acme/custom", object{"auth": object{"type": "custom", "custom": object{"instructions": "Ask.", "parameters": []any{}}}}),
		descriptor("acme/else", object{"auth": object{"type": "api_key"}, "endpoint": object{"url": "http://else.example/run", "method": "POST"}}),
	)
	p.On("GET /registry/skills", providertest.Answer(200, []any{object{
		"id": "acme/key", "name": "n", "capability_type": "api", "description": "d", "descriptor_url": p.URL + "/skills/1.json",
		"access": "public", "version": "1.2.3",
	}}))
	without, with, registry := p.Source(t, "without"), p.Source(t, "with"), p.Source(t, "registry")
	with.Credentials = key("k-12345")
	registry.Kind, registry.URL = catalog.RegistrySource, registry.URL.JoinPath("registry")
	r := new(recorder)
	bridge := newBridgeWith(t, r, without, with, registry)
	want := map[string]string{
		"without.acme.open": "", "without.acme.key": "no credentials", "without.acme.custom": "no credentials", "without.acme.else": "no credentials",
		"with.acme.open": "", "with.acme.key": "", "with.acme.custom": "of another type", "with.acme.else": "may not be sent",
		"registry.acme.key": "",
	}
	skills, _ := bridge.Catalog().Inventory(t.Context())
	for _, s := range skills {
		if s.Fault != nil {
			t.Errorf("%s, of which nothing was read: %+v", s.Name, s.Fault)
		}
	}
	check := func(name string, denied *run.Failure) {
		t.Helper()
		reason := want[name]
		if (denied == nil) != (reason == "") || denied != nil &&
			(denied.Kind != run.AuthRequired || denied.Next() != run.NextAskOperator || !strings.Contains(denied.Message, reason)) {
			t.Errorf("%s: %+v, want %q", name, denied, reason)
		}
	}
	for name := range want {
		d, failure := bridge.Describe(t.Context(), translate.Call{Name: name})
		if failure != nil {
			t.Fatal(failure)
		}
		check(name, d.Denied)
	}
	if skills, _ = bridge.Catalog().Inventory(t.Context()); len(skills) != len(want) {
		t.Errorf("%d skills, want %d", len(skills), len(want))
	}
	for _, s := range skills {
		check(s.Name, s.Fault)
	}
	if len(r.notices) > 0 {
		t.Errorf("what nobody has called was reported: %+v", r.notices)
	}
	p.Received(t, "POST /run/key", 0)
}

// TestDescribeTellsWhereABrokenSkillIsFrom, and nothing where there is none.
func TestDescribeTellsWhereABrokenSkillIsFrom(t *testing.T) {
	p, s := weather(t, nil)
	p.Publish(descriptor("acme/weather", object{"protocol": object{"version": "9.0.0"}}))
	bridge := newBridge(t, s)
	d, failure := bridge.Describe(t.Context(), translate.Call{Name: "acme/weather"})
	if failure == nil || d == nil || d.Name != skillName || d.Namespace != "acme" || d.Descriptor != nil {
		t.Errorf("%+v, %+v", d, failure)
	}
	s.RequirePrincipal = true
	if d, failure := newBridge(t, s).Describe(t.Context(), translate.Call{Name: skillName}); failure == nil || d != nil {
		t.Errorf("for a caller who may not use the source: %+v, %+v", d, failure)
	}
}

// What a passed deadline means depends on how far the call had come.
func TestTimeoutsSayWhatHadNotHappened(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for route, want := range map[string]string{
		"GET /skills/0.json": "The deadline passed before the descriptor of the source 'acme' had been read: time was up after 300 ms.",
		"POST /run/weather":  "The provider had not accepted the run when its time was up after 300 ms.",
		"GET /status/e1":     "The skill had not finished when its time was up after 300 ms. The run may still be going on: ask for its end before you start another one.",
	} {
		p, s := weather(t, nil)
		p.On("POST /run/weather", providertest.Answer(202, providertest.Response("e1", "accepted", nil)))
		p.On(route, hang)
		c := call(`{"city":"x"}`)
		c.Timeout = 300 * time.Millisecond
		if o := newBridge(t, s).Start(t.Context(), c).Wait(); o.Failure == nil || o.Failure.Message != want {
			t.Errorf("%s: %+v", route, o.Failure)
		}
	}
}
