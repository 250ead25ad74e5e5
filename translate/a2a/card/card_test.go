package card_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// bridge is a bridge whose skills a test sets.
type bridge struct {
	mu          sync.Mutex
	skills      []catalog.Entry
	unavailable []catalog.Unavailable
	fresh       time.Time
	failure     *run.Failure    // of Describe
	wait        <-chan struct{} // of List
	lists       int
}

func (b *bridge) List(_ context.Context, q translate.Query) translate.Listing {
	if b.wait != nil {
		<-b.wait
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lists++
	l := translate.Listing{Unavailable: b.unavailable, FreshUntil: b.fresh}
	for _, e := range b.skills {
		if e.Hidden && q.Principal == "" {
			continue
		}
		l.Skills = append(l.Skills, e)
	}
	if len(l.Skills) > q.Descriptors {
		for i := range l.Skills {
			l.Skills[i].Descriptor = nil
		}
	}
	return l
}

func (b *bridge) Describe(_ context.Context, call translate.Call) (*translate.Description, *run.Failure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure != nil {
		return nil, b.failure
	}
	for _, e := range b.skills {
		if e.Name == call.Name && (!e.Hidden || call.Principal != "") {
			return &translate.Description{
				Name: e.Name, Namespace: e.Namespace, Hidden: e.Hidden, Descriptor: e.Descriptor,
				FreshUntil: b.fresh,
			}, nil
		}
	}
	return nil, &run.Failure{Kind: run.SkillNotFound}
}

// set changes the skills.
func (*bridge) Audience(string) int { return 0 }

func (*bridge) Personal() bool { return false }

func (b *bridge) set(skills ...catalog.Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(skills, func(a, b catalog.Entry) int { return strings.Compare(a.Name, b.Name) })
	b.skills = skills
}

// entry returns a listed skill with a descriptor.
func entry(name string, change func(*document.Descriptor)) catalog.Entry {
	d := &document.Descriptor{
		ID: name, Name: "Weather", Version: "2.1.0", CapabilityType: document.API, Description: "Tells the weather.", Access: document.Public,
		Inputs: []document.Parameter{
			{Name: "city", Type: "string", Description: "A city.", Required: true},
			{Name: "days", Type: "number", Description: "How many.", Schema: jsontext.Value(`{"minimum":1}`)},
		},
		Output: document.Output{ContentType: "application/json", Schema: jsontext.Value(`{"type":"object"}`)},
		Tags:   []string{"forecast", "api"},
	}
	if change != nil {
		change(d)
	}
	namespace, _, _ := strings.Cut(name, ".")
	return catalog.Entry{
		Name: name, Title: d.Name, Namespace: namespace, Version: d.Version, Description: d.Description, CapabilityType: d.CapabilityType,
		Access: d.Access, Hidden: d.Access == document.Private, Descriptor: d,
	}
}

func photo(d *document.Descriptor) {
	d.Name, d.Description, d.Tags, d.CapabilityType = "Scale photos", "Scales\na photo.", nil, document.Task
	d.Inputs = []document.Parameter{
		{Name: "photo", Type: "string", Required: true, Schema: jsontext.Value(`{"contentEncoding":"base64","contentMediaType":"image/png"}`)},
		{Name: "mask", Type: "string", Schema: jsontext.Value(`{"contentEncoding":"base64"}`)},
	}
	d.Output = document.Output{ContentType: "image/png"}
}

func secret(d *document.Descriptor) { d.Access = document.Private }

// full are options with a value for everything.
func full() card.Config {
	return card.Config{
		URL: "https://agents.example/a2a", Name: "Acme's skills", Description: "What Acme can do.", Organization: "Acme", Documentation: "https://acme.example/docs",
		Icon: "https://acme.example/icon.png", Extended: true, Push: true,
		Security: []card.SecurityScheme{
			{Name: "login", Type: "http", Scheme: "bearer"},
			{Name: "key", Type: "api_key", In: "header", Key: "X-API-Key"},
			{Name: "sso", Type: "openid", URL: "https://login.acme.example/.well-known/openid-configuration"},
			{Name: "mtls", Type: "mutual_tls"},
		},
	}
}

func newBuilder(tb testing.TB, b card.Bridge, config card.Config) *card.Builder {
	tb.Helper()
	return card.New(b, config)
}

// request is a request for the card of all skills, changed.
func request(change func(*card.Request)) card.Request {
	r := card.Request{Base: "https://agents.example/a2a"}
	if change != nil {
		change(&r)
	}
	return r
}

func cardOf(tb testing.TB, b *card.Builder, r card.Request) *card.Card {
	tb.Helper()
	c, err := b.Card(tb.Context(), r)
	if err != nil {
		tb.Fatalf("%+v: %v", r, err)
	}
	return c
}

func decode(tb testing.TB, text jsontext.Value) map[string]any {
	tb.Helper()
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	return members
}

var update = flag.Bool("update", false, "write the golden files")

// TestGoldens compares the card of each form with a file.
func TestGoldens(t *testing.T) {
	b := &bridge{}
	b.set(entry("acme.weather", nil), entry("acme.photos.scale", photo), entry("other.secret", secret))
	big := &bridge{}
	var many []catalog.Entry
	for i := range 201 {
		many = append(many, entry(fmt.Sprintf("acme.s%03d", i), nil))
	}
	big.set(many...)
	plain := card.Config{}
	for _, c := range []struct {
		file    string
		bridge  card.Bridge
		config  card.Config
		request func(*card.Request)
	}{
		{"combined", b, full(), nil},
		{"1.0", b, full(), func(r *card.Request) { r.Version = "1.0.1" }},
		{"0.3", b, full(), func(r *card.Request) { r.Version = "0.3" }},
		{"agent", b, full(), func(r *card.Request) { r.Old = true }},
		{"extended", b, full(), func(r *card.Request) { r.Version, r.Extended, r.Caller.Principal = "1.0", true, "alice" }},
		{"default", b, plain, nil},
		{"skill", b, plain, func(r *card.Request) { r.Skill = "acme.weather" }},
		{"notice", b, card.Config{RequirePrincipal: true, Security: full().Security[:1]}, nil},
		{"unavailable", &bridge{unavailable: []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.Unreachable}}}}, plain, nil},
		{"index", big, plain, nil},
	} {
		t.Run(c.file, func(t *testing.T) {
			text := cardOf(t, newBuilder(t, c.bridge, c.config), request(c.request)).JSON()
			validate(t, text)
			if err := text.Indent(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", c.file+".json")
			if *update {
				if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(append(text, '\n'), want) {
				t.Errorf("the card differs from %s (-update writes it): %v\n%.2000s", path, err, text)
			}
		})
	}
}

// TestForms: which form a card has by the options and by what the client asks for.
func TestForms(t *testing.T) {
	b := &bridge{}
	b.set(entry("acme.weather", nil))
	all := []string{"1.0", "0.3", "0.1"}
	for _, c := range []struct {
		versions []string
		form     string
		asked    string
		document bool
		want     string
	}{
		{all, "", "", false, "combined"},
		{nil, "", "2.0", false, "combined"},
		{all, "", "1.0", false, "1.0"},
		{all, "", "1.0.7", false, "1.0"},
		{all, "", "0.3.0", false, "0.3"},
		{all, "", "1", false, "combined"},
		{all, "1.0", "", false, "1.0"},
		{all, "1.0", "0.3", false, "0.3"},
		{all, "0.3", "", false, "0.3"},
		{all, "", "1.0", true, "0.1"},
		{[]string{"1.0"}, "", "0.3", false, "1.0"},
		{[]string{"0.3", "0.1"}, "combined", "1.0", false, "0.3"},
		{[]string{"0.1"}, "", "1.0", false, "0.1"},
	} {
		text := cardOf(t, newBuilder(t, b, card.Config{Versions: c.versions, Form: c.form}), request(func(r *card.Request) {
			r.Version, r.Old = c.asked, c.document
		})).JSON()
		if got := validate(t, text); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestOptions: which security schemes are refused.
func TestOptions(t *testing.T) {
	for args, want := range map[string]string{
		"login http bearer": "", "key api_key header X-Key": "", "sso openid https://login.example/x": "", "mtls mutual_tls": "",
		"login": "needs a name and a type", "login http": "takes 1 arguments", "login http a b": "takes 1 arguments", "key api_key body x": "not in",
		"sso openid login.example": "not the URL", "a oauth2": "not one of the security schemes", "a http x,y": "not an authentication scheme",
	} {
		if _, err := card.ParseSecurityScheme(strings.Fields(args)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestViews: private skills are in the extended card of known callers only, and anonymous callers of a bridge that needs
// a principal see none.
func TestViews(t *testing.T) {
	b := &bridge{}
	b.set(entry("acme.open", nil), entry("acme.secret", secret))
	alice := run.Caller{Principal: "alice"}
	skillsOf := func(c card.Config, r card.Request) string {
		made, err := newBuilder(t, b, c).Card(t.Context(), r)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, s := range decode(t, made.JSON())["skills"].([]any) {
			names = append(names, s.(map[string]any)["id"].(string))
		}
		return strings.Join(names, " ")
	}
	missing := card.ErrNotFound.Error()
	for _, c := range []struct {
		config  card.Config
		request card.Request
		want    string
	}{
		{request: card.Request{}, want: "acme.open"},
		{request: card.Request{Extended: true}, want: "acme.open"},
		{request: card.Request{Caller: alice}, want: "acme.open"},
		{request: card.Request{Caller: alice, Extended: true}, want: "acme.open acme.secret"},
		{request: card.Request{Skill: "acme.open"}, want: "acme.open"},
		{request: card.Request{Skill: "acme.secret"}, want: missing},
		{request: card.Request{Skill: "acme.secret", Caller: alice}, want: missing},
		{request: card.Request{Skill: "acme.secret", Caller: alice, Extended: true}, want: "acme.secret"},
		{request: card.Request{Skill: "acme.none"}, want: missing},
		{request: card.Request{Skill: strings.Repeat("x", 2000)}, want: missing},
		{config: card.Config{RequirePrincipal: true}, want: "authentication-required"},
		{config: card.Config{RequirePrincipal: true}, request: card.Request{Skill: "acme.none"}, want: "authentication-required"},
		{config: card.Config{RequirePrincipal: true}, request: card.Request{Caller: alice}, want: "acme.open"},
	} {
		c.request.Base = "http://localhost/a2a"
		if got := skillsOf(c.config, c.request); got != c.want {
			t.Errorf("%+v of %+v: %s, want %s", c.request, c.config, got, c.want)
		}
	}
	b.unavailable = []catalog.Unavailable{{Namespace: "acme", Failure: &run.Failure{Kind: run.AuthRequired, By: run.Bridge, Demand: run.NoPrincipal()}}}
	b.set()
	if got := skillsOf(card.Config{}, card.Request{Base: "http://localhost/a2a"}); got != "authentication-required" {
		t.Errorf("where all sources need a principal: %s", got)
	}
	b.failure = b.unavailable[0].Failure
	if got := skillsOf(card.Config{}, card.Request{Base: "http://localhost/a2a", Skill: "acme.x"}); got != "authentication-required" {
		t.Errorf("a skill of such a source: %s", got)
	}
	b.failure = &run.Failure{Kind: run.Unreachable}
	if got := skillsOf(card.Config{}, card.Request{Base: "http://localhost/a2a", Skill: "acme.x"}); got != card.ErrUnavailable.Error() {
		t.Errorf("a skill whose descriptor can't be read: %s", got)
	}
}

// TestURL: the card has the configured URL, else that of the request if it can be one.
func TestURL(t *testing.T) {
	b := &bridge{}
	b.set(entry("acme/we ird", nil))
	urlOf := func(config, base, skill string) string {
		c, err := newBuilder(t, b, card.Config{URL: config}).Card(t.Context(), card.Request{Base: base, Skill: skill})
		if errors.Is(err, card.ErrURL) {
			return "refused"
		} else if err != nil {
			t.Fatal(err)
		}
		return decode(t, c.JSON())["url"].(string)
	}
	for _, c := range [][4]string{
		{"https://public.example/a2a/", "http://10.0.0.1/a2a", "", "https://public.example/a2a"},
		{"https://public.example/a2a", "", "acme/we ird", "https://public.example/a2a/acme%2Fwe%20ird"},
		{"", "http://localhost:8080/a2a", "", "http://localhost:8080/a2a"},
		{"", "http://local host/a2a", "", "refused"},
		{"", "http:///a2a", "", "refused"},
		{"", "http://user@host/a2a", "", "refused"},
		{"", "http://" + strings.Repeat("x", 600) + "/a2a", "", "refused"},
	} {
		if got := urlOf(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%q: %s", c, got)
		}
	}
}

// validate returns the form of a card, after it has checked what the form demands: the fields that a2a.proto marks as
// REQUIRED (1.0) and those without a question mark in types.ts (0.3, 0.2.6), none empty.
func validate(t *testing.T, text jsontext.Value) string {
	t.Helper()
	c := decode(t, text)
	need := func(where string, object any, names ...string) {
		t.Helper()
		for _, name := range names {
			if value, ok := object.(map[string]any)[name]; !ok || value == "" || value == nil {
				t.Errorf("%s has no %s: %.500s", where, name, text)
			}
		}
	}
	need("the card", c, "name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills")
	for _, s := range c["skills"].([]any) {
		need("a skill", s, "id", "name", "description", "tags")
	}
	if p, ok := c["provider"]; ok {
		need("the provider", p, "organization", "url")
	}
	legacy := slices.Contains(array(c["defaultInputModes"]), any("text"))
	current, old := c["supportedInterfaces"] != nil, c["preferredTransport"] != nil && !legacy
	schemes, _ := c["securitySchemes"].(map[string]any)
	if current {
		for _, i := range c["supportedInterfaces"].([]any) {
			need("an interface", i, "url", "protocolBinding", "protocolVersion")
		}
		for _, r := range array(c["securityRequirements"]) {
			need("a requirement", r, "schemes")
		}
		if len(schemes) != len(array(c["securityRequirements"])) {
			t.Errorf("%d schemes, and %d requirements", len(schemes), len(array(c["securityRequirements"])))
		}
		for _, s := range schemes {
			protos := 0
			for name := range s.(map[string]any) {
				if strings.HasSuffix(name, "SecurityScheme") {
					protos++
				} else if !old {
					t.Errorf("a scheme of 1.0 has %s", name)
				}
			}
			if protos != 1 {
				t.Errorf("a scheme has %d types", protos)
			}
		}
	}
	if old {
		need("the card", c, "protocolVersion", "url")
		for _, s := range schemes {
			need("a scheme", s, "type")
		}
	}
	members := func(allowed string) {
		for name := range c {
			if !slices.Contains(strings.Fields(allowed), name) {
				t.Errorf("the form has no member %s", name)
			}
		}
	}
	const shared = "name description version capabilities defaultInputModes defaultOutputModes skills provider documentationUrl iconUrl securitySchemes "
	switch {
	case current && old:
		members(shared + "supportedInterfaces securityRequirements url preferredTransport protocolVersion security supportsAuthenticatedExtendedCard")
		return "combined"
	case current:
		members(shared + "supportedInterfaces securityRequirements signatures")
		return "1.0"
	case old:
		members(shared + "url preferredTransport protocolVersion security supportsAuthenticatedExtendedCard")
		return "0.3"
	}
	members(shared + "url protocolVersion preferredTransport security supportsAuthenticatedExtendedCard authentication")
	need("the card", c, "url")
	return "0.1"
}

func array(value any) []any {
	list, _ := value.([]any)
	return list
}
