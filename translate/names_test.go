package translate_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/providertest"
	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsprotocol"
)

// plain is a provider whose skills complete at once, with their id as output.
func plain(t *testing.T, ids ...string) *providertest.Provider {
	t.Helper()
	p := providertest.Start(t)
	var descriptors []object
	for _, id := range ids {
		d := descriptor(id, object{"inputs": []any{}, "endpoint": object{"url": p.URL + "/run?" + id}})
		descriptors = append(descriptors, d)
	}
	p.On("POST /run", func(w http.ResponseWriter, r *http.Request) {
		providertest.Answer(200, providertest.Response("e", "completed", object{"output": r.URL.RawQuery}))(w, r)
	})
	p.Publish(descriptors...)
	return p
}

func TestNames(t *testing.T) {
	a := plain(t, "acme/weather", "plain", "acme/rooms/book", "x/y", "x.y", "other/stolen", "otherwise/fine")
	b := plain(t, "other/news", "acme/weather")
	sourceA, sourceB := a.Source(t, "acme"), b.Source(t, "other")
	sourceA.Aliases = []catalog.Alias{{Name: "forecast", SkillID: "acme/weather"}, {Name: "second", SkillID: "acme/weather"}, {Name: "nothing", SkillID: "acme/none"}}

	type outcome struct{ runs, reason string } // the id that ran, or why none did
	tests := []struct {
		name   string
		one    bool // only the first source
		runs   string
		kind   run.Kind
		reason string
	}{
		{name: "forecast", runs: "acme/weather"},
		{name: "second", runs: "acme/weather"},
		{name: "nothing", kind: run.SkillNotFound, reason: "not_found"},
		{name: "acme.weather", runs: "acme/weather"},
		{name: "acme/weather", runs: "acme/weather"},
		{name: "acme.plain", runs: "plain"},
		{name: "acme/plain", runs: "plain"},
		{name: "acme.rooms.book", runs: "acme/rooms/book"},
		{name: "acme/rooms/book", runs: "acme/rooms/book"},
		{name: "acme.rooms/book", runs: "acme/rooms/book"},
		{name: "acme.otherwise.fine", runs: "otherwise/fine"},
		{name: "other.news", runs: "other/news"},
		{name: "other.stolen", kind: run.SkillNotFound, reason: "not_found"},
		{name: "other/stolen", kind: run.SkillNotFound, reason: "not_found"},
		{name: "acme.other.stolen", kind: run.SkillNotFound, reason: "not_found"},
		{name: "Acme.weather", kind: run.SkillNotFound, reason: "not_found"},
		{name: "plain", kind: run.InvalidArguments, reason: "ambiguous"},
		{name: "x/y", kind: run.InvalidArguments, reason: "ambiguous"},
		{name: "x.y", kind: run.InvalidArguments, reason: "ambiguous"},
		{name: "acme.x/y", runs: "x/y"}, // shown so, since x.y would have the same name
		{name: "acme.x.y", runs: "x.y"},
		{name: "acme/x/y", runs: "x/y"},
		{name: "acme/x.y", runs: "x.y"},
		{name: "no.such", kind: run.SkillNotFound, reason: "not_found"},
		{name: "acme", kind: run.SkillNotFound, reason: "not_found"},
		{name: "acme.", kind: run.SkillNotFound, reason: "not_found"},

		{one: true, name: "plain", runs: "plain"},
		{one: true, name: "x/y", runs: "x/y"},
		{one: true, name: "x.y", runs: "x.y"},
		{one: true, name: "rooms/book", kind: run.SkillNotFound, reason: "not_found"},
		{one: true, name: "otherwise.fine", runs: "otherwise/fine"},
		{one: true, name: "other.stolen", runs: "other/stolen"}, // nobody else's namespace there
	}
	both, one := newBridge(t, sourceA, sourceB), newBridge(t, sourceA)
	for _, test := range tests {
		bridge := both
		if test.one {
			bridge = one
		}
		o := bridge.Start(t.Context(), translate.Call{Name: test.name}).Wait()
		var got outcome
		if o.State != 0 {
			got.runs = string(o.Output)
		}
		if o.Failure != nil {
			if o.Failure.Argument == nil {
				t.Errorf("%q: got %v", test.name, o.Failure)
				continue
			}
			got.reason = string(o.Failure.Argument.Reason)
			if o.Failure.Kind != test.kind || o.Failure.Next() != run.NextFixParams || skillsprotocol.Param(o.Failure.Argument) != "name" {
				t.Errorf("%q: got %+v, %+v", test.name, o.Failure, o.Failure)
			}
		}
		want := outcome{reason: test.reason}
		if test.runs != "" {
			want.runs = `"` + test.runs + `"`
		}
		if got != want {
			t.Errorf("%q (one source: %v): got %+v, want %+v", test.name, test.one, got, want)
		}
	}
}

func TestEveryListedNameCanBeCalled(t *testing.T) {
	a := plain(t, "acme/weather", "plain", "x/y", "x.y", "other/stolen", "taken", "acme/none")
	b := plain(t, "other/news", "acme/weather")
	direct := plain(t, "direct/skill")
	sourceA, sourceB := a.Source(t, "acme"), b.Source(t, "other")
	sourceA.Aliases = []catalog.Alias{{Name: "first", SkillID: "acme/weather"}, {Name: "second", SkillID: "acme/weather"}, {Name: "acme.taken", SkillID: "plain"}}
	skill := direct.Source(t, "tool")
	skill.Kind, skill.URL = catalog.SkillSource, skill.URL.JoinPath("skills/0.json")
	bridge := newBridge(t, sourceA, sourceB, skill)

	listing := bridge.List(t.Context(), translate.Query{})
	var listed []string
	for _, e := range listing.Skills {
		listed = append(listed, e.Name)
		if o := bridge.Start(t.Context(), translate.Call{Name: e.Name}).Wait(); o.Failure != nil {
			t.Errorf("%s is listed, but calling it fails: %v", e.Name, o.Failure)
		}
		d, failure := bridge.Describe(t.Context(), translate.Call{Name: e.Name})
		if failure != nil || d.Name != e.Name || d.Namespace != e.Namespace {
			t.Errorf("%s is listed, but described as %+v, %v", e.Name, d, failure)
		}
	}
	// The alias acme.taken belongs to the operator, and leaves the skill of that id only the other separator; x/y and x.y
	// would share a name.
	want := []string{"acme.none", "acme.taken", "acme.x.y", "acme.x/y", "acme/taken", "first", "other.news", "tool"}
	if !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	if len(listing.Unavailable) > 0 {
		t.Errorf("unavailable: %+v", listing.Unavailable)
	}
	if got, want := bridge.Namespaces(""), []string{"acme", "other", "tool"}; !slices.Equal(got, want) {
		t.Errorf("namespaces %q, want %q", got, want)
	}
}

func TestPrivateSkills(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(
		descriptor("acme/open", nil),
		descriptor("acme/secret", object{"access": "private"}),
		descriptor("acme/named", object{"access": "private"}),
	)
	tests := []struct {
		about       string
		credentials bool
		principal   string
		listed      []string
		unknown     []string
	}{
		{"anonymous, read with a credential", true, "", []string{"acme.open", "mine"}, []string{"acme.secret", "acme/secret", "secret"}},
		{"a principal", true, "alice", []string{"acme.open", "acme.secret", "mine"}, nil},
		{"read without a credential", false, "", []string{"acme.open", "mine"}, nil},
	}
	for _, test := range tests {
		t.Run(test.about, func(t *testing.T) {
			s := p.Source(t, "acme")
			s.Aliases = []catalog.Alias{{Name: "mine", SkillID: "acme/named"}}
			if test.credentials {
				s.DiscoveryCredentials = key("k")
			}
			bridge := newBridge(t, s)
			var listed []string
			for _, e := range bridge.List(t.Context(), translate.Query{Caller: run.Caller{Principal: test.principal}}).Skills {
				listed = append(listed, e.Name)
			}
			if !slices.Equal(listed, test.listed) {
				t.Errorf("listed %q, want %q", listed, test.listed)
			}
			_, never := bridge.Describe(t.Context(), translate.Call{Caller: run.Caller{Principal: test.principal}, Name: "acme.never"})
			for _, name := range []string{"acme.secret", "acme/secret"} {
				_, failure := bridge.Describe(t.Context(), translate.Call{Caller: run.Caller{Principal: test.principal}, Name: name})
				if hidden := slices.Contains(test.unknown, name); hidden != (failure != nil) {
					t.Errorf("%s: failure %v, hidden %v", name, failure, hidden)
				}
				if failure != nil && (failure.Kind != never.Kind || failure.Kind != run.SkillNotFound || failure.Next() != never.Next()) {
					t.Errorf("%s is told apart from a skill that does not exist: %+v", name, failure)
				}
			}
			if _, failure := bridge.Describe(t.Context(), translate.Call{Caller: run.Caller{Principal: test.principal}, Name: "mine"}); failure != nil {
				t.Errorf("the operator's name: %v", failure)
			}
		})
	}
}

func TestNearNames(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(descriptor("acme/weather", nil), descriptor("acme/weathers", object{"access": "private"}), descriptor("acme/translate", nil))
	o := newBridge(t, p.Source(t, "acme")).Start(t.Context(), translate.Call{Name: "acme.wether"}).Wait()
	if o.Failure == nil || string(front.Details(o.Failure)) != `{"skill_id":"acme.wether","candidates":["acme.weather"]}` {
		t.Errorf("got %+v", o.Failure)
	}
}

func TestBrokenSourceDoesNotHideOthers(t *testing.T) {
	good := plain(t, "good/skill")
	down, broken, slow := providertest.Start(t), providertest.Start(t), providertest.Start(t)
	down.On("GET /.well-known/skill-sharing", providertest.Answer(503, ""))
	broken.On("GET /.well-known/skill-sharing", providertest.Answer(200, `{"skills":[]}`))
	slow.Publish()
	bridge := newBridge(t, good.Source(t, "good"), down.Source(t, "down"), broken.Source(t, "broken"), slow.Source(t, "slow"))
	listing := bridge.List(t.Context(), translate.Query{})
	if len(listing.Skills) != 1 || listing.Skills[0].Name != "good.skill" {
		t.Errorf("skills: %+v", listing.Skills)
	}
	got := map[string]run.Kind{}
	for _, u := range listing.Unavailable {
		got[u.Namespace] = u.Failure.Kind
	}
	if len(got) != 2 || got["down"] != run.Unreachable || got["broken"] != run.InvalidDocument {
		t.Errorf("unavailable: %v", got)
	}
	if o := bridge.Start(t.Context(), translate.Call{Name: "good.skill"}).Wait(); o.Failure != nil {
		t.Errorf("good.skill: %v", o.Failure)
	}
	// A namespace decides even while its source is down: the name is not looked for elsewhere.
	if o := bridge.Start(t.Context(), translate.Call{Name: "down.skill"}).Wait(); o.Failure == nil || o.Failure.Kind != run.Unreachable || o.Failure.Next() != run.NextRetry {
		t.Errorf("down.skill: %+v", o.Failure)
	}
}

// A tool name that several sources may have is not given up because of one that has no index: another, which is down, may have it.
func TestToolOfASourceThatIsDown(t *testing.T) {
	page, down := providertest.Start(t), providertest.Start(t)
	page.On("GET /.well-known/skill-sharing", providertest.Answer(200, "<!doctype html>"))
	down.On("GET /.well-known/skill-sharing", providertest.Answer(503, ""))
	for _, names := range [][2]string{{"shop", "shop.eu"}, {"shop.eu", "shop"}} {
		bridge := newBridge(t, page.Source(t, names[0]), down.Source(t, names[1]))
		for tool, next := range map[string]run.Next{"shop_eu_order": run.NextRetry, names[0] + ".order": run.NextAskOperator} {
			o := bridge.Start(t.Context(), translate.Call{Name: tool}).Wait()
			if o.Failure == nil || o.Failure.Next() != next {
				t.Errorf("%s of %q: %+v", tool, names, o.Failure)
			}
		}
	}
}

func TestRegistry(t *testing.T) {
	registry, acme, elsewhere := providertest.Start(t), providertest.Start(t), providertest.Start(t)
	protected := object{"auth": object{"type": "api_key"}, "inputs": []any{}}
	acme.Publish(descriptor("acme/paid", protected))
	elsewhere.Publish(descriptor("else/paid", protected))
	for _, p := range []*providertest.Provider{acme, elsewhere} {
		p.On("POST /run/paid", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
	}
	entry := func(p *providertest.Provider, id, kind string) object {
		return object{
			"id": id, "name": "n", "capability_type": kind, "description": "d", "descriptor_url": p.URL + "/skills/0.json",
			"access": "public", "version": "1.2.3",
		}
	}
	registry.On("GET /v1/skills", func(w http.ResponseWriter, r *http.Request) {
		entries := []any{entry(acme, "acme/paid", "api"), entry(elsewhere, "else/paid", "api")}
		if r.URL.Query().Get("type") == "task" {
			entries = []any{}
		}
		providertest.Answer(200, entries)(w, r)
	})
	s := registry.Source(t, "community")
	s.Kind, s.URL = catalog.RegistrySource, s.URL.JoinPath("v1")
	s.CapabilityTypes = []document.CapabilityType{document.API, document.Task}
	// The provider whose host serves descriptor and endpoint lends its credential; nobody else's is used.
	owner := acme.Source(t, "owner")
	owner.Credentials = key("acme-key")
	bridge := newBridge(t, s, owner)

	registry.Received(t, "GET /v1/skills", 0)
	if o := bridge.Start(t.Context(), translate.Call{Name: "community.acme.paid"}).Wait(); o.Failure != nil {
		t.Errorf("acme/paid: %v", o.Failure)
	}
	registry.Received(t, "GET /v1/skills", 2)
	if got := acme.Requests("POST /run/paid")[0].Header.Get("X-API-Key"); got != "acme-key" {
		t.Errorf("key sent to its owner: %q", got)
	}
	o := bridge.Start(t.Context(), translate.Call{Name: "community.else.paid"}).Wait()
	if o.Failure == nil || o.Failure.Kind != run.AuthRequired || o.Failure.Next() != run.NextAskOperator {
		t.Errorf("else/paid: %+v", o.Failure)
	}
	elsewhere.Received(t, "POST /run/paid", 0)
}

func TestCapabilityTypes(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(descriptor("acme/a", nil), descriptor("acme/t", object{"capability_type": "task"}), descriptor("acme/p", object{"capability_type": "plugin"}))
	s := p.Source(t, "acme")
	s.CapabilityTypes = []document.CapabilityType{document.Task, document.Plugin}
	bridge := newBridge(t, s)
	var listed []string
	for _, e := range bridge.List(t.Context(), translate.Query{}).Skills {
		listed = append(listed, e.Name)
	}
	if want := []string{"acme.p", "acme.t"}; !slices.Equal(listed, want) {
		t.Errorf("listed %q, want %q", listed, want)
	}
	if _, failure := bridge.Describe(t.Context(), translate.Call{Name: "acme.a"}); failure == nil {
		t.Error("a skill of another type can be described")
	}
}

// Of several providers that host a registry's skill, the one whose credential
// suits invokes it.
func TestRegistrySkillIsInvokedWithTheCredentialThatSuits(t *testing.T) {
	registry, host := providertest.Start(t), providertest.Start(t)
	host.Publish(descriptor("acme/paid", object{"auth": object{"type": "api_key"}, "inputs": []any{}}))
	host.On("POST /run/paid", providertest.Answer(200, providertest.Response("e", "completed", object{"output": 1})))
	registry.On("GET /skills", providertest.Answer(200, []any{object{
		"id": "acme/paid", "name": "n", "capability_type": "api", "description": "d", "descriptor_url": host.URL + "/skills/0.json",
		"access": "public", "version": "1.2.3",
	}}))
	listed := registry.Source(t, "community")
	listed.Kind = catalog.RegistrySource
	without, with := host.Source(t, "without"), host.Source(t, "with")
	with.Credentials = key("k-12345")
	if o := newBridge(t, listed, without, with).Start(t.Context(), translate.Call{Name: "community.acme.paid"}).Wait(); o.Failure != nil {
		t.Fatal(o.Failure)
	}
	if got := host.Requests("POST /run/paid")[0].Header.Get("X-API-Key"); got != "k-12345" {
		t.Errorf("key sent: %q", got)
	}
}

func TestAliasOfAnUnlistedSkillIsNoticed(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(descriptor("acme/weather", nil))
	s := p.Source(t, "acme")
	s.Aliases = []catalog.Alias{{Name: "forecast", SkillID: "acme/wether"}}
	r := new(recorder)
	newBridgeWith(t, r, s).List(t.Context(), translate.Query{})
	if len(r.notices) != 1 || !strings.Contains(r.notices[0].Message, "alias") {
		t.Errorf("notices: %+v", r.notices)
	}
}

// What is not listed is known, with the reason, up to a bound.
func TestLeftOutIsKnown(t *testing.T) {
	p := providertest.Start(t)
	descriptors := []object{descriptor("acme/weather", nil)}
	for _, id := range []string{"acme/weather ", " acme/weather", "acme/\u202exyz", "other/stolen"} {
		descriptors = append(descriptors, descriptor(id, nil))
	}
	for i := range 200 {
		descriptors = append(descriptors, descriptor(fmt.Sprintf("acme/%d ", i), nil))
	}
	p.Publish(descriptors...)
	s := p.Source(t, "acme")
	s.Aliases = []catalog.Alias{{Name: "forecast", SkillID: "acme/wether"}}
	bridge := newBridge(t, s, providertest.Start(t).Source(t, "other"))
	if list := bridge.List(t.Context(), translate.Query{Namespace: "acme"}); len(list.Skills) != 1 {
		t.Errorf("listed: %+v", list.Skills)
	}
	left := bridge.Catalog().LeftOut(t.Context())
	if len(left) != 1 || left[0].Count != 204 || len(left[0].First) != 100 {
		t.Fatalf("%+v", left)
	}
	reasons := map[string]string{}
	for _, l := range left[0].First {
		reasons[l.ID] = l.Fault.Message
	}
	for id, reason := range map[string]string{
		`"acme/weather "`: "begins or ends with a space", `" acme/weather"`: "begins or ends with a space", `"acme/\u202exyz"`: "invisible characters", "other/stolen": "claims the namespace of another source: other",
	} {
		if !strings.Contains(reasons[id], reason) {
			t.Errorf("%q: %q, want %q", id, reasons[id], reason)
		}
	}
	if missing := left[0].Missing; len(missing) != 1 || missing[0].Name != "forecast" || missing[0].SkillID != "acme/wether" || !slices.Equal(missing[0].Near, []string{"acme/weather"}) {
		t.Errorf("%+v", left[0].Missing)
	}
}

// The search for near names costs little, whatever providers publish.
func TestNearNamesAreBounded(t *testing.T) {
	p := providertest.Start(t)
	long := strings.Repeat("x", 170)
	p.Publish(descriptor("acme/"+long+"1", nil), descriptor("acme/weather", nil))
	bridge := newBridge(t, p.Source(t, "acme"))
	o := bridge.Start(t.Context(), translate.Call{Name: "acme." + long + "2"}).Wait()
	if o.Failure == nil || o.Failure.Kind != run.SkillNotFound || strings.Contains(string(front.Details(o.Failure)), "candidates") {
		t.Errorf("got %+v", o.Failure)
	}
	o = bridge.Start(t.Context(), translate.Call{Name: "acme." + strings.Repeat("y", 1<<20)}).Wait()
	if o.Failure == nil || len(o.Failure.Message) > 1000 || len(front.Details(o.Failure)) > 1000 {
		t.Errorf("a long name is repeated: %d bytes", len(o.Failure.Message))
	}
}

// The name that a skill had before its alias is accepted, so it is also found if it is misspelt or written as a tool name.
func TestSimilarNameOfASkillWithAnAlias(t *testing.T) {
	s := plain(t, "acme/weather", "acme/weights").Source(t, "acme")
	s.Aliases = []catalog.Alias{{Name: "forecast", SkillID: "acme/weather"}}
	bridge := newBridge(t, s)
	for name, want := range map[string]string{"acme_weather": "acme.weather", "acme.wether": "acme.weather", "forcast": "forecast", "acme.weigts": "acme.weights"} {
		o := bridge.Start(t.Context(), translate.Call{Name: name}).Wait()
		if o.Failure == nil || o.Failure.Argument == nil || len(o.Failure.Argument.Candidates) == 0 || o.Failure.Argument.Candidates[0] != want {
			t.Errorf("%s: %+v", name, o.Failure)
		}
	}
	if got := bridge.Tools(t.Context(), []string{"acme.weather"}, ""); !slices.Equal(got, []string{"forecast"}) {
		t.Errorf("%q", got)
	}
}
