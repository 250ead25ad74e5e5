package card_test

import (
	stdjson "encoding/json" // what many clients read cards with
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/longtest"
	"github.com/skill-bridge/caddy-skill-bridge/translate/a2a/card"
	"github.com/skill-bridge/caddy-skill-bridge/translate/catalog"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/inputs"
)

// maxCard is more than a card may have, in bytes.
const maxCard = 12 << 20

// check fails unless a card is valid for all readers, within its bound, and without invisible characters.
func check(t *testing.T, c *card.Card) map[string]any {
	t.Helper()
	text := c.JSON()
	if len(text) > maxCard {
		t.Fatalf("the card has %d bytes", len(text))
	}
	for at, r := range string(text) {
		if !unicode.IsPrint(r) && r != '\u200c' && r != '\u200d' && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) && !unicode.Is(unicode.Zs, r) && r != unicode.ReplacementChar {
			t.Fatalf("%U at byte %d of %.3000s", r, at, text)
		}
	}
	validate(t, text)
	var standard map[string]any
	if err := stdjson.Unmarshal(text, &standard); err != nil {
		t.Fatalf("%v: %.3000s", err, text)
	}
	if depth := depthOf(standard); depth > 100 {
		t.Fatalf("the card nests %d levels", depth)
	}
	return standard
}

func depthOf(value any) int {
	deepest := 0
	switch v := value.(type) {
	case map[string]any:
		for _, member := range v {
			deepest = max(deepest, 1+depthOf(member))
		}
	case []any:
		for _, element := range v {
			deepest = max(deepest, 1+depthOf(element))
		}
	}
	return deepest
}

// TestHostileDescriptors: what a descriptor says neither breaks the card for all skills, nor makes it large, nor hides in it.
func TestHostileDescriptors(t *testing.T) {
	huge := strings.Repeat("\u202e<b>\x00\u200bé", 20_000)
	var tags []string
	for i := range 1000 {
		tags = append(tags, fmt.Sprint(i, huge))
	}
	var params []document.Parameter
	for i := range 500 {
		params = append(params, document.Parameter{
			Name: fmt.Sprint("p", i, "\u202e"), Type: "string", Required: true, Description: strings.Repeat("long ", 1000),
			Schema: jsontext.Value(fmt.Sprintf(`{"contentEncoding":"base64","contentMediaType":"x/%d","minLength":1e9}`, i)),
		})
	}
	texts := func(d *document.Descriptor) {
		d.Name, d.Description, d.Tags, d.Inputs = huge, huge, tags, params
		d.Output = document.Output{ContentType: "text/\u202eplain; q=\"" + huge, Schema: jsontext.Value(`{"title":"\u202e\u200b\u0000"}`)}
	}
	schemaOf := func(text string) func(*document.Descriptor) {
		return func(d *document.Descriptor) { d.Output.Schema = jsontext.Value(text) }
	}
	b := &bridge{}
	b.set(
		entry("acme.texts", texts), entry("acme.\u202egnp.exe", nil), entry("acme.number", schemaOf(`{"maximum":1e999}`)),
		entry("acme.deep", schemaOf(strings.Repeat(`{"items":`, 90)+"{}"+strings.Repeat("}", 90))),
		entry("acme.large", schemaOf(`{"enum":["`+strings.Repeat("x", 4<<20)+`"]}`)), entry("acme.true", schemaOf("true")),
		entry("acme.fine", nil),
	)
	builder := newBuilder(t, b, card.Config{})
	c := check(t, cardOf(t, builder, request(nil)))
	extension := c["capabilities"].(map[string]any)["extensions"].([]any)[0].(map[string]any)
	skills := extension["params"].(map[string]any)["skills"].(map[string]any)
	for name, want := range map[string]bool{"acme.fine": true, "acme.number": false, "acme.deep": false, "acme.large": false, "acme.true": false} {
		members := skills[name].(map[string]any)
		if (members["outputSchema"] != nil) != want || members["inputSchema"] == nil {
			t.Errorf("%s: %v", name, members)
		}
	}
	for _, s := range c["skills"].([]any) {
		s := s.(map[string]any)
		if s["id"] == "acme.texts" {
			if n := len(s["tags"].([]any)); n > 20 || len(s["description"].(string)) > 4000 || len(fmt.Sprint(s)) > 20_000 {
				t.Errorf("%d tags in %.1000v", n, s)
			}
		}
	}
	for _, name := range []string{"acme.texts", "acme.large", "acme.deep"} {
		check(t, cardOf(t, builder, request(func(r *card.Request) { r.Skill = name })))
		check(t, cardOf(t, builder, request(func(r *card.Request) { r.Skill, r.Old = name, true })))
	}
	var many []catalog.Entry
	for i := range 200 {
		many = append(many, entry(fmt.Sprintf("acme.s%03d", i), texts))
	}
	b.set(many...)
	for _, d := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { // however slow the machine is, the time for a card does not end
			check(t, cardOf(t, newBuilder(t, b, card.Config{}), request(func(r *card.Request) { r.Old = d })))
		})
	}
}

// TestSchemasInCards: what people read in the schemas of a card is visible, and what calls are checked against is as the provider has it.
func TestSchemasInCards(t *testing.T) {
	const hidden = `\u202e\u200b`
	b := &bridge{}
	b.set(entry("acme.shown", func(d *document.Descriptor) {
		d.Inputs = []document.Parameter{{Name: "n\u202e", Type: "string", Description: "The\u202e n.", Required: true, Schema: jsontext.Value(`{"title":"T` + hidden + `","default":"d` + hidden + `"}`)}}
		d.Output.Schema = jsontext.Value(`{"title":"O` + hidden + `","$comment":"` + strings.Repeat("é", 3000) + `","properties":{"p` + hidden + `":{"description":"P` + hidden + `","enum":["e` + hidden + `"]}}}`)
	}))
	for _, version := range []string{"", "1.0", "0.3"} {
		c := check(t, cardOf(t, newBuilder(t, b, card.Config{}), request(func(r *card.Request) { r.Version = version })))
		extension := c["capabilities"].(map[string]any)["extensions"].([]any)[0].(map[string]any)
		shown := extension["params"].(map[string]any)["skills"].(map[string]any)["acme.shown"].(map[string]any)
		input := shown["inputSchema"].(map[string]any)["properties"].(map[string]any)[inputs.ModelNames([]document.Parameter{{Name: "n\u202e"}})[0]].(map[string]any)
		output := shown["outputSchema"].(map[string]any)
		p := output["properties"].(map[string]any)["p\u202e\u200b"].(map[string]any)
		got := []any{input["description"], input["title"], input["default"], output["title"], p["description"], p["enum"].([]any)[0]}
		if want := []any{"The n.", "T", "d", "O", "P", "e\u202e\u200b"}; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
		if n := len([]rune(output["$comment"].(string))); n > 2000 {
			t.Errorf("a text of %d characters", n)
		}
	}
}

// TestManySkills: a card has 10,000 skills without their descriptors, and more only as far as they fit.
func TestManySkills(t *testing.T) {
	for _, c := range []struct {
		count    int
		text     string
		allShown bool
	}{{10_000, "Does something.", true}, {10_000, strings.Repeat("漢字", 1000), true}, {50_000, strings.Repeat("漢字", 1000), false}} {
		if c.count == 10_000 && len(c.text) > 1000 && !longtest.Runs(longtest.Long) {
			continue
		}
		b := &bridge{}
		var many []catalog.Entry
		for i := range c.count {
			many = append(many, catalog.Entry{Name: fmt.Sprintf("acme.skill-%05d", i), Title: c.text, Namespace: "acme", Description: c.text, CapabilityType: document.API})
		}
		b.set(many...)
		var members map[string]any
		synctest.Test(t, func(t *testing.T) { members = check(t, cardOf(t, newBuilder(t, b, card.Config{}), request(nil))) })
		shown := len(members["skills"].([]any))
		if (shown == c.count) != c.allShown || c.allShown == strings.Contains(members["description"].(string), "skills.") {
			t.Errorf("%d of %d skills: %s", shown, c.count, members["description"])
		}
	}
}

// FuzzCard makes cards of descriptors with any texts and schemas.
func FuzzCard(f *testing.F) {
	f.Add("acme.a", "A", "Does a.", "tag", "text/plain", `{"type":"string"}`, uint8(1))
	f.Add("acme.\u202e", "\x00", "\xff\u2028", "", "a/b;c=\"\u200b\"", `{"enum":["",null,{},[],1e308,"\ud83d\ude00"]}`, uint8(0))
	f.Add("", "", "", "<script>", "", `{"contentEncoding":"base64","contentMediaType":"image/*","minItems":1e9,"type":"array"}`, uint8(2))
	f.Fuzz(func(t *testing.T, name, title, description, tag, contentType, schema string, form uint8) {
		if !jsontext.Value(schema).IsValid() || len(name) == 0 || len(name) > 600 {
			t.Skip()
		}
		raw := jsontext.Value(schema)
		_ = raw.Compact()
		b := &bridge{}
		b.set(entry(name, func(d *document.Descriptor) {
			d.Name, d.Description, d.Tags, d.Version = title, description, []string{tag, tag}, tag
			d.Output = document.Output{ContentType: contentType, Schema: raw}
			d.Inputs = []document.Parameter{{Name: title, Type: tag, Description: description, Required: true, Schema: raw}}
		}))
		builder := newBuilder(t, b, card.Config{Push: form&1 == 0})
		r := request(func(r *card.Request) {
			r.Version, r.Old = []string{"", "1.0", "0.3"}[form%3], form%2 == 1
		})
		whole := cardOf(t, builder, r)
		check(t, whole)
		r.Skill = name
		check(t, cardOf(t, builder, r))
		if again := cardOf(t, newBuilder(t, b, card.Config{Push: form&1 == 0}), request(func(q *card.Request) { *q = r; q.Skill = "" })); again.ETag != whole.ETag || string(again.JSON()) != string(whole.JSON()) {
			t.Error("the same skills have two cards")
		}
	})
}
