package command_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/skill-bridge/caddy-skill-bridge/module/testkit/manuals"
)

// schemaOfHandlers compiles what the command schema writes.
func schemaOfHandlers(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:handlers", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema:handlers")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// handlersOf calls a function for each handler of this project in a configuration.
func handlersOf(value any, each func(name string, handler any)) {
	switch v := value.(type) {
	case map[string]any:
		if name, _ := v["handler"].(string); name == "skill_bridge" || name == "skill_publish" {
			each(name, v)
			return
		}
		for _, member := range v {
			handlersOf(member, each)
		}
	case []any:
		for _, element := range v {
			handlersOf(element, each)
		}
	}
}

// The handlers of all examples, and those with all options, are as the schema says.
func TestSchemaOfExamples(t *testing.T) {
	schema, root := schemaOfHandlers(t), manuals.Repository(t)
	files, err := filepath.Glob(filepath.Join(root, "caddyfile-examples", "*.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(root, "testdata/adapt/everything.caddyfiletest"), filepath.Join(root, "testdata/adapt/publish/everything.caddyfiletest"))
	found := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		caddyfile, _, _ := strings.Cut(string(text), "----------\n") // what follows is the JSON of a golden file
		config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": file})
		if err != nil {
			if !strings.Contains(err.Error(), "skill_bridge_demo") {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
		if err != nil {
			t.Fatal(err)
		}
		handlersOf(value, func(name string, handler any) {
			found[name]++
			if err := schema.Validate(handler); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		})
	}
	if found["skill_bridge"] < 15 || found["skill_publish"] < 2 {
		t.Errorf("only %v were found", found)
	}
}

// What Caddy would refuse because of a name or a type, the schema refuses, too.
func TestSchemaRefuses(t *testing.T) {
	schema := schemaOfHandlers(t)
	for text, valid := range map[string]bool{
		`{"handler":"skill_bridge"}`: true,
		`{"handler":"skill_bridge","providers":[{"origin":"https://a.example.com","credentials":{"type":"api_key","key":"k"}}]}`: true,
		`{"handler":"skill_bridge","timeout":"90s","max_timeout":1}`:                                                             true,
		`{"handler":"skill_publish","openapi":[{"location":"a.yaml","include":["x"]}]}`:                                          true,
		`{}`:                          false,
		`{"handler":"skill_bridges"}`: false,
		`{"handler":"skill_bridge","provider":[]}`:                                                 false,
		`{"handler":"skill_bridge","providers":{}}`:                                                false,
		`{"handler":"skill_bridge","providers":[{"url":"x"}]}`:                                     false,
		`{"handler":"skill_bridge","audit":"yes"}`:                                                 false,
		`{"handler":"skill_bridge","max_batch":1.5}`:                                               false,
		`{"handler":"skill_bridge","timeout":true}`:                                                false,
		`{"handler":"skill_bridge","store":{"type":"mysql"}}`:                                      false,
		`{"handler":"skill_bridge","store":{"type":"memory","x":1}}`:                               false,
		`{"handler":"skill_bridge","providers":[{"credentials":{"type":"api_key","secret":"k"}}]}`: false,
		`{"handler":"skill_bridge","transport":{}}`:                                                false,
		`{"handler":"skill_publish","providers":[]}`:                                               false,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}
