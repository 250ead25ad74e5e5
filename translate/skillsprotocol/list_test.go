package skillsprotocol_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/translate"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/run"
)

type listPage struct {
	Skills []struct {
		Name string `json:"name"`
	} `json:"skills"`
	NextCursor *string `json:"next_cursor"`
}

func TestListDetails(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{Skills: entries(1)}}
	for params, want := range map[string]string{
		``:                   `{"skills":[{"name":"corp.skill-1000","version":"1.0.1000","description":"Does 1000.","state":"unknown"}],"next_cursor":null}`,
		`{}`:                 `{"skills":[{"name":"corp.skill-1000","version":"1.0.1000","description":"Does 1000.","state":"unknown"}],"next_cursor":null}`,
		`{"detail":"names"}`: `{"skills":[{"name":"corp.skill-1000","version":"1.0.1000","description":"Does 1000.","state":"unknown"}],"next_cursor":null}`,
		`{"detail":"summary"}`: `{"skills":[{"name":"corp.skill-1000","version":"1.0.1000","description":"Does 1000.","state":"unknown","namespace":"corp",` +
			`"kind":"action","capability_type":"api","access":"public"}],"next_cursor":null}`,
	} {
		if got := result(t, b, "list_skills", params); got != want {
			t.Errorf("%s: %s", params, got)
		}
	}
}

// The answers for an unknown namespace and for a namespace without skills differ.
func TestListUnknownNamespace(t *testing.T) {
	b := &fakeBridge{namespaces: []string{"acme", "corp"}}
	if got := result(t, b, "list_skills", `{"namespace":"corp"}`); got != `{"skills":[],"next_cursor":null}` {
		t.Error(got)
	}
	for namespaces, hint := range map[string]string{
		"acme corp": `"candidates":["acme","corp"],"message":"no source has the namespace 'no pe'; the namespaces are 'acme', 'corp'"`,
		strings.TrimSpace(strings.Repeat("x ", 21)): `"message":"no source has the namespace 'no pe'; load_skills_protocol_guide names the namespaces"`,
	} {
		b.namespaces = strings.Fields(namespaces)
		if got, want := result(t, b, "list_skills", `{"namespace":"no\npe"}`), `{"skills":[],"next_cursor":null,"hint":{"param":"namespace","reason":"not_found",`+hint+`}}`; got != want {
			t.Error(got)
		}
	}
}

func TestListWithoutUsableSkills(t *testing.T) {
	for params, want := range map[string]bool{`{"usable":true}`: true, `{"detail":"tools"}`: true, `{}`: false, `{"usable":true,"namespace":"nope"}`: false} {
		if got := result(t, &fakeBridge{}, "list_skills", params); strings.Contains(got, `"hint":{"message":"skills that can't be called are left out`) != want {
			t.Errorf("%s: %s", params, got)
		}
	}
}

func TestListQuery(t *testing.T) {
	b := &fakeBridge{}
	result(t, b, "list_skills", `{"namespace":"corp","name":7}`)
	if b.queries[0].Namespace != "corp" {
		t.Errorf("%+v", b.queries)
	}
}

func TestListLimits(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{Skills: entries(120)}}
	for params, want := range map[string]int{
		`{}`: 50, `{"limit":50.0}`: 50, `{"limit":5e1}`: 50, `{"limit":1}`: 1, `{"limit":1000}`: 120, `{"limit":119}`: 119, `{"limit":120}`: 120,
	} {
		page := decode[listPage](t, result(t, b, "list_skills", params))
		if len(page.Skills) != want || (page.NextCursor == nil) != (want == 120) {
			t.Errorf("%s: %d skills, next %v", params, len(page.Skills), page.NextCursor)
		}
	}
}

func TestListPages(t *testing.T) {
	all := entries(120)
	for _, c := range []struct {
		name   string
		change func([]catalog.Entry) []catalog.Entry // between the pages
		gone   string
	}{
		{"nothing changes", func(s []catalog.Entry) []catalog.Entry { return s }, ""},
		{"the last skill of the first page vanishes", func(s []catalog.Entry) []catalog.Entry { return slices.Delete(s, 49, 50) }, ""},
		{"a skill of the first page vanishes", func(s []catalog.Entry) []catalog.Entry { return slices.Delete(s, 3, 4) }, ""},
		{"a skill of the second page vanishes", func(s []catalog.Entry) []catalog.Entry { return slices.Delete(s, 60, 61) }, all[60].Name},
		{"one comes before", func(s []catalog.Entry) []catalog.Entry {
			return slices.Insert(s, 0, catalog.Entry{Name: "a"})
		}, ""},
	} {
		b := &fakeBridge{listing: translate.Listing{Skills: slices.Clone(all)}}
		var names []string
		params, pages := `{"limit":50}`, 0
		for {
			page := decode[listPage](t, result(t, b, "list_skills", params))
			pages++
			for _, s := range page.Skills {
				names = append(names, s.Name)
			}
			if page.NextCursor == nil {
				break
			}
			if pages == 1 {
				b.listing.Skills = c.change(b.listing.Skills)
			}
			params = `{"limit":50,"cursor":"` + *page.NextCursor + `"}`
		}
		var want []string
		for _, e := range all {
			if e.Name != c.gone {
				want = append(want, e.Name)
			}
		}
		if pages != 3 || !slices.Equal(names, want) {
			t.Errorf("%s: %d pages, %d names", c.name, pages, len(names))
		}
	}
}

func TestListEverythingAfterVanished(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{Skills: entries(3)}}
	page := decode[listPage](t, result(t, b, "list_skills", `{"limit":2}`))
	b.listing.Skills = nil
	if got := result(t, b, "list_skills", `{"cursor":"`+*page.NextCursor+`"}`); got != `{"skills":[],"next_cursor":null}` {
		t.Error(got)
	}
}

func TestListUnavailable(t *testing.T) {
	b := &fakeBridge{listing: translate.Listing{
		Skills: entries(1),
		Unavailable: []catalog.Unavailable{
			{Namespace: "down", Failure: &run.Failure{Kind: run.Unreachable, Message: "Can't\nconnect"}},
			{Namespace: "broken", Failure: &run.Failure{Kind: run.InvalidDocument, Message: strings.Repeat("x", 5000)}},
			{Namespace: "odd", Failure: &run.Failure{Kind: run.Internal}},
			{Namespace: "empty"},
		},
	}}
	got := decode[struct {
		Unavailable []struct{ Namespace, Code, Message string } `json:"unavailable"`
	}](t, strings.NewReplacer(`"namespace"`, `"Namespace"`, `"code"`, `"Code"`, `"message"`, `"Message"`).Replace(result(t, b, "list_skills", "")))
	if len(got.Unavailable) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct{ namespace, code string }{
		{"down", "ENDPOINT_UNREACHABLE"}, {"broken", "VALIDATION_ERROR"}, {"odd", "INTERNAL_ERROR"}, {"empty", "INTERNAL_ERROR"},
	} {
		u := got.Unavailable[i]
		if u.Namespace != want.namespace || u.Code != want.code || u.Message == "" || len(u.Message) > 1010 {
			t.Errorf("%+v", u)
		}
	}
	if got.Unavailable[0].Message != "Can't connect" {
		t.Error(got.Unavailable[0].Message)
	}
}
