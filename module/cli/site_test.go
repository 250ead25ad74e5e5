package cli

import (
	"strings"
	"testing"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

const siteIndex = `{"$schema":"https://schemas.agentskills.io/discovery/0.2.0/schema.json","skills":[
	{"name":"pdf","type":"skill-md","description":"D","url":"pdf.md","digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}`

// TestSiteIndexIsRecognized: an index that is meant as one of Agent Skills is judged as such, and a $schema that is missing or wrong is said
// with the right value.
func TestSiteIndexIsRecognized(t *testing.T) {
	const uri = `"https://schemas.agentskills.io/discovery/0.2.0/schema.json"`
	for _, c := range []struct{ name, old, replaced, url string }{
		{"missing", `"$schema":` + uri + `,`, ``, ""},
		{"an earlier version", "0.2.0", "0.1.0", ""},
		{"another scheme", "https://schemas", "http://schemas", ""},
		{"another site", uri, `"https://json.example/x"`, ""},
		{"a number", uri, `1`, ""},
		{"no entries, by its path", siteIndex, `{"skills":[]}`, "https://docs.example.com/.well-known/agent-skills/index.json?a"},
	} {
		v := (&Validator{URL: c.url}).validate(t.Context(), []byte(strings.Replace(siteIndex, c.old, c.replaced, 1)), nil)
		if v.Valid || v.Kind != SiteIndex || len(v.Faults) != 1 || v.Faults[0].Path != "/$schema" || string(v.Faults[0].Expected) != uri {
			t.Errorf("%s: %+v", c.name, v)
		}
		if text := v.text(); !strings.Contains(text, "/$schema: ") || !strings.Contains(text, uri) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	for _, text := range []string{exampleIndex, `{"skills":[]}`, strings.Replace(exampleIndex, `"id"`, `"type":"api","id"`, 1)} {
		if v := (&Validator{}).validate(t.Context(), []byte(text), nil); v.Kind != Index {
			t.Errorf("%s: %+v", text, v)
		}
	}
	if v := (&Validator{Strict: true}).validate(t.Context(), []byte(siteIndex), nil); !v.Valid || v.Kind != SiteIndex {
		t.Errorf("%+v", v)
	}
}

// TestSiteIndexInManual: the index in the manual is valid, without warnings.
func TestSiteIndexInManual(t *testing.T) {
	read := 0
	for _, block := range manuals.Blocks(t, manuals.AgentSkills) {
		if block.Language != "json" {
			continue
		}
		read++
		if v := (&Validator{Strict: true}).validate(t.Context(), []byte(block.Text), nil); !v.Valid || v.Kind != SiteIndex {
			t.Errorf("%+v", v)
		}
	}
	if read == 0 {
		t.Error("the manual has no index")
	}
}

// TestSiteIndexShowsAllFaults: all faults of an entry of an index of Agent Skills are shown at once, with what the members are for.
func TestSiteIndexShowsAllFaults(t *testing.T) {
	v := (&Validator{}).validate(t.Context(), []byte(`{"skills":[{"name":"P","url":"ftp://x/","digest":"x"},{"name":"new","type":"plugin"}]}`), nil)
	const want = `invalid index of Agent Skills: 6 faults
  /$schema: is missing: an index without it has version 0.1.0 of Agent Skills Discovery, which has no digests, so that its files can't be checked
      about:    the version of the format, for example "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
      expected: "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
  /skills/0/type is missing: the form of the file: skill-md for a SKILL.md, archive for a .tar.gz or .zip with SKILL.md at its root, for example "skill-md"
  /skills/0/description is missing: what the skill is for, in words by which an agent chooses it, for example "Translates a text into another language."
  /skills/0/name: must have 1 to 64 of a-z, 0-9 and single hyphens between them
      about:    the name of the skill, the same as in its SKILL.md, for example "translate-text"
      actual:   "P"
  /skills/0/digest: must be sha256: and 64 lower case hexadecimal digits
      about:    the SHA-256 digest of the bytes of the file, for example "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
      actual:   "x"
  /skills/0/url: must be an http(s) URL, or relative to that of the index
      about:    where the file is, absolute or relative to the index, for example "translate-text/SKILL.md"
      actual:   "ftp://x/"
1 warning
  /skills/1/type: is not known: the bridge reads skill-md and archive, and ignores the entry
`
	if got := v.text(); !strings.HasPrefix(got, want) {
		t.Error(got)
	}
}
