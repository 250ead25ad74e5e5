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

// configurations compiles what the command schema writes.
func configurations(t *testing.T) (schema *jsonschema.Schema, document map[string]any) {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), "caddy", "skill-bridge", "schema").Output()
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema:caddy", value); err != nil {
		t.Fatal(err)
	}
	if schema, err = c.Compile("schema:caddy"); err != nil {
		t.Fatal(err)
	}
	return schema, value.(map[string]any)
}

// The configurations of all examples, those with all options, and those of Caddy's own tests are as the schema says.
func TestSchemaOfExamples(t *testing.T) {
	schema, _ := configurations(t)
	root, caddyRoot := manuals.Repository(t), strings.TrimSpace(goList(t, "github.com/caddyserver/caddy/v2"))
	checked := 0
	for _, pattern := range []string{
		filepath.Join(root, "caddyfile-examples/*.Caddyfile"), filepath.Join(root, "testdata/adapt/*.caddyfiletest"),
		filepath.Join(root, "testdata/adapt/publish/*.caddyfiletest"), filepath.Join(caddyRoot, "caddytest/integration/caddyfile_adapt/*.caddyfiletest"),
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			caddyfile, _, _ := strings.Cut(strings.ReplaceAll(string(text), "\r", ""), "----------\n") // what follows is the JSON of a golden file
			config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": file})
			if err != nil { // a golden file of an error, or one with the demo provider
				continue
			}
			value, err := jsonschema.UnmarshalJSON(bytes.NewReader(config))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			checked++
		}
	}
	if checked < 220 {
		t.Errorf("only %d were checked", checked)
	}
}

func goList(t *testing.T, module string) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(folder)
}

// What Caddy would refuse because of a name or a type, the schema refuses, too.
func TestSchemaRefuses(t *testing.T) {
	schema, _ := configurations(t)
	for text, valid := range map[string]bool{
		`{"handler":"skill_bridge"}`:           true,
		`{"handler":"skill_bridge","@id":"b"}`: true,
		`{"handler":"skill_bridge","providers":[{"origin":"https://a.example.com","credentials":{"type":"api_key","key":"k"}}]}`: true,
		`{"handler":"skill_bridge","timeout":"90s","max_timeout":1}`:                                                             true,
		`{"handler":"skill_publish","openapi":[{"location":"a.yaml","include":["x"]}]}`:                                          true,
		`{"handler":"static_response","body":"x"}`:                                                                               true,
		`{}`:                          false,
		`{"handler":"skill_bridges"}`: false,
		`{"handler":"static_response","providers":[]}`:                                             false,
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
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"apps":{"http":{"servers":{"s":{"routes":[{"match":[{"path":["/x"]}],"handle":[` + text + `]}]}}}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Each member of what this project configures has the text of the comment of its field: a file with such types is not missing in the program.
func TestSchemaDescribes(t *testing.T) {
	_, document := configurations(t)
	described := 0
	for name, definition := range document["$defs"].(map[string]any) {
		properties, _ := definition.(map[string]any)["properties"].(map[string]any)
		if !strings.Contains(name, "skill_bridge") && !strings.Contains(name, "skill_publish") && !strings.HasPrefix(name, "github.com.skill-bridge.caddy-skill-bridge.module.") {
			continue
		}
		for member, schema := range properties {
			o, _ := schema.(map[string]any)
			if text, _ := o["description"].(string); len(text) > 10 {
				described++
			} else if o["const"] == nil {
				t.Errorf("%s: %s is not described: name its file in module/documentation.go", name, member)
			}
		}
	}
	handler := document["$defs"].(map[string]any)["http.handlers.skill_publish"].(map[string]any)
	path := handler["properties"].(map[string]any)["path"].(map[string]any)["description"]
	if path != "The path under which descriptors, invocations and runs are served. Default: `/skill-sharing`." || described < 150 || !strings.Contains(handler["description"].(string), "\n\nWhat callers can take") {
		t.Errorf("%d, %q, %q", described, path, handler["description"])
	}
}
