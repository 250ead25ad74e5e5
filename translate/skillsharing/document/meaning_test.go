package document_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/skill-bridge/caddy-skill-bridge/translate/skillsharing/document"
)

func TestMeaning(t *testing.T) {
	for pointer, want := range map[string]struct{ about, example string }{
		"/id":                            {"The identifier of the skill, unique in the index of its provider.", `"acme/translate"`},
		"/provider/name":                 {"The name of the provider, for people.", `"Acme"`},
		"/endpoint":                      {"Where and how to invoke the skill.", `{"method":"POST","url":"https://acme.example.com/translate"}`},
		"/endpoint/retry/max_attempts":   {"How often an invocation may be sent, the first time included.", "3"},
		"/inputs/12/type":                {"The type of the value, one of the types of JSON Schema.", `"string"`},
		"/auth/custom/parameters/0/name": {"The name under which the value is sent.", `"text"`},
		"":                               {"The complete description of one skill (sections 3.2 and 3.3).", ""},
		"/inputs/0/schema/type":          {},
		"/inputs/0/default":              {},
		"/none":                          {},
		"/id/none":                       {},
		"no pointer":                     {},
	} {
		if got := document.MeaningInDescriptor(pointer); got.About != want.about || string(got.Example) != want.example {
			t.Errorf("%s: %+v", pointer, got)
		}
	}
	if got := document.MeaningInIndex("/skills/0/descriptor_url"); got.About != "The complete URL of the descriptor of the skill." {
		t.Errorf("%+v", got)
	}
	if got := document.MeaningInIndex("/provider/name"); got.About != "The name of the provider, for people." {
		t.Errorf("%+v", got)
	}
}

// TestExamplesAreValid: a descriptor and an index that are made of the examples of the schema are valid.
func TestExamplesAreValid(t *testing.T) {
	example := func(meaning func(string) document.Meaning, names ...string) string {
		members := make([]string, len(names))
		for i, name := range names {
			m := meaning("/" + name)
			members[i] = `"` + name[strings.LastIndex(name, "/")+1:] + `":` + string(m.Example)
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	descriptor := example(document.MeaningInDescriptor, "protocol", "id", "name", "version", "capability_type", "description", "provider", "endpoint", "inputs", "output",
		"auth", "access", "tags", "documentation_url", "created_at", "updated_at")
	for _, part := range []string{"", "endpoint", "output", "auth"} {
		text := descriptor
		switch part {
		case "endpoint":
			text = strings.Replace(text, string(document.MeaningInDescriptor("/endpoint").Example), example(document.MeaningInDescriptor, "endpoint/url", "endpoint/method",
				"endpoint/content_type", "endpoint/status_url", "endpoint/result_url", "endpoint/timeout_ms", "endpoint/retry"), 1)
		case "output":
			text = strings.Replace(text, string(document.MeaningInDescriptor("/output").Example), example(document.MeaningInDescriptor, "output/content_type", "output/schema", "output/description"), 1)
		case "auth":
			whole := example(document.MeaningInDescriptor, "auth/header", "auth/description", "auth/oauth2", "auth/custom")
			text = strings.Replace(text, string(document.MeaningInDescriptor("/auth").Example), `{"type":"oauth2",`+whole[1:], 1)
		}
		if _, err := document.ParseDescriptor([]byte(text)); err != nil {
			t.Errorf("%s: %v in %s", part, err, text)
		}
	}
	entry := example(document.MeaningInIndex, "skills/0/id", "skills/0/name", "skills/0/capability_type", "skills/0/description", "skills/0/descriptor_url", "skills/0/access", "skills/0/version")
	index := strings.Replace(example(document.MeaningInIndex, "protocol", "provider", "skills"), `"skills":[]`, `"skills":[`+entry+`]`, 1)
	if _, err := document.ParseIndex([]byte(index)); err != nil {
		t.Errorf("%v in %s", err, index)
	}
}

// TestMembersHaveMeanings: each member of a document has a description that can follow a colon, and an example.
func TestMembersHaveMeanings(t *testing.T) {
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Defs map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	sentence := regexp.MustCompile(`^[A-Z][a-z]+ .+\.$`)
	var walk func(path string, node map[string]any)
	walk = func(path string, node map[string]any) {
		properties, _ := node["properties"].(map[string]any)
		for name, member := range properties {
			object, ok := member.(map[string]any)
			if !ok {
				continue // a value of any type
			}
			examples, _ := object["examples"].([]any)
			description, _ := object["description"].(string)
			if len(examples) != 1 || !sentence.MatchString(description) {
				t.Errorf("%s/%s: %q, examples %v", path, name, description, examples)
			}
			walk(path+"/"+name, object)
		}
	}
	for _, name := range []string{"SkillDescriptor", "SkillIndex", "SkillIndexEntry", "ProtocolVersion", "ParameterDefinition", "AuthConfig", "InvocationEndpoint", "OutputDefinition"} {
		walk(name, file.Defs[name].(map[string]any))
	}
}
