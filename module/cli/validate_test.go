package cli

import (
	"strings"
	"testing"
)

// messages returns the paths and messages of faults, one on each line.
func messages(faults []fault) string {
	var b strings.Builder
	for _, f := range faults {
		b.WriteString(f.Path + " " + f.Message + "\n")
	}
	return b.String()
}

// TestUnlistedIDs: an index with an id that bridges do not list is not valid.
func TestUnlistedIDs(t *testing.T) {
	for _, c := range []struct{ id, want string }{
		{`acme/a\u200b`, "/skills/0/id bridges don't list the skill: its id has invisible characters"},
		{` acme/a`, "/skills/0/id bridges don't list the skill: its id begins or ends with a space"},
		{`acme/a\nb`, "/skills/0/id bridges don't list the skill: its id has invisible characters"},
	} {
		v := (&Validator{}).validate(t.Context(), []byte(strings.Replace(exampleIndex, "example/shout", c.id, 1)), nil)
		if v.Valid || !strings.Contains(messages(v.Faults), c.want) || v.Faults[0].About == "" {
			t.Errorf("%s: %+v", c.id, v)
		}
		v = (&Validator{}).validate(t.Context(), []byte(strings.Replace(plainDescriptor, "acme/a", c.id, 1)), nil)
		if !v.Valid || !strings.Contains(messages(v.Warnings), "/id is not listed by bridges: its id ") {
			t.Errorf("%s: %+v", c.id, v)
		}
	}
	if v := (&Validator{Strict: true}).validate(t.Context(), []byte(exampleIndex), nil); !v.Valid {
		t.Errorf("%+v", v)
	}
}

// TestWarningsWithFaults: a document with faults has the warnings about names, so that a misspelt required member is explained.
func TestWarningsWithFaults(t *testing.T) {
	for _, c := range []struct{ document, old, replaced, fault, warning string }{
		{plainDescriptor, `"required"`, `"reqired"`, "/inputs/0/required is required", "/inputs/0/reqired is no member of the protocol, so it is ignored; did you mean required?"},
		{plainDescriptor, `"description":"Does a."`, `"descriptn":"Does a."`, "/description is required", "/descriptn is no member of the protocol, so it is ignored; did you mean description?"},
		{plainDescriptor, `"version":"1.0.0","capability_type":"api"`, `"version":"1","capability_type":"api"`, "/version must be a version", ""},
		{plainDescriptor, `"url":"https://acme.example/a"`, `"url":"x","statusUrl":"https://acme.example/"`, "/endpoint/url must be", "/endpoint/statusUrl is no member of the protocol, so it is ignored; did you mean status_url?"},
		{exampleIndex, `"descriptor_url"`, `"descriptorUrl"`, "/skills/0/descriptor_url is required", "/skills/0/descriptorUrl is no member of the protocol, so it is ignored; did you mean descriptor_url?"},
	} {
		v := (&Validator{}).validate(t.Context(), []byte(strings.Replace(c.document, c.old, c.replaced, 1)), nil)
		if v.Valid || !strings.Contains(messages(v.Faults), c.fault) || !strings.Contains(messages(v.Warnings), c.warning) {
			t.Errorf("%s: %+v", c.replaced, v)
		}
	}
	if v := (&Validator{Kind: Index}).validate(t.Context(), []byte(`{"skills":[{`), nil); v.Valid || v.Warnings != nil {
		t.Errorf("%+v", v)
	}
}

// TestPatternsThatAreNotChecked: a regular expression that bridges do not evaluate, or that not all validators accept, is a warning.
func TestPatternsThatAreNotChecked(t *testing.T) {
	for schema, want := range map[string]string{
		`{"pattern":"^[a-z]+(?<!x)$"}`:                              "/inputs/0/schema/pattern can't be evaluated in linear time (lookbehind)",
		`{"anyOf":[{"patternProperties":{"(?=a)":true}}]}`:          "/inputs/0/schema/anyOf/0/patternProperties can't be evaluated in linear time (lookahead)",
		`{"pattern":"\\Aa\\Z"}`:                                     "/inputs/0/schema/pattern is only legal without the flag u",
		`{"pattern":"^\\s[^]$","properties":{"pattern":{},"a":{}}}`: "",
	} {
		text := strings.NewReplacer(`"type":"integer"`, `"type":"string","schema":`+schema, `,"default":1`, "").Replace(plainDescriptor)
		v := (&Validator{}).validate(t.Context(), []byte(text), nil)
		if got := messages(v.Warnings); !v.Valid || !strings.Contains(got, want) || strings.Contains(got, "/pattern") != (want != "") {
			t.Errorf("%s: %+v", schema, v)
		}
	}
}

// TestSchemaContradictsType: an input whose schema names other types than the input is a warning.
func TestSchemaContradictsType(t *testing.T) {
	for _, c := range []struct {
		replaced string
		warns    bool
	}{
		{`"type":"string","schema":{"type":"integer"}`, true},
		{`"type":"string","schema":{"type":["integer","boolean"]}`, true},
		{`"type":"string","schema":{"type":["string","null"]}`, false},
		{`"type":"number","schema":{"type":"integer"}`, false},
		{`"type":"string","schema":{"minLength":1}`, false},
	} {
		text := strings.NewReplacer(`"type":"integer"`, c.replaced, `,"default":1`, "").Replace(plainDescriptor)
		v := (&Validator{}).validate(t.Context(), []byte(text), nil)
		if got := strings.Contains(messages(v.Warnings), "/inputs/0/schema/type contradicts the type of the input, which is string"); !v.Valid || got != c.warns {
			t.Errorf("%s: %+v", c.replaced, v)
		}
	}
}
