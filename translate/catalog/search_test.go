package catalog

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog/search"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

// viewOf returns a view of a table with entries, whose names are their ids.
func viewOf(c *Catalog, principal string, entries ...document.IndexEntry) *View {
	s := &Section{Source: Source{Namespace: "x"}, catalog: c}
	t := &nameTable{section: s, byID: map[string]*Listed{}}
	for i := range entries {
		e := &entries[i]
		t.hides = t.hides || e.Access == document.Private
		t.entries = append(t.entries, &Listed{IndexEntry: e, Section: s, Name: e.ID, ID: e.ID, at: i, Hidden: e.Access == document.Private})
	}
	t.words.Index(len(t.entries), func(i int) search.Texts {
		e := t.entries[i]
		return search.Texts{Name: e.Name, Tags: search.TagsIn(e.Unknown), Title: e.IndexEntry.Name, Description: e.Description}
	})
	return &View{t, viewer{principal: principal}}
}

func TestSearch(t *testing.T) {
	c, err := New(nil, noObserver{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	skills := func() []document.IndexEntry {
		return []document.IndexEntry{
			{ID: "acme.forecast", Name: "Forecast", Description: "The WEATHER, tomorrow.", CapabilityType: document.API},
			{ID: "acme.hidden.weather", Name: "Hidden", Description: "Weather.", Access: document.Private, CapabilityType: document.API},
			{ID: "acme.radar", Name: "Weather radar", Description: "Rain.", CapabilityType: document.API},
			{ID: "acme.storms", Name: "Storms", Unknown: jsontext.Value(`{"tags":["severe weather"]}`), CapabilityType: document.Knowledge},
			{ID: "acme.tags", Name: "Tags", Unknown: jsontext.Value(`{"tags":"weather"}`), Description: "Prévisions, 天気予報", CapabilityType: document.API},
			{ID: "acme.weather", Name: "A", CapabilityType: document.API},
			{ID: "acme/weather_a", Name: "weather weather weather", CapabilityType: document.Knowledge},
		}
	}
	other := document.IndexEntry{ID: "beta.weather", Name: "B", Description: "weather", CapabilityType: document.API}
	for _, tc := range []struct {
		principal, query, want string
		limit                  int
		only                   document.CapabilityType
	}{
		{"", "weather", "acme.weather beta.weather acme/weather_a acme.storms acme.radar acme.forecast", 10, ""},
		{"alice", "weather", "acme.weather beta.weather acme.hidden.weather acme/weather_a", 4, ""},
		{"", "Weather?", "acme/weather_a acme.storms", 10, document.Knowledge},
		{"", "weather forecast", "acme.forecast", 2, ""},
		{"", "the weather of snow", "acme.weather acme/weather_a", 2, ""},
		{"", "severe", "acme.storms", 10, ""},
		{"", "PRE\u0301VISIONS", "acme.tags", 10, ""},
		{"", "天気", "acme.tags", 10, ""},
		{"", "hidden", "", 10, ""},
		{"", "weathe", "acme.weather acme/weather_a beta.weather acme.storms acme.radar acme.forecast", 10, ""},  // the beginning of a word
		{"", "waether", "acme.weather acme/weather_a beta.weather acme.storms acme.radar acme.forecast", 10, ""}, // a typo
		{"", "hiden", "", 10, ""},
		{"", "hidd", "", 10, ""},
		{"", "snow", "", 10, ""},
		{"", " ", "acme.forecast acme.radar acme.storms", 3, ""},
		{"", "?!", "", 3, ""},
		{"", "weather", "", 0, ""},
		{"", "weather", "", -1, ""},
		{"", strings.Repeat("x ", 600) + "weather", "", 1, ""}, // beyond what counts
	} {
		views := []*View{viewOf(c, tc.principal, other), viewOf(c, tc.principal, skills()...)}
		var got []string
		for _, e := range Search(t.Context(), views, tc.query, tc.limit, tc.only) {
			got = append(got, e.Name)
		}
		if list := strings.Join(got, " "); list != tc.want {
			t.Errorf("%q, %.20q: %s, want %s", tc.principal, tc.query, list, tc.want)
		}
	}
}

// BenchmarkSearch searches 10,000 skills of real names.
func BenchmarkSearch(b *testing.B) {
	_, views := largeCatalog(b)
	for _, query := range []string{"invoice", "create an invoice", "acme", ""} {
		b.Run(query, func(b *testing.B) {
			if len(Search(b.Context(), views, query, 20, "")) == 0 {
				b.Fatal("nothing found")
			}
			b.ReportAllocs()
			for b.Loop() {
				Search(b.Context(), views, query, 20, "")
			}
		})
	}
}
