package front_test

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/skill-bridge/caddy-skill-bridge/translate/front"
)

// TestCleanSchema: texts for people and models are visible; what calls are checked against stays as it is.
func TestCleanSchema(t *testing.T) {
	const hidden = `\u202e\u200b`
	for _, c := range []struct{ schema, omitted, want string }{
		{`{"title":"a` + hidden + `b"}`, "", `{"title":"ab"}`},
		{`{"x-notes":["a` + hidden + `b"],"y` + hidden + `":"c"}`, "", `{"x-notes":["ab"]}`},
		{`{"properties":{"p` + hidden + `":{"description":"a` + hidden + `b"}}}`, "", `{"properties":{"p` + hidden + `":{"description":"ab"}}}`},
		{`{"enum":["` + hidden + `"],"required":["` + hidden + `"],"const":"` + hidden + `"}`, "", `{"enum":["` + hidden + `"],"required":["` + hidden + `"],"const":"` + hidden + `"}`},
		{`{"default":{"k":["a` + hidden + `\nb",1]},"examples":["` + hidden + `c",{"enum":"` + hidden + `"}]}`, "", `{"default":{"k":["a\nb",1]},"examples":["c",{"enum":""}]}`},
		{`{"x":1,"allOf":[{"x":2}]}`, "x", `{"allOf":[{}]}`},
		{`{"title":"plain"}`, "x", `{"title":"plain"}`},
	} {
		if got := front.CleanSchema(jsontext.Value(c.schema), c.omitted); string(got) != c.want {
			t.Errorf("%s becomes %s", c.schema, got)
		}
	}
}
