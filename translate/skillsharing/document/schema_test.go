package document_test

import (
	"os"
	"testing"

	"github.com/go-json-experiment/json"
)

// The schema file holds the fourteen definitions of section 9.1, is about the
// descriptor at its root, and closes no object.
func TestSchemaFile(t *testing.T) {
	text, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Dialect string         `json:"$schema"`
		ID      string         `json:"$id"`
		Root    string         `json:"$ref"`
		Defs    map[string]any `json:"$defs"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Dialect != "https://json-schema.org/draft/2020-12/schema" || schema.ID != "https://skill-sharing.org/schema/draft/schema.json" || schema.Root != "#/$defs/SkillDescriptor" {
		t.Errorf("$schema %q, $id %q, $ref %q", schema.Dialect, schema.ID, schema.Root)
	}
	definitions := []string{
		"SkillDescriptor", "SkillIndex", "SkillIndexEntry", "InvocationRequest", "InvocationResponse", "ProtocolVersion", "CapabilityType",
		"AccessPolicy", "AuthType", "ExecutionStatus", "ParameterDefinition", "AuthConfig", "InvocationEndpoint", "OutputDefinition",
	}
	for _, d := range definitions {
		if schema.Defs[d] == nil {
			t.Errorf("no definition %s", d)
		}
	}
	if len(schema.Defs) != len(definitions) {
		t.Errorf("%d definitions, want %d", len(schema.Defs), len(definitions))
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				if member == false {
					t.Errorf("%s/%s is false: unknown members must stay legal", path, name)
				}
				walk(path+"/"+name, member)
			}
		case []any:
			for _, item := range v {
				walk(path, item)
			}
		}
	}
	walk("", schema.Defs)
}
