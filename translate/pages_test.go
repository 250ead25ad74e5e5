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
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// pages reads all pages of a query, and returns the tool names of each.
func pages(t *testing.T, b *translate.Bridge, q translate.Query) (all [][]string) {
	t.Helper()
	for {
		l := b.List(t.Context(), q)
		var page []string
		for _, e := range l.Skills {
			page = append(page, e.Tool)
			if q.Descriptors >= q.Limit && e.Descriptor == nil {
				t.Errorf("%s has no descriptor", e.Tool)
			}
		}
		all = append(all, page)
		if q.AfterTool = l.NextAfter; q.AfterTool == "" {
			return all
		}
	}
}

// A page reads the descriptors of its skills only, and leaves out those that can't be called, with a notice.
func TestPagesOfTools(t *testing.T) {
	p := providertest.Start(t)
	var descriptors []object
	for i := range 25 {
		descriptors = append(descriptors, descriptor(fmt.Sprintf("acme/s%02d", i), object{"capability_type": []string{"api", "knowledge"}[i%2]}))
	}
	descriptors[3]["inputs"] = "none"
	descriptors[4] = providertest.Merge(descriptors[4], object{"protocol": object{"version": "9.0.0"}})
	descriptors[7]["access"] = "private"
	p.Publish(descriptors...)
	p.On("GET /skills/5.json", providertest.Answer(http.StatusInternalServerError, "{}"))
	direct := providertest.Start(t)
	direct.Publish(descriptor("x/other", nil))
	skill := direct.Source(t, "acme.s05.direct")
	skill.Kind, skill.URL = catalog.SkillSource, skill.URL.JoinPath("skills/0.json")
	r := new(recorder)
	bridge := newBridgeWith(t, r, p.Source(t, "acme"), skill)

	q := translate.Query{Limit: 10, Descriptors: 10}
	first := bridge.List(t.Context(), q)
	if first.NextAfter != "acme_s09" || first.Read != 2 || len(first.Unavailable) != 0 || first.FreshUntil.IsZero() {
		t.Errorf("%+v", first)
	}
	for i := range 25 {
		want := 1
		if i >= 10 || i == 7 {
			want = 0
		}
		if i == 5 {
			want = len(p.Requests("GET /skills/5.json")) // also repetitions
		}
		p.Received(t, fmt.Sprintf("GET /skills/%d.json", i), want)
	}
	var left []string
	for _, n := range r.notices {
		if strings.Contains(n.Message, "not listed as a tool") {
			left = append(left, n.Attrs[0].Value.String())
		}
	}
	slices.Sort(left)
	if want := []string{"acme.s03", "acme.s04", "acme.s05"}; !slices.Equal(left, want) {
		t.Errorf("notices about %q", left)
	}
	anonymous := []string{
		"acme_s00 acme_s01 acme_s02 acme_s05_direct acme_s06 acme_s08 acme_s09", "acme_s10 acme_s11 acme_s12 acme_s13 acme_s14 acme_s15 acme_s16 acme_s17 acme_s18 acme_s19",
		"acme_s20 acme_s21 acme_s22 acme_s23 acme_s24",
	}
	for i, page := range pages(t, bridge, q) {
		if got := strings.Join(page, " "); i >= len(anonymous) || got != anonymous[i] {
			t.Errorf("page %d: %s", i, got)
		}
	}
	q = translate.Query{Caller: run.Caller{Principal: "alice"}, Limit: 8, CapabilityType: document.Knowledge, Namespace: "acme"}
	knowledge := []string{"acme_s01 acme_s03 acme_s05 acme_s07 acme_s09 acme_s11 acme_s13 acme_s15", "acme_s17 acme_s19 acme_s21 acme_s23"}
	for i, page := range pages(t, bridge, q) {
		if got := strings.Join(page, " "); i >= len(knowledge) || got != knowledge[i] {
			t.Errorf("page %d of knowledge: %s", i, got)
		}
	}
	var named []string
	for q = (translate.Query{Caller: q.Caller, Limit: 5, ByName: true, CapabilityType: document.Knowledge}); len(named) < 25; {
		l := bridge.List(t.Context(), q)
		for _, e := range l.Skills {
			named = append(named, e.Name)
		}
		if q.AfterName = l.NextAfter; q.AfterName == "" {
			break
		}
		if len(l.Skills) != q.Limit {
			t.Errorf("a page of %d before another one", len(l.Skills))
		}
	}
	if got := strings.Join(named, " "); got != "acme.s01 acme.s03 acme.s05 acme.s07 acme.s09 acme.s11 acme.s13 acme.s15 acme.s17 acme.s19 acme.s21 acme.s23" {
		t.Errorf("by name: %s", got)
	}
	if l := bridge.List(t.Context(), translate.Query{Limit: 3, AfterTool: "zzz"}); len(l.Skills) > 0 || l.NextAfter != "" {
		t.Errorf("after the last: %+v", l)
	}
}

// Tool names are names for all calls.
func TestCallsByToolNames(t *testing.T) {
	p := plain(t, "rooms/book", "rooms_book", "x")
	other := plain(t, "acme_x", "y")
	protected := plain(t, "z")
	closed := protected.Source(t, "closed")
	closed.RequirePrincipal = true
	bridge := newBridge(t, p.Source(t, "acme"), other.Source(t, "other"), closed)
	for _, page := range pages(t, bridge, translate.Query{Caller: run.Caller{Principal: "alice"}, Limit: 2}) {
		for _, tool := range page {
			d, failure := bridge.Describe(t.Context(), translate.Call{Caller: run.Caller{Principal: "alice"}, Name: tool})
			if failure != nil || d.Tool != tool {
				t.Fatalf("%s: %+v, %v", tool, d, failure)
			}
			o := bridge.Start(t.Context(), translate.Call{Caller: run.Caller{Principal: "alice"}, Name: tool}).Wait()
			if o.Failure != nil || string(o.Output) != `"`+d.Descriptor.ID+`"` {
				t.Errorf("%s: %s, %v", tool, o.Output, o.Failure)
			}
			if name, failure := bridge.Find(t.Context(), tool, "alice"); failure != nil || name != d.Name {
				t.Errorf("%s: %s, %v", tool, name, failure)
			}
		}
	}
	if o := bridge.Start(t.Context(), translate.Call{Name: "acme_x"}).Wait(); string(o.Output) != `"x"` { // and not the id of the other
		t.Errorf("%s, %v", o.Output, o.Failure)
	}
	if o := bridge.Start(t.Context(), translate.Call{Name: "closed_z"}).Wait(); o.Failure == nil || o.Failure.Kind != run.AuthRequired {
		t.Errorf("%+v", o.Failure)
	}
	if o := bridge.Start(t.Context(), translate.Call{Name: "acme_rooms_book"}).Wait(); o.Failure == nil || o.Failure.Kind != run.SkillNotFound {
		t.Errorf("two skills could have the name: %+v", o.Failure)
	}
}

// A search ranks the skills of all sources, and reads the descriptors of its results only.
func TestSearch(t *testing.T) {
	p := providertest.Start(t)
	p.Publish(
		descriptor("acme/weather", nil), descriptor("acme/alert", object{"description": "Severe weather."}), descriptor("acme/secret", object{"access": "private", "name": "Weather"}),
		descriptor("acme/other", nil), descriptor("acme/bad", object{"name": "weather", "inputs": "none"}),
	)
	direct, down := providertest.Start(t), providertest.Start(t)
	direct.Publish(descriptor("x/other", object{"tags": []any{"weather"}}))
	skill := direct.Source(t, "direct")
	skill.Kind, skill.URL = catalog.SkillSource, skill.URL.JoinPath("skills/0.json")
	bridge := newBridge(t, p.Source(t, "acme"), skill, down.Source(t, "down"))
	for principal, want := range map[string]string{"": "acme_weather direct acme_alert", "alice": "acme_weather direct acme_secret acme_alert"} {
		l := bridge.Search(t.Context(), translate.Query{Caller: run.Caller{Principal: principal}, Descriptors: 10}, "the weather", 10)
		var got []string
		for _, e := range l.Skills {
			if got = append(got, e.Tool); e.Descriptor == nil {
				t.Errorf("%s has no descriptor", e.Tool)
			}
		}
		if strings.Join(got, " ") != want || len(l.Unavailable) != 1 || l.Read != 2 || l.NextAfter != "" {
			t.Errorf("%q: %q, %+v", principal, got, l.Unavailable)
		}
	}
	p.Received(t, "GET /skills/3.json", 0)
	if l := bridge.Search(t.Context(), translate.Query{Namespace: "direct"}, "weather", 10); len(l.Skills) != 1 || l.Skills[0].Descriptor != nil {
		t.Errorf("%+v", l)
	}
}

// TestSearchTags: a search finds skills by the tags of the descriptors that were read, and by their new tags.
func TestSearchTags(t *testing.T) {
	p := providertest.Start(t, providertest.Skill("acme/books", object{"tags": []string{"Billing"}}), providertest.Skill("acme/other", nil))
	b := newBridge(t, p.Source(t, "acme"))
	found := func(words string) (names []string) {
		for _, e := range b.Search(t.Context(), translate.Query{}, words, 5).Skills {
			names = append(names, e.Name)
		}
		return names
	}
	if names := found("billing"); names != nil {
		t.Errorf("not read: %v", names)
	}
	read := func() {
		if _, failure := b.Describe(t.Context(), translate.Call{Name: "acme.books"}); failure != nil {
			t.Fatal(failure)
		}
	}
	if read(); !slices.Equal(found("bills"), []string{"acme.books"}) {
		t.Errorf("read: %v", found("bills"))
	}
	p.Publish(providertest.Skill("acme/books", object{"tags": []string{"ledger"}}), providertest.Skill("acme/other", nil))
	b.Catalog().Purge(t.Context(), "acme", "acme/books")
	if read(); !slices.Equal(found("ledger"), []string{"acme.books"}) || found("billing") != nil {
		t.Errorf("read again: %v, %v", found("ledger"), found("billing"))
	}
}
